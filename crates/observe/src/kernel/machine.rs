//! Reads the properties of the kernel's machine: page size, CPUs, nodes, memory.
//!
//! Neighbour: [`crate::snapshot`] stores these properties.

use super::error::why;
use crate::release::Release;
use crate::snapshot::{Cache, FreeBlocks, Missing, Snapshot};
use crate::value::Value;
use std::fs;
use std::io;
use std::path::Path;

/// Lines of meminfo and the totals they are.
const MEMINFO: [(&str, &str); 7] = [
    ("Slab", "slab"),
    ("SReclaimable", "slab_reclaimable"),
    ("SUnreclaim", "slab_unreclaimable"),
    ("MemTotal", "mem_total"),
    ("MemFree", "mem_free"),
    ("MemAvailable", "mem_available"),
    ("Cached", "page_cache"),
];

/// Reads what there is; what there is not is put down as missing.
pub(super) fn fill(root: &Path, snapshot: &mut Snapshot) -> Option<Release> {
    let mut missing = Vec::new();
    let mut text = |path: &str| -> Option<String> {
        let text = fs::read_to_string(root.join(path));
        let note = |e: &io::Error| missing.push(Missing { what: format!("/{path}"), why: why(e) });
        text.inspect_err(note).ok()
    };
    let release = text("proc/sys/kernel/osrelease").map(|t| t.trim().to_owned());
    snapshot.source.release = release.filter(|r| !r.is_empty());
    // What only root may read, and few kernels have: none is not worth a note.
    let boot = fs::read_to_string(root.join("proc/cmdline")).ok();
    snapshot.source.boot = boot.as_deref().and_then(parameters);
    let possible = text("sys/devices/system/cpu/possible");
    snapshot.machine.possible_cpus = possible.as_deref().and_then(count);
    snapshot.machine.online_cpus = text("sys/devices/system/cpu/online").as_deref().and_then(count);
    if let Some(meminfo) = text("proc/meminfo") {
        totals(snapshot, meminfo.lines().filter_map(meminfo_line));
    }
    if let Some(buddyinfo) = text("proc/buddyinfo") {
        snapshot.free_blocks = buddyinfo.lines().filter_map(free_blocks).collect();
    }
    let nodes = fs::read_to_string(root.join("sys/devices/system/node/online"));
    snapshot.machine.nodes = match nodes {
        Ok(nodes) => count(&nodes),
        // A kernel without NUMA has no such directory, where it has others.
        Err(e) if e.kind() == io::ErrorKind::NotFound && possible.is_some() => Some(1),
        Err(_) => None,
    };
    snapshot.missing.extend(missing);
    snapshot.source.release.as_deref().and_then(Release::parse)
}

/// The lines of meminfo that are known, in its format.
pub(super) fn meminfo(snapshot: &Snapshot) -> String {
    let line = |(key, name): &(&str, &str)| {
        let kb = snapshot.total(name)?.exact()? / 1024;
        Some(format!("{:<15} {kb:8} kB\n", format!("{key}:")))
    };
    MEMINFO.iter().filter_map(line).collect()
}

/// Free blocks in the format of buddyinfo.
pub(super) fn buddyinfo(zones: &[FreeBlocks]) -> String {
    let line = |zone: &FreeBlocks| {
        let blocks: String = zone.blocks.iter().map(|count| format!("{count:6} ")).collect();
        format!("Node {}, zone {:>8} {blocks}\n", zone.node, zone.zone)
    };
    zones.iter().map(line).collect()
}

/// "Slab:   10902060 kB".
pub(crate) fn meminfo_line(line: &str) -> Option<(&str, u64)> {
    let (key, rest) = line.split_once(':')?;
    Some((key, rest.trim().strip_suffix("kB")?.trim().parse().ok()?))
}

/// The words of a command line that are of slabs.
fn parameters(boot: &str) -> Option<String> {
    let of_slabs = |word: &&str| word.starts_with("slab_") || word.starts_with("slub_");
    let words: Vec<&str> = boot.split_whitespace().filter(of_slabs).collect();
    let text = words.join(" ");
    // A file is refused whose texts could steer a terminal.
    (!words.is_empty() && !text.chars().any(char::is_control)).then_some(text)
}

/// Takes lines of meminfo, in kB, over as totals.
pub(super) fn totals<'a>(snapshot: &mut Snapshot, lines: impl Iterator<Item = (&'a str, u64)>) {
    for (name, bytes) in lines.filter_map(total) {
        snapshot.totals.insert(name.into(), Value::Exact(bytes));
    }
}

/// The total that a line of meminfo, in kB, is; and its bytes.
pub(crate) fn total((key, kb): (&str, u64)) -> Option<(&'static str, u64)> {
    let (_, name) = MEMINFO.iter().find(|(line, _)| *line == key)?;
    Some((name, kb.checked_mul(1024)?))
}

/// How many there are in "0-3,8".
pub(super) fn count(list: &str) -> Option<u32> {
    let range = |range: &str| -> Option<u32> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.trim().split(',').try_fold(0u32, |sum, part| sum.checked_add(range(part)?))
}

/// "Node 0, zone   Normal   9985   7609 ...".
pub(crate) fn free_blocks(line: &str) -> Option<FreeBlocks> {
    let (node, rest) = line.strip_prefix("Node ")?.split_once(',')?;
    let mut words = rest.trim().strip_prefix("zone")?.split_whitespace();
    let zone = words.next()?.to_owned();
    let blocks = words.map(|n| n.parse().ok()).collect::<Option<Vec<u64>>>()?;
    Some(FreeBlocks { node: node.trim().parse().ok()?, zone, blocks })
}

/// The one page size at which every slab holds as many objects as fit: this shows the page size of
/// a tree or a dump from another machine.
pub(crate) fn page_bytes(caches: &[Cache]) -> Option<u64> {
    let shapes: Vec<_> = caches
        .iter()
        .filter_map(|c| {
            let order = c.exact("order").filter(|o| *o < 32)?;
            let size = c.exact("slab_size").filter(|s| *s > 0)?;
            Some((order, size, c.exact("objs_per_slab")?))
        })
        .collect();
    let fits =
        |page: &u64| shapes.iter().all(|(order, size, objs)| (page << order) / size == *objs);
    let mut sizes = (12..=18).map(|shift| 1u64 << shift).filter(fits);
    let found = sizes.next().filter(|_| !shapes.is_empty());
    found.filter(|_| sizes.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_counted() {
        for (list, number) in [("0", 1), ("0-3\n", 4), ("0-3,8,10-11", 7)] {
            assert_eq!(count(list), Some(number), "{list}");
        }
        for list in ["", "3-0", "x", "0-4294967295", "1,,2"] {
            assert_eq!(count(list), None, "{list}");
        }
    }

    #[test]
    fn buddyinfo_gives_blocks_by_order() {
        let line = "Node 1, zone   Normal   9985   7609      0 ";
        let blocks = FreeBlocks { node: 1, zone: "Normal".into(), blocks: vec![9985, 7609, 0] };
        assert_eq!(free_blocks(line), Some(blocks));
        assert_eq!(free_blocks("Node 1, zone"), None);
        assert_eq!(free_blocks("Node 1, zone DMA 1 x"), None);
    }

    #[test]
    fn a_page_size_is_told_only_where_one_alone_fits() {
        let cache = |order: u64, size: u64, objs: u64| {
            let mut cache = Cache::new("x");
            cache.set("order", order);
            cache.set("slab_size", size);
            cache.set("objs_per_slab", objs);
            cache
        };
        assert_eq!(page_bytes(&[cache(0, 64, 64), cache(3, 8192, 4)]), Some(4096));
        assert_eq!(page_bytes(&[cache(0, 64, 1024)]), Some(65536));
        assert_eq!(page_bytes(&[cache(0, 64, 64), cache(0, 64, 1024)]), None);
        // No page of these sizes, a slab that cannot be, and nothing at all.
        assert_eq!(page_bytes(&[cache(0, 1 << 20, 0)]), None);
        assert_eq!(page_bytes(&[cache(64, 64, 64)]), None);
        assert_eq!(page_bytes(&[]), None);
    }
}
