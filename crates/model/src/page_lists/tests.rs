//! Tests of each kind of list, against values seen on real kernels.

use super::CountedLists;
use slabyard_abi::stats::Counter;
use slabyard_kernels::PageLists;
use slabyard_kernels::page_lists::{List, Rules, Warmth, Zone};

const PAGE: u64 = 4096;

/// A zone of so many pages, as `/proc/zoneinfo` of a machine of two CPUs showed it.
fn zone(pages: u64, low_pages: u64) -> Zone {
    Zone { pages, low_pages, cpus: 2, page_bytes: PAGE }
}

/// A zone of 1 GiB or more.
const BIG: Zone = Zone { pages: 1 << 20, low_pages: 10_000, cpus: 2, page_bytes: PAGE };

/// Lists of one CPU in front of one node.
fn lists(kind: PageLists, zone: &Zone) -> CountedLists {
    CountedLists::new(Rules::new(kind, zone, u32::MAX), 1, 1)
}

fn counted<const N: usize>(lists: &CountedLists, counters: [Counter; N]) -> [u64; N] {
    counters.map(|counter| lists.counted(counter))
}

use Counter::{
    PageColdGiveBack, PageColdGivenBack, PageColdHit, PageColdRefill, PageColdRefilled,
    PageGiveBack, PageGivenBack, PageHit, PageLock, PageRefill, PageRefilled,
};

#[test]
fn a_hot_list_is_refilled_at_two_batches_and_gives_back_at_six() {
    let lists = lists(PageLists::HotCold, &BIG);
    let len = || lists.list(0, 0, List::Of(0)).len();
    let take = || lists.alloc(0, 0, 0, Warmth::Hot);
    let first = take();
    assert_eq!(len(), 15);
    let mut live: Vec<u32> = (0..2).map(|_| take()).collect();
    // With 15, and with 30, there were two batches or fewer.
    assert_eq!(len(), 45);
    assert_eq!(counted(&lists, [PageHit, PageRefill, PageRefilled]), [0, 3, 48]);
    live.extend((0..13).map(|_| take()));
    assert_eq!((len(), lists.counted(PageHit)), (32, 13));
    live.push(take());
    assert_eq!((len(), lists.counted(PageRefill)), (47, 4));
    live.push(first);
    live.extend((0..100).map(|_| lists.before(0, 0)));
    while len() < 96 {
        lists.free(0, 0, 0, live.pop().expect("a page"), Warmth::Hot);
    }
    assert_eq!(lists.counted(PageGiveBack), 0);
    lists.free(0, 0, 0, live.pop().expect("a page"), Warmth::Hot);
    assert_eq!(len(), 96 - 16 + 1);
    assert_eq!(counted(&lists, [PageGiveBack, PageGivenBack, PageLock]), [1, 16, 5]);
}

#[test]
fn the_oldest_pages_go_back_and_the_newest_are_handed_out() {
    for kind in [PageLists::Slabyard, PageLists::HotCold, PageLists::Merged, PageLists::Today] {
        let lists = lists(kind, &BIG);
        let live: Vec<u32> = (0..10).map(|_| lists.alloc(0, 0, 0, Warmth::Hot)).collect();
        live.iter().for_each(|page| lists.free(0, 0, 0, *page, Warmth::Hot));
        let again: Vec<u32> = (0..10).map(|_| lists.alloc(0, 0, 0, Warmth::Hot)).collect();
        assert!(again.iter().eq(live.iter().rev()), "{kind:?}: the last one freed is the next");
    }
    // Without lists it is the buddy's choice: the lowest.
    let lists = lists(PageLists::None, &BIG);
    let live: Vec<u32> = (0..10).map(|_| lists.alloc(0, 0, 0, Warmth::Hot)).collect();
    live.iter().for_each(|page| lists.free(0, 0, 0, *page, Warmth::Hot));
    assert_eq!(lists.alloc(0, 0, 0, Warmth::Hot), live[0]);
    assert_eq!(lists.counted(PageLock), 21);
}

#[test]
fn what_goes_back_is_the_tail() {
    let lists = lists(PageLists::HotCold, &zone(1 << 12, 0));
    assert_eq!(lists.rules().batch, 1);
    let live: Vec<u32> = (0..20).map(|_| lists.before(0, 0)).collect();
    live.iter().for_each(|page| lists.free(0, 0, 0, *page, Warmth::Hot));
    let left: Vec<u32> = live[14..].iter().rev().copied().collect();
    assert_eq!(lists.list(0, 0, List::Of(0)), left);
    assert_eq!(counted(&lists, [PageGiveBack, PageGivenBack]), [14, 14]);
}

#[test]
fn cold_pages_have_a_list_of_their_own_or_the_tail() {
    let lists = |kind| {
        let lists = self::lists(kind, &BIG);
        let live: Vec<u32> = (0..40).map(|_| lists.before(0, 0)).collect();
        lists.free(0, 0, 0, live[0], Warmth::Hot);
        live[1..].iter().for_each(|page| lists.free(0, 0, 0, *page, Warmth::Cold));
        (lists, live)
    };
    let (hot_cold, live) = lists(PageLists::HotCold);
    assert_eq!(hot_cold.list(0, 0, List::Of(0)), [live[0]]);
    // 32 of them fill it: a batch went back.
    assert_eq!(hot_cold.list(0, 0, List::Cold).len(), 39 - 16);
    assert_eq!(counted(&hot_cold, [PageColdGiveBack, PageColdGivenBack]), [1, 16]);
    assert_eq!(hot_cold.alloc(0, 0, 0, Warmth::Cold), live[39]);
    assert_eq!(counted(&hot_cold, [PageColdHit, PageColdRefill]), [1, 0]);
    while !hot_cold.list(0, 0, List::Cold).is_empty() {
        let _ = hot_cold.alloc(0, 0, 0, Warmth::Cold);
    }
    let _ = hot_cold.alloc(0, 0, 0, Warmth::Cold);
    assert_eq!(counted(&hot_cold, [PageColdRefill, PageColdRefilled]), [1, 16]);
    assert_eq!(counted(&hot_cold, [PageHit, PageRefill]), [0, 0], "the hot list is another");

    let (merged, live) = lists(PageLists::Merged);
    assert_eq!(merged.list(0, 0, List::Of(0)), live, "each cold one behind all others");
    assert_eq!(merged.alloc(0, 0, 0, Warmth::Cold), live[39]);
    assert_eq!(merged.alloc(0, 0, 0, Warmth::Hot), live[0]);
}

#[test]
fn a_list_of_6_18_is_of_one_order_and_they_are_full_together() {
    let lists = CountedLists::new(Rules::new(PageLists::Today, &BIG, 1022), 1, 1);
    let live: Vec<u32> = (0..200).map(|_| lists.before(0, 3)).collect();
    live[..127].iter().for_each(|run| lists.free(0, 0, 3, *run, Warmth::Hot));
    assert_eq!(lists.listed_pages(0), 1016);
    let page = lists.before(0, 0);
    lists.free(0, 0, 0, page, Warmth::Hot);
    assert_eq!(lists.counted(PageGiveBack), 0);
    lists.free(0, 0, 3, live[127], Warmth::Hot);
    // 1025 pages are more than 1022: what was freed lately goes back, but for a batch.
    assert_eq!(counted(&lists, [PageGiveBack, PageGivenBack, PageLock]), [1, 960, 1]);
    assert_eq!(lists.list(0, 0, List::Of(0)), [page], "of the order that was freed first");
    // An order that has no list.
    let large = lists.alloc(0, 0, 4, Warmth::Hot);
    lists.free(0, 0, 4, large, Warmth::Hot);
    assert_eq!(counted(&lists, [PageHit, PageRefill, PageLock]), [0, 0, 3]);
}

#[test]
fn no_page_is_lost_or_handed_out_twice() {
    for kind in PageLists::ALL {
        let lists = CountedLists::new(Rules::new(kind, &zone(1 << 15, 0), u32::MAX), 3, 2);
        let mut live: Vec<(u32, usize, u32)> = Vec::new();
        let mut seed = 7u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for step in 0..20_000 {
            let (cpu, node) = (random(3) as usize, random(2) as usize);
            let warmth = if random(8) == 0 { Warmth::Cold } else { Warmth::Hot };
            if random(100) < if step / 1000 % 2 == 0 { 60 } else { 40 } {
                let order = random(6) as u32;
                live.push((lists.alloc(cpu, node, order, warmth), node, order));
            } else if !live.is_empty() {
                let (run, node, order) = live.swap_remove(random(live.len() as u64) as usize);
                lists.free(cpu, node, order, run, warmth);
            }
            if step % 500 == 0 {
                for node in 0..2 {
                    let of_node = live.iter().filter(|(_, of, _)| *of == node);
                    let pages: u32 = of_node.map(|(.., order)| 1 << order).sum();
                    let buddy = lists.buddy(node);
                    let sum = buddy.free_pages() + lists.listed_pages(node) + pages;
                    assert_eq!(sum, buddy.pages(), "{kind:?}");
                }
            }
        }
        for (run, node, order) in live {
            lists.free(0, node, order, run, Warmth::Hot);
        }
        for (cpu, node) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
            lists.drain(cpu, node);
        }
        for node in 0..2 {
            assert_eq!(lists.listed_pages(node), 0);
            let buddy = lists.buddy(node);
            assert_eq!(buddy.free_pages(), buddy.pages(), "{kind:?}");
        }
    }
}
