//! Tests that find the object of each event, and the frees that a trace missed.

use super::*;

#[test]
fn an_allocation_of_a_live_object_says_that_a_free_was_missed() {
    let mut case = Case::plain();
    case.alloc(1.0, 0, 1, 0);
    case.alloc(2.0, 1, 1, 0);
    let prepared = case.prepare();
    assert_eq!(
        runs(&prepared),
        [
            (1000, StepKind::Alloc, false),
            (2000, StepKind::Free, true),
            (2000, StepKind::Alloc, false)
        ]
    );
    assert_eq!(prepared.steps.held()[1].cpu, 1);
    assert_eq!(prepared.oddities.missed_before_alloc, 1);
}

#[test]
fn objects_live_when_their_slab_is_closed_say_that_frees_were_missed() {
    let mut case = Case::plain();
    case.pages(1.0, 0, EventKind::PageAlloc, 1, 0);
    case.alloc(2.0, 0, 1, 3);
    case.alloc(3.0, 0, 1, 1);
    case.alloc(4.0, 0, 1, 2);
    case.free(5.0, 0, 1, 1);
    case.pages(6.0, 1, EventKind::PageFree, 1, 0);
    let prepared = case.prepare();
    let missed: Vec<_> =
        prepared.steps.iter().filter(|s| s.missed).map(|s| (s.time_ns, s.object)).collect();
    assert_eq!(missed, [(6000, 2), (6000, 3)]);
    assert_eq!(prepared.oddities.missed_before_close, 2);
}

#[test]
fn an_object_first_allocated_was_free_and_one_first_freed_was_live() {
    let mut case = Case::plain();
    case.alloc(1.0, 0, 1, 0);
    case.free(2.0, 0, 1, 1);
    let prepared = case.prepare();
    // The two never seen are taken for live.
    assert_eq!(prepared.live_at_start, [false, true, true, true]);
    assert_eq!(prepared.nr_live_at_start(&prepared.initial_slabs()[0]), 3);
}

#[test]
fn objects_never_seen_were_free_if_the_slab_is_closed_later() {
    let mut case = Case::plain();
    case.alloc(1.0, 0, 1, 0);
    case.free(2.0, 0, 1, 1);
    case.free(3.0, 0, 1, 0);
    case.pages(4.0, 0, EventKind::PageFree, 1, 0);
    let prepared = case.prepare();
    assert_eq!(prepared.live_at_start, [false, true, false, false]);
    assert_eq!(prepared.oddities.missed_before_close, 0);
}

#[test]
fn a_free_by_kfree_rcu_is_known_by_its_address_and_counts_name_no_object() {
    let mut case = Case::plain();
    case.alloc(1.0, 0, 1, 2);
    case.add(2.0, 1, EventKind::FreeBulk, "filp", 0).requested = 16;
    case.add(3.0, 1, EventKind::KfreeRcu, "", at(1, 2 * 1024));
    let prepared = case.prepare();
    assert_eq!(runs(&prepared), [(1000, StepKind::Alloc, false), (3000, StepKind::Free, false)]);
    assert_eq!((prepared.steps.held()[1].via, prepared.steps.held()[1].cpu), (Via::Rcu, 1));
    assert_eq!((prepared.oddities.unknown_cache, prepared.oddities.astray), (0, 0));
}

#[test]
fn frees_of_free_objects_are_dropped_and_counted() {
    let mut case = Case::plain();
    case.free(1.0, 0, 1, 0);
    case.free(2.0, 0, 1, 0);
    case.pages(3.0, 0, EventKind::PageAlloc, 2, 0);
    case.alloc(4.0, 0, 2, 0);
    case.free(5.0, 0, 2, 1);
    let prepared = case.prepare();
    assert_eq!(prepared.steps.len(), 2);
    assert_eq!(prepared.oddities.freed_twice, 1);
    assert_eq!(prepared.oddities.freed_unallocated, 1);
}

#[test]
fn a_step_keeps_the_cpu_and_the_node() {
    let mut case = Case::plain();
    case.add(1.0, 3, EventKind::CacheAlloc, "filp", at(1, 0)).node = 2;
    let step = case.prepare().steps.held()[0];
    assert_eq!((step.cpu, step.node), (3, 2));
}
