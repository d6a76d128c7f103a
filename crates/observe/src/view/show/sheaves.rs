//! Prints what the sheaves of each CPU and the barns of each node hold of a cache, slab by slab.
//!
//! A snapshot of a kernel has only a bound on these objects; who reads the kernel's memory supplies
//! them.

use crate::fields::Unit;
use crate::snapshot::{Cache, SlabPlace, Snapshot};
use crate::view::grid::{Grid, Weight, bold};
use crate::view::{Style, cell, json};
use serde::Serialize;
use std::io::{self, Write};

/// What a CPU or a node has in sheaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeldSheaves {
    /// `{"cpu": n}` or `{"node": n}`.
    pub place: SlabPlace,
    /// Objects in the sheaf that a CPU allocates from.
    pub main: Option<u64>,
    /// Objects in its other one, if it has one.
    pub spare: Option<u64>,
    /// Objects in that for `kfree_rcu()`, if it has one.
    pub rcu_free: Option<u64>,
    /// Full sheaves in a node's barn.
    pub full: Option<u64>,
    /// Sheaves without an object there.
    pub empty: Option<u64>,
    /// The slabs of the objects, by address.
    pub slabs: Vec<HeldSlab>,
}

/// A slab with objects in sheaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldSlab {
    /// Number of its first page.
    pub page: u64,
    /// Address of its first byte.
    pub base: u64,
    /// A slab is 2^order pages.
    pub order: u32,
    /// How many it has room for.
    pub objects: u32,
    /// Of these, those that this place holds.
    pub held: u32,
    /// Of these, those that are in use: neither free in the slab nor in any sheaf.
    pub live: u32,
}

/// The sums of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeldSums {
    /// How many its sheaves hold together.
    pub objects: u64,
    /// How much memory these take.
    pub bytes: u64,
    /// In how many they lie.
    pub nr_slabs: u64,
    /// Of these, slabs without a live object, which only sheaves keep.
    pub empty_slabs: u64,
    /// Bytes of these slabs.
    pub empty_bytes: u64,
}

impl HeldSheaves {
    /// Those of it in a cache whose objects and pages have so many bytes.
    #[must_use]
    pub fn sums(&self, object_bytes: u64, page_bytes: u64) -> HeldSums {
        let mut sums = HeldSums::default();
        for slab in &self.slabs {
            sums.objects += u64::from(slab.held);
            sums.nr_slabs += 1;
            if slab.live == 0 {
                sums.empty_slabs += 1;
                sums.empty_bytes += page_bytes << slab.order;
            }
        }
        HeldSums { bytes: sums.objects * object_bytes, ..sums }
    }
}

fn sums(snapshot: &Snapshot, cache: &Cache, held: &HeldSheaves) -> HeldSums {
    let page_bytes = snapshot.machine.page_bytes.unwrap_or(0);
    held.sums(cache.exact("slab_size").unwrap_or(0), page_bytes)
}

/// Writes a table of the places, and below it each slab, place by place.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut dyn Write,
    snapshot: &Snapshot,
    cache: &Cache,
    held: &[HeldSheaves],
    style: Style,
) -> io::Result<()> {
    let capacity = cache.exact("sheaf_capacity").unwrap_or(0);
    let name = cell::clean(&cache.name);
    writeln!(out, "{}", bold(&format!("{name}: sheaves of {capacity}"), style.colour))?;
    let columns = ["place", "main", "spare", "rcu_free", "full", "empty", "objects", "bytes"];
    let columns = columns.iter().chain(&["slabs", "without live", "their bytes"]);
    let mut grid = Grid::new(columns.copied());
    for of in held {
        let sums = sums(snapshot, cache, of);
        let count = |n: Option<u64>| n.map_or_else(|| "-".into(), |n| n.to_string());
        let bytes = |n| cell::number(n, Unit::Bytes, style.units);
        let mut row = vec![place(of.place)];
        row.extend([of.main, of.spare, of.rcu_free, of.full, of.empty].map(count));
        row.extend([sums.objects.to_string(), bytes(sums.bytes), sums.nr_slabs.to_string()]);
        row.extend([sums.empty_slabs.to_string(), bytes(sums.empty_bytes)]);
        grid.push(Weight::Row, row);
    }
    grid.write(out, style.colour)?;
    for of in held.iter().filter(|of| !of.slabs.is_empty()) {
        writeln!(out, "\n{}", bold(&format!("{name} on {}:", place(of.place)), style.colour))?;
        for slab in &of.slabs {
            let HeldSlab { page, base, order, objects, held, live } = slab;
            writeln!(
                out,
                " page={page:x} base={base:x} order={order} objects={objects} held={held} live={live}"
            )?;
        }
    }
    Ok(())
}

fn place(place: SlabPlace) -> String {
    match place {
        SlabPlace::Cpu(cpu) => format!("CPU {cpu}"),
        SlabPlace::Node(node) => format!("node {node}"),
    }
}

/// Writes the same of these caches as JSON: `{"source", ..., "caches": [{"name", "sheaf_capacity",
/// "sheaves"}]}`.
///
/// # Errors
/// Those of `out`.
pub fn write_json(
    out: &mut dyn Write,
    snapshot: &Snapshot,
    caches: &[(&Cache, Vec<HeldSheaves>)],
) -> io::Result<()> {
    #[derive(Serialize)]
    struct OfCache<'a> {
        name: &'a str,
        sheaf_capacity: Option<u64>,
        sheaves: Vec<OfPlace<'a>>,
    }
    #[derive(Serialize)]
    struct OfPlace<'a> {
        #[serde(flatten)]
        held: &'a HeldSheaves,
        #[serde(flatten)]
        sums: HeldSums,
    }
    let caches = caches.iter().map(|(cache, held)| OfCache {
        name: &cache.name,
        sheaf_capacity: cache.exact("sheaf_capacity"),
        sheaves: held
            .iter()
            .map(|held| OfPlace { held, sums: sums(snapshot, cache, held) })
            .collect(),
    });
    json::of_caches(out, snapshot, caches)
}
