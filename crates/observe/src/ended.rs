//! What was sampled at one moment: the yard's numbers and those of each cache.
//!
//! Neighbours: [`crate::report`] fills it, the views read it.
//! Invariant: a bit of `known` is set exactly where a source gave the number.

use slabyard_abi::counters::{CACHE_FIELDS, CacheCounters, Field, Unit, YARD_FIELDS, YardCounters};

/// One allocator at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The process that holds the yard.
    pub pid: Option<u32>,
    /// The yard's totals.
    pub yard: Numbers<YardCounters>,
    /// The caches, in the order of the source.
    pub caches: Vec<Cache>,
}

/// One cache at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// Its name, such as `malloc-64`.
    pub name: String,
    /// Its numbers.
    pub numbers: Numbers<CacheCounters>,
}

/// Counters that have a table of fields.
pub trait Counters: Copy + Default + 'static {
    /// The table.
    fn fields() -> &'static [Field<Self>];
}

impl Counters for CacheCounters {
    fn fields() -> &'static [Field<Self>] {
        CACHE_FIELDS
    }
}

impl Counters for YardCounters {
    fn fields() -> &'static [Field<Self>] {
        YARD_FIELDS
    }
}

/// The numbers of one table, each of which may be unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers<T> {
    counters: T,
    /// Bit `i` stands for row `i` of the table.
    known: u64,
}

/// One number with what its table says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// Name.
    pub name: &'static str,
    /// Unit.
    pub unit: Unit,
    /// One line of help.
    pub help: &'static str,
    /// True if it is one of the parts of a total.
    pub part: bool,
    /// The value, where it is known.
    pub value: Option<u64>,
}

impl<T: Counters> Numbers<T> {
    /// All of `counters`, known.
    #[must_use]
    pub fn all(counters: T) -> Self {
        let mut numbers = Numbers::default();
        for field in T::fields() {
            numbers.set(field.name, (field.get)(&counters));
        }
        numbers
    }

    /// The number with this name; `None` if it is unknown.
    ///
    /// # Panics
    /// If the table has no such name, which is a mistake of the caller.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        let row = Self::row(name).unwrap_or_else(|| panic!("no field is named {name}"));
        self.value(row)
    }

    /// Sets the number with this name; false if the table has no such name.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        let Some(row) = Self::row(name) else {
            return false;
        };
        (T::fields()[row].set)(&mut self.counters, value);
        self.known |= 1 << row;
        true
    }

    /// Every number, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = Number> + '_ {
        T::fields().iter().enumerate().map(|(row, field)| Number {
            name: field.name,
            unit: field.unit,
            help: field.help,
            part: field.part,
            value: self.value(row),
        })
    }

    /// The sum of the parts; `None` if one of them is unknown or the sum is
    /// beyond 64 bits.
    #[must_use]
    pub fn parts(&self) -> Option<u64> {
        self.iter().filter(|n| n.part).try_fold(0u64, |sum, n| sum.checked_add(n.value?))
    }

    /// True if the table has a field with this name.
    #[must_use]
    pub fn has_field(name: &str) -> bool {
        Self::row(name).is_some()
    }

    fn row(name: &str) -> Option<usize> {
        T::fields().iter().position(|f| f.name == name)
    }

    fn value(&self, row: usize) -> Option<u64> {
        (self.known & (1 << row) != 0).then(|| (T::fields()[row].get)(&self.counters))
    }
}

impl Cache {
    /// Free objects that CPUs and the barn hold.
    #[must_use]
    pub fn parked(&self) -> Option<u64> {
        self.numbers.get("parked_cpu")?.checked_add(self.numbers.get("parked_node")?)
    }

    /// Bytes of the live objects.
    #[must_use]
    pub fn live_bytes(&self) -> Option<u64> {
        self.numbers.get("live")?.checked_mul(self.numbers.get("slab_size")?)
    }

    /// The part of the cache's bytes that live objects use.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a share for the screen")]
    pub fn used(&self) -> Option<f64> {
        let bytes = self.numbers.get("bytes").filter(|b| *b > 0)?;
        Some(self.live_bytes()? as f64 / bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_of_known_cover_both_tables() {
        assert!(CACHE_FIELDS.len() <= 64 && YARD_FIELDS.len() <= 64);
    }

    #[test]
    fn every_field_sets_its_own_number_and_no_other() {
        fn each<T: Counters>() {
            for field in T::fields() {
                let mut numbers = Numbers::<T>::default();
                assert!(numbers.set(field.name, 7));
                for number in numbers.iter() {
                    let want = (number.name == field.name).then_some(7);
                    assert_eq!(number.value, want, "{} after {}", number.name, field.name);
                }
            }
        }
        each::<CacheCounters>();
        each::<YardCounters>();
    }

    #[test]
    fn parts_are_unknown_when_one_is() {
        let counters = YardCounters { live: 3, metadata: 4, committed: 7, ..Default::default() };
        assert_eq!(Numbers::all(counters).parts(), Some(7));
        let mut some = Numbers::<YardCounters>::default();
        some.set("live", 3);
        assert_eq!(some.parts(), None);
    }

    #[test]
    fn parts_beyond_64_bits_are_unknown() {
        let counters = YardCounters { live: u64::MAX, padding: 1, ..Default::default() };
        assert_eq!(Numbers::all(counters).parts(), None);
    }

    #[test]
    fn an_unknown_name_is_not_set() {
        assert!(!Numbers::<CacheCounters>::default().set("colour", 1));
    }

    #[test]
    fn used_is_the_live_share_and_unknown_without_bytes() {
        let counters = CacheCounters { live: 16, slab_size: 64, bytes: 4096, ..Default::default() };
        let mut cache = Cache { name: "malloc-64".into(), numbers: Numbers::all(counters) };
        assert_eq!(cache.used(), Some(0.25));
        cache.numbers.set("bytes", 0);
        assert_eq!(cache.used(), None);
    }
}
