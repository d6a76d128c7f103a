//! Leaks by call site, where a cache keeps tracks of its allocations.

use crate::finding::{Confidence, Finding, Level, Remedy};
use crate::rule::{Case, Rule, Says, with_share};
use slabyard_observe::traces::{Site, Traces};
use slabyard_observe::view::cell::{clean, human};
use slabyard_observe::view::profile::site_name;

/// Frames that a sentence names.
const FRAMES: usize = 3;

pub(super) fn leak(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let (Some(process), Some(memory)) = (&case.last().process, case.process.last()) else {
        return Vec::new();
    };
    let sites =
        process.sites.iter().flat_map(|traces| traces.alloc.iter().map(move |site| (traces, site)));
    let found = sites.filter(|(_, site)| {
        rule.threshold.is_reached(site.bytes, memory.total) && spread(site).is_some()
    });
    found.map(|(traces, site)| of_site(rule, case, traces, site)).collect()
}

/// The oldest and the youngest object's age in seconds, if the ages lie apart as those of objects do
/// that come again and again.
fn spread(site: &Site) -> Option<(f64, f64)> {
    let (least, _, most) = site.age?;
    let is_apart = (most - least) * 4 >= most && site.objects > 1;
    let seconds = |ns: u64| ns as f64 / 1e9;
    is_apart.then(|| (seconds(most), seconds(least)))
}

fn of_site(rule: &Rule, case: &Case<'_>, traces: &Traces, site: &Site) -> Finding {
    let total = case.process.last().map_or(0, |memory| memory.total);
    let (oldest, youngest) = spread(site).unwrap_or_default();
    let of_cache = site.objects * 100 / traces.objects.max(1);
    let is_steady = youngest * 10.0 <= oldest;
    let typed = case.typed();
    let level = if is_steady { Level::High } else { Level::Medium };
    let grows = if is_steady { "and they come still" } else { "and none came lately" };
    rule.finding(Says {
        says: format!(
            "One call site allocates and nobody frees: {} objects of {} by {} are live, {} together, {of_cache} % of the \
             class's objects. The oldest is {oldest:.1} s old and the youngest {youngest:.1} s, {grows}.",
            site.objects,
            traces.cache,
            place(site),
            with_share(site.bytes, total),
        ),
        bytes: site.bytes,
        numbers: vec![("objects", site.objects), ("bytes", site.bytes), ("objects_of_cache", traces.objects)],
        caches: vec![traces.cache.clone()],
        confidence: Confidence::of(
            level,
            "each live object's call site and age was read",
            format!("`slabyard doctor {typed} --watch 60`, which sees whether it goes on"),
        ),
        evidence: vec![format!("slabyard show {typed} {} --traces", traces.cache)],
        remedy: Remedy::of_program(rule.remedy, Some(site.bytes)),
    })
}

/// The call site in words: its innermost frames.
fn place(site: &Site) -> String {
    let names: Vec<String> = site
        .frames
        .iter()
        .take(FRAMES)
        .map(|frame| match &frame.function {
            Some(function) => clean(function),
            None => format!("{:#x}", frame.address),
        })
        .collect();
    if names.is_empty() { "an unknown site".into() } else { names.join(" < ") }
}

/// A site that a watch's samples name: it allocated a third or more of what grew, and its share is
/// known to a half.
pub(super) fn sampled(case: &Case<'_>, growth: u64) -> Option<(String, u64)> {
    const LEAST_SAMPLES: u64 = 4;
    let profile = case.last().process.as_ref()?.profile.as_ref()?;
    let sites = profile.sites.iter().filter(|site| site.samples >= LEAST_SAMPLES);
    let site = sites.max_by(|a, b| a.live_bytes.total_cmp(&b.live_bytes))?;
    let bytes = with_lost(site.live_bytes, profile.samples, profile.lost_samples);
    (bytes * 3 >= growth).then(|| (site_name(site), bytes))
}

/// The bytes that samples stand for, where the process could not keep some, which are of all sites alike:
/// a command that looks seldom, as on a slow machine, finds its ring full.
fn with_lost(bytes: f64, samples: u64, lost: u64) -> u64 {
    (bytes * (samples + lost) as f64 / samples.max(1) as f64).round() as u64
}

/// The largest sites of a cache in words, where it keeps tracks.
pub(super) fn largest(case: &Case<'_>, cache: &str) -> Option<String> {
    let process = case.last().process.as_ref()?;
    let traces = process.sites.iter().find(|traces| traces.cache == cache)?;
    let site = traces.alloc.first().filter(|site| !site.stack.is_empty())?;
    Some(format!(
        "most of its live objects ({} of {}, {}) come from {}",
        site.objects,
        traces.objects,
        human(site.bytes),
        place(site)
    ))
}

#[cfg(test)]
mod tests {
    use super::with_lost;

    #[test]
    fn a_site_has_its_share_of_the_samples_that_were_lost() {
        assert_eq!(with_lost(1e6, 100, 0), 1_000_000);
        assert_eq!(with_lost(1e6, 100, 300), 4_000_000);
        assert_eq!(with_lost(0.0, 0, 5), 0);
    }
}
