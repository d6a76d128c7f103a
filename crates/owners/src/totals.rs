//! Slab memory of the machine and of each cgroup before and after a watch: what the kernel tells
//! everybody, without a name of a cache.

use crate::cgroups::Cgroups;
use crate::report::SlabGrowth;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;

/// Growth below that is not told of a cgroup.
const LEAST: i64 = 64 << 10;

/// Bytes of slab memory, and of those that the kernel does not take back by itself.
type Slab = [u64; 2];

/// What is counted at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    machine: Option<Slab>,
    /// By number; without the cgroups below.
    cgroups: HashMap<u64, Slab>,
}

impl Totals {
    /// Of now, for the directories of the last look at cgroups.
    pub(crate) fn now(cgroups: &Cgroups) -> Totals {
        let read = |path: &std::path::Path| fs::read_to_string(path).ok();
        let machine = read("/proc/meminfo".as_ref()).and_then(|text| {
            let kib = |key| number(&text, key).map(|kib| kib << 10);
            Some([kib("Slab:")?, kib("SUnreclaim:")?])
        });
        let found: Vec<(u64, &str, Slab)> = cgroups
            .directories()
            .filter_map(|(id, path, directory)| {
                let text = read(&directory.join("memory.stat"))?;
                let of = |key| number(&text, key);
                Some((id, path, [of("slab")?, of("slab_unreclaimable")?]))
            })
            .collect();
        Totals { machine, cgroups: alone(&found) }
    }

    /// By how much it grew since, the machine first.
    pub(crate) fn growth(&self, before: &Totals, names: &Cgroups) -> Vec<SlabGrowth> {
        let growth = |cgroup, before: Slab, after: Slab| SlabGrowth {
            cgroup,
            bytes: after[0],
            grew_bytes: after[0] as i64 - before[0] as i64,
            grew_unreclaimable: after[1] as i64 - before[1] as i64,
        };
        let machine = before.machine.zip(self.machine);
        let machine = machine.map(|(before, after)| growth(None, before, after));
        let mut all: Vec<SlabGrowth> = self
            .cgroups
            .iter()
            .map(|(id, after)| {
                let before = before.cgroups.get(id).copied().unwrap_or_default();
                growth(names.of(*id, None), before, *after)
            })
            .filter(|it| it.cgroup.is_some() && it.grew_bytes >= LEAST)
            .collect();
        all.sort_by_key(|it| Reverse(it.grew_bytes));
        machine.into_iter().chain(all).collect()
    }
}

/// The number behind a word at the beginning of a line.
fn number(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A cgroup's counts have those below it: without these.
fn alone(found: &[(u64, &str, Slab)]) -> HashMap<u64, Slab> {
    let by_path: HashMap<&str, u64> = found.iter().map(|(id, path, _)| (*path, *id)).collect();
    let mut alone: HashMap<u64, Slab> = found.iter().map(|(id, _, slab)| (*id, *slab)).collect();
    for (_, path, slab) in found {
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        let above = if above.is_empty() { "/" } else { above };
        let above = by_path.get(above).filter(|_| *path != "/").and_then(|id| alone.get_mut(id));
        for (sum, below) in above.into_iter().flatten().zip(slab) {
            *sum = sum.saturating_sub(*below);
        }
    }
    alone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_cgroup_is_not_its_own() {
        let found = [(1, "/", [100, 50]), (2, "/a", [60, 20]), (3, "/a/b", [50, 5])];
        let alone = alone(&found);
        assert_eq!((alone[&1], alone[&2], alone[&3]), ([40, 30], [10, 15], [50, 5]));
    }

    #[test]
    fn a_number_stands_behind_its_whole_word() {
        let text = "slab_reclaimable 5\nslab 12\nSlab:     34 kB\n";
        assert_eq!((number(text, "slab"), number(text, "Slab:")), (Some(12), Some(34)));
        assert_eq!(number(text, "slab_unreclaimable"), None);
    }
}
