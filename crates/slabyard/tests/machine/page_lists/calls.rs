//! What lists do with a yard's pages, call by call.

use super::{BIG_ZONE, SMALL_ZONE, books, yard_of};
use slabyard::cache::classes;
use slabyard::calls::trim;
use slabyard::engine::SlowPaths;
use slabyard::engine::{Counter, Tiny};
use slabyard::pages::GranuleKind;
use slabyard::pages::percpu::FIRST_SLOT;
use slabyard::platform::{PerCpu, Slot};
use slabyard::yard::Yard;
use slabyard_kernels::PageLists;
use slabyard_kernels::page_lists::Warmth;
use slabyard_testkit::machine::{Config, Machine};

const LISTS: [PageLists; 4] =
    [PageLists::Slabyard, PageLists::HotCold, PageLists::Merged, PageLists::Today];

fn counted<const N: usize>(yard: &Yard<Machine, Tiny>, counters: [Counter; N]) -> [u64; N] {
    counters.map(|counter| yard.platform().counted()[counter as usize])
}

fn take(yard: &Yard<Machine, Tiny>) -> u32 {
    slabyard_page_lists::take(&yard.heap, 0, Warmth::Hot, &|_, _| ()).expect("memory")
}

fn give(yard: &Yard<Machine, Tiny>, page: u32) {
    slabyard_page_lists::free(&yard.heap, page, 0, Warmth::Hot, &|_, _| ());
}

#[test]
fn the_page_freed_last_on_this_cpu_is_the_next() {
    for kind in LISTS {
        let yard = yard_of::<Tiny>(Config::default(), kind, BIG_ZONE);
        let live: Vec<u32> = (0..20).map(|_| take(&yard)).collect();
        live.iter().for_each(|page| give(&yard, *page));
        let again: Vec<u32> = (0..20).map(|_| take(&yard)).collect();
        assert!(again.iter().eq(live.iter().rev()), "{kind:?}");
        again.iter().for_each(|page| give(&yard, *page));
        yard.trim();
        books::empty(&yard).unwrap();
    }
}

#[test]
fn without_lists_the_next_page_is_the_buddy_s_choice() {
    let yard = yard_of::<Tiny>(Config::default(), PageLists::None, BIG_ZONE);
    let live: Vec<u32> = (0..20).map(|_| take(&yard)).collect();
    live.iter().for_each(|page| give(&yard, *page));
    assert_ne!(take(&yard), live[19], "the lowest, and not the warm one");
}

#[test]
fn the_slab_that_ended_last_is_the_next_to_begin() {
    for (kind, is_warm) in
        LISTS.map(|kind| (kind, true)).into_iter().chain([(PageLists::None, false)])
    {
        let yard = yard_of::<Tiny>(Config::default(), kind, BIG_ZONE);
        // Twenty slabs of a page, each of which ends with its last object.
        let live: Vec<usize> = (0..320).map(|_| yard.alloc(256, 16).expect("memory")).collect();
        let region = &yard.heap.region;
        let slab_of = |address| region.granule_of(address).expect("of the region");
        live.iter().for_each(|object| yard.free(*object).expect("a live object"));
        let last = slab_of(live[319]);
        let next = slab_of(yard.alloc(256, 16).expect("memory"));
        assert_eq!(next == last, is_warm, "{kind:?}: {next} after {last}");
    }
}

#[test]
fn calls_are_counted() {
    use Counter::{PageGiveBack, PageGivenBack, PageHit, PageLock, PageRefill, PageRefilled};
    let all = [PageHit, PageRefill, PageRefilled, PageGiveBack, PageGivenBack, PageLock];
    let order_0 = |kind| {
        let yard = yard_of::<Tiny>(Config::default(), kind, BIG_ZONE);
        let class = (0..).find(|class| yard.cache(*class).shape().geometry.order == 0);
        let object = yard.cache(class.expect("slabs of a page")).shape().geometry.object as usize;
        let per_slab = 4096 / object;
        let live: Vec<usize> =
            (0..per_slab * 100).map(|_| yard.alloc(object, 16).expect("memory")).collect();
        live.iter().for_each(|object| yard.free(*object).expect("a live object"));
        counted(&yard, all)
    };
    // 100 slabs begin and end. A hot list is refilled with 16 as 32 or fewer are there, and gives 16
    // back of 96.
    assert_eq!(order_0(PageLists::HotCold), [91, 9, 144, 3, 48, 12]);
    assert_eq!(order_0(PageLists::Merged), [96, 4, 124, 0, 0, 4]);
    assert_eq!(order_0(PageLists::Today), [98, 2, 189, 0, 0, 2]);
    assert_eq!(order_0(PageLists::None), [0, 0, 0, 0, 0, 200]);
    assert_eq!(order_0(PageLists::Slabyard), [0, 100, 100, 68, 68, 168]);
}

#[test]
fn a_drain_empties_the_lists() {
    for kind in LISTS {
        for can_stop in [true, false] {
            let config = Config { can_stop, ..Config::default() };
            let yard = yard_of::<Tiny>(config, kind, SMALL_ZONE);
            // A slow path: this thread has a row from then on.
            trim::drain_thread(&yard);
            let live: Vec<u32> = (0..30).map(|_| take(&yard)).collect();
            live.iter().for_each(|page| give(&yard, *page));
            slabyard_page_lists::free(&yard.heap, take(&yard), 0, Warmth::Cold, &|_, _| ());
            let parked = |yard: &Yard<Machine, Tiny>| {
                books::verify(yard).unwrap();
                books::counters(yard).unwrap().parked_pages
            };
            assert!(parked(&yard) > 0, "{kind:?}");
            yard.trim();
            assert_eq!(parked(&yard), 0, "{kind:?}");
            books::empty(&yard).unwrap();
        }
    }
}

#[test]
fn a_refill_that_is_cut_short_by_refused_memory_gives_what_it_has() {
    let (mut shorter, mut refused) = (0, 0);
    for n in 0..12 {
        let yard = yard_of::<Tiny>(Config::default(), PageLists::Today, BIG_ZONE);
        yard.platform().refuse(Some(n));
        let mut live = Vec::new();
        let mut lengths = Vec::new();
        while lengths.len() < 6 {
            let refilled = std::cell::Cell::new(0);
            let count = |counter, n| {
                if counter == Counter::PageRefilled {
                    refilled.set(n);
                }
            };
            match slabyard_page_lists::take(&yard.heap, 0, Warmth::Hot, &count) {
                Some(page) => live.push(page),
                None => refused += 1,
            }
            if refilled.get() > 0 {
                lengths.push(refilled.get());
            }
        }
        shorter += usize::from(lengths.is_sorted_by(|a, b| a < b));
        live.drain(..).for_each(|page| give(&yard, page));
        yard.trim();
        books::empty(&yard).unwrap();
    }
    assert!(shorter < 12, "no refill was cut short");
    println!("{refused} pages refused");
}

#[test]
fn a_page_that_a_list_lost_is_found() {
    for kind in LISTS {
        let yard = yard_of::<Tiny>(Config::default(), kind, BIG_ZONE);
        let page = take(&yard);
        give(&yard, page);
        books::verify(&yard).unwrap();
        let descriptor = yard.heap.region.descriptor(page);
        let order = descriptor.order();
        // As if a give-back had forgotten one of its pages.
        assert_eq!(take(&yard), page);
        descriptor.set(GranuleKind::Parked, order, 0);
        let fault = books::verify(&yard).unwrap_err();
        assert!(fault.contains("parked granules"), "{kind:?}: {fault}");
        // And as if a page was on a list, and free.
        descriptor.set(GranuleKind::None, 0, 0);
        give(&yard, page);
        descriptor.set(GranuleKind::Free, order, 0);
        assert!(books::verify(&yard).is_err(), "{kind:?}");
    }
}

#[test]
fn what_reclaim_ends_is_cold() {
    for kind in LISTS {
        let yard = yard_of::<Tiny>(Config::default(), kind, BIG_ZONE);
        let class = classes::class_for(256).expect("a class");
        let cache = yard.cache(class);
        let on = cache.on(&yard.heap);
        cache.engine.set(on, "min_partial", 100);
        let live: Vec<usize> = (0..320).map(|_| yard.alloc(256, 16).expect("memory")).collect();
        live.iter().for_each(|object| yard.free(*object).expect("a live object"));
        let listed = |slot| {
            let top = yard.platform().rows().entry(0, Slot(slot)).top();
            yard.heap.sheaves.count_of(top).unwrap_or(0)
        };
        let hot = listed(FIRST_SLOT);
        // The slabs were kept empty, and nobody used them since.
        cache.engine.discard_empty(on);
        let has_cold = kind == PageLists::HotCold;
        let cold = listed(FIRST_SLOT + 7);
        assert_eq!((cold > 0, listed(FIRST_SLOT) == hot), (has_cold, has_cold), "{kind:?}");
        books::verify(&yard).unwrap();
    }
}
