//! SLAB's numbers: the sizes of its arrays, its timers, and the clock by which Linux 2.4 chose the
//! cache to reap.

use slabyard::engine::array_cache::clock::{Chain, Look, Reaped, pass_on, reap};
use slabyard::engine::array_cache::reap::{
    NODE_PERIOD_MS, PERIOD_MS, first_ms, node_first_ms, to_free,
};
use slabyard::engine::array_cache::{Choice, Limits, Reclaim};
use slabyard::sync::{AtomicU32, Ordering};
use std::cell::RefCell;

#[test]
fn larger_objects_have_smaller_arrays() {
    for (size, limit, batchcount, sharedfactor) in [
        (16, 120, 60, 8),
        (256, 120, 60, 8),
        (257, 54, 27, 8),
        (1024, 54, 27, 8),
        (1025, 24, 12, 8),
        (4096, 24, 12, 8),
        (4097, 8, 4, 0),
        (131_072, 8, 4, 0),
        (131_073, 1, 1, 0),
    ] {
        let expected = Limits { limit, batchcount, sharedfactor };
        assert_eq!(Limits::of(size, 4096, 2), expected, "{size}");
        let alone = Limits { sharedfactor: 0, ..expected };
        assert_eq!(Limits::of(size, 4096, 1), alone, "{size}, one CPU");
        assert!(expected.are_sound());
    }
    assert_eq!(Limits::of(16 << 10, 16 << 10, 2).limit, 24, "a page of 16 KiB");
    assert_eq!(Limits::of(200 << 10, 64 << 10, 2).limit, 1);
    assert_eq!(Limits::of(64, 4096, 2).shared_capacity(), 480);
}

#[test]
fn a_kernel_refuses_what_would_not_work() {
    let limits = Limits { limit: 8, batchcount: 8, sharedfactor: 0 };
    assert!(limits.are_sound());
    assert!(!Limits { batchcount: 9, ..limits }.are_sound());
    assert!(!Limits { batchcount: 0, ..limits }.are_sound());
    assert!(!Limits { limit: 0, batchcount: 0, ..limits }.are_sound());
}

#[test]
fn arrays_are_those_of_the_kernel() {
    let of = |reclaim, size| {
        let Limits { limit, batchcount, sharedfactor } =
            Choice { reclaim, has_arrays: true }.limits(size, 4096, 2);
        (limit, batchcount, sharedfactor)
    };
    for reclaim in [Reclaim::V2_4, Reclaim::V2_5_39] {
        assert_eq!(of(reclaim, 256), (252, 126, 0));
        assert_eq!(of(reclaim, 1024), (124, 62, 0));
        assert_eq!(of(reclaim, 4096), (60, 30, 0));
        assert_eq!(of(reclaim, 4097).0, 0, "none above a page");
    }
    assert_eq!(of(Reclaim::V2_5_45, 256), (120, 60, 0));
    assert_eq!(of(Reclaim::Today, 256), (120, 60, 8));
    let alone = Choice { reclaim: Reclaim::V2_5_45, has_arrays: false };
    assert_eq!(alone.limits(256, 4096, 1), Limits { limit: 0, batchcount: 60, sharedfactor: 0 });
}

#[test]
fn timers_are_apart() {
    assert_eq!([0, 1, 15].map(first_ms), [1000, 1003, 1045]);
    assert_eq!([PERIOD_MS, NODE_PERIOD_MS], [2000, 4000]);
    assert_eq!([0, 64, 4000, 4064].map(node_first_ms), [4000, 4064, 4000, 4064]);
}

#[test]
fn a_fifth_of_an_array_goes_at_a_time() {
    for (limit, objects, expected) in [
        (120, 120, 24),
        (120, 24, 24),
        (120, 23, 12),
        (480, 480, 96),
        (54, 54, 11),
        (8, 1, 1),
        (1, 1, 1),
        (120, 0, 0),
    ] {
        assert_eq!(to_free(limit, objects), expected, "{objects} of {limit}");
    }
}

#[derive(Default)]
struct Ring {
    looks: Vec<Look>,
    /// Those to pass over, once.
    grown: RefCell<Vec<usize>>,
    drained: RefCell<Vec<usize>>,
    ended: RefCell<Vec<(usize, u32)>>,
}

impl Chain for Ring {
    fn next_cache(&self, from: usize) -> Option<usize> {
        (from < self.looks.len()).then_some(from)
    }
    fn may_reap(&self, cache: usize) -> bool {
        let mut grown = self.grown.borrow_mut();
        let before = grown.len();
        grown.retain(|grown| *grown != cache);
        grown.len() == before
    }
    fn drain_own(&self, cache: usize) {
        self.drained.borrow_mut().push(cache);
    }
    fn look(&self, cache: usize) -> Look {
        self.looks[cache]
    }
    fn end_free(&self, cache: usize, most: u32) -> u32 {
        self.ended.borrow_mut().push((cache, most));
        most
    }
}

fn ring(free: impl IntoIterator<Item = u32>) -> Ring {
    let look = |free_slabs| Look { free_slabs, ..Look::default() };
    Ring { looks: free.into_iter().map(look).collect(), ..Ring::default() }
}

#[test]
fn constructors_and_orders_count_four_fifths() {
    for (free_slabs, order, has_constructor, score) in [
        (0, 0, false, 0),
        (1, 0, false, 1),
        (1, 0, true, 1),
        (10, 0, true, 8),
        (10, 1, false, 16),
        // 20 pages, 16 of a constructor, 13 of several pages.
        (10, 1, true, 13),
        (3, 2, true, 7),
    ] {
        let look = Look { free_slabs, order, has_constructor };
        assert_eq!(look.score(), score, "{look:?}");
    }
}

#[test]
fn the_half_of_the_best_ends() {
    let hand = AtomicU32::new(0);
    for (free, ended) in [(1, 1), (2, 1), (3, 2), (9, 5)] {
        let ring = ring([0, free, 0]);
        let reaped = reap(&hand, &ring);
        assert_eq!(reaped, Reaped { scanned: 3, slabs: ended, pages: ended });
        assert_eq!(ring.ended.into_inner(), [(1, ended)]);
    }
    assert_eq!(reap(&hand, &ring([])), Reaped::default());
    assert_eq!(reap(&hand, &ring([0, 0])), Reaped { scanned: 2, ..Reaped::default() });
}

#[test]
fn ten_caches_are_looked_at_and_the_next_time_the_next_ten() {
    let hand = AtomicU32::new(0);
    let ring = ring((0..25).map(|nth| u32::from(nth == 13)));
    assert_eq!(reap(&hand, &ring), Reaped { scanned: 10, ..Reaped::default() });
    assert_eq!(reap(&hand, &ring), Reaped { scanned: 10, slabs: 1, pages: 1 });
    assert_eq!(reap(&hand, &ring), Reaped { scanned: 10, ..Reaped::default() });
    let drained = ring.drained.into_inner();
    assert!(drained.into_iter().eq((0..25).chain(0..5)));
}

#[test]
fn who_reaps_beside_others_has_ten_caches_of_its_own() {
    let (hand, ring) = (AtomicU32::new(0), ring((0..25).map(|_| 0)));
    let stood = std::array::from_fn(|_| pass_on(&hand, &ring));
    assert_eq!(stood, [0, 10, 20, 5]);
}

#[test]
fn a_perfect_one_ends_the_search() {
    let hand = AtomicU32::new(0);
    let ring = ring([9, 10, 50]);
    assert_eq!(reap(&hand, &ring), Reaped { scanned: 2, slabs: 5, pages: 5 });
    assert_eq!(hand.load(Ordering::Relaxed), 2);
    assert_eq!(reap(&hand, &ring), Reaped { scanned: 1, slabs: 25, pages: 25 });
}

#[test]
fn what_grew_is_passed_over_once() {
    let hand = AtomicU32::new(0);
    let ring = Ring { grown: RefCell::new(vec![1]), ..ring([1, 9]) };
    reap(&hand, &ring);
    assert_eq!(*ring.ended.borrow(), [(0, 1)]);
    assert_eq!(*ring.drained.borrow(), [0], "nor is its array drained");
    reap(&hand, &ring);
    assert_eq!(ring.ended.into_inner(), [(0, 1), (1, 5)]);
}
