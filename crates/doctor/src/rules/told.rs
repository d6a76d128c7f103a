//! Rules of what other allocators tell of themselves: heaps of threads, pages of threads that ended,
//! address space.

use crate::finding::{Confidence, Finding, Level, Remedy};
use crate::rule::{Case, Rule, Says, with_share};
use slabyard_observe::snapshot::SourceKind;
use slabyard_observe::view::cell::human;
use slabyard_observe::{Cache, Value};

/// So many heaps of threads are many.
const MANY: u64 = 4;

/// glibc's arenas, as malloc_info(3) tells them.
pub(super) fn arenas(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let (Some(last), Some(snapshot)) = (case.process.last(), &case.last().snapshot) else {
        return Vec::new();
    };
    let is_arena = |cache: &&Cache| cache.name.starts_with("arena ");
    let arenas: Vec<&Cache> = snapshot.caches.iter().filter(is_arena).collect();
    let sum = |name: &str| -> u64 {
        arenas.iter().filter_map(|it| it.value(name).and_then(Value::high)).sum()
    };
    let (bytes, live) = (sum("bytes"), sum("live_bytes"));
    let free = bytes.saturating_sub(live);
    let count = arenas.len() as u64;
    if count < MANY || !rule.threshold.is_reached(free, last.total) {
        return Vec::new();
    }
    vec![rule.finding(Says {
        says: format!(
            "{count} arenas of the C library hold {} for {} that is live: each thread's arena keeps what the \
             others could use, {} together.",
            human(bytes),
            human(live),
            with_share(free, last.total)
        ),
        bytes: free,
        numbers: vec![("arenas", count), ("free", free), ("live", live)],
        caches: vec!["arenas".into()],
        confidence: Confidence::high("the C library counts them"),
        evidence: vec![format!("slabyard list {}", case.typed())],
        remedy: Remedy {
            what: rule.remedy.into(),
            command: Some("MALLOC_ARENA_MAX=2 PROGRAM".into()),
            gives: Some(free),
            risk: "threads wait for one another's arenas",
        },
    })]
}

/// What is free in another allocator's heap, by its own count, and in none of its size classes.
pub(super) fn free(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let (Some(last), Some(snapshot)) = (case.process.last(), &case.last().snapshot) else {
        return Vec::new();
    };
    let arenas = snapshot.caches.iter().filter(|cache| cache.name.starts_with("arena ")).count();
    if snapshot.source.kind != SourceKind::Heap || arenas as u64 >= MANY {
        return Vec::new();
    }
    let in_classes: u64 = last.caches.iter().map(|cache| cache.free).sum();
    let free = (last.free_in_slabs + last.pinned).saturating_sub(in_classes);
    if !rule.threshold.is_reached(free, last.total) {
        return Vec::new();
    }
    let is_glibc =
        matches!(case.total("engine"), Some(Value::Text(name)) if name.starts_with("glibc"));
    let remedy = match is_glibc {
        true => {
            "call malloc_trim(0), which gives back whole free pages; what is left is kept by blocks between"
        }
        false => rule.remedy,
    };
    vec![rule.finding(Says {
        says: format!(
            "{} is free in the allocator's heap and was not given back, for {} that is live: a burst is over, and \
             live blocks lie between what is free.",
            with_share(free, last.total),
            human(last.live())
        ),
        bytes: free,
        numbers: vec![("free", free), ("live", last.live()), ("heap", last.total)],
        caches: Vec::new(),
        confidence: Confidence::of(
            Level::Medium,
            "the allocator counts it, and does not say how much of it is in memory",
            "the process's /proc/PID/smaps beside it",
        ),
        evidence: vec![format!("slabyard list {}", case.typed())],
        remedy: Remedy::of_program(remedy, Some(free)),
    })]
}

/// Segments of mimalloc whose threads ended.
pub(super) fn abandoned(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some(last) = case.process.last() else { return Vec::new() };
    let total = |name: &str| case.total(name).and_then(Value::high).unwrap_or(0);
    let (all, abandoned) = (total("segments"), total("segments_abandoned"));
    let free = last.total.saturating_sub(last.live());
    let bytes = u64::try_from(u128::from(free) * u128::from(abandoned) / u128::from(all.max(1)));
    let bytes = bytes.unwrap_or(u64::MAX);
    if !rule.threshold.is_reached(bytes, last.total) {
        return Vec::new();
    }
    vec![rule.finding(Says {
        says: format!(
            "{abandoned} of {all} segments are abandoned: their threads ended, and some {} of them is free for \
             nobody until another thread adopts them.",
            with_share(bytes, last.total)
        ),
        bytes,
        numbers: vec![("segments", all), ("segments_abandoned", abandoned), ("free", bytes)],
        caches: vec!["abandoned".into()],
        confidence: Confidence::high("the allocator counts them"),
        evidence: vec![format!("slabyard list {}", case.typed())],
        remedy: Remedy::of_program(rule.remedy, Some(bytes)),
    })]
}

/// Says of an allocator that keeps address space that this is no memory.
pub(super) fn notes(case: &Case<'_>) -> Vec<Finding> {
    let (Some(last), Some(snapshot)) = (case.process.last(), &case.last().snapshot) else {
        return Vec::new();
    };
    if snapshot.source.kind != SourceKind::Heap || last.returned < last.total.max(1 << 30) {
        return Vec::new();
    }
    vec![Says {
        says: format!(
            "{} that the allocator retained is address space without memory: of {} in memory {} is live.",
            human(last.returned),
            human(last.total),
            human(last.live())
        ),
        bytes: last.returned,
        numbers: vec![("retained", last.returned), ("live", last.live())],
        caches: vec!["retained".into()],
        confidence: Confidence::high("the allocator counts both"),
        evidence: vec![format!("slabyard list {}", case.typed())],
        remedy: Remedy::in_words("none"),
    }
    .note("address-space")]
}
