//! SLOB in a yard: each call is served by its exact size, misuse is found where it happens, and a
//! program's writes to freed memory do no harm.

use slabyard::cache::CacheSettings;
use slabyard::engine::Slob;
use slabyard::observe::count;
use slabyard::pages::Cause;
use slabyard::platform::{GRANULE, Memory};
use slabyard::slab::units::UNIT;
use slabyard::slab::{freeset, units};
use slabyard::sync::Ordering;
use slabyard::yard::{AddressKind, Settings, Yard};
use slabyard_testkit::Random;
use slabyard_testkit::machine::{Config, Machine};
use std::cell::RefCell;
use std::collections::BTreeMap;

type Slobs = Yard<Machine, Slob>;

const HEADER: usize = UNIT as usize;

thread_local! {
    static REPORTED: RefCell<Vec<(usize, Cause)>> = const { RefCell::new(Vec::new()) };
}

fn yard_with(page_bytes: usize) -> Slobs {
    let yard = Yard::new(Machine::new(Config { page_bytes, ..Config::default() }));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 100 }));
    yard.on_misuse(|found| REPORTED.with_borrow_mut(|all| all.push((found.address, found.cause))));
    yard
}

fn yard() -> Slobs {
    yard_with(GRANULE)
}

/// The page of an address, and the unit there.
fn unit_of(yard: &Slobs, address: usize) -> (u32, u32) {
    let page = yard.platform().page_bytes();
    let granule = yard.heap.region.granule_of(address / page * page).expect("in the region");
    (granule, (address % page) as u32 / UNIT)
}

fn fault(yard: &Slobs) -> Option<&'static str> {
    yard.verify().expect("outside of a slow path").err().map(|fault| fault.what)
}

#[test]
fn each_call_is_served_by_its_size() {
    for page in [4 << 10, 16 << 10, 64 << 10] {
        let yard = yard_with(page);
        let first = yard.alloc(1, 16).expect("memory");
        assert_eq!((first % page, yard.usable(first)), (HEADER, Some(16)));
        let second = yard.alloc(200, 16).expect("memory");
        assert_eq!((second - first, yard.usable(second)), (16 + HEADER, Some(208)));
        let third = yard.alloc(0, 256).expect("memory");
        assert!(third.is_multiple_of(256) && third / page == first / page);
        let largest = yard.alloc(page - HEADER - 1, 16).expect("memory");
        assert!(matches!(yard.place_of(largest), AddressKind::Object { begin: true, .. }));
        for (bytes, align) in [(page - HEADER, 16), (16, page), (page / 2, page / 2)] {
            let large = yard.alloc(bytes, align).expect("memory");
            assert!(matches!(yard.place_of(large), AddressKind::Large(_)), "{bytes} at {align}");
            assert_eq!(yard.free(large), Ok(()));
        }
        assert_eq!(yard.cache(0).nr_slabs(), 2);
        [first, third, largest, second].iter().for_each(|at| assert_eq!(yard.free(*at), Ok(())));
        assert_eq!((yard.cache(0).nr_slabs(), yard.cache(0).out()), (0, 0), "nothing is kept");
    }
}

#[test]
fn a_created_cache_has_slabs_of_its_own() {
    let yard = yard();
    let malloced = yard.alloc(64, 16).expect("memory");
    let id = yard.create_cache("own", &CacheSettings::of(24)).expect("a cache");
    let objects: Vec<_> = (0..1000).map(|_| yard.alloc_from(id).expect("memory")).collect();
    let is_own = |at: &usize| {
        matches!(yard.place_of(*at), AddressKind::Object { begin: true, bytes: 24, .. })
    };
    assert!(objects.iter().all(is_own));
    assert!(matches!(yard.free_to(id, malloced), Err(AddressKind::Object { .. })));
    assert_eq!(fault(&yard), None);
    objects.iter().for_each(|at| assert_eq!(yard.free_to(id, *at), Ok(())));
    assert_eq!(yard.free(malloced), Ok(()));
    assert!(yard.shrink_cache(id));
    let sound = yard.verify().expect("quiet").expect("sound");
    assert_eq!((sound.slabs, sound.live), (0, 0));
}

#[test]
fn each_free_of_what_is_no_live_object_is_reported_and_has_no_effect() {
    let yard = yard();
    let mut random = Random::new(3);
    let mut live = BTreeMap::new();
    let mut tried = [0, 0];
    for step in 0..20_000 {
        if random.chance(if step / 2000 % 2 == 0 { 60 } else { 45 }) {
            let bytes = 1 + random.below(600);
            live.insert(yard.alloc(bytes, 16).expect("memory"), bytes);
        } else if let Some(nth) = live.len().checked_sub(1) {
            let at = *live.keys().nth(random.below(nth + 1)).expect("one");
            live.remove(&at);
            assert_eq!(yard.free(at), Ok(()));
        }
        assert_eq!(REPORTED.take(), [], "a correct program");
        let Some((any, _)) = live.first_key_value() else { continue };
        let at = any / GRANULE * GRANULE + random.below(GRANULE / HEADER) * HEADER;
        let of = live.range(..=at + HEADER).next_back();
        let is_inside = of.is_some_and(|(begin, bytes)| at < begin + bytes);
        if live.contains_key(&at) {
            continue;
        }
        assert_eq!(yard.usable(at), None);
        assert_eq!(yard.free(at), Ok(()));
        let cause = if is_inside { Cause::Interior } else { Cause::DoubleFree };
        assert_eq!(REPORTED.take(), [(at, cause)], "step {step}");
        tried[usize::from(is_inside)] += 1;
    }
    assert!(tried.iter().all(|n| *n > 500), "{tried:?}");
    assert_eq!(fault(&yard), None);
    live.keys().for_each(|at| assert_eq!(yard.free(*at), Ok(())));
    assert_eq!((REPORTED.take().len(), yard.cache(0).nr_slabs()), (0, 0));
}

#[test]
fn what_is_written_to_free_memory_is_found_and_leads_nowhere() {
    let mut found = 0;
    for seed in 0..200 {
        let yard = yard();
        let mut random = Random::new(seed);
        let mut live: Vec<(usize, usize)> = Vec::new();
        let mut freed = Vec::new();
        for step in 0..600 {
            if random.chance(55) {
                let bytes = 1 + random.below(500);
                let at = yard.alloc(bytes, 16).expect("memory");
                let apart =
                    |(other, size): &(usize, usize)| at + bytes <= *other || other + size <= at;
                assert!(live.iter().all(apart), "{at:#x} overlaps");
                assert!(at / GRANULE == (at + bytes - 1) / GRANULE, "within its page");
                live.push((at, bytes));
            } else if !live.is_empty() {
                let (at, bytes) = live.swap_remove(random.below(live.len()));
                assert_eq!(yard.free(at), Ok(()));
                freed.push((at, bytes));
            }
            // The program writes to memory that it has no more.
            if step % 100 == 99
                && let Some((at, _)) = freed.pop()
                && yard.heap.class_at(at) == Some(0)
            {
                // Where a block begins, or anywhere in free memory.
                let (free, first) = units::free_units(&yard.heap.region, unit_of(&yard, at).0);
                let is_first = free > 0 && first < 256 && random.chance(50);
                let unit = if is_first { first as usize } else { random.below(256) };
                let unit = at / GRANULE * GRANULE + unit * HEADER;
                let covers = |(at, bytes): &(usize, usize)| {
                    (at - HEADER..at + bytes.next_multiple_of(16)).contains(&unit)
                };
                if !live.iter().any(covers) {
                    let value = [0, 1, -1, 255, 256, i32::MIN, random.next() as i32];
                    let (page, unit) = unit_of(&yard, unit);
                    units::set_unit(&yard.heap, page, unit, value[random.below(7)]);
                }
            }
        }
        let reports = REPORTED.take();
        assert!(reports.iter().all(|(_, cause)| *cause == Cause::Overwritten), "{reports:?}");
        assert_eq!(count::set_aside(&yard.heap), reports.len() as u64);
        found += reports.len();
        // Whatever is set aside, what is live can be freed.
        live.iter().for_each(|(at, _)| assert_eq!(yard.free(*at), Ok(())));
        assert!(REPORTED.take().iter().all(|(_, cause)| *cause == Cause::Overwritten));
    }
    assert!(found > 100, "{found}");
}

#[test]
fn a_header_that_was_overwritten_is_found_and_its_page_is_set_aside() {
    for value in [0, -1, 1, 16, 65, 80, 4000, i32::MAX] {
        let yard = yard();
        let [before, it, behind] = [64, 64, 64].map(|bytes| yard.alloc(bytes, 16).expect("memory"));
        let (page, unit) = unit_of(&yard, it - HEADER);
        units::set_unit(&yard.heap, page, unit, value);
        assert_eq!(fault(&yard), Some("blocks tile page"));
        assert_eq!(yard.free(it), Ok(()));
        assert_eq!(REPORTED.take(), [(it - HEADER, Cause::Overwritten)], "{value}");
        assert_eq!(fault(&yard), None, "what is set aside is no fault");
        let other = yard.alloc(64, 16).expect("memory");
        assert_ne!(unit_of(&yard, other).0, page, "nothing more is handed out of it");
        assert_eq!((yard.free(before), yard.free(behind)), (Ok(()), Ok(())));
        assert_eq!(yard.free(before), Ok(()));
        assert_eq!(REPORTED.take(), [(before, Cause::DoubleFree)], "frees are checked there, too");
        assert_eq!(yard.cache(0).nr_slabs(), 2, "it does not go back");
        assert_eq!(fault(&yard), None);
    }
}

/// A yard with a page of eight objects, of which the second and the fifth are free.
fn planted(bug: impl FnOnce(&Slobs, u32, &[usize])) -> Option<&'static str> {
    let yard = yard();
    let all: Vec<_> = (0..8).map(|_| yard.alloc(64, 16).expect("memory")).collect();
    [1, 4].iter().for_each(|nth| assert_eq!(yard.free(all[*nth]), Ok(())));
    assert_eq!(fault(&yard), None);
    bug(&yard, unit_of(&yard, all[0]).0, &all);
    fault(&yard)
}

/// What is wrong in a yard, with a page and its eight objects.
type Bug = Box<dyn FnOnce(&Slobs, u32, &[usize])>;

#[test]
fn verify_finds_planted_bugs() {
    let descriptor = |yard: &Slobs, page| -> &'static slabyard::pages::Descriptor {
        // SAFETY: the yard outlives the test's use of it.
        unsafe { &*std::ptr::from_ref(yard.heap.region.descriptor(page)) }
    };
    let bugs: [(&str, Bug); 6] = [
        (
            "free block overwritten",
            Box::new(|yard, page, _| units::set_unit(&yard.heap, page, 5, 0)),
        ),
        // The first free block is skipped.
        (
            "free block overwritten",
            Box::new(|yard, page, _| {
                let (free, _) = units::free_units(&yard.heap.region, page);
                units::set_free_units(&yard.heap.region, page, free, 20);
            }),
        ),
        // A block is one unit shorter than what was freed.
        (
            "free block overwritten",
            Box::new(|yard, page, _| units::set_unit(&yard.heap, page, 20, 4)),
        ),
        // An object begins in a free block.
        (
            "free block overwritten",
            Box::new(|yard, page, all| {
                let (_, unit) = unit_of(yard, all[4]);
                freeset::mark(&yard.heap, page, unit, false);
            }),
        ),
        // A live object is forgotten.
        (
            "blocks tile page",
            Box::new(|yard, page, all| {
                let (_, unit) = unit_of(yard, all[2]);
                freeset::mark(&yard.heap, page, unit, true);
            }),
        ),
        // A page with free blocks is lost.
        (
            "slab listed",
            Box::new(move |yard, page, _| {
                descriptor(yard, page).time.store(0, Ordering::Relaxed);
            }),
        ),
    ];
    for (nth, (expected, bug)) in bugs.into_iter().enumerate() {
        assert_eq!(planted(bug), Some(expected), "bug {nth}");
    }
}
