//! Tests that find the slab of each event.

use super::*;

#[test]
fn a_frame_first_seen_through_an_object_is_an_initial_slab_from_the_orders_boundary() {
    let mut case = Case::plain();
    case.caches[0] = CacheFacts { objects: 16, order: 2, ..cache("filp", 1024) };
    case.alloc(0.0, 0, 7, 0);
    case.alloc(1.0, 0, 4, 0);
    let prepared = case.prepare();
    assert_eq!(prepared.slabs.len(), 1);
    let slab = prepared.slabs[0];
    assert_eq!((slab.frame, slab.order, slab.objects, slab.initial), (4, 2, 16, true));
    assert_eq!(prepared.steps.held()[0].object, 12);
    assert_eq!(prepared.steps.held()[1].object, 0);
}

#[test]
fn pages_open_and_close_a_slab() {
    let mut case = Case::plain();
    case.pages(1.0, 0, EventKind::PageAlloc, 5, 0);
    case.alloc(2.0, 0, 5, 0);
    case.free(3.0, 0, 5, 0);
    case.pages(4.0, 0, EventKind::PageFree, 5, 0);
    case.pages(5.0, 0, EventKind::PageAlloc, 5, 0);
    case.alloc(6.0, 0, 5, 0);
    let prepared = case.prepare();
    let slabs: Vec<_> =
        prepared.slabs.iter().map(|s| (s.opened_at, s.closed_at, s.initial)).collect();
    assert_eq!(slabs, [(1000, Some(4000), false), (5000, None, false)]);
    assert_eq!((prepared.slabs[0].closed_by, prepared.slabs[1].closed_by), (Some(0), None));
    // The same address is another object.
    assert_ne!(prepared.steps.held()[0].object, prepared.steps.held()[2].object);
    assert!(prepared.initial_slabs().is_empty());
}

/// A refill makes slabs until the sheaf is full; the CPU allocates from the last of them first.
#[test]
fn pages_allocated_right_before_a_slab_are_slabs_of_a_cache_with_sheaves() {
    let slabs = |sheaf_capacity, between: Option<u16>, gfp| {
        let mut case = Case::plain();
        case.caches[0].sheaf_capacity = sheaf_capacity;
        for frame in [5, 6, 7] {
            case.pages(frame as f64, 0, EventKind::PageAlloc, frame, 0);
            case.events.last_mut().unwrap().gfp = if frame == 5 { gfp } else { 7 };
            if let Some(cpu) = between.filter(|_| frame == 6) {
                case.alloc(6.5, cpu, 9, 0);
            }
        }
        case.alloc(8.0, 0, 7, 0);
        case.pages(9.0, 0, EventKind::PageFree, 5, 0);
        let prepared = case.prepare();
        let made = &prepared.slabs[prepared.initial_slabs().len()..];
        made.iter().map(|slab| (slab.frame, slab.closed_at)).collect::<Vec<_>>()
    };
    let all = [(5, Some(9000)), (6, None), (7, None)];
    assert_eq!(slabs(28, None, 7), all);
    assert_eq!(slabs(0, None, 7), all[2..]);
    // Other flags, as pages of other users have; then an event of the CPU in between, and one of
    // another CPU, which is no hindrance.
    assert_eq!(slabs(28, None, 3), all[1..]);
    assert_eq!(slabs(28, Some(0), 7), all[2..]);
    assert_eq!(slabs(28, Some(1), 7), all);
}

#[test]
fn pages_that_show_no_object_are_no_slab() {
    let mut case = Case::plain();
    case.pages(1.0, 0, EventKind::PageAlloc, 5, 0);
    case.pages(2.0, 0, EventKind::PageFree, 5, 0);
    case.pages(3.0, 0, EventKind::PageFree, 6, 0);
    case.pages(4.0, 0, EventKind::PageAlloc, 7, 3);
    case.kmalloc("large", at(7, 0), 32768, 0);
    case.add(6.0, 0, EventKind::Kfree, "large", at(7, 0));
    let prepared = case.prepare();
    assert_eq!((prepared.slabs.len(), prepared.steps.len()), (0, 0));
    assert_eq!(prepared.oddities.pages_without_objects, 2);
    assert_eq!(prepared.oddities.unplaced, 1);
    assert_eq!(Truth::of(&prepared, 10).total.allocated, 0);
}

#[test]
fn a_free_by_address_waits_for_the_event_that_names_the_slab() {
    let mut case = Case::new(&[cache("kmalloc-1k", 1024)]);
    case.add(0.0, 0, EventKind::Kfree, "b", at(3, 0));
    case.kmalloc("a", at(3, 1024), 1024, 0);
    let prepared = case.prepare();
    assert_eq!(runs(&prepared), [(0, StepKind::Free, false), (1000, StepKind::Alloc, false)]);
    assert_eq!(prepared.live_at_start[..2], [true, false]);
    let slab = prepared.slabs[0];
    assert_eq!(prepared.untold, [slab.objects - 2], "of the others no event tells");
    assert_eq!(prepared.slabs[0].opened_at, 0);
    assert_eq!(prepared.oddities.unplaced, 0);
}

#[test]
fn a_free_by_address_does_not_wait_for_a_slab_of_other_pages() {
    let mut case = Case::new(&[cache("kmalloc-1k", 1024)]);
    case.add(0.0, 0, EventKind::Kfree, "b", at(3, 0));
    case.pages(0.5, 0, EventKind::PageFree, 3, 0);
    case.add(0.6, 0, EventKind::Kfree, "b", at(3, 0));
    case.pages(0.7, 0, EventKind::PageAlloc, 3, 0);
    case.kmalloc("a", at(3, 1024), 1024, 0);
    let prepared = case.prepare();
    assert_eq!(prepared.steps.len(), 1);
    assert_eq!(prepared.oddities.unplaced, 2);
}

#[test]
fn contradictions_are_counted_and_the_pages_believed() {
    let mut case = Case::new(&[cache("filp", 1024), cache("dentry", 2048)]);
    case.pages(1.0, 0, EventKind::PageAlloc, 5, 0);
    case.alloc(2.0, 0, 5, 0);
    case.add(3.0, 0, EventKind::CacheAlloc, "dentry", at(5, 2048));
    // Got again without having been given back.
    case.pages(4.0, 1, EventKind::PageAlloc, 5, 0);
    case.alloc(5.0, 0, 5, 0);
    // Given back with another order.
    case.pages(6.0, 0, EventKind::PageFree, 5, 1);
    // An object in pages given back.
    case.alloc(7.0, 0, 5, 0);
    // An object that the direct map does not have.
    case.add(8.0, 0, EventKind::CacheAlloc, "filp", 0x1000);
    let prepared = case.prepare();
    let oddities = prepared.oddities;
    assert_eq!(oddities.other_cache, 1);
    assert_eq!(oddities.reopened, 2);
    assert_eq!(oddities.other_order, 1);
    assert_eq!(oddities.astray, 1);
    let closed: Vec<_> = prepared.slabs.iter().map(|s| (s.cache, s.closed_at)).collect();
    assert_eq!(closed, [(0, Some(4000)), (0, Some(6000)), (0, None)]);
    assert_eq!(oddities.missed_before_close, 3);
    // Not the first of new pages, which nobody saw: it runs when it was traced.
    assert_eq!(runs(&prepared).last(), Some(&(7000, StepKind::Alloc, false)));
}

#[test]
fn pages_given_back_that_showed_nothing_held_no_initial_slab_afterwards() {
    let mut case = Case::plain();
    case.pages(1.0, 0, EventKind::PageFree, 4, 1);
    case.alloc(2.0, 0, 5, 0);
    let prepared = case.prepare();
    assert!(!prepared.slabs[0].initial);
    assert_eq!(prepared.oddities.reopened, 1);
}

#[test]
fn a_slab_of_a_lower_order_has_fewer_objects() {
    let mut case = Case::plain();
    case.caches[0] = CacheFacts { objects: 32, order: 3, ..cache("filp", 1024) };
    case.pages(1.0, 0, EventKind::PageAlloc, 8, 1);
    case.alloc(2.0, 0, 8, 0);
    let prepared = case.prepare();
    assert_eq!((prepared.slabs[0].objects, prepared.slabs[0].order), (8, 1));
    assert_eq!(prepared.oddities.other_order, 1);
}

#[test]
fn an_address_past_the_last_object_is_no_object() {
    let mut case = Case::new(&[cache("filp", 1300)]);
    case.add(0.0, 0, EventKind::CacheAlloc, "filp", at(1, 2600));
    case.add(1.0, 0, EventKind::CacheAlloc, "filp", at(1, 3900));
    let prepared = case.prepare();
    assert_eq!((prepared.steps.len(), prepared.oddities.astray), (1, 1));
}

#[test]
fn the_page_size_is_the_traced_machines() {
    let mut case = Case::plain();
    case.frames = Frames { page_offset: 0, page_shift: 16 };
    case.caches[0].objects = 64;
    case.add(0.0, 0, EventKind::CacheAlloc, "filp", 0x7e4_df00);
    let prepared = case.prepare();
    assert_eq!(prepared.slabs[0].frame, 0x7e4);
    assert_eq!(prepared.steps.held()[0].object, 0xdf00 / 1024);
}
