//! The flush (`engine/flush.rs`): it reports an address that is no object wherever it
//! stands among objects, and a piece makes no more slab operations than it may.

use slabyard::cache::classes;
use slabyard::engine::flush::return_to_slabs;
use slabyard::pages::Cause;
use slabyard::slab;
use slabyard::slab::{Object, freeset};
use slabyard::sync::AtomicUsize;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};
use std::cell::RefCell;
use std::collections::HashSet;

/// A slab of objects of 48 bytes has padding, and more than one word in its bitmap.
const BYTES: usize = 48;

thread_local! {
    static REPORTS: RefCell<Vec<(usize, Cause)>> = const { RefCell::new(Vec::new()) };
}

fn yard() -> Yard<Machine> {
    let yard = <Yard<_>>::new(Machine::new(Config::default()));
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 100 }));
    yard.on_misuse(|misuse| {
        REPORTS.with_borrow_mut(|reports| reports.push((misuse.address, misuse.cause)));
    });
    yard
}

fn alloc(yard: &Yard<Machine>, bytes: usize, count: usize) -> Vec<usize> {
    (0..count).map(|_| yard.alloc_fast(bytes, 16).expect("memory")).collect()
}

/// Returns objects to their slabs by pieces of so many operations; returns the reports of
/// misuse, and the number of slab operations.
fn flush(yard: &Yard<Machine>, objects: &[usize], most: u32) -> (Vec<(usize, Cause)>, u64) {
    let cache = yard.cache(classes::class_for(BYTES).expect("a class"));
    let mut left: Vec<_> = objects.iter().map(|object| AtomicUsize::new(*object)).collect();
    let before = yard.platform().tally().slab_operations;
    while !left.is_empty() {
        let begin = yard.platform().tally().slab_operations;
        let flushed = return_to_slabs(cache.on(&yard.heap), &left, most);
        assert!(flushed > 0, "a piece flushes something");
        assert!(yard.platform().tally().slab_operations - begin <= most.into());
        left.truncate(left.len() - flushed as usize);
    }
    let mut reports = REPORTS.take();
    reports.sort_by_key(|misuse| misuse.0);
    (reports, yard.platform().tally().slab_operations - before)
}

#[test]
fn an_address_of_no_object_is_reported_wherever_it_stands() {
    for most in [1, 3, u32::MAX] {
        // At each position once; all slabs hold objects that stay, so that none of them ends.
        for at in 0..=40 {
            let yard = yard();
            let geometry = yard.cache(classes::class_for(BYTES).expect("a class")).shape().geometry;
            let live = alloc(&yard, BYTES, 3000);
            let other = alloc(&yard, 4 * BYTES, 1)[0];
            // Runs of one word, and objects far from each other.
            let mut objects: Vec<_> = live[100..120].to_vec();
            objects.extend(live.iter().skip(200).step_by(130).take(20));
            let begin = objects[7] & !(geometry.slab_bytes() - 1);
            let behind = begin + geometry.objects as usize * BYTES;
            assert!(geometry.padding() >= 16, "no padding behind the last object");
            let mut wrong = vec![
                (objects[3] + 16, Cause::Interior),
                (behind, Cause::Interior),
                (other, Cause::WrongSize),
                (yard.heap.region.base().wrapping_add(1 << 44) + 48, Cause::WrongSize),
                (yard.heap.region.base(), Cause::WrongSize),
                (0, Cause::WrongSize),
                (objects[39 - at.min(39)], Cause::DoubleFree),
            ];
            for (address, _) in &wrong {
                objects.insert(at, *address);
            }
            wrong.sort_by_key(|misuse| misuse.0);
            assert_eq!(flush(&yard, &objects, most).0, wrong, "at {at}, {most} at a time");
        }
    }
}

/// Runs of neighbours, up and down, within words, over their edges and over slabs' ends:
/// these objects are free, and no others.
#[test]
fn runs_of_neighbours_free_what_they_hold() {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 32) as usize % limit
    };
    for most in [1, 5, u32::MAX] {
        let yard = yard();
        let cache = yard.cache(classes::class_for(BYTES).expect("a class"));
        let shape = cache.shape();
        let mut live = alloc(&yard, BYTES, 4000);
        live.sort_unstable();
        let (mut begin, mut freed) = (10, Vec::new());
        while begin < live.len() - 200 {
            let mut run = live[begin..begin + 1 + below(150)].to_vec();
            begin += run.len() + below(3);
            if below(2) == 0 {
                run.reverse();
            }
            freed.extend(run);
        }
        assert_eq!(flush(&yard, &freed, most).0, []);
        let freed: HashSet<_> = freed.into_iter().collect();
        for object in live {
            let found = slab::resolve(&yard.heap.region, &shape.geometry, shape.slot, object);
            let Object { slab, index } = found.expect("a slab that holds live objects");
            assert_eq!(
                freeset::is_free(&yard.heap, slab, index),
                freed.contains(&object),
                "{object:x}"
            );
        }
    }
}

/// A flush frees neither what lies behind a slab's last object, although a run leads to it,
/// nor an object that is there twice.
#[test]
fn a_run_ends_where_its_slab_does() {
    let yard = yard();
    let geometry = yard.cache(classes::class_for(BYTES).expect("a class")).shape().geometry;
    let mut live = alloc(&yard, BYTES, 4000);
    live.sort_unstable();
    let first = live.iter().position(|object| object.is_multiple_of(geometry.slab_bytes()));
    let slab = &live[first.expect("a slab")..][..geometry.objects as usize];
    let behind = slab[0] + geometry.objects as usize * BYTES;
    assert!(slab.contains(&(behind - BYTES)));
    // The flush takes the top first: the run goes up, and on to what lies behind.
    let mut up: Vec<_> = slab[slab.len() - 10..].iter().rev().copied().collect();
    up.insert(0, behind);
    assert_eq!(flush(&yard, &up, u32::MAX).0, [(behind, Cause::Interior)]);
    // Down, then up over the same.
    let mut twice: Vec<_> = slab[100..110].iter().rev().copied().collect();
    twice.extend_from_slice(&slab[100..110]);
    let reports: Vec<_> =
        slab[100..110].iter().map(|object| (*object, Cause::DoubleFree)).collect();
    assert_eq!(flush(&yard, &twice, u32::MAX).0, reports);
}

/// A barn below its own limit has no room where the yard's barns reach theirs together: then
/// the free does not look at the spare either.
#[test]
fn objects_bypass_the_sheaves_where_the_yards_barns_are_full() {
    const LARGE: usize = 1024;
    let yard = yard();
    let cache = yard.cache(classes::class_for(LARGE).expect("a class"));
    let capacity = cache.sheaf_capacity() as usize;
    assert!(cache.barn_limits().0 > 0, "room of its own");
    yard.heap.barn_bytes.set_limit(0);
    let live = alloc(&yard, LARGE, 2 * capacity + 50);
    let (parked, others) = live.split_at(2 * capacity);
    for object in parked {
        yard.free_fast(*object).expect("a live object");
    }
    for object in others {
        let before = yard.platform().tally().slab_operations;
        yard.free_fast(*object).expect("a live object");
        assert_eq!(yard.platform().tally().slab_operations - before, 1);
    }
}

/// Objects above 512 bytes bypass the sheaves once these are full, by one slab operation
/// each, and the sheaf stays as it is.
#[test]
fn large_objects_bypass_full_sheaves() {
    const LARGE: usize = 2048;
    let yard = yard();
    let capacity = yard.cache(classes::class_for(LARGE).expect("a class")).sheaf_capacity();
    let live = alloc(&yard, LARGE, 400);
    let (parked, others) = live.split_at(2 * capacity as usize);
    let free = |object: &usize| {
        let before = yard.platform().tally().slab_operations;
        yard.free_fast(*object).expect("a live object");
        yard.platform().tally().slab_operations - before
    };
    // The main sheaf still holds what the last refill left.
    let operations: u64 = parked.iter().map(free).sum();
    assert!(operations <= 2 * u64::from(capacity));
    for object in &others[..100] {
        assert_eq!(free(object), 1);
    }
    // A second free of the top object is reported, and the object is neither lost nor
    // allocated twice.
    let top = alloc(&yard, LARGE, 1)[0];
    free(&top);
    free(&top);
    assert_eq!(REPORTS.take().iter().map(|misuse| misuse.0).collect::<Vec<_>>(), [top]);
    let mut again = alloc(&yard, LARGE, 300);
    again.extend_from_slice(&others[100..]);
    again.sort_unstable();
    assert!(again.windows(2).all(|pair| pair[0] != pair[1]), "allocated twice");
}

#[test]
fn neighbours_are_flushed_together() {
    let yard = yard();
    let live = alloc(&yard, BYTES, 6400);
    let (reports, operations) = flush(&yard, &live, 4);
    assert_eq!(reports, []);
    // A bitmap's last word may have few.
    assert!(operations <= 2 * 6400 / 64, "{operations} for 6400 objects");
    // In turns from two ends: the flush finds a word's group again, if no other word took its
    // bucket meanwhile. With several pairs of ends, because that depends on the hash.
    const TIMES: usize = 16;
    let turned: u64 = (0..TIMES)
        .map(|nth| {
            let mut live = alloc(&yard, BYTES, 6400);
            live.rotate_left(nth * 6400 / TIMES);
            let turns: Vec<_> = (0..3200).flat_map(|i| [live[i], live[6399 - i]]).collect();
            let (reports, turned) = flush(&yard, &turns, u32::MAX);
            assert_eq!(reports, []);
            turned
        })
        .sum();
    let turned = turned / TIMES as u64;
    assert!(turned <= 3 * operations, "{turned} in turns, {operations} in order");
}
