//! The columns of the table: each row says what a column shows and how it sorts.
//!
//! Neighbours: [`slabyard_observe::fields`] has the numbers, [`super::history`] computes the rates.
//! Names are those of `slabyard list`, so `--sort` accepts the same names.

use super::history::{GrossKind, History, RateKind};
use super::pane::Pane;
use super::short;
use slabyard_observe::fields::{self, Field, Unit};
use slabyard_observe::snapshot::SourceKind;
use slabyard_observe::{Cache, Snapshot, Value};
use std::cmp::Ordering;

/// A column of the table: a field, or a rate of one.
#[derive(Clone, Copy)]
pub struct Column {
    /// Name: its heading, and what `--sort` takes.
    pub name: &'static str,
    /// How early it goes where the screen is narrow; 0 stays.
    pub rank: u8,
    /// Room for a range.
    room: usize,
    what: ColumnSource,
}

#[derive(Clone, Copy)]
enum ColumnSource {
    Name,
    Field(&'static Field),
    Rate(RateKind, Unit),
    Gross(GrossKind, Unit),
}

/// Names of the columns, their ranks, and the room of their cells: fields, and
/// rates (`/s`). What changes while it is looked at is a range for one look: where
/// that is an exception, the column has no room for it, so that the others stay.
const COLUMNS: &[(&str, u8, usize)] = &[
    ("name", 0, WIDEST),
    ("object_size", 9, WIDEST),
    ("live", 1, WIDEST),
    ("parked", 4, 8),
    ("slabs", 5, 7),
    ("partial", 8, 7),
    ("order", 7, WIDEST),
    ("bytes", 0, 7),
    ("used", 2, WIDEST),
    ("empties_bytes", 6, WIDEST),
    ("live/s", 3, WIDEST),
    ("objects/s", 3, WIDEST),
    ("bytes/s", 6, WIDEST),
    ("slow/s", 6, WIDEST),
    ("allocs/s", 2, WIDEST),
    ("frees/s", 3, WIDEST),
    ("allocated/s", 3, WIDEST),
];

/// Those that are counted only while call sites are shown.
const GROSS: [&str; 3] = ["allocs/s", "frees/s", "allocated/s"];

/// A cell is not wider.
pub const WIDEST: usize = 40;

/// The names of all columns but those that are fields only.
pub fn names() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().map(|(name, ..)| *name)
}

/// Columns of this rank and above are extras: they may not shorten a name.
pub const EXTRA: u8 = 8;

impl Column {
    /// The column of a name: one of the above, or any other field.
    pub fn named(name: &str) -> Option<Column> {
        let known = COLUMNS.iter().find(|(column, ..)| *column == name);
        let (rank, room) = known.map_or((0, WIDEST), |(_, rank, room)| (*rank, *room));
        let column = |name, what| Some(Column { name, rank, room, what });
        match name {
            "name" => column("name", ColumnSource::Name),
            "live/s" => column("live/s", ColumnSource::Rate(RateKind::Live, Unit::Objects)),
            "objects/s" => {
                column("objects/s", ColumnSource::Rate(RateKind::Objects, Unit::Objects))
            }
            "bytes/s" => column("bytes/s", ColumnSource::Rate(RateKind::Bytes, Unit::Bytes)),
            "slow/s" => column("slow/s", ColumnSource::Rate(RateKind::SlowPaths, Unit::Count)),
            "allocs/s" => {
                column("allocs/s", ColumnSource::Gross(GrossKind::Allocations, Unit::Count))
            }
            "frees/s" => column("frees/s", ColumnSource::Gross(GrossKind::Frees, Unit::Count)),
            "allocated/s" => {
                column("allocated/s", ColumnSource::Gross(GrossKind::Bytes, Unit::Bytes))
            }
            _ => {
                fields::field(name).and_then(|field| column(field.name, ColumnSource::Field(field)))
            }
        }
    }

    /// Those of a source beside a pane, in their order, and the one that was asked for.
    pub fn of(snapshot: &Snapshot, asked: Column, pane: Pane) -> Vec<Column> {
        // A kernel's live objects are a range too wide for a rate, and it counts
        // slow paths only where it was built to. Few sources tell of empty slabs on CPU partial
        // lists.
        let mut left_out = match snapshot.source.kind {
            SourceKind::Kernel => vec!["live/s", "slow/s"],
            _ => vec!["objects/s"],
        };
        if snapshot.caches.iter().all(|cache| cache.reading("empties_bytes").is_none()) {
            left_out.push("empties_bytes");
        }
        if pane != Pane::Sites {
            left_out.extend(GROSS);
        }
        let names = COLUMNS.iter().map(|(name, ..)| *name);
        let mut columns: Vec<Column> = names
            .filter(|name| !left_out.contains(name) || *name == asked.name)
            .filter_map(Column::named)
            .collect();
        if columns.iter().all(|column| column.name != asked.name) {
            columns.push(asked);
        }
        columns
    }

    /// One line of help.
    pub fn help(&self) -> &'static str {
        match self.what {
            ColumnSource::Name => "name of the cache",
            ColumnSource::Field(field) => field.help,
            ColumnSource::Rate(RateKind::Live, _) => "change of live objects a second",
            ColumnSource::Rate(RateKind::Objects, _) => {
                "change a second of what slabinfo calls active"
            }
            ColumnSource::Rate(RateKind::Bytes, _) => "change of bytes a second",
            ColumnSource::Rate(RateKind::SlowPaths, _) => "slow paths a second",
            ColumnSource::Gross(GrossKind::Allocations, _) => {
                "all allocations a second, while call sites are shown"
            }
            ColumnSource::Gross(GrossKind::Frees, _) => {
                "all frees a second, while call sites are shown"
            }
            ColumnSource::Gross(GrossKind::Bytes, _) => {
                "bytes of all allocations a second, while call sites are shown"
            }
        }
    }

    /// True for words, which are aligned left and sorted upwards.
    pub fn is_words(&self) -> bool {
        match self.what {
            ColumnSource::Name => true,
            ColumnSource::Field(field) => field.unit == Unit::Text,
            ColumnSource::Rate(..) | ColumnSource::Gross(..) => false,
        }
    }

    /// What is shown of a cache.
    pub fn cell(&self, snapshot: &Snapshot, history: &History, cache: &Cache) -> String {
        match self.what {
            ColumnSource::Name => cache.name.clone(),
            ColumnSource::Field(field) => {
                let value = fields::value(field, snapshot, cache);
                short::value_within(value.as_ref(), field.unit, self.room)
            }
            ColumnSource::Rate(changing, unit) => {
                short::rate(history.rate(&cache.name, changing), unit)
            }
            ColumnSource::Gross(kind, unit) => history
                .gross(&cache.name, kind)
                .map_or_else(|| short::UNKNOWN.into(), |size| short::a_second(size, unit)),
        }
    }

    /// What a cache is sorted by.
    pub fn key(&self, snapshot: &Snapshot, history: &History, cache: &Cache) -> Key {
        match self.what {
            ColumnSource::Name => Key::Words(cache.name.clone()),
            ColumnSource::Rate(changing, _) => history
                .rate(&cache.name, changing)
                .map_or(Key::Unknown, |rate| Key::Rate(rate.a_second)),
            ColumnSource::Gross(kind, _) => {
                history.gross(&cache.name, kind).map_or(Key::Unknown, Key::Rate)
            }
            ColumnSource::Field(field) => match fields::value(field, snapshot, cache) {
                None => Key::Unknown,
                Some(Value::Text(text)) => Key::Words(text),
                Some(Value::Exact(n)) => Key::Number(n, n),
                Some(Value::Range(low, high)) => Key::Number(high, low),
            },
        }
    }
}

/// What is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// A number's high end, then its low end.
    Number(u64, u64),
    /// Change a second.
    Rate(f64),
    /// Text, sorted by letters.
    Words(String),
    /// Nothing is known.
    Unknown,
}

/// Which way it is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smallest first.
    Up,
    /// Largest first.
    Down,
}

impl Direction {
    /// The way that a column is mostly wanted.
    pub fn of(column: &Column) -> Direction {
        if column.is_words() { Direction::Up } else { Direction::Down }
    }

    pub fn reversed(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }
}

impl Key {
    /// Before or behind another one; unknown ones are last either way.
    pub fn compare(&self, other: &Key, direction: Direction) -> Ordering {
        let order = match (self, other) {
            (Key::Unknown, Key::Unknown) => return Ordering::Equal,
            (Key::Unknown, _) => return Ordering::Greater,
            (_, Key::Unknown) => return Ordering::Less,
            (Key::Number(a, b), Key::Number(c, d)) => (a, b).cmp(&(c, d)),
            (Key::Rate(a), Key::Rate(b)) => a.total_cmp(b),
            (Key::Words(a), Key::Words(b)) => a.cmp(b),
            // One column gives one kind, but for a number that a cache tells in
            // words.
            (Key::Words(_), _) => Ordering::Greater,
            (_, Key::Words(_)) => Ordering::Less,
            (Key::Rate(_), Key::Number(..)) => Ordering::Less,
            (Key::Number(..), Key::Rate(_)) => Ordering::Greater,
        };
        match direction {
            Direction::Up => order,
            Direction::Down => order.reverse(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_observe::snapshot::Source;

    #[test]
    fn every_column_is_a_name_or_a_field_or_a_rate() {
        for (name, ..) in COLUMNS {
            let column = Column::named(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(column.name, *name);
            assert!(!column.help().is_empty());
        }
        assert!(Column::named("colour").is_none());
    }

    #[test]
    fn a_field_that_is_no_column_becomes_one_when_asked_for() {
        let names = |kind, asked| {
            let snapshot = Snapshot::new(Source::of(kind));
            let columns = Column::of(&snapshot, Column::named(asked).unwrap(), Pane::Closed);
            columns.iter().map(|c| c.name).collect::<Vec<_>>()
        };
        let kernel = names(SourceKind::Kernel, "bytes");
        assert!(kernel.contains(&"objects/s") && !kernel.contains(&"slow/s"));
        let process = names(SourceKind::Process, "bytes");
        assert!(process.contains(&"slow/s") && !process.contains(&"objects/s"));
        assert_eq!(names(SourceKind::Process, "align").last(), Some(&"align"));
        assert_eq!(names(SourceKind::Process, "align").len(), process.len() + 1);
        assert!(names(SourceKind::Kernel, "live/s").contains(&"live/s"));
    }

    #[test]
    fn empties_are_a_column_where_a_cache_tells_them() {
        let mut snapshot = Snapshot::new(Source::of(SourceKind::Process));
        snapshot.caches.push(Cache::new("c"));
        let has = |snapshot: &Snapshot, asked| {
            let columns = Column::of(snapshot, Column::named(asked).unwrap(), Pane::Closed);
            columns.iter().filter(|c| c.name == "empties_bytes").count()
        };
        assert_eq!((has(&snapshot, "bytes"), has(&snapshot, "empties_bytes")), (0, 1));
        snapshot.caches[0].set("empties_bytes", 0);
        assert_eq!((has(&snapshot, "bytes"), has(&snapshot, "empties_bytes")), (1, 1));
    }

    #[test]
    fn unknown_is_last_either_way() {
        let (few, many) = (Key::Number(1, 1), Key::Number(2, 0));
        for direction in [Direction::Up, Direction::Down] {
            assert_eq!(Key::Unknown.compare(&few, direction), Ordering::Greater);
            assert_eq!(few.compare(&Key::Unknown, direction), Ordering::Less);
        }
        assert_eq!(few.compare(&many, Direction::Up), Ordering::Less);
        assert_eq!(few.compare(&many, Direction::Down), Ordering::Greater);
        assert_eq!(Key::Rate(-1.0).compare(&Key::Rate(0.5), Direction::Up), Ordering::Less);
    }
}
