//! Size classes: the class of each request, with an alignment and without, and the slots of caches.

use slabyard::cache::classes::{LARGEST, OFFSETS, ROWS, class_for, class_for_aligned};
use slabyard::cache::slots::{MOST_CACHES, number_of, slot_of};
use slabyard::pages::percpu::has_runs;
use slabyard::platform::Slot;
use slabyard::platform::stack::SLOTS;
use slabyard::slab::Geometry;
use slabyard_abi::region::row;

/// Requests of so many bytes have one entry in the table.
const STEP: usize = 16;

#[test]
fn every_request_finds_its_smallest_class() {
    let offsets = OFFSETS;
    for bytes in 0..=LARGEST {
        let class = class_for(bytes).unwrap();
        assert!(ROWS[class].0 as usize >= bytes);
        assert!(class == 0 || (ROWS[class - 1].0 as usize) < bytes);
        assert_eq!(offsets[bytes.div_ceil(STEP)] as usize, slot_of(class).offset());
    }
    assert_eq!(class_for(LARGEST + 1), None);
}

#[test]
fn an_aligned_request_finds_its_smallest_class() {
    for align in (0..=16).map(|shift| 1usize << shift) {
        for bytes in 0..=LARGEST + 1 {
            let wanted = (align <= 16384).then(|| {
                ROWS.iter().position(|(size, _)| {
                    let size = *size as usize;
                    size >= bytes && (align <= STEP || size.is_multiple_of(align))
                })
            });
            assert_eq!(class_for_aligned(bytes, align), wanted.flatten(), "{bytes} at {align}");
        }
    }
}

#[test]
fn slabs_of_aligned_classes_are_aligned() {
    for shift in 4..=15 {
        let align = 1usize << shift;
        for bytes in (1..LARGEST).step_by(97) {
            let Some(class) = class_for_aligned(bytes, align) else {
                assert!(bytes.next_multiple_of(align) > 16384, "{bytes} at {align}");
                continue;
            };
            let (size, order) = ROWS[class];
            assert!(size as usize >= bytes && (size as usize).is_multiple_of(align));
            assert!(Geometry::new(size, order).slab_bytes().is_multiple_of(align));
        }
    }
}

#[test]
fn slots_of_caches_and_lists_are_distinct() {
    assert_eq!([number_of(Slot(0)), number_of(Slot(1))], [None; 2]);
    let mut found = Vec::new();
    for slot in 2..SLOTS as u16 {
        let number = number_of(Slot(slot));
        assert_eq!(number.is_none(), has_runs(Slot(slot)), "slot {slot}");
        found.extend(number.filter(|number| slot_of(*number) == Slot(slot)));
    }
    assert!(found.into_iter().eq(0..MOST_CACHES));
}

#[test]
fn both_entries_of_a_cache_are_in_one_cache_line() {
    for number in 0..MOST_CACHES {
        let main = slot_of(number).offset();
        assert_eq!(main / 64, Slot(slot_of(number).0 + row::SPARE as u16).offset() / 64);
    }
}
