//! Tests of the kernel's slab counts over time, and of the caches left out.

use super::*;

#[test]
fn only_caches_that_wait_for_readers_return_their_slabs_late() {
    let mut case = Case::plain();
    case.caches.push(CacheFacts { rcu: true, ..cache("anon_vma", 64) });
    let delays: Vec<_> = case.prepare().caches.iter().map(|c| c.return_delay_ns).collect();
    assert_eq!(delays, [0, grace::UNKNOWN_NS]);
}

/// An initial slab that goes, two that come and one of them goes; a slab of
/// another cache that comes and stays.
fn case(other: &str) -> Case {
    let mut case = Case::new(&[cache("filp", 1024), cache(other, 1024)]);
    case.free(0.0, 0, 1, 0);
    case.pages(10.0, 0, EventKind::PageFree, 1, 0);
    case.pages(20.0, 0, EventKind::PageAlloc, 2, 0);
    case.alloc(21.0, 0, 2, 0);
    case.pages(30.0, 0, EventKind::PageAlloc, 3, 0);
    case.alloc(31.0, 0, 3, 0);
    case.pages(35.0, 0, EventKind::PageAlloc, 9, 0);
    case.add(36.0, 0, EventKind::CacheAlloc, other, at(9, 0));
    case.free(39.0, 0, 3, 0);
    case.pages(40.0, 0, EventKind::PageFree, 3, 0);
    case.free(50.0, 0, 2, 0);
    case
}

#[test]
fn slabs_are_counted_from_the_start_by_pages_got_and_given_back() {
    let case = case("dentry");
    let truth = Truth::of(&case.prepare(), 5);
    let filp = &truth.caches[0];
    assert_eq!((filp.allocated, filp.freed), (2, 2));
    assert_eq!((filp.peak, filp.lowest, filp.end, filp.range()), (1, -1, 0, 2));
    assert_eq!(filp.points, [-1, 0, 1, 0, 0]);
    assert_eq!(truth.caches[1].points, [0, 0, 0, 1, 1]);
    assert_eq!((truth.total.allocated, truth.total.freed, truth.total.peak), (3, 2, 2));
    assert_eq!(truth.total.points, [-1, 0, 1, 1, 1]);
}

/// The same, and objects of the other cache are allocated while they are live.
fn losing(frees: u32) -> Case {
    let mut case = case("kmalloc-1k");
    for nth in 0..frees {
        case.add(51.0 + f64::from(nth), 0, EventKind::CacheAlloc, "kmalloc-1k", at(9, 0));
    }
    case
}

#[test]
fn the_total_leaves_out_the_caches_whose_frees_the_trace_loses() {
    let prepared = losing(16).prepare();
    let truth = Truth::of(&prepared, 5);
    assert_eq!(
        prepared.caches.iter().map(|of| of.left_out.is_some()).collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!((truth.total.allocated, truth.total.peak, truth.total.end), (2, 1, 0));
    assert_eq!(truth.caches[1].allocated, 1);
    // Of three slabs made, one.
    assert_eq!(left_out::share_of_made(&prepared), 1.0 / 3.0);
}

/// As where objects are allocated in bulk.
#[test]
fn caches_whose_allocations_the_trace_loses_are_left_out() {
    let freed = |times: u32| {
        let mut case = case("kmalloc-1k");
        case.add(50.5, 0, EventKind::CacheAlloc, "kmalloc-1k", at(9, 0));
        for nth in 0..times {
            case.add(51.0 + f64::from(nth), 0, EventKind::CacheFree, "kmalloc-1k", at(9, 0));
        }
        case.prepare().caches.iter().map(|of| of.left_out).collect::<Vec<_>>()
    };
    assert_eq!(freed(17), [None, Some(left_out::ALLOCATIONS)], "one was allocated");
    assert_eq!(freed(16), [None, None]);
}

#[test]
fn a_few_frees_that_are_missing_leave_no_cache_out() {
    let prepared = losing(15).prepare();
    assert!(prepared.caches.iter().all(|of| of.left_out.is_none()));
    assert_eq!(left_out::share_of_made(&prepared), 0.0);
}

#[test]
fn the_grid_ends_with_the_trace() {
    assert_eq!(grid(&(10..=20), 5).collect::<Vec<_>>(), [12, 14, 16, 18, 20]);
    assert_eq!(grid(&(3..=u64::MAX), 1).last(), Some(u64::MAX));
}
