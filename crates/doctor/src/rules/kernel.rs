//! Rules of a kernel's slabs, by what can be read without BPF.

use super::growth::{self, Growth};
use crate::finding::{Confidence, Finding, Level, Remedy};
use crate::kernel_files::KernelFiles;
use crate::rule::{Case, Rule, Says, Threshold, listed, with_share};
use crate::verdict::bounded::product;
use crate::verdict::kernel::{KernelCache, KernelMemory};
use slabyard_observe::Value;
use slabyard_observe::view::cell::human;

/// Findings of growth that are told.
const GROWN: usize = 5;
/// Growth of what the kernel takes back by itself counts from so many times the threshold on.
const RECLAIMABLE_GROWTH: u64 = 8;

pub(super) const DROP: &str = "sync; echo 2 > /proc/sys/vm/drop_caches";
pub(super) const DROP_RISK: &str = "files are looked up and read anew: slower for a while";

/// The last look and what the machine's memory is taken for.
pub(super) fn last<'a>(case: &'a Case<'_>) -> Option<(&'a KernelMemory, u64)> {
    let last = case.kernel.last()?;
    // Of a text without the machine's memory four times its slabs stand for it.
    Some((last, last.memory.unwrap_or(last.slab.saturating_mul(4))))
}

fn is_reclaimable(cache: &KernelCache) -> bool {
    cache.reclaimable.unwrap_or_else(|| {
        cache.names().any(|name| {
            let known = ["dentry", "buffer_head", "radix_tree_node", "xfs_inode", "extent_status"];
            known.contains(&name.as_str())
                || name.contains("inode_cache")
                || name.contains("kmalloc-rcl")
        })
    })
}

/// Caches whose name says who allocates from them, by the beginning of the name.
const USES: [(&str, &str); 8] = [
    ("ebitmap_node", "the SELinux policy"),
    ("avtab_node", "the SELinux policy"),
    ("msg_msg", "messages of System V queues, which nobody receives"),
    ("shmem_inode", "files in tmpfs"),
    ("sock_inode", "sockets"),
    ("nf_conntrack", "connections that the firewall tracks"),
    ("filp", "open files"),
    ("vm_area_struct", "mappings of processes"),
];

fn uses(cache: &KernelCache) -> Option<&'static str> {
    USES.iter().find(|(name, _)| cache.name.starts_with(name)).map(|(_, whose)| *whose)
}

/// The owners, or what is known of them otherwise.
pub(super) fn owners(case: &Case<'_>, cache: &KernelCache, finding: &mut Finding) {
    finding.owners = case.owners.map(|owners| owners.of_cache(&cache.name)).unwrap_or_default();
    let who = match finding.owners.first() {
        Some(owner) => format!(" Most of it is held by {} ({}).", owner.who, human(owner.bytes)),
        None => match uses(cache) {
            Some(whose) => format!(" The name says whose it is: {whose}."),
            None if cache.name.starts_with("kmalloc") => format!(
                " Cannot tell whose it is, because {} has many users and no call sites were read.",
                cache.name
            ),
            None => " Its owner is unknown.".into(),
        },
    };
    finding.says += &who;
}

/// Its name, and those of the caches that it is merged with.
pub(super) fn with_names(cache: &KernelCache) -> String {
    match cache.aliases.len() {
        0 => cache.name.clone(),
        _ => format!("{} (merged with {})", cache.name, listed(&cache.aliases)),
    }
}

fn merged(cache: &KernelCache) -> String {
    match cache.aliases.len() {
        0 => String::new(),
        _ => format!(
            " The cache is merged: its objects are of any of {} and {}.",
            cache.name,
            listed(&cache.aliases)
        ),
    }
}

pub(super) fn growth(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some((now, memory)) = last(case) else { return Vec::new() };
    let series = |name: &str, of: fn(&KernelCache) -> u64| -> Vec<u64> {
        case.kernel.iter().map(|look| look.cache(name).map_or(0, of)).collect()
    };
    let mut grown: Vec<(&KernelCache, Growth)> = now
        .caches
        .iter()
        .filter_map(|cache| {
            let objects = series(&cache.name, |cache| {
                cache.active.saturating_sub(cache.parked) * cache.stride
            });
            let slabs = series(&cache.name, |cache| cache.bytes);
            let factor = if is_reclaimable(cache) { RECLAIMABLE_GROWTH } else { 1 };
            let threshold = Threshold { floor: rule.threshold.floor * factor, ..rule.threshold };
            let found = growth::growth(&objects)?;
            let slabs = growth::growth(&slabs)?;
            let counted = if found.goes_on { found.bytes } else { found.bytes / 4 };
            // A thousandth of the machine: what it holds at rest moves by as much.
            let least = memory / 1000 * factor;
            (threshold.is_reached(counted, memory) && counted >= least && slabs.bytes > 0)
                .then_some((cache, found))
        })
        .collect();
    grown.sort_by_key(|(_, found)| std::cmp::Reverse(found.bytes));
    grown.truncate(GROWN);
    grown.into_iter().map(|(cache, found)| of_growth(rule, case, cache, found, memory)).collect()
}

fn of_growth(
    rule: &Rule,
    case: &Case<'_>,
    cache: &KernelCache,
    found: Growth,
    memory: u64,
) -> Finding {
    let typed = case.typed();
    let reclaimable = is_reclaimable(cache);
    let kind = if reclaimable {
        "which the kernel takes back when memory is short"
    } else {
        "which only its owner frees"
    };
    let mut finding = rule.finding(Says {
        says: format!(
            "{} grows and does not stop: {} more in {:.0} s{}, to {} objects, {kind}.{}",
            cache.name,
            human(found.bytes),
            case.seconds(),
            growth::rate(found.bytes, case.seconds()),
            cache.active,
            merged(cache)
        ),
        bytes: found.bytes,
        numbers: vec![
            ("growth", found.bytes),
            ("bytes", cache.bytes),
            ("objects", cache.active),
            ("memory", memory),
        ],
        caches: vec![cache.name.clone()],
        confidence: growth::confidence(case, found),
        evidence: vec![
            format!("slabyard top {typed} --filter '{}'", cache.name),
            "slabyard record -o grown.slabtrace --kernel -- sleep 10".into(),
        ],
        remedy: Remedy {
            what: if reclaimable { "drop what is not used".into() } else { rule.remedy.into() },
            command: reclaimable.then(|| DROP.into()),
            gives: reclaimable.then_some(found.bytes),
            risk: if reclaimable { DROP_RISK } else { "none" },
        },
    });
    owners(case, cache, &mut finding);
    finding
}

/// Caches that other rules judge.
const KNOWN: [&str; 3] = ["task_struct", "skbuff_head_cache", "kmem_cache"];

/// Caches with much memory that the kernel cannot reclaim.
fn held<'a>(
    rule: &'a Rule,
    now: &'a KernelMemory,
    memory: u64,
) -> impl Iterator<Item = &'a KernelCache> {
    now.caches.iter().filter(move |cache| {
        !is_reclaimable(cache)
            && !KNOWN.contains(&cache.name.as_str())
            && rule.threshold.is_reached(cache.active * cache.stride, memory)
    })
}

pub(super) fn unreclaimable(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some((now, memory)) = last(case) else { return Vec::new() };
    let alone = held(rule, now, memory).filter(|cache| cache.aliases.is_empty());
    alone.map(|cache| of_held(rule, case, cache, memory, "")).collect()
}

pub(super) fn merged_caches(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some((now, memory)) = last(case) else { return Vec::new() };
    let open = case.total("open_files").and_then(Value::exact);
    let of_cache = |cache: &KernelCache| {
        let files =
            open.filter(|open| cache.names().any(|it| it == "filp") && open * 2 >= cache.active);
        let files = files.map_or_else(String::new, |open| {
            format!(" The kernel counts {open} open files: most of them are filp.")
        });
        of_held(rule, case, cache, memory, &files)
    };
    held(rule, now, memory).filter(|cache| !cache.aliases.is_empty()).map(of_cache).collect()
}

fn of_held(rule: &Rule, case: &Case<'_>, cache: &KernelCache, memory: u64, more: &str) -> Finding {
    let bytes = cache.active * cache.stride;
    let mut finding = rule.finding(Says {
        says: format!(
            "{} holds {} of unreclaimable memory in {} objects of {} bytes.{}{more}",
            cache.name,
            with_share(bytes, memory),
            cache.active,
            cache.stride,
            merged(cache)
        ),
        bytes,
        numbers: vec![("bytes", bytes), ("objects", cache.active), ("memory", memory)],
        caches: cache.names().cloned().collect(),
        confidence: Confidence::of(
            Level::Medium,
            "it is as large as it is, and may be wanted",
            "`slabyard doctor kernel --watch 60`, which sees whether it grows",
        ),
        evidence: vec![format!("slabyard show {} {}", case.typed(), cache.name)],
        remedy: Remedy::in_words(rule.remedy),
    });
    if more.is_empty() {
        owners(case, cache, &mut finding);
    }
    finding
}

pub(super) fn negative_dentries(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some((now, memory)) = last(case) else { return Vec::new() };
    let Some(files) = &case.last().kernel else { return Vec::new() };
    let Some((negative, all)) = files.negative_dentries.zip(files.dentries) else {
        return Vec::new();
    };
    let stride = now.cache("dentry").map_or(192, |cache| cache.stride);
    let bytes = product([negative, stride]);
    if negative.saturating_mul(2) < all || !rule.threshold.is_reached(bytes, memory) {
        return Vec::new();
    }
    let mut finding = rule.finding(Says {
        says: format!(
            "{negative} of {all} directory entries say that a file does not exist: {} of the machine's memory. \
             Some program looks up names in vain.",
            with_share(bytes, memory)
        ),
        bytes,
        numbers: vec![("negative", negative), ("dentries", all), ("bytes", bytes)],
        caches: vec!["dentry".into()],
        confidence: Confidence::high("the kernel counts them"),
        evidence: vec!["cat /proc/sys/fs/dentry-state".into()],
        remedy: Remedy { what: rule.remedy.into(), command: Some(DROP.into()), gives: Some(bytes), risk: DROP_RISK },
    });
    finding.owners = case.owners.map(|owners| owners.of_cache("dentry")).unwrap_or_default();
    if let Some(owner) = finding.owners.first() {
        finding.says += &format!(
            " Most of those of the watch are held by {} ({}).",
            owner.who,
            human(owner.bytes)
        );
    }
    vec![finding]
}

pub(super) fn cached_files(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some((now, memory)) = last(case) else { return Vec::new() };
    let is_of_files =
        |cache: &&KernelCache| cache.names().any(|name| name == "dentry" || name.contains("inode"));
    let caches: Vec<&KernelCache> = now.caches.iter().filter(is_of_files).collect();
    let bytes = caches.iter().map(|cache| cache.bytes).sum();
    if !rule.threshold.is_reached(bytes, memory) {
        return Vec::new();
    }
    let names: Vec<String> = caches
        .iter()
        .take(3)
        .map(|cache| format!("{} in {}", human(cache.bytes), cache.name))
        .collect();
    let unused = case.last().kernel.as_ref().and_then(|files: &KernelFiles| files.unused_dentries);
    let unused = unused.map(|n| format!(" {n} directory entries are unused.")).unwrap_or_default();
    vec![rule.finding(Says {
        says: format!(
            "The kernel keeps {} for files that were looked at: {}.{unused}",
            with_share(bytes, memory),
            listed(&names)
        ),
        bytes,
        numbers: vec![("bytes", bytes), ("memory", memory)],
        caches: caches.iter().take(3).map(|cache| cache.name.clone()).collect(),
        confidence: Confidence::of(
            Level::Medium,
            "the kernel takes it back when memory is short",
            "`slabyard doctor kernel --watch 60`, which sees whether it grows",
        ),
        evidence: vec![format!("slabyard list {} '*inode*' dentry", case.typed())],
        remedy: Remedy {
            what: rule.remedy.into(),
            command: Some(DROP.into()),
            gives: Some(bytes),
            risk: DROP_RISK,
        },
    })]
}
