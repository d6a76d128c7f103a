//! The way home (`engine/slub/home.rs`): what is no object is told wherever it stands among
//! objects, and a piece opens no more words of bitmaps than it may.

use slabyard::cache::classes;
use slabyard::page::Cause;
use slabyard::platform::machine::{Config, Machine};
use slabyard::sync::AtomicUsize;
use slabyard::yard::{Settings, Yard};
use std::cell::RefCell;

/// Of 48 bytes a slab has some left over, and more than one word in its bitmap.
const BYTES: usize = 48;

thread_local! {
    static TOLD: RefCell<Vec<(usize, Cause)>> = const { RefCell::new(Vec::new()) };
}

fn yard() -> Yard<Machine> {
    let yard = Yard::new(Machine::new(Config::default()));
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 100 }));
    yard.on_bad(|bad| TOLD.with_borrow_mut(|told| told.push((bad.address, bad.cause))));
    yard
}

fn alloc(yard: &Yard<Machine>, bytes: usize, count: usize) -> Vec<usize> {
    (0..count).map(|_| yard.alloc_fast(bytes, 16).expect("memory")).collect()
}

/// Brings objects home by pieces of so many words; returns what was told, and slab
/// operations.
fn bring(yard: &Yard<Machine>, objects: &[usize], most: u32) -> (Vec<(usize, Cause)>, u64) {
    let cache = yard.cache(classes::class_for(BYTES).expect("a class"));
    let mut left: Vec<_> = objects.iter().map(|object| AtomicUsize::new(*object)).collect();
    let before = yard.platform().tally().slab_operations;
    while !left.is_empty() {
        let begin = yard.platform().tally().slab_operations;
        let gone = cache.put_home(&yard.ground, &left, most);
        assert!(gone > 0, "a piece brings something home");
        assert!(yard.platform().tally().slab_operations - begin <= most.into());
        left.truncate(left.len() - gone as usize);
    }
    let mut told = TOLD.take();
    told.sort_by_key(|bad| bad.0);
    (told, yard.platform().tally().slab_operations - before)
}

#[test]
fn what_is_no_object_is_told_wherever_it_stands() {
    for most in [1, 3, u32::MAX] {
        // In each place once; all slabs hold objects that stay, so that none of them ends.
        for place in 0..=40 {
            let yard = yard();
            let geometry = yard.cache(classes::class_for(BYTES).expect("a class")).shape().geometry;
            let live = alloc(&yard, BYTES, 3000);
            let other = alloc(&yard, 4 * BYTES, 1)[0];
            // Runs of one word, and objects far from each other.
            let mut objects: Vec<_> = live[100..120].to_vec();
            objects.extend(live.iter().skip(200).step_by(130).take(20));
            let begin = objects[7] & !(geometry.slab_bytes() - 1);
            let behind = begin + geometry.objects as usize * BYTES;
            assert!(geometry.padding() >= 16, "nothing is left over behind the last object");
            let mut wrong = vec![
                (objects[3] + 16, Cause::Interior),
                (behind, Cause::Interior),
                (other, Cause::WrongSize),
                (yard.ground.region.base().wrapping_add(1 << 44) + 48, Cause::WrongSize),
                (yard.ground.region.base(), Cause::WrongSize),
                (0, Cause::WrongSize),
                (objects[39 - place.min(39)], Cause::DoubleFree),
            ];
            for (address, _) in &wrong {
                objects.insert(place, *address);
            }
            wrong.sort_by_key(|bad| bad.0);
            assert_eq!(bring(&yard, &objects, most).0, wrong, "at {place}, {most} at a time");
        }
    }
}

/// Objects above 512 bytes go past the sheaves once these are full, one slab operation
/// each, and the sheaf stays as it is.
#[test]
fn large_objects_go_straight_home() {
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
    // What is left of the last sheaf taken out of slabs lies below.
    let home: u64 = parked.iter().map(free).sum();
    assert!(home <= 2 * u64::from(capacity));
    for object in &others[..100] {
        assert_eq!(free(object), 1);
    }
    // What lies on top is not free to be freed again: it is told, and neither lost nor
    // handed out twice.
    let top = alloc(&yard, LARGE, 1)[0];
    free(&top);
    free(&top);
    assert_eq!(TOLD.take().iter().map(|bad| bad.0).collect::<Vec<_>>(), [top]);
    let mut again = alloc(&yard, LARGE, 300);
    again.extend_from_slice(&others[100..]);
    again.sort_unstable();
    assert!(again.windows(2).all(|pair| pair[0] != pair[1]), "handed out twice");
}

#[test]
fn neighbours_go_home_together() {
    let yard = yard();
    let live = alloc(&yard, BYTES, 6400);
    let (told, operations) = bring(&yard, &live, 4);
    assert_eq!(told, []);
    // A bitmap's last word may have few.
    assert!(operations <= 2 * 6400 / 64, "{operations} for 6400 objects");
    // In turns from two ends: a word that was left is found again, if no other took its
    // place meanwhile.
    let live = alloc(&yard, BYTES, 6400);
    let turns: Vec<_> = (0..3200).flat_map(|i| [live[i], live[6399 - i]]).collect();
    let (told, turned) = bring(&yard, &turns, u32::MAX);
    assert_eq!(told, []);
    assert!(turned <= 3 * operations, "{turned} in turns, {operations} in order");
}
