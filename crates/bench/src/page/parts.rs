//! Parses each suite's report, and shortens it to the tables that the page shows.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::machine::Machine;
use crate::compare::judge;
use crate::screen;
use crate::stats::median;

/// At and above this share of the best peer's, a loss is reported with its reason.
const EXPLAINED_FROM: f64 = 1.25;

/// Below this, losses are counted.
const NAMED_FROM: f64 = 1.1;

#[derive(Deserialize)]
pub struct Ratio {
    pub value: f64,
    low: f64,
    high: f64,
}

impl Ratio {
    fn with_interval(&self) -> String {
        format!("{:.3} ({:.3} to {:.3})", self.value, self.low, self.high)
    }
}

/// By peer, then measure.
pub type Means = BTreeMap<String, BTreeMap<String, Ratio>>;

#[derive(Deserialize)]
pub struct NamedMeasures {
    pub name: String,
}

#[derive(Deserialize)]
struct Value {
    value: f64,
    low: f64,
}

#[derive(Deserialize)]
struct Loss {
    load: String,
    measure: String,
    best: String,
    to_best: Value,
}

#[derive(Deserialize)]
struct Failure {
    load: String,
    allocator: String,
    why: String,
}

/// What was measured under one setting of huge pages; that of programs has no name.
#[derive(Deserialize)]
pub struct Setting {
    #[serde(default)]
    thp: String,
    pub means: Means,
    losses: Vec<Loss>,
    failures: Vec<Failure>,
    pub loads: Vec<NamedMeasures>,
}

#[derive(Deserialize)]
struct Loads {
    allocators: Vec<NamedMeasures>,
    rounds: u32,
    settings: Vec<Setting>,
    machine: Machine,
}

#[derive(Deserialize)]
struct Programs {
    allocators: Vec<NamedMeasures>,
    rounds: u32,
    #[serde(flatten)]
    setting: Setting,
}

/// The measures that are shown, and their words.
const MEASURES: [(&str, &str); 2] = [("wall_us", "wall time"), ("peak_kib", "peak memory")];

/// Of `compare`.
pub fn loads(report: &str) -> Result<String> {
    let Loads { allocators, rounds, settings, .. } = serde_json::from_str(report)?;
    let loads = settings.first().map_or(0, |setting| setting.loads.len());
    let text = format!(
        "{loads} loads, each a process timed from start to end, ran in {rounds} rounds in random \
         order. A ratio is the median over rounds of our value divided by the peer's in the same \
         round; means are geometric, with 95 % bootstrap intervals. Less is better.\n\n{}\n\n",
        means(&allocators, &settings)
    );
    Ok(text + &failed(&settings) + "\n" + &losses(&settings))
}

/// A line for each load and allocator, whatever the setting.
pub fn failed(settings: &[Setting]) -> String {
    let mut failures: Vec<String> = Vec::new();
    for Failure { load, allocator, why } in settings.iter().flat_map(|setting| &setting.failures) {
        let line =
            format!("`{load}` did not finish on {allocator}, and its means exclude it: {why}.\n");
        if !failures.contains(&line) {
            failures.push(line);
        }
    }
    failures.concat()
}

pub fn programs(report: &str) -> Result<String> {
    let Programs { allocators, rounds, setting } = serde_json::from_str(report)?;
    let settings = [setting];
    let names: Vec<&str> = settings[0].loads.iter().map(|load| load.name.as_str()).collect();
    Ok(format!(
        "{}; {rounds} rounds. Much of the time is spent outside the allocator, so means are not \
         judged; for wall time and peak memory they are {}.\n\n{}",
        names.join(", "),
        mean_pairs(&allocators, &settings[0]),
        losses(&settings)
    ))
}

/// `27 loads, on 2 CPUs (AMD EPYC)`: of `compare`, in a few words.
pub fn loads_and_machine(report: &str) -> Result<String> {
    let Loads { settings, machine, .. } = serde_json::from_str(report)?;
    let loads = settings.first().map_or(0, |setting| setting.loads.len());
    Ok(format!("{loads} loads, on {} CPUs ({})", machine.cpus.len(), machine.cpu))
}

/// Ours to each peer's, of `compare`.
pub fn table_of_means(report: &str) -> Result<String> {
    let Loads { allocators, settings, .. } = serde_json::from_str(report)?;
    Ok(means(&allocators, &settings))
}

/// `to NAME TIME and MEMORY` for each peer.
fn mean_pairs(allocators: &[NamedMeasures], setting: &Setting) -> String {
    let of = |peer: &NamedMeasures| {
        let values = MEASURES.map(|(key, _)| {
            let mean = setting.means.get(&peer.name).and_then(|means| means.get(key));
            mean.map_or("-".to_owned(), |mean| format!("{:.3}", mean.value))
        });
        format!("{} to {}", values.join(" and "), peer.name)
    };
    allocators.iter().skip(1).map(of).collect::<Vec<_>>().join(", ")
}

/// Ours to each peer's, in each setting.
fn means(allocators: &[NamedMeasures], settings: &[Setting]) -> String {
    let mut heading = vec!["ours to".to_owned()];
    for setting in settings {
        heading.extend(MEASURES.map(|(_, words)| format!("{words}, `{}`", setting.thp)));
    }
    let row = |peer: &NamedMeasures| {
        let mut row = vec![peer.name.clone()];
        for setting in settings {
            row.extend(MEASURES.map(|(key, _)| {
                let mean = setting.means.get(&peer.name).and_then(|means| means.get(key));
                mean.map_or("-".to_owned(), Ratio::with_interval)
            }));
        }
        row
    };
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    let rows = allocators.iter().skip(1).map(row).collect();
    screen::table(&heading, rows).to_string()
}

/// The loads on which a peer is ahead, by the best peer, and the reasons of the greatest losses.
pub fn losses(settings: &[Setting]) -> String {
    let mut text = "Losses, as ratios of ours to the best peer:\n\n".to_owned();
    let mut reasons: Vec<Reason> = Vec::new();
    for setting in settings {
        for (measure, word) in [("wall time", "time"), ("peak RSS", "rss")] {
            let of: Vec<&Loss> = setting.losses.iter().filter(|l| l.measure == measure).collect();
            let is_named =
                |loss: &&Loss| loss.to_best.low > 1.0 && loss.to_best.value >= NAMED_FROM;
            let (named, others): (Vec<&Loss>, Vec<&Loss>) = of.into_iter().partition(is_named);
            named.iter().for_each(|loss| explain(&mut reasons, loss, word));
            let mut told = by_peer(&named);
            if !others.is_empty() {
                told.push(format!(
                    "{} below {NAMED_FROM} or whose interval contains 1",
                    others.len()
                ));
            }
            let told = if told.is_empty() { "none".to_owned() } else { told.join("; ") };
            let thp = match setting.thp.as_str() {
                "" => String::new(),
                thp => format!(", `{thp}`"),
            };
            let _ = writeln!(text, "- {measure}{thp}: {told}");
        }
    }
    if !reasons.is_empty() {
        let _ = write!(
            text,
            "\nReasons for ratios from {EXPLAINED_FROM} on (`crates/bench/explained.txt` has all):\n\n{}",
            reasons.iter().map(Reason::line).collect::<String>()
        );
    }
    text
}

/// `glibc: load 1.373, load 1.1` for each peer that is best somewhere, the greatest loss first.
fn by_peer(losses: &[&Loss]) -> Vec<String> {
    let mut peers: Vec<&str> = Vec::new();
    for loss in losses {
        if !peers.contains(&loss.best.as_str()) {
            peers.push(&loss.best);
        }
    }
    let of = |peer: &str| {
        let of = losses.iter().filter(|loss| loss.best == peer);
        let told: Vec<String> =
            of.map(|loss| format!("`{}` {:.3}", loss.load, loss.to_best.value)).collect();
        format!("{peer}: {}", told.join(", "))
    };
    peers.into_iter().map(of).collect()
}

/// Why ours is behind, on loads that have this reason in common.
struct Reason {
    loads: Vec<String>,
    measure: String,
    why: &'static str,
}

impl Reason {
    fn line(&self) -> String {
        format!("- {}, {}: {}\n", self.loads.join(", "), self.measure, self.why)
    }
}

fn explain(reasons: &mut Vec<Reason>, loss: &Loss, word: &str) {
    if loss.to_best.value < EXPLAINED_FROM {
        return;
    }
    let (load, measure) = (format!("`{}`", loss.load), loss.measure.clone());
    let why =
        judge::explanation(judge::EXPLAINED, word, &loss.load).unwrap_or(judge::NOT_EXPLAINED);
    match reasons.iter_mut().find(|reason| reason.measure == measure && reason.why == why) {
        Some(reason) if reason.loads.contains(&load) => {}
        Some(reason) => reason.loads.push(load),
        None => reasons.push(Reason { loads: vec![load], measure, why }),
    }
}

#[derive(Deserialize)]
struct RestReport {
    allocators: Vec<NamedMeasures>,
    rounds: u32,
    parts: Vec<Burst>,
}

#[derive(Deserialize)]
struct Burst {
    objects: u64,
    large: u64,
    after: String,
    /// By allocator, then round.
    runs: Vec<Vec<RestRun>>,
}

#[derive(Deserialize)]
struct RestRun {
    moments: Vec<RestSample>,
}

#[derive(Deserialize)]
struct RestSample {
    /// Milliseconds after the last free, or a word.
    at: String,
    empty: u64,
    resident: u64,
}

/// Of `rest`: one second after the last free while pairs are made, five while nothing is called.
pub fn rest(report: &str) -> Result<String> {
    let RestReport { allocators, rounds, parts } = serde_json::from_str(report)?;
    let columns = parts.iter().map(|part| match part.after.as_str() {
        "pairs" => (part, "1000", "1 s, pairs"),
        _ => (part, "5000", "5 s, idle"),
    });
    let columns: Vec<(&Burst, &str, &str)> = columns.collect();
    let objects = parts.first().context("no part")?;
    let objects = objects.objects + objects.large;
    let mut heading = vec!["allocator".to_owned()];
    for (.., words) in &columns {
        heading.push(format!("back, {words}"));
    }
    let row = |(a, allocator): (usize, &NamedMeasures)| {
        let over = |part: &Burst, of: &dyn Fn(&RestRun) -> Option<f64>| {
            let values: Vec<f64> = part.runs.get(a)?.iter().filter_map(of).collect();
            (!values.is_empty()).then(|| median(&values))
        };
        let mut row = vec![allocator.name.clone()];
        for (part, ms, _) in &columns {
            let at = |run: &RestRun| run.moments.iter().position(|moment| moment.at == *ms);
            let back = over(part, &|run| {
                let RestSample { empty, resident, .. } = &run.moments[at(run)?];
                Some(if *empty == 0 { 1.0 } else { 1.0 - *resident as f64 / *empty as f64 })
            });
            row.push(back.map_or("-".to_owned(), |back| format!("{:.1} %", back * 100.0)));
        }
        row
    };
    let rows = allocators.iter().enumerate().map(row).collect();
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    Ok(format!(
        "The load frees 99 % of {objects} objects of 16 bytes to 8 MiB at random; then it makes 1000 \
         small pairs of calls per second, or no call. \"Back\" is the share of the pages without a \
         live object that left memory; medians of {rounds} rounds.\n\n{}\n",
        screen::table(&heading, rows)
    ))
}

#[derive(Deserialize)]
struct Latency {
    allocators: Vec<NamedMeasures>,
    rounds: u32,
    pairs: u64,
    parts: Vec<TimedReport>,
}

#[derive(Deserialize)]
struct TimedReport {
    clock: String,
    threads: u32,
    /// By allocator, then round.
    runs: Vec<Vec<TimedRun>>,
}

#[derive(Deserialize)]
struct TimedRun {
    malloc: Times,
    free: Times,
}

#[derive(Deserialize)]
struct Times {
    /// The median, and the slowest hundredth, thousandth and ten-thousandth.
    percentiles: [f64; 4],
}

/// Place of the slowest thousandth.
const P999: usize = 2;

/// Of `latency`: the slowest thousandth by thread CPU time, which is judged, and that of a thread
/// which preempts the others.
pub fn calls(report: &str) -> Result<String> {
    const FIFO: &str = "fifo";
    let Latency { allocators, rounds, pairs, parts } = serde_json::from_str(report)?;
    let judged = parts.first().context("no part")?.clock.clone();
    let is_shown = |part: &&TimedReport| part.clock == judged || part.clock == FIFO;
    let parts: Vec<&TimedReport> = parts.iter().filter(is_shown).collect();
    let first = parts.iter().find(|part| part.clock == FIFO).map_or(String::new(), |part| {
        let others = part.threads - 1;
        format!("; SCHED_FIFO: of a thread beside {others} normal ones on its CPU, in wall time")
    });
    let mut heading = vec!["p99.9, ns".to_owned()];
    for part in &parts {
        let threads = match (part.clock == FIFO, part.threads) {
            (true, _) => "SCHED_FIFO".to_owned(),
            (_, 1) => "1 thread".to_owned(),
            (_, threads) => format!("{threads} threads"),
        };
        heading.extend(["malloc", "free"].map(|call| format!("{call}, {threads}")));
    }
    let row = |(a, allocator): (usize, &NamedMeasures)| {
        let mut row = vec![allocator.name.clone()];
        for part in &parts {
            let over = |of: fn(&TimedRun) -> &Times| {
                let values: Vec<f64> =
                    part.runs[a].iter().map(|run| of(run).percentiles[P999]).collect();
                format!("{:.0}", median(&values))
            };
            row.extend([over(|run| &run.malloc), over(|run| &run.free)]);
        }
        row
    };
    let rows = allocators.iter().enumerate().map(row).collect();
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    Ok(format!(
        "The slowest thousandth of {pairs} pairs, in thread CPU time including the clock's reading\
         {first}; medians of {rounds} rounds.\n\n{}\n",
        screen::table(&heading, rows)
    ))
}

#[derive(Deserialize)]
struct Instructions {
    allocators: Vec<NamedMeasures>,
    absent: Vec<NamedMeasures>,
    valgrind: String,
    instructions_per_pair: Vec<f64>,
}

pub fn instructions(report: &str) -> Result<String> {
    let Instructions { allocators, absent, valgrind, instructions_per_pair } =
        serde_json::from_str(report)?;
    let counts = allocators.iter().zip(&instructions_per_pair);
    let counts: Vec<String> = counts.map(|(a, count)| format!("{} {count:.1}", a.name)).collect();
    let mut text = format!(
        "Those of one `malloc(64)` and `free`, including the loop ({valgrind}, where ours uses \
         private slots): {}.",
        counts.join(", ")
    );
    if !absent.is_empty() {
        let names: Vec<&str> = absent.iter().map(|absent| absent.name.as_str()).collect();
        let _ = write!(text, " Left out: {}.", names.join(", "));
    }
    Ok(text + "\n")
}
