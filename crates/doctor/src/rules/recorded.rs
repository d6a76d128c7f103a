//! Leaks by call site in a recording, by the rules of `slabyard trace leaks`.

use crate::finding::{Confidence, Finding, Level, Remedy};
use crate::recording;
use crate::rule::{Case, Rule, Says, with_share};
use slabyard_lab::leaks::{Leaks, Site, TENTHS, Verdict};
use slabyard_observe::view::cell::clean;

pub(super) fn leak(rule: &Rule, case: &Case<'_>) -> Vec<Finding> {
    let Some(recording) = &case.last().recording else { return Vec::new() };
    let live = recording.live();
    let leaks = recording.leaks.sites.iter().filter(|site| {
        site.verdict == Verdict::Leak && rule.threshold.is_reached(site.survivors.bytes, live)
    });
    leaks.map(|site| of_site(rule, case, &recording.leaks, site, live)).collect()
}

fn of_site(rule: &Rule, case: &Case<'_>, leaks: &Leaks, site: &Site, live: u64) -> Finding {
    let held = &site.survivors;
    let place = site.site.as_deref().map_or_else(|| "an unknown site".into(), clean);
    let who = match &site.processes[..] {
        [] => String::new(),
        [(pid, _)] => format!(", by process {pid}"),
        [(pid, _), others @ ..] => format!(", by process {pid} and {} more", others.len()),
    };
    let says = format!(
        "One call site allocates and nobody frees: of {} objects of {} by {place} in {:.1} s, {} are live, {} \
         together{who}. {} of them are overdue, and they were born in {} of \
         {TENTHS} parts of that time.",
        site.allocated,
        site.cache,
        leaks.took_ns as f64 / 1e9,
        held.objects,
        with_share(held.bytes, live),
        held.overdue,
        held.born.iter().filter(|born| **born > 0).count(),
    );
    let again = "a longer recording, without losses";
    let confidence = match (leaks.lost, leaks.one_in) {
        (0, 1) => Confidence::high("each allocation and each free was recorded"),
        (0, n) => Confidence::of(Level::High, format!("one object in {n} was followed"), again),
        (lost, _) => {
            let because = format!("{lost} events were lost, among them perhaps frees");
            Confidence::of(Level::Medium, because, again)
        }
    };
    let mut finding = rule.finding(Says {
        says,
        bytes: held.bytes,
        numbers: vec![
            ("allocated", site.allocated),
            ("objects", held.objects),
            ("bytes", held.bytes),
            ("overdue", held.overdue),
            ("oldest_ms", held.oldest_ns / 1_000_000),
        ],
        caches: vec![site.cache.clone()],
        confidence,
        evidence: vec![format!("slabyard trace leaks {}", case.typed())],
        remedy: Remedy::of_program(rule.remedy, Some(held.bytes)),
    });
    finding.owners = recording::owners(site);
    finding
}
