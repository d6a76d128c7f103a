//! The columns of a sweep's table: those that name a point, one for each axis, and the measures.
//!
//! Neighbours: [`super::row`] has the values. Invariants: names have their units; columns are added,
//! never renamed; a value is the same after it was written as text and read back, so numbers with a
//! fraction have three digits of it.

use crate::answer::Answer;
use std::ops::Range;

/// The type of a column's values, in each format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Numbers without a fraction.
    Whole,
    /// Numbers with three digits of a fraction.
    Decimal,
    /// A line of text.
    Words,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A count, bytes or nanoseconds.
    Whole(u64),
    /// A share or a rate.
    Decimal(f64),
    /// One line; not empty.
    Words(String),
    /// It is not known, or there is none.
    Unknown,
}

/// A column of one sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// In the heading.
    pub name: String,
    /// The type of its values.
    pub kind: ColumnKind,
}

/// A column that each sweep has.
pub struct Fixed<Of> {
    /// In the heading.
    pub name: &'static str,
    /// The type of its values.
    pub kind: ColumnKind,
    /// What it means.
    pub help: &'static str,
    of: Of,
}

impl<Of> Fixed<Of> {
    fn column(&self) -> Column {
        Column { name: self.name.into(), kind: self.kind }
    }
}

/// A measure's value in an answer.
pub type OfAnswer = fn(&Answer) -> Value;

const fn head(name: &'static str, kind: ColumnKind, help: &'static str) -> Fixed<()> {
    Fixed { name, kind, help, of: () }
}

/// Before the axes: which point it is, of which sweep.
pub static HEAD: [Fixed<()>; 8] = [
    head("point", ColumnKind::Whole, "number of the point, from 0"),
    head("points", ColumnKind::Whole, "points of the whole sweep"),
    head("question", ColumnKind::Words, "digest of traces, machine, axes and version"),
    head("id", ColumnKind::Words, "digest of the point, the same in each sweep that has it"),
    head("name", ColumnKind::Words, "trace and changes"),
    head("trace", ColumnKind::Words, "file name of the trace"),
    head("trace_digest", ColumnKind::Words, "XXH3-128 of the trace and its snapshot"),
    head("machine", ColumnKind::Words, "what `--machine` changes for all points"),
];

const fn measure(
    name: &'static str,
    kind: ColumnKind,
    help: &'static str,
    of: OfAnswer,
) -> Fixed<OfAnswer> {
    Fixed { name, kind, help, of }
}

/// After the axes; `Memory` and `Work` of [`crate::answer`] say what each is.
pub static MEASURES: [Fixed<OfAnswer>; 29] = [
    measure("rules", ColumnKind::Words, "whose rules held", |a| words(&a.rules)),
    measure("calls", ColumnKind::Whole, "allocations and frees", |a| Value::Whole(a.calls)),
    measure("peak_bytes", ColumnKind::Whole, "most of slabs", |a| Value::Whole(a.memory.peak)),
    measure("mean_bytes", ColumnKind::Whole, "mean of slabs", |a| whole(a.memory.mean)),
    measure("end_bytes", ColumnKind::Whole, "slabs at the end", |a| Value::Whole(a.memory.end)),
    measure(
        "untouched_bytes",
        ColumnKind::Whole,
        "slabs that no event touches, beside these",
        |a| count(a.memory.untouched),
    ),
    measure("live_mean_bytes", ColumnKind::Whole, "mean of live objects", |a| whole(a.memory.live)),
    measure("live_end_bytes", ColumnKind::Whole, "live at the end", |a| count(a.memory.live_end)),
    measure(
        "free_partial_mean_bytes",
        ColumnKind::Whole,
        "mean of free objects on nodes' lists",
        |a| whole(a.memory.free_partial),
    ),
    measure("parked_mean_bytes", ColumnKind::Whole, "mean of parked objects", |a| {
        whole(a.memory.parked)
    }),
    measure("cpu_slabs_mean_bytes", ColumnKind::Whole, "of these in CPU slabs", |a| {
        whole(a.memory.parked_by_place.cpu_slabs)
    }),
    measure("cpu_partial_mean_bytes", ColumnKind::Whole, "of these on CPU partial lists", |a| {
        whole(a.memory.parked_by_place.cpu_partial)
    }),
    measure("sheaves_mean_bytes", ColumnKind::Whole, "of these in sheaves", |a| {
        whole(a.memory.parked_by_place.sheaves)
    }),
    measure("barns_mean_bytes", ColumnKind::Whole, "of these in barns", |a| {
        whole(a.memory.parked_by_place.barns)
    }),
    measure("partial_slabs_end", ColumnKind::Whole, "slabs on nodes' lists at the end", |a| {
        Value::Whole(a.memory.partial_slabs)
    }),
    measure("slow_calls_per_million", ColumnKind::Decimal, "slow paths of a million calls", |a| {
        decimal(Some(a.work.slow_calls))
    }),
    measure("list_locks_per_million", ColumnKind::Decimal, "acquisitions of list locks", |a| {
        decimal(Some(a.work.list_locks))
    }),
    measure("exchanges_per_million", ColumnKind::Decimal, "compare-exchanges of slabs", |a| {
        decimal(Some(a.work.exchanges))
    }),
    measure("refills_per_million", ColumnKind::Decimal, "sheaves or CPU slabs fetched", |a| {
        decimal(Some(a.work.refills))
    }),
    measure("moved_per_million", ColumnKind::Decimal, "objects between sheaves and slabs", |a| {
        decimal(Some(a.work.moved))
    }),
    measure("page_calls_per_million", ColumnKind::Decimal, "calls to the page allocator", |a| {
        decimal(Some(a.work.page_calls))
    }),
    measure("ns_per_call", ColumnKind::Decimal, "mean of a call by the table of costs", |a| {
        decimal(Some(a.work.ns))
    }),
    measure("out_of_memory_ns", ColumnKind::Whole, "when memory ran out", |a| {
        count(a.out_of_memory_ns)
    }),
    measure("error_low", ColumnKind::Decimal, "least error to expect of the peak, a share", |a| {
        decimal(a.error.map(|(low, _)| low))
    }),
    measure("error_high", ColumnKind::Decimal, "most error to expect", |a| {
        decimal(a.error.map(|(_, high)| high))
    }),
    measure("changed", ColumnKind::Words, "in what the machine is another one", |a| {
        words(&a.changed.join(", "))
    }),
    measure("unlike", ColumnKind::Words, "why it does not compare with the traced run", |a| {
        words(a.unlike.as_deref().unwrap_or(""))
    }),
    measure("gone", ColumnKind::Words, "caches that the release does not have", |a| {
        words(a.gone.as_deref().unwrap_or(""))
    }),
    measure("notes", ColumnKind::Words, "what to know of the rules", |a| {
        words(&a.notes.join("; "))
    }),
];

/// At the end.
pub static TAIL: [Fixed<()>; 2] = [
    head("impossible", ColumnKind::Words, "why the point cannot be; it has no measures then"),
    head("checksum", ColumnKind::Words, "XXH3-64 of the row before it, as CSV"),
];

/// All columns of a sweep whose axes have these.
pub fn all(axes: impl IntoIterator<Item = Column>) -> Vec<Column> {
    let mut all: Vec<Column> = HEAD.iter().map(Fixed::column).collect();
    all.extend(axes);
    all.extend(MEASURES.iter().map(Fixed::column));
    all.extend(TAIL.iter().map(Fixed::column));
    all
}

/// Where the axes stand among all columns.
#[must_use]
pub fn axes(columns: &[Column]) -> Range<usize> {
    HEAD.len()..columns.len().saturating_sub(MEASURES.len() + TAIL.len()).max(HEAD.len())
}

/// The type of an axis's column: whole numbers, if all values are.
pub fn kind_of<'a>(values: impl IntoIterator<Item = &'a str>) -> ColumnKind {
    let is_whole = |text: &str| text.parse::<i64>().is_ok_and(|n| n >= 0 && n.to_string() == text);
    if values.into_iter().all(is_whole) { ColumnKind::Whole } else { ColumnKind::Words }
}

/// The measures of an answer.
pub fn measures(answer: &Answer) -> impl Iterator<Item = Value> {
    MEASURES.iter().map(|measure| (measure.of)(answer))
}

/// Words in one line; none if there are none.
pub fn words(text: &str) -> Value {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { Value::Unknown } else { Value::Words(line) }
}

fn count(number: Option<u64>) -> Value {
    number.map_or(Value::Unknown, Value::Whole)
}

fn whole(number: f64) -> Value {
    count(number.is_finite().then(|| number.round().max(0.0) as u64))
}

fn decimal(number: Option<f64>) -> Value {
    let rounded = |n: f64| (n * 1000.0).round() / 1000.0 + 0.0;
    number.filter(|n| n.is_finite()).map_or(Value::Unknown, |n| Value::Decimal(rounded(n)))
}

impl Value {
    /// As CSV has it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Value::Whole(number) => number.to_string(),
            Value::Decimal(number) => number.to_string(),
            Value::Words(text) => text.clone(),
            Value::Unknown => String::new(),
        }
    }

    /// Read back; `None`: it is no value of that kind.
    #[must_use]
    pub fn parse(text: &str, kind: ColumnKind) -> Option<Value> {
        if text.is_empty() {
            return Some(Value::Unknown);
        }
        Some(match kind {
            ColumnKind::Whole => Value::Whole(text.parse().ok()?),
            ColumnKind::Decimal => {
                Value::Decimal(text.parse().ok().filter(|n: &f64| n.is_finite())?)
            }
            ColumnKind::Words => Value::Words(text.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::MACHINE_KEYS;
    use slabyard_kernels::settings::REPLAYED;
    use std::collections::BTreeSet;

    /// A sweep may vary any key: none is another column's name.
    #[test]
    fn names_are_unique_beside_all_keys() {
        let mut names: BTreeSet<&str> = REPLAYED.iter().map(|key| key.name).collect();
        let mut wanted = names.len() + MACHINE_KEYS.len();
        names.extend(MACHINE_KEYS.iter().map(|key| key.name));
        for column in all([]) {
            wanted += 1;
            names.insert(column.name.leak());
        }
        assert_eq!(names.len(), wanted);
    }

    #[test]
    fn values_are_the_same_after_they_were_text() {
        let third = decimal(Some(1e9 / 3.0));
        assert_eq!(third.text(), "333333333.333");
        for (value, kind) in [
            (third, ColumnKind::Decimal),
            (decimal(Some(-0.0001)), ColumnKind::Decimal),
            (Value::Whole(u64::from(u32::MAX)), ColumnKind::Whole),
            (words("two\n words"), ColumnKind::Words),
            (Value::Unknown, ColumnKind::Whole),
        ] {
            assert_eq!(Value::parse(&value.text(), kind), Some(value));
        }
        assert_eq!(Value::parse("x", ColumnKind::Whole), None);
        assert_eq!(decimal(Some(-0.0001)).text(), "0");
        assert_eq!((kind_of(["1", "64"]), kind_of(["4k"])), (ColumnKind::Whole, ColumnKind::Words));
        assert_eq!(kind_of(["6.1", "7"]), ColumnKind::Words);
    }
}
