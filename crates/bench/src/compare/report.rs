//! All measurements, in the format in which they are written to a file.
//!
//! `text` prints a report; the suite `programs` writes its results as [`Raw`] too.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::calls::{Calls, Counted};
use super::judge::{self, Loss};
use super::measures::{Failure, Load, MEASURES};
use super::results::{Mean, Results, Samples};
use crate::allocators::Allocator;
use crate::args::CompareOptions;
use crate::goals::Goal;
use crate::machine::Machine;
use crate::measured::Head;
use crate::peers::Absent;

/// Everything that was measured.
#[derive(Serialize)]
pub struct Report<'a> {
    #[serde(flatten)]
    pub head: Head<'a>,
    pub rounds: u32,
    pub most_rounds: u32,
    pub scale: f64,
    #[serde(rename = "settings")]
    pub sections: Vec<Section>,
}

impl<'a> Report<'a> {
    /// Of these sections, in the requested order.
    pub fn new(
        machine: &'a Machine,
        allocators: &'a [Allocator],
        absent: &'a [Absent],
        sections: Vec<Section>,
        options: &CompareOptions,
    ) -> Self {
        Self {
            head: Head::new(1, "compare", machine, allocators, absent),
            rounds: options.rounds,
            most_rounds: options.most_rounds(),
            scale: options.scale,
            sections,
        }
    }
}

/// What was measured under one setting of THP.
pub struct Section {
    pub thp: String,
    pub results: Results,
    pub goals: Vec<Goal>,
    pub losses: Vec<Loss>,
    pub calls: Counted,
}

impl Section {
    /// Judges the results.
    pub fn new(thp: &str, results: Results, calls: Counted) -> Self {
        let (goals, losses) = (judge::goals(&results), judge::losses(&results));
        Self { thp: thp.to_owned(), results, goals, losses, calls }
    }
}

/// A load with its samples, by allocator and measure.
#[derive(Serialize)]
struct RawLoad<'a> {
    #[serde(flatten)]
    load: &'a Load,
    /// Operations, or the digest of what a program wrote.
    work: Option<u64>,
    samples: BTreeMap<&'static str, BTreeMap<&'static str, Vec<u64>>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    calls: BTreeMap<&'static str, Calls>,
}

/// Results as they are written down.
#[derive(Serialize)]
pub struct Raw<'a> {
    means: BTreeMap<&'static str, BTreeMap<&'static str, Mean>>,
    failures: &'a [Failure],
    loads: Vec<RawLoad<'a>>,
}

impl<'a> Raw<'a> {
    /// Without the counts of system calls.
    pub fn new(results: &'a Results) -> Self {
        Self::with_calls(results, &[])
    }

    fn with_calls(results: &'a Results, calls: &[Vec<Option<Calls>>]) -> Self {
        let loads = 0..results.loads.len();
        let of = |load| raw(results, calls.get(load).map_or(&[], Vec::as_slice), load);
        let (means, failures) = (means(results), &results.failures);
        Self { means, failures, loads: loads.map(of).collect() }
    }
}

impl Serialize for Section {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let calls = self.calls.as_ref().map_or(&[][..], Vec::as_slice);
        let raw = Raw::with_calls(&self.results, calls);
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("thp", &self.thp)?;
        map.serialize_entry("goals", &self.goals)?;
        map.serialize_entry("means", &raw.means)?;
        map.serialize_entry("losses", &self.losses)?;
        map.serialize_entry("failures", &raw.failures)?;
        map.serialize_entry("loads", &raw.loads)?;
        map.end()
    }
}

/// By peer, then measure.
fn means(results: &Results) -> BTreeMap<&'static str, BTreeMap<&'static str, Mean>> {
    let of = |peer| {
        let means = MEASURES.iter().enumerate();
        means.filter_map(|(m, measure)| Some((measure.key, results.mean(m, peer)?))).collect()
    };
    results.peers().map(|peer| (results.allocators[peer], of(peer))).collect()
}

fn raw<'a>(results: &'a Results, calls: &[Option<Calls>], load: usize) -> RawLoad<'a> {
    // Samples are whole numbers that came as such.
    let whole = |samples: &Vec<f64>| samples.iter().map(|&sample| sample as u64).collect();
    let of = |samples: &Samples| {
        MEASURES.iter().zip(samples).map(|(measure, of)| (measure.key, whole(of))).collect()
    };
    let rows = results.allocators.iter().zip(&results.samples[load]);
    let named = results.allocators.iter().zip(calls);
    RawLoad {
        load: &results.loads[load],
        work: results.work[load],
        samples: rows.filter_map(|(name, s)| Some((*name, of(s.as_ref()?)))).collect(),
        calls: named.filter_map(|(name, calls)| Some((*name, (*calls)?))).collect(),
    }
}
