//! The way back: a snapshot as the files of a kernel, so that tools which read those show processes,
//! replays and pasted texts.
//!
//! [`slabinfo`] writes `/proc/slabinfo` 2.1, [`tree`] a root with `/sys/kernel/slab` and the other
//! files that [`super::sample`] reads. Neighbours: [`super::attribute`] prints what it parses,
//! [`super::machine`] knows meminfo. Invariant: [`super::sample`] reads from the tree of a kernel's
//! snapshot the same caches, totals and machine.

use super::attribute;
use super::machine;
use super::slabinfo::HEADING;
use super::tree::BELOW;
use crate::snapshot::{Cache, Missing, Snapshot};
use crate::value::Reading;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A file of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// With this text.
    File(String),
    /// A symbolic link to this name beside it.
    Link(String),
}

/// The names of slabinfo's columns, as the kernel prints them.
const COLUMNS: &str = "# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> \
    : tunables <limit> <batchcount> <sharedfactor> \
    : slabdata <active_slabs> <num_slabs> <sharedavail>";

/// The text of slabinfo, and the caches that lack a number of its columns.
///
/// Active objects are those of the source's `objects`, else its live ones; of a range, the high end.
#[must_use]
pub fn slabinfo(snapshot: &Snapshot) -> (String, Vec<Missing>) {
    let mut text = format!("{HEADING} 2.1\n{COLUMNS}\n");
    let mut missing = Vec::new();
    for cache in &snapshot.caches {
        match row(cache) {
            Ok(row) => text += &row,
            Err(column) => missing.push(Missing {
                what: cache.name.clone(),
                why: format!("it has no row, for its {column} is not known"),
            }),
        }
    }
    (text, missing)
}

/// A line, or the number that it lacks.
fn row(cache: &Cache) -> Result<String, &'static str> {
    let told = |name: &'static str| cache.value(name).and_then(|value| value.high()).ok_or(name);
    let or_0 = |name| told(name).unwrap_or(0);
    // Its readers take a name for one word.
    let name: Vec<&str> = cache.name.split_whitespace().collect();
    let active = told("objects").or_else(|_| told("live"))?;
    let pages = u32::try_from(told("order")?).ok().and_then(|order| 1u64.checked_shl(order));
    let mut row = String::new();
    let _ = writeln!(
        row,
        "{:<17} {:6} {:6} {:6} {:4} {:4} : tunables {:4} {:4} {:4} : slabdata {:6} {:6} {:6}",
        name.join("_"),
        active,
        told("total_objects")?,
        told("slab_size")?,
        told("objs_per_slab")?,
        pages.ok_or("order")?,
        or_0("limit"),
        or_0("batchcount"),
        or_0("sharedfactor"),
        told("slabs")?,
        told("slabs")?,
        0,
    );
    Ok(row)
}

/// The files below a root, by their paths, of which none leads out of it.
#[must_use]
pub fn tree(snapshot: &Snapshot) -> BTreeMap<PathBuf, Entry> {
    let mut files = BTreeMap::new();
    let mut put = |path: &str, text: String| files.insert(path.into(), Entry::File(text));
    put("proc/slabinfo", slabinfo(snapshot).0);
    put("proc/meminfo", machine::meminfo(snapshot));
    if !snapshot.free_blocks.is_empty() {
        put("proc/buddyinfo", machine::buddyinfo(&snapshot.free_blocks));
    }
    let named = [
        ("proc/sys/kernel/osrelease", snapshot.source.release.clone()),
        ("proc/cmdline", snapshot.source.boot.clone()),
        ("sys/devices/system/cpu/possible", snapshot.machine.possible_cpus.and_then(range)),
        ("sys/devices/system/cpu/online", snapshot.machine.online_cpus.and_then(range)),
        ("sys/devices/system/node/online", snapshot.machine.nodes.and_then(range)),
    ];
    for (path, text) in named {
        text.into_iter().for_each(|text| _ = put(path, format!("{text}\n")));
    }
    for cache in &snapshot.caches {
        cache_files(cache, &mut files);
    }
    files
}

/// "0-3" of 4.
fn range(count: u32) -> Option<String> {
    match count.checked_sub(1)? {
        0 => Some("0".into()),
        last => Some(format!("0-{last}")),
    }
}

/// The directory of a cache, and links of its names.
fn cache_files(cache: &Cache, files: &mut BTreeMap<PathBuf, Entry>) {
    let below = Path::new(BELOW);
    let id = one_name(cache.id.as_deref().unwrap_or(&cache.name));
    for name in cache.names().map(one_name).filter(|name| *name != id) {
        files.insert(below.join(name), Entry::Link(id.clone()));
    }
    let mut put = |name: &str, reading: &Reading| {
        let text = attribute::print(name, reading, cache.exact("objs_per_slab"));
        let path = below.join(&id).join(one_name(name));
        text.into_iter().for_each(|text| _ = files.insert(path.clone(), Entry::File(text)));
    };
    cache.readings.iter().for_each(|(name, reading)| put(name, reading));
    // What slabinfo estimates, sysfs counts; what a process hands out is all that is active of it.
    let objects = cache
        .reading("objects_counted")
        .or_else(|| cache.reading("live").filter(|_| cache.reading("objects").is_none()));
    objects.into_iter().for_each(|reading| put("objects", reading));
}

/// A name of one component of a path, as sysfs writes it.
fn one_name(name: &str) -> String {
    match name {
        "." | ".." | "" => format!("!{name}"),
        _ => name.replace('/', "!"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Source, SourceKind};
    use crate::value::Value;

    fn process() -> Snapshot {
        let mut cache = Cache::new("malloc 64/x");
        for (name, value) in [
            ("total_objects", 640),
            ("slab_size", 64),
            ("objs_per_slab", 64),
            ("order", 1),
            ("slabs", 10),
        ] {
            cache.set(name, value);
        }
        cache.set("live", Value::Range(500, 600));
        cache.set("parked_cpu", 7);
        let mut snapshot = Snapshot::new(Source::of(SourceKind::Process));
        snapshot.caches = vec![cache, Cache::new("arena 1")];
        snapshot
    }

    #[test]
    fn a_process_is_a_slabinfo_and_what_it_lacks_is_named() {
        let (text, missing) = slabinfo(&process());
        let row = text.lines().nth(2).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[..6], ["malloc_64/x", "600", "640", "64", "64", "2"], "{text}");
        assert_eq!((missing[0].what.as_str(), text.lines().count()), ("arena 1", 3));
        assert!(missing[0].why.contains("live"), "{missing:?}");
    }

    #[test]
    fn a_tree_has_attributes_that_a_kernel_has_and_no_others() {
        let files = tree(&process());
        let of = |path: &str| files.get(&Path::new(BELOW).join(path)).cloned();
        assert_eq!(of("malloc 64!x/slabs"), Some(Entry::File("10\n".into())));
        assert_eq!(of("malloc 64!x/objects"), Some(Entry::File("600\n".into())));
        assert_eq!(of("malloc 64!x/parked_cpu"), None);
        assert!(!files.keys().any(|path| path.ends_with("osrelease")));
    }

    #[test]
    fn no_name_in_a_snapshot_leads_out_of_the_tree() {
        let mut snapshot = process();
        let cache = &mut snapshot.caches[0];
        for name in ["../../../../x", "/etc/x", "..", ".", ""] {
            cache.readings.insert(name.into(), Reading::from(7));
            cache.aliases.push(name.into());
        }
        cache.id = Some("../y".into());
        let files = tree(&snapshot);
        let names = |path: &Path| {
            path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
        };
        for (path, entry) in &files {
            assert!(names(path), "{path:?}");
            if let Entry::Link(target) = entry {
                assert!(names(Path::new(target)) && !target.contains('/'), "{path:?} {target}");
            }
        }
        let of_cache = |path: &Path| path.starts_with(Path::new(BELOW).join("..!y"));
        assert_eq!(files.keys().filter(|path| of_cache(path)).count(), 6 + 5);
    }
}
