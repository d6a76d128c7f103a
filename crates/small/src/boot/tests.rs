//! Tests of a load's guarantees.

extern crate std;

use super::Boot;
use crate::{CACHES, CacheKind, Checkpoint, ObjectType, Request, SLOTS};
use std::vec;
use std::vec::Vec;

/// What a slot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Has {
    Nothing,
    Object(ObjectType),
    Pages(u8),
}

/// Serves a load; says what is live at each moment, as objects and pages.
fn serve(seed: u64) -> Vec<(Checkpoint, Vec<Has>)> {
    let mut slots = vec![Has::Nothing; SLOTS];
    let mut moments = Vec::new();
    for request in Boot::new(seed) {
        match request {
            Request::Alloc { slot, what } => {
                assert_eq!(slots[slot as usize], Has::Nothing, "{request:?}");
                slots[slot as usize] = Has::Object(what);
            }
            Request::Pages { slot, order } => {
                assert_eq!(slots[slot as usize], Has::Nothing, "{request:?}");
                slots[slot as usize] = Has::Pages(order);
            }
            Request::Free { slot } => {
                assert!(matches!(slots[slot as usize], Has::Object(_)), "{request:?}");
                slots[slot as usize] = Has::Nothing;
            }
            Request::FreePages { slot } => {
                assert!(matches!(slots[slot as usize], Has::Pages(_)), "{request:?}");
                slots[slot as usize] = Has::Nothing;
            }
            Request::Reach(moment) => moments.push((moment, slots.clone())),
        }
    }
    moments
}

fn bytes(slots: &[Has], of: impl Fn(ObjectType) -> bool) -> u32 {
    let of_slot = |has: &Has| match has {
        Has::Object(what) if of(*what) => what.bytes(),
        _ => 0,
    };
    slots.iter().map(of_slot).sum()
}

#[test]
fn slots_are_kept_and_every_moment_comes_once() {
    for seed in 0..50 {
        let moments: Vec<Checkpoint> = serve(seed).iter().map(|(moment, _)| *moment).collect();
        assert_eq!(moments, Checkpoint::ALL, "seed {seed}");
    }
}

#[test]
fn seeds_change_the_order_and_not_the_sum() {
    let first: Vec<Request> = Boot::new(1).collect();
    assert!(Boot::new(1).eq(first.iter().copied()));
    assert!(!Boot::new(2).eq(first.iter().copied()));
    let booted = |seed| bytes(&serve(seed)[0].1, |_| true);
    assert!((0..10).all(|seed| booted(seed) == booted(0)), "the same objects are there at boot");
}

#[test]
fn drop_caches_lets_go_of_what_is_reclaimable() {
    let of_files = |what| match what {
        ObjectType::Cache(number) => CACHES[number as usize].kind == CacheKind::Reclaimable,
        ObjectType::Kmalloc(_) => false,
    };
    let moments = serve(7);
    let [booted, _, released, dropped] = &moments[..] else { panic!("four moments") };
    let [a, b, c] = [booted, released, dropped].map(|(_, slots)| bytes(slots, of_files));
    assert!(a < c && (c - a) * 4 < b - a, "{a} at boot, {b} released, {c} dropped");
    let rest = |slots: &[Has]| bytes(slots, |what| !of_files(what));
    assert_eq!(rest(&released.1), rest(&dropped.1));
}

#[test]
fn a_load_has_room() {
    let live = |slots: &[Has]| slots.iter().filter(|has| **has != Has::Nothing).count();
    for seed in 0..20 {
        let most = serve(seed).iter().map(|(_, slots)| live(slots)).max();
        assert!(most < Some(SLOTS * 9 / 10), "{most:?}");
    }
}
