//! Rules of a heap on Slabyard: bursts, fragmentation, classes without demand, hoards; and the note
//! that memory is simply live.

use super::sites;
use crate::finding::{Confidence, Finding, Level, Remedy, Severity};
use crate::rule::{Case, Rule, Says, listed, with_share};
use crate::verdict::process::{CacheMemory, ProcessMemory};
use slabyard_observe::Value;
use slabyard_observe::source::SourceName;
use slabyard_observe::view::cell::human;

/// Caches that a sentence names.
const NAMED: usize = 3;

/// What a shrink costs.
const SHRINK_RISK: &str =
    "the next allocations take slow paths, and the pages are touched anew: some milliseconds";

pub(super) fn burst(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some(last) = heap_of(case) else { return Vec::new() };
    let free = stays(case, |memory| memory.free);
    if !rule.threshold.is_reached(free, last.total) {
        return Vec::new();
    }
    let typed = case.typed();
    let decay = case.total("decay_ms").and_then(Value::exact);
    let waits = decay.map_or_else(String::new, |ms| {
        format!(", which pages do after {ms} ms while the program allocates")
    });
    let confidence = if case.looks.len() > 1 {
        Confidence::high(format!("it was as much {:.1} s before", case.seconds()))
    } else {
        Confidence::of(Level::Medium, "one look", "a look at the process while it runs")
    };
    vec![rule.finding(Says {
        says: format!(
            "A burst is over: {} of the memory is free pages that did not go back to the system{waits}.",
            with_share(free, last.total)
        ),
        bytes: free,
        numbers: vec![("free", free), ("resident", last.total)],
        caches: Vec::new(),
        confidence,
        evidence: vec![format!("slabyard list {typed}")],
        remedy: Remedy {
            what: "give the free pages back now; `slabyard run --helper -- PROGRAM` starts a program that \
                   does so at rest"
                .into(),
            command: shrink(case),
            gives: Some(free),
            risk: SHRINK_RISK,
        },
    })]
}

pub(super) fn one_object(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some(last) = heap_of(case) else { return Vec::new() };
    let caches = bound(last).one_object;
    let Some(of) = Stuck::of(rule, last, caches) else { return Vec::new() };
    let single: u64 = of.caches.iter().map(|cache| cache.single).sum();
    let says = format!(
        "One object keeps a slab each: {single} of {} slabs of {} have one object in use, and {} in them \
         is free for these classes alone.",
        of.slabs(),
        of.names(),
        with_share(of.free, last.total),
    );
    vec![of.finding(rule, case, says, vec![("single_object_slabs", single)])]
}

pub(super) fn calcified(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some(last) = heap_of(case) else { return Vec::new() };
    let caches = bound(last);
    let demand = caches.demand;
    let Some(of) = Stuck::of(rule, last, caches.calcified) else { return Vec::new() };
    let wanted: Vec<&CacheMemory> = well_used(last);
    let says = format!(
        "The demand moved to other size classes: {} of free memory is bound in {}, of which {} % is in use, \
         while {} of live objects are in {}, which cannot use it.",
        with_share(of.free, last.total),
        of.names(),
        of.used_percent(),
        human(demand),
        named(&wanted),
    );
    vec![of.finding(rule, case, says, vec![("demand_elsewhere", demand)])]
}

pub(super) fn fragmented(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some(last) = heap_of(case) else { return Vec::new() };
    let Some(of) = Stuck::of(rule, last, bound(last).fragmented) else { return Vec::new() };
    let sparse = of
        .caches
        .iter()
        .fold((0, 0), |sum: (u64, u64), cache| (sum.0 + cache.sparse.0, sum.1 + cache.sparse.1));
    let few = if sparse.0 > 0 {
        format!(
            " {} of their {} slabs are at most a quarter in use, by {:.1} objects each.",
            sparse.0,
            of.slabs(),
            sparse.1 as f64 / sparse.0 as f64
        )
    } else {
        String::new()
    };
    let says = format!(
        "The slabs that a burst filled are kept by the few objects that are left: {} is free in slabs of {}, \
         of which {} % is in use.{few}",
        with_share(of.free, last.total),
        of.names(),
        of.used_percent(),
    );
    vec![of.finding(
        rule,
        case,
        says,
        vec![("sparse_slabs", sparse.0), ("objects_in_them", sparse.1)],
    )]
}

pub(super) fn hoard(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some(last) = heap_of(case) else { return Vec::new() };
    let parked = stays(case, |memory| memory.parked);
    if !rule.threshold.is_reached(parked, last.total) {
        return Vec::new();
    }
    let typed = case.typed();
    let total = |name: &str| case.total(name).and_then(Value::high);
    let threads = case.last().process.as_ref().map_or(0, |process| process.threads);
    let rows = total("nr_cpus").unwrap_or(0);
    let by_thread = total("mode") == Some(3);
    let holders = if by_thread {
        format!("{rows} threads' own sheaves")
    } else {
        format!("the sheaves of {rows} CPUs")
    };
    let barns = total("parked_node").unwrap_or(0);
    let barns = if barns > 0 { format!(", {} in barns", human(barns)) } else { String::new() };
    let pages = total("parked_pages").unwrap_or(0);
    let pages =
        if pages > 0 { format!(", {} in lists of pages", human(pages)) } else { String::new() };
    vec![rule.finding(Says {
        says: format!(
            "{} is hoarded: free objects and pages in {holders}{barns}{pages}. The process has {threads} threads.",
            with_share(parked, last.total)
        ),
        bytes: parked,
        numbers: vec![("parked", parked), ("rows", rows), ("threads", threads)],
        caches: worst(last, |cache| cache.bytes.saturating_sub(cache.live + cache.free)),
        confidence: Confidence::high("each place where free objects are kept was counted"),
        evidence: vec![format!("slabyard list {typed} --sort parked")],
        remedy: Remedy {
            what: if by_thread {
                "flush them; fewer threads keep less, and so do sheaves of the CPUs (SLABYARD_MODE=rseq) \
                 instead of the threads"
                    .into()
            } else {
                "flush them; a smaller capacity of the sheaves keeps less for ever".into()
            },
            command: shrink(case),
            gives: Some(parked),
            risk: SHRINK_RISK,
        },
    })]
}

/// Says of a process without a finding what it is then: its memory is in use.
pub(super) fn notes(case: &Case<'_>, found: &[Finding]) -> Vec<Finding> {
    const LEAST: u64 = 32 << 20;
    let Some(last) = heap_of(case) else { return Vec::new() };
    let live = last.live();
    let is_most = live >= LEAST && live * 2 >= last.total;
    if !is_most || found.iter().any(|finding| finding.severity == Severity::Finding) {
        return Vec::new();
    }
    let typed = case.typed();
    let mut caches: Vec<&CacheMemory> = last.caches.iter().collect();
    caches.sort_by_key(|cache| std::cmp::Reverse(cache.live));
    let largest = caches.iter().take(NAMED).filter(|cache| cache.live > live / 50);
    let largest = largest.map(|cache| format!("{} in {}", human(cache.live), cache.name));
    let held: Vec<String> = std::iter::once(format!("{} in larger blocks", human(last.blocks)))
        .chain(largest)
        .collect();
    vec![
        Says {
            says: format!(
                "It is simply live: the program holds {}: {}.",
                with_share(live, last.total),
                listed(&held)
            ),
            bytes: live,
            numbers: vec![("live", live), ("resident", last.total)],
            caches: caches.iter().take(NAMED).map(|cache| cache.name.clone()).collect(),
            confidence: Confidence::of(
                Level::Medium,
                "one look cannot tell a leak from data that is wanted",
                format!("`slabyard doctor {typed} --watch 60`, which sees growth"),
            ),
            evidence: vec![format!("slabyard list {typed} --sort live_bytes")],
            remedy: Remedy::in_words("none: only the program can free it"),
        }
        .note("live"),
    ]
}

/// The process's memory now, if its allocator tells what is live.
fn heap_of<'a>(case: &'a Case<'_>) -> Option<&'a ProcessMemory> {
    case.process.last().filter(|memory| memory.is_told)
}

/// What was there at each look: what a busy program freed just now does not stay.
fn stays(case: &Case<'_>, of: fn(&ProcessMemory) -> u64) -> u64 {
    case.process.iter().map(of).min().unwrap_or(0)
}

/// The command, where the process may be asked.
fn shrink(case: &Case<'_>) -> Option<String> {
    let is_live = matches!(case.last().source, SourceName::Process(_));
    is_live.then(|| format!("slabyard shrink {}", case.typed()))
}

/// Caches whose free memory nothing else can use, each in one list.
struct Bound<'a> {
    one_object: Vec<&'a CacheMemory>,
    calcified: Vec<&'a CacheMemory>,
    fragmented: Vec<&'a CacheMemory>,
    /// Live bytes of caches that are well used.
    demand: u64,
}

/// Caches that are at most so many percent in use hold free memory that is worth a word.
const LOOSE_PERCENT: u64 = 75;
/// Caches that are at most so many percent in use may have lost their demand.
const LEFT_PERCENT: u64 = 50;

fn well_used(memory: &ProcessMemory) -> Vec<&CacheMemory> {
    let mut caches: Vec<_> =
        memory.caches.iter().filter(|cache| cache.used_percent() > LOOSE_PERCENT).collect();
    caches.sort_by_key(|cache| std::cmp::Reverse(cache.live));
    caches
}

fn bound(memory: &ProcessMemory) -> Bound<'_> {
    let demand = well_used(memory).iter().map(|cache| cache.live).sum();
    let loose = memory.caches.iter().filter(|cache| cache.used_percent() <= LOOSE_PERCENT);
    let is_single =
        |cache: &&CacheMemory| cache.objs_per_slab >= 4 && cache.single * 4 >= cache.slabs * 3;
    let (one_object, rest): (Vec<_>, Vec<_>) = loose.partition(is_single);
    let left = |cache: &&CacheMemory| cache.used_percent() <= LEFT_PERCENT;
    let bytes: u64 = rest.iter().filter(|cache| left(cache)).map(|cache| cache.free).sum();
    let moved = bytes > 0 && demand * 2 >= bytes;
    let (calcified, fragmented) = rest.into_iter().partition(|cache| moved && left(cache));
    Bound { one_object, calcified, fragmented, demand }
}

/// Caches with free memory that other caches cannot use.
struct Stuck<'a> {
    caches: Vec<&'a CacheMemory>,
    free: u64,
}

impl<'a> Stuck<'a> {
    /// The caches, the most free memory first; `None` below the threshold.
    fn of(
        rule: &Rule,
        memory: &ProcessMemory,
        mut caches: Vec<&'a CacheMemory>,
    ) -> Option<Stuck<'a>> {
        caches.sort_by_key(|cache| std::cmp::Reverse(cache.free));
        let free = caches.iter().map(|cache| cache.free).sum();
        // A class with a slab or two belongs to no story.
        caches.retain(|cache| cache.free > free / 50);
        rule.threshold.is_reached(free, memory.total).then_some(Stuck { caches, free })
    }

    fn slabs(&self) -> u64 {
        self.caches.iter().map(|cache| cache.slabs).sum()
    }

    fn names(&self) -> String {
        named(&self.caches)
    }

    fn used_percent(&self) -> u64 {
        let sum =
            |of: fn(&CacheMemory) -> u64| self.caches.iter().map(|cache| of(cache)).sum::<u64>();
        sum(|cache| cache.live) * 100 / sum(|cache| cache.bytes).max(1)
    }

    fn finding(
        &self,
        rule: &Rule,
        case: &Case<'_>,
        says: String,
        more: Vec<(&'static str, u64)>,
    ) -> Finding {
        let typed = case.typed();
        let first = &self.caches[0].name;
        let remedy = format!("{}; new objects of these classes fill the slabs first", rule.remedy);
        let mut numbers = vec![
            ("free", self.free),
            ("slabs", self.slabs()),
            ("used_percent", self.used_percent()),
        ];
        numbers.extend(more);
        let pins = sites::largest(case, first);
        let says = match &pins {
            Some(sites) => format!("{says} What keeps the slabs of {first}: {sites}."),
            None => says,
        };
        rule.finding(Says {
            says,
            bytes: self.free,
            numbers,
            caches: self.caches.iter().take(NAMED).map(|cache| cache.name.clone()).collect(),
            confidence: match pins {
                Some(_) => Confidence::high("each slab was counted"),
                None => Confidence::of(
                    Level::High,
                    "each slab was counted",
                    format!(
                        "the call sites of what keeps the slabs: `slabyard run --slab-debug=U,{first} -- PROGRAM`, \
                         then `slabyard doctor PID`"
                    ),
                ),
            },
            evidence: vec![format!("slabyard show {typed} {first}")],
            remedy: Remedy::of_program(remedy, Some(self.free)),
        })
    }
}

/// The caches by name, no more than a sentence has room for.
fn named(caches: &[&CacheMemory]) -> String {
    let names: Vec<&str> = caches.iter().take(NAMED).map(|cache| cache.name.as_str()).collect();
    match caches.len().saturating_sub(NAMED) {
        0 => listed(&names),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Names of the caches with most of something.
fn worst(memory: &ProcessMemory, of: impl Fn(&CacheMemory) -> u64) -> Vec<String> {
    let mut caches: Vec<&CacheMemory> = memory.caches.iter().collect();
    caches.sort_by_key(|cache| std::cmp::Reverse(of(cache)));
    caches.into_iter().take(NAMED).map(|cache| cache.name.clone()).collect()
}
