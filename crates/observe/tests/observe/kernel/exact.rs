//! File trees built from dumps of real kernels: every number is read as it was written.

use super::tree::{Kernel, dumps, scratch};
use slabyard_observe::fields;
use slabyard_observe::kernel::files::{self, Entry};
use slabyard_observe::{Cache, ReadScope, Reading, Snapshot, Value, file, kernel};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

/// Dumps of kernels with 4 and 64 KiB pages, before and after load, shrunk and not.
const DUMPS: [(&str, Option<&str>, u64); 8] = [
    ("x86_510_4k_smp4_hb.json.zst", Some("hb"), 4096),
    ("x86_612_4k_smp4_hb_nehalem.json.zst", Some("hb_shrunk"), 4096),
    ("x86_618_4k_smp2.json.zst", None, 4096),
    ("x86_734_4k_smp2.json.zst", None, 4096),
    ("forkexec.after.json.zst", None, 4096),
    ("p64k_def_smp16_hb.json.zst", Some("hb"), 65536),
    ("p64k_mo0_smp16_hb.json.zst", Some("boot"), 65536),
    ("tr64k_hb_smp4.after_shrunk.json.zst", None, 65536),
];

/// Attributes that kernels without CPU slabs keep, always 0.
const STUBS: [&str; 3] = ["cpu_slabs", "cpu_partial", "slabs_cpu_partial"];

/// Whether the attribute of that kernel says anything.
fn is_told(kernel: &Kernel, name: &str) -> bool {
    !kernel.release.starts_with('7') || !STUBS.contains(&name)
}

#[test]
fn what_is_written_as_files_of_a_kernel_is_read_as_the_same_snapshot() {
    for (dump, name, _) in DUMPS {
        let kernel = Kernel::of_dump(dump, name);
        let root = scratch();
        kernel.write(root.path());
        let all = kernel::sample(root.path(), ReadScope { all: true, slabs: false }).unwrap();
        let copy = scratch();
        for (path, entry) in files::tree(&all) {
            let path = copy.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match entry {
                Entry::File(text) => fs::write(path, text).unwrap(),
                Entry::Link(target) => symlink(target, path).unwrap(),
            }
        }
        let again = file::open(copy.path()).unwrap();
        assert_eq!(again.caches, all.caches, "{dump}");
        assert_eq!(again.totals, all.totals, "{dump}");
        assert_eq!((again.machine, &again.free_blocks), (all.machine, &all.free_blocks), "{dump}");
        assert_eq!(again.source.release, all.source.release, "{dump}");
        assert_eq!(again.missing, all.missing, "{dump}");
    }
}

#[test]
fn every_number_of_a_real_kernel_comes_out_as_it_went_in() {
    for (file, dump, page_bytes) in DUMPS {
        let kernel = Kernel::of_dump(file, dump);
        let root = scratch();
        kernel.write(root.path());
        let all = kernel::sample(root.path(), ReadScope { all: true, slabs: false }).unwrap();
        let is_told = |name: &str| is_told(&kernel, name);
        assert_eq!(differences(&kernel, &all, is_told), [""; 0], "{file}");
        assert_eq!(all.machine.page_bytes, Some(page_bytes), "{file}");
        assert_eq!(all.source.release.as_deref(), Some(kernel.release.as_str()));
        assert_eq!(all.caches.len(), kernel.caches.len());

        let plain = kernel::sample(root.path(), ReadScope::default()).unwrap();
        let plain_ones = [
            "objects",
            "total_objects",
            "slabs",
            "slab_size",
            "objs_per_slab",
            "order",
            "object_size",
            "partial",
            "cpu_slabs",
            "sheaf_capacity",
        ];
        let wanted = |name: &str| plain_ones.contains(&name);
        let found = differences(&kernel, &sums(&plain), wanted);
        assert_eq!(found, differences(&kernel, &sums(&all), wanted), "{file}");
        for cache in &plain.caches {
            assert!(cache.readings.keys().all(|name| wanted(name)), "{file}: {}", cache.name);
        }
    }
}

#[test]
fn a_number_that_was_changed_is_found() {
    let kernel = Kernel::of_dump("forkexec.after.json.zst", None);
    let root = scratch();
    kernel.write(root.path());
    let want = ReadScope { all: true, slabs: false };
    let clean = kernel::sample(root.path(), want).unwrap();
    let path = root.path().join("sys/kernel/slab/dentry/partial");
    let right = fs::read_to_string(&path).unwrap();
    let number: u64 = right.split_whitespace().next().unwrap().parse().unwrap();
    fs::write(&path, format!("{} N0={number}\n", number + 1)).unwrap();
    let wrong = kernel::sample(root.path(), want).unwrap();
    let found = differences(&kernel, &wrong, |_| true);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("dentry") && found[0].contains("partial"), "{found:?}");

    let mut wrong = clean.clone();
    wrong.caches[7].set("align", 7777);
    assert_eq!(differences(&kernel, &wrong, |_| true).len(), 1);
    let mut wrong = clean.clone();
    let merged = wrong.caches.iter_mut().find(|c| !c.aliases.is_empty()).unwrap();
    merged.aliases.pop();
    assert_eq!(differences(&kernel, &wrong, |_| true).len(), 1);
    let mut wrong = clean;
    wrong.caches.remove(0);
    assert_eq!(differences(&kernel, &wrong, |_| true).len(), 1);
}

#[test]
fn what_slabinfo_estimates_is_counted() {
    let mut kernel = Kernel::of_dump("x86_618_4k_smp2.json.zst", None);
    let dentry = kernel.caches.get_mut("dentry").unwrap();
    dentry.insert("partial".into(), "10001 N0=10001".into());
    dentry.insert("cpu_slabs".into(), "0".into());
    let root = scratch();
    kernel.write(root.path());
    // Now slabinfo and sysfs do not say the same.
    let estimate = kernel.number("dentry", "objects");
    let counted = estimate - 1000;
    let path = root.path().join("sys/kernel/slab/dentry/objects");
    fs::write(path, format!("{counted} N0={counted}\n")).unwrap();
    for all in [false, true] {
        let snapshot = kernel::sample(root.path(), ReadScope { all, slabs: false }).unwrap();
        let cache = snapshot.cache("dentry").unwrap();
        assert_eq!(cache.exact("objects"), Some(estimate));
        assert_eq!(cache.exact("objects_counted"), Some(counted));
        let live = fields::field("live").unwrap();
        assert_eq!(fields::value(live, &snapshot, cache), Some(Value::Exact(counted)));
        let others = snapshot.caches.iter().filter(|c| c.name != "dentry");
        assert!(others.clone().all(|c| c.reading("objects_counted").is_none()));
    }
}

#[test]
fn a_dump_opens_as_the_tree_that_it_was_taken_from() {
    for (name, dump, page_bytes) in DUMPS {
        // Of a file of several the first in order of names is shown.
        let kernel = Kernel::of_dump(name, dump.map(|_| "boot"));
        let snapshot = file::open(&dumps().join(name)).unwrap();
        let by_id = |mut snapshot: Snapshot| {
            // Without slabinfo, nobody knows who created a merged cache.
            for cache in &mut snapshot.caches {
                let id = cache.id.clone().unwrap_or_else(|| cache.name.clone());
                let mut names: BTreeSet<String> = cache.names().map(Into::into).collect();
                cache.name = kernel.creator(&id).into();
                names.remove(&id);
                names.remove(&cache.name);
                cache.aliases = names.into_iter().collect();
            }
            snapshot
        };
        let is_told = |name: &str| is_told(&kernel, name);
        assert_eq!(differences(&kernel, &by_id(snapshot.clone()), is_told), [""; 0], "{name}");
        assert_eq!(snapshot.machine.page_bytes, Some(page_bytes));
        let others = snapshot.missing.iter().find(|m| m.why.contains("`boot` is shown"));
        assert_eq!(others.is_some(), dump.is_some(), "{name}");
        let live = snapshot
            .cache("dentry")
            .and_then(|c| fields::value(fields::field("live").unwrap(), &snapshot, c));
        assert!(live.is_some(), "{name}: a dump tells what is live within bounds");
    }
}

#[test]
fn memory_and_the_machine_are_told() {
    let kernel = Kernel::of_dump("x86_618_4k_smp2.json.zst", None);
    let root = scratch();
    kernel.write(root.path());
    let snapshot = kernel::sample(root.path(), ReadScope::default()).unwrap();
    let total = |name: &str| snapshot.total(name).and_then(Value::exact);
    assert_eq!(total("slab"), Some(kernel.meminfo["Slab"] * 1024));
    assert_eq!(total("slab_reclaimable"), Some(kernel.meminfo["SReclaimable"] * 1024));
    assert_eq!(total("slab_unreclaimable"), Some(kernel.meminfo["SUnreclaim"] * 1024));
    assert_eq!(total("mem_total"), Some(kernel.meminfo["MemTotal"] * 1024));
    // Not in this dump.
    assert_eq!(total("mem_free"), None);
    let machine = snapshot.machine;
    assert_eq!(
        (machine.possible_cpus, machine.online_cpus, machine.nodes),
        (Some(2), Some(2), Some(1))
    );
    assert_eq!(snapshot.free_blocks.len(), 1);
    assert_eq!(snapshot.free_blocks[0].blocks, [0, 1, 3]);
    assert!(snapshot.took_ns.is_some_and(|ns| ns > 0));
}

/// Every name and number of the kernel that a snapshot does not have.
fn differences(kernel: &Kernel, snapshot: &Snapshot, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (id, texts) in &kernel.caches {
        let creator = kernel.creator(id);
        let own = |c: &&Cache| c.name == creator && c.id.as_deref().unwrap_or(creator) == id;
        let Some(cache) = snapshot.caches.iter().find(own) else {
            found.push(format!("{id}: no such cache"));
            continue;
        };
        let links = kernel.links.iter().filter(|(_, of)| *of == id).map(|(name, _)| name.as_str());
        let links: BTreeSet<&str> = links.filter(|name| *name != creator).collect();
        if links != cache.aliases.iter().map(String::as_str).collect() {
            found.push(format!("{id}: aliases {:?}", cache.aliases));
        }
        for (name, text) in texts.iter().filter(|(name, _)| wanted(name)) {
            let got = cache.reading(name).map(printed);
            if got.as_deref() != Some(&without_objects(text)) {
                found.push(format!("{id}: {name} is {got:?}, not {text}"));
            }
        }
    }
    found
}

/// A snapshot whose numbers have no parts.
fn sums(snapshot: &Snapshot) -> Snapshot {
    let mut sums = snapshot.clone();
    for reading in sums.caches.iter_mut().flat_map(|c| c.readings.values_mut()) {
        *reading = reading.value.clone().into();
    }
    sums
}

/// As sysfs would print it.
fn printed(reading: &Reading) -> String {
    let number = |value: &Value| value.exact().unwrap().to_string();
    let mut text = number(&reading.value);
    for (letter, parts) in [("N", &reading.nodes), ("C", &reading.cpus)] {
        for (which, value) in parts {
            text += &format!(" {letter}{which}={}", number(value));
        }
    }
    text
}

/// "5 C0=5" of "52(5) C0=52(5)": only slabs are counted.
fn without_objects(text: &str) -> String {
    let word = |word: &str| {
        let Some((objects, slabs)) = word.split_once('(') else { return word.to_owned() };
        let place = objects.split_once('=').map_or(String::new(), |(place, _)| format!("{place}="));
        format!("{place}{}", slabs.trim_end_matches(')'))
    };
    text.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}
