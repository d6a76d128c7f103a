//! Tests each rule of SLOB on the modelled machine, and random calls against an oracle.

use super::*;
use std::collections::BTreeMap;

const PAGE: u32 = 4096;

fn kernel() -> Kernel {
    Kernel::new(PAGE, 8, 1000)
}

/// Offset in its page.
fn offset(address: u64) -> u32 {
    (address % u64::from(PAGE)) as u32
}

#[test]
fn units_hold_an_offset_of_their_page() {
    let sizes = [4 << 10, 16 << 10, 32 << 10, 65534, 64 << 10, 256 << 10];
    assert_eq!(sizes.map(kernel_unit), [2, 2, 2, 2, 4, 4]);
    for page_bytes in [4 << 10, 16 << 10, 32 << 10, 64 << 10] {
        // `set` panics if a value does not fit.
        let k = Kernel::new(page_bytes, 8, 10);
        let odd = k.cache_alloc(2, 2).unwrap();
        let rest = k.cache_alloc(page_bytes - 8, 4).unwrap();
        k.cache_free(odd, 2);
        k.cache_free(rest, page_bytes - 8);
        assert_eq!(k.nr_pages(), 0);
    }
}

#[test]
fn a_block_of_one_unit_has_the_offset_behind_it_negated() {
    let k = &kernel();
    let all: Vec<_> = (0..6).map(|_| k.cache_alloc(2, 2).unwrap()).collect();
    let page = k.split(all[0]).0;
    assert_eq!(k.free(page), (2042, 6));
    assert_eq!([k.get(page, 6), k.get(page, 7)], [2042, 2048], "size, and the page's end");
    k.cache_free(all[1], 2);
    assert_eq!((k.get(page, 1), k.free(page).1), (-6, 1));
    k.cache_free(all[3], 2);
    assert_eq!([k.get(page, 1), k.get(page, 3)], [-3, -6]);
    k.cache_free(all[2], 2);
    assert_eq!([k.get(page, 1), k.get(page, 2)], [3, 6], "one block of three units");
    assert_eq!(k.free_blocks(page), [(2, 6), (12, 4084)]);
}

#[test]
fn a_free_merges_with_both_neighbours() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 2, 0], [0, 2, 1, 3], [2, 0, 3, 1]] {
        let k = &kernel();
        let keep = k.cache_alloc(64, 8).unwrap();
        let all: Vec<_> = (0..4).map(|_| k.cache_alloc(100, 4).unwrap()).collect();
        let end = k.cache_alloc(64, 8).unwrap();
        let page = k.split(keep).0;
        order.iter().for_each(|nth| k.cache_free(all[*nth], 100));
        assert_eq!(k.free_blocks(page)[0], (64, 400), "{order:?}");
        k.cache_free(end, 64);
        assert_eq!(k.free_blocks(page), [(64, 4032)]);
        k.cache_free(keep, 64);
        assert_eq!((k.nr_pages(), k.lists().len()), (0, 0), "an empty page goes back at once");
    }
}

#[test]
fn the_first_block_that_fits_serves_and_what_is_left_stays_free() {
    let k = &kernel();
    let all: Vec<_> = [40, 8, 20, 8, 40, 8].map(|bytes| k.cache_alloc(bytes, 4).unwrap()).into();
    [0, 2, 4].iter().for_each(|nth| k.cache_free(all[*nth], [40, 0, 20, 0, 40][*nth]));
    assert_eq!(k.cache_alloc(24, 4).unwrap(), all[0], "first, though the second is nearer in size");
    assert_eq!(k.free_blocks(k.split(all[0]).0)[0], (24, 16));
    assert_eq!(k.cache_alloc(20, 4).unwrap(), all[2]);
    assert_eq!(k.cache_alloc(40, 4).unwrap(), all[4]);
}

#[test]
fn alignment_leaves_the_units_in_front_free() {
    let k = &kernel();
    let first = k.cache_alloc(10, 2).unwrap();
    let aligned = k.cache_alloc(64, 64).unwrap();
    let page = k.split(first).0;
    assert_eq!((offset(first), offset(aligned)), (0, 64));
    assert_eq!(k.free_blocks(page), [(10, 54), (128, 3968)]);
    assert_eq!(offset(k.cache_alloc(54, 2).unwrap()), 10, "they serve what fits");
}

#[test]
fn kmalloc_has_the_size_in_front_and_aligns_powers_of_two() {
    let k = &kernel();
    let odd = k.kmalloc(24).unwrap();
    assert_eq!((offset(odd), k.ksize(odd)), (8, 24));
    let (page, at) = k.split(odd - 8);
    assert_eq!(k.get(page, at / 2), 24);
    let power = k.kmalloc(64).unwrap();
    assert_eq!(offset(power), 64, "the header lies in front of the aligned begin");
    assert_eq!(k.free_blocks(page), [(32, 24), (128, 3968)]);
    assert_eq!(offset(k.kmalloc(1024).unwrap()), 1024);
    assert_eq!(k.ksize(k.kmalloc(33).unwrap()), 34, "whole units");
}

#[test]
fn what_needs_about_a_page_has_pages_of_its_own() {
    let k = &kernel();
    let largest = k.kmalloc(PAGE - 9).unwrap();
    assert_eq!((offset(largest), k.nr_pages(), k.lists().len()), (8, 1, 0));
    let large = k.kmalloc(PAGE - 8).unwrap();
    assert_eq!((offset(large), k.nr_pages(), k.ksize(large)), (0, 2, PAGE));
    let larger = k.kmalloc(2 * PAGE + 1).unwrap();
    assert_eq!((k.nr_pages(), k.ksize(larger)), (6, 4 * PAGE));
    let object = k.cache_alloc(PAGE, 8).unwrap();
    assert_eq!(k.nr_pages(), 7);
    let block = k.cache_alloc(PAGE - 2, 2).unwrap();
    assert_eq!((offset(block), k.nr_pages()), (0, 8));
    [largest, large, larger].iter().for_each(|address| k.kfree(*address));
    k.cache_free(object, PAGE);
    k.cache_free(block, PAGE - 2);
    assert_eq!(k.nr_pages(), 0);
}

#[test]
fn each_size_has_its_list() {
    let k = &kernel();
    let page_of = |bytes| k.split(k.cache_alloc(bytes, 2).unwrap()).0;
    let pages = [254, 256, 1022, 1024, 2000].map(page_of);
    assert_eq!(k.nr_pages(), 3);
    let [small, medium, medium_too, large, large_too] = pages;
    assert!(medium == medium_too && large == large_too);
    assert!(small != medium && medium != large && small != large);
}

#[test]
fn the_next_search_begins_at_the_page_that_served() {
    let k = &kernel();
    // Sixteen in a page.
    let all: Vec<_> = (0..48).map(|_| k.cache_alloc(254, 2).unwrap()).collect();
    assert_eq!((k.nr_pages(), k.lists().len()), (3, 3), "32 bytes are left of each");
    let page = |nth: usize| k.split(all[16 * nth]).0;
    let free = |nth: usize, i: usize| k.cache_free(all[16 * nth + i], 254);
    for nth in 0..3 {
        (0..4).for_each(|i| free(nth, i));
    }
    // The last page was the last to be made, and is the first of the list.
    let served = |bytes| k.split(k.cache_alloc(bytes, 2).unwrap()).0;
    assert_eq!(served(254), page(2));
    assert_eq!([served(254), served(254)], [page(2), page(2)]);
    assert_eq!(served(254), page(2));
    assert_eq!(served(254), page(1), "the next one in the list, which becomes the first");
    free(2, 8);
    assert_eq!(served(254), page(1), "though the page before it has room again");
}

#[test]
fn a_page_that_was_full_joins_the_list_of_the_size_that_was_freed() {
    let k = &kernel();
    let small = k.cache_alloc(96, 2).unwrap();
    // It fills the page of the small one: lists mix sizes.
    let filler: Vec<_> = (0..20).map(|_| k.cache_alloc(200, 2).unwrap()).collect();
    let page = k.split(small).0;
    assert!(filler.iter().all(|address| k.split(*address).0 == page));
    assert_eq!(k.lists().len(), 0, "full");
    k.cache_free(small, 96);
    assert_eq!(k.lists().first_for(1), Some(page));
    assert_eq!(k.lists().first_for(300), None);
    let again = k.cache_alloc(96, 2).unwrap();
    assert_eq!((again, k.lists().len()), (small, 0));
    let k = &kernel();
    let large = k.cache_alloc(2048, 2).unwrap();
    let other = k.cache_alloc(2048, 2).unwrap();
    assert_eq!(k.lists().len(), 0);
    k.cache_free(large, 2048);
    assert_eq!(k.lists().first_for(1), None, "large objects are not for the small list");
    assert_eq!(k.lists().first_for(1024), Some(k.split(other).0));
}

#[test]
fn without_pages_nothing_is_handed_out_and_nothing_is_lost() {
    let k = Kernel::new(PAGE, 8, 2);
    let all: Vec<_> = core::iter::from_fn(|| k.kmalloc(100)).collect();
    assert_eq!(all.len(), 2 * (PAGE / 112) as usize);
    assert_eq!((k.kmalloc(5000), k.nr_pages()), (None, 2));
    all.into_iter().for_each(|address| k.kfree(address));
    assert_eq!((k.nr_pages(), k.free_bytes()), (0, 0));
}

#[test]
fn a_write_to_free_memory_is_found_and_leads_nowhere() {
    let values = [0, 1, -1, 3000, i32::MIN, i32::MAX, 5, 2048, -2048, 40];
    let mut found = 0;
    for unit in [20, 21] {
        for value in values {
            let k = &Kernel::new(16 * PAGE, 8, 10);
            let all: Vec<_> = (0..10).map(|_| k.cache_alloc(40, 4).unwrap()).collect();
            [2, 6].iter().for_each(|nth| k.cache_free(all[*nth], 40));
            let page = k.split(all[0]).0;
            let old = k.get(page, unit);
            k.set(page, unit, value);
            let request = Request { bytes: 200, header: 0, align: 4 };
            match alloc(k, &request) {
                Err(Overwritten { page: at, .. }) => {
                    found += 1;
                    assert_eq!((at, k.lists().len()), (page, 0), "off its list");
                    assert_ne!(alloc(k, &request).unwrap().unwrap().page, page);
                }
                Ok(place) => assert!(old == value || place.unwrap().unit < 16384),
            }
        }
    }
    assert!(found >= 15, "{found}");
}

/// A sequence of numbers that looks random (xorshift: Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// What is handed out: from its first byte, header included, its bytes and how it is freed.
type Live = BTreeMap<u64, (u64, How)>;

#[derive(Clone, Copy)]
enum How {
    Kmalloc,
    Cache(u32),
}

/// Free blocks and live ones tile each page, and no two free ones touch.
fn audit(k: &Kernel, live: &Live, page_bytes: u64) {
    let mut pages: BTreeMap<u64, Vec<(u64, u64, bool)>> = BTreeMap::new();
    for (&at, &(bytes, _)) in live.iter().filter(|(_, (bytes, _))| *bytes < page_bytes) {
        pages.entry(at / page_bytes).or_default().push((at % page_bytes, bytes, false));
    }
    let (mut free, mut partial) = (0, 0);
    for (page, blocks) in &mut pages {
        let of_page = k.free_blocks(*page as u32);
        partial += u32::from(!of_page.is_empty());
        blocks.extend(of_page.iter().map(|(at, bytes)| (u64::from(*at), u64::from(*bytes), true)));
        blocks.sort_unstable();
        let mut end = 0;
        let mut was_free = false;
        for &(at, bytes, is_free) in &*blocks {
            assert_eq!(at, end, "page {page}: {blocks:?}");
            assert!(!(is_free && was_free), "page {page}: {blocks:?}");
            (end, was_free) = (at + bytes, is_free);
            free += if is_free { bytes } else { 0 };
        }
        assert_eq!(end, page_bytes, "page {page}: {blocks:?}");
    }
    let large = |(bytes, _): &&(u64, How)| *bytes >= page_bytes;
    let of_large: u64 = live.values().filter(large).map(|(bytes, _)| bytes / page_bytes).sum();
    assert_eq!(u64::from(k.nr_pages()), pages.len() as u64 + of_large);
    assert_eq!((k.free_bytes(), k.lists().len()), (free, partial));
}

#[test]
fn random_calls_agree_with_an_oracle() {
    for seed in 1..=40u64 {
        let page_bytes = [4 << 10, 16 << 10, 64 << 10][seed as usize % 3];
        let least_align = [8, 4, 16][seed as usize / 3 % 3];
        let k = Kernel::new(page_bytes, least_align, 300);
        let unit = u64::from(kernel_unit(page_bytes));
        let (mut random, mut live) = (Random(seed * 0x9e37_79b9), Live::new());
        for step in 0..3000 {
            let grows = if step / 500 % 2 == 0 { 65 } else { 40 };
            if random.below(100) < grows {
                let most = [64, 300, 2000, u64::from(page_bytes) + 9000][random.below(4) as usize];
                let size = 1 + random.below(most) as u32;
                let header = u64::from(least_align);
                let (at, bytes, how) = if random.below(2) == 0 {
                    let Some(at) = k.kmalloc(size) else { continue };
                    let align = if size.is_power_of_two() { size.min(page_bytes) } else { 1 };
                    assert!(at.is_multiple_of(u64::from(align.max(least_align))));
                    let is_large = size >= page_bytes - least_align;
                    let whole = u64::from(k.ksize(at));
                    assert!(whole >= u64::from(size));
                    let header = if is_large { 0 } else { header };
                    (at - header, whole + header, How::Kmalloc)
                } else {
                    let align = 1 << random.below(7);
                    let Some(at) = k.cache_alloc(size, align) else { continue };
                    assert!(at.is_multiple_of(u64::from(align)));
                    let page = u64::from(page_bytes);
                    let pages = u64::from(size).div_ceil(page).next_power_of_two() * page;
                    let small = u64::from(size).next_multiple_of(unit);
                    let bytes = if size >= page_bytes { pages } else { small };
                    (at, bytes, How::Cache(size))
                };
                live.insert(at, (bytes, how));
            } else if let Some(nth) = live.len().checked_sub(1) {
                let nth = random.below(nth as u64 + 1) as usize;
                let (&at, &(bytes, how)) = live.iter().nth(nth).expect("one");
                live.remove(&at);
                match how {
                    How::Cache(size) => k.cache_free(at, size),
                    How::Kmalloc if bytes >= u64::from(page_bytes) => k.kfree(at),
                    How::Kmalloc => k.kfree(at + u64::from(least_align)),
                }
            }
            if step % 50 == 0 {
                audit(&k, &live, page_bytes.into());
            }
        }
        audit(&k, &live, page_bytes.into());
    }
}
