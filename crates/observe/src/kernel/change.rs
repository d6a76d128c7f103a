//! Makes the changes that a kernel permits: shrinks a cache, or writes a writable attribute. A
//! change made under one name of a cache applies to all its names.
//!
//! Neighbour: [`super::tree`] knows the files. This module creates no file: if one is absent, the
//! kernel lacks the attribute.

use super::attribute::{self, NOT_READ};
use super::error::Error;
use super::tree::{BELOW, Tree};
use crate::release::Release;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// An attribute that was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What the kernel said before.
    pub old: String,
    /// What it says now: it may have taken the nearest value that it knows.
    pub new: String,
}

/// Asks the kernel to shrink a cache: its sheaves, CPU slabs and empty slabs go.
///
/// # Errors
/// No such cache, or the kernel does not let us.
pub fn shrink(root: &Path, cache: &str) -> Result<(), Error> {
    let path = directory(root, cache)?.join("shrink");
    write(&path, "1").map_err(|error| Error::File { path, error })
}

/// Sets an attribute of a cache.
///
/// # Errors
/// No such cache, no such attribute, or the kernel does not take the value.
pub fn set(root: &Path, cache: &str, key: &str, value: &str) -> Result<Change, Error> {
    let directory = directory(root, cache)?;
    let settable = settable(&directory);
    if !settable.iter().any(|s| s == key) {
        let known = !key.contains('/') && fs::symlink_metadata(directory.join(key)).is_ok();
        let why = if known { "cannot be set" } else { "is no attribute of it" };
        return Err(Error::NotSettable { key: key.into(), why, settable });
    }
    let path = directory.join(key);
    let file = |error| Error::File { path: path.clone(), error };
    let value = value.trim();
    let refused = |why: String| Error::Refused {
        cache: cache.into(),
        key: key.into(),
        value: attribute::printable(value),
        why,
    };
    // The kernel takes nothing at all without a word.
    if value.is_empty() || value.contains(char::is_control) {
        return Err(refused("a value is one word".into()));
    }
    let read = || fs::read_to_string(&path).map(|text| text.trim().to_owned());
    let old = read().map_err(file)?;
    if let Err(error) = write(&path, value) {
        let no = matches!(error.kind(), io::ErrorKind::InvalidInput)
            || error.raw_os_error() == Some(rustix::io::Errno::RANGE.raw_os_error());
        return Err(if no { refused(bounds(root, key)) } else { file(error) });
    }
    Ok(Change { old, new: read().map_err(file)? })
}

/// Directory of a cache, by any of its names.
fn directory(root: &Path, cache: &str) -> Result<PathBuf, Error> {
    let top = root.join(BELOW);
    let listing = Tree::open(root).and_then(|tree| tree.list());
    let listing = listing.map_err(|error| Error::File { path: top.clone(), error })?;
    if listing.ids.iter().any(|id| id == cache) {
        return Ok(top.join(cache));
    }
    if let Some(id) = listing.links.get(cache) {
        return Ok(top.join(id));
    }
    let wanted = cache.to_lowercase();
    let names = listing.ids.iter().chain(listing.links.keys());
    let like = names.filter(|n| !wanted.is_empty() && n.to_lowercase().contains(&wanted));
    Err(Error::UnknownCache { cache: cache.into(), like: like.take(3).cloned().collect() })
}

/// Attributes that the kernel lets root write and that keep a value.
fn settable(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let writable = entries
        .filter(|e| e.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o200 != 0));
    let names = writable.filter_map(|e| e.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|n| !NOT_READ.contains(&n.as_str())).collect();
    names.sort();
    names
}

fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    // In one call: sysfs takes each as a whole value.
    file.write_all(value.as_bytes())
}

/// What an attribute takes.
fn bounds(root: &Path, key: &str) -> String {
    let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease"));
    let lists = release.ok().and_then(|r| Release::parse(&r)).is_none_or(|r| r.has_cpu_slabs());
    let takes = match key {
        "min_partial" => "it takes a number of slabs, 0 or more",
        "cpu_partial" if lists => {
            "it takes a number of objects, 0 or more, and of a cache with debugging only 0"
        }
        "cpu_partial" => "this kernel has no CPU partial lists, and takes only 0",
        "remote_node_defrag_ratio" => "it takes a percentage, 0 to 100",
        "failslab" => "it takes 0 or 1, and not for a cache that others share",
        "skip_kfence" => "it takes 0 or 1",
        _ if attribute::is_counter(key) => "it takes only 0, which resets it",
        _ => "it does not say what it takes",
    };
    format!("not such a value; {takes}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_is_taken() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("proc/sys/kernel");
        fs::create_dir_all(&dir).unwrap();
        let of = |release: &str, key| {
            fs::write(dir.join("osrelease"), release).unwrap();
            bounds(root.path(), key)
        };
        assert!(of("7.1.0\n", "cpu_partial").contains("only 0"));
        assert!(of("6.18.4\n", "cpu_partial").contains("0 or more"));
        assert!(of("6.18.4\n", "alloc_slab").contains("resets"));
        assert!(of("6.18.4\n", "remote_node_defrag_ratio").contains("0 to 100"));
    }
}
