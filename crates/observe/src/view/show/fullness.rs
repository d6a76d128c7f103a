//! How full the slabs on partial lists are: a histogram of the share of objects in use, in tenths,
//! and each slab if the source lists slabs one by one.

use crate::fields::Unit;
use crate::snapshot::{Cache, Slab, SlabPlace, Snapshot};
use crate::value::Value;
use crate::view::grid::{Grid, Weight, bold};
use crate::view::{Style, cell};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Pages are of this size where a source does not tell.
const SMALLEST_PAGE: u64 = 4096;

/// A histogram of the slabs on partial lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fullness {
    /// Objects in a slab, where that is one number.
    pub objs_per_slab: Option<u64>,
    /// Slabs without an object in use.
    pub empty: u64,
    /// Slabs that a single object keeps.
    pub just_one: u64,
    /// Slabs by the tenth of their objects that is in use: above 0 and up to 10 %,
    /// above 10 and up to 20 %, ...
    pub tenths: [u64; 10],
    /// Slabs by objects in use.
    pub inuse: Vec<(u32, u64)>,
}

impl Fullness {
    /// That of a cache, from its histogram or from its slabs; `None` where the source reports
    /// neither.
    #[must_use]
    pub fn of(cache: &Cache) -> Option<Fullness> {
        let objs_per_slab = cache.exact("objs_per_slab").filter(|n| *n > 0);
        let told = cache.fullness.as_ref().map(|told| told.iter().copied().collect());
        let inuse: BTreeMap<u32, u64> = told.or_else(|| Some(counted(cache.slabs.as_ref()?)))?;
        let of = |n: u32| inuse.get(&n).copied().unwrap_or(0);
        let mut tenths = [0_u64; 10];
        for (used, slabs) in inuse.iter().filter(|(used, _)| **used > 0) {
            if let Some(all) = objs_per_slab {
                let tenth = (u64::from(*used) * 10).div_ceil(all).clamp(1, 10);
                let tenth = usize::try_from(tenth - 1).unwrap_or(9);
                tenths[tenth] = tenths[tenth].saturating_add(*slabs);
            }
        }
        Some(Fullness {
            objs_per_slab,
            empty: of(0),
            just_one: of(1),
            tenths,
            inuse: inuse.into_iter().collect(),
        })
    }
}

fn counted(slabs: &[Slab]) -> BTreeMap<u32, u64> {
    let mut inuse = BTreeMap::new();
    for slab in slabs {
        *inuse.entry(slab.inuse).or_insert(0) += 1;
    }
    inuse
}

/// A slab as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Number of its first page.
    pub page: u64,
    /// Address of its first byte.
    pub base: u64,
    /// A slab is 2^order pages.
    pub order: u32,
    /// Slabs from here to the end of a CPU's list, as the list counts them.
    pub partial_pages: Option<u32>,
    /// Free objects in these, likewise.
    pub partial_objects: Option<u32>,
    /// How many it has room for.
    pub objects: u32,
    /// Of these, those in use.
    pub inuse: u32,
    /// Where it is: `{"cpu": n}` or `{"node": n}`.
    pub place: SlabPlace,
}

/// Each slab that the source reports, by place.
#[must_use]
pub fn lines(snapshot: &Snapshot, cache: &Cache) -> Option<Vec<Line>> {
    let page_bytes = page_bytes(snapshot);
    let mut lines: Vec<Line> = cache
        .slabs
        .as_ref()?
        .iter()
        .map(|slab| Line {
            page: slab.page / page_bytes,
            base: slab.page,
            order: slab.order,
            objects: slab.objects,
            inuse: slab.inuse,
            place: slab.place,
            partial_pages: slab.partial_pages,
            partial_objects: slab.partial_objects,
        })
        .collect();
    // Within a place the order is that of the list.
    lines.sort_by_key(|line| line.place);
    Some(lines)
}

fn page_bytes(snapshot: &Snapshot) -> u64 {
    snapshot.machine.page_bytes.filter(|b| *b > 0).unwrap_or(SMALLEST_PAGE)
}

/// Bytes of a slab of 2^order pages: the most that there are of an order that no slab has, as a
/// file may name any.
pub(super) fn slab_bytes(snapshot: &Snapshot, order: u32) -> u64 {
    page_bytes(snapshot).saturating_mul(1_u64.checked_shl(order).unwrap_or(u64::MAX))
}

/// Whether the slabs of a cache stand one by one in its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlabLines {
    /// One line says how many lines `--slabs` would write.
    Counted,
    /// A line a slab, by place.
    Each,
}

pub(super) fn write(
    out: &mut dyn Write,
    snapshot: &Snapshot,
    cache: &Cache,
    slabs: SlabLines,
    style: Style,
) -> io::Result<()> {
    if let Some(fullness) = Fullness::of(cache) {
        writeln!(out)?;
        histogram(out, &fullness, style)?;
        sparse(out, &fullness, cache, style)?;
    }
    let lines = lines(snapshot, cache).unwrap_or_default();
    match (slabs, lines.len()) {
        (_, 0) => Ok(()),
        (SlabLines::Each, _) => dump(out, cache, &lines, style),
        (SlabLines::Counted, n) => writeln!(out, "--slabs shows them one by one: {n} lines"),
    }
}

/// Writes slabs, place by place.
pub(super) fn dump(
    out: &mut dyn Write,
    cache: &Cache,
    lines: &[Line],
    style: Style,
) -> io::Result<()> {
    for of_place in lines.chunk_by(|a, b| a.place == b.place) {
        let on = match of_place[0].place {
            // So that one script reads both.
            SlabPlace::Cpu(cpu) => cpu.to_string(),
            SlabPlace::Node(node) => format!("node {node}"),
        };
        let heading = format!("{} on {on}:", cell::clean(&cache.name));
        writeln!(out, "\n{}", bold(&heading, style.colour))?;
        for line in of_place {
            let Line { page, base, order, objects, inuse, .. } = line;
            let told =
                |name: &str, n: Option<u32>| n.map_or_else(String::new, |n| format!(" {name}={n}"));
            let pages = told("partial_pages", line.partial_pages);
            let counted = told("partial_objects", line.partial_objects);
            writeln!(
                out,
                " page={page:x} base={base:x} order={order}{pages}{counted} objects={objects} \
                 inuse={inuse}"
            )?;
        }
    }
    Ok(())
}

fn histogram(out: &mut dyn Write, fullness: &Fullness, style: Style) -> io::Result<()> {
    let Fullness { empty, just_one, tenths, inuse, .. } = fullness;
    let all: u64 = inuse.iter().map(|(_, slabs)| slabs).sum();
    let most = tenths.iter().chain([empty]).copied().max().unwrap_or(0);
    let mut grid = Grid::new(["in use", "partial slabs"]).words_from(2);
    let row = |name: String, slabs: u64| [name, slabs.to_string(), bar(slabs, most)];
    grid.push(Weight::Row, row("none".into(), *empty));
    for (nth, slabs) in tenths.iter().enumerate() {
        let name = match nth {
            0 => "to 10%".into(),
            n => format!("{} to {}%", n * 10, (n + 1) * 10),
        };
        grid.push(Weight::Row, row(name, *slabs));
    }
    grid.push(Weight::Total, ["all".to_owned(), all.to_string()]);
    grid.write(out, style.colour)?;
    let slabs = if *just_one == 1 { "slab" } else { "slabs" };
    writeln!(out, "with just 1 in use: {just_one} {slabs}")
}

/// What a few objects pin: slabs of which a tenth is in use, or less.
fn sparse(out: &mut dyn Write, fullness: &Fullness, cache: &Cache, style: Style) -> io::Result<()> {
    let slabs = fullness.tenths[0];
    let Some(all) = fullness.objs_per_slab.filter(|_| slabs > 0) else { return Ok(()) };
    let few = fullness.inuse.iter().filter(|(used, _)| u64::from(*used) * 10 <= all);
    let objects: u64 = few.map(|(used, slabs)| u64::from(*used).saturating_mul(*slabs)).sum();
    let each = cache.exact("bytes").zip(cache.exact("slabs").filter(|n| *n > 0));
    let bytes = each.map(|(bytes, all)| Value::Exact(bytes / all * slabs));
    let bytes = bytes.map(|bytes| cell::value(Some(&bytes), Unit::Bytes, style.units));
    let bytes = bytes.map_or_else(String::new, |bytes| format!(", {bytes}"));
    let counted =
        |n: u64, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
    let keep = if objects == 1 { "keeps" } else { "keep" };
    writeln!(
        out,
        "{} {keep} {} with at most 10% in use{bytes}",
        counted(objects, "object"),
        counted(slabs, "slab")
    )
}

/// A bar of at most 20 marks; something is never shown as nothing.
fn bar(n: u64, most: u64) -> String {
    const MARKS: u128 = 20;
    let marks = (u128::from(n) * MARKS).div_ceil(u128::from(most.max(1)));
    "#".repeat(usize::try_from(marks).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenths_begin_above_their_lower_end() {
        let mut cache = Cache::new("c");
        cache.set("objs_per_slab", 20);
        cache.fullness = Some(vec![(0, 3), (1, 5), (2, 1), (3, 1), (19, 2), (20, 4)]);
        let fullness = Fullness::of(&cache).unwrap();
        assert_eq!((fullness.empty, fullness.just_one), (3, 5));
        assert_eq!(fullness.tenths, [6, 1, 0, 0, 0, 0, 0, 0, 0, 6]);
    }

    #[test]
    fn slabs_one_by_one_give_the_same_histogram() {
        let mut cache = Cache::new("c");
        cache.set("objs_per_slab", 4);
        assert_eq!(Fullness::of(&cache), None);
        let slab = |inuse| Slab { page: 4096, objects: 4, inuse, ..Slab::default() };
        cache.slabs = Some(vec![slab(1), slab(0), slab(1)]);
        assert_eq!(Fullness::of(&cache).unwrap().inuse, [(0, 1), (1, 2)]);
    }

    #[test]
    fn something_is_never_shown_as_nothing() {
        assert_eq!((bar(0, 9).len(), bar(1, u64::MAX).len(), bar(9, 9).len()), (0, 1, 20));
        assert_eq!(bar(0, 0), "");
    }
}
