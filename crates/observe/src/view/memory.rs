//! The uses of memory: the totals of a yard or a kernel, and how much of a kernel's active memory
//! may be free.

use super::cell;
use super::grid::{Grid, Weight};
use super::{Style, Units};
use crate::fields::{self, Field, TOTALS, Unit};
use crate::snapshot::{Cache, Snapshot, SourceKind};
use crate::value::Value;
use std::io::{self, Write};

/// Totals that have a line of words.
const HIDDEN_BYTES: &str = "maybe_parked";
const HIDDEN_CACHES: &str = "maybe_parked_caches";

/// Writes the totals, the sum of the parts among them, then numbers that are no
/// bytes, and for a kernel what its active objects hide.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, snapshot: &Snapshot, style: Style) -> io::Result<()> {
    let grid = bytes(snapshot, style.units);
    if let Some(grid) = grid {
        writeln!(out)?;
        grid.write(out, style.colour)?;
    }
    if let Some(line) = resident(snapshot, style.units) {
        writeln!(out, "{line}")?;
    }
    let counts = counts(snapshot);
    if !counts.is_empty() {
        writeln!(out, "\n{counts}")?;
    }
    if let Some(hidden) = HiddenTotals::of(snapshot) {
        writeln!(out, "\n{}", hidden.line(style.units))?;
        writeln!(out, "{}", HiddenTotals::WHY)?;
    }
    Ok(())
}

/// Whose the resident memory is, in words.
fn resident(snapshot: &Snapshot, units: Units) -> Option<String> {
    let part = |name| snapshot.total(name).map(|value| cell::bytes(Some(value), units));
    Some(format!(
        "resident {} is {} of the allocator, {} of files (program, libraries), {} of the main stack, {} of \
         the C library's heap (brk), {} of other mappings (threads' stacks, the program's own, single \
         blocks of the allocator, other heaps)",
        part("resident")?,
        part("resident_allocator")?,
        part("resident_files")?,
        part("resident_stack")?,
        part("resident_brk")?,
        part("resident_other")?,
    ))
}

/// What a kernel's active objects may hide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HiddenTotals {
    /// Bytes of active objects.
    pub active: u64,
    /// Of these, bytes that may be free.
    pub most: u64,
    /// Caches that may hide some.
    pub caches: u64,
    /// Caches that do not tell enough.
    pub silent: usize,
}

impl HiddenTotals {
    /// Why active is not live.
    pub const WHY: &'static str = "(active counts as used what is free in CPU slabs, \
        on CPU partial lists, in sheaves and in barns)";

    /// Sums of all caches; `None` where the source is not a kernel or reports nothing.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Option<HiddenTotals> {
        if snapshot.source.kind != SourceKind::Kernel {
            return None;
        }
        let active = |cache: &Cache| cache.exact("objects")?.checked_mul(cache.exact("slab_size")?);
        let parked = crate::fields::field("parked")?;
        let is_silent = |cache: &&Cache| fields::value(parked, snapshot, cache).is_none();
        Some(HiddenTotals {
            active: snapshot.caches.iter().filter_map(active).fold(0, u64::saturating_add),
            most: snapshot.total(HIDDEN_BYTES)?.exact()?,
            caches: snapshot.total(HIDDEN_CACHES)?.exact()?,
            silent: snapshot.caches.iter().filter(is_silent).count(),
        })
    }

    /// In words.
    #[must_use]
    pub fn line(&self, units: Units) -> String {
        let HiddenTotals { active, most, caches, silent } = self;
        let [active, most] = [active, most].map(|n| match units {
            Units::Human => cell::human(*n),
            Units::Plain => format!("{n} bytes"),
        });
        let counted = |n: u64| if n == 1 { "1 cache".into() } else { format!("{n} caches") };
        let mut line =
            format!("of {active} active at most {most} may be parked ({})", counted(*caches));
        if *silent > 0 {
            let tells = if *silent == 1 { "does" } else { "do" };
            line += &format!(", {} {tells} not tell", counted(*silent as u64));
        }
        line + "; `slabyard shrink` makes it exact"
    }
}

fn bytes(snapshot: &Snapshot, units: Units) -> Option<Grid> {
    let rows: Vec<&Field> =
        TOTALS.iter().filter(|t| t.unit == Unit::Bytes && is_shown(t, snapshot)).collect();
    if rows.is_empty() {
        return None;
    }
    let committed = snapshot.total("committed");
    let has_sum = rows.iter().any(|t| t.part);
    let heading: &[&str] =
        if has_sum { &["memory", "bytes", "share"] } else { &["memory", "bytes"] };
    let mut grid = Grid::new(heading.iter().copied());
    for total in rows {
        let value = snapshot.total(total.name);
        let is_sum = total.name == "committed";
        // Beside the sum, not in it: a share would suggest that it adds up.
        let share = if total.part || is_sum {
            cell::value(ratio(value, committed).as_ref(), Unit::Share, units)
        } else {
            String::new()
        };
        let weight = if is_sum { Weight::Total } else { Weight::Row };
        grid.push(weight, [total.name.to_owned(), cell::bytes(value, units), share]);
    }
    Some(grid)
}

/// A yard's parts and their sum are shown even if they are unknown; all others are
/// numbers of one kind of source, as a kernel's and a model's parts are.
fn is_shown(total: &Field, snapshot: &Snapshot) -> bool {
    if total.name == HIDDEN_BYTES {
        return false;
    }
    let always = total.part || total.name == "committed";
    snapshot.total(total.name).is_some() || (snapshot.source.kind.is_yard() && always)
}

/// Totals that are no bytes, on one line.
fn counts(snapshot: &Snapshot) -> String {
    let told = TOTALS.iter().filter(|t| t.unit != Unit::Bytes && t.name != HIDDEN_CACHES);
    let pairs = told.filter_map(|t| {
        let value = snapshot.total(t.name)?;
        Some(format!("{} {}", t.name, cell::value(Some(value), t.unit, Units::Plain)))
    });
    pairs.collect::<Vec<_>>().join(", ")
}

/// The share of a part, in hundredths of a percent.
#[must_use]
pub fn ratio(part: Option<&Value>, whole: Option<&Value>) -> Option<Value> {
    let (low, high) = part?.bounds()?;
    let whole = whole?.high().filter(|w| *w > 0)?;
    let share = |n: u64| u64::try_from(u128::from(n) * 10_000 / u128::from(whole)).ok();
    Some(Value::between(share(low)?, share(high)?))
}
