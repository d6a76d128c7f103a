//! Reads the running kernel's caches from sysfs, or from `/proc/slabinfo` if sysfs does not show
//! slabs.

use super::{Error, KernelSnapshot, parse};
use crate::rules::{Machine, running_kernel};
use serde_json::{Map, Value, json};
use std::fs;
use std::io;
use std::path::Path;

const SYSFS: &str = "/sys/kernel/slab";
const SLABINFO: &str = "/proc/slabinfo";

/// Attributes of a cache that are the same at every moment: what a replay takes its sizes from.
/// Like the others, a kernel need not have all.
pub const SIZES: [&str; 12] = [
    "object_size",
    "slab_size",
    "align",
    "objs_per_slab",
    "order",
    "cpu_partial",
    "min_partial",
    "reclaim_account",
    "destroy_by_rcu",
    "cache_dma",
    "sheaf_capacity",
    "hwcache_align",
];
const DEBUGGING: [&str; 5] = ["sanity_checks", "red_zone", "poison", "store_user", "trace"];
/// Attributes that add up when machines are put together.
pub const COUNTS: [&str; 7] = [
    "slabs",
    "objects",
    "total_objects",
    "partial",
    "objects_partial",
    "cpu_slabs",
    "slabs_cpu_partial",
];

impl KernelSnapshot {
    /// The caches of the kernel that runs. Needs root.
    ///
    /// # Errors
    /// No right to read them, or no SLUB.
    pub fn live() -> Result<KernelSnapshot, Error> {
        let machine = Machine::here();
        let (slab, aliases) = if Path::new(SYSFS).is_dir() {
            sysfs(Path::new(SYSFS))?
        } else {
            let text = fs::read_to_string(SLABINFO).map_err(|e| refused(Path::new(SLABINFO), e))?;
            (slabinfo(&text, machine.page_size), Map::new())
        };
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kb = |line: &str| line.trim().strip_suffix(" kB").and_then(|n| n.parse::<u64>().ok());
        let meminfo: Map<String, Value> = meminfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .filter_map(|(key, rest)| Some((key.to_owned(), kb(rest)?.into())))
            .collect();
        let file = |path: &str| fs::read_to_string(path).ok().map(|t| t.trim().to_owned());
        let cpus = |which: &str| file(&format!("/sys/devices/system/cpu/{which}"));
        let document = json!({
            "kernel": running_kernel(),
            "page_size": machine.page_size,
            "possible_cpus": cpus("possible"),
            "present_cpus": cpus("present"),
            "online_cpus": cpus("online"),
            "nodes": file("/sys/devices/system/node/online"),
            "has_normal_memory": file("/sys/devices/system/node/has_normal_memory"),
            "cmdline": file("/proc/cmdline"),
            "meminfo": meminfo,
            "slab": slab,
            "aliases": aliases,
        });
        let document = document.as_object().expect("just made as one");
        parse::one(None, document, document)
    }
}

type Texts = Map<String, Value>;

/// Directories are caches, links are names of merged ones.
fn sysfs(top: &Path) -> Result<(Texts, Texts), Error> {
    let (mut slab, mut aliases) = (Map::new(), Map::new());
    for entry in fs::read_dir(top).map_err(|e| refused(top, e))? {
        let entry = entry.map_err(|e| refused(top, e))?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if let Ok(target) = fs::read_link(&path) {
            let id = target.file_name().unwrap_or_default().to_string_lossy();
            aliases.insert(name, id.into());
            continue;
        }
        let mut fields = Map::new();
        for attribute in SIZES.iter().chain(&DEBUGGING).chain(&COUNTS) {
            let file = path.join(attribute);
            match fs::read_to_string(&file) {
                Ok(text) => drop(fields.insert((*attribute).into(), text.trim().into())),
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(refused(&file, e));
                }
                // Attributes come and go between releases, and caches while we read.
                Err(_) => {}
            }
        }
        if fields.contains_key("slab_size") {
            slab.insert(name, fields.into());
        }
    }
    Ok((slab, aliases))
}

/// Name, objects active and all, size, objects and pages in a slab, then after the
/// second colon slabs active and all.
fn slabinfo(text: &str, page_size: u32) -> Texts {
    let row = |line: &str| -> Option<(String, Value)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |i: usize| words.get(i)?.parse::<u64>().ok();
        let pages = at(5).filter(|p| p.is_power_of_two())?;
        let slabs = words.iter().position(|w| *w == "slabdata").and_then(|i| at(i + 2));
        let fields = json!({
            "slab_size": at(3)?, "objs_per_slab": at(4)?, "order": pages.ilog2(),
            "objects": at(1)?, "total_objects": at(2)?, "slabs": slabs,
        });
        Some((words[0].into(), fields))
    };
    // A cache with not one object in a slab does not exist; the head line has words.
    let plausible = |(_, fields): &(String, Value)| {
        fields["slab_size"].as_u64().is_some_and(|s| s > 0 && s <= u64::from(page_size) << 10)
    };
    text.lines().filter_map(row).filter(plausible).collect()
}

fn refused(path: &Path, error: io::Error) -> Error {
    let path = path.to_path_buf();
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::NotRoot { path, error },
        io::ErrorKind::NotFound => Error::NoSlub { path },
        _ => Error::Read { path, error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabinfo_gives_the_geometry_without_sysfs() {
        let text = "slabinfo - version: 2.1\n\
            # name <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables\n\
            dentry 41 42 192 21 1 : tunables 0 0 0 : slabdata 2 2 0\n\
            kmalloc-1k 16 32 1024 16 4 : tunables 0 0 0 : slabdata 2 2 0\n";
        let document = json!({ "page_size": 4096, "slab": slabinfo(text, 4096) });
        let document = document.as_object().unwrap();
        let snapshot = parse::one(None, document, document).unwrap();
        let got: Vec<_> = snapshot
            .caches
            .iter()
            .map(|c| (c.id.as_str(), c.slab_size, c.order, c.objs_per_slab, c.slabs, c.objects))
            .collect();
        let dentry = ("dentry", 192, 0, 21, Some(2), Some(41));
        assert_eq!(got, [dentry, ("kmalloc-1k", 1024, 2, 16, Some(2), Some(16))]);
        assert_eq!(snapshot.caches[0].cpu_partial, None);
    }
}
