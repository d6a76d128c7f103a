//! Snapshots of made-up caches with CPU slabs: every kind, changing, damaged.

use super::memory::Memory;
use super::planted::{self, DESCRIPTORS, PlantedTarget, SLOT};
use super::yards;
use crate::drains;
use crate::identity;
use crate::snapshot::{Cache, Slab, SlabPlace, Snapshot, Source, SourceKind};
use crate::value::Value;
use crate::want::ReadScope;
use slabyard_abi::region::{CacheWord, Word, descriptor, front, row};
use slabyard_abi::stats::{CACHE_BYTES, Counter, drain_words};

/// Kinds: lists that count objects, frozen; that count slabs; that count exactly.
const KINDS: [u64; 3] =
    [front::FREEZES_PARKED | front::FREEZES_USED_UNDER_LOCK, front::SLABS, front::EXACT];
const LIVE: u64 = 295;

fn look(memory: &dyn Memory) -> Snapshot {
    let want = ReadScope { all: false, slabs: true };
    yards::sample(memory, want, Source::of(SourceKind::Process)).expect("a yard")
}

fn known(snapshot: &Snapshot) -> &Cache {
    snapshot.cache("known").expect("the cache")
}

fn exact(snapshot: &Snapshot, name: &str) -> Option<u64> {
    known(snapshot).exact(name)
}

#[test]
fn what_cpus_hold_is_told_exactly() {
    for kind in KINDS {
        let snapshot = look(&PlantedTarget::cpu_slabs(kind));
        assert_eq!(identity::check(&snapshot), []);
        assert_eq!(snapshot.missing, []);
        for (name, number) in [
            ("live", LIVE),
            ("parked_cpu", 79),
            ("parked_node", 0),
            ("in_transit", 0),
            ("free_partial", 10),
            ("total_objects", 384),
            ("objects", 374),
            ("slabs", 6),
            ("partial", 1),
            ("full", 1),
            ("cpu_slabs", 4),
            ("slabs_cpu_partial", 2),
            ("empties_parked", 1),
            ("empties_bytes", 4096),
            ("cpu_partial", 30),
        ] {
            assert_eq!(exact(&snapshot, name), Some(number), "{kind} {name}");
        }
        assert_eq!(snapshot.total("in_transit"), Some(&Value::Exact(0)));
        let cache = known(&snapshot);
        let parts = |name: &str| &cache.reading(name).unwrap().cpus;
        assert_eq!(*parts("parked_cpu"), [(0, Value::Exact(79))]);
        assert_eq!(*parts("cpu_slabs"), [(0, Value::Exact(3)), (1, Value::Exact(1))]);
        assert_eq!(cache.value("sheaf_capacity"), None, "it has no sheaves");
        let slots = exact(&snapshot, "cpu_partial_slabs");
        assert_eq!(slots, (kind == front::SLABS).then_some(4));
    }
}

#[test]
fn lists_are_told_from_their_head_by_what_they_count() {
    for (kind, objects, claims) in [
        (KINDS[0], 2, [Some(2), Some(1)]),
        (KINDS[1], 64, [None, None]),
        (KINDS[2], 67, [Some(67), Some(64)]),
    ] {
        let snapshot = look(&PlantedTarget::cpu_slabs(kind));
        assert_eq!(exact(&snapshot, "objects_cpu_partial"), Some(objects), "{kind}");
        let slab = |granule: u64, inuse, pages, counted| Slab {
            page: planted::REGION + granule * 4096,
            order: 0,
            objects: 64,
            inuse,
            place: SlabPlace::Cpu(0),
            partial_pages: Some(pages),
            partial_objects: counted,
        };
        let slabs = known(&snapshot).slabs.as_ref().unwrap();
        let lists: Vec<&Slab> = slabs.iter().filter(|s| s.place == SlabPlace::Cpu(0)).collect();
        assert_eq!(lists, [&slab(4, 61, 2, claims[0]), &slab(3, 0, 1, claims[1])], "{kind}");
        assert_eq!(slabs.len(), 3, "and that of the node");
    }
}

#[test]
fn words_name_the_kernels_rules() {
    let words = |kind: u64| {
        let snapshot = look(&PlantedTarget::cpu_slabs(kind));
        ["front", "freezing", "accounting"].map(|name| match known(&snapshot).value(name) {
            Some(Value::Text(text)) => text.clone(),
            other => panic!("{name}: {other:?}"),
        })
    };
    let eager = front::FREEZES_PARKED | front::FREEZES_USED_UNDER_LOCK | front::THAWS_UNDER_LOCK;
    assert_eq!(words(eager), ["cpu-slabs", "eager", "objects"]);
    assert_eq!(words(eager & !front::THAWS_UNDER_LOCK)[1], "patch-3");
    assert_eq!(words(front::SLABS), ["cpu-slabs", "delayed", "slabs"]);
    let used = front::EXACT | front::FREEZES_USED_UNDER_LOCK;
    assert_eq!(words(used), ["cpu-slabs", "patch-5", "exact"]);
}

/// A free that made a slab empty took it off the list, whose element stays.
#[test]
fn what_left_an_exact_list_is_not_counted() {
    type Plant = fn(&PlantedTarget);
    let plants: [Plant; 3] =
        [|p| p.element(2, 4, 73), |p| p.element(2, 6, 76), |p| p.element(2, 17, 71)];
    for plant in plants {
        let planted = PlantedTarget::cpu_slabs(front::EXACT);
        planted.stack(0, SLOT + row::SPARE, 0, 3);
        plant(&planted);
        let snapshot = look(&planted);
        assert_eq!(snapshot.missing, []);
        assert_eq!(exact(&snapshot, "cpu_slabs"), Some(4));
        assert_eq!(exact(&snapshot, "parked_cpu"), Some(79));
    }
}

#[test]
fn a_damaged_list_is_named_and_leads_nowhere() {
    type Plant = fn(&PlantedTarget);
    let faults: [(&str, Plant); 9] = [
        ("names granule 1073741824: there are not so many", |p| p.element(1, 1 << 30, 1)),
        ("names granule 0: there are not so many", |p| p.element(1, 0, 1)),
        ("names granule 17: no slab of the cache begins there", |p| p.element(1, 17, 1)),
        ("names granule 3 twice", |p| p.element(1, 3, 1)),
        ("names granule 2 twice", |p| p.put(PlantedTarget::sheaf(5), 2)),
        ("names granule 1: it is not frozen", |p| p.element(1, 1, 1)),
        ("granule 4: 65 of its 64 objects are free", |p| {
            p.put(DESCRIPTORS + 4 * 64 + descriptor::WORD as u64, 74 << 32 | 1 << 31 | 65);
        }),
        ("it is on its node's list", |p| {
            p.put_half(DESCRIPTORS + 4 * 64 + descriptor::LISTED as u64, 1);
        }),
        ("where no memory is", |p| p.stack(0, SLOT + row::SPARE, 60, 2)),
    ];
    for (text, plant) in faults {
        let planted = PlantedTarget::cpu_slabs(KINDS[0]);
        plant(&planted);
        let snapshot = look(&planted);
        let why = snapshot.missing.iter().find(|m| m.what == "known: cpu_slabs");
        let why = why.map(|m| m.why.as_str()).unwrap_or_default();
        assert!(why.contains(text) && why.contains("damaged"), "{text}: {:?}", snapshot.missing);
        assert_eq!(identity::check(&snapshot), [], "{text}");
        let (low, high) = known(&snapshot).value("parked_cpu").unwrap().bounds().unwrap();
        assert!(low <= 79 && 79 <= high && high > low, "{text}: {low}..{high}");
    }
}

#[test]
fn a_slab_that_nobody_has_is_missed() {
    for kind in KINDS {
        let planted = PlantedTarget::cpu_slabs(kind);
        planted.stack(0, SLOT + row::SPARE, 0, 1);
        let snapshot = look(&planted);
        let why = snapshot.missing.iter().find(|m| m.what == "known").map(|m| m.why.as_str());
        let text = "72 free objects are in slabs on no node's list, but CPUs hold 69 of them";
        assert!(why.is_some_and(|why| why.starts_with(text)), "{:?}", snapshot.missing);
        assert_eq!(exact(&snapshot, "live"), Some(LIVE));
    }
}

#[test]
fn what_moves_is_told_within_bounds() {
    for kind in KINDS {
        let planted = PlantedTarget::cpu_slabs(kind);
        // The head of the list goes to the node and back, for ever.
        let mut n = 0u64;
        planted.moving(move |segments, _| {
            n += 1;
            let begun = 10 + n;
            let version = (begun << 32 | begun).to_le_bytes();
            segments.put(PlantedTarget::cache_word(CacheWord::Version), &version);
            let count = 1 + n % 2;
            let spare = PlantedTarget::entry(0, SLOT + row::SPARE);
            segments.put(spare, &PlantedTarget::top(0, count).to_le_bytes());
            segments
                .put(PlantedTarget::cache_word(CacheWord::NrPartial), &(3 - count).to_le_bytes());
        });
        let snapshot = look(&planted);
        assert_eq!(identity::check(&snapshot), []);
        let bounds = |name: &str| known(&snapshot).value(name).unwrap().bounds().unwrap();
        for (name, least, most) in
            [("live", LIVE, LIVE), ("parked_cpu", 76, 79), ("cpu_slabs", 3, 4), ("full", 1, 1)]
        {
            let (low, high) = bounds(name);
            assert!(low <= least && most <= high, "{kind} {name}: {low}..{high}");
        }
    }
}

const COUNTS: u64 = 0x3100_0000_0000;
const COUNTS_ROW: u64 = (row::CACHES * CACHE_BYTES) as u64;

/// A yard that counts, whose caches counted nothing.
fn counting() -> PlantedTarget {
    let planted = PlantedTarget::cpu_slabs(KINDS[0]);
    planted.room(COUNTS, 2 * COUNTS_ROW as usize);
    planted.word(Word::Counts, COUNTS);
    planted.word(Word::CountsRowBytes, COUNTS_ROW);
    planted.word(Word::CountsCacheBytes, CACHE_BYTES as u64);
    planted
}

fn count(planted: &PlantedTarget, row: u64, word: usize, number: u64) {
    // The cache "known" is the eighth of the rows' slots.
    let at = COUNTS + row * COUNTS_ROW + 7 * CACHE_BYTES as u64 + word as u64 * 8;
    planted.put(at, number);
}

#[test]
fn counts_are_told_by_cpu_and_in_all() {
    let snapshot = look(&PlantedTarget::cpu_slabs(KINDS[0]));
    assert_eq!(known(&snapshot).value("list_lock"), None, "it does not count");
    let planted = counting();
    assert_eq!(exact(&look(&planted), "list_lock"), Some(0));

    count(&planted, 0, Counter::ListLock as usize, 12);
    count(&planted, 1, Counter::ListLock as usize, 4);
    count(&planted, 1, Counter::ListLockSlabs as usize, 40);
    let [frees, ns, longest] = drain_words(2);
    for (row, numbers) in [(0, [1, 100, 100]), (1, [3, 500, 400])] {
        for (word, number) in [frees, ns, longest].into_iter().zip(numbers) {
            count(&planted, row, word, number);
        }
    }
    let snapshot = look(&planted);
    assert_eq!(exact(&snapshot, "list_lock"), Some(16));
    let cpus = &known(&snapshot).reading("list_lock").unwrap().cpus;
    assert_eq!(*cpus, [(0, Value::Exact(12)), (1, Value::Exact(4))]);
    let field = crate::fields::field("slabs_per_list_lock").unwrap();
    assert_eq!(crate::fields::value(field, &snapshot, known(&snapshot)), Some(Value::Exact(250)));
    let drains = drains::of(known(&snapshot));
    let [drains] = drains[..] else { panic!("{drains:?}") };
    assert_eq!((drains.least, drains.most, drains.frees), (2, Some(2), 4));
    assert_eq!((drains.total_ns, drains.mean_ns, drains.longest_ns), (600, 150, 400));
    assert_eq!(snapshot.missing, []);
}

#[test]
fn counts_that_cannot_be_are_named_and_the_rest_is_told() {
    for (word, number) in [
        (Word::CountsCacheBytes, 8),
        (Word::CountsCacheBytes, 1 << 40),
        (Word::CountsRowBytes, 64),
        (Word::CountsRowBytes, u64::MAX),
        (Word::Counts, 0x1234_5678_9000),
    ] {
        let planted = counting();
        planted.word(word, number);
        let snapshot = look(&planted);
        assert!(snapshot.missing.iter().any(|m| m.what == "counters"), "{word:?} {number}");
        assert_eq!(exact(&snapshot, "live"), Some(LIVE));
        assert_eq!(known(&snapshot).value("list_lock"), None);
    }
}
