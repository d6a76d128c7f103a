//! Writes a kernel's snapshot as JSON, in the form that `parse` reads: one kernel's caches, whatever
//! file they were read from.
//!
//! Invariant: the JSON, read back, equals the snapshot, except for the dump's name and the boot's
//! moments, which belong to the snapshot's original file.

use super::{Cache, CpuPartial, KernelSnapshot};
use serde_json::{Map, Value, json};

impl KernelSnapshot {
    /// The bytes that [`KernelSnapshot::parse`] reads.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let numbers = |count: u32| format!("0-{}", count.max(1) - 1);
        let facts = [
            ("kernel", self.kernel.clone().map(Value::from)),
            ("page_size", Some(self.page_size.into())),
            ("possible_cpus", self.possible_cpus.map(|count| numbers(count).into())),
            ("present_cpus", self.present_cpus.map(|count| numbers(count).into())),
            ("online_cpus", self.online_cpus.map(|count| numbers(count).into())),
            ("nodes", self.nodes.map(|count| numbers(count).into())),
            ("has_normal_memory", self.with_memory().map(Value::from)),
            ("cmdline", self.cmdline.clone().map(Value::from)),
            ("aliases", Some(json!(self.aliases))),
        ];
        let mut root = known(facts);
        let memory = [("Slab", self.slab_kb), ("MemTotal", self.memory_kb)];
        root.insert(
            "meminfo".into(),
            known(memory.map(|(key, kb)| (key, kb.map(Value::from)))).into(),
        );
        let caches = self.caches.iter().map(|cache| (cache.id.clone(), attributes(cache).into()));
        root.insert("slab".into(), caches.collect::<Map<_, _>>().into());
        Value::from(root).to_string().into_bytes()
    }
}

impl KernelSnapshot {
    /// The nodes with memory, as a kernel's list.
    fn with_memory(&self) -> Option<String> {
        let all = (0..self.nodes?).filter(|node| !self.memoryless.has(*node));
        Some(all.map(|node| node.to_string()).collect::<Vec<_>>().join(","))
    }
}

/// What is known, by its name.
fn known<const N: usize>(facts: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let known = facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.collect()
}

fn attributes(cache: &Cache) -> Map<String, Value> {
    let small = |number: Option<u32>| number.map(Value::from);
    let flag = |flag: Option<bool>| flag.map(|is_set| u64::from(is_set).into());
    let count = |count: Option<u64>| count.map(Value::from);
    known([
        ("object_size", small(cache.object_size)),
        ("slab_size", Some(cache.slab_size.into())),
        ("align", small(cache.align)),
        ("objs_per_slab", Some(cache.objs_per_slab.into())),
        ("order", Some(cache.order.into())),
        ("cpu_partial", small(cache.cpu_partial)),
        ("min_partial", small(cache.min_partial)),
        ("reclaim_account", flag(cache.reclaim_account)),
        ("destroy_by_rcu", flag(cache.destroy_by_rcu)),
        ("cache_dma", flag(cache.cache_dma)),
        ("sanity_checks", flag(cache.debug)),
        ("slabs", count(cache.slabs)),
        ("objects", count(cache.objects)),
        ("total_objects", count(cache.total_objects)),
        ("partial", count(cache.partial)),
        ("objects_partial", count(cache.objects_partial)),
        ("cpu_slabs", count(cache.cpu_slabs)),
        ("slabs_cpu_partial", cache.slabs_cpu_partial.as_ref().map(|lists| text(lists).into())),
        ("sheaf_capacity", small(cache.sheaf_capacity)),
    ])
}

/// As sysfs prints it: `OBJECTS(SLABS) C0=OBJECTS(SLABS)`, where only the slabs are read.
fn text(lists: &CpuPartial) -> String {
    // A list of CPUs whose sum is not that of all counts as unknown.
    let cpus = lists.per_cpu.iter().flatten();
    let cpus = cpus.map(|(cpu, slabs)| format!(" C{cpu}=0({slabs})"));
    format!("0({}){}", lists.slabs, cpus.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let mut read = 0;
        for directory in ["traces", "tests/data"] {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
            for file in fs::read_dir(directory).unwrap().flatten() {
                let Ok(snapshots) = KernelSnapshot::open(&file.path()) else { continue };
                for snapshot in snapshots {
                    let again = KernelSnapshot::parse(&snapshot.to_json()).unwrap();
                    let slab_kb_at = Vec::new();
                    assert_eq!(again, [KernelSnapshot { dump: None, slab_kb_at, ..snapshot }]);
                    read += 1;
                }
            }
        }
        assert!(read > 10);
    }
}
