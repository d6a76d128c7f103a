//! The slow-path counters that a process wrote to its report.
//!
//! Counting costs time, so runs that count are never timed. Neighbours: `series` and `lists` start
//! the runs that count; `abi::stats` defines the counters, and `observe::report` reads the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use slabyard_abi::report::REPORT_ENV;
use slabyard_abi::stats::{CACHE_WORDS, Counter, DRAINS, WordName, add_row, drain_words, slabs_of};
use slabyard_kernels::settings::{EngineKey, engine_row};

use crate::allocators::Allocator;

/// A process's words of [`slabyard_abi::stats`]: each cache's, and all together.
#[derive(Clone, Debug)]
pub struct Counts {
    /// By the cache's name.
    pub caches: BTreeMap<String, CounterWords>,
    /// The sums.
    pub all: CounterWords,
}

/// Words as the table has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterWords([u64; CACHE_WORDS]);

/// Slow frees that drained this many slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DrainedFrees {
    /// The fewest slabs of a drain; the row reaches to the next row's.
    pub slabs: u32,
    pub frees: u64,
    /// Their nanoseconds together.
    pub ns: u64,
    pub longest_ns: u64,
}

impl CounterWords {
    /// Nothing counted.
    pub const NONE: CounterWords = CounterWords([0; CACHE_WORDS]);

    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Adds what another run, or another cache, counted.
    pub fn add(&mut self, other: &CounterWords) {
        add_row(&mut self.0, &other.0);
    }

    /// Slow frees by what they drained; rows without any are left out.
    pub fn drains(&self) -> Vec<DrainedFrees> {
        let row = |drain| {
            let [frees, ns, longest_ns] = drain_words(drain).map(|word| self.0[word]);
            DrainedFrees { slabs: slabs_of(drain).0, frees, ns, longest_ns }
        };
        (0..DRAINS).map(row).filter(|row| row.frees > 0).collect()
    }

    /// Those that are not 0, by name.
    pub fn named(&self) -> BTreeMap<String, u64> {
        let all = self.0.iter().enumerate().filter(|(_, n)| **n != 0);
        all.map(|(nth, n)| (WordName(nth).to_string(), *n)).collect()
    }
}

/// The same allocator, counting; what it counted will be in `file`.
pub fn counting(allocator: &Allocator, file: &Path) -> Allocator {
    let mut counting = allocator.clone();
    counting.settings.push((engine_row(EngineKey::Count).env, "1".to_owned()));
    counting.settings.push((REPORT_ENV, file.display().to_string()));
    counting
}

/// What the process that ended counted.
pub fn read(file: &Path) -> Result<Counts> {
    let bytes = fs::read(file)
        .with_context(|| format!("{}: the process left no report", file.display()))?;
    let snapshot = slabyard_observe::report::parse(&bytes)?;
    let names: Vec<String> = (0..CACHE_WORDS).map(|nth| WordName(nth).to_string()).collect();
    let mut counts = Counts { caches: BTreeMap::new(), all: CounterWords::NONE };
    for cache in &snapshot.caches {
        let mut words = CounterWords::NONE;
        for (word, name) in words.0.iter_mut().zip(&names).filter(|(_, name)| !name.is_empty()) {
            *word = cache.exact(name).unwrap_or(0);
        }
        if words != CounterWords::NONE {
            counts.all.add(&words);
            counts.caches.insert(cache.name.clone(), words);
        }
    }
    ensure!(counts.all != CounterWords::NONE, "{}: nothing was counted", file.display());
    Ok(counts)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::allocators::Bench;
    use slabyard_abi::counters::CacheCounters;
    use slabyard_abi::report::Writer;

    /// Words with these counters, and the drains `(drain, frees, ns, longest)`.
    pub fn words(counters: &[(Counter, u64)], drains: &[(usize, [u64; 3])]) -> CounterWords {
        let mut words = CounterWords::NONE;
        for &(counter, n) in counters {
            words.0[counter as usize] = n;
        }
        for (drain, numbers) in drains {
            for (word, n) in drain_words(*drain).into_iter().zip(numbers) {
                words.0[word] = *n;
            }
        }
        words
    }

    #[test]
    fn what_caches_counted_is_read_and_added_up() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut text = String::new();
        let mut writer = Writer::new(&mut text).unwrap();
        let one = words(&[(Counter::ListLock, 5)], &[(2, [3, 900, 700])]);
        let two = words(&[(Counter::ListLock, 7)], &[(2, [1, 100, 100]), (4, [2, 50, 40])]);
        for (name, words) in
            [("malloc-64", one), ("malloc-80", two), ("malloc-96", CounterWords::NONE)]
        {
            writer.cache(name, &CacheCounters::default()).unwrap();
            writer.counts(name, &words.0).unwrap();
        }
        writer.end().unwrap();
        fs::write(file.path(), &text).unwrap();

        let counts = read(file.path()).unwrap();
        assert_eq!(counts.caches.keys().collect::<Vec<_>>(), ["malloc-64", "malloc-80"]);
        assert_eq!(counts.caches["malloc-80"], two);
        assert_eq!(counts.all.get(Counter::ListLock), 12);
        let row = |slabs, frees, ns, longest_ns| DrainedFrees { slabs, frees, ns, longest_ns };
        assert_eq!(counts.all.drains(), [row(2, 4, 1000, 700), row(5, 2, 50, 40)]);
        assert_eq!(counts.all.named()["drain_2_longest_ns"], 700);
    }

    #[test]
    fn a_process_that_did_not_count_is_told_apart_from_one_that_counted_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "slabyard-report 1\ncache malloc-64 live=1\nend 1\n").unwrap();
        assert!(read(file.path()).unwrap_err().to_string().contains("nothing was counted"));
        fs::write(file.path(), "slabyard-report 1\ncache malloc-64 live=1\n").unwrap();
        assert!(read(file.path()).unwrap_err().to_string().contains("truncated"));
        let error = read(Path::new("/nowhere")).unwrap_err().to_string();
        assert!(error.contains("left no report"), "{error}");
    }

    #[test]
    fn counting_is_a_setting_beside_the_others() {
        let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
        let counting = counting(&bench.allocators[0], Path::new("/a/file"));
        let settings: Vec<_> = counting.environment().collect();
        assert_eq!(settings, [("SLABYARD_COUNT", "1"), ("SLABYARD_REPORT", "/a/file")]);
    }
}
