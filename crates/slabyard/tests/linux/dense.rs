//! If the system makes huge pages everywhere, a small heap has them only if the program writes to
//! its memory. The flags of the mappings show the advice that the system has.

use crate::{in_own_process, small_pages};
use slabyard::pages::Region;
use slabyard::pages::huge::HUGE;
use slabyard::platform::GRANULE;
use slabyard::platform::linux::Linux;
use slabyard::yard::Yard;

const MIB: usize = 1 << 20;
/// Bytes of an object: whole pages.
const OBJECT: usize = 32 << 10;

static YARD: Yard<Linux> = Yard::new(Linux::new());

/// For each extent of a huge page in the region: true if it is to have small pages.
fn small_pages(region: &Region) -> Vec<bool> {
    let small = small_pages::ranges();
    let is_small = |address| small.iter().any(|range| range.contains(&address));
    // The middle of each: nothing is mapped at the region's first page.
    let middle = |nth: usize| region.base() + (2 * nth + 1) * HUGE * GRANULE / 2;
    (0..(region.top() + region.ahead()) / HUGE).map(|nth| is_small(middle(nth))).collect()
}

/// Takes objects until the region has so many bytes, and writes so many bytes of each.
fn grow(bytes: usize, written: usize) {
    while YARD.heap.region.top() * GRANULE < bytes {
        let object = YARD.alloc(OBJECT, 16).expect("memory");
        // SAFETY: the object is live, and nobody else's.
        unsafe { std::ptr::write_bytes(object as *mut u8, 1, written) };
    }
}

#[test]
fn what_follows_written_pages_may_be_huge() {
    in_own_process("dense::what_follows_written_pages_may_be_huge", look_at_written_pages);
}

fn look_at_written_pages() {
    if !small_pages::is_ready(&YARD) {
        return;
    }
    let region = &YARD.heap.region;

    // A fifth of the pages is not written.
    grow(24 * MIB, OBJECT * 4 / 5);
    let before = small_pages(region);
    assert!(before.iter().all(|small| *small), "{before:?}");

    grow(48 * MIB, OBJECT);
    let after = small_pages(region);
    assert!(after.starts_with(&before), "decided twice: {after:?}");
    // The region sees the written pages once they fill the stretch that it looks at, which
    // has small pages.
    let huge = after.iter().filter(|small| !**small).count();
    assert!(huge >= 3, "{after:?}");
    assert_eq!((region.top() + region.ahead()) % HUGE, 0, "the last may be a huge page as well");

    // Granules before a large run get small pages: any run may use them.
    YARD.heap.alloc_run(HUGE * GRANULE, 16).expect("memory");
    let last = small_pages(region);
    let first = region.small_pages() / HUGE;
    assert!(last.starts_with(&after) && last.len() > first);
    let left = &last[after.len()..first];
    assert!(left.iter().all(|small| *small) && last[first..].iter().all(|small| !*small));
}
