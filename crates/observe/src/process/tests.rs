//! Snapshots of made-up yards: idle, changing, damaged, hostile.

use super::memory::{Fault, Memory, MemoryPart};
use super::planted::{self, LIVE, PlantedTarget, REGION, ROWS, SLOT};
use super::yards::{self, Unreadable};
use crate::identity;
use crate::snapshot::{Slab, Snapshot, Source, SourceKind};
use crate::value::Value;
use crate::want::ReadScope;
use proptest::prelude::*;
use slabyard_abi::region::{CacheWord, VERSION, WORDS, Word, alias, descriptor, row};
use std::ops::Range;

fn look(memory: &dyn Memory) -> Result<Snapshot, Unreadable> {
    let want = ReadScope { all: false, slabs: true };
    yards::sample(memory, want, Source::of(SourceKind::Process))
}

fn sound(memory: &dyn Memory) -> Snapshot {
    let snapshot = look(memory).expect("a yard");
    assert_eq!(identity::check(&snapshot), []);
    snapshot
}

fn known(snapshot: &Snapshot, name: &str) -> Value {
    let cache = snapshot.cache("known").expect("the cache");
    cache.value(name).unwrap_or_else(|| panic!("{name} is told")).clone()
}

#[test]
fn cold_pages_are_pages_whatever_slot_they_are_in() {
    let last = row::FIRST_RUNS + row::RUN_ORDERS - 1;
    let planted = PlantedTarget::yard();
    planted.put_half(PlantedTarget::entry(1, row::FIRST_RUNS), 0);
    planted.put_half(PlantedTarget::entry(1, last), PlantedTarget::top_of(0, 6, 2));
    let told =
        |planted: &PlantedTarget| look(planted).expect("a yard").total("parked_pages").cloned();
    assert_eq!(told(&planted), Some(Value::Exact(2 << (row::RUN_ORDERS - 1) << 12)));
    planted.word(Word::ColdRuns, last as u64);
    assert_eq!(told(&planted), Some(Value::Exact(2 << 12)));
    sound(&planted);
}

#[test]
fn what_banks_hold_is_parked_and_no_live_run() {
    let planted = PlantedTarget::yard();
    let told = |planted: &PlantedTarget| {
        let snapshot = sound(planted);
        ["nr_runs", "runs", "parked_pages"].map(|name| snapshot.total(name).cloned())
    };
    let exact = |numbers: [u64; 3]| numbers.map(|number| Some(Value::Exact(number)));
    assert_eq!(told(&planted), exact([1, 3 << 12, 2 << 12]));
    // The live run is on its way to the bank; then it is there, and an object that was there before.
    planted.descriptor(17, descriptor::PARKED, u32::from(descriptor::BANKED) << 8);
    assert_eq!(told(&planted), exact([1, 3 << 12, 2 << 12]));
    let stack = PlantedTarget::top_of(0, 7, 2);
    planted.put_half(PlantedTarget::entry(1, row::FIRST_BANK + row::BANKS - 1), stack);
    let element = ROWS + u64::from(stack) * 8;
    planted.room(element - 8, 16);
    planted.put(element, REGION + (17 << 12));
    planted.put(element - 8, REGION + (1 << 12));
    assert_eq!(told(&planted), exact([0, 0, 5 << 12]));
}

#[test]
fn further_names_are_those_of_the_cache_and_its_generation() {
    const AT: u64 = 0x4000_0003_0000;
    let planted = PlantedTarget::yard();
    planted.cache(CacheWord::Generation, 3);
    planted.word(Word::Aliases, AT);
    planted.word(Word::NrAliases, 4);
    planted.room(AT, 4 * alias::WORDS * 8);
    // Of number 1 now, of an earlier cache of it, of another number; and room for one more.
    for (nth, key) in [1 | 3 << 32, 1 | 2 << 32, 3 << 32].into_iter().enumerate() {
        let record = AT + (nth * alias::WORDS * 8) as u64;
        planted.put(record, key);
        planted.put(record + 8, u64::from_le_bytes(*b"other\n\0\0"));
    }
    let names =
        |planted: &PlantedTarget| sound(planted).cache("known").expect("it").aliases.clone();
    assert_eq!(names(&planted), ["other\u{fffd}"]);
    planted.put(AT, 0);
    assert_eq!(names(&planted), [""; 0]);
    planted.word(Word::Aliases, AT + 0x10_0000);
    assert_eq!(names(&planted), [""; 0], "no memory is there");
}

#[test]
fn a_still_yard_is_told_exactly() {
    let snapshot = sound(&PlantedTarget::yard());
    assert_eq!(snapshot.caches.len(), 1, "the other is not in use");
    let numbers = [
        ("live", LIVE),
        ("parked_cpu", 55),
        ("parked_node", 512),
        ("in_transit", 0),
        ("free_partial", 100),
        ("total_objects", 1024),
        ("slabs", 2),
        ("partial", 1),
        ("empty", 0),
        ("full", 1),
        ("objects_partial", 412),
        ("objects", 924),
        ("objs_per_slab", 512),
        ("order", 3),
        ("object_size", 60),
        ("slab_size", 64),
        ("bytes", 65536),
        ("sheaf_capacity", 512),
        ("min_partial", 5),
        ("barn_full", 1),
        ("barn_empty", 2),
        ("barn_full_limit", 2),
        ("barn_empty_limit", 3),
        ("slow_paths", 9),
    ];
    for (name, number) in numbers {
        assert_eq!(known(&snapshot, name), Value::Exact(number), "{name}");
    }
    let cache = snapshot.cache("known").unwrap();
    let cpus = &cache.reading("parked_cpu").unwrap().cpus;
    assert_eq!(*cpus, [(0, Value::Exact(50)), (1, Value::Exact(5))]);
    assert_eq!(cache.fullness, Some(vec![(412, 1)]));
    let page = planted::REGION + 9 * 4096;
    let slab = Slab { page, order: 3, objects: 512, inuse: 412, ..Slab::default() };
    assert_eq!(cache.slabs, Some(vec![slab]));
    assert_eq!(snapshot.missing, []);

    let totals = [
        ("live", LIVE * 64),
        ("parked_pages", 2 * 4096),
        ("runs", 3 * 4096),
        ("mapped", 1 << 20),
        ("free_runs", 4096),
        ("returned", 3 * 4096),
        ("metadata", 12288 + 12 * 16384),
        ("committed", 22 * 4096 + (1 << 20) + 12288 + 12 * 16384),
        ("in_transit", 0),
        ("padding", 0),
        ("nr_cpus", 2),
        ("decay_ms", 250),
        ("node_limit", 16 << 20),
        ("set_aside", 0),
        ("mode", 1),
    ];
    for (name, number) in totals {
        assert_eq!(snapshot.total(name), Some(&Value::Exact(number)), "{name}");
    }
}

/// A created cache's words are in another table; its slot is behind the first page of a row.
#[test]
fn created_caches_come_and_go() {
    const CREATED: u64 = 0x3000_0000_0000;
    const SAID: u64 = planted::COUNTERS + 2048;
    let slot = row::SLOTS - row::PAIR;
    let planted = PlantedTarget::yard();
    planted.word(Word::CreatedAt, SAID);
    planted.word(Word::NrCreatedAt, SAID + 8);
    let names = || sound(&planted).caches.iter().map(|c| c.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(), ["known"], "none was created yet");

    planted.room(CREATED, 2 * planted::STRIDE as usize);
    let of_second = |word: CacheWord| CREATED + planted::STRIDE + word.index() as u64 * 8;
    planted.put(SAID, CREATED);
    planted.put(SAID + 8, 2);
    let words = [
        (CacheWord::Slot, slot as u64),
        (CacheWord::ObjectSize, 24),
        (CacheWord::SlabSize, 24),
        (CacheWord::Order, 2),
        (CacheWord::Objects, 682),
        (CacheWord::Generation, 3),
        (CacheWord::Name0, u64::from_le_bytes(*b"created\0")),
    ];
    words.into_iter().for_each(|(word, value)| planted.put(of_second(word), value));
    assert_eq!(names(), ["known", "created"]);

    // Its stack is seen as soon as the yard says that so much of a row is in use.
    planted.stack(1, slot, 9, 4);
    planted.put(of_second(CacheWord::Out), 4);
    let parked = |snapshot: &Snapshot| {
        snapshot.cache("created").and_then(|cache| cache.value("parked_cpu").cloned())
    };
    let row_bytes = planted::COUNTERS + 10 * 8;
    assert_eq!(planted.get(row_bytes), 4096);
    let snapshot = look(&planted).expect("a yard");
    assert_eq!(parked(&snapshot), Some(Value::Exact(0)));
    planted.put(row_bytes, row::STRIDE as u64);
    let snapshot = look(&planted).expect("a yard");
    assert_eq!(parked(&snapshot), Some(Value::Exact(4)));

    planted.put(of_second(CacheWord::Slot), 0);
    assert_eq!(names(), ["known"], "it was destroyed");
    planted.put(SAID, u64::MAX - 8);
    assert!(matches!(look(&planted), Err(Unreadable::Fault(Fault::Absent(_)))));
}

#[test]
fn a_cache_that_another_replaced_meanwhile_is_not_told() {
    let planted = PlantedTarget::yard();
    let mut generation = 0;
    planted.moving(move |segments, _| {
        generation += 1u64;
        segments.put(PlantedTarget::cache_word(CacheWord::Generation), &generation.to_le_bytes());
    });
    let snapshot = look(&planted).expect("a yard");
    assert!(snapshot.cache("known").is_none());
}

#[test]
fn the_engine_has_its_name_and_a_later_one_its_number() {
    let engine = |number| {
        let planted = PlantedTarget::yard();
        planted.word(Word::Engine, number);
        sound(&planted).total("engine").cloned()
    };
    assert_eq!(engine(0), None);
    assert_eq!(engine(1), Some(Value::Text("slub".into())));
    assert_eq!(engine(2), Some(Value::Text("tiny".into())));
    assert_eq!(engine(1 << 40), Some(Value::Exact(1 << 40)));
}

#[test]
fn every_name_is_a_name_of_the_table() {
    let snapshot = sound(&PlantedTarget::yard());
    for name in snapshot.caches[0].readings.keys() {
        assert!(crate::fields::field(name).is_some(), "{name}");
    }
    for name in snapshot.totals.keys() {
        assert!(crate::fields::TOTALS.iter().any(|t| t.name == name), "{name}");
    }
}

#[test]
fn each_size_of_sheaf_tells_its_objects() {
    for (size, most) in [(0, 70), (1, 262), (2, 1030)] {
        for number in [0, 1, planted::SHEAVES - 1] {
            for objects in [0, 1, most] {
                let planted = PlantedTarget::yard();
                let top = PlantedTarget::top_of(size, number, objects);
                planted.put_half(PlantedTarget::entry(0, planted::SLOT), top);
                let snapshot = look(&planted).expect("a yard");
                let cpus = &snapshot.cache("known").unwrap().reading("parked_cpu").unwrap().cpus;
                assert_eq!(cpus[0], (0, Value::Exact(20 + objects)), "{number} of size {size}");
            }
        }
    }
}

#[test]
fn an_order_counts_pages_of_the_machine() {
    let planted = PlantedTarget::yard();
    planted.word(Word::PageBytes, 16384);
    let snapshot = look(&planted).expect("a yard");
    assert_eq!(known(&snapshot, "order"), Value::Exact(1));
}

#[test]
fn a_slow_path_under_way_may_hold_two_sheaves() {
    let planted = PlantedTarget::yard();
    planted.cache(CacheWord::Version, 9 << 32 | 10);
    let snapshot = sound(&planted);
    // Two sheaves are more than what is not parked.
    assert_eq!(known(&snapshot, "live"), Value::Range(0, LIVE));
    assert_eq!(known(&snapshot, "in_transit"), Value::Range(0, 924));
    assert_eq!(known(&snapshot, "parked_cpu"), Value::Exact(55));
    planted.cache(CacheWord::SheafCapacity, 100);
    assert_eq!(known(&sound(&planted), "live"), Value::Range(LIVE - 200, LIVE));
}

#[test]
fn a_stopped_stack_holds_anything_up_to_a_sheaf() {
    let planted = PlantedTarget::yard();
    planted.put_half(PlantedTarget::entry(1, SLOT), row::STOPPED);
    let snapshot = sound(&planted);
    assert_eq!(known(&snapshot, "parked_cpu"), Value::Range(50, 50 + 512));
    assert_eq!(known(&snapshot, "live"), Value::Range(0, LIVE + 5));
}

#[test]
fn a_slow_path_that_ended_meanwhile_is_waited_for() {
    let planted = PlantedTarget::yard();
    // At first a sheaf of 512 is on its way from the barn: it is in neither place.
    planted.cache(CacheWord::Version, 9 << 32 | 10);
    planted.cache(CacheWord::BarnObjects, 0);
    planted.moving(|segments, n| {
        if n == 60 {
            segments.put(PlantedTarget::cache_word(CacheWord::BarnObjects), &512u64.to_le_bytes());
            let ended = (10u64 << 32 | 10).to_le_bytes();
            segments.put(PlantedTarget::cache_word(CacheWord::Version), &ended);
        }
    });
    let snapshot = sound(&planted);
    let (low, high) = known(&snapshot, "live").bounds().unwrap();
    assert!(low <= LIVE && high >= LIVE, "{low}..{high}");
    assert!(high - low < 512, "the wait was worth it: {low}..{high}");
}

#[test]
fn a_yard_that_never_rests_is_told_within_bounds() {
    let planted = PlantedTarget::yard();
    // A sheaf of 512 goes from the barn to row 1 and back, for ever; between any two
    // reads it may be in either place.
    let mut n = 0u64;
    planted.moving(move |segments, _| {
        n += 1;
        let begun = 10 + n;
        let version = (begun << 32 | begun).to_le_bytes();
        let (barn, spare) = if n % 3 < 2 { (512u64, 0) } else { (0, PlantedTarget::top(8, 512)) };
        segments.put(PlantedTarget::cache_word(CacheWord::Version), &version);
        segments.put(PlantedTarget::cache_word(CacheWord::BarnObjects), &barn.to_le_bytes());
        segments.put(PlantedTarget::entry(1, SLOT + row::SPARE), &spare.to_le_bytes());
    });
    let snapshot = sound(&planted);
    let (low, high) = known(&snapshot, "live").bounds().unwrap();
    assert!(low <= LIVE && high >= LIVE, "{low}..{high}");
    assert_ne!(snapshot.total("in_transit"), Some(&Value::Exact(0)));
    let (low, high) = known(&snapshot, "empty").bounds().unwrap();
    assert_eq!((low, high), (0, 1), "descriptors were seen at other moments than words");
}

#[test]
fn the_fast_path_moves_tops_and_nothing_else() {
    let planted = PlantedTarget::yard();
    let mut state = 88172645463325253u64;
    planted.moving(move |segments, _| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let top = PlantedTarget::top(3, 30 + state % 4);
        segments.put(PlantedTarget::entry(0, SLOT), &top.to_le_bytes());
    });
    let snapshot = sound(&planted);
    let (low, high) = known(&snapshot, "live").bounds().unwrap();
    assert!(low <= LIVE - 3 && high >= LIVE && high - low < 60, "{low}..{high}");
    assert_eq!(known(&snapshot, "in_transit"), Value::Exact(0));
    assert_eq!(snapshot.total("in_transit"), Some(&Value::Exact(0)));
}

#[test]
fn several_yards_are_told_together() {
    let planted = PlantedTarget::yard();
    let alone = look(&planted).expect("a yard");
    let other = 0x2000_0000_0000;
    planted.front(other);
    planted.room(other + 0x10_0000, 8);
    planted.put(other + 0x10_0000, 5000);
    planted.put(other + Word::TopAt.index() as u64 * 8, other + 0x10_0000);
    planted.put(other + Word::Descriptors.index() as u64 * 8, 0x1000);
    let snapshot = look(&planted).expect("a yard");
    let committed = |snapshot: &Snapshot| snapshot.total("committed").unwrap().bounds().unwrap().0;
    assert!(committed(&snapshot) >= 4996 * 4096 + committed(&alone), "both add up");
    // The caches' words are the same ones here, and so are their names.
    assert_eq!(snapshot.caches.len(), 2 * alone.caches.len());
    for cache in &alone.caches {
        assert!(snapshot.cache(&cache.name).is_some());
        assert!(snapshot.cache(&format!("{}#2", cache.name)).is_some());
    }
    assert!(snapshot.missing.iter().any(|m| m.what == "empty, fullness"), "no descriptors there");
}

#[test]
fn what_is_no_yard_of_this_layout_is_refused() {
    let planted = PlantedTarget::yard();
    planted.word(Word::Version, VERSION + 1);
    let why = look(&planted).unwrap_err();
    assert!(matches!(why, Unreadable::Layout { found, known: VERSION } if found == VERSION + 1));

    let planted = PlantedTarget::yard();
    planted.put(planted::FRONT, 0);
    assert!(matches!(look(&planted), Err(Unreadable::NoYard)));
    assert!(matches!(look(&PlantedTarget::default()), Err(Unreadable::NoYard)));

    let planted = PlantedTarget::yard();
    planted.word(Word::Caches, 0x1234_5678_9000);
    let why = look(&planted).unwrap_err();
    assert!(matches!(why, Unreadable::Fault(Fault::Absent(0x1234_5678_9000))), "{why:?}");
}

#[test]
fn a_word_that_cannot_be_is_named() {
    for (word, name, number) in [
        (Word::PageBytes, "PageBytes", 12288),
        (Word::NrRows, "NrRows", u64::MAX),
        (Word::NrCaches, "NrCaches", 1 << 40),
        (Word::CacheStride, "CacheStride", 8),
        (Word::Granules, "Granules", 0),
        (Word::Descriptors, "Descriptors", u64::MAX - 8),
        (Word::Elements, "Elements", 16),
        (Word::Sheaves, "Sheaves", 0),
        (Word::StripeBytes, "StripeBytes", 0),
    ] {
        let planted = PlantedTarget::yard();
        planted.word(word, number);
        match look(&planted) {
            Err(Unreadable::Damaged(what)) => assert!(what.contains(name), "{what}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_wrong_count_is_seen() {
    type Plant = fn(&PlantedTarget);
    let faults: [(&str, Plant); 4] = [
        ("3 slabs", |p| p.cache(CacheWord::NrSlabs, 3)),
        ("0 of them partial", |p| p.cache(CacheWord::NrPartial, 0)),
        ("99 free objects", |p| p.cache(CacheWord::Out, 925)),
        ("show 1 slabs", |p| p.descriptor(9, descriptor::RUN, 0)),
    ];
    for (text, plant) in faults {
        let planted = PlantedTarget::yard();
        plant(&planted);
        let snapshot = look(&planted).expect("a yard");
        let why = snapshot.missing.iter().find(|m| m.what == "known").map(|m| m.why.as_str());
        assert!(why.is_some_and(|why| why.contains(text) && why.contains("damaged")), "{why:?}");
    }
}

#[test]
fn memory_that_nobody_accounts_for_breaks_the_sum() {
    let planted = PlantedTarget::yard();
    // A granule of a run is counted twice.
    planted.put(planted::COUNTERS + 4 * 8, 4);
    let findings = identity::check(&look(&planted).expect("a yard"));
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].to_string().starts_with("all caches: the sum of the parts is"));
}

#[test]
fn a_list_that_goes_in_a_circle_leads_nowhere() {
    let planted = PlantedTarget::yard();
    planted.put_half(planted::DESCRIPTORS + 9 * 64 + descriptor::NEXT as u64, 9);
    assert_eq!(known(&sound(&planted), "free_partial"), Value::Exact(100));
}

#[test]
fn a_top_that_is_no_place_is_named() {
    let planted = PlantedTarget::yard();
    planted.put_half(PlantedTarget::entry(1, SLOT), 7);
    let snapshot = look(&planted).expect("a yard");
    assert!(snapshot.missing.iter().any(|m| m.what == "known: parked_cpu"));
    assert_eq!(known(&snapshot, "parked_cpu"), Value::Range(50, 562));
}

#[test]
fn names_that_cannot_be_shown_are_replaced_and_told_apart() {
    let planted = PlantedTarget::yard();
    for word in 0..slabyard_abi::region::CACHE_WORDS.len() as u64 {
        let from = planted.get(planted::CACHES + planted::STRIDE + word * 8);
        planted.put(planted::CACHES + word * 8, from);
    }
    let names = |planted: &PlantedTarget| {
        let snapshot = look(planted).expect("a yard");
        snapshot.caches.into_iter().map(|c| c.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&planted), ["known", "known#2"]);
    planted.cache(CacheWord::Name0, u64::from_le_bytes(*b"a\xff\x1b[2J\0\0"));
    assert_eq!(names(&planted), ["known", "a\u{fffd}\u{fffd}[2J"]);
    planted.cache(CacheWord::Name0, 0);
    assert_eq!(names(&planted), ["known", "cache-1"]);
}

#[test]
fn a_refusal_says_which_rule_and_what_to_do() {
    let me = nix::unistd::geteuid().as_raw();
    if me == 0 {
        assert!(super::target::denied(Some(7), Some(1)).contains("CAP_SYS_PTRACE"));
        println!("skipped: what others than root are told");
        return;
    }
    assert!(super::target::denied(Some(me + 1), Some(1)).contains("another user"));
    assert!(super::target::denied(Some(me), Some(1)).contains("`slabyard run --observable"));
    assert!(super::target::denied(Some(me), None).contains("look as root"));
}

/// Memory in which every address holds something.
struct Noise {
    seed: u64,
    front: Vec<u8>,
}

impl Memory for Noise {
    fn read(&self, parts: &[MemoryPart], into: &mut [u8]) -> Result<(), Fault> {
        let mut rest = into;
        for part in parts {
            let (now, later) = rest.split_at_mut(part.bytes);
            rest = later;
            if part.address == planted::FRONT && now.len() <= self.front.len() {
                now.copy_from_slice(&self.front[..now.len()]);
                continue;
            }
            let mut state = (self.seed ^ part.address) | 1;
            for bytes in now.chunks_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                // Small numbers and large ones, kinds of descriptors among them.
                let word = state >> (state % 64);
                bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
            }
        }
        Ok(())
    }

    fn mappings(&self) -> Result<Vec<Range<u64>>, Fault> {
        let front = planted::FRONT..planted::FRONT + 4096;
        Ok(std::iter::once(front).collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_hostile_target_ends_in_a_snapshot_or_an_error(
        seed in any::<u64>(),
        changes in prop::collection::vec((0usize..WORDS.len(), prop_oneof![
            0u64..70, Just(4096), Just(8192), Just(u64::MAX), any::<u64>(),
        ]), 0..3),
    ) {
        let planted = PlantedTarget::yard();
        planted.word(Word::NrCaches, seed % 60);
        for (word, value) in changes {
            planted.word(WORDS[word].0, value);
        }
        planted.word(Word::Version, VERSION);
        let front = planted.segments().into_iter().find(|(at, _)| *at == planted::FRONT);
        let noise = Noise { seed, front: front.unwrap().1 };
        if let Ok(snapshot) = look(&noise) {
            let _ = identity::check(&snapshot);
            prop_assert!(serde_json::to_string(&snapshot).is_ok());
        }
        let _ = look(&planted);
    }
}
