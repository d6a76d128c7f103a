//! Growth of a process between looks.
//!
//! A number grows if it grew in the first half of the watch and went on in the second by a tenth of
//! that or more: what is loaded once stops, and a busy machine makes a program wait. Two looks alone
//! do not show whether it stops, so they take eight times the threshold, and say so.

use super::sites;
use crate::finding::{Confidence, Finding, Level, Remedy};
use crate::mappings::MappingKind;
use crate::rule::{Case, Rule, Says, listed, with_share};
use crate::verdict::process::ProcessMemory;
use slabyard_observe::view::cell::human;

/// Classes that a sentence names.
const NAMED: usize = 3;

/// What a series of numbers did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Growth {
    /// From the first to the last.
    pub(super) bytes: u64,
    /// There was a number between them, and it went on behind it.
    pub(super) goes_on: bool,
}

/// The growth of a series, if it grows; in the middle lies the number nearest to half of the time.
pub(super) fn growth(series: &[u64]) -> Option<Growth> {
    let (first, last) = (*series.first()?, *series.last()?);
    let bytes = last.checked_sub(first).filter(|bytes| *bytes > 0)?;
    if series.len() == 2 {
        return Some(Growth { bytes, goes_on: false });
    }
    let middle = series[series.len() / 2];
    let (before, after) = (middle.checked_sub(first)?, last.checked_sub(middle)?);
    (before > 0 && after * 10 >= before).then_some(Growth { bytes, goes_on: true })
}

/// The growth that a rule takes for one.
pub(super) fn judged(rule: &Rule, series: &[u64], whole: u64) -> Option<Growth> {
    let found = growth(series)?;
    let counted = if found.goes_on { found.bytes } else { found.bytes / 8 };
    rule.threshold.is_reached(counted, whole).then_some(found)
}

pub(super) fn heap(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some(last) = case.process.last().filter(|memory| memory.is_told) else {
        return Vec::new();
    };
    let live: Vec<u64> = case.process.iter().map(ProcessMemory::live).collect();
    let Some(found) = judged(rule, &live, last.total) else { return Vec::new() };
    let of_cache = |name: &str| -> Vec<u64> {
        let of = |memory: &ProcessMemory| {
            memory.caches.iter().find(|it| it.name == name).map_or(0, |it| it.live)
        };
        case.process.iter().map(of).collect()
    };
    let mut classes: Vec<(String, u64)> = last
        .caches
        .iter()
        .filter_map(|cache| Some((cache.name.clone(), growth(&of_cache(&cache.name))?.bytes)))
        .collect();
    let blocks: Vec<u64> = case.process.iter().map(|memory| memory.blocks).collect();
    let blocks = growth(&blocks).map_or(0, |growth| growth.bytes);
    classes.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    classes.truncate(NAMED);
    let mut where_it_is: Vec<String> =
        classes.iter().map(|(name, bytes)| format!("{} in {name}", human(*bytes))).collect();
    if blocks > 0 {
        where_it_is.push(format!("{} in larger blocks", human(blocks)));
    }
    let where_it_is = match listed(&where_it_is) {
        nowhere if nowhere.is_empty() => nowhere,
        listed => format!(": {listed}"),
    };
    let typed = case.typed();
    let first = classes.first().map_or("malloc-64", |(name, _)| name.as_str());
    let sampled = sites::sampled(case, found.bytes);
    let site = match &sampled {
        Some((site, bytes)) => {
            format!(" One call site made most of it: {site}, some {}.", human(*bytes))
        }
        None => sites::largest(case, first)
            .map(|site| format!(" In {first} {site}."))
            .unwrap_or_default(),
    };
    let profile = format!("slabyard profile {typed} --seconds 30");
    let mut finding = rule.finding(Says {
        says: format!(
            "Live memory grows and does not stop: {} more in {:.0} s{}{where_it_is}.{site}",
            with_share(found.bytes, last.total),
            case.seconds(),
            rate(found.bytes, case.seconds())
        ),
        bytes: found.bytes,
        numbers: vec![
            ("growth", found.bytes),
            ("live", last.live()),
            ("milliseconds", (case.seconds() * 1000.0) as u64),
        ],
        caches: classes.iter().map(|(name, _)| name.clone()).collect(),
        confidence: confidence(case, found),
        evidence: vec![format!("slabyard top {typed} --sort live/s"), profile.clone()],
        remedy: Remedy {
            command: sampled.is_none().then_some(profile),
            ..Remedy::of_program(rule.remedy, Some(found.bytes))
        },
    });
    if let Some((site, bytes)) = sampled {
        finding.id = LEAK_SITE;
        finding.remedy.what =
            format!("free what {} allocates, or bound what keeps it", first_of(&site));
        finding.numbers.insert("bytes_of_site", bytes);
    }
    vec![finding]
}

/// The rule of leaks whose call site is known.
pub(super) const LEAK_SITE: &str = "leak.site";

/// The innermost function of a site.
fn first_of(site: &str) -> &str {
    site.split(" < ").next().unwrap_or(site)
}

pub(super) fn outside(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some(last) = case.process.last().filter(|memory| memory.is_resident) else {
        return Vec::new();
    };
    let kinds = [
        (MappingKind::Own, "mappings that the program made itself"),
        (MappingKind::Stack, "stacks of threads"),
        (MappingKind::Heap, "the C library's heap"),
        (MappingKind::Arena, "the C library's heaps for threads"),
        (MappingKind::Shared, "shared memory"),
    ];
    let grown = kinds.iter().filter_map(|(kind, what)| {
        let series: Vec<u64> = case.process.iter().map(|memory| memory.kind(*kind)).collect();
        Some((what, judged(rule, &series, last.total)?, last.kind(*kind)))
    });
    let of_kind = |(what, found, now): (&&str, Growth, u64)| {
        rule.finding(Says {
            says: format!(
                "Memory outside of Slabyard grows and does not stop: {} more in {:.0} s{} in {what}, which are {} now.",
                with_share(found.bytes, last.total),
                case.seconds(),
                rate(found.bytes, case.seconds()),
                human(now)
            ),
            bytes: found.bytes,
            numbers: vec![("growth", found.bytes), ("now", now)],
            caches: Vec::new(),
            confidence: confidence(case, found),
            evidence: case.last().process.iter().map(|process| format!("pmap -x {}", process.pid)).collect(),
            remedy: Remedy::of_program(rule.remedy, Some(found.bytes)),
        })
    };
    grown.map(of_kind).collect()
}

/// What growth over these looks is worth.
pub(super) fn confidence(case: &Case<'_>, found: Growth) -> Confidence {
    let typed = case.typed();
    let longer = |seconds: u64| format!("`slabyard doctor {typed} --watch {seconds}`");
    if !found.goes_on {
        return Confidence::of(Level::Low, "two looks do not show whether it stops", longer(60));
    }
    if case.seconds() < 30.0 {
        let because = format!("it grew in both halves of {:.0} s", case.seconds());
        return Confidence::of(Level::Medium, because, longer(300));
    }
    Confidence::high(format!("it grew in both halves of {:.0} s", case.seconds()))
}

/// A rate in words, over a time that is worth one.
pub(super) fn rate(bytes: u64, seconds: f64) -> String {
    if seconds < 1.0 {
        return String::new();
    }
    format!(", {} an hour", human((bytes as f64 * 3600.0 / seconds) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_goes_on_or_is_none() {
        assert_eq!(growth(&[10, 20, 30]), Some(Growth { bytes: 20, goes_on: true }));
        assert_eq!(growth(&[10, 30, 31]), None, "it stopped");
        assert_eq!(growth(&[10, 10, 90]), None, "once");
        assert_eq!(growth(&[10, 5, 30]), None);
        assert_eq!(growth(&[30, 20, 10]), None);
        assert_eq!(growth(&[10, 30]), Some(Growth { bytes: 20, goes_on: false }));
        assert_eq!(growth(&[10]), None);
        assert_eq!(growth(&[]), None);
    }
}
