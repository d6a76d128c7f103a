//! Tables and the region as they grow, mappings, created caches: who finds a thing finds it whole.
#![cfg(loom)]

use slabyard::cache::{Cache, CacheSettings};
use slabyard::engine::Sheaves;
use slabyard::pages::PageHeap;
use slabyard::yard::{Settings, Yard};
use slabyard_models::{Modelled, keep, model, spawn, watch_range, watch_touched};
use slabyard_platform::Memory;
use slabyard_platform::sync::{AtomicU64, Ordering};
use slabyard_platform::table::Table;

const MAPPED: usize = 2 << 20;

fn yard() -> &'static Yard<Modelled> {
    let yard: &Yard<Modelled> = keep(Yard::new(Modelled::new()));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    yard
}

/// The items of a table that grew may be used.
#[test]
fn a_table_is_as_long_as_its_memory() {
    model(2, || {
        let p = keep(Modelled::new());
        let table: &Table<AtomicU64> = keep(Table::new());
        assert!(table.reserve(p, 1000));
        watch_touched(&["src/table.rs"], || {
            assert!(table.is_reserved() && table.is_empty() && table.committed_bytes() == 0);
        });
        p.await_memory();
        let other = spawn(move || assert!(table.ensure(p, 10)));
        if table.len() >= 10 {
            p.use_memory();
        }
        other.join().unwrap();
    });
}

/// A table that is reserved has an address.
#[test]
fn a_reserved_table_has_its_address() {
    model(2, || {
        let p = keep(Modelled::new());
        let table: &Table<AtomicU64> = keep(Table::new());
        watch_touched(&["src/table.rs"], || {
            assert!(!table.is_reserved() && table.base() == 0);
        });
        let other = spawn(move || assert!(table.reserve(p, 1000)));
        if table.is_reserved() {
            assert_ne!(table.base(), 0);
        }
        other.join().unwrap();
    });
}

/// Below its top the region's memory and descriptors may be used.
#[test]
fn a_region_is_usable_below_its_top() {
    model(2, || {
        let yard = yard();
        let region = &yard.heap.region;
        let top = region.top();
        watch_touched(&["pages/region.rs"], || assert_eq!(region.top(), top));
        yard.platform().await_memory();
        let other = spawn(move || assert!(yard.heap.take_run(4096, 1).is_some()));
        if region.top() > top {
            yard.platform().use_memory();
        }
        other.join().unwrap();
    });
}

/// The page map may be read as far as the region reaches, by who knows nothing else of its table.
#[test]
fn a_page_map_is_there_as_far_as_it_reaches() {
    model(2, || {
        let yard = yard();
        let region = &yard.heap.region;
        let grow = move || {
            let reach = region.reach();
            while region.reach() == reach {
                assert!(yard.heap.take_run(2048, 1).is_some());
            }
        };
        // From now on it commits memory before it reaches farther.
        grow();
        let reach = region.reach();
        watch_touched(&["pages/region.rs", "platform/src/table.rs"], || {
            assert!(region.reach() == reach && region.map_value(1) == 0);
        });
        yard.platform().await_memory();
        let other = spawn(grow);
        if region.reach() > reach {
            yard.platform().use_memory();
            // The table knows how far it reaches itself, and says so where it does not.
            assert_eq!(region.map_value(reach as u32), 0);
        }
        other.join().unwrap();
    });
}

/// A heap, and the address that its next mapping gets, whose place in the table is watched.
fn next_mapping() -> (&'static PageHeap<Modelled>, usize) {
    let heap = &yard().heap;
    let (p, mappings) = (&heap.platform, &heap.mappings);
    let address = mappings.map(p, MAPPED, 4096).expect("memory");
    mappings.unmap(p, address);
    let next = address + MAPPED + p.page_bytes();
    watch_touched(&["pages/mappings.rs"], || assert!(mappings.bytes_of(address).is_none()));
    let key = watch_touched(&["pages/mappings.rs"], || assert!(mappings.bytes_of(next).is_none()));
    assert_eq!(key.len(), 1);
    watch_range(key[0] + size_of::<usize>(), 1, size_of::<usize>());
    p.await_memory();
    (heap, next)
}

/// A mapping that is found has its size.
#[test]
fn a_mapping_that_is_found_has_its_bytes() {
    model(2, || {
        let (heap, next) = next_mapping();
        let (p, mappings) = (&heap.platform, &heap.mappings);
        let other = spawn(move || assert_eq!(mappings.map(p, MAPPED, 4096), Some(next)));
        if let Some(bytes) = mappings.bytes_of(next) {
            assert_eq!(bytes, MAPPED);
        }
        other.join().unwrap();
    });
}

/// As above, in a walk over all of them.
#[test]
fn a_walk_over_mappings_finds_whole_ones() {
    model(2, || {
        let (heap, next) = next_mapping();
        let (p, mappings) = (&heap.platform, &heap.mappings);
        let other = spawn(move || assert_eq!(mappings.map(p, MAPPED, 4096), Some(next)));
        mappings.each(|_| p.use_memory());
        other.join().unwrap();
    });
}

/// The slot of an address in a table of mappings.
fn slot_of(address: usize) -> u64 {
    ((address >> 12) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40 & 8191
}

/// An address inside of a mapping that is found is inside of it as a whole, and not of as many
/// bytes as its slot's last one had.
#[test]
fn an_address_is_in_a_whole_mapping() {
    model(2, || {
        let heap = &yard().heap;
        let (p, mappings) = (&heap.platform, &heap.mappings);
        let page = p.page_bytes();
        let touched = |address: usize, bytes: Option<usize>| {
            let find = || assert_eq!(mappings.bytes_of(address), bytes);
            watch_touched(&["pages/mappings.rs"], find).len()
        };
        let first = mappings.map(p, page, page).expect("memory");
        touched(first + page, None);
        assert_eq!(touched(first, Some(page)), 2);
        mappings.unmap(p, first);
        let same = |pages: &usize| slot_of(first + pages * page) == slot_of(first);
        let pages = (4..).find(same).expect("another page");
        let next = first + pages * page;
        // An unmapped page follows each mapping.
        mappings.map(p, (pages - 3) * page, page).expect("memory");
        assert_eq!(touched(next, None), 0, "the slot of the first");
        let other = spawn(move || assert_eq!(mappings.map(p, MAPPED, 4096), Some(next)));
        if mappings.contains(next) {
            assert!(mappings.contains(next + MAPPED - 1), "its last byte");
        }
        other.join().unwrap();
    });
}

/// A mapping that is freed by two threads is freed once.
#[test]
fn a_mapping_is_removed_once() {
    model(2, || {
        let heap = &yard().heap;
        let (p, mappings) = (&heap.platform, &heap.mappings);
        let address = mappings.map(p, MAPPED, 4096).expect("memory");
        watch_touched(&["pages/mappings.rs"], || assert!(mappings.bytes_of(address).is_some()));
        let other = spawn(move || mappings.unmap(p, address).is_some());
        let freed = mappings.unmap(p, address).is_some();
        assert_ne!(other.join().unwrap(), freed);
    });
}

/// A created cache that is found is the one of this generation.
#[test]
fn a_cache_that_is_found_is_whole() {
    model(1, || {
        let yard = yard();
        let settings = CacheSettings::of(64);
        let create = move || yard.create_cache("model", &settings).expect("a cache");
        let id = create();
        // SAFETY: no object of it is live.
        assert!(unsafe { yard.destroy_cache(id) }.is_ok());
        let caches = yard.caches();
        watch_touched(&["cache/table.rs", "engine/header.rs"], || {
            assert!(!caches.is_there(id.number()));
            assert_eq!(yard.cache(id.number()).generation(), id.generation());
            assert!(caches.numbers().all(|number| number != id.number()));
        });
        let other = spawn(move || create().generation());
        if caches.is_there(id.number()) {
            assert_ne!(yard.cache(id.number()).generation(), id.generation());
        }
        for number in caches.numbers().filter(|number| *number == id.number()) {
            assert_ne!(yard.cache(number).generation(), id.generation());
        }
        assert_ne!(other.join().unwrap(), id.generation());
    });
}

/// A cache whose number was in use at some time is whole, for who knows the number without an order.
#[test]
fn a_cache_that_was_made_is_whole() {
    model(2, || {
        let yard = yard();
        let create = move || yard.create_cache("model", &CacheSettings::of(64)).expect("a cache");
        let id = create();
        let touched =
            |files| watch_touched(files, || assert_eq!(yard.cache(id.number()).generation(), 1))[0];
        let made = touched(&["cache/table.rs"]);
        // SAFETY: a word of the yard, which the model keeps.
        let made = unsafe { AtomicU64::from_ptr(made as *mut u64) };
        let generation = touched(&["engine/header.rs"]) + size_of::<Cache<Sheaves>>();
        watch_range(generation, 1, 4);
        let other = spawn(move || assert_eq!(create().number(), id.number() + 1));
        if made.load(Ordering::Relaxed) == 2 {
            assert_eq!(yard.cache(id.number() + 1).generation(), 1);
        }
        other.join().unwrap();
    });
}
