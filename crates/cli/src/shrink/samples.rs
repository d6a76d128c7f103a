//! Samples the totals at intervals before and after a shrink, to show whether the memory stays
//! free.

use crate::failure::Failure;
use crate::stdout;
use serde::Serialize;
use slabyard_observe::source::SourceName;
use slabyard_observe::{Snapshot, Value};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// The totals that are watched.
const OF_KERNEL: &[&str] = &["slab"];
const OF_PROCESS: &[&str] = &["committed", "returned", "resident"];

/// The totals at one time before or after the shrink.
pub struct Sample {
    side: SampleSide,
    /// When, from the first one on.
    at: Duration,
    totals: Vec<(&'static str, Option<Value>)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum SampleSide {
    Before,
    After,
}

/// A sample in JSON.
#[derive(Serialize)]
pub struct Shape<'a> {
    side: SampleSide,
    at_ms: u64,
    totals: BTreeMap<&'a str, Option<&'a Value>>,
}

/// Samples the totals at intervals.
pub struct Watch {
    names: &'static [&'static str],
    /// Time between two samples, and how many there are on a side.
    each: Option<(Duration, u32)>,
    start: Instant,
    side: SampleSide,
    taken: Vec<Sample>,
}

impl Watch {
    pub fn new(source: &SourceName, between: Option<Duration>, samples: u32) -> Watch {
        Watch {
            names: if *source == SourceName::Kernel { OF_KERNEL } else { OF_PROCESS },
            each: between.map(|between| (between, samples)),
            start: Instant::now(),
            side: SampleSide::Before,
            taken: Vec::new(),
        }
    }

    /// From now on samples are of the time after it.
    pub fn shrunk(&mut self) {
        self.side = SampleSide::After;
    }

    /// Takes the samples of this side, each printed as it comes unless it is quiet.
    /// The first is of now; before, it waits after the last as well.
    pub fn sample(
        &mut self,
        look: &impl Fn() -> Result<Snapshot, Failure>,
        quiet: bool,
    ) -> Result<(), Failure> {
        let Some((between, samples)) = self.each else { return Ok(()) };
        for nth in 0..samples {
            if nth > 0 {
                std::thread::sleep(between);
            }
            let snapshot = look()?;
            let totals = self.names.iter().map(|name| (*name, snapshot.total(name).cloned()));
            let sample =
                Sample { side: self.side, at: self.start.elapsed(), totals: totals.collect() };
            if !quiet {
                stdout::print(sample.line().as_bytes())?;
            }
            self.taken.push(sample);
        }
        if self.side == SampleSide::Before {
            std::thread::sleep(between);
        }
        Ok(())
    }

    pub fn taken(&self) -> &[Sample] {
        &self.taken
    }
}

impl Sample {
    /// In KiB, as meminfo has it.
    fn line(&self) -> String {
        let mut line = format!("{:6.1} s", self.at.as_secs_f64());
        for (name, value) in &self.totals {
            let kib = value.as_ref().and_then(Value::exact).map(|n| n >> 10);
            let kib = kib.map_or_else(|| "-".into(), |n| n.to_string());
            let _ = write!(line, "  {name}: {kib} kB");
        }
        line + "\n"
    }

    pub fn shape(&self) -> Shape<'_> {
        Shape {
            side: self.side,
            at_ms: u64::try_from(self.at.as_millis()).unwrap_or(u64::MAX),
            totals: self.totals.iter().map(|(name, value)| (*name, value.as_ref())).collect(),
        }
    }
}
