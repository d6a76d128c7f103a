//! If the system makes huge pages everywhere, the page heap advises it against huge pages for an
//! extent that gave a part of its pages back, and withdraws the advice once all of the extent is
//! free.

use crate::{in_own_process, small_pages};
use slabyard::pages::huge::HUGE;
use slabyard::platform::GRANULE;
use slabyard::platform::linux::Linux;
use slabyard::yard::Yard;
use std::ops::Range;

const MIB: usize = 1 << 20;
const OBJECT: usize = 1000;

static YARD: Yard<Linux> = Yard::new(Linux::new());

/// Objects behind the part of the region that has small pages for good, all written.
fn objects(bytes: usize) -> Vec<usize> {
    let first = (16 * MIB) / GRANULE;
    let mut objects = Vec::new();
    while objects.len() * OBJECT < bytes {
        let object = YARD.alloc(OBJECT, 16).expect("memory");
        // SAFETY: the object is live, and nobody else's.
        unsafe { std::ptr::write_bytes(object as *mut u8, 1, OBJECT) };
        if YARD.heap.region.granule_of(object).expect("an object") as usize >= first {
            objects.push(object);
        }
    }
    objects.sort_unstable();
    objects
}

fn free_all_but(objects: &mut Vec<usize>, is_kept: impl Fn(usize) -> bool) {
    let mut nth = 0;
    objects.retain(|object| {
        nth += 1;
        let kept = is_kept(nth - 1);
        if !kept {
            YARD.free(*object).expect("a live object");
        }
        kept
    });
    assert!(YARD.trim());
}

/// Of the whole extents of huge pages among these addresses: how many are to have small pages.
fn small_extents(among: &Range<usize>) -> usize {
    let extent = HUGE * GRANULE;
    let small = small_pages::ranges();
    let first = among.start.next_multiple_of(extent);
    let extents = (first..among.end / extent * extent).step_by(extent);
    extents.filter(|at| small.iter().any(|range| range.contains(at))).count()
}

/// Each leaves a part of one behind it.
fn large_runs_begin_with_a_huge_page() {
    for _ in 0..8 {
        let run = YARD.heap.alloc_run(3 * MIB, 16).expect("address space");
        assert_eq!(run % (HUGE * GRANULE), 0);
    }
}

#[test]
fn a_sparse_extent_has_small_pages_until_it_is_free() {
    in_own_process(
        "sparse::a_sparse_extent_has_small_pages_until_it_is_free",
        look_at_a_sparse_extent,
    );
}

fn look_at_a_sparse_extent() {
    if !small_pages::is_ready(&YARD) {
        return;
    }
    let mut objects = objects(96 * MIB);
    let among = objects[0]..objects[objects.len() - 1];
    let all = among.len() / (HUGE * GRANULE) - 1;
    // Some at the begin, where the region was not dense as it grew.
    let before = small_extents(&among);
    assert!(before < 24);

    // One page in a hundred is given back, which is not worth a huge page.
    free_all_but(&mut objects, |nth| nth % 1000 > 20);
    assert_eq!(small_extents(&among), before);

    // A third of each extent stays.
    free_all_but(&mut objects, |nth| nth % 1000 < 300);
    let small = small_extents(&among);
    assert!(small + 1 >= all, "{small} of {all} extents");

    free_all_but(&mut objects, |_| false);
    assert_eq!(small_extents(&among), before, "all others are free");
    large_runs_begin_with_a_huge_page();
}
