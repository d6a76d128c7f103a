//! Settings: which are possible, in which order they may be set, and which are rejected.

use super::{geometry, settings};
use slabyard_lab::geometry::kmalloc_sizes;
use slabyard_lab::rules::{Machine, RELEASES, Settings, find_release};
use slabyard_lab::snapshot::KernelSnapshot;

#[test]
fn impossible_settings_say_what_is_possible() {
    let impossible =
        |machine: Machine| Settings::new(&RELEASES[4], machine).validate().unwrap_err().to_string();
    assert!(impossible(Machine::new(5120, 2)).contains("5120 bytes; it must be 4096"));
    assert!(impossible(Machine::new(131072, 2)).contains("4k to 64k"));
    assert!(impossible(Machine::new(4096, 0)).contains("is 0; it must be from 1 to 8192"));
    assert!(impossible(Machine::new(4096, 9000)).contains("9000"));
    assert!(
        impossible(Machine { possible_cpus: 1, ..Machine::new(4096, 2) }).contains("of 1 possible")
    );
    assert!(impossible(Machine { nodes: 0, ..Machine::new(4096, 2) }).contains("nodes"));
    let release = find_release("7.1").unwrap().0;
    let mut at = Settings::new(release, Machine::new(4096, 2));
    at.set("cpu_partial=30").unwrap();
    assert!(at.validate().unwrap_err().to_string().contains("release 7.1"));
    at.set("cpu_partial=0").unwrap();
    assert!(at.validate().unwrap_err().to_string().contains("leave it out"), "what is not there");
}

#[test]
fn a_setting_that_is_not_taken_says_what_would_be() {
    let mut at = settings("6.18", 4096, 2, &[]);
    let before = at.clone();
    for (text, words) in [
        ("max_order=12", "max_order takes an order from 0 to 10"),
        ("max_order=-1", "0 to 10"),
        ("max_order", "KEY=VALUE"),
        ("max_ordr=1", "did you mean `max_order`?"),
        ("slub_min_partal=1", "keys: min_order, max_order"),
        ("colour=blue", "unknown key `colour`; keys: "),
        ("cpu_partial=8192:1,8192:2", "pairs SIZE:NUMBER"),
        ("cpu_partial=65536", "cpu_partial takes"),
        ("min_objects=40000", "1 to 32767"),
        ("accounting=none", "`objects` (to 5.15)"),
    ] {
        let error = at.set(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
        assert_eq!(at, before, "{text}");
    }
    // The kernel's names are taken, and the later of two values counts.
    at.set("slub_max_order=1").unwrap();
    at.set("slab_max_order=2").unwrap();
    assert_eq!((at.min_order, at.max_order()), (0, 2));
}

/// Whichever way round they are typed, settings mean the same, or are refused.
#[test]
fn the_order_of_settings_does_not_matter() {
    let keys = [
        "min_order=5",
        "max_order=1",
        "max_order=6",
        "tiny=1",
        "front=cpu_slabs",
        "front=sheaves",
        "cpu_partial_lists=0",
        "cpu_partial=30",
        "accounting=exact",
        "freezing=eager",
        "sheaf_capacity=8",
        "max_full_sheaves=3",
        "max_empty_sheaves=0",
        "min_objects=4",
        "multiplier=2",
    ];
    for release in ["5.9", "6.1", "6.4", "6.7", "6.18", "7.0", "7.3"] {
        for (a, b) in keys.iter().flat_map(|a| keys.map(|b| (*a, b))) {
            if a.split('=').next() == b.split('=').next() {
                continue;
            }
            let with = |pair: [&str; 2]| {
                let (mut at, _) = Settings::of_version(release, Machine::new(4096, 2)).unwrap();
                pair.iter().for_each(|text| at.set(text).unwrap());
                let geometry = kmalloc_sizes(4096).into_iter().map(|size| geometry(size, &at));
                at.validate().map(|()| geometry.collect::<Vec<_>>()).map_err(|e| e.to_string())
            };
            let (one, other) = (with([a, b]), with([b, a]));
            match (&one, &other) {
                (Err(_), Err(_)) => {}
                _ => assert_eq!(one, other, "{release}: {a} {b}"),
            }
        }
    }
    let mut at = settings("6.18", 4096, 2, &["min_order=5"]);
    at.set("max_order=1").unwrap();
    let words = "min_order 5 is above max_order 1";
    assert!(at.validate().unwrap_err().to_string().contains(words));
    at.set("max_order=7").unwrap();
    at.validate().unwrap();
}

#[test]
fn what_would_change_nothing_is_refused() {
    for (release, keys, words) in [
        ("7.1", &["freezing=eager"][..], "freezing needs CPU slabs, which release 7.1"),
        ("7.0.3", &["freezing=delayed"], "freezing needs CPU slabs, which release 7.0 "),
        ("7.1", &["accounting=exact"], "accounting needs CPU partial lists"),
        ("7.1", &["cpu_partial_lists=1"], "cpu_partial_lists needs CPU partial lists"),
        ("7.1", &["front=cpu_slabs", "cpu_partial=30"], "cpu_partial needs CPU partial lists"),
        ("6.12", &["sheaf_capacity=16"], "sheaf_capacity needs sheaves"),
        ("6.12", &["max_full_sheaves=5"], "max_full_sheaves needs sheaves"),
        ("7.3", &["tiny=1", "max_empty_sheaves=5"], "max_empty_sheaves needs sheaves"),
        ("6.12", &["tiny=1", "freezing=eager"], "freezing needs CPU slabs"),
        ("6.12", &["tiny=1", "accounting=objects"], "accounting needs CPU partial lists"),
        ("7.1", &["tiny=1", "sheaf_capacity=16"], "sheaf_capacity needs sheaves"),
        ("6.12", &["tiny=1", "front=sheaves"], "front needs a front, and not tiny=1"),
        ("6.12", &["cpu_partial_lists=0", "cpu_partial=30"], "cpu_partial needs CPU partial lists"),
        ("6.12", &["cpu_partial_lists=0", "cpu_partial=0"], "cpu_partial needs CPU partial lists"),
        ("7.1", &["cpu_partial_lists=0"], "cpu_partial_lists needs CPU partial lists"),
        ("6.12", &["cpu_partial_lists=0", "accounting=exact"], "accounting needs"),
        ("6.12", &["counted_cpus=possible", "min_objects=8"], "counted_cpus counts where"),
        ("6.1", &["alien_cache=0"], "alien_cache is of machines with several nodes"),
        ("6.1", &["tiny=1"], "tiny came with 6.2; take release 6.2 or newer, not 6.1"),
        ("6.1.20", &["tiny=1"], "tiny came with 6.2"),
        ("5.15", &["tiny=1"], "tiny came with 6.2"),
        ("6.12", &["multiplier=2", "min_objects=8"], "multiplier counts where min_objects is auto"),
        ("6.12", &["min_objects=8", "multiplier=4"], "it is 8"),
        ("6.12", &["order_rule=auto", "max_order=1"], "max_order counts where order_rule is"),
    ] {
        let (mut at, _) = Settings::of_version(release, Machine::new(4096, 2)).unwrap();
        keys.iter().for_each(|text| at.set(text).unwrap());
        let error = at.validate().expect_err(words).to_string();
        assert!(error.contains(words), "{release} {keys:?}: {error}");
    }
    // What a version has of itself is no setting of the user's.
    for (release, keys) in [
        ("7.0", &["tiny=1"][..]),
        ("7.0", &["front=cpu_slabs"]),
        ("7.1", &["tiny=1"]),
        ("6.7", &["tiny=1"]),
        ("6.2", &["tiny=1"]),
        ("6.12", &["cpu_partial_lists=0", "freezing=eager"]),
        ("6.18", &["front=sheaves", "sheaf_capacity=16"]),
        ("6.12", &["min_objects=8", "multiplier=2", "min_objects=auto"]),
        ("6.12", &["order_rule=auto", "max_order=1", "order_rule=default"]),
        ("6.12", &["min_objects=0", "multiplier=2"]),
    ] {
        let (mut at, _) = Settings::of_version(release, Machine::new(4096, 2)).unwrap();
        keys.iter().for_each(|text| at.set(text).unwrap());
        assert_eq!(at.validate(), Ok(()), "{release} {keys:?}");
    }
}

#[test]
fn sheaves_on_request_are_of_caches_that_request_them_whatever_kernel_was_asked() {
    let asked = |kernel: &str, sheaves: [u32; 3]| {
        let cache = |size: u32, sheaf_capacity: u32| {
            serde_json::json!({ "slab_size": size, "object_size": size, "objs_per_slab": 16,
                "order": 0, "sheaf_capacity": sheaf_capacity })
        };
        let document = serde_json::json!({
            "kernel": kernel, "page_size": 4096, "online_cpus": "0-1", "possible_cpus": "0-1",
            "aliases": { "vm_area_struct": ":A-0000176", "biovec-16": ":0000256",
                "maple_node": ":0000256" },
            "slab": { ":0000256": cache(256, sheaves[0]), ":A-0000176": cache(176, sheaves[1]),
                "filp": cache(192, sheaves[2]) },
        });
        let text = document.to_string();
        let snapshot = KernelSnapshot::parse(text.as_bytes()).expect("a snapshot").remove(0);
        let requests = snapshot.requests(&settings("6.18", 4096, 2, &[]));
        // In the order of their ids.
        [0, 1, 2].map(|nth: usize| requests[nth].sheaf_capacity)
    };
    // `maple_node` would not be merged if it requested sheaves.
    assert_eq!(asked("6.12.1", [0, 0, 0]), [0, 32, 0], "known by their names");
    assert_eq!(asked("7.3.4", [28, 60, 60]), [0, 32, 0], "what 7.3 gives to all is no request");
    assert_eq!(asked("7.3.4", [28, 60, 90]), [0, 32, 90], "what is above it is one");
    assert_eq!(asked("6.18.2", [0, 0, 9]), [0, 0, 9], "this kernel tells");
}
