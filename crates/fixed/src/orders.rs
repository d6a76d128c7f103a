//! The order of a cache's slabs, as kernels choose it: SLUB up to 6.6, SLUB_TINY of the same
//! releases, and SLAB on small machines.
//!
//! `slabyard-lab` implements these rules for every release and machine; its tests compare both
//! implementations.

use crate::pages::MOST_ORDER;

/// The lowest order that holds this many bytes.
fn order_for(bytes: u32, page: u32) -> u32 {
    bytes.div_ceil(page).next_power_of_two().ilog2()
}

/// Objects that a slab of SLUB should hold on a machine with this many CPUs.
#[must_use]
pub const fn wanted_objects(cpus: u32) -> u32 {
    4 * (u32::BITS - cpus.leading_zeros() + 1)
}

/// SLUB's: the objects wanted, then one fewer, and so on, each time wasting a sixteenth at most,
/// then an eighth, a quarter; at last the lowest that holds one. `None` above order 10.
#[must_use]
pub fn slub(size: u32, page: u32, max_order: u32, cpus: u32) -> Option<u32> {
    let thrifty = |objects: u32, most: u32, part: u32| {
        let low = order_for(objects * size, page);
        (low..=most).find(|order| (page << order) % size <= (page << order) / part)
    };
    let most = wanted_objects(cpus).min((page << max_order) / size);
    (2..=most)
        .rev()
        .find_map(|objects| [16, 8, 4].iter().find_map(|part| thrifty(objects, max_order, *part)))
        .or_else(|| thrifty(1, max_order, 1))
        .or_else(|| Some(order_for(size, page)).filter(|order| *order <= MOST_ORDER))
}

/// SLAB's: the lowest that holds one object and is `max_order` or above, or wastes an eighth at
/// most. `None` above order 10.
#[must_use]
pub fn slab(size: u32, page: u32, max_order: u32) -> Option<u32> {
    (order_for(size, page)..=MOST_ORDER)
        .find(|order| *order >= max_order || (page << order) % size * 8 <= page << order)
}
