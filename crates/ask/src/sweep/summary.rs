//! What a sweep's table says in short: for each trace and machine the points that no other point beats
//! in memory and slow-path work, and the memory by each varied key.
//!
//! Neighbours: [`super::table`] has the rows; the command prints the summary and draws it. Invariants:
//! points of two traces, or of two machines, are never compared, because nobody chooses between them; a
//! point that cannot be, or whose memory ran out, is not compared.

use super::columns::{self, Column, ColumnKind, Value};
use super::row::Row;
use super::table::Table;
use crate::answer::Work;
use crate::question::MACHINE_KEYS;
use serde::Serialize;
use slabyard_lab::replay::contend::COSTS;
use std::collections::BTreeMap;

/// What a table says in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The points that are compared, in their order.
    pub compared: Vec<Compared>,
    /// One for each trace and each machine of the varied keys, in the order of the points.
    pub fronts: Vec<Front>,
    /// The keys that have several values.
    pub keys: Vec<VariedKey>,
}

/// A point with what it is compared by.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Index of its row in the table.
    #[serde(skip)]
    pub row: usize,
    /// Number in its sweep.
    pub point: usize,
    /// Trace and changes.
    pub name: String,
    /// Bytes of all slabs, in the mean over the time of the trace.
    pub memory_bytes: u64,
    /// Nanoseconds of a call beyond its fast path, in the mean: [`Work::slow_path_ns`].
    pub slow_path_ns: f64,
}

/// The points that no other of the same trace and machine beats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Front {
    /// File name of the trace.
    pub trace: String,
    /// The varied keys that are of the machine or the kernel, with their values; empty if there are none.
    pub machine: String,
    /// How many points are compared.
    pub points: usize,
    /// Indices of [`Summary::compared`], least memory first.
    pub best: Vec<usize>,
}

/// Memory by the values of a key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VariedKey {
    /// Its name.
    pub key: String,
    /// Whether its values are numbers.
    pub is_number: bool,
    /// In the order of the points.
    pub traces: Vec<OfTrace>,
}

/// Memory of one trace by the values of a key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfTrace {
    /// File name of the trace.
    pub trace: String,
    /// Numbers from the smallest on, words in the order of the points.
    pub values: Vec<OfValue>,
}

/// Memory of the points that have one value of a key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfValue {
    /// A number or words.
    pub value: serde_json::Value,
    /// How many points have it.
    pub points: usize,
    /// [`Compared::memory_bytes`] of the smallest.
    pub least_bytes: u64,
    /// Of the middle one.
    pub median_bytes: u64,
    /// Of the largest.
    pub most_bytes: u64,
}

impl Summary {
    /// Of a table with all its rows, or with those of a shard.
    #[must_use]
    pub fn of(table: &Table) -> Summary {
        let compared: Vec<Compared> = table
            .rows
            .iter()
            .enumerate()
            .filter_map(|(nth, row)| compared(&table.columns, row, nth))
            .collect();
        let fronts = fronts(table, &compared);
        let keys = columns::axes(&table.columns)
            .filter_map(|axis| varied(table, axis, &compared))
            .collect();
        Summary { compared, fronts, keys }
    }
}

/// A row's value in the column of a name.
#[must_use]
pub fn value<'a>(columns: &[Column], row: &'a Row, name: &str) -> &'a Value {
    let column = columns.iter().position(|column| column.name == name);
    column.map_or(&Value::Unknown, |at| &row.cells()[at])
}

fn number(columns: &[Column], row: &Row, name: &str) -> Option<f64> {
    match value(columns, row, name) {
        Value::Whole(number) => Some(*number as f64),
        Value::Decimal(number) => Some(*number),
        Value::Words(_) | Value::Unknown => None,
    }
}

fn compared(columns: &[Column], row: &Row, nth: usize) -> Option<Compared> {
    let of = |name| number(columns, row, name);
    if of("out_of_memory_ns").is_some() {
        return None;
    }
    let work = Work {
        slow_calls: of("slow_calls_per_million")?,
        list_locks: of("list_locks_per_million")?,
        exchanges: of("exchanges_per_million")?,
        moved: of("moved_per_million")?,
        page_calls: of("page_calls_per_million")?,
        ..Work::default()
    };
    Some(Compared {
        row: nth,
        point: row.point(),
        name: value(columns, row, "name").text(),
        memory_bytes: (of("mean_bytes")? + of("untouched_bytes").unwrap_or(0.0)) as u64,
        slow_path_ns: (work.slow_path_ns(COSTS) / 1e3).round() / 1e3,
    })
}

fn fronts(table: &Table, compared: &[Compared]) -> Vec<Front> {
    let is_of_machine =
        |axis: &usize| MACHINE_KEYS.iter().any(|key| key.name == table.columns[*axis].name);
    let machine: Vec<usize> = columns::axes(&table.columns).filter(is_of_machine).collect();
    let mut fronts: Vec<Front> = Vec::new();
    let mut known = BTreeMap::new();
    for (nth, point) in compared.iter().enumerate() {
        let row = &table.rows[point.row];
        let pair =
            |axis: &usize| format!("{}={}", table.columns[*axis].name, row.cells()[*axis].text());
        let machine = machine.iter().map(pair).collect::<Vec<_>>().join("+");
        let trace = value(&table.columns, row, "trace").text();
        let at = *known.entry((trace.clone(), machine.clone())).or_insert_with(|| {
            fronts.push(Front { trace, machine, points: 0, best: Vec::new() });
            fronts.len() - 1
        });
        fronts[at].points += 1;
        fronts[at].best.push(nth);
    }
    for front in &mut fronts {
        front.best.sort_by(|a, b| {
            let [a, b] = [a, b].map(|nth| &compared[*nth]);
            a.memory_bytes.cmp(&b.memory_bytes).then(a.slow_path_ns.total_cmp(&b.slow_path_ns))
        });
        let mut least = f64::INFINITY;
        front.best.retain(|nth| {
            let work = compared[*nth].slow_path_ns;
            let is_less = work < least;
            least = least.min(work);
            is_less
        });
    }
    fronts
}

/// Memory of the points that have each value of a key.
type BytesByValue = Vec<(Value, Vec<u64>)>;

fn varied(table: &Table, axis: usize, compared: &[Compared]) -> Option<VariedKey> {
    let column = &table.columns[axis];
    let mut traces: Vec<(String, BytesByValue)> = Vec::new();
    for point in compared {
        let row = &table.rows[point.row];
        let trace = value(&table.columns, row, "trace").text();
        if traces.last().is_none_or(|(last, _)| *last != trace) {
            traces.push((trace, Vec::new()));
        }
        let Some((_, values)) = traces.last_mut() else { continue };
        let cell = &row.cells()[axis];
        match values.iter_mut().find(|(known, _)| known == cell) {
            Some((_, bytes)) => bytes.push(point.memory_bytes),
            None => values.push((cell.clone(), vec![point.memory_bytes])),
        }
    }
    if traces.iter().all(|(_, values)| values.len() < 2) {
        return None;
    }
    let is_number = column.kind == ColumnKind::Whole;
    let of_trace = |(trace, mut values): (String, BytesByValue)| {
        if is_number {
            values.sort_by_key(
                |(value, _)| if let Value::Whole(number) = value { *number } else { 0 },
            );
        }
        OfTrace { trace, values: values.into_iter().map(of_value).collect() }
    };
    let traces = traces.into_iter().map(of_trace).collect();
    Some(VariedKey { key: column.name.clone(), is_number, traces })
}

fn of_value((value, mut bytes): (Value, Vec<u64>)) -> OfValue {
    bytes.sort_unstable();
    OfValue {
        value: match value {
            Value::Whole(number) => number.into(),
            value => value.text().into(),
        },
        points: bytes.len(),
        least_bytes: bytes[0],
        median_bytes: bytes[bytes.len() / 2],
        most_bytes: bytes[bytes.len() - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point of two keys, with its memory and its slow calls, which cost what `COSTS` says.
    fn table(points: &[(u64, &str, u64, f64)]) -> Table {
        let axis = |name: &str, kind| Column { name: name.into(), kind };
        let axes = [axis("max_order", ColumnKind::Whole), axis("release", ColumnKind::Words)];
        let columns = columns::all(axes);
        let row = |(nth, (order, release, bytes, slow)): (usize, &(u64, &str, u64, f64))| {
            let cell = |column: &Column| match column.name.as_str() {
                "point" => Value::Whole(nth as u64),
                "name" => columns::words(&format!("t:max_order={order}+release={release}")),
                "trace" => columns::words("t"),
                "max_order" => Value::Whole(*order),
                "release" => columns::words(release),
                "mean_bytes" if *bytes > 0 => Value::Whole(*bytes),
                "slow_calls_per_million" => Value::Decimal(*slow),
                name if name.ends_with("_per_million") => Value::Decimal(0.0),
                _ => Value::Unknown,
            };
            Row::of_cells(columns.iter().map(cell).take(columns.len() - 1).collect())
        };
        let rows = points.iter().enumerate().map(row).collect();
        Table { columns, rows }
    }

    #[test]
    fn a_front_has_the_points_of_a_machine_that_no_other_beats() {
        let summary = Summary::of(&table(&[
            (0, "6.1", 100, 9e6),
            (0, "7.3", 50, 1e6),
            (1, "6.1", 110, 9e6),
            (1, "7.3", 40, 2e6),
            (2, "6.1", 120, 1e6),
            (2, "7.3", 0, 1e6),
            (3, "6.1", 120, 1e6),
        ]));
        let fronts: Vec<(&str, usize, &[usize])> =
            summary.fronts.iter().map(|it| (it.machine.as_str(), it.points, &*it.best)).collect();
        // The point without a number is in none; equal points stand there once.
        assert_eq!(fronts, [("release=6.1", 4, &[0, 4][..]), ("release=7.3", 2, &[3, 1])]);
        assert_eq!(summary.compared[0].slow_path_ns, 9.0 * f64::from(COSTS.slow));
    }

    #[test]
    fn memory_by_a_key_is_that_of_all_points_that_have_the_value() {
        let summary =
            Summary::of(&table(&[(3, "b", 30, 0.0), (3, "a", 10, 0.0), (0, "b", 20, 0.0)]));
        let of = |nth: usize| -> Vec<(serde_json::Value, usize, [u64; 3])> {
            let values = &summary.keys[nth].traces[0].values;
            let bytes = |it: &OfValue| [it.least_bytes, it.median_bytes, it.most_bytes];
            values.iter().map(|it| (it.value.clone(), it.points, bytes(it))).collect()
        };
        assert_eq!(of(0), [(0.into(), 1, [20; 3]), (3.into(), 2, [10, 30, 30])]);
        assert_eq!(of(1), [("b".into(), 2, [20, 30, 30]), ("a".into(), 1, [10; 3])]);
        let one = Summary::of(&table(&[(3, "a", 30, 0.0), (0, "a", 20, 0.0)]));
        let keys: Vec<&str> = one.keys.iter().map(|it| it.key.as_str()).collect();
        assert_eq!(keys, ["max_order"], "a key of one value is not varied");
    }

    #[test]
    fn an_empty_table_says_nothing() {
        let empty = Summary::of(&Table { columns: Vec::new(), rows: Vec::new() });
        assert!(empty.compared.is_empty() && empty.fronts.is_empty() && empty.keys.is_empty());
    }
}
