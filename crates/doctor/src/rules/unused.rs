//! Rules of a kernel's memory that no object in use needs: free objects in slabs, objects that CPUs
//! and nodes keep, cgroups that were removed.

use super::kernel::{DROP, DROP_RISK, last, owners};
use crate::finding::{Confidence, Finding, Level, Remedy};
use crate::recording::Recording;
use crate::rule::{Case, Rule, Says, listed, with_share};
use crate::verdict::kernel::KernelCache;
use slabyard_observe::view::cell::human;

/// What a removed memory cgroup is taken for, and more for its counters of each possible CPU:
/// `ci/dead-cgroups-by-hand` measures both.
const DEAD_CGROUP: u64 = 16 << 10;
const DEAD_CGROUP_CPU: u64 = 2 << 10;
/// Possible CPUs of a machine that does not tell.
const SOME_CPUS: u64 = 16;
pub(super) fn sparse(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some((now, memory)) = last(case) else { return Vec::new() };
    if !rule.threshold.is_reached(now.free, memory) {
        return Vec::new();
    }
    let mut caches: Vec<&KernelCache> = now.caches.iter().filter(|cache| cache.free > 0).collect();
    caches.sort_by_key(|cache| std::cmp::Reverse(cache.free));
    caches.truncate(3);
    let names: Vec<String> = caches
        .iter()
        .map(|cache| {
            let used = cache.active * cache.stride * 100 / cache.bytes.max(1);
            format!("{} in {}, of which {used} % is in use", human(cache.free), cache.name)
        })
        .collect();
    let mut finding = rule.finding(Says {
        says: format!(
            "{} is free in slabs that a few objects keep: {}.",
            with_share(now.free, memory),
            listed(&names)
        ),
        bytes: now.free,
        numbers: vec![("free", now.free), ("slab", now.slab)],
        caches: caches.iter().map(|cache| cache.name.clone()).collect(),
        confidence: Confidence::high("the kernel counts free objects of nodes' partial lists"),
        evidence: caches
            .iter()
            .take(1)
            .map(|cache| format!("slabyard show {} {}", case.typed(), cache.name))
            .collect(),
        remedy: Remedy {
            what: rule.remedy.into(),
            command: Some(DROP.into()),
            gives: Some(now.free),
            risk: DROP_RISK,
        },
    });
    if let Some(first) = caches.first() {
        owners(case, first, &mut finding);
    }
    vec![finding]
}

pub(super) fn parked(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some((now, memory)) = last(case) else { return Vec::new() };
    let gave = case.last().recording.as_ref().and_then(Recording::shrink_gave);
    let bytes = gave.unwrap_or(now.parked);
    if !rule.threshold.is_reached(bytes, memory) {
        return Vec::new();
    }
    let share = with_share(bytes, memory);
    let (says, name, confidence) = match gave {
        Some(_) => (
            format!(
                "{share} was hoarded: the caches gave it back when they were shrunk at the recording's end."
            ),
            "shrink_gave",
            Confidence::high("the kernel counted its slabs before and after"),
        ),
        None => (
            format!(
                "Up to {share} counts as active and may be parked in CPU slabs, sheaves and barns."
            ),
            "parked_at_most",
            Confidence::of(
                Level::Low,
                "it is an upper bound, from capacities",
                "`slabyard shrink kernel`, after which active objects are in use",
            ),
        ),
    };
    vec![rule.finding(Says {
        says,
        bytes,
        numbers: vec![(name, bytes), ("slab", now.slab)],
        caches: Vec::new(),
        confidence,
        evidence: vec![format!("slabyard list {} --sort parked", case.typed())],
        remedy: Remedy {
            what: rule.remedy.into(),
            command: Some("slabyard shrink kernel".into()),
            gives: Some(bytes),
            risk: "CPUs refill their sheaves: some milliseconds each",
        },
    })]
}

pub(super) fn dead_cgroups(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some((now, memory)) = last(case) else { return Vec::new() };
    let Some(files) = case.last().kernel.as_ref() else { return Vec::new() };
    let (dead, are) = match (files.dead_cgroups, files.cgroups) {
        (Some(dead), _) => (dead, "were removed and still exist"),
        (None, Some(all)) => (all, "exist, and more than directories were ever made on purpose"),
        (None, None) => return Vec::new(),
    };
    let machine = case.last().snapshot.as_ref().map(|snapshot| &snapshot.machine);
    let cpus = machine.and_then(|machine| machine.possible_cpus).map_or(SOME_CPUS, u64::from);
    let each = DEAD_CGROUP + DEAD_CGROUP_CPU * cpus;
    let bytes = dead.saturating_mul(each);
    if !rule.threshold.is_reached(bytes, memory) {
        return Vec::new();
    }
    vec![rule.finding(Says {
        says: format!(
            "{dead} memory cgroups {are}, because slab objects or cached pages are charged to those that were \
             removed: some {} for themselves, {} each on {cpus} CPUs.",
            human(bytes),
            human(each)
        ),
        bytes,
        numbers: vec![("dead_cgroups", dead), ("bytes_estimated", bytes)],
        caches: now.cache("kmem_cache").into_iter().map(|cache| cache.name.clone()).collect(),
        confidence: Confidence::of(
            Level::Medium,
            "the kernel counts them; their size is that measured on other machines",
            "the same count an hour later",
        ),
        evidence: vec!["grep dying /sys/fs/cgroup/cgroup.stat".into()],
        remedy: Remedy { what: rule.remedy.into(), command: Some(DROP.into()), gives: Some(bytes), risk: DROP_RISK },
    })]
}
