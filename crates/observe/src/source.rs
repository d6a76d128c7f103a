//! Finds the source that a user named, and samples it, whatever its kind.
//!
//! Neighbours: [`crate::kernel`], [`crate::process`], [`crate::corefile`], [`crate::file`] and
//! [`crate::timeline`] each sample one kind; commands pass a source as the user typed it.

pub use crate::want::ReadScope;

use crate::snapshot::Snapshot;
use crate::traces::Traces;
use crate::{corefile, file, kernel, process, timeline};
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

/// Its name in messages.
const STDIN: &str = "standard input";
/// Below which the running kernel's files are.
pub const ROOT: &str = "/";

/// A source as people name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceName {
    /// The running kernel.
    Kernel,
    /// A process that runs on Slabyard.
    Process(u32),
    /// A saved snapshot, a timeline of them, or the core file of such a process.
    File(PathBuf),
    /// A saved snapshot on standard input.
    Stdin,
}

impl FromStr for SourceName {
    type Err = Infallible;

    /// `kernel`, a decimal process id, `-` for standard input, else a path. A file of
    /// such a name is meant by `./kernel`, `./123` or `./-`.
    fn from_str(text: &str) -> Result<SourceName, Infallible> {
        let decimal = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        Ok(match text.parse() {
            Ok(pid) if decimal => SourceName::Process(pid),
            _ if text == "kernel" => SourceName::Kernel,
            _ if text == "-" => SourceName::Stdin,
            _ => SourceName::File(text.into()),
        })
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceName::Kernel => f.write_str("kernel"),
            SourceName::Process(pid) => write!(f, "process {pid}"),
            SourceName::File(path) => write!(f, "{}", path.display()),
            SourceName::Stdin => f.write_str(STDIN),
        }
    }
}

/// Why there is no sample. The command ends with exit code 3 for each of them.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    #[error(transparent)]
    Process(#[from] process::Error),
    /// Of a file that is a core.
    #[error(transparent)]
    Core(#[from] corefile::Error),
    #[error(transparent)]
    File(#[from] file::Error),
}

/// One allocator, now; or as it was when the file was written, which has everything whatever is
/// wanted.
///
/// # Errors
/// Those of the source.
pub fn sample(named: &SourceName, want: ReadScope) -> Result<Snapshot, Error> {
    match named {
        SourceName::Kernel => Ok(kernel::sample(Path::new(ROOT), want)?),
        SourceName::Process(pid) => Ok(process::sample(*pid, want)?),
        SourceName::File(path) if file::looks_like_core(path) => Ok(corefile::sample(path, want)?),
        SourceName::File(path) if timeline::looks_like(&file::dump_of(path).0) => {
            Ok(timeline::sample(path)?)
        }
        SourceName::File(path) => Ok(file::open(path)?),
        SourceName::Stdin => Ok(file::open_stream(&mut io::stdin().lock(), Path::new(STDIN))?),
    }
}

/// Who allocated the live objects of a cache of a kernel, a process or a core file; `None` if the
/// cache keeps no tracks, or the source is of another kind.
///
/// # Errors
/// Those of the source.
pub fn traces(named: &SourceName, cache: &str) -> Result<Option<Traces>, Error> {
    match named {
        SourceName::Process(pid) => Ok(process::traces(*pid, cache)?),
        SourceName::File(path) if file::looks_like_core(path) => Ok(corefile::traces(path, cache)?),
        SourceName::Kernel => Ok(kernel::traces(Path::new(ROOT), cache)?),
        SourceName::File(_) | SourceName::Stdin => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_kernel_a_process_or_a_file() {
        let named = |text: &str| text.parse::<SourceName>().unwrap();
        assert_eq!(named("kernel"), SourceName::Kernel);
        assert_eq!(named("4711"), SourceName::Process(4711));
        for path in ["./kernel", "./4711", "a.json.zst", "+1", "-1", "4711x", "99999999999", ""] {
            assert_eq!(named(path), SourceName::File(path.into()), "{path}");
        }
        assert_eq!(named("4711").to_string(), "process 4711");
        assert_eq!(named("-"), SourceName::Stdin);
        assert_eq!(named("./-"), SourceName::File("./-".into()));
    }

    #[test]
    fn a_saved_snapshot_is_a_source() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        let mut saved =
            Snapshot::new(crate::snapshot::Source::of(crate::snapshot::SourceKind::Process));
        saved.caches.push(crate::Cache::new("malloc-64"));
        file::save(&saved, &path).unwrap();
        let named = SourceName::File(path.clone());
        assert_eq!(sample(&named, ReadScope::default()).unwrap().caches, saved.caches);
        std::fs::write(&path, b"no snapshot").unwrap();
        assert!(matches!(sample(&named, ReadScope::default()), Err(Error::File(_))));
        std::fs::remove_file(&path).unwrap();
        assert!(sample(&named, ReadScope::default()).is_err());
    }
}
