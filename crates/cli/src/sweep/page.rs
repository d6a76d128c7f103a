//! A sweep's table as a page: the fronts, the memory by each varied key, and all points.
//!
//! Invariant: the charts have the numbers of [`Report::json`].

use super::report::Report;
use crate::failure::Failure;
use crate::html;
use crate::terminal::bytes;
use slabyard_ask::sweep::Row;
use slabyard_ask::sweep::columns::{self, Value};
use slabyard_ask::sweep::summary::{Compared, Front, VariedKey, value};
use slabyard_page::{Axis, Cell, Chart, Page, Section, Series, Table, Unit};
use std::collections::BTreeSet;

/// Fronts and traces that have a colour or a chart of their own; all points have a colour, too.
const MOST_SERIES: usize = 7;
/// Values of a key that get a bar each.
const MOST_BARS: usize = 24;
/// Points that have a row.
const MOST_ROWS: usize = 2000;

/// Measures of the table of points, after memory: heads and columns.
const COUNTS: [(&str, &str); 3] = [
    ("slow calls", "slow_calls_per_million"),
    ("list locks", "list_locks_per_million"),
    ("page calls", "page_calls_per_million"),
];

/// Draws the fronts and the memory by each key, and lists the points.
pub(super) fn of(report: &Report<'_>) -> Result<Page, Failure> {
    let rows = &report.table.rows;
    let traces = traces(report);
    let of = match traces.first() {
        Some(one) if traces.len() == 1 => one.clone(),
        _ => format!("{} traces", traces.len()),
    };
    let title = format!("Sweep: {} points of {of}", rows.len());
    let mut first = Section::new("Memory and work").text(format!("{}.", report.line));
    for line in report.trust() {
        first = first.text(line);
    }
    let mut page = html::page(title, report.json()?).with(fronts(report, first));
    if !report.summary.keys.is_empty() {
        let keys = report.summary.keys.iter().enumerate();
        let section = Section::new("Memory by each varied key").text(
            "Of all points with a value of the key: the least, the middle and the most memory of all \
             slabs, in the mean over the time of the trace.",
        );
        page = page.with(keys.fold(section, |section, (nth, key)| by_key(section, nth, key)));
    }
    Ok(page.with(points(report)))
}

/// File names of the traces.
fn traces(report: &Report<'_>) -> BTreeSet<String> {
    let Report { table, .. } = report;
    table.rows.iter().map(|row| value(&table.columns, row, "trace").text()).collect()
}

/// A chart for each trace, because loads of other sizes would push each other into corners.
fn fronts(report: &Report<'_>, mut section: Section) -> Section {
    let all = &report.summary.fronts;
    let mut traces: Vec<&str> = all.iter().map(|front| front.trace.as_str()).collect();
    traces.dedup();
    if traces.is_empty() {
        return section.text("No point can be compared.");
    }
    let work = "Work is what calls do beyond their fast path, by the lab's table of costs.";
    section = section.text(match report.has_choice() {
        true => format!(
            "The best are the points that no other point of the same trace and machine beats in both \
             memory and work. {work}"
        ),
        false => work.into(),
    });
    for trace in traces.iter().take(MOST_SERIES) {
        let of_it: Vec<&Front> = all.iter().filter(|front| front.trace == *trace).collect();
        let title = match traces.len() {
            1 => "Slow-path work against memory".into(),
            _ => format!("Slow-path work against memory: {trace}"),
        };
        section = section.chart(front(report, title, &of_it));
    }
    match traces.len() {
        0..=MOST_SERIES => section,
        all => section.text(format!("These are the first {MOST_SERIES} of {all} traces.")),
    }
}

fn front(report: &Report<'_>, title: String, fronts: &[&Front]) -> Chart {
    let path = |key: &str| format!("/compared/*/{key}");
    let series = |name: &str, rows: Vec<usize>| {
        let series = Series::new(name, path("memory_bytes"), path("slow_path_ns"));
        series.labels(path("name")).rows(rows)
    };
    let chart = Chart::scatter(
        title,
        Axis::new("memory of all slabs, in the mean", Unit::Bytes),
        Axis::new("slow-path ns of a call", Unit::Count),
    );
    // What is drawn first is on top.
    let chart = match fronts {
        _ if !report.has_choice() => chart,
        [one] => chart.with(series("the best", one.best.clone()).connected()),
        few if few.len() <= MOST_SERIES => few.iter().fold(chart, |chart, front| {
            chart.with(series(&front.machine, front.best.clone()).connected())
        }),
        many => {
            let best = many.iter().flat_map(|front| front.best.iter().copied()).collect();
            chart.with(series(&format!("the best of {} machines", many.len()), best))
        }
    };
    let rows = &report.table.rows;
    let is_of_it = |point: &Compared| {
        value(&report.table.columns, &rows[point.row], "trace").text() == fronts[0].trace
    };
    let compared = report.summary.compared.iter().enumerate();
    let of_it = compared.filter(|(_, point)| is_of_it(point)).map(|(nth, _)| nth);
    chart.with(series("all points", of_it.collect()))
}

fn by_key(section: Section, nth: usize, key: &VariedKey) -> Section {
    let memory = Axis::new("memory of all slabs", Unit::Bytes);
    let title = format!("Memory by {}", key.key);
    let chart = match key.is_number {
        true => Chart::lines(title, Axis::new(key.key.as_str(), Unit::Count), memory),
        false => Chart::bars(title, html::names(), memory),
    };
    let series = |name: &str, trace: usize, what: &str| {
        let path = |of: &str| format!("/keys/{nth}/traces/{trace}/values/*/{of}");
        let series = Series::new(name, path("value"), path(what));
        let values = key.traces[trace].values.len();
        match key.is_number {
            true => series,
            false => series.rows(0..values.min(MOST_BARS)),
        }
    };
    let chart = match key.traces.as_slice() {
        [one] if one.values.iter().any(|value| value.points > 1) => {
            let all =
                [("most", "most_bytes"), ("middle", "median_bytes"), ("least", "least_bytes")];
            all.into_iter().fold(chart, |chart, (name, what)| chart.with(series(name, 0, what)))
        }
        [_] => chart.with(series("memory", 0, "median_bytes")),
        traces => {
            let named = traces.iter().enumerate().take(MOST_SERIES);
            named.fold(chart, |chart, (nth, of)| chart.with(series(&of.trace, nth, "median_bytes")))
        }
    };
    let section = section.chart(chart);
    match key.traces.iter().map(|of| of.values.len()).max() {
        Some(values) if values > MOST_BARS && !key.is_number => {
            section.text(format!("Bars are of the first {MOST_BARS} of {values} values."))
        }
        _ => section,
    }
}

fn points(report: &Report<'_>) -> Section {
    let (columns, rows) = (&report.table.columns, &report.table.rows);
    let axes = columns::axes(columns);
    let of = |row: &Row, name: &str| value(columns, row, name).clone();
    let has = |name: &str| rows.iter().any(|row| of(row, name) != Value::Unknown);
    let traces = traces(report);
    let words = ["out_of_memory_ns", "impossible"].map(|name| (name, has(name)));
    let mut heads: Vec<String> = (traces.len() > 1).then(|| "trace".into()).into_iter().collect();
    heads.extend(axes.clone().map(|axis| columns[axis].name.clone()));
    heads.extend(report.has_choice().then(|| "best".into()));
    heads.extend(["memory", "peak", "parked", "slow-path ns"].map(String::from));
    heads.extend(COUNTS.map(|(head, _)| head.into()));
    heads.extend(words.iter().filter(|(_, has)| *has).map(|(name, _)| name.replace('_', " ")));
    let best: BTreeSet<usize> =
        report.summary.fronts.iter().flat_map(|front| front.best.iter().copied()).collect();
    let mut compared = report.summary.compared.iter().enumerate().peekable();
    let mut table = Table::new(heads);
    for (nth, row) in rows.iter().enumerate().take(MOST_ROWS) {
        let point = compared.next_if(|(_, point)| point.row == nth);
        let mut cells = Vec::new();
        if traces.len() > 1 {
            cells.push(Cell::text(of(row, "trace").text()));
        }
        cells.extend(axes.clone().map(|axis| cell(&row.cells()[axis])));
        if report.has_choice() {
            let is_best = point.is_some_and(|(nth, _)| best.contains(&nth));
            cells.push(Cell::text(if is_best { "yes" } else { "" }));
        }
        let memory = point.map(|(_, point)| Value::Whole(point.memory_bytes));
        cells.push(memory_cell(&memory.unwrap_or(Value::Unknown)));
        cells.extend(["peak_bytes", "parked_mean_bytes"].map(|name| memory_cell(&of(row, name))));
        let work = point.map(|(_, point)| Value::Decimal(point.slow_path_ns));
        cells.push(cell(&work.unwrap_or(Value::Unknown)));
        cells.extend(COUNTS.map(|(_, name)| match of(row, name) {
            Value::Decimal(number) => Cell::number(format!("{number:.0}"), number),
            _ => Cell::unknown(),
        }));
        let said = words.iter().filter(|(_, has)| *has);
        cells.extend(said.map(|(name, _)| Cell::text(of(row, name).text())));
        table.push(cells);
    }
    let section = Section::new("Points").text(
        "Memory is of all slabs in the mean, the peak that of slabs that events touch, and parked are \
         free objects on CPUs and in barns. Counts are of a million calls. A click on a head sorts.",
    );
    match rows.len() {
        0..=MOST_ROWS => section.table(table),
        all => section.text(format!("The first {MOST_ROWS} of {all} points.")).table(table),
    }
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Whole(number) => Cell::number(number.to_string(), *number as f64),
        Value::Decimal(number) => Cell::number(format!("{number:.3}"), *number),
        Value::Words(text) => Cell::text(text.as_str()),
        Value::Unknown => Cell::unknown(),
    }
}

fn memory_cell(value: &Value) -> Cell {
    match value {
        Value::Whole(number) => Cell::number(bytes(Some(*number)), *number as f64),
        _ => Cell::unknown(),
    }
}
