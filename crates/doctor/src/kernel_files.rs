//! What a kernel tells beside its slabs: its directory entries and its memory cgroups.
//!
//! Invariant: what cannot be read is `None`, with a reason in the list of what is missing.

use slabyard_observe::snapshot::Missing;
use slabyard_observe::{Snapshot, Value};
use std::fs;
use std::path::Path;

/// Numbers of a running kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelFiles {
    /// Directory entries (`/proc/sys/fs/dentry-state`).
    pub dentries: Option<u64>,
    /// Of these, entries that no path uses now.
    pub unused_dentries: Option<u64>,
    /// Of these, entries that say that a file does not exist (from Linux 5.0).
    pub negative_dentries: Option<u64>,
    /// Memory cgroups that were removed and still have memory.
    pub dead_cgroups: Option<u64>,
    /// Memory cgroups, removed or not, where that alone is known.
    pub cgroups: Option<u64>,
}

/// The version 2 tree, alone or beside version 1's.
const TREES: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];
/// The memory controller's own tree of version 1.
const MEMORY_TREE: &str = "sys/fs/cgroup/memory";

impl KernelFiles {
    /// Reads the files below a root.
    pub fn read(root: &Path, missing: &mut Vec<Missing>) -> KernelFiles {
        let mut read = KernelFiles::default();
        let path = "proc/sys/fs/dentry-state";
        match fs::read_to_string(root.join(path)) {
            Ok(text) => read.dentry_state(&text),
            Err(why) => missing.push(Missing { what: format!("/{path}"), why: why.to_string() }),
        }
        read.dead_cgroups = dead_cgroups(root);
        if read.dead_cgroups.is_none() {
            let why = "neither cgroup.stat of the cgroup tree nor /proc/cgroups tells them";
            missing.push(Missing { what: "removed memory cgroups".into(), why: why.into() });
        }
        read
    }

    /// What a text tells of them.
    pub(crate) fn of(snapshot: &Snapshot) -> KernelFiles {
        let total = |name| snapshot.total(name).and_then(Value::exact);
        KernelFiles {
            dentries: total("dentries"),
            unused_dentries: total("dentries_unused"),
            negative_dentries: total("dentries_negative"),
            dead_cgroups: None,
            cgroups: total("memory_cgroups"),
        }
    }

    /// All, unused, two times, negative ones (proc_sys_fs(5)); older kernels have no negative ones.
    fn dentry_state(&mut self, text: &str) {
        let numbers: Vec<u64> = text.split_whitespace().map_while(|n| n.parse().ok()).collect();
        self.dentries = numbers.first().copied();
        self.unused_dentries = numbers.get(1).copied();
        // Zero stands there as well where the kernel does not count them.
        self.negative_dentries = numbers.get(4).copied().filter(|negative| *negative > 0);
    }
}

fn dead_cgroups(root: &Path) -> Option<u64> {
    let has_memory = |tree: &&str| {
        fs::read_to_string(root.join(tree).join("cgroup.controllers"))
            .is_ok_and(|text| text.split_whitespace().any(|name| name == "memory"))
    };
    if let Some(tree) = TREES.iter().find(|tree| has_memory(tree)) {
        let text = fs::read_to_string(root.join(tree).join("cgroup.stat")).ok()?;
        return text
            .lines()
            .find_map(|line| line.strip_prefix("nr_dying_descendants "))?
            .trim()
            .parse()
            .ok();
    }
    // Version 1: the kernel counts all, and directories are those that were not removed.
    let text = fs::read_to_string(root.join("proc/cgroups")).ok()?;
    let row = text.lines().find(|line| line.split_whitespace().next() == Some("memory"))?;
    let all: u64 = row.split_whitespace().nth(2)?.parse().ok()?;
    all.checked_sub(directories(&root.join(MEMORY_TREE))?)
}

/// Directories of a tree, its root included.
fn directories(tree: &Path) -> Option<u64> {
    let below = fs::read_dir(tree).ok()?.flatten();
    let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Some(1 + below.filter_map(|entry| directories(&entry.path())).sum::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_entries_are_told_where_the_kernel_counts_them() {
        let mut read = KernelFiles::default();
        read.dentry_state("1031229\t1028958\t45\t0\t380976\t0\n");
        assert_eq!((read.dentries, read.negative_dentries), (Some(1_031_229), Some(380_976)));
        let mut read = KernelFiles::default();
        read.dentry_state("100\t90\t45\t0\t0\t0\n");
        assert_eq!((read.unused_dentries, read.negative_dentries), (Some(90), None));
    }

    #[test]
    fn removed_cgroups_are_counted_in_either_version() {
        let root = std::env::temp_dir().join(format!("doctor-cgroups-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/cgroups", "#subsys_name hierarchy num_cgroups enabled\nmemory\t4\t120\t1\n");
        fs::create_dir_all(root.join(MEMORY_TREE).join("a/b")).unwrap();
        assert_eq!(dead_cgroups(&root), Some(117));
        write("sys/fs/cgroup/unified/cgroup.controllers", "cpu memory\n");
        write("sys/fs/cgroup/unified/cgroup.stat", "nr_descendants 3\nnr_dying_descendants 9\n");
        assert_eq!(dead_cgroups(&root), Some(9));
        fs::remove_dir_all(&root).unwrap();
    }
}
