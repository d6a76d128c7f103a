//! Compares the geometry rules with real kernels: every cache of every snapshot in `data/`, the
//! running kernel, and published numbers.

mod settings;

use slabyard::engine::Tiny;
use slabyard::yard::{self, Yard};
use slabyard_lab::geometry::{self, Geometry, Request, of};
use slabyard_lab::rules::{Machine, RELEASES, Settings, find_release};
use slabyard_lab::snapshot::{Error, KernelSnapshot};
use slabyard_testkit::machine;
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn open(name: &str) -> Vec<KernelSnapshot> {
    KernelSnapshot::open(&data(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn host() -> KernelSnapshot {
    open("x86_618_4k_smp2.json.zst").remove(0)
}

fn settings(release: &str, page_size: u32, cpus: u32, keys: &[&str]) -> Settings {
    let mut settings =
        Settings::new(find_release(release).unwrap().0, Machine::new(page_size, cpus));
    keys.iter().for_each(|key| settings.set(key).unwrap());
    settings.validate().unwrap();
    settings
}

fn geometry(size: u32, settings: &Settings) -> Geometry {
    of(size, settings).unwrap()
}

/// Number of caches of each order.
fn histogram(snapshot: &KernelSnapshot, settings: &Settings) -> [usize; 5] {
    let mut orders = [0; 5];
    for cache in &snapshot.caches {
        orders[usize::from(cache.geometry(settings).unwrap().order)] += 1;
    }
    orders
}

#[test]
fn every_cache_of_every_snapshot_follows_the_rules() {
    let (mut snapshots, mut caches) = (0, 0);
    for entry in std::fs::read_dir(data("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".json.zst") {
            continue;
        }
        for snapshot in open(&name) {
            let (settings, _) = snapshot.settings().unwrap();
            settings.validate().unwrap();
            assert_eq!(snapshot.differences(&settings).unwrap(), [], "{name} {:?}", snapshot.dump);
            // Nothing is equal because it is missing.
            let told = |c: &slabyard_lab::snapshot::Cache| {
                c.cpu_partial.is_some() && c.min_partial.is_some() && c.slabs.is_some()
            };
            assert!(snapshot.caches.iter().all(told), "{name}");
            snapshots += 1;
            caches += snapshot.caches.len();
        }
    }
    // 31 dumps of 8 guests, one of 7.3, the host, and 3 of each of 3 traces.
    assert_eq!((snapshots, caches), (42, 31 * 184 - 4 * 58 + 4 * 3 + 203 + 7 * 235 + 3 * 184));
}

#[test]
fn the_kernel_that_runs_follows_the_rules() {
    let snapshot = match KernelSnapshot::live() {
        Ok(snapshot) => snapshot,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let (settings, _) = match snapshot.settings() {
        Ok(found) => found,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    assert_eq!(snapshot.differences(&settings).unwrap(), []);
    assert!(snapshot.caches.len() > 50, "{}", snapshot.caches.len());
    assert!(snapshot.aliases.values().all(|id| snapshot.cache(id).is_some()));
}

/// A check that cannot fail checks nothing.
#[test]
fn wrong_rules_differ_from_the_kernel() {
    for (snapshot, wrong) in [
        ("x86_618_4k_smp2.json.zst", "cpu_partial=60"),
        ("x86_618_4k_smp2.json.zst", "min_partial=20"),
        ("x86_618_4k_smp2.json.zst", "multiplier=2"),
        ("x86_618_4k_smp2.json.zst", "tiny=1"),
        ("x86_618_4k_smp2.json.zst", "cpu_partial_lists=0"),
        ("p64k_def_smp16_hb.json.zst", "max_order=2"),
        ("p64k_def_smp16_hb.json.zst", "min_objects=8"),
        ("p64k_mo1_smp16_hb.json.zst", "min_order=1"),
    ] {
        let snapshot = &open(snapshot)[0];
        let (mut settings, _) = snapshot.settings().unwrap();
        settings.set(wrong).unwrap();
        assert_ne!(snapshot.differences(&settings).unwrap(), [], "{wrong}");
    }
    // The presets on either side, too: targets changed in 5.16.
    let old = &open("x86_510_4k_smp4_hb.json.zst")[0];
    let new = Settings::new(find_release("5.16").unwrap().0, old.machine().unwrap());
    assert_ne!(old.differences(&new).unwrap(), []);
}

#[test]
fn caches_by_order_for_each_max_order_of_the_64k_guests() {
    for (name, orders) in [
        ("p64k_mo0_smp16_hb", [178, 6, 0, 0, 0]),
        ("p64k_mo1_smp16_hb", [145, 39, 0, 0, 0]),
        ("p64k_mo2_smp16_hb", [145, 11, 28, 0, 0]),
        ("p64k_mo3_smp16_hb", [145, 11, 6, 22, 0]),
        ("p64k_def_smp16_hb", [145, 11, 6, 22, 0]),
    ] {
        let snapshot = &open(&format!("{name}.json.zst"))[0];
        let (settings, _) = snapshot.settings().unwrap();
        assert_eq!(histogram(snapshot, &settings), orders, "{name}");
        // The boot parameter alone makes the difference.
        let plain = Settings::new(settings.release, settings.machine);
        assert_eq!(histogram(snapshot, &plain), [145, 11, 6, 22, 0], "{name}");
    }
}

/// The thread of October 2020 on 64 KiB pages: a task_struct of 9856 bytes, 64 CPUs.
#[test]
fn a_task_struct_on_64k_pages() {
    for (max_order, objects, pages) in [(3, 53, 8), (2, 26, 4), (1, 13, 2), (0, 6, 1)] {
        for release in ["5.9", "6.18"] {
            let max = format!("max_order={max_order}");
            let g = geometry(9856, &settings(release, 65536, 64, &[&max]));
            assert_eq!((g.objects, 1 << g.order), (objects, pages), "{release} {max}");
            assert_eq!(u64::from(g.waste), g.slab_bytes(65536) - u64::from(objects) * 9856);
        }
    }
}

#[test]
fn caches_by_order_for_other_pages_and_cpus() {
    let host = host();
    for (page_size, cpus, orders) in [
        (4096, 2, [134, 31, 34, 35, 1]),
        (4096, 64, [76, 49, 32, 77, 1]),
        (4096, 512, [49, 36, 51, 98, 1]),
        (16384, 2, [199, 18, 10, 8, 0]),
        (16384, 64, [157, 33, 20, 25, 0]),
        (16384, 512, [136, 37, 27, 35, 0]),
        (65536, 2, [227, 7, 0, 1, 0]),
        (65536, 64, [210, 15, 9, 1, 0]),
        (65536, 512, [200, 17, 11, 7, 0]),
    ] {
        let settings = settings("6.18", page_size, cpus, &[]);
        assert_eq!(histogram(&host, &settings), orders, "{page_size} {cpus}");
    }
    let max = |order| settings("6.18", 65536, 64, &[order]);
    assert_eq!(histogram(&host, &max("max_order=2")), [210, 15, 10, 0, 0]);
    assert_eq!(histogram(&host, &max("max_order=1")), [210, 25, 0, 0, 0]);
}

#[test]
fn the_two_formulas_differ_between_8_thirds_and_3_pages_alone() {
    for page in [4096, 16384, 65536] {
        for cpus in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1024] {
            let old = settings("6.8", page, cpus, &["order_formula=fewer_objects"]);
            let new = settings("6.8", page, cpus, &[]);
            let mut differing = 0;
            for size in (8..=8 * page).step_by(8) {
                let (old, new) = (geometry(size, &old), geometry(size, &new));
                if size * 3 > page * 8 && size < page * 3 {
                    assert_eq!((old.order, old.objects), (2, 1), "{page} {cpus} {size}");
                    assert_eq!((new.order, new.objects), (3, 2), "{page} {cpus} {size}");
                    differing += 1;
                } else {
                    assert_eq!(old, new, "{page} {cpus} {size}");
                }
            }
            assert_eq!(differing, (page / 3) / 8, "{page}");
        }
    }
}

#[test]
fn objects_wanted_grow_with_the_logarithm_of_the_cpus() {
    let wanted = |release, machine| {
        Settings::new(find_release(release).unwrap().0, machine).wanted_objects()
    };
    for (cpus, objects) in [
        (1, 8),
        (2, 12),
        (3, 12),
        (4, 16),
        (7, 16),
        (8, 20),
        (16, 24),
        (32, 28),
        (63, 28),
        (64, 32),
        (128, 36),
        (256, 40),
        (512, 44),
        (1023, 44),
        (1024, 48),
    ] {
        assert_eq!(wanted("6.18", Machine::new(4096, cpus)), objects, "{cpus}");
    }
    // Possible CPUs count to 5.10, present ones later, if there is more than one.
    let machine = Machine { present_cpus: 4, online_cpus: 4, ..Machine::new(4096, 64) };
    assert_eq!((wanted("5.9", machine), wanted("5.16", machine)), (32, 16));
    let early = Machine { present_cpus: 1, online_cpus: 1, ..machine };
    assert_eq!(wanted("5.16", early), 32);
    let (between, note) = Settings::of_version("5.15.2", machine).unwrap();
    assert_eq!((between.wanted_objects(), between.release.name), (16, "5.9"));
    assert!(note.unwrap().contains("present CPUs"));
}

#[test]
fn cpu_partial_is_a_target_of_objects_and_a_limit_of_slabs() {
    let at = settings("6.18", 4096, 64, &[]);
    for (size, slabs) in [
        (8, 1),
        (32, 2),
        (64, 4),
        (80, 5),
        (96, 6),
        (128, 8),
        (192, 6),
        (256, 4),
        (512, 4),
        (1024, 2),
        (2048, 3),
        (4096, 2),
        (8192, 3),
    ] {
        assert_eq!(geometry(size, &at).cpu_partial_slabs, Some(slabs), "{size}");
    }
    let at = settings("6.18", 65536, 64, &[]);
    for (size, slabs) in [(8, 1), (1024, 1), (2048, 2), (8192, 2)] {
        assert_eq!(geometry(size, &at).cpu_partial_slabs, Some(slabs), "{size}");
    }
    for (release, targets) in [("5.9", [30, 13, 6, 2]), ("5.16", [120, 52, 24, 6]), ("7.1", [0; 4])]
    {
        let at = settings(release, 65536, 64, &[]);
        let got = [255, 256, 1024, 65536].map(|size| geometry(size, &at).cpu_partial);
        assert_eq!(got, targets, "{release}");
        let last = [255, 1023, 65535, 70000].map(|size| geometry(size, &at).cpu_partial);
        assert_eq!(last, targets, "{release}");
    }
    // Free objects were counted to 5.15, not slabs.
    assert_eq!(geometry(64, &settings("5.9", 4096, 4, &[])).cpu_partial_slabs, None);
    let exact = settings("6.18", 4096, 4, &["accounting=exact"]);
    assert_eq!(geometry(64, &exact).cpu_partial_slabs, None);
}

/// The patch of the thread of 2020: 1 for sizes of 8 KiB and more, 2 from 4 KiB, else as before.
#[test]
fn a_rule_by_size_leaves_smaller_sizes_to_the_kernel() {
    let at = settings("5.9", 65536, 64, &["cpu_partial=8192:1,4096:2"]);
    let got = [192, 2048, 4096, 8191, 8192, 65536].map(|size| geometry(size, &at).cpu_partial);
    assert_eq!(got, [30, 6, 2, 2, 1, 1]);
    let forced = settings("6.18", 4096, 4, &["cpu_partial=0", "min_partial=0"]);
    let got = geometry(4096, &forced);
    assert_eq!((got.cpu_partial, got.cpu_partial_slabs, got.min_partial), (0, Some(0), 0));
}

#[test]
fn min_partial_is_half_a_logarithm_between_5_and_10() {
    let at = settings("6.18", 4096, 4, &[]);
    for (size, kept) in [
        (8, 5),
        (4095, 5),
        (4096, 6),
        (16383, 6),
        (16384, 7),
        (65536, 8),
        (1 << 18, 9),
        (1 << 20, 10),
        (1 << 22, 10),
    ] {
        assert_eq!(geometry(size, &at).min_partial, kept, "{size}");
    }
}

#[test]
fn sheaves_have_what_their_size_class_holds() {
    let capacity = |release, size, sheaf_capacity, debug| {
        let request = Request { size, sheaf_capacity, debug, boot: false };
        geometry::of_cache(&request, &settings(release, 4096, 4, &[])).unwrap().sheaf_capacity
    };
    for (size, holds) in [(64, 60), (255, 60), (256, 28), (1023, 28), (1024, 12), (4096, 4)] {
        assert_eq!(capacity("7.1", size, 0, false), holds, "{size}");
        assert_eq!(capacity("6.18", size, 0, false), 0);
    }
    // maple_node and vm_area_struct ask for 32.
    assert_eq!((capacity("7.1", 256, 32, false), capacity("7.1", 192, 32, false)), (32, 60));
    assert_eq!((capacity("6.18", 256, 32, false), capacity("6.8", 256, 32, false)), (32, 0));
    assert_eq!((capacity("7.1", 256, 32, true), capacity("6.18", 256, 32, true)), (0, 0));
    // All of them have the same sizes.
    for version in ["7.0.3", "7.2", "7.3.4"] {
        let (at, _) = Settings::of_version(version, Machine::new(4096, 4)).unwrap();
        let got = [64, 256, 1024, 4096].map(|size| geometry(size, &at).sheaf_capacity);
        assert_eq!((got, geometry(64, &at).cpu_partial), ([60, 28, 12, 4], 0), "{version}");
    }
}

#[test]
fn a_debug_cache_parks_nothing() {
    let at = settings("6.18", 4096, 4, &[]);
    let request = Request { size: 192, sheaf_capacity: 0, debug: true, boot: false };
    let got = geometry::of_cache(&request, &at).unwrap();
    assert_eq!((got.cpu_partial, got.cpu_partial_slabs, got.min_partial), (0, Some(0), 5));
    let text = br#"{"page_size": 4096, "slab": {"x": {"slab_size": 192, "objs_per_slab": 21,
        "order": 0, "poison": "1", "cpu_partial": "0", "min_partial": 5}}}"#;
    let snapshot = &KernelSnapshot::parse(text).unwrap()[0];
    assert_eq!(snapshot.differences(&at).unwrap(), []);
}

#[test]
fn slub_tiny_keeps_nothing_and_has_small_slabs() {
    let got = geometry(4096, &settings("6.18", 4096, 4, &["tiny=1"]));
    assert_eq!((got.order, got.min_partial, got.cpu_partial, got.sheaf_capacity), (1, 0, 0, 0));
    let got = geometry(4096, &settings("6.18", 4096, 4, &["tiny=1", "max_order=2"]));
    assert_eq!(got.order, 2);
}

/// The classes of a yard's engine `tiny` have the orders that the kernel's SLUB_TINY has for these
/// sizes, with the objects that it wants on two CPUs.
#[test]
fn slabs_of_the_engine_tiny_are_those_of_slub_tiny() {
    for page_bytes in [4096, 16384, 65536] {
        let config = machine::Config { page_bytes, ..machine::Config::default() };
        let yard: Yard<_, Tiny> = Yard::new(machine::Machine::new(config));
        assert!(yard.init(yard::Settings { reserve_bytes: 1 << 30, decay_ms: 0 }));
        let settings = settings("6.18", page_bytes as u32, 2, &["tiny=1"]);
        for (number, cache) in yard.caches().classes().iter().enumerate() {
            let ours = cache.shape().geometry;
            let kernel = geometry(ours.size, &settings);
            let bytes = kernel.slab_bytes(page_bytes as u32) as usize;
            assert_eq!(ours.slab_bytes(), bytes, "class {number}, pages of {page_bytes}");
        }
    }
}

#[test]
fn every_size_has_a_geometry_that_adds_up() {
    let tight = ["min_order=10", "max_order=0", "min_objects=32767", "multiplier=64"];
    for release in RELEASES {
        for page in [4096, 8192, 65536] {
            for cpus in [1, 8192] {
                for keys in [&[][..], &tight[..1], &tight[1..2], &tight[2..3], &tight[3..]] {
                    let at = settings(release.name, page, cpus, keys);
                    let limit = page << 10;
                    let sizes = (1..200).chain((1..=64).map(|n| limit / 64 * n)).chain([limit]);
                    for size in sizes {
                        let g = geometry(size, &at);
                        assert!(g.order <= 10 && g.objects >= 1, "{release:?} {page} {g:?}");
                        let used = u64::from(g.objects) * u64::from(size);
                        assert_eq!(used + u64::from(g.waste), g.slab_bytes(page));
                        assert!(u64::from(size) <= u64::from(page) << g.min_order);
                    }
                    assert!(of(limit + 1, &at).is_err() && of(u32::MAX, &at).is_err());
                    assert!(of(0, &at).is_err());
                }
            }
        }
    }
}

#[test]
fn a_snapshot_tells_machine_names_and_places() {
    let host = host();
    assert_eq!(host.kernel.as_deref(), Some("6.18.44-fc-v669"));
    assert_eq!((host.page_size, host.possible_cpus, host.nodes), (4096, Some(2), Some(1)));
    let merged = host.cache("AF_VSOCK").unwrap();
    assert_eq!((merged.id.as_str(), merged.slab_size), (":A-0001280", 1280));
    assert_eq!(host.cache("maple_node").unwrap().sheaf_capacity, Some(32));
    assert!(host.cache("dentry").unwrap().reclaim_account.unwrap());
    assert!(host.cache("no such cache").is_none());
    let parked = host.cache(":0000024").unwrap().slabs_cpu_partial.clone().unwrap();
    assert_eq!((parked.slabs, parked.per_cpu), (4, Some(vec![(0, 2), (1, 2)])));
    let slabs: u64 = host.caches.iter().filter_map(|c| c.slabs).sum();
    assert!(slabs > 10_000);

    let guest = &open("p64k_mo1_smp16_hb.json.zst")[0];
    assert_eq!((guest.dump.as_deref(), guest.page_size), (Some("boot"), 65536));
    assert_eq!(guest.slab_kb, Some(65728));
    assert_eq!(guest.slab_kb_at[0], ("boot0".into(), 64320));
    assert_eq!((guest.present_cpus, guest.nodes), (Some(16), None));
    let (settings, note) = guest.settings().unwrap();
    assert_eq!((settings.release.name, settings.max_order()), ("6.8", 1));
    assert!(
        note.unwrap().starts_with("kernel 6.12.107+deb13-powerpc64le-64k follows the preset 6.8")
    );
    let silent = guest.caches.iter().find(|c| c.cache_dma.is_some());
    assert_eq!(silent, None, "`NA` is not told, which is not `no`");
}

#[test]
fn what_is_no_snapshot_is_refused_with_words() {
    let whole = std::fs::read(data("x86_618_4k_smp2.json.zst")).unwrap();
    for length in [4, 5, 100, whole.len() / 2, whole.len() - 1] {
        let error = KernelSnapshot::parse(&whole[..length]).unwrap_err();
        assert!(matches!(error, Error::Zstd(_)), "{length}: {error}");
    }
    for (text, words) in [
        ("", "it is empty"),
        ("t_us,cpu,pid", "line 1 is `t_us,cpu,pid`"),
        ("[]", "it is no JSON object"),
        ("{}", "no caches"),
        (r#"{"slab": {}}"#, "no page size"),
        (r#"{"slab": {"x": {}}}"#, "cache `x`: `slab_size`"),
        (r#"{"slab": {"x": {"slab_size": 0}}}"#, "cache `x`: `slab_size`"),
        (r#"{"slab": {"x": {"slab_size": 8, "objs_per_slab": 1, "order": 99}}}"#, "`order`"),
        (r#"{"dumps": {"boot": 3}}"#, "dump `boot`"),
        (r#"{"page_size": 5000, "slab": {}}"#, "no page size"),
    ] {
        let error = KernelSnapshot::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    let error = KernelSnapshot::open(&data("none")).unwrap_err().to_string();
    assert!(error.contains("cannot read") && error.contains("none"), "{error}");
}

/// The later of two parameters of a kernel's boot moves the other one, as the kernel's.
#[test]
fn a_boot_that_sets_both_orders_is_read_as_the_kernel_reads_it() {
    for (boot, orders) in [
        ("slab_min_order=5 slab_max_order=1", (1, 1)),
        ("slab_max_order=1 slub_min_order=5", (5, 5)),
        ("slab_min_order=4 slub_nomerge slab_merge", (4, 4)),
        ("slab_max_order=99", (0, 10)),
    ] {
        let json = format!(
            r#"{{"kernel":"6.12","page_size":4096,"online_cpus":"0-1","cmdline":"quiet {boot}",
                "slab":{{}}}}"#
        );
        let snapshot = &KernelSnapshot::parse(json.as_bytes()).unwrap()[0];
        let (settings, _) = snapshot.settings().unwrap();
        assert_eq!((settings.min_order, settings.max_order()), orders, "{boot}");
        settings.validate().unwrap();
    }
}

/// What a script wrote down and what `slabyard snapshot` made of it tell the same.
#[test]
fn a_saved_snapshot_of_a_kernel_is_that_kernel() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("saved.json.zst");
    let mut files = 0;
    for entry in std::fs::read_dir(data("")).unwrap() {
        let file = entry.unwrap().path();
        if !file.to_string_lossy().ends_with(".json.zst") {
            continue;
        }
        files += 1;
        for mut script in KernelSnapshot::open(&file).unwrap() {
            if script.kernel.as_ref().is_some_and(|kernel| kernel.starts_with('7')) {
                // Attributes of CPU slabs, which are always 0 without these, are not saved.
                for cache in &mut script.caches {
                    (cache.cpu_partial, cache.cpu_slabs, cache.slabs_cpu_partial) = <_>::default();
                }
            }
            let mut named = file.clone().into_os_string();
            if let Some(dump) = &script.dump {
                named.push(format!("#{dump}"));
            }
            let saved = slabyard_observe::file::open(Path::new(&named)).unwrap();
            slabyard_observe::file::save(&saved, &path).unwrap();
            let read = KernelSnapshot::open(&path).unwrap().remove(0);
            assert_eq!(read.caches, script.caches, "{named:?}");
            assert_eq!(read.kernel, script.kernel);
            assert_eq!(read.page_size, script.page_size);
            assert_eq!((read.online_cpus, read.nodes), (script.online_cpus, script.nodes));
            for (name, id) in &script.aliases {
                assert_eq!(
                    read.cache(name).map(|c| &c.id),
                    script.cache(name).map(|c| &c.id),
                    "{id}"
                );
            }
        }
    }
    assert!(files > 10);
    let mut other = slabyard_observe::file::open(&path).unwrap();
    other.source.boot = Some("slab_max_order=1".into());
    slabyard_observe::file::save(&other, &path).unwrap();
    let booted = KernelSnapshot::open(&path).unwrap().remove(0);
    assert_eq!(booted.settings().unwrap().0.max_order(), 1);
    other.source.kind = slabyard_observe::snapshot::SourceKind::Process;
    slabyard_observe::file::save(&other, &path).unwrap();
    let error = KernelSnapshot::open(&path).unwrap_err().to_string();
    assert!(error.contains("it holds a process's caches"), "{error}");
}
