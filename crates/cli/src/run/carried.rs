//! The libraries that are a part of the command, where `build.rs` built them: an installation by
//! cargo has no files but programs.
//!
//! The dynamic loader preloads files, so the library is written into the user's cache folder, under
//! the version and a checksum of its bytes. Invariants: a file there is used only if its bytes are
//! ours; another is replaced as a whole, so that a program that starts meanwhile loads one of both.

use anyhow::{Context, bail};
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Each library's file, and its bytes.
const CARRIED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/carried.rs"));

/// Where the library is as a file now; `None` if the command has none of this name.
pub fn write(file: &str) -> Option<anyhow::Result<PathBuf>> {
    let (_, bytes) = CARRIED.iter().find(|(name, _)| *name == file)?;
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|name| Path::new(name).is_absolute());
    let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".cache"));
    Some(match cache.map(PathBuf::from).or_else(home).filter(|folder| folder.is_absolute()) {
        Some(cache) => write_into(&cache, file, bytes)
            .context("name the library in SLABYARD_LIB, or another folder in XDG_CACHE_HOME"),
        None => Err(anyhow::anyhow!(
            "no folder for {file}: neither XDG_CACHE_HOME nor HOME is set; \
             set one, or name the library in SLABYARD_LIB"
        )),
    })
}

fn write_into(cache: &Path, file: &str, bytes: &[u8]) -> anyhow::Result<PathBuf> {
    let mut sum = DefaultHasher::new();
    sum.write(bytes);
    let name = format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), sum.finish());
    let folder = cache.join("slabyard").join(name);
    let path = folder.join(file);
    if fs::read(&path).is_ok_and(|found| found == bytes) {
        return Ok(path);
    }
    if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
        bail!("{} is a folder", path.display());
    }
    let written = || -> std::io::Result<()> {
        fs::create_dir_all(&folder)?;
        let mut fresh = tempfile::NamedTempFile::new_in(&folder)?;
        fresh.write_all(bytes)?;
        fresh.as_file().set_permissions(fs::Permissions::from_mode(0o755))?;
        fresh.persist(&path)?;
        Ok(())
    };
    written().with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_once_and_again_where_it_was_changed() {
        let cache = tempfile::tempdir().unwrap();
        let path = write_into(cache.path(), "l.so", b"bytes").unwrap();
        assert!(path.starts_with(cache.path()), "{}", path.display());
        let written = || fs::metadata(&path).unwrap().modified().unwrap();
        let first = written();
        assert_eq!(write_into(cache.path(), "l.so", b"bytes").unwrap(), path);
        assert_eq!(written(), first);
        fs::write(&path, b"other").unwrap();
        assert_eq!(write_into(cache.path(), "l.so", b"bytes").unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        let other = write_into(cache.path(), "l.so", b"newer").unwrap();
        assert_ne!(other, path);
        // Nothing else is left there.
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn says_where_it_could_not_write() {
        let cache = tempfile::tempdir().unwrap();
        fs::write(cache.path().join("slabyard"), "").unwrap();
        let why = write_into(cache.path(), "l.so", b"bytes").unwrap_err();
        assert!(format!("{why:#}").contains("cannot write"), "{why:#}");
        assert!(write("none.so").is_none());
    }
}
