//! Prints the state before and after a shrink: the caches whose slabs changed, the totals, and how
//! much memory was returned.

use super::samples::{self, Sample};
use super::work::Done;
use crate::failure::Failure;
use serde::Serialize;
use slabyard_observe::fields::{self, Unit, field};
use slabyard_observe::snapshot::{Source, SourceKind};
use slabyard_observe::view::grid::{Grid, Weight};
use slabyard_observe::view::{Style, Units, cell};
use slabyard_observe::{Cache, Snapshot, Value};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Totals that are shown of a kernel and of a process.
const OF_KERNEL: &[&str] = &["slab", "slab_reclaimable", "slab_unreclaimable"];
const OF_PROCESS: &[&str] = &[
    "live",
    "parked_cpu",
    "empties_parked",
    "parked_node",
    "free_partial",
    "parked_pages",
    "free_runs",
    "returned",
    "committed",
    "resident",
];

/// What became of it.
pub struct Outcome {
    source: Source,
    rows: Vec<Row>,
    totals: Vec<Pair>,
    /// True if these are not all caches.
    named: bool,
    done: Done,
}

/// A cache before and after.
struct Row {
    name: String,
    /// Live objects after it; of a kernel without sheaves with those that wait for a grace period.
    live: Option<Value>,
    parked: Pair,
    slabs: Pair,
    /// Empty slabs on CPU partial lists.
    empties: Pair,
    bytes: Pair,
}

/// One number before and after.
#[derive(Serialize)]
struct Pair {
    #[serde(skip)]
    name: &'static str,
    before: Option<Value>,
    after: Option<Value>,
}

impl Pair {
    /// Before less after, where both are exact.
    fn gone(&self) -> Option<i128> {
        let exact = |value: &Option<Value>| value.as_ref()?.exact().map(i128::from);
        Some(exact(&self.before)? - exact(&self.after)?)
    }
}

impl Outcome {
    /// Of caches that were not named only those whose slabs changed are kept.
    pub fn new(before: &Snapshot, after: &Snapshot, named: bool, done: Done) -> Outcome {
        let mut rows: Vec<Row> = after
            .caches
            .iter()
            .filter_map(|cache| Some(Row::of(before, before.cache(&cache.name)?, after, cache)))
            .filter(|row| named || row.slabs.gone() != Some(0))
            .collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.bytes.gone()), row.name.clone()));
        let names = if before.source.kind == SourceKind::Kernel { OF_KERNEL } else { OF_PROCESS };
        let totals = names.iter().map(|name| Pair {
            name,
            before: before.total(name).cloned(),
            after: after.total(name).cloned(),
        });
        let totals = totals.filter(|t| t.before.is_some() || t.after.is_some()).collect();
        Outcome { source: after.source.clone(), rows, totals, named, done }
    }

    /// True if nothing was done and something failed.
    pub fn is_nothing(&self) -> bool {
        self.done.caches == 0 && !self.done.failed.is_empty()
    }

    /// Why not all of it was done.
    pub fn failure(mut self) -> Option<Failure> {
        if let Some(signal) = self.done.signal {
            return Some(Failure::Withdrawn(signal));
        }
        let rest = self.done.failed.len().saturating_sub(1);
        let first = self.done.failed.drain(..).next()?;
        let more =
            if rest > 0 { format!("; {rest} caches more were not shrunk") } else { "".into() };
        Some(anyhow::anyhow!("{first:#}{more}").into())
    }

    /// Writes tables and a sentence.
    pub fn write(&self, out: &mut dyn Write, style: Style) -> io::Result<()> {
        if !self.rows.is_empty() {
            self.caches(style.units).write(out, style.colour)?;
            writeln!(out)?;
        }
        let mut grid = Grid::new(["total", "before", "after", "change"]);
        for pair in &self.totals {
            let [before, after] = shown(pair, Unit::Bytes, style.units);
            let change = pair.gone().map_or_else(String::new, |n| signed(-n, style.units));
            grid.push(Weight::Row, [pair.name.to_owned(), before, after, change]);
        }
        grid.write(out, style.colour)?;
        writeln!(out, "\n{}", self.sentence(style.units))?;
        match self.why_resident_differs(style.units) {
            Some(why) => writeln!(out, "{why}"),
            None => Ok(()),
        }
    }

    fn caches(&self, units: Units) -> Grid {
        let has_lists = self.rows.iter().any(|row| row.empties.before.is_some());
        let empties = if has_lists { &["empties parked", "now"][..] } else { &[] };
        let heading = ["name", "live", "parked", "now", "slabs", "now"];
        let heading = heading.iter().chain(empties).chain(&["bytes", "now", "came back"]);
        let mut grid = Grid::new(heading.copied());
        for row in &self.rows {
            let live = cell::value(row.live.as_ref(), Unit::Objects, units);
            let mut cells = vec![cell::clean(&row.name), live];
            cells.extend(shown(&row.parked, Unit::Objects, units));
            cells.extend(shown(&row.slabs, Unit::Slabs, units));
            if has_lists {
                cells.extend(shown(&row.empties, Unit::Slabs, units));
            }
            cells.extend(shown(&row.bytes, Unit::Bytes, units));
            let gone = row.bytes.gone();
            cells.push(gone.map_or_else(|| cell::UNKNOWN.into(), |n| size(n, units)));
            grid.push(Weight::Row, cells);
        }
        grid
    }

    fn sentence(&self, units: Units) -> String {
        let Done { caches, took, asked, .. } = &self.done;
        let counted = if *caches == 1 { "1 cache".into() } else { format!("{caches} caches") };
        let mut text = format!("{counted} shrunk in {:.3} s", took.as_secs_f64());
        if let Some(bytes) = self.came_back() {
            text += &match bytes {
                // Others take memory meanwhile.
                n if n < 0 => format!("; memory grew by {} meanwhile", size(-n, units)),
                0 => "; nothing came back to the system".into(),
                n => format!("; {} came back to the system", size(n, units)),
            };
            if bytes <= 0 {
                text += self.why_nothing();
            }
        }
        if self.done.awaited {
            text += "; what kfree_rcu() had freed before was waited for";
        } else if self.done.of_kernel {
            text += "; objects that wait for a grace period (kfree_rcu) are counted as live still, and \
                     come back later";
        }
        if self.done.own {
            text += "; the lists of other threads were not reached: it has no CPUs' rows that can \
                     be stopped";
        }
        if *asked {
            text += "; other threads were asked for what they hold";
        }
        text
    }

    /// Why the slabs stay.
    fn why_nothing(&self) -> &'static str {
        let high = |value: &Option<Value>| value.as_ref().and_then(Value::high);
        let parked = self.rows.iter().any(|row| high(&row.parked.after).is_some_and(|n| n > 0));
        match (self.rows.iter().any(|row| high(&row.live).is_some_and(|n| n > 0)), parked) {
            (_, true) => ": some of it is parked again, or still",
            (true, false) => ", because live objects lie in the slabs",
            // Caches that did not change are not kept.
            (false, false) if !self.named => ", because live objects lie in what slabs are left",
            (false, false) => ": there was nothing to give",
        }
    }

    /// A process counts what it gave back itself; resident is the system's count.
    fn why_resident_differs(&self, units: Units) -> Option<String> {
        let came_back = i128::from(self.done.bytes?);
        let fell = self.totals.iter().find(|t| t.name == "resident")?.gone()?;
        if fell == came_back {
            return None;
        }
        let resident = match fell {
            0 => "is as it was".into(),
            n if n < 0 => format!("grew by {}", size(-n, units)),
            n => format!("fell by {}", size(n, units)),
        };
        Some(format!(
            "resident {resident}: it leaves out pages that came back and were not in memory, \
             and counts what the program, its stacks and libraries took meanwhile"
        ))
    }

    /// Bytes that the system has more: as a process counts them; of a kernel as its
    /// slab memory tells, or the caches that were named.
    fn came_back(&self) -> Option<i128> {
        let of_kernel = || match self.named {
            true => self.rows.iter().map(|row| row.bytes.gone()).sum(),
            false => self.totals.iter().find(|t| t.name == "slab")?.gone(),
        };
        self.done.bytes.map(i128::from).or_else(of_kernel)
    }

    /// Writes JSON: `{"source", "took_ns", "caches_shrunk", "bytes_returned", "totals",
    /// "caches", "samples"}`.
    pub fn write_json(&self, out: &mut dyn Write, samples: &[Sample]) -> io::Result<()> {
        #[derive(Serialize)]
        struct Shape<'a> {
            source: &'a Source,
            took_ns: u64,
            caches_shrunk: usize,
            bytes_returned: Option<i128>,
            totals: BTreeMap<&'a str, &'a Pair>,
            caches: Vec<CacheShape<'a>>,
            samples: Vec<samples::Shape<'a>>,
            failed: Vec<String>,
        }
        #[derive(Serialize)]
        struct CacheShape<'a> {
            name: &'a str,
            live: Option<&'a Value>,
            parked: &'a Pair,
            slabs: &'a Pair,
            empties_parked: &'a Pair,
            bytes: &'a Pair,
        }
        let shape = Shape {
            source: &self.source,
            took_ns: u64::try_from(self.done.took.as_nanos()).unwrap_or(u64::MAX),
            caches_shrunk: self.done.caches,
            bytes_returned: self.came_back(),
            totals: self.totals.iter().map(|pair| (pair.name, pair)).collect(),
            caches: self
                .rows
                .iter()
                .map(|row| CacheShape {
                    name: &row.name,
                    live: row.live.as_ref(),
                    parked: &row.parked,
                    slabs: &row.slabs,
                    empties_parked: &row.empties,
                    bytes: &row.bytes,
                })
                .collect(),
            samples: samples.iter().map(Sample::shape).collect(),
            failed: self.done.failed.iter().map(|e| format!("{e:#}")).collect(),
        };
        serde_json::to_writer_pretty(&mut *out, &shape)?;
        writeln!(out)
    }
}

impl Row {
    fn of(before: &Snapshot, old: &Cache, after: &Snapshot, new: &Cache) -> Row {
        let get = |name: &str, snapshot: &Snapshot, cache: &Cache| {
            field(name).and_then(|f| fields::value(f, snapshot, cache))
        };
        let pair = |name: &'static str| Pair {
            name,
            before: get(name, before, old),
            after: get(name, after, new),
        };
        Row {
            name: new.name.clone(),
            live: get("live", after, new),
            parked: pair("parked"),
            slabs: pair("slabs"),
            empties: pair("empties_parked"),
            bytes: pair("bytes"),
        }
    }
}

fn shown(pair: &Pair, unit: Unit, units: Units) -> [String; 2] {
    [&pair.before, &pair.after].map(|value| cell::value(value.as_ref(), unit, units))
}

fn size(bytes: i128, units: Units) -> String {
    let size = u64::try_from(bytes.unsigned_abs()).unwrap_or(u64::MAX);
    let sign = if bytes < 0 { "-" } else { "" };
    let unit = if units == Units::Plain { " bytes" } else { "" };
    format!("{sign}{}{unit}", cell::number(size, Unit::Bytes, units))
}

fn signed(bytes: i128, units: Units) -> String {
    let plus = if bytes > 0 { "+" } else { "" };
    let text = size(bytes, units);
    format!("{plus}{}", text.strip_suffix(" bytes").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_observe::fields::TOTALS;

    #[test]
    fn totals_are_of_the_table() {
        for name in OF_KERNEL.iter().chain(OF_PROCESS) {
            assert!(TOTALS.iter().any(|t| t.name == *name), "{name}");
        }
    }

    #[test]
    fn two_figures_that_differ_come_with_the_reason() {
        let why = |came_back, before: u64, after: u64| {
            let mut old = Snapshot::new(Source::of(SourceKind::Process));
            let mut new = Snapshot::new(Source::of(SourceKind::Process));
            old.totals.insert("resident".into(), before.into());
            new.totals.insert("resident".into(), after.into());
            let done = Done { caches: 1, bytes: came_back, ..Done::default() };
            let mut text = Vec::new();
            Outcome::new(&old, &new, false, done).write(&mut text, Style::PLAIN).unwrap();
            let text = String::from_utf8(text).unwrap();
            text.lines().find(|l| l.starts_with("resident ") && l.contains(": ")).map(str::to_owned)
        };
        let begins = |line: Option<String>, with| line.unwrap().starts_with(with);
        assert!(begins(
            why(Some(8192), 20000, 15904),
            "resident fell by 4096 bytes: it leaves out "
        ));
        assert!(begins(why(Some(8192), 20000, 20000), "resident is as it was: "));
        assert!(begins(why(Some(0), 20000, 24096), "resident grew by 4096 bytes: "));
        assert_eq!(why(Some(4096), 20000, 15904), None);
        // A kernel counts nothing itself.
        assert_eq!(why(None, 20000, 15904), None);
    }

    #[test]
    fn what_grew_has_its_sign() {
        assert_eq!(signed(0, Units::Human), "0 B");
        assert_eq!(signed(1 << 20, Units::Human), "+1.0 MiB");
        assert_eq!(signed(-512, Units::Plain), "-512");
        assert_eq!(size(512, Units::Plain), "512 bytes");
    }
}
