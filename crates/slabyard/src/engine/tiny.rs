//! SLUB_TINY: only slabs and their node's partial list.
//!
//! Nothing is cached for speed: there is no per-CPU state, slabs have at most two pages, and a slab
//! that becomes empty is discarded at once. The entries of its caches stay zero, so every call
//! takes the slow path. An allocation takes one object from the slab at the list's head, or from a
//! new slab, which becomes the head. The first free to a full slab lists it at the tail.
//!
//! Source: the kernel's build option SLUB_TINY (6.2), its help text and commit messages.
//!
//! # Locks
//!
//! Each call takes the list lock once. (An allocation that finds the list emptied by another
//! thread takes it once more, for its new slab.)
//!
//! # Equation (asserted by `verify`)
//!
//! For each slab: free + live = objects, because no object is parked.

use super::page_slabs::Ruled;
use super::partial::{self};
use super::slabs::{Group, Links, Rules, Slabs};
use super::{
    Counter, EngineFacts, EngineKind, Inspect, Moving, PageSlabs, Repair, Shape, SlowPaths,
};
use crate::engine::partial_list::End;
use crate::platform::Platform;
use crate::sync::Ordering;
use slabyard_abi::engines::EngineName;
use slabyard_kernels::OrderFormula;
use slabyard_kernels::orders::Orders;

/// Pages of a slab that holds smaller objects, as an order.
const MOST_ORDER: u8 = 1;
/// Objects that a slab should hold, where that many fit.
const WANTED_OBJECTS: u32 = 12;

/// SLUB_TINY: a cache has nothing beside its header.
pub struct Tiny;

/// The kernel's rules.
#[derive(Clone, Copy)]
struct Kernels;

impl Ruled for Kernels {
    const RULES: Rules = Rules::KERNEL;
}

/// Allocates one object.
pub fn alloc_one<S: Slabs>(on: S) -> Option<S::Object> {
    on.count(Counter::AllocSlowpath, 1);
    let one = alloc_listed(on).or_else(|| alloc_new(on))?;
    on.cache().shown.out.fetch_add(1, Ordering::Relaxed);
    Some(one)
}

/// From the slab at the list's head.
fn alloc_listed<S: Slabs>(on: S) -> Option<S::Object> {
    let (cache, shape) = (on.cache(), on.cache().shape());
    // Relaxed: a look ahead, so that a list without slabs costs no lock.
    if cache.shown.nr_partial.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut list = partial::lock(&on);
    let slab = list.first()?;
    let mut one = None;
    let (_, left) = on.take(shape, slab, 1, false, |taken| one = Some(S::first(taken)));
    if left == 0 {
        list.unlink(on, slab);
        list.publish(cache);
    }
    one
}

/// From a new slab, which joins the list.
fn alloc_new<S: Slabs>(on: S) -> Option<S::Object> {
    let (cache, shape) = (on.cache(), on.cache().shape());
    let slab = partial::begin(on, shape)?;
    let mut list = partial::lock(&on);
    let mut one = None;
    let (_, left) = on.take(shape, slab, 1, false, |taken| one = Some(S::first(taken)));
    if left > 0 {
        list.add(on, slab, End::Head);
        list.publish(cache);
    }
    one
}

/// Frees one object to its slab.
pub fn free_one<S: Slabs>(on: S, shape: &Shape, group: &Group) {
    on.count(Counter::FreeSlowpath, 1);
    let (cache, slab) = (on.cache(), group.slab);
    let mut list = partial::lock(&on);
    let put = on.put(shape, group);
    let listed = on.links(slab).is_listed();
    let free = put.before + put.added;
    let ends = put.added > 0 && partial::ends(on, (shape, slab), list.len(), free, listed);
    if ends {
        if listed {
            list.unlink(on, slab);
            on.count(Counter::FreeRemovePartial, 1);
        }
        on.end(shape, slab);
    } else if put.added > 0 && !listed {
        list.add(on, slab, End::Tail);
        on.count(Counter::FreeAddPartial, 1);
    }
    list.publish(cache);
    drop(list);
    if ends {
        partial::ended(on, shape, slab);
    }
    on.report_twice(shape, slab, group.word, put.twice);
    cache.shown.out.fetch_sub(put.added.into(), Ordering::Relaxed);
}

/// The order of slabs of objects of this many bytes, of two pages at most where one object fits these
/// (the kernel's rule from 6.7 on).
fn order_of(size: u32, page_order: u32) -> u32 {
    let page_bytes = (crate::platform::GRANULE as u32) << page_order;
    let orders = Orders { page_bytes, min: 0, max: MOST_ORDER, limit: 31, wanted: WANTED_OBJECTS };
    page_order + u32::from(orders.of(size, OrderFormula::HalfWasted).expect("no limit"))
}

impl EngineKind for Tiny {
    const NEW: Self = Tiny;

    fn order(&self, size: u32, _: u32, page_order: u32) -> u32 {
        order_of(size, page_order)
    }

    #[inline]
    fn facts(&self) -> EngineFacts {
        EngineFacts::of(EngineName::Tiny)
    }
}

impl SlowPaths for Tiny {
    fn begin<P: Platform>(&self, on: PageSlabs<'_, P>) {
        on.cache.set_min_partial(0);
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        let _moving = Moving::new(on);
        alloc_one(on.by(Kernels))
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        let _moving = Moving::new(on);
        if let Some(group) = on.group_of(address) {
            free_one(on.by(Kernels), on.cache.shape(), &group);
        }
    }
}

impl Inspect for Tiny {}
impl Repair for Tiny {}
