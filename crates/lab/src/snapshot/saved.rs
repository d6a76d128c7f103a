//! Reads a kernel's snapshot from a file of `slabyard snapshot kernel`.
//!
//! Invariant: as in sysfs, a cache is identified by its id, and its other names are aliases; what
//! such a file does not report, such as the CPUs present, is `None`.

use super::numbers::cache_of;
use super::{Cache, CpuPartial, Error, KernelSnapshot};
use crate::rules::NodeSet;
use slabyard_observe::snapshot::SourceKind;
use slabyard_observe::{self as observe, Value, file};
use std::path::Path;

pub(super) fn open(text: &[u8]) -> Result<KernelSnapshot, Error> {
    of(&file::read(text, Path::new("it"))?)
}

/// A text that somebody pasted, or a folder or an archive of a kernel's files.
pub(super) fn of_pasted(mut snapshot: observe::Snapshot) -> Result<KernelSnapshot, Error> {
    let has_sizes = |cache: &observe::Cache| {
        ["slabs", "slab_size", "objs_per_slab", "order"]
            .iter()
            .all(|key| cache.exact(key).is_some())
    };
    if !snapshot.caches.iter().any(has_sizes) {
        let formats = snapshot.source.formats.join(", ");
        let what = format!(
            "it tells no sizes and numbers of slabs ({formats}); what does are /proc/slabinfo, slabtop, a copy of \
             /sys/kernel/slab and a sosreport"
        );
        return Err(Error::Shape(what));
    }
    let mut assumed: Vec<String> =
        snapshot.missing.iter().map(|it| format!("{}: {}", it.what, it.why)).collect();
    let all = snapshot.caches.len();
    snapshot.caches.retain(has_sizes);
    if snapshot.caches.len() < all {
        let left_out = all - snapshot.caches.len();
        assumed.push(format!("{left_out} caches without sizes are left out"));
    }
    let placed = snapshot.caches.iter_mut().filter_map(assume_places).count();
    if placed > 0 {
        assumed.push(
            "it does not tell which slabs are partial: those with free objects are taken for half full".into(),
        );
    }
    Ok(KernelSnapshot { assumed, ..of(&snapshot)? })
}

/// Slabs with free objects lie on nodes' lists then, and none is a CPU's.
fn assume_places(cache: &mut observe::Cache) -> Option<()> {
    let told = ["partial", "cpu_slabs"].iter().any(|key| cache.exact(key).is_some());
    let (slabs, per_slab) = (cache.exact("slabs")?, cache.exact("objs_per_slab")?.max(1));
    if told {
        return None;
    }
    let all = slabs.saturating_mul(per_slab);
    let free = all.saturating_sub(cache.exact("objects").unwrap_or(all));
    let partial = free.div_ceil(per_slab.div_ceil(2)).min(slabs);
    cache.set("cpu_slabs", 0);
    cache.set("partial", partial);
    cache.set("objects_partial", partial.saturating_mul(per_slab).saturating_sub(free));
    Some(())
}

fn of(snapshot: &observe::Snapshot) -> Result<KernelSnapshot, Error> {
    let source = &snapshot.source;
    if source.kind != SourceKind::Kernel {
        let what = match source.kind {
            SourceKind::Lab => "a replay's caches, as `slabyard replay --save` writes them",
            _ => "a process's caches",
        };
        return Err(Error::Shape(format!("it holds {what}")));
    }
    let kb = |name: &str| snapshot.total(name).and_then(Value::exact).map(|bytes| bytes >> 10);
    let mut caches = snapshot.caches.iter().map(cache).collect::<Result<Vec<Cache>, Error>>()?;
    caches.sort_by(|a, b| a.id.cmp(&b.id));
    let page_size = snapshot.machine.page_bytes.and_then(|bytes| u32::try_from(bytes).ok());
    let unknown = || Error::Shape("no page size is told".into());
    let others = |cache: &observe::Cache| -> Vec<(String, String)> {
        let id = id(cache).to_owned();
        let names = cache.names().filter(|name| *name != id);
        names.map(|name| (name.to_owned(), id.clone())).collect()
    };
    Ok(KernelSnapshot {
        dump: None,
        kernel: source.release.clone(),
        page_size: page_size.filter(|size| size.is_power_of_two()).ok_or_else(unknown)?,
        possible_cpus: snapshot.machine.possible_cpus,
        present_cpus: None,
        online_cpus: snapshot.machine.online_cpus,
        nodes: snapshot.machine.nodes,
        memoryless: memoryless(snapshot),
        cmdline: source.boot.clone(),
        slab_kb: kb("slab"),
        slab_kb_at: Vec::new(),
        assumed: Vec::new(),
        memory_kb: kb("mem_total"),
        aliases: snapshot.caches.iter().flat_map(others).collect(),
        caches,
    })
}

/// A node on which no cache has a slab has no memory: each node with memory has slabs since its boot.
fn memoryless(snapshot: &observe::Snapshot) -> NodeSet {
    let slabs = snapshot.caches.iter().filter_map(|cache| cache.reading("slabs"));
    let parts = slabs.flat_map(|reading| &reading.nodes);
    let mut with_slabs = parts.filter(|(_, slabs)| slabs.exact() != Some(0)).peekable();
    match (snapshot.machine.nodes, with_slabs.peek()) {
        (Some(nodes @ 2..), Some(_)) => NodeSet::all_but(nodes, with_slabs.map(|part| part.0)),
        _ => NodeSet::NONE,
    }
}

fn id(cache: &observe::Cache) -> &str {
    cache.id.as_deref().unwrap_or(&cache.name)
}

fn cache(cache: &observe::Cache) -> Result<Cache, Error> {
    let remedy = "; take it again as root with `slabyard snapshot kernel -o FILE`";
    cache_of(id(cache), |key| cache.exact(key), cpu_partial(cache), remedy)
}

fn cpu_partial(cache: &observe::Cache) -> Option<CpuPartial> {
    let reading = cache.reading("slabs_cpu_partial")?;
    let slabs = reading.value.exact()?;
    let each = |(cpu, part): &(u32, Value)| Some((*cpu, part.exact()?));
    let per_cpu: Option<Vec<_>> = reading.cpus.iter().map(each).collect();
    let per_cpu = per_cpu.filter(|rows| rows.iter().map(|row| row.1).sum::<u64>() == slabs);
    Some(CpuPartial { slabs, per_cpu })
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_observe::{Reading, snapshot::Source};

    #[test]
    fn a_node_without_any_slab_has_no_memory() {
        let with = |nodes: u32, parts: &[(u32, u64)]| {
            let mut snapshot = observe::Snapshot::new(Source::of(SourceKind::Kernel));
            snapshot.machine.nodes = Some(nodes);
            let mut cache = observe::Cache::new("filp");
            let nodes = parts.iter().map(|(node, slabs)| (*node, Value::Exact(*slabs))).collect();
            cache.set("slabs", Reading { nodes, ..Reading::from(Value::Exact(9)) });
            snapshot.caches.push(cache);
            memoryless(&snapshot).to_string()
        };
        assert_eq!(with(3, &[(0, 9), (1, 0)]), "1,2");
        assert_eq!([with(3, &[]), with(1, &[(0, 9)])], ["", ""]);
    }
}
