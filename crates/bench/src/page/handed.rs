//! The tables of the suite `handed`: time and memory beside each peer, memory at rest, and cache
//! lines of two threads.

use anyhow::Result;
use serde::Deserialize;

use super::parts::{NamedMeasures, Ratio, Setting, losses};
use crate::screen;
use crate::stats::median;

#[derive(Deserialize)]
struct Handed {
    allocators: Vec<NamedMeasures>,
    rounds: u32,
    rest_ms: u64,
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
    trickled_kib: f64,
}

#[derive(Deserialize)]
struct Lines {
    load: String,
    /// By allocator, then round.
    runs: Vec<Option<Vec<LinesRun>>>,
}

#[derive(Deserialize)]
struct LinesRun {
    lines: f64,
    shared: f64,
    alone_ps: f64,
    together_ps: f64,
}

/// Of `handed`.
pub fn tables(report: &str) -> Result<String> {
    let handed: Handed = serde_json::from_str(report)?;
    let Handed { allocators, rounds, rest_ms, setting, .. } = &handed;
    let names: Vec<&str> = setting.loads.iter().map(|load| load.name.as_str()).collect();
    let rows = |row: &dyn Fn(usize, &str) -> Vec<String>| {
        allocators.iter().enumerate().map(|(a, of)| row(a, &of.name)).collect::<Vec<_>>()
    };
    let heading =
        ["allocator", "wall time", "CPU time", "peak memory", "MiB at rest", "after a trickle"];
    let passed = screen::table(&heading, rows(&|a, name| handed.passed(a, name)));
    let mut heading = vec!["allocator".to_owned()];
    for Lines { load, .. } in &handed.lines {
        heading.extend([format!("`{load}`: shared"), "writes".to_owned()]);
    }
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    let shared = screen::table(&heading, rows(&|a, name| handed.shared(a, name)));
    Ok(format!(
        "{}: one thread allocates, another frees, one by one, in batches or round a ring of \
         threads; {rounds} rounds. Time and peak memory are ours divided by the allocator's, \
         geometric means. Memory at rest is the mean over loads, {rest_ms} ms after the last free \
         and after a trickle of further objects.\n\n{passed}\n\n{}\n\
         Cache lines with objects of two threads, as a share of those with objects, and the time \
         of writes to them, divided by that of one thread alone:\n\n{shared}\n",
        names.join(", "),
        losses(std::slice::from_ref(setting)),
    ))
}

impl Handed {
    fn passed(&self, a: usize, name: &str) -> Vec<String> {
        let to = |key: &str| {
            let mean = self.setting.means.get(name).and_then(|means| means.get(key));
            mean.map_or("-".to_owned(), Ratio::with_interval)
        };
        let rest = |of: fn(&Reading) -> f64| {
            let read: Option<Vec<f64>> =
                self.rested.iter().map(|load| load.readings.get(a)?.as_ref().map(of)).collect();
            read.map_or("failed".to_owned(), |kib| {
                format!("{:.1}", kib.iter().sum::<f64>() / 1024.0 / kib.len().max(1) as f64)
            })
        };
        let mut row = vec![name.to_owned()];
        row.extend(["wall_us", "cpu_us", "peak_kib"].map(to));
        row.extend([rest(|reading| reading.idle_kib), rest(|reading| reading.trickled_kib)]);
        row
    }

    fn shared(&self, a: usize, name: &str) -> Vec<String> {
        let mut row = vec![name.to_owned()];
        for Lines { runs, .. } in &self.lines {
            let Some(runs) = runs.get(a).and_then(Option::as_ref).filter(|runs| !runs.is_empty())
            else {
                row.extend(["failed", "failed"].map(str::to_owned));
                continue;
            };
            let over = |of: fn(&LinesRun) -> f64| median(&runs.iter().map(of).collect::<Vec<_>>());
            row.push(format!("{:.1} %", over(|run| run.shared * 100.0 / run.lines.max(1.0))));
            row.push(format!("{:.2}", over(|run| run.together_ps / run.alone_ps.max(1.0))));
        }
        row
    }
}
