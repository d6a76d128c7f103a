//! The table of the suite `handed`: time and memory beside each peer, memory at rest, and cache
//! lines of two threads.

use anyhow::Result;
use serde::Deserialize;

use super::parts::{NamedMeasures, Setting, failed, losses};
use crate::screen;
use crate::stats::median;

#[derive(Deserialize)]
struct Handed {
    allocators: Vec<NamedMeasures>,
    rounds: u32,
    rest_ms: f64,
    rested: Vec<Rested>,
    lines: Vec<Lines>,
    #[serde(flatten)]
    setting: Setting,
}

#[derive(Deserialize)]
struct Rested {
    /// By allocator.
    readings: Vec<Option<Reading>>,
}

#[derive(Deserialize)]
struct Reading {
    idle_kib: f64,
}

#[derive(Deserialize)]
struct Lines {
    /// By allocator, then round; none where it failed.
    runs: Vec<Vec<LinesRun>>,
}

#[derive(Deserialize)]
struct LinesRun {
    lines: f64,
    apart: f64,
    alone_ps: f64,
    together_ps: f64,
}

const FAILED: &str = "failed";

/// A row for each allocator, and the losses.
pub fn tables(report: &str) -> Result<String> {
    let handed: Handed = serde_json::from_str(report)?;
    let Handed { allocators, rounds, rest_ms, lines, setting, .. } = &handed;
    let settings = std::slice::from_ref(setting);
    let rows = allocators.iter().enumerate().map(|(a, allocator)| handed.row(a, &allocator.name));
    let heading = ["", "wall time", "CPU time", "peak memory", "MiB at rest", "shared", "writes"];
    Ok(format!(
        "{} loads hand objects from thread to thread, one by one, in batches or round rings; \
         {rounds} rounds. Means are ours divided by the peer's; \"at rest\" is {} s after the last \
         free. On the worst of {} loads that write neighbours, \"shared\" is the share of cache lines \
         with objects of two CPUs' threads, \"writes\" a write's time divided by one thread's alone.\n\n\
         {}\n\n{}{}",
        setting.loads.len(),
        rest_ms / 1000.0,
        lines.len(),
        screen::table(&heading, rows.collect()),
        failed(settings),
        losses(settings),
    ))
}

impl Handed {
    fn row(&self, a: usize, name: &str) -> Vec<String> {
        let to = |key: &str| {
            let mean = self.setting.means.get(name).and_then(|means| means.get(key));
            mean.map_or("-".to_owned(), |mean| format!("{:.3}", mean.value))
        };
        let mut row = vec![name.to_owned()];
        row.extend(["wall_us", "cpu_us", "peak_kib"].map(to));
        row.push(self.mib_at_rest(a).map_or(FAILED.to_owned(), |mib| format!("{mib:.1}")));
        let shared = self.most(a, |run| run.apart / run.lines.max(1.0));
        row.push(shared.map_or(FAILED.to_owned(), |share| format!("{:.0}%", share * 100.0)));
        let writes = self.most(a, |run| run.together_ps / run.alone_ps.max(1.0));
        row.push(writes.map_or(FAILED.to_owned(), |times| format!("{times:.2}")));
        row
    }

    /// Mean over loads; none if one failed.
    fn mib_at_rest(&self, a: usize) -> Option<f64> {
        let idle = |load: &Rested| Some(load.readings.get(a)?.as_ref()?.idle_kib / 1024.0);
        let mib: Vec<f64> = self.rested.iter().map(idle).collect::<Option<_>>()?;
        Some(mib.iter().sum::<f64>() / mib.len().max(1) as f64)
    }

    /// Of the loads' medians; none if one failed.
    fn most(&self, a: usize, of: fn(&LinesRun) -> f64) -> Option<f64> {
        let over = |load: &Lines| {
            let runs: Vec<f64> = load.runs.get(a)?.iter().map(of).collect();
            (!runs.is_empty()).then(|| median(&runs))
        };
        let medians: Vec<f64> = self.lines.iter().map(over).collect::<Option<_>>()?;
        medians.into_iter().reduce(f64::max)
    }
}
