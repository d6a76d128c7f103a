use super::*;
use crate::cache::slots::MOST_CACHES;
use std::vec::Vec;

#[test]
fn a_walk_finds_the_slots_in_use_and_no_others() {
    let used = Used::new();
    let fixed: Vec<u16> = (2..(18 + 2 * CLASSES) as u16).collect();
    let walk = |used: &Used| used.slots(0).map(|slot| slot.0).collect::<Vec<_>>();
    assert_eq!(walk(&used), fixed);
    let created = [CLASSES, CLASSES + 1, 1000, MOST_CACHES - 1];
    created.iter().for_each(|number| used.insert(*number));
    let slots = created.iter().flat_map(|number| [0, 1].map(|i| slot_of(*number).0 + i));
    assert_eq!(walk(&used), fixed.iter().copied().chain(slots).collect::<Vec<_>>());
    assert!(used.caches().eq((0..CLASSES).chain(created)));
    assert_eq!(used.slots(slot_of(1000).0 + 1).next(), Some(Slot(slot_of(1000).0 + 1)));
    created.iter().for_each(|number| used.remove(*number));
    assert_eq!(walk(&used), fixed);
}
