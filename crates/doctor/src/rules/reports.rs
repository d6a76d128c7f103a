//! Rules of what a kernel's log reports, and of caches whose name says who allocates from them.

use super::kernel::{last, owners, with_names};
use crate::finding::{Confidence, Finding, Level, Remedy, Severity};
use crate::rule::{Case, Rule, Says, listed, with_share};
use crate::verdict::kernel::{KernelCache, KernelMemory};
use slabyard_observe::Value;
use slabyard_observe::incident::{Incident, IncidentKind, SiteRole};
use slabyard_observe::view::cell::{clean, human};

/// Incidents that the last look tells.
fn incidents<'a>(case: &'a Case<'_>, kind: IncidentKind) -> impl Iterator<Item = &'a Incident> {
    let snapshot = case.last().snapshot.as_ref();
    snapshot.into_iter().flat_map(|it| &it.incidents).filter(move |it| it.kind == kind)
}

pub(super) fn corruption(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let of = |incident: &Incident| {
        let cache = clean(incident.cache.as_deref().unwrap_or("a cache"));
        let site = |role: SiteRole, words: &str| {
            let site = incident.sites.iter().find(|site| site.role == role)?;
            Some(format!("{words} {}", clean(&site.function)))
        };
        let sites: Vec<String> = [
            site(SiteRole::Allocated, "it was allocated by"),
            site(SiteRole::Freed, "freed before by"),
        ]
        .into_iter()
        .flatten()
        .collect();
        rule.finding(Says {
            says: format!(
                "Memory is corrupt: {} An object of {cache} is not as the kernel left it; {}.",
                clean(&incident.text),
                if sites.is_empty() { "nothing tells who had it".into() } else { listed(&sites) }
            ),
            bytes: 0,
            numbers: Vec::new(),
            caches: vec![cache],
            confidence: Confidence::high("the kernel checked it"),
            evidence: vec!["dmesg".into()],
            remedy: Remedy::in_words(rule.remedy),
        })
    };
    incidents(case, IncidentKind::Corruption).take(1).map(of).collect()
}

pub(super) fn out_of_memory(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some((now, memory)) = last(case) else { return Vec::new() };
    let (Some(incident), Some(held)) =
        (incidents(case, IncidentKind::OutOfMemory).next(), now.unreclaimable)
    else {
        return Vec::new();
    };
    let Some(cache) = now.caches.iter().find(|cache| cache.reclaimable != Some(true)) else {
        return Vec::new();
    };
    if !rule.threshold.is_reached(held, memory) {
        return Vec::new();
    }
    let program = incident.program.as_deref().map(|it| format!(" while {} ran", clean(it)));
    let mut finding = rule.finding(Says {
        says: format!(
            "Memory ran out{} because the kernel's own slabs take it: {} is unreclaimable slab, {} of it {}.",
            program.unwrap_or_default(),
            with_share(held, memory),
            human(cache.bytes),
            with_names(cache)
        ),
        bytes: held,
        numbers: vec![("unreclaimable", held), ("memory", memory), ("largest", cache.bytes)],
        caches: vec![cache.name.clone()],
        confidence: Confidence::high("the kernel's own report"),
        evidence: vec![format!("slabyard list {}", case.typed())],
        remedy: Remedy::in_words(rule.remedy),
    });
    owners(case, cache, &mut finding);
    vec![finding]
}

pub(super) fn no_block(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let failed = incidents(case, IncidentKind::AllocationFailure);
    let Some(incident) = failed.max_by_key(|incident| incident.order) else { return Vec::new() };
    let Some(snapshot) = &case.last().snapshot else { return Vec::new() };
    let order = incident.order.unwrap_or(0);
    let free = case.total("mem_free").and_then(Value::exact);
    let free = free.map_or_else(String::new, |free| format!(", though {} is free", human(free)));
    let of = match (&incident.cache, &incident.program) {
        (Some(cache), _) => format!(" for a slab of {}", clean(cache)),
        (None, Some(program)) => format!(" for {}", clean(program)),
        (None, None) => String::new(),
    };
    let page = snapshot.machine.page_bytes.unwrap_or(4096);
    let bytes = page.checked_shl(order).unwrap_or(u64::MAX);
    vec![rule.finding(Says {
        says: format!(
            "No free block of the order was left: {} in one piece (order {order}) could not be had{of}{free}. \
             The free memory is in smaller pieces.",
            human(bytes)
        ),
        bytes,
        numbers: vec![("order", u64::from(order)), ("bytes", bytes)],
        caches: incident.cache.iter().map(|cache| clean(cache)).collect(),
        confidence: Confidence::high("the kernel's own report"),
        evidence: vec!["cat /proc/buddyinfo".into()],
        remedy: Remedy::in_words(rule.remedy),
    })]
}

pub(super) fn tasks(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some((now, memory)) = last(case) else { return Vec::new() };
    let Some(tasks) = now.cache("task_struct") else { return Vec::new() };
    let belong = [
        "task_struct",
        "signal_cache",
        "sighand_cache",
        "mm_struct",
        "pid",
        "cred_jar",
        "files_cache",
    ];
    let caches = named(now, &belong);
    let bytes = caches.iter().map(|cache| cache.bytes).sum();
    if !rule.threshold.is_reached(bytes, memory) {
        return Vec::new();
    }
    vec![of_known(
        rule,
        case,
        format!(
            "There are {} tasks, which take {} for themselves: processes or threads are started faster than \
             they end, or are never waited for.",
            tasks.active,
            with_share(bytes, memory)
        ),
        bytes,
        &caches,
        "ps -eLo comm= | sort | uniq -c | sort -n",
    )]
}

pub(super) fn packets(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some((now, memory)) = last(case) else { return Vec::new() };
    let caches = named(now, &["skbuff_head_cache", "skbuff_fclone_cache"]);
    let total = |name: &str| case.total(name).and_then(Value::exact);
    let heads: u64 = caches.iter().map(|cache| cache.bytes).sum();
    let packets: u64 = caches.iter().map(|cache| cache.active).sum();
    let queues = total("tcp_queues").unwrap_or(0);
    if !rule.threshold.is_reached(heads, memory) {
        return Vec::new();
    }
    let sockets = total("sockets").map(|n| format!(" of {n} sockets")).unwrap_or_default();
    let queued = if queues > 0 {
        format!("; TCP counts {} in queues", human(queues))
    } else {
        String::new()
    };
    vec![of_known(
        rule,
        case,
        format!(
            "{packets} packets wait in queues{sockets}: {} for their heads alone{queued}. Programs do not read \
             what they receive, or send faster than the network takes it.",
            with_share(heads, memory)
        ),
        heads.max(queues),
        &caches,
        "ss -tm",
    )]
}

/// The caches of some names, each once: names may be of one merged cache.
fn named<'a>(now: &'a KernelMemory, names: &[&str]) -> Vec<&'a KernelCache> {
    let is_named = |cache: &&KernelCache| cache.names().any(|it| names.contains(&it.as_str()));
    now.caches.iter().filter(is_named).collect()
}

fn of_known(
    rule: &Rule,
    case: &Case<'_>,
    says: String,
    bytes: u64,
    caches: &[&KernelCache],
    evidence: &str,
) -> Finding {
    let names: Vec<String> = caches.iter().map(|cache| cache.name.clone()).collect();
    rule.finding(Says {
        says,
        bytes,
        numbers: vec![("bytes", bytes)],
        caches: names,
        confidence: Confidence::of(
            Level::Medium,
            "the caches' names say whose they are",
            "`slabyard doctor kernel --watch 60`, which sees whether they grow",
        ),
        evidence: vec![evidence.into(), format!("slabyard list {}", case.typed())],
        remedy: Remedy::in_words(rule.remedy),
    })
}

/// Says of a kernel without a finding what most of its slabs are then.
pub(super) fn notes(case: &Case<'_>, found: &[Finding]) -> Vec<Finding> {
    let Some((now, memory)) = last(case) else { return Vec::new() };
    let Some(largest) = now.caches.first() else { return Vec::new() };
    let is_worth_it = largest.bytes * 2 >= now.slab && largest.bytes * 50 >= memory;
    if !is_worth_it || found.iter().any(|finding| finding.severity == Severity::Finding) {
        return Vec::new();
    }
    vec![Says {
        says: format!(
            "It is simply live: most of the slab memory, {}, is {}, and the kernel takes it back with the \
             cached files when memory is short.",
            with_share(largest.bytes, memory),
            with_names(largest)
        ),
        bytes: largest.bytes,
        numbers: vec![("bytes", largest.bytes), ("memory", memory)],
        caches: vec![largest.name.clone()],
        confidence: Confidence::of(
            Level::Medium,
            "one look cannot tell whether it grows",
            "`slabyard doctor kernel --watch 60`",
        ),
        evidence: vec![format!("slabyard show {} {}", case.typed(), largest.name)],
        remedy: Remedy::in_words("none"),
    }
    .note("live")]
}
