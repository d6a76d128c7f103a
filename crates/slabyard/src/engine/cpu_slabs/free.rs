//! The slow path of a free: the object does not belong to the CPU's slab.

use super::{CpuSlabs, lists};
use crate::engine::partial::{self, RelistReason, relist};
use crate::engine::partial_list::End;
use crate::engine::slabs::Group;
use crate::engine::{Counter, Shape};

/// Frees objects of one word to a slab that is not this CPU's. Returns how many slabs that drained.
pub fn free_to_slab<S: CpuSlabs>(on: S, shape: &Shape, group: &Group) -> u32 {
    on.count(Counter::FreeSlowpath, 1);
    on.count(Counter::CmpxchgSlab, 1);
    let rules = on.cpu_rules();
    let freezes = rules.cpu_partial_lists && rules.freezing.freezes_parked();
    let near = on.near(group.slab);
    let freed = near.free_into(shape, group, freezes);
    if freed.added == 0 {
        return 0;
    }
    let (slab, was_full) = (group.slab, freed.before == 0);
    let is_empty = freed.before + freed.added == near.objects_in(shape, slab);
    on.count(Counter::EmptyParked, (freed.parked && is_empty).into());
    on.count(Counter::FreeFrozen, freed.frozen.into());
    if freed.unparked {
        leave_list(near, shape, slab);
    } else if freed.frozen {
        // Its CPU will find them.
    } else if was_full && rules.cpu_partial_lists {
        on.count(Counter::CpuPartialFree, 1);
        return lists::put(on, slab);
    } else if was_full || is_empty {
        // A kernel takes the lock before it exchanges.
        on.count(Counter::CmpxchgUnderLock, 1);
        let why = if was_full { RelistReason::Freed } else { RelistReason::Emptied };
        relist(near, slab, freed.version, why);
    }
    0
}

/// An empty slab that left its CPU's list at once ([`super::Accounting::Exact`]).
fn leave_list<S: CpuSlabs>(on: S, shape: &Shape, slab: u32) {
    let mut list = partial::lock(&on);
    if partial::ends(on, (shape, slab), list.len(), on.objects_in(shape, slab), false) {
        on.end(shape, slab);
        drop(list);
        return partial::ended(on, shape, slab);
    }
    list.add(on, slab, End::Tail);
    on.publish(&list);
    on.count(Counter::FreeAddPartial, 1);
}
