//! A replay's results for people: a table of caches, the uses of memory, and the slow-path
//! counters.
//!
//! Invariants: caches are sorted by their peak in bytes; unchanged caches are left out unless all
//! are requested, and a line gives their number; totals include them.

use crate::bars::Bars;
use crate::terminal::{Colour, Grid, bytes, count, percent, seconds};
use slabyard_ask::figures::{CacheFigures, Figures, SlabsAtTime, State, Sum};
use slabyard_lab::accuracy;
use slabyard_lab::counters::DRAIN_BUCKETS;
use std::cmp::Reverse;
use std::fmt::Write;
use std::io::IsTerminal;

/// Characters of a curve.
const CURVE: usize = 60;

/// Which caches are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichRows {
    /// Those that are worth it.
    Some,
    /// Those without a change, too.
    All,
}

/// Appends the whole view to a text.
pub fn write(
    text: &mut String,
    figures: &Figures,
    shown: WhichRows,
    shown_counters: WhichRows,
    colour: Colour,
) {
    caches(text, figures, shown, colour);
    memory(text, figures, colour);
    counters(text, figures, shown_counters, colour);
    series(text, figures, colour);
}

/// Headings of the table of caches.
pub(super) const HEADS: [&str; 15] = [
    "cache",
    "order",
    "objects",
    "before",
    "after",
    "peak",
    "allocated",
    "freed",
    "live",
    "cpu_slab",
    "cpu_part",
    "sheaves",
    "barns",
    "node",
    "waste",
];

fn caches(text: &mut String, figures: &Figures, shown: WhichRows, colour: Colour) {
    let mut rows: Vec<&CacheFigures> =
        figures.caches.iter().filter(|c| shown == WhichRows::All || c.moved()).collect();
    rows.sort_by_key(|c| (Reverse(c.peak << c.order), &c.name));
    let mut grid = Grid::new(&HEADS);
    rows.iter().for_each(|row| grid.push(cells(row)));
    grid.push(total_cells(figures));
    grid.write(text, colour);
    notes(text, figures, &rows);
}

/// A cache's row below [`HEADS`]; the last cell has a unit.
pub(super) fn cells(row: &CacheFigures) -> Vec<String> {
    let after = &row.after;
    vec![
        name(row),
        row.order.to_string(),
        row.objs_per_slab.to_string(),
        count(row.before.slabs),
        count(after.slabs),
        row.peak.to_string(),
        row.allocated.to_string(),
        row.freed.to_string(),
        count(after.live),
        count(after.parked_cpu_slabs),
        count(after.parked_cpu_partial),
        count(after.parked_sheaves),
        count(after.parked_node),
        count(after.free_partial),
        bytes(after.padding),
    ]
}

fn total_cells(figures: &Figures) -> Vec<String> {
    let totals = &figures.totals;
    let sum = |get: fn(&State) -> Option<u64>| {
        count(figures.caches.iter().map(|c| get(&c.after)).sum::<Option<u64>>())
    };
    vec![
        "total".into(),
        String::new(),
        String::new(),
        count(totals.before.slabs),
        count(totals.after.slabs),
        totals.peak.to_string(),
        totals.allocated.to_string(),
        totals.freed.to_string(),
        sum(|after| after.live),
        sum(|after| after.parked_cpu_slabs),
        sum(|after| after.parked_cpu_partial),
        sum(|after| after.parked_sheaves),
        sum(|after| after.parked_node),
        sum(|after| after.free_partial),
        bytes(totals.after.padding),
    ]
}

/// What is not in the rows, and what makes the figures doubtful.
fn notes(text: &mut String, figures: &Figures, rows: &[&CacheFigures]) {
    let hidden = figures.caches.len() - rows.len();
    if hidden > 0 {
        let _ = writeln!(text, "{hidden} caches whose slabs did not change are not shown: --all");
    }
    if rows.iter().any(|row| row.left_out.is_some()) {
        text.push_str("* the trace does not show all frees of it\n");
    }
    if figures.frees_left_out > 0 {
        let frees = figures.frees_left_out;
        let _ = writeln!(text, "{frees} frees were of objects that the start does not know");
    }
    if let Some(gone) = &figures.gone {
        let _ = writeln!(text, "{gone}");
    }
    if let Some(unlike) = &figures.unlike {
        let _ = writeln!(text, "{unlike}");
    }
    if let Some(accuracy) = accuracy::line(&figures.changes) {
        let _ = writeln!(text, "{accuracy}");
    }
    if figures.contradictions.any() {
        let _ = writeln!(text, "{}", figures.contradictions);
    }
}

/// The id, and for a merged cache whose name says nothing, what it is for.
pub fn name(cache: &CacheFigures) -> String {
    let mark = if cache.left_out.is_some() { "*" } else { "" };
    let id = &cache.name;
    match &cache.aliases[..] {
        [first, rest @ ..] if id.starts_with(':') => {
            let more = if rest.is_empty() { String::new() } else { format!("+{}", rest.len()) };
            format!("{id}{mark} ({first}{more})")
        }
        _ => format!("{id}{mark}"),
    }
}

/// How a number is taken out of the totals.
pub(super) type SumOf = fn(&Sum) -> Option<u64>;

/// The rows of the table of memory.
pub(super) const MEMORY: [(&str, SumOf); 6] = [
    ("slabs", |s| s.bytes),
    ("  live", |s| s.live),
    ("  parked on CPUs", |s| s.parked_cpu),
    ("  parked in barns", |s| s.parked_node),
    ("  free on nodes' lists", |s| s.free_partial),
    ("  waste", |s| s.padding),
];

fn memory(text: &mut String, figures: &Figures, colour: Colour) {
    let totals = &figures.totals;
    let mut grid = Grid::new(&["bytes", "before", "after", "of all"]);
    let all = totals.after.bytes.filter(|bytes| *bytes > 0);
    for (what, get) in MEMORY {
        let after = get(&totals.after);
        let share = after.zip(all).map(|(part, all)| part as f64 / all as f64);
        grid.push(vec![what.into(), bytes(get(&totals.before)), bytes(after), percent(share)]);
    }
    text.push('\n');
    grid.write(text, colour);
    let _ = writeln!(text, "at the peak: {}", bytes(Some(totals.peak_bytes)));
    let of = |get: fn(&State) -> Option<u64>| -> u64 {
        figures.caches.iter().filter_map(|c| get(&c.after)).sum()
    };
    let _ = writeln!(
        text,
        "CPU partial lists hold {} slabs, {} of them empty; nodes' lists {}, {} of them empty",
        of(|s| s.slabs_cpu_partial),
        of(|s| s.slabs_cpu_partial_empty),
        of(|s| s.partial),
        of(|s| s.empty),
    );
    let untouched: u64 = figures.caches.iter().filter_map(|c| c.untouched).sum();
    let kib = bytes(figures.totals.untouched_bytes);
    if untouched > 0 {
        let _ = writeln!(
            text,
            "{untouched} more slabs of the snapshot ({kib}), which no event touches, are in none of these numbers"
        );
        if let Some(why) = &totals.untouched_not_laid_out {
            let _ = writeln!(
                text,
                "they are as many as hold the same objects, and not laid out by these rules: {why}"
            );
        }
    }
}

/// A help as a sentence of its own.
pub(super) fn sentence(help: &str) -> String {
    let (first, rest) = help.split_at(1);
    format!("{}{rest}.", first.to_uppercase())
}

fn counters(text: &mut String, figures: &Figures, shown: WhichRows, colour: Colour) {
    let mut grid = Grid::new(&["counter", "", ""]);
    for (name, help, value) in figures.counters.each() {
        match shown {
            WhichRows::Some if value == 0 => {}
            WhichRows::Some => grid.push(vec![name.into(), value.to_string()]),
            WhichRows::All => grid.push(vec![name.into(), value.to_string(), sentence(help)]),
        }
    }
    text.push('\n');
    grid.write_with_words(text, colour);
    let drains = figures.counters.drains();
    if drains.iter().all(|n| *n == 0) {
        return;
    }
    let mut grid = Grid::new(&["slabs drained by one free", "frees"]);
    for (nth, frees) in drains.iter().enumerate().filter(|(_, frees)| **frees > 0) {
        grid.push(vec![bucket(nth), frees.to_string()]);
    }
    text.push('\n');
    grid.write(text, colour);
}

/// The slabs that a bucket of drains is for.
pub fn bucket(nth: usize) -> String {
    match nth {
        0 => "1".into(),
        1 => "2".into(),
        n if n == DRAIN_BUCKETS - 1 => format!("{} and more", (1u64 << (n - 1)) + 1),
        n => format!("{} to {}", (1u64 << (n - 1)) + 1, 1u64 << n),
    }
}

fn series(text: &mut String, figures: &Figures, colour: Colour) {
    if figures.series.is_empty() {
        return;
    }
    let mut grid = Grid::new(&["time", "slabs", "bytes", "live", "parked"]);
    for point in &figures.series {
        grid.push(vec![
            seconds(point.time_ns),
            count(point.totals.slabs),
            bytes(point.totals.bytes),
            bytes(point.totals.live),
            bytes(point.totals.parked),
        ]);
    }
    text.push('\n');
    grid.write(text, colour);
    if std::io::stdout().is_terminal() {
        curves(text, &figures.series, Bars::of_terminal());
    }
}

/// The curves of the samples, each in a line.
fn curves(text: &mut String, series: &[SlabsAtTime], bars: Bars) {
    let mut line = |what: &str, get: SumOf| {
        let values: Vec<Option<u64>> = series.iter().map(|point| get(&point.totals)).collect();
        let known = || values.iter().flatten().copied();
        if let Some((low, high)) = known().min().zip(known().max()) {
            let curve: Vec<Option<f64>> = values.iter().map(|v| v.map(|v| v as f64)).collect();
            let curve = bars.sparkline(&curve, CURVE);
            let (low, high) = (bytes(Some(low)), bytes(Some(high)));
            let _ = writeln!(text, "{what:<6}  {curve}  {low} to {high}");
        }
    };
    line("bytes", |sum| sum.bytes);
    line("live", |sum| sum.live);
    line("parked", |sum| sum.parked);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_its_bounds_beside_it_and_the_unknown_has_none() {
        let point = |time_ns, bytes| SlabsAtTime {
            time_ns,
            totals: Sum { bytes: Some(bytes), ..Sum::default() },
            caches: Default::default(),
        };
        let mut text = String::new();
        curves(&mut text, &[point(0, 2048), point(1, 4096), point(2, 1024)], Bars::Ascii);
        assert_eq!(text, "bytes   :#_  1.0 KiB to 4.0 KiB\n");
    }

    #[test]
    fn buckets_of_drains_have_no_gap() {
        let all: Vec<String> = (0..DRAIN_BUCKETS).map(bucket).collect();
        assert_eq!(all[..5], ["1", "2", "3 to 4", "5 to 8", "9 to 16"]);
        assert_eq!(all[DRAIN_BUCKETS - 1], "1025 and more");
    }
}
