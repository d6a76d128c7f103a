//! The text of a load: its keys, and what they may be.
//!
//! Neighbours: [`super::caches`] and [`super::events`] refuse what does not fit together. Invariant:
//! each message names the line, and the key or what the key holds.

use crate::rules::ranges;
use serde::Deserialize;
use std::path::PathBuf;
use toml::Spanned;

/// Most CPUs that an event can name.
const MOST_CPUS: u32 = 8192;
/// Tasks of all groups together.
const MOST_TASKS: usize = 1 << 16;

/// A whole load.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Load {
    /// How long it runs.
    pub seconds: Spanned<f64>,
    /// Of the random numbers.
    #[serde(default = "one")]
    pub seed: u64,
    /// Where it runs.
    pub machine: LoadMachine,
    /// A snapshot whose caches there are, beside those below.
    pub snapshot: Option<Spanned<PathBuf>>,
    /// Caches by name and size.
    #[serde(default)]
    pub cache: Vec<Spanned<LoadCache>>,
    /// Groups of like tasks.
    #[serde(default)]
    pub tasks: Vec<Spanned<TaskGroup>>,
}

/// The table `[machine]`; it is online as a whole.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadMachine {
    /// The kernel whose geometry the caches have.
    #[serde(default = "newest")]
    pub release: String,
    /// Bytes of a page.
    #[serde(default = "small_page")]
    pub page_size: u32,
    /// Online, and present.
    pub cpus: u32,
    /// The kernel's `nr_cpu_ids`; as many as are online, if it is left out.
    pub possible_cpus: Option<u32>,
    /// Memory nodes, among which the CPUs are shared out in order.
    #[serde(default = "one")]
    pub nodes: u32,
    /// Those without memory, as a list.
    pub memoryless: Option<Spanned<String>>,
}

/// A table `[[cache]]`, whose geometry the release computes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadCache {
    /// Its name in `allocates`.
    pub name: String,
    /// Bytes from one object to the next.
    pub size: u32,
    /// Objects in a sheaf that it requests.
    #[serde(default)]
    pub sheaf_capacity: u32,
    /// SLAB_TYPESAFE_BY_RCU.
    #[serde(default)]
    pub typesafe_by_rcu: bool,
    /// SLAB_RECLAIM_ACCOUNT.
    #[serde(default)]
    pub reclaimable: bool,
}

/// Tasks that do the same, each on its CPU.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskGroup {
    /// CPUs, as a list.
    pub cpus: Spanned<String>,
    /// How many on each CPU.
    #[serde(default = "one")]
    pub per_cpu: u32,
    /// Operations of one task.
    pub per_second: Spanned<f64>,
    /// When they begin and end, in seconds.
    #[serde(default)]
    pub from: f64,
    /// When they end.
    pub until: Option<f64>,
    /// What an operation allocates.
    pub allocates: Vec<Spanned<Allocation>>,
}

/// A part of an operation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Allocation {
    /// Whose objects.
    pub cache: String,
    /// How many at once.
    #[serde(default = "one")]
    pub count: u32,
    /// How long they live; for ever, if it is left out.
    pub lifetime_us: Option<Lifetime>,
    /// CPUs that free them, as a list.
    pub freed_on: Option<String>,
    /// The node that is requested.
    pub node: Option<i16>,
    /// The caller may not wait for memory.
    #[serde(default)]
    pub nowait: bool,
}

/// How long objects live, in microseconds.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "a number of microseconds, or two between which it is")]
pub(super) enum Lifetime {
    /// Just so long.
    Fixed(f64),
    /// Anything between.
    Between([f64; 2]),
}

fn one<T: From<u8>>() -> T {
    T::from(1)
}

fn newest() -> String {
    crate::rules::RELEASES.last().map_or_else(String::new, |release| release.name.into())
}

fn small_page() -> u32 {
    4096
}

/// What is wrong at a place of the text.
pub(super) fn at<T>(text: &str, place: &Spanned<T>, what: impl std::fmt::Display) -> String {
    at_byte(text, place.span().start, what)
}

fn at_byte(text: &str, byte: usize, what: impl std::fmt::Display) -> String {
    let line = text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1;
    format!("line {line}: {what}")
}

pub(super) fn parse(text: &str) -> Result<Load, String> {
    let load: Load = toml::from_str(text).map_err(|error| {
        at_byte(text, error.span().map_or(0, |span| span.start), error.message())
    })?;
    let seconds = *load.seconds.get_ref();
    if !(seconds > 0.0 && seconds <= 86_400.0) {
        return Err(at(text, &load.seconds, "seconds is above 0 and at most 86400"));
    }
    if !(1..=MOST_CPUS).contains(&load.machine.cpus) {
        return Err(format!("machine: cpus is from 1 to {MOST_CPUS}"));
    }
    let mut nr_tasks = 0;
    for group in &load.tasks {
        let TaskGroup { cpus, per_cpu, per_second, from, until, .. } = group.get_ref();
        let on = cpu_list(cpus.get_ref(), load.machine.cpus)
            .map_err(|what| at(text, cpus, format!("cpus: {what}")))?;
        nr_tasks += on.len() * *per_cpu as usize;
        let rate = *per_second.get_ref();
        if !(rate > 0.0 && rate <= 1e9) {
            return Err(at(text, per_second, "per_second is above 0 and at most 1e9"));
        }
        if !(*from >= 0.0 && *from < until.unwrap_or(seconds) && until.unwrap_or(0.0) <= seconds) {
            return Err(at(text, group, "tasks: from is before until, both within seconds"));
        }
        if nr_tasks > MOST_TASKS {
            return Err(at(text, group, format!("tasks: there are more than {MOST_TASKS}")));
        }
        for allocation in &group.get_ref().allocates {
            check(allocation.get_ref(), &load.machine)
                .map_err(|what| at(text, allocation, format!("allocates: {what}")))?;
        }
    }
    match load.tasks.is_empty() {
        true => Err("there are no [[tasks]]".into()),
        false => Ok(load),
    }
}

fn check(allocation: &Allocation, machine: &LoadMachine) -> Result<(), String> {
    let Allocation { count, lifetime_us, freed_on, node, .. } = allocation;
    if !(1..=4096).contains(count) {
        return Err("count is from 1 to 4096".into());
    }
    let is_time = match lifetime_us {
        None => true,
        Some(Lifetime::Fixed(us)) => *us >= 0.0,
        Some(Lifetime::Between([low, high])) => *low >= 0.0 && low <= high,
    };
    if !is_time {
        return Err("lifetime_us is a number from 0 on, or two of them in order".into());
    }
    if node.is_some_and(|node| u32::try_from(node).map_or(true, |node| node >= machine.nodes)) {
        return Err(format!("node is below the machine's {} nodes", machine.nodes));
    }
    match freed_on {
        Some(_) if lifetime_us.is_none() => {
            Err("freed_on needs lifetime_us: objects that live for ever are not freed".into())
        }
        Some(list) => {
            cpu_list(list, machine.cpus).map(drop).map_err(|what| format!("freed_on: {what}"))
        }
        None => Ok(()),
    }
}

/// The CPUs of a list such as `0-15,32`.
pub(super) fn cpu_list(list: &str, cpus: u32) -> Result<Vec<u16>, String> {
    let ranges =
        ranges(list).ok_or_else(|| format!("`{list}` is no list of CPUs such as 0-15,32"))?;
    match ranges.iter().find(|range| *range.end() >= cpus) {
        Some(range) => {
            let (low, high) = range.clone().into_inner();
            Err(format!("`{low}-{high}` is no range of CPUs 0 to {}", cpus - 1))
        }
        None => Ok(ranges.into_iter().flatten().map(|cpu| cpu as u16).collect()),
    }
}
