//! How a cache's order is chosen: the formulas of `mm/slub.c`.
//!
//! Sources: `mm/slub.c` of 5.9 and of 6.7; 9b2cd506e5f2 (the objects wanted follow the CPUs).
//! Neighbours: the lab computes the geometry of every release by [`Orders`]; the engines take the
//! orders of SLUB_TINY from it. Invariant: an order that is found holds at
//! least one object, and no more than [`MAX_OBJECTS`] where a lower one would hold any.

use crate::release::OrderFormula;

/// A slab's objects are counted in 15 bits.
pub const MAX_OBJECTS: u64 = 32767;

/// Objects that a slab should hold on a machine with this many CPUs, `multiplier` for each doubling
/// of them; 4 in the kernel (9b2cd506e5f2).
#[must_use]
pub const fn wanted_objects(cpus: u32, multiplier: u32) -> u32 {
    multiplier * (u32::BITS - cpus.leading_zeros() + 1)
}

/// What decides the order of a cache beside its objects' size.
#[derive(Clone, Copy, Debug)]
pub struct Orders {
    /// What a slab of order 0 has.
    pub page_bytes: u32,
    /// The lowest order that is tried.
    pub min: u8,
    /// The highest order that is tried first.
    pub max: u8,
    /// The highest order that the page allocator has.
    pub limit: u8,
    /// Objects that a slab should hold, before `max` limits them.
    pub wanted: u32,
}

impl Orders {
    /// The order of slabs of objects of this many bytes, one at least; `None` above the limit.
    #[must_use]
    pub fn of(&self, size: u32, formula: OrderFormula) -> Option<u8> {
        let sizes = Sizes { size: size.into(), page_bytes: self.page_bytes.into() };
        let order = match formula {
            OrderFormula::FewerObjects => self.with_fewer_objects(&sizes),
            OrderFormula::HalfWasted => Some(self.with_half_wasted(&sizes)),
        };
        order.filter(|order| *order <= self.limit)
    }

    /// To 6.6: first the objects wanted, then one fewer, and so on; last one object in a slab of any
    /// order.
    fn with_fewer_objects(&self, sizes: &Sizes) -> Option<u8> {
        let from = |objects: u64| self.min.max(sizes.order_for(objects * sizes.size));
        let with_at_most = |objects: u64, high: u8, fraction: u64| {
            if sizes.objects(self.min) > MAX_OBJECTS {
                return Some(sizes.order_of_most_objects()).filter(|order| *order <= high);
            }
            sizes.thrifty(from(objects), high, fraction)
        };
        let most = u64::from(self.wanted).min(sizes.objects(self.max));
        (2..=most)
            .rev()
            .find_map(|objects| [16, 8, 4].iter().find_map(|f| with_at_most(objects, self.max, *f)))
            .or_else(|| with_at_most(1, self.max, 1))
            .or_else(|| with_at_most(1, self.limit, 1))
    }

    /// From 6.7: the objects wanted and no fewer, up to half a slab wasted; else the lowest order that
    /// holds one.
    fn with_half_wasted(&self, sizes: &Sizes) -> u8 {
        let objects = u64::from(self.wanted).min(sizes.objects(self.max).max(1));
        let low = self.min.max(sizes.order_for(objects * sizes.size));
        if sizes.objects(low) > MAX_OBJECTS {
            return sizes.order_of_most_objects();
        }
        let thrifty = [16, 8, 4, 2].iter().find_map(|f| sizes.thrifty(low, self.max, *f));
        thrifty.unwrap_or_else(|| sizes.order_for(sizes.size))
    }
}

/// The lowest order whose slabs hold so many bytes.
#[must_use]
pub const fn order_for(bytes: u64, page_bytes: u32) -> u8 {
    bytes.div_ceil(page_bytes as u64).next_power_of_two().ilog2() as u8
}

/// An object's size and a page's.
struct Sizes {
    size: u64,
    page_bytes: u64,
}

impl Sizes {
    fn objects(&self, order: u8) -> u64 {
        (self.page_bytes << order) / self.size
    }

    fn order_for(&self, bytes: u64) -> u8 {
        order_for(bytes, self.page_bytes as u32)
    }

    /// The lowest order, not below `low`, that wastes at most one `fraction`-th.
    fn thrifty(&self, low: u8, high: u8, fraction: u64) -> Option<u8> {
        (low..=high).find(|order| {
            let bytes = self.page_bytes << order;
            bytes % self.size <= bytes / fraction
        })
    }

    /// The highest order whose objects can be counted.
    fn order_of_most_objects(&self) -> u8 {
        self.order_for(self.size * MAX_OBJECTS).saturating_sub(1)
    }
}
