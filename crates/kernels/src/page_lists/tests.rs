//! Tests the limits of each kind of page list against the values that kernels showed.

use super::{List, PageLists, Rules, Tuning, Warmth, Zone};

const PAGE: u64 = 4096;

/// A zone of this many pages, as `/proc/zoneinfo` of a machine of two CPUs told it.
fn zone(pages: u64, low_pages: u64) -> Zone {
    Zone { pages, low_pages, cpus: 2, page_bytes: PAGE }
}

fn rules(kind: PageLists, zone: &Zone) -> Rules {
    Rules::new(kind, zone, u32::MAX)
}

/// A zone of 1 GiB or more.
const BIG: Zone = Zone { pages: 1 << 20, low_pages: 10_000, cpus: 2, page_bytes: PAGE };

#[test]
fn kinds_are_in_the_order_of_the_option_s_words() {
    let words = PageLists::NAMES;
    assert!(PageLists::ALL.iter().map(|kind| kind.name()).eq(words.iter().copied()));
    assert!(PageLists::ALL.iter().all(|kind| PageLists::find(kind.name()) == Some(*kind)));
    assert_eq!(PageLists::default(), PageLists::ALL[0]);
}

#[test]
fn hot_and_cold_lists_have_the_numbers_of_2_5_45() {
    for (mib, batch) in [(1, 1), (16, 1), (32, 2), (64, 4), (128, 8), (256, 16), (4096, 16)] {
        let zone = zone((mib << 20) / PAGE, 0);
        let rules = rules(PageLists::HotCold, &zone);
        assert_eq!(rules.batch, batch, "{mib} MiB");
        assert_eq!([rules.low, rules.high], [2 * batch, 6 * batch], "hot, {mib} MiB");
        assert_eq!(rules.low_of(List::Cold), 0);
        assert_eq!(rules.capacity(List::Cold), 2 * batch, "cold, {mib} MiB");
        assert_eq!(rules.orders, 1);
    }
    // 256 KiB are four pages of 64 KiB.
    let large = Zone { pages: 1 << 20, page_bytes: 64 << 10, ..BIG };
    assert_eq!(rules(PageLists::HotCold, &large).batch, 1);
}

#[test]
fn the_merged_list_has_the_numbers_that_zoneinfo_showed() {
    let rules = rules(PageLists::Merged, &BIG);
    assert_eq!([rules.batch, rules.low, rules.high], [31, 0, 186]);
    assert_eq!(rules.list_of(0, Warmth::Cold), Some(List::Of(0)), "one list");
}

#[test]
fn the_lists_of_6_18_have_the_numbers_of_a_real_kernel() {
    // Kernel 6.18 on 2 CPUs: managed, low; batch, high_min and high_max of the zones DMA, DMA32
    // and Normal.
    let zones = [
        (3840, 48, [1, 24, 240]),
        (772_918, 9823, [63, 4911, 48_307]),
        (884_736, 11_246, [63, 5623, 55_296]),
    ];
    for (managed, low, numbers) in zones {
        let rules = rules(PageLists::Today, &zone(managed, low));
        assert_eq!([rules.batch, rules.high, rules.high_max], numbers);
        assert_eq!(rules.orders, 4);
    }
    for (mib, batch) in [(1024, 63), (512, 31), (256, 15), (64, 3), (32, 1), (16, 1)] {
        let zone = zone((mib << 20) / PAGE, 0);
        let rules = rules(PageLists::Today, &zone);
        assert_eq!((rules.batch, rules.high), (batch, 4 * batch), "{mib} MiB");
    }
}

#[test]
fn a_zone_s_watermark_follows_from_its_size() {
    // min_free_kbytes by memory, as the kernel tells it in its table.
    for (mib, min_kib) in [(16, 512), (64, 1024), (256, 2048), (1024, 4096), (16384, 16384)] {
        let zone = Zone::of(mib << 20, PAGE, 2);
        let min = min_kib / 4;
        assert_eq!(zone.low_pages, min + (min / 4).max(zone.pages / 1000), "{mib} MiB");
    }
    assert_eq!(Zone::of(1 << 44, PAGE, 1).low_pages, 65_536 + (1u64 << 32) / 1000);
}

#[test]
fn a_refill_doubles_while_nothing_is_freed() {
    let rules = rules(PageLists::Today, &BIG);
    let mut tuning = Tuning::default();
    let batches = [(); 8].map(|()| {
        let (batch, new) = rules.tuned_refill(tuning, 0, 0);
        tuning = new;
        batch
    });
    assert_eq!(batches, [63, 126, 252, 504, 1008, 2016, 2016, 2016], "2^5 times the batch");
    // A free halves the number of doublings, from 5 to 2.
    let (_, tuning) = rules.tuned_free(tuning, 0, 1);
    assert_eq!(rules.tuned_refill(tuning, 0, 0).0, 252);
    // Of higher orders: the batch by the order, 2 at least.
    let of_order = |order| rules.tuned_refill(tuning, order, 0).0;
    assert_eq!([1, 2, 3].map(of_order), [31, 15, 7]);
    let small = super::Rules::new(PageLists::Today, &zone(32 << 10, 0), u32::MAX);
    assert_eq!(small.batch, 7);
    assert_eq!([1, 2, 3].map(|order| small.tuned_refill(tuning, order, 0).0), [3, 2, 2]);
}

#[test]
fn a_refill_leaves_room_for_a_batch() {
    let rules = Rules::new(PageLists::Today, &BIG, 1022);
    let (batch, tuning) = rules.tuned_refill(Tuning { doublings: 5, ..Tuning::default() }, 0, 500);
    assert_eq!((batch, tuning.doublings), (1022 - 500 - 63, 5));
    assert_eq!(rules.tuned_refill(tuning, 0, 1022).0, 63, "the batch at least");
}

#[test]
fn what_a_tuned_list_may_hold_follows_refills_and_frees() {
    let rules = rules(PageLists::Today, &zone(884_736, 11_246));
    let (_, tuning) = rules.tuned_refill(Tuning::default(), 0, 0);
    assert_eq!(tuning.high, 5623 + 63);
    let high = |high| rules.tuned_refill(Tuning { high, ..Tuning::default() }, 0, 0).1.high;
    assert_eq!([high(0), high(55_280), high(90_000)], [5686, 55_296, 55_296]);
    // A free that finds it full makes it large enough for what was freed lately.
    let lately = Tuning { high: 1_000_000, free_count: 2000, doublings: 0 };
    let (most, tuning) = rules.tuned_free(lately, 0, 55_296);
    assert_eq!((most, tuning.high), (2001, 55_296));
    let (most, tuning) = rules.tuned_free(Tuning { high: 0, ..lately }, 0, 5623);
    assert_eq!((most, tuning.high), (2001, 5623), "it is large enough");
}

#[test]
fn a_give_back_is_what_was_freed_lately_within_bounds() {
    let rules = Rules::new(PageLists::Today, &BIG, 1022);
    let freed = |free_count, count| {
        rules.tuned_free(Tuning { high: 0, free_count, doublings: 0 }, 0, count).0
    };
    assert_eq!(freed(0, 1021), 0, "not full");
    assert_eq!(freed(0, 1022), 63, "the batch at least");
    assert_eq!(freed(499, 1022), 500);
    assert_eq!(freed(2015, 1022), 1022 - 63, "a batch stays at least");
    let counted = rules.tuned_free(Tuning { free_count: 2016, ..Tuning::default() }, 3, 0).1;
    assert_eq!(counted.free_count, 2016, "it is counted up to 2^5 batches");
    let counted = rules.tuned_free(Tuning::default(), 3, 0).1;
    assert_eq!(counted.free_count, 8, "in pages");
}
