//! Objects that a kernel has for each CPU when it has booted.
//!
//! Counted on guests of 1, 2, 4 and 16 CPUs after a shrink (x86-64, 4 KiB pages, cloud kernels of
//! Debian: 6.1.192 and 6.12.117), and for possible CPUs on 6.1.192 alone with `possible_cpus=64`
//! and `512`: kernels from 6.9 on do not take this parameter. On both, the counts lie on a line.
//! `pool_workqueue` is per possible CPU since 6.6 by the kernel's documentation of workqueues.
//!
//! What the table does not know: drivers with queues for each CPU (network, block), other
//! architectures, objects of programs. Kernel threads are in it, with their credentials and files.

use crate::rules::version_of;
use crate::snapshot::KernelSnapshot;

/// Objects of a cache.
struct PerCpu {
    /// The cache's name; where a kernel has no such cache, the next one.
    names: &'static [&'static str],
    /// In kernels from this version on.
    since: (u32, u32),
    /// Objects that a kernel has more for each CPU that the machine has.
    present: f64,
    /// The same for each CPU that could be added while the kernel runs.
    possible: f64,
}

const fn of(names: &'static [&'static str], present: f64, possible: f64) -> PerCpu {
    PerCpu { names, since: (0, 0), present, possible }
}

const TABLE: &[PerCpu] = &[
    of(&["task_struct"], 7.0, 1.0),
    of(&["sighand_cache"], 6.0, 1.0),
    of(&["signal_cache"], 3.0, 1.0),
    of(&["files_cache"], 0.0, 1.0),
    of(&["fs_cache"], 1.0, 1.0),
    of(&["cred", "cred_jar"], 1.0, 1.0),
    of(&["mm_struct"], 2.5, 0.0),
    of(&["kernfs_node_cache"], 140.0, 12.0),
    // Those of tracefs, which had the common cache before 6.6, are for possible CPUs.
    of(&["tracefs_inode_cache", "inode_cache"], 0.0, 8.5),
    of(&["inode_cache"], 4.0, 0.0),
    of(&["dentry"], 0.0, 9.0),
    of(&["sock_inode_cache"], 1.0, 3.0),
    of(&["RAW"], 0.5, 2.0),
    of(&["RAWv6"], 0.5, 1.0),
    PerCpu { since: (6, 6), ..of(&["pool_workqueue"], 0.0, 47.0) },
    of(&["radix_tree_node"], 13.5, 0.2),
    of(&["numa_policy"], 0.0, 1.0),
    of(&["vmap_area"], 10.0, 0.0),
    of(&["lsm_inode_cache"], 0.0, 12.0),
    of(&["kmalloc-8"], 24.0, 0.0),
    of(&["kmalloc-16"], 0.0, 6.0),
    of(&["kmalloc-32"], 13.0, 3.0),
    of(&["kmalloc-64"], 0.0, 15.0),
    of(&["kmalloc-96"], 6.0, 0.3),
    of(&["kmalloc-128"], 2.0, 3.0),
    of(&["kmalloc-256"], 8.0, 3.0),
    of(&["kmalloc-1k"], 3.0, 0.0),
    of(&["kmalloc-8k"], 1.0, 0.0),
    of(&["kmalloc-cg-16"], 11.0, 1.0),
    of(&["kmalloc-cg-128"], 4.0, 0.0),
    of(&["kmalloc-cg-192"], 4.0, 0.0),
    of(&["kmalloc-cg-256"], 4.0, 0.0),
    of(&["kmalloc-cg-512"], 1.0, 0.0),
    of(&["kmalloc-cg-1k"], 1.0, 0.0),
    of(&["kmalloc-cg-2k"], 2.0, 0.0),
];

/// Objects for each present and each possible CPU, of each cache of a snapshot.
pub(super) fn of_caches(snapshot: &KernelSnapshot) -> Vec<(f64, f64)> {
    let mut all = vec![(0.0, 0.0); snapshot.caches.len()];
    let version = snapshot.kernel.as_deref().and_then(version_of);
    for row in TABLE.iter().filter(|row| version.is_none_or(|version| version >= row.since)) {
        let cache = row.names.iter().find_map(|name| snapshot.cache(name));
        let at = cache.and_then(|cache| {
            snapshot.caches.binary_search_by(|other| other.id.cmp(&cache.id)).ok()
        });
        if let Some(at) = at {
            all[at].0 += row.present;
            all[at].1 += row.possible;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cache_stands_twice_in_first_place() {
        let mut names: Vec<&str> = TABLE.iter().map(|row| row.names[0]).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
