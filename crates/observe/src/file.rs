//! Saved snapshots: JSON files, compressed with zstd if their name ends in `.zst`.
//!
//! Neighbours: [`crate::snapshot`] defines what is saved. Keys are added and never renamed: files
//! of all earlier versions stay readable, and a reader skips unknown keys. This module also opens
//! dumps of kernels' caches, made by scripts. [`put`], which other modules use too, writes a file
//! in full under a temporary name and then renames it; a reader recognises the format by the
//! contents, not by the name. Invariant: a snapshot read from a file satisfies the invariants of
//! [`crate::snapshot`].

use crate::incident::Incident;
use crate::kernel::Dumps;
use crate::pasted::archive::{self, Unpacked};
use crate::pasted::{self, Unread};
use crate::snapshot::{FORMAT, Snapshot};
use crate::value::Value;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Far more than a machine with thousands of caches and CPUs has to say.
const MAX_BYTES: u64 = 256 << 20;
/// What packed files begin with, and who packs them.
const PACKED: [(&[u8], &str); 3] =
    [(&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz"), (&[0x1f, 0x8b], "gzip"), (b"BZh", "bzip2")];
/// What each file of ours begins with.
const BEGIN: &str = "{\"format\":";

/// Why a snapshot was not saved or opened.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        path: PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {path}: {error}")]
    Write {
        path: PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
    #[error("{path} is not a snapshot: {what}; `slabyard snapshot SOURCE -o FILE` makes one")]
    NotASnapshot { path: PathBuf, what: String },
    #[error("{path} is truncated: it ends {at}; take the snapshot again, or copy it again")]
    Truncated { path: PathBuf, at: String },
    /// It is not as it was written.
    #[error("{path} is damaged: {what}; take the snapshot again, or copy it again")]
    Damaged {
        path: PathBuf,
        /// Where, and what is wrong.
        what: String,
    },
    /// It has no dump of the name that was given behind `#`.
    #[error("{path} holds no such dump: it holds {holds}")]
    NoDump { path: PathBuf, holds: String },
    #[error("{path} is no timeline: name a new file, or one that `slabyard watch` wrote")]
    NotATimeline { path: PathBuf },
    #[error("{path} has no look {wanted}: it has {holds}")]
    NoLook { path: PathBuf, wanted: String, holds: String },
    /// A later version wrote it.
    #[error(
        "{path} has format {found}; this slabyard reads up to {FORMAT}: use a newer one to open it"
    )]
    Newer { path: PathBuf, found: u64 },
}

/// Saves a snapshot.
///
/// # Errors
/// The file cannot be written.
pub fn save(snapshot: &Snapshot, path: &Path) -> Result<(), Error> {
    let failed = |error| Error::Write { path: path.into(), error };
    let mut bytes = serde_json::to_vec(snapshot).map_err(|e| failed(e.into()))?;
    bytes.push(b'\n');
    if path.extension().is_some_and(|e| e == "zst") {
        bytes = pack(&bytes).map_err(failed)?;
    }
    put(&bytes, path).map_err(failed)
}

/// The file and the dump in it that `FILE#DUMP` names; a file of the whole name goes
/// before.
#[must_use]
pub fn dump_of(path: &Path) -> (PathBuf, Option<String>) {
    let text = path.to_str().filter(|_| !path.exists());
    match text.and_then(|text| text.rsplit_once('#')) {
        Some((file, dump)) => (file.into(), Some(dump.into())),
        None => (path.into(), None),
    }
}

/// Opens a saved snapshot, of this or an earlier version; or of a script's file of
/// several dumps the one that `FILE#DUMP` names, else the first.
///
/// # Errors
/// Something else, a damaged or truncated file, or one of a later version.
pub fn open(path: &Path) -> Result<Snapshot, Error> {
    let (path, dump) = dump_of(path);
    let path = path.as_path();
    let failed = |error| Error::Read { path: path.into(), error };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        let other = |what| Fault::Other(what).of(path);
        let snapshot = pasted::directory::open(path).map_err(other)?;
        check(&snapshot).map_err(|what| Fault::Damaged(what).of(path))?;
        return Ok(snapshot);
    }
    let mut bytes = Vec::new();
    // What is read from a pipe is gone.
    let unpacked = match metadata.is_file() {
        true => archive::open(&file, MAX_BYTES).map_err(|error| packed(error).of(path))?,
        false => Unpacked::Plain,
    };
    match unpacked {
        Unpacked::Tree(snapshot) => {
            check(&snapshot).map_err(|what| Fault::Damaged(what).of(path))?;
            return Ok(*snapshot);
        }
        Unpacked::Bytes(unpacked) => bytes = unpacked,
        Unpacked::Plain => {
            file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        }
    }
    let modified =
        metadata.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let modified_ms = modified.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(0));
    parse(&bytes, modified_ms, dump.as_deref()).map_err(|fault| fault.of(path))
}

/// Reads the bytes of a saved snapshot; `path` names them in what is wrong with them.
///
/// # Errors
/// As [`open`].
pub fn read(bytes: &[u8], path: &Path) -> Result<Snapshot, Error> {
    parse(bytes, 0, None).map_err(|fault| fault.of(path))
}

/// Reads a saved snapshot from a stream to its end; `path` names it in what is wrong.
///
/// # Errors
/// As [`open`].
pub fn open_stream(stream: &mut impl Read, path: &Path) -> Result<Snapshot, Error> {
    let mut bytes = Vec::new();
    let failed = |error| Error::Read { path: path.into(), error };
    stream.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    read(&bytes, path)
}

/// True for a file that begins as core files do, and not as a snapshot.
#[must_use]
pub fn looks_like_core(path: &Path) -> bool {
    let mut magic = [0; 4];
    // What is read from a pipe is gone.
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file
        && File::open(path).and_then(|mut f| f.read_exact(&mut magic)).is_ok()
        && magic == *b"\x7fELF"
}

/// Writes beside the file's place and renames: nobody sees half of it, and a full disk
/// leaves the old one. A symbolic link stays one, also to a file that is not there yet;
/// a pipe or device is written to.
///
/// # Errors
/// Those of the kernel, which name no file but `path`.
pub fn put(bytes: &[u8], path: &Path) -> io::Result<()> {
    let path = match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            return fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
        }
        Ok(_) => fs::canonicalize(path)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => behind_links(path)?,
        Err(e) => return Err(e),
    };
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    fs::metadata(directory)?;
    let mut file = tempfile::Builder::new()
        .prefix(".slabyard-")
        // As any new file: the umask takes its part.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(bare)?;
    file.write_all(bytes).map_err(bare)?;
    file.persist(&path).map(drop).map_err(|e| bare(e.error))
}

/// Where the last of a chain of links points, if nothing exists there.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    // As many as Linux follows.
    const MOST: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..MOST {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// The kind of an error, without the temporary file's name that is around it.
fn bare(error: io::Error) -> io::Error {
    if error.get_ref().is_some() { error.kind().into() } else { error }
}

/// What is wrong with the bytes of a file.
enum Fault {
    Other(String),
    Truncated(String),
    Damaged(String),
    Newer(u64),
    NoDump(String),
}

impl Fault {
    fn of(self, path: &Path) -> Error {
        let path = path.into();
        match self {
            Fault::Other(what) => Error::NotASnapshot { path, what },
            Fault::Truncated(at) => Error::Truncated { path, at },
            Fault::Damaged(what) => Error::Damaged { path, what },
            Fault::Newer(found) => Error::Newer { path, found },
            Fault::NoDump(holds) => Error::NoDump { path, holds },
        }
    }
}

/// The keys that tell what a file is.
#[derive(Deserialize)]
struct Probe {
    format: Option<u64>,
    slab: Option<IgnoredAny>,
    dumps: Option<IgnoredAny>,
}

fn parse(bytes: &[u8], modified_ms: u64, dump: Option<&str>) -> Result<Snapshot, Fault> {
    let unpacked;
    let text = if bytes.starts_with(&ZSTD_MAGIC) {
        unpacked = unpack(bytes)?;
        &unpacked[..]
    } else {
        bytes
    };
    if text.len() as u64 > MAX_BYTES {
        return Err(Fault::Other(format!("it is larger than {} MiB", MAX_BYTES >> 20)));
    }
    let begin = text.trim_ascii_start();
    if begin.first() != Some(&b'{') || begin.starts_with(pasted::JSON.as_bytes()) {
        if dump.is_some() {
            return Err(Fault::NoDump("a text and no dumps; leave out what is behind #".into()));
        }
        return of_text(text, modified_ms);
    }
    let probe: Probe = serde_json::from_slice(text).map_err(|e| fault(text, &e))?;
    let snapshot = match probe {
        Probe { format: Some(found), .. } if found > u64::from(FORMAT) => {
            return Err(Fault::Newer(found));
        }
        Probe { format: Some(_), .. } if dump.is_some() => {
            return Err(Fault::NoDump(
                "one snapshot and no dumps; leave out what is behind #".into(),
            ));
        }
        Probe { format: Some(_), .. } => {
            serde_json::from_slice(text).map_err(|e| fault(text, &e))?
        }
        Probe { slab: None, dumps: None, .. } => {
            return Err(Fault::Other("it is JSON of another kind".into()));
        }
        _ => {
            let dumps: Dumps = serde_json::from_slice(text).map_err(|e| fault(text, &e))?;
            let name = dumps.find(dump).map_err(Fault::NoDump)?;
            dumps.sample(name, modified_ms).map_err(Fault::Damaged)?
        }
    };
    check(&snapshot).map_err(Fault::Damaged)?;
    Ok(snapshot)
}

/// Why an archive or a packed text cannot be read.
fn packed(error: io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::Unsupported => Fault::Other(error.to_string()),
        io::ErrorKind::UnexpectedEof => Fault::Truncated("within what is packed".into()),
        _ => Fault::Damaged(format!("it cannot be unpacked ({error})")),
    }
}

/// Reads a text that somebody pasted, or the output of a tool.
fn of_text(text: &[u8], modified_ms: u64) -> Result<Snapshot, Fault> {
    if text.is_empty() {
        return Err(Fault::Other("it is empty".into()));
    }
    if let Some((_, what)) = PACKED.iter().find(|(magic, _)| text.starts_with(magic)) {
        let unpack = "unpack it (`tar xf` for an archive), and name the folder or file";
        return Err(Fault::Other(format!("it is packed by {what}; {unpack}")));
    }
    // POSIX: the mark of a tar archive.
    if text.get(257..262) == Some(b"ustar") {
        return Err(Fault::Other(
            "it is an archive; unpack it by `tar xf`, and name the folder".into(),
        ));
    }
    if text.contains(&0) {
        return Err(Fault::Other("it is no JSON object, and no text".into()));
    }
    let snapshot = pasted::read(&String::from_utf8_lossy(text), modified_ms);
    let snapshot = snapshot.map_err(|unread| match unread {
        Unread::Unknown(what) => Fault::Other(format!("it is no JSON object, and {what}")),
        Unread::Damaged(what) => Fault::Damaged(what),
    })?;
    check(&snapshot).map_err(Fault::Damaged)?;
    Ok(snapshot)
}

/// With a checksum, so that no damage goes unnoticed.
fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 0)?;
    encoder.include_checksum(true)?;
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn unpack(bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let damaged = |e: io::Error| match e.kind() {
        io::ErrorKind::UnexpectedEof => Fault::Truncated(format!("after {} bytes", bytes.len())),
        _ => Fault::Damaged(format!("the zstd stream cannot be unpacked ({e})")),
    };
    let decoder = zstd::Decoder::new(bytes).map_err(damaged)?;
    let mut text = Vec::new();
    decoder.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(damaged)?;
    Ok(text)
}

fn fault(text: &[u8], error: &serde_json::Error) -> Fault {
    let at = format!("line {}, column {}", error.line(), error.column());
    match error.classify() {
        serde_json::error::Category::Eof => Fault::Truncated(format!("at {at}")),
        serde_json::error::Category::Syntax if !text.starts_with(BEGIN.as_bytes()) => {
            Fault::Other(format!("it is no JSON ({at})"))
        }
        _ => Fault::Damaged(error.to_string()),
    }
}

/// What nobody above could live with: names that are equal or steer a terminal, and
/// ranges that are none.
fn check(snapshot: &Snapshot) -> Result<(), String> {
    let mut names = BTreeSet::new();
    let clean = |text: &str| -> Result<(), String> {
        if text.chars().any(char::is_control) {
            Err(format!("{text:?} is no name"))
        } else {
            Ok(())
        }
    };
    let value = |name: &str, value: &Value| -> Result<(), String> {
        clean(name)?;
        match value {
            Value::Range(low, high) if low > high => Err(format!("{name} is [{low},{high}]")),
            Value::Text(text) => clean(text),
            _ => Ok(()),
        }
    };
    let source = &snapshot.source;
    let texts = [&source.program, &source.release, &source.path, &source.boot];
    texts.into_iter().flatten().chain(&source.formats).try_for_each(|text| clean(text))?;
    snapshot.incidents.iter().flat_map(Incident::texts).try_for_each(clean)?;
    for missing in &snapshot.missing {
        clean(&missing.what).and_then(|()| clean(&missing.why))?;
    }
    snapshot.totals.iter().try_for_each(|(name, total)| value(name, total))?;
    for cache in &snapshot.caches {
        let name = cache.name.as_str();
        cache.names().try_for_each(clean)?;
        if !names.insert(name) {
            return Err(format!("cache `{name}` comes twice"));
        }
        for (key, reading) in &cache.readings {
            let parts = reading.nodes.iter().chain(&reading.cpus).map(|(_, part)| part);
            let mut values = std::iter::once(&reading.value).chain(parts);
            values.try_for_each(|v| value(key, v)).map_err(|e| format!("cache `{name}`: {e}"))?;
        }
    }
    Ok(())
}
