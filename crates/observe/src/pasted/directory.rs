//! Folders of copied files: a root with copies of `proc` and `sys`, as sosreport makes it; a copy of
//! `/sys/kernel/slab` or of files of `/proc` alone.
//!
//! Neighbour: [`crate::kernel`] reads a root. What that does not find, such as the kernel's release,
//! is taken from the outputs of commands that sosreport keeps as files.

use crate::kernel;
use crate::snapshot::{Missing, Snapshot};
use crate::want::ReadScope;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Files in a folder whose texts are read like one that was pasted.
pub(super) const TEXTS: [&str; 18] = [
    "sos_commands/kernel/uname_-a",
    "sos_commands/memory/slabtop_-o",
    "sos_commands/kernel/dmesg",
    "sos_commands/kernel/dmesg_-T",
    "proc/version",
    "proc/sys/fs/dentry-state",
    "proc/sys/fs/file-nr",
    "proc/meminfo",
    "proc/buddyinfo",
    "proc/cgroups",
    "proc/net/sockstat",
    "uname",
    "slabinfo",
    "meminfo",
    "buddyinfo",
    "cgroups",
    "smaps",
    "smaps_rollup",
];

/// Copies are read as a whole.
const ALL: ReadScope = ReadScope { all: true, slabs: false };

/// Samples a folder.
///
/// # Errors
/// What was looked for in it.
pub(crate) fn open(path: &Path) -> Result<Snapshot, String> {
    let root = top(path);
    let mut snapshot = if has_kernel(&root) {
        let mut snapshot = kernel::sample(&root, ALL).map_err(|error| error.to_string())?;
        snapshot.source.formats = vec!["copy of /proc and /sys".into()];
        if let Ok(other) = crate::pasted::read(&texts(&root), 0) {
            add(&mut snapshot, other);
        }
        snapshot
    } else if is_slab_tree(&root) {
        of_slab_tree(&root)?
    } else {
        crate::pasted::read(&texts(&root), 0).map_err(|_| {
            "there is no proc/slabinfo, sys/kernel/slab or sos_commands in it, and it is no copy of \
             /sys/kernel/slab, whose folders have a file slab_size"
                .to_owned()
        })?
    };
    let modified = ["proc/slabinfo", "slabinfo", ""]
        .into_iter()
        .find_map(|file| fs::metadata(root.join(file)).ok()?.modified().ok());
    let since = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let ms = since.and_then(|since| u64::try_from(since.as_millis()).ok());
    snapshot.taken_at_ms = ms.unwrap_or(snapshot.taken_at_ms);
    snapshot.took_ns = None;
    Ok(snapshot)
}

/// Adds what the kernel's own files did not tell.
fn add(snapshot: &mut Snapshot, other: Snapshot) {
    snapshot.source.release = snapshot.source.release.take().or(other.source.release);
    snapshot.incidents = other.incidents;
    for (name, value) in other.totals {
        snapshot.totals.entry(name).or_insert(value);
    }
}

/// The folder that has the files: of an unpacked archive the only one in it.
fn top(path: &Path) -> PathBuf {
    let has = |name: &str| path.join(name).exists();
    if ["proc", "sys", "sos_commands"].into_iter().any(has) || TEXTS.into_iter().any(has) {
        return path.into();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let folders: Vec<PathBuf> = entries.filter(|entry| entry.is_dir()).take(2).collect();
    match &folders[..] {
        [only] if !is_cache(only) => only.clone(),
        _ => path.into(),
    }
}

fn has_kernel(root: &Path) -> bool {
    root.join("proc/slabinfo").is_file() || root.join(kernel::SLAB_TREE).is_dir()
}

fn is_cache(path: &Path) -> bool {
    path.join("slab_size").is_file() && path.join("objs_per_slab").is_file()
}

fn is_slab_tree(path: &Path) -> bool {
    fs::read_dir(path).into_iter().flatten().flatten().any(|entry| is_cache(&entry.path()))
}

fn of_slab_tree(path: &Path) -> Result<Snapshot, String> {
    let sampled = kernel::sample_copy(path, path, ALL);
    let mut snapshot = sampled.map_err(|error| error.to_string())?;
    snapshot.source.formats = vec!["copy of /sys/kernel/slab".into()];
    let other = |what: &str| what.starts_with("/proc/") || what.starts_with("/sys/devices/");
    snapshot.missing.retain(|missing| !other(&missing.what));
    snapshot.missing.push(Missing {
        what: "/proc, /sys/devices".into(),
        why: "the folder is a copy of /sys/kernel/slab alone".into(),
    });
    Ok(snapshot)
}

/// The texts of known files, each behind its name, by which some are recognised.
fn texts(root: &Path) -> String {
    let read = |name: &&str| {
        let text = fs::read(root.join(name)).ok()?;
        Some(format!("{name}\n{}\n\n", String::from_utf8_lossy(&text)))
    };
    TEXTS.iter().filter_map(read).collect()
}
