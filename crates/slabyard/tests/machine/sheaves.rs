//! The pool returns the pages of unused sheaves, and keeps those of sheaves that come and go.
//! Objects leave sheaves in an order that keeps neighbours together.

use slabyard::pages::Sheaf;
use slabyard::pages::sheaf::NO_SHEAF;
use slabyard::platform::{Threads, Time};
use slabyard::sync::Ordering;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};

/// A large sheaf's objects.
const OBJECTS: u32 = 1000;
/// Reclaim passes of a window: a sheaf that is free in all of them is unused.
const WINDOW: usize = 4;

fn yard() -> Yard<Machine> {
    let yard = <Yard<_>>::new(Machine::new(Config::default()));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    yard
}

fn take(yard: &Yard<Machine>, number: usize) -> Vec<Sheaf> {
    let take = || yard.heap.sheaves.take(yard.platform(), OBJECTS).expect("memory");
    (0..number).map(|_| take()).collect()
}

fn give(yard: &Yard<Machine>, sheaves: Vec<Sheaf>) {
    sheaves.into_iter().for_each(|sheaf| yard.heap.sheaves.give(yard.platform(), sheaf));
}

/// Sheaves whose pages were given back after so many reclaim passes, between which so many
/// sheaves are used.
fn given_back(yard: &Yard<Machine>, passes: usize, used: usize) -> usize {
    let (p, pool) = (yard.platform(), &yard.heap.sheaves);
    let rest = || std::iter::from_fn(|| pool.rest_one(p)).count();
    let pass = |_| {
        give(yard, take(yard, used));
        pool.look(p);
        rest()
    };
    (0..passes).map(pass).sum()
}

#[test]
fn sheaves_that_come_and_go_keep_their_pages() {
    let yard = yard();
    give(&yard, take(&yard, 10));
    assert_eq!(given_back(&yard, 2 * WINDOW, 3), 7);
    assert_eq!(given_back(&yard, 10 * WINDOW, 3), 0);
    assert_eq!(given_back(&yard, 2 * WINDOW, 1), 2);
    assert_eq!(given_back(&yard, 2 * WINDOW, 0), 1);
    assert_eq!(given_back(&yard, 2 * WINDOW, 0), 0);
}

#[test]
fn a_sheaf_that_is_taken_is_no_longer_unused() {
    let yard = yard();
    give(&yard, take(&yard, 10));
    for _ in 0..2 * WINDOW {
        yard.heap.sheaves.look(yard.platform());
    }
    let taken = take(&yard, 8);
    let rest = || yard.heap.sheaves.rest_one(yard.platform());
    assert!(rest().is_some() && rest().is_some());
    assert_eq!(rest(), None);
    give(&yard, taken);
    assert_eq!(rest(), None, "they were in use a moment ago");
}

/// In the sheaves of the CPU and of the barn alike.
#[test]
fn what_was_freed_last_comes_back_first() {
    let yard = yard();
    let bytes = 32;
    let sheaf = yard.cache(1).sheaf_capacity() as usize;
    let take = || yard.alloc_fast(bytes, 16).expect("memory");
    // They fill the CPU's two sheaves and two of the barn's, one of them in part.
    let objects: Vec<_> = (0..3 * sheaf).map(|_| take()).collect();
    for object in &objects {
        yard.free_fast(*object).expect("a live object");
    }
    let again: Vec<_> = objects.iter().map(|_| take()).collect();
    assert!(again.iter().eq(objects.iter().rev()));
}

/// `push_each` pushes the objects of a mask's bits, the highest first; runs of bits take a
/// branch of their own.
#[test]
fn the_bits_of_a_mask_are_its_objects() {
    const BEGIN: usize = 0x10_0000;
    let yard = yard();
    let sheaves = &yard.heap.sheaves;
    let runs = (0..64).flat_map(|low| (1..=64 - low).map(move |n| u64::MAX >> (64 - n) << low));
    let others = (1..1000u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    for mask in runs.chain(others).chain([0]) {
        let mut sheaf = take(&yard, 1).pop().expect("one");
        sheaves.push(&mut sheaf, 16);
        sheaves.filling(&mut sheaf).push_each(BEGIN, 48, mask);
        let objects = std::iter::from_fn(|| sheaves.pop(&mut sheaf)).collect::<Vec<_>>();
        let bits = (0..64).filter(|bit| mask >> bit & 1 != 0);
        let expected: Vec<_> = bits.map(|bit| BEGIN + bit * 48).chain([16]).collect();
        assert_eq!(objects, expected, "{mask:b}");
        give(&yard, vec![sheaf]);
    }
}

fn burst(yard: &Yard<Machine>) {
    let objects: Vec<_> = (0..400_000).map(|_| yard.alloc(64, 16).expect("memory")).collect();
    for object in objects {
        yard.free(object).expect("a live object");
    }
}

/// A millisecond with so many pairs in it.
fn pass_ms(yard: &Yard<Machine>, pairs: usize) {
    for _ in 0..pairs {
        let object = yard.alloc_fast(448, 16).expect("memory");
        yard.free_fast(object).expect("a live object");
    }
    yard.platform().advance(1);
}

#[test]
fn a_slow_program_gives_their_pages_back_within_a_second() {
    let yard = yard();
    burst(&yard);
    (0..1000).for_each(|_| pass_ms(&yard, 1));
    assert_eq!(yard.heap.sheaves.rest(yard.platform()), 0);
}

#[test]
fn no_unused_sheaf_keeps_its_pages_when_the_ticker_ends() {
    let yard = yard();
    burst(&yard);
    let taken_ms = yard.platform().now_ms();
    while yard.is_ticking() || yard.platform().now_ms() == taken_ms {
        pass_ms(&yard, 500);
        assert!(yard.platform().now_ms() < taken_ms + 20_000, "the ticker does not end");
    }
    assert_eq!(yard.heap.sheaves.rest(yard.platform()), 0);
}

/// A sheaf that is put onto a list twice, as a stack that was exchanged twice would be, makes the
/// list a circle: a check of it ends, and counts too many.
#[test]
fn a_list_that_is_a_circle_ends() {
    let yard = yard();
    let pool = &yard.heap.sheaves;
    let mut sheaf = take(&yard, 1).remove(0);
    pool.push(&mut sheaf, 64);
    let stack = pool.publish(sheaf, OBJECTS);
    let mut list = NO_SHEAF;
    for _ in 0..2 {
        pool.link(&mut list, pool.adopt(stack).expect("a sheaf"));
    }
    let (sheaves, objects) = pool.count_listed(list);
    assert!(sheaves > 2 && u64::from(sheaves) == objects, "{sheaves} sheaves of {objects}");
    let mut seen = 0;
    pool.each_listed(list, &mut |_| seen += 1);
    assert_eq!(seen, objects);
}

/// A use that swings around any number of live objects, by fewer than two sheaves share, takes slow
/// paths as it comes there, and few afterwards: 100 swings around the boundary of two sheaves took 200.
#[test]
fn a_swing_around_any_boundary_takes_few_slow_paths() {
    const SWING: usize = 32;
    // What a slow path about objects adds to its thread's word.
    const A_PATH: u32 = 128;
    let yard = yard();
    let slow_paths = || yard.platform().thread().depth.load(Ordering::Relaxed);
    let alloc = || yard.alloc_fast(64, 16).expect("memory");
    let free = |object| assert_eq!(yard.free_fast(object), Ok(()));
    let warm: Vec<_> = (0..4000).map(|_| alloc()).collect();
    warm.into_iter().for_each(free);
    let mut held = Vec::new();
    let mut most = 0;
    for _ in 0..2000 / SWING {
        held.extend((0..SWING).map(|_| alloc()));
        let before = slow_paths();
        for _ in 0..100 {
            let objects: Vec<_> = (0..SWING).map(|_| alloc()).collect();
            objects.into_iter().rev().for_each(free);
        }
        most = most.max((slow_paths() - before) / A_PATH);
    }
    assert!(most <= 20, "{most} slow paths of 100 swings");
}
