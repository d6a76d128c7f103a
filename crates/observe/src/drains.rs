//! How long slow frees took, grouped by how many slabs each of them drained from a CPU partial
//! list.
//!
//! A source reports these counts and times under the names of `slabyard_abi::stats`: `drain_N`,
//! `drain_N_ns`, `drain_N_longest_ns`. Views print them.

use crate::snapshot::Cache;
use serde::Serialize;
use slabyard_abi::stats::{DRAINS, WordName, drain_words, slabs_of};

/// The slow frees that drained from `least` to `most` slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DrainBucket {
    /// The fewest slabs that such a free drained.
    pub least: u32,
    /// Most slabs; `None` without a limit.
    pub most: Option<u32>,
    /// How many frees drained so many slabs.
    pub frees: u64,
    /// Nanoseconds of all of them.
    pub total_ns: u64,
    /// Of one, on average.
    pub mean_ns: u64,
    /// Nanoseconds of the longest of them.
    pub longest_ns: u64,
}

/// Those that a cache reports: sizes without a free are left out.
#[must_use]
pub fn of(cache: &Cache) -> Vec<DrainBucket> {
    let number = |word: usize| cache.exact(&WordName(word).to_string()).unwrap_or(0);
    let all = (0..DRAINS).map(|nth| (slabs_of(nth), drain_words(nth).map(number)));
    all.filter(|(_, [frees, ..])| *frees > 0)
        .map(|((least, most), [frees, total_ns, longest_ns])| DrainBucket {
            least,
            most: Some(most).filter(|most| *most != u32::MAX),
            frees,
            total_ns,
            mean_ns: total_ns / frees,
            longest_ns,
        })
        .collect()
}

/// True for the name of one of their numbers.
#[must_use]
pub fn is_name(name: &str) -> bool {
    name.starts_with("drain_")
        && (0..DRAINS).flat_map(drain_words).any(|word| WordName(word).to_string() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_comes_back_by_slabs() {
        let mut cache = Cache::new("c");
        assert_eq!(of(&cache), []);
        for (nth, numbers) in [(0, [4, 400, 300]), (DRAINS - 1, [1, 9000, 9000])] {
            for (word, number) in drain_words(nth).into_iter().zip(numbers) {
                let name = WordName(word).to_string();
                assert!(is_name(&name), "{name}");
                cache.set(name, number);
            }
        }
        let drains = of(&cache);
        let [none, many] = drains[..] else { panic!("{drains:?}") };
        assert_eq!((none.least, none.most, none.mean_ns, none.longest_ns), (0, Some(0), 100, 300));
        assert_eq!((many.least, many.most, many.frees, many.total_ns), (1025, None, 1, 9000));
        assert!(!is_name("drain_") && !is_name("drain_99") && !is_name("list_lock"));
    }
}
