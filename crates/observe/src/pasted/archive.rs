//! Archives: a sosreport as people send it, or another copied tree, by tar, packed by xz, gzip, zstd
//! or not at all; and a text alone that xz or gzip packed.
//!
//! Neighbour: [`super::directory`] reads what is unpacked here into a folder that goes away.
//! Invariants: only files that are read are unpacked, none outside the folder; memory and disk are
//! bounded by the limits below, whatever the archive says of itself.

use super::directory::{self, TEXTS};
use crate::snapshot::Snapshot;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use tar::{Archive, Entry, EntryType, PaxExtensions};

/// Far more than a sosreport has, without crash dumps.
const MOST_READ: u64 = 16 << 30;
/// All files that are unpacked.
const MOST_KEPT: u64 = 256 << 20;
/// How many there are.
const MOST_FILES: usize = 1 << 17;
/// A path, or what describes one entry.
const MOST_HEAD: u64 = 64 << 10;
/// What xz may take, in KiB: its highest level takes 65 MiB.
const XZ_KIB: u32 = 256 << 10;
/// Where POSIX has the mark of a tar archive, within the first block.
const MARK: std::ops::Range<usize> = 257..262;
const BLOCK: u64 = 512;
const XZ: &[u8] = b"\xfd7zXZ\0";
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Of /sys.
const SYSTEM: [&[&str]; 2] = [&["sys", "kernel", "slab"], &["sys", "devices", "system"]];

/// What a file has.
pub(crate) enum Unpacked {
    /// What a tar archive's copies of a kernel's files tell.
    Tree(Box<Snapshot>),
    /// A text or something else, at most so much as was asked for and one byte.
    Bytes(Vec<u8>),
    /// It is no archive, and not packed.
    Plain,
}

/// Opens a file that may be an archive or packed.
///
/// # Errors
/// Those of the system, of a damaged or too large archive, or of a tree in which nothing is found.
pub(crate) fn open(mut file: &File, most: u64) -> io::Result<Unpacked> {
    let mut magic = Vec::new();
    Read::take(file, 6).read_to_end(&mut magic)?;
    file.rewind()?;
    let buffered = BufReader::with_capacity(1 << 18, file);
    let is_packed_text = [XZ, GZIP].iter().any(|packed| magic.starts_with(packed));
    let mut stream: Box<dyn Read + '_> = if magic.starts_with(XZ) {
        Box::new(XzReader::new_mem_limit(buffered, true, XZ_KIB))
    } else if magic.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(buffered))
    } else if magic.starts_with(ZSTD) {
        Box::new(zstd::Decoder::with_buffer(buffered)?)
    } else {
        Box::new(buffered)
    };
    let mut first = Vec::new();
    let begun = stream.by_ref().take(BLOCK).read_to_end(&mut first);
    if first.get(MARK) == Some(b"ustar") {
        let stream = Bounded { stream: Cursor::new(first).chain(stream), left: MOST_READ };
        return tree(stream).map(|snapshot| Unpacked::Tree(Box::new(snapshot)));
    }
    if !is_packed_text {
        // Snapshots are packed by zstd, too.
        drop(stream);
        file.rewind()?;
        return Ok(Unpacked::Plain);
    }
    begun?;
    let mut bytes = Vec::new();
    Cursor::new(first).chain(stream).take(most + 1).read_to_end(&mut bytes)?;
    Ok(Unpacked::Bytes(bytes))
}

/// A stream of which no more is read than is allowed.
struct Bounded<R> {
    stream: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)? as u64;
        let Some(left) = self.left.checked_sub(read) else {
            return Err(refused(format!("it unpacks to more than {} GiB", MOST_READ >> 30)));
        };
        self.left = left;
        Ok(read as usize)
    }
}

/// What is not read although nothing is damaged.
fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why.into())
}

fn tree(stream: impl Read) -> io::Result<Snapshot> {
    let folder = tempfile::tempdir()?;
    let mut archive = Archive::new(stream);
    let (mut kept, mut files) = (0, 0);
    let mut long_name: Option<PathBuf> = None;
    // Raw: else names of any length would be read into memory.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        match kind {
            EntryType::GNULongName => long_name = Some(path_of(&head(&mut entry)?)),
            EntryType::XHeader => {
                let bytes = head(&mut entry)?;
                let mut all = PaxExtensions::new(&bytes).flatten();
                let path = all.find(|it| it.key_bytes() == b"path");
                long_name = path.map(|path| path_of(path.value_bytes())).or(long_name);
            }
            EntryType::Regular | EntryType::Symlink => {
                let path = match long_name.take() {
                    Some(path) => path,
                    None => entry.path()?.into_owned(),
                };
                let Some(path) = wanted(&path) else { continue };
                (kept, files) = (entry.size().saturating_add(kept), files + 1);
                if kept > MOST_KEPT || files > MOST_FILES {
                    return Err(refused(
                        "its copies of /proc and /sys are larger than any machine's",
                    ));
                }
                put(&mut entry, kind, &folder.path().join(path))?;
            }
            _ => long_name = None,
        }
    }
    directory::open(folder.path()).map_err(refused)
}

/// What describes the next entry.
fn head(entry: &mut Entry<'_, impl Read>) -> io::Result<Vec<u8>> {
    if entry.size() > MOST_HEAD {
        return Err(refused("an entry's name is longer than any path"));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn path_of(bytes: &[u8]) -> PathBuf {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    PathBuf::from(OsStr::from_bytes(&bytes[..end]))
}

/// The path below the folder, of what [`directory`] reads.
fn wanted(path: &Path) -> Option<PathBuf> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir | Component::RootDir => {}
            Component::Normal(name) => parts.push(name.to_str()?),
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    let path: PathBuf = parts.iter().collect();
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let is_read = match parts.iter().position(|part| ["proc", "sys"].contains(part)) {
        Some(at) if parts[at] == "proc" => {
            parts.len() <= at + 4 && parts.get(at + 1).is_some_and(|name| !is_process(name))
        }
        Some(at) => SYSTEM.iter().any(|read| parts[at..].starts_with(read)),
        // A copy of /sys/kernel/slab, or of single files.
        None => parts.len() <= 3,
    };
    let is_text = |text: &&str| path.ends_with(text) && parts.len() <= text.split('/').count() + 1;
    (is_read || TEXTS.iter().any(is_text)).then_some(path)
}

fn put(entry: &mut Entry<'_, impl Read>, kind: EntryType, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    if kind == EntryType::Symlink {
        // Names of merged caches are links to their neighbours; no other link is followed.
        let target = entry.link_name()?.unwrap_or_default();
        let mut parts = target.components();
        return match (parts.next(), parts.next()) {
            (Some(Component::Normal(_)), None) => symlink(&target, to),
            _ => Ok(()),
        };
    }
    let mut file = File::create_new(to)?;
    io::copy(entry, &mut file)?;
    let modified = entry.header().mtime().unwrap_or(0);
    file.set_modified(UNIX_EPOCH + Duration::from_secs(modified.min(u32::MAX.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_unpacked_and_nothing_else() {
        for (path, is) in [
            ("sosreport-a/proc/slabinfo", true),
            ("./proc/meminfo", true),
            ("proc/4711/smaps", false),
            ("a/sys/kernel/slab/kmalloc-64/order", true),
            ("a/sys/devices/system/cpu/possible", true),
            ("a/sys/devices/pci0000:00/uevent", false),
            ("slab/kmalloc-64/slab_size", true),
            ("a/sos_commands/kernel/dmesg", true),
            ("a/var/log/messages/1", false),
            ("../../etc/passwd", false),
            ("a/proc/../../../etc/passwd", false),
        ] {
            assert_eq!(wanted(Path::new(path)).is_some(), is, "{path}");
        }
        assert_eq!(wanted(Path::new("/proc/slabinfo")), Some("proc/slabinfo".into()));
    }
}
