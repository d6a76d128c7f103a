//! How a cache's order is chosen: the formulas of `mm/slub.c`, and the highest order that they try,
//! which is the kernel's or follows from bytes ([`OrderRule`]).
//!
//! Sources: `mm/slub.c` of 5.9 and of 6.7; 9b2cd506e5f2 (the objects wanted follow the CPUs).
//! Neighbours: the lab computes the geometry of every release by [`Orders`]; the engines take the
//! orders of SLUB_TINY and of [`OrderRule::Auto`] from it. Invariant: an order that is found holds at
//! least one object, and no more than [`MAX_OBJECTS`] where a lower one would hold any.

use crate::release::OrderFormula;

/// A slab's objects are counted in 15 bits.
pub const MAX_OBJECTS: u64 = 32767;

/// The bytes to which [`OrderRule::Auto`] lets slabs grow: order 3 of pages of 4 KiB.
///
/// To make and to end a slab costs some 800 ns (two calls of the page allocator, a slow path and a list
/// lock, by the costs of `slabyard replay --contention`); to write 32 KiB once costs 3 µs here. In
/// larger slabs, what stays empty costs more than the calls saved (`docs/decisions.md`).
pub const AUTO_SLAB_BYTES: u32 = 32 << 10;

/// Where the highest order that is tried first comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrderRule {
    /// From what decides it otherwise: a kernel's number of pages, malloc's own table of classes.
    #[default]
    Default,
    /// From bytes: slabs of [`AUTO_SLAB_BYTES`], or of a page if that is larger.
    Auto,
}

words! { OrderRule:
    "default" => Default,
    "auto" => Auto,
}

impl OrderRule {
    /// The highest order that is tried first, on pages of this many bytes, where it would be `order`
    /// otherwise.
    #[must_use]
    pub const fn max_order(self, order: u8, page_bytes: u32) -> u8 {
        let by_bytes = (AUTO_SLAB_BYTES.div_ceil(page_bytes)).ilog2() as u8;
        match self {
            OrderRule::Auto if by_bytes < order => by_bytes,
            OrderRule::Auto | OrderRule::Default => order,
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    const FORMULAS: [OrderFormula; 2] = [OrderFormula::FewerObjects, OrderFormula::HalfWasted];

    fn orders(page_bytes: u32, rule: OrderRule, cpus: u32) -> Orders {
        let max = rule.max_order(3, page_bytes);
        Orders { page_bytes, min: 0, max, limit: 10, wanted: wanted_objects(cpus, 4) }
    }

    #[test]
    fn orders_that_choose_themselves_are_the_kernels_on_pages_of_4_kib() {
        for cpus in [1, 2, 4, 16, 64, 512] {
            for (size, formula) in (8..=65536).step_by(8).flat_map(|s| FORMULAS.map(|f| (s, f))) {
                let of = |rule| orders(4096, rule, cpus).of(size, formula);
                assert_eq!(of(OrderRule::Auto), of(OrderRule::Default), "{size} on {cpus} CPUs");
            }
        }
    }

    /// Neither above 32 KiB where one object needs less and a page is no larger, nor by the CPUs where
    /// a page has that size; the kernel's rule breaks both.
    #[test]
    fn orders_that_choose_themselves_follow_bytes_on_larger_pages() {
        for (page, formula) in [16384, 65536].into_iter().flat_map(|p| FORMULAS.map(|f| (p, f))) {
            let (mut larger, mut by_cpus) = (0, 0);
            for size in (8..=131_072).step_by(8) {
                let of = |rule, cpus| {
                    let order = orders(page, rule, cpus).of(size, formula).expect("an order");
                    u64::from(page) << order
                };
                let one = u64::from(page) << order_for(size.into(), page);
                let most = one.max(AUTO_SLAB_BYTES.into());
                let auto = of(OrderRule::Auto, 16);
                assert!(auto <= most, "{auto} bytes for {size} on pages of {page}");
                if page >= AUTO_SLAB_BYTES {
                    assert_eq!(auto, of(OrderRule::Auto, 512), "{size}");
                }
                larger += u32::from(of(OrderRule::Default, 16) > most);
                by_cpus += u32::from(of(OrderRule::Default, 16) != of(OrderRule::Default, 512));
            }
            assert!(larger > 1000 && by_cpus > 100, "{larger} larger, {by_cpus} by CPUs");
        }
    }
}
