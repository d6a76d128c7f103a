//! Alien arrays: free objects whose slabs are on another memory node than the CPU that freed them.
//!
//! A CPU allocates objects of its own node. Its frees of another node's objects wait in an array of
//! [`MOST`] objects, one per pair of nodes. When the array is full, all its objects move to the
//! other node at once: to that node's shared array, as far as there is room, and else to its slabs.
//! So the other node's locks are taken once per dozen frees, not once per free. Without alien
//! arrays (the kernel's `noaliencache`) each such free returns its object to the slab at once.
//!
//! Neighbours: [`super::array`] frees objects of the CPU's own node; [`super::node`] defines the
//! array type and receives the objects. An alien array has its own lock, of rank `Barn`, which is
//! released before objects are moved to the other node. Waiting objects count as parked on the node
//! to which their memory belongs.

use super::node::Shared;
use super::{Arrays, Limits, array};
use crate::engine::slabs::Held;
use crate::engine::{Counter, Moving};
use crate::sync::Lock;

/// Objects in an alien array.
pub const MOST: u32 = 12;

/// Objects in an alien array of a cache whose CPUs' arrays have this limit.
#[must_use]
pub const fn capacity(limit: u32) -> u32 {
    if limit > 1 { MOST } else { limit }
}

/// Frees an object of the node `home`, which is not that of the CPU.
pub fn free<S: Arrays>(on: S, home: S, object: S::Object) {
    let _moving = Moving::new(on);
    on.count(Counter::NodeFrees, 1);
    let Some(alien) = on.alien(home) else { return free_home(home, object) };
    let most = capacity(Limits::of_cache(on.cache()).limit);
    // An array to put into the place of none: a new one may need a system call, so that it is
    // made without the lock.
    let mut spare: Option<S::Sheaf> = None;
    loop {
        let mut held = alien.lock(on.park());
        let Some(mut array) = held.take(home).or_else(|| spare.take()) else {
            drop(held);
            spare = on.new_sheaf(most);
            if spare.is_none() {
                return free_home(home, object);
            }
            continue;
        };
        if on.is_top(&array, object) {
            held.put_back(home, array);
            drop(held);
            on.report_double_free(object);
            break;
        }
        if array.len() < most.min(on.room(&array)) {
            on.push(&mut array, object);
            held.put_back(home, array);
            break;
        }
        drop(held);
        on.count(Counter::NodeOverflow, 1);
        hand_over(home, &mut array);
        if let Some(surplus) = spare.replace(array) {
            on.give_sheaf(surplus);
        }
    }
    if let Some(spare) = spare {
        on.give_sheaf(spare);
    }
}

/// Frees one object to its node's slabs.
fn free_home<S: Arrays>(home: S, object: S::Object) {
    home.free_below(object);
    super::lists::trim(home);
}

/// Gives all objects of an array to their node.
fn hand_over<S: Arrays>(home: S, array: &mut S::Sheaf) {
    let objects = array.len();
    home.node().put_shared(home, array, objects);
    array::return_all(home, array);
}

/// Hands over what a node has for another one; returns how many objects.
pub fn drain<S: Arrays>(on: S, home: S) -> u32 {
    let _moving = Moving::aside(on);
    let taken = on.alien(home).and_then(|alien| alien.lock(on.park()).take(home));
    let Some(mut array) = taken else { return 0 };
    let objects = array.len();
    hand_over(home, &mut array);
    on.give_sheaf(array);
    objects
}

/// Returns what a node has for another one to its slabs.
pub fn flush<S: Arrays>(on: S, home: S) {
    let taken = on.alien(home).and_then(|alien| alien.lock(on.park()).take(home));
    if let Some(mut array) = taken {
        array::return_all(home, &mut array);
        on.give_sheaf(array);
    }
}

/// Calls `f` with each object of an alien array.
pub fn each<S: Arrays>(on: S, alien: &Lock<Shared<S::Chain>>, f: impl FnMut(S::Object)) {
    alien.lock(on.park()).each(on, f);
}
