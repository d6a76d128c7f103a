//! What is said of a boot, as `slabyard boot --json` has it: its machine, caches, orders and totals, and
//! the error to expect.

use super::{Boots, Variant};
use serde::Serialize;
use slabyard_lab::population::measured::{self, Measured};
use slabyard_lab::population::{CacheOutcome, Outcome};
use slabyard_lab::snapshot::KernelSnapshot;
use std::collections::{BTreeMap, BTreeSet};

/// All of it: `after` if one variant was asked for, `variants` if several were.
#[derive(Serialize)]
pub struct BootJson<'a> {
    dump: Option<&'a str>,
    kernel: Option<&'a str>,
    before: Side<'a>,
    #[serde(flatten)]
    asked: AskedFor<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum AskedFor<'a> {
    One { after: Side<'a>, error_to_expect: Vec<Expected> },
    Several { variants: Vec<VariantJson<'a>> },
}

#[derive(Serialize)]
struct VariantJson<'a> {
    name: &'a str,
    #[serde(flatten)]
    side: Side<'a>,
    error_to_expect: Vec<Expected>,
}

/// A boot on a machine. The bytes of its caches and of its orders each add up to the totals.
#[derive(Serialize)]
pub struct Side<'a> {
    release: String,
    page_size: u32,
    present_cpus: u32,
    possible_cpus: u32,
    /// From the least on; those without a slab are left out.
    pub orders: Vec<OfOrder>,
    caches: Vec<CacheJson<'a>>,
    /// Of all caches.
    pub totals: Totals,
}

/// All slabs of an order.
#[derive(Serialize)]
pub struct OfOrder {
    /// Pages of a slab, as a power of 2.
    pub order: u8,
    /// How many there are.
    pub slabs: u64,
    /// Of their pages.
    pub bytes: u64,
}

#[derive(Serialize)]
struct CacheJson<'a> {
    name: &'a str,
    order: u8,
    objs_per_slab: u32,
    slabs: u64,
    bytes: u64,
}

/// What all caches use.
#[derive(Serialize)]
pub struct Totals {
    /// Of every order.
    pub slabs: u64,
    /// Of their pages.
    pub bytes: u64,
    /// Between these, nine of ten guests were; null if no such guests were compared.
    pub least_bytes: Option<u64>,
    /// The other end.
    pub most_bytes: Option<u64>,
}

/// What is known of the error of a kind of change.
#[derive(Serialize)]
pub struct Expected {
    change: &'static str,
    /// Bytes of the compared guests' pages.
    page_size: u32,
    pairs: usize,
    /// Shares of the real bytes of all caches, between which nine of ten pairs are; null if no
    /// guests were compared.
    low: Option<f64>,
    high: Option<f64>,
    /// The range of all pairs.
    lowest: Option<f64>,
    highest: Option<f64>,
}

impl Boots {
    /// As the command's JSON has it.
    #[must_use]
    pub fn json<'a>(&'a self, snapshot: &'a KernelSnapshot) -> BootJson<'a> {
        let several = |variant: &'a Variant| VariantJson {
            name: &variant.name,
            side: variant.side(),
            error_to_expect: variant.expected(),
        };
        BootJson {
            dump: snapshot.dump.as_deref(),
            kernel: snapshot.kernel.as_deref(),
            before: self.base.side(),
            asked: match self.variants.as_slice() {
                [one] => AskedFor::One { after: one.side(), error_to_expect: one.expected() },
                all => AskedFor::Several { variants: all.iter().map(several).collect() },
            },
        }
    }
}

impl Variant {
    /// As the command's JSON has it.
    #[must_use]
    pub fn side(&self) -> Side<'_> {
        let machine = &self.settings.machine;
        Side {
            release: self.settings.rules_name(),
            page_size: machine.page_size,
            present_cpus: machine.present_cpus,
            possible_cpus: machine.possible_cpus,
            orders: orders(&self.outcome),
            caches: self.outcome.caches.iter().map(CacheJson::of).collect(),
            totals: Totals::of(&self.outcome, &self.errors),
        }
    }

    /// What is known of its error.
    #[must_use]
    pub fn expected(&self) -> Vec<Expected> {
        let one = |measured: &Measured| Expected {
            change: measured.change.name(),
            page_size: measured.page_size,
            pairs: measured.pairs,
            low: measured.errors.map(|errors| -errors.expected),
            high: measured.errors.map(|errors| errors.expected),
            lowest: measured.errors.map(|errors| errors.range.0),
            highest: measured.errors.map(|errors| errors.range.1),
        };
        self.errors.iter().map(one).collect()
    }
}

impl CacheJson<'_> {
    fn of(cache: &CacheOutcome) -> CacheJson<'_> {
        CacheJson {
            name: &cache.id,
            order: cache.order,
            objs_per_slab: cache.objects,
            slabs: cache.slabs,
            bytes: cache.slab_kb << 10,
        }
    }
}

impl Side<'_> {
    /// Slabs and KiB of an order.
    #[must_use]
    pub fn of_order(&self, order: u8) -> (u64, u64) {
        let of = self.orders.iter().find(|of| of.order == order);
        of.map_or((0, 0), |of| (of.slabs, of.bytes >> 10))
    }
}

impl Totals {
    fn of(outcome: &Outcome, errors: &[Measured]) -> Totals {
        let bytes = outcome.slab_kb << 10;
        // Errors are shares of the real total, which this one is not.
        let real = |off: f64| (bytes as f64 / (1.0 + off)).round() as u64;
        let expected = measured::expected(errors);
        Totals {
            slabs: outcome.caches.iter().map(|cache| cache.slabs).sum(),
            bytes,
            least_bytes: expected.map(real),
            most_bytes: expected.map(|off| real(-off)),
        }
    }

    /// In KiB and words, between which nine of ten guests were.
    #[must_use]
    pub fn range(&self) -> Option<String> {
        Some(format!("{} to {}", self.least_bytes? >> 10, self.most_bytes? >> 10))
    }
}

/// In their order; those without a slab are left out.
fn orders(outcome: &Outcome) -> Vec<OfOrder> {
    let mut orders = BTreeMap::new();
    for cache in outcome.caches.iter().filter(|cache| cache.slabs > 0) {
        let none = OfOrder { order: cache.order, slabs: 0, bytes: 0 };
        let of: &mut OfOrder = orders.entry(cache.order).or_insert(none);
        of.slabs += cache.slabs;
        of.bytes += cache.slab_kb << 10;
    }
    orders.into_values().collect()
}

/// The orders of any of the boots.
#[must_use]
pub fn orders_of(sides: &[Side<'_>]) -> BTreeSet<u8> {
    sides.iter().flat_map(|side| &side.orders).map(|of| of.order).collect()
}
