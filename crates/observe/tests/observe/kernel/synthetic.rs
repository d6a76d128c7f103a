//! Kernels that could not be run here: 7.1, where sheaves replaced CPU slabs, one with 16 KiB
//! pages and two nodes, and ones with unexpected files.

use super::tree::{Kernel, put, scratch};
use slabyard_observe::fields::{self, field};
use slabyard_observe::{ReadScope, Snapshot, Value, hidden, kernel};
use std::collections::BTreeMap;
use std::fs;

const ALL: ReadScope = ReadScope { all: true, slabs: false };

fn sampled(kernel: &Kernel, want: ReadScope) -> Snapshot {
    let root = scratch();
    kernel.write(root.path());
    kernel::sample(root.path(), want).unwrap()
}

fn get(snapshot: &Snapshot, cache: &str, name: &str) -> Option<Value> {
    fields::value(field(name).unwrap(), snapshot, snapshot.cache(cache).unwrap())
}

fn why<'a>(snapshot: &'a Snapshot, what: &str) -> Vec<&'a str> {
    snapshot.missing.iter().filter(|m| m.what == what).map(|m| m.why.as_str()).collect()
}

/// As 7.1 shows the caches that 6.18 had.
fn seven() -> Kernel {
    let mut kernel = Kernel::of_dump("x86_618_4k_smp2.json.zst", None);
    kernel.release = "7.1.0".into();
    let capacity = |size: u64| match size {
        4096.. => 4,
        1024.. => 12,
        256.. => 28,
        _ => 60,
    };
    for texts in kernel.caches.values_mut() {
        let size = texts["slab_size"].parse().unwrap();
        let now = [
            ("sheaf_capacity", capacity(size).to_string()),
            ("cpu_slabs", "0".into()),
            ("cpu_partial", "0".into()),
            ("slabs_cpu_partial", "0(0)".into()),
        ];
        texts.extend(now.map(|(name, text)| (name.to_owned(), text)));
    }
    kernel.caches.get_mut("kmem_cache").unwrap().insert("sheaf_capacity".into(), "0".into());
    kernel
}

#[test]
fn stubs_of_7_1_do_not_say_that_nothing_is_hidden() {
    let kernel = seven();
    let mut snapshot = sampled(&kernel, ALL);
    for stub in ["cpu_slabs", "cpu_partial", "slabs_cpu_partial"] {
        assert!(snapshot.caches.iter().all(|c| c.reading(stub).is_none()), "{stub}");
        let why = why(&snapshot, stub);
        assert_eq!(why.len(), 1, "{stub}: {why:?}");
        assert!(why[0].contains("7.1") && why[0].contains("always 0"), "{why:?}");
    }
    let active = kernel.number("dentry", "objects");
    // 60 objects in 3 sheaves of 2 CPUs, and in 10 of a barn.
    let most = (2 * 3 + 10) * 60;
    assert!(active > most, "the fixture has enough dentries");
    assert_eq!(get(&snapshot, "dentry", "live"), Some(Value::Range(active - most, active)));
    assert_eq!(get(&snapshot, "dentry", "parked"), Some(Value::Range(0, most)));
    assert_eq!(get(&snapshot, "dentry", "parked_cpu"), Some(Value::Range(0, 360)));
    assert_eq!(get(&snapshot, "dentry", "parked_node"), Some(Value::Range(0, 600)));
    // Slabs that are neither partial nor held: all that are not listed.
    let full = kernel.number("dentry", "slabs") - kernel.number("dentry", "partial");
    assert_eq!(get(&snapshot, "dentry", "full"), Some(Value::Exact(full)));
    // A cache without sheaves hides nothing.
    let active = kernel.number("kmem_cache", "objects");
    assert_eq!(get(&snapshot, "kmem_cache", "live"), Some(Value::Exact(active)));

    let before = snapshot.total("maybe_parked_caches").and_then(Value::exact).unwrap();
    assert!(before > 100, "{before}");
    hidden::after_shrink(&mut snapshot);
    assert_eq!(snapshot.total("maybe_parked"), Some(&Value::Exact(0)));
    assert_eq!(snapshot.total("maybe_parked_caches"), Some(&Value::Exact(0)));
    let active = kernel.number("dentry", "objects");
    assert_eq!(get(&snapshot, "dentry", "live"), Some(Value::Exact(active)));
    assert_eq!(get(&snapshot, "dentry", "parked"), Some(Value::Exact(0)));
}

#[test]
fn pages_of_16_kib_and_two_nodes() {
    let sizes: [u64; 5] = [64, 192, 832, 4096, 9856];
    let cache = |size: u64| {
        let order = if size > 4000 { 2 } else { 0 };
        let objs = (16384 << order) / size;
        let texts = [
            ("object_size", size.to_string()),
            ("slab_size", size.to_string()),
            ("order", order.to_string()),
            ("objs_per_slab", objs.to_string()),
            ("slabs", "7 N0=4 N1=3".into()),
            ("total_objects", format!("{} N0={} N1={}", 7 * objs, 4 * objs, 3 * objs)),
            ("objects", format!("{} N0={} N1={}", 7 * objs - 2, 4 * objs, 3 * objs - 2)),
            ("partial", "1 N1=1".into()),
            ("cpu_slabs", "2 N0=1 N1=1".into()),
        ];
        (format!("c{size}"), texts.map(|(name, text)| (name.to_owned(), text)).into())
    };
    let kernel = Kernel {
        release: "6.6.1-16k".into(),
        possible: "0-7".into(),
        online: "0-5".into(),
        nodes: Some("0-1".into()),
        caches: sizes.map(cache).into(),
        ..Kernel::default()
    };
    let snapshot = sampled(&kernel, ALL);
    let machine = snapshot.machine;
    assert_eq!(machine.page_bytes, Some(16384));
    assert_eq!(
        (machine.possible_cpus, machine.online_cpus, machine.nodes),
        (Some(8), Some(6), Some(2))
    );
    let cache = snapshot.cache("c4096").unwrap();
    let slabs = cache.reading("slabs").unwrap();
    assert_eq!(slabs.nodes, [(0, Value::Exact(4)), (1, Value::Exact(3))]);
    assert_eq!(get(&snapshot, "c4096", "bytes"), Some(Value::Exact(7 * 65536)));
    // Two slabs of 16 objects may be free; before 6.18 there are no sheaves.
    assert_eq!(get(&snapshot, "c4096", "live"), Some(Value::Range(110 - 32, 110)));
    let why = why(&snapshot, "sheaf_capacity");
    assert_eq!(why.len(), 1);
    assert!(why[0].contains("6.6") && why[0].contains("came with 6.18"), "{why:?}");
    // 7 × objs - 2 is less than 2 slabs of nothing, so the largest hides at most 2 slabs.
    assert_eq!(get(&snapshot, "c9856", "live"), Some(Value::Range(7 * 6 - 2 - 12, 7 * 6 - 2)));
}

#[test]
fn what_a_kernel_lacks_is_named_once() {
    let kernel = Kernel::of_dump("x86_510_4k_smp4_hb.json.zst", Some("boot"));
    let snapshot = sampled(&kernel, ALL);
    let mut seen = BTreeMap::new();
    for missing in &snapshot.missing {
        *seen.entry(missing.what.as_str()).or_insert(0) += 1;
    }
    assert!(seen.values().all(|times| *times == 1), "{seen:?}");
    assert!(why(&snapshot, "sheaf_capacity")[0].contains("5.10"));
    assert!(why(&snapshot, "skip_kfence")[0].contains("CONFIG_KFENCE"));
    assert!(why(&snapshot, "counters")[0].contains("CONFIG_SLUB_STATS"));
    assert!(!seen.contains_key("object_size") && !seen.contains_key("slabs"));
    // Without all, only what was asked for can be missing.
    let plain = sampled(&kernel, ReadScope::default());
    let names: Vec<_> = plain.missing.iter().map(|m| m.what.as_str()).collect();
    assert_eq!(names, ["sheaf_capacity"]);
    let slabs = sampled(&kernel, ReadScope { all: false, slabs: true });
    assert_eq!(why(&slabs, "slabs one by one").len(), 1);
}

#[test]
fn counters_and_attributes_of_tomorrow_are_read() {
    let mut kernel = Kernel::of_dump("x86_618_4k_smp2.json.zst", None);
    for texts in kernel.caches.values_mut() {
        texts.insert("alloc_fastpath".into(), "12 C0=5 C1=7".into());
        texts.insert("of_tomorrow".into(), "3 N0=3".into());
        texts.insert("words_of_tomorrow".into(), "many words".into());
        texts.insert("ctor".into(), "init_once+0x0/0x10".into());
    }
    // One cache has a text that is none of its kind.
    kernel.caches.get_mut("dentry").unwrap().insert("align".into(), "wide".into());
    let snapshot = sampled(&kernel, ALL);
    let cache = snapshot.cache("dentry").unwrap();
    let counter = cache.reading("alloc_fastpath").unwrap();
    assert_eq!(counter.value, Value::Exact(12));
    assert_eq!(counter.cpus, [(0, Value::Exact(5)), (1, Value::Exact(7))]);
    assert_eq!(cache.exact("of_tomorrow"), Some(3));
    assert_eq!(cache.value("words_of_tomorrow"), Some(&Value::Text("many words".into())));
    assert_eq!(cache.value("ctor"), Some(&Value::Text("init_once+0x0/0x10".into())));
    assert_eq!(cache.value("align"), None);
    assert_eq!(why(&snapshot, "align"), ["cache `dentry`: `wide` is not what is expected there"]);
    assert!(why(&snapshot, "counters").is_empty());
}

#[test]
fn a_cache_that_only_one_of_both_lists_is_kept() {
    let kernel = Kernel::of_dump("x86_618_4k_smp2.json.zst", None);
    let root = scratch();
    kernel.write(root.path());
    let slabinfo = fs::read_to_string(root.path().join("proc/slabinfo")).unwrap();
    let without: String = slabinfo
        .lines()
        .filter(|l| !l.starts_with("dentry "))
        .fold(String::new(), |text, line| text + line + "\n");
    assert!(without.len() < slabinfo.len());
    let line = "only_here 1 2 64 64 1 : tunables 0 0 0 : slabdata 1 1 0\n";
    put(root.path(), "proc/slabinfo", &(without + line + "what is this\n"));
    let snapshot = kernel::sample(root.path(), ReadScope::default()).unwrap();
    // Its geometry and counts come from sysfs then.
    for name in ["slabs", "objects", "total_objects", "order", "slab_size", "objs_per_slab"] {
        let got = snapshot.cache("dentry").unwrap().exact(name);
        assert_eq!(got, Some(kernel.number("dentry", name)), "{name}");
    }
    let only = snapshot.cache("only_here").unwrap();
    assert_eq!((only.exact("objects"), only.exact("partial")), (Some(1), None));
    assert_eq!(get(&snapshot, "only_here", "live"), None);
    assert!(why(&snapshot, "/proc/slabinfo")[0].contains("1 lines"));
}
