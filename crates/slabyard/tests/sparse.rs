//! Where the system makes huge pages everywhere, it is told of places of which a part went
//! back, and told again once all of such a place is free.

mod small_pages;

use slabyard::pages::huge::HUGE;
use slabyard::platform::GRANULE;
use slabyard::platform::linux::Linux;
use slabyard::yard::Yard;
use std::ops::Range;

const MIB: usize = 1 << 20;
const OBJECT: usize = 1000;

static YARD: Yard<Linux> = Yard::new(Linux::new());

/// Objects that lie behind the region's begin, which has small pages for good, all written.
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

/// Of the whole places of huge pages among these addresses: how many are to have small pages.
fn small_places(among: &Range<usize>) -> usize {
    let place = HUGE * GRANULE;
    let small = small_pages::ranges();
    let places = (among.start.next_multiple_of(place)..among.end / place * place).step_by(place);
    places.filter(|at| small.iter().any(|range| range.contains(at))).count()
}

#[test]
fn what_went_back_in_parts_stays_away() {
    if !small_pages::is_ready(&YARD) {
        return;
    }
    YARD.platform().assume_huge_pages();
    let mut objects = objects(96 * MIB);
    let among = objects[0]..objects[objects.len() - 1];
    let all = among.len() / (HUGE * GRANULE) - 1;
    // Some at the begin, where the region was not dense as it grew.
    let before = small_places(&among);
    assert!(before < 24);

    // A page in a hundred goes back, which is not worth the huge page.
    free_all_but(&mut objects, |nth| nth % 1000 > 20);
    assert_eq!(small_places(&among), before);

    // A third of each place stays.
    free_all_but(&mut objects, |nth| nth % 1000 < 300);
    let small = small_places(&among);
    assert!(small + 1 >= all, "{small} of {all} places");

    free_all_but(&mut objects, |_| false);
    assert_eq!(small_places(&among), before, "all others are free");
}
