//! Rules of what is outside of the heap, for processes on Slabyard and others; and the notes about
//! what cannot be seen from outside.

use crate::finding::{Confidence, Finding, Level, Remedy, Severity};
use crate::mappings::{self, MappingKind};
use crate::rule::{Case, Rule, Says, with_share};
use crate::verdict::process::ProcessMemory;
use slabyard_observe::view::cell::human;

pub(super) fn mappings(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let mut found = of_kinds(
        rule,
        case,
        &[MappingKind::Own],
        "anonymous mappings that the program made itself (mmap)",
    );
    let runtime = case.last().process.as_ref().and_then(mappings::runtime);
    for finding in &mut found {
        // A runtime that does as it always does is no finding.
        if let Some(runtime) = runtime {
            finding.severity = Severity::Note;
            finding.says += &format!(" The program is {}.", runtime.name);
            finding.confidence = Confidence::high("its files are mapped");
            finding.remedy.what = format!("see into its heap by {}", runtime.look);
        }
    }
    found
}

pub(super) fn statics(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    of_kinds(rule, case, &[MappingKind::Static], "static variables of the program")
}

pub(super) fn stacks(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let mut found = of_kinds(rule, case, &[MappingKind::Stack], "stacks of threads");
    for finding in &mut found {
        let threads = case.last().process.as_ref().map_or(0, |process| process.threads);
        finding.says += &format!(" The process has {threads} threads.");
        finding.numbers.insert("threads", threads);
    }
    found
}

pub(super) fn files(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    of_kinds(
        rule,
        case,
        &[MappingKind::File, MappingKind::Shared],
        "files that the program maps as data, and shared memory",
    )
}

pub(super) fn heap(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    if !case.process.last().is_some_and(|memory| memory.on_slabyard) {
        return Vec::new();
    }
    of_kinds(
        rule,
        case,
        &[MappingKind::Heap, MappingKind::Arena],
        "the C library's own heap, though malloc is Slabyard's",
    )
}

fn of_kinds(rule: &Rule, case: &Case<'_>, kinds: &[MappingKind], what: &str) -> Vec<Finding> {
    let Some(last) = case.process.last() else { return Vec::new() };
    let bytes = kinds.iter().map(|kind| last.kind(*kind)).sum();
    if !last.is_resident || !rule.threshold.is_reached(bytes, last.total) {
        return Vec::new();
    }
    let sums = || kinds.iter().filter_map(|kind| last.kinds.get(kind));
    let count: u64 = sums().map(|sum| sum.count).sum();
    let largest = sums().filter_map(|sum| sum.largest.as_ref()).max_by_key(|(_, bytes)| *bytes);
    let largest = largest
        .map(|(name, bytes)| format!(", the largest {} at {name}", human(*bytes)))
        .unwrap_or_default();
    let allocator = if last.on_slabyard {
        format!("; {} is the allocator's", human(of_allocator(last)))
    } else {
        String::new()
    };
    let pid = case.last().process.as_ref().map(|process| process.pid);
    vec![rule.finding(Says {
        says: format!(
            "The memory is outside of the heap: {} is {what}, in {count} mappings{largest}{allocator}.",
            with_share(bytes, last.total)
        ),
        bytes,
        numbers: vec![("bytes", bytes), ("mappings", count), ("resident", last.total)],
        caches: Vec::new(),
        confidence: Confidence::high("the kernel counts each mapping"),
        evidence: pid.map(|pid| format!("pmap -x {pid}")).into_iter().collect(),
        remedy: Remedy::of_program(rule.remedy, None),
    })]
}

/// Bytes of the allocator, live or not.
fn of_allocator(memory: &ProcessMemory) -> u64 {
    let free = memory.parked + memory.pinned + memory.free_in_slabs + memory.free;
    (memory.live() + free + memory.metadata).saturating_sub(memory.absent)
}

/// What of a process that does not run on Slabyard cannot be seen from outside.
pub(super) fn notes(case: &Case<'_>) -> Vec<Finding> {
    let is_unseen = |memory: &&ProcessMemory| !memory.is_told && !memory.kinds.is_empty();
    let Some(last) = case.process.last().filter(is_unseen) else { return Vec::new() };
    let heap = last.kind(MappingKind::Heap) + last.kind(MappingKind::Arena);
    let arenas = last.kinds.get(&MappingKind::Arena).map_or(0, |sum| sum.count);
    let arenas_are = match arenas {
        0 => String::new(),
        n => format!(" and {n} arenas of threads (MALLOC_ARENA_MAX bounds them)"),
    };
    vec![Says {
        says: format!(
            "The process does not run on Slabyard: how much of the {} of the C library's heap{arenas_are} is \
             live, parked or pinned cannot be told from outside.",
            with_share(heap, last.total)
        ),
        bytes: heap,
        numbers: vec![("heap", heap), ("arenas", arenas), ("resident", last.total)],
        caches: Vec::new(),
        confidence: Confidence::of(
            Level::Low,
            "only mappings are seen",
            "`slabyard run -- PROGRAM`, which tells each class, how full its slabs are, and what is parked",
        ),
        evidence: vec!["slabyard run --observable -- PROGRAM".into()],
        remedy: Remedy {
            what: "run it on Slabyard, or ask the C library (malloc_info)".into(),
            command: None,
            gives: None,
            risk: "another allocator has other costs",
        },
    }
    .note("unseen.heap")]
}
