//! The output of `slabyard small` as a table and as JSON.
//!
//! Neighbour: [`super::served`] computes the outcomes. Invariants: for several loads, a cell has
//! the smallest and the largest value; the buddy allocator's lists are those of the first load.

use super::served::ServedLoads;
use crate::failure::Failure;
use anyhow::Context;
use slabyard_lab::small::buddy::Buddy;
use slabyard_lab::small::{Load, MachineSample, SmallMachine};
use std::fmt::Write;

/// The order of a process's image where there is no memory management unit.
pub(super) const IMAGE_ORDER: usize = 7;

pub(super) fn table(small: SmallMachine, loads: &[Load], all: &[ServedLoads]) -> String {
    let moments = loads.first().map_or(&[][..], |load| &load.moments);
    let mut text = format!(
        "{} pages of {} KiB, {} of them the kernel's own; {} load{} of {} steps or more, one CPU\n\n",
        small.pages,
        small.page_size >> 10,
        small.reserved,
        loads.len(),
        if loads.len() == 1 { "" } else { "s" },
        loads.iter().map(|load| load.steps.len()).min().unwrap_or(0),
    );
    let wide = all.iter().map(|served| served.contender.name().len()).max().unwrap_or(0);
    section(&mut text, "free pages", wide, moments, all, |look| look.free_pages);
    section(&mut text, "slab pages", wide, moments, all, MachineSample::slab_pages);
    let _ = writeln!(text, "blocks of order {IMAGE_ORDER}: asked for, served, loads that got all");
    for served in all {
        let asked: u32 = served.outcomes.iter().map(|it| it.asked[IMAGE_ORDER]).sum();
        let got: u32 = served.outcomes.iter().map(|it| it.served[IMAGE_ORDER]).sum();
        let is_whole =
            |it: &&slabyard_lab::small::Outcome| it.asked[IMAGE_ORDER] == it.served[IMAGE_ORDER];
        let whole = served.outcomes.iter().filter(is_whole).count();
        let share = 100.0 * f64::from(got) / f64::from(asked.max(1));
        let _ = writeln!(
            text,
            "  {:wide$}  {asked:>5} {got:>5} {share:>5.1} %  {whole} of {}",
            served.contender.name(),
            served.outcomes.len()
        );
    }
    for (nth, moment) in moments.iter().enumerate() {
        let _ = writeln!(text, "\nfree blocks of order 0 to 10, {moment}");
        for served in all {
            if let Some(look) = served.outcomes.first().and_then(|it| it.looks.get(nth)) {
                let line = Buddy::line(&look.free_blocks);
                let _ = writeln!(text, "  {:wide$} {}", served.contender.name(), line.trim_end());
            }
        }
    }
    text
}

fn section(
    text: &mut String,
    title: &str,
    wide: usize,
    moments: &[String],
    all: &[ServedLoads],
    figure: impl Fn(&MachineSample) -> u32,
) {
    let _ = write!(text, "{title:<wide$}  ", wide = wide + 2);
    moments.iter().for_each(|moment| {
        let _ = write!(text, "{moment:>14}");
    });
    text.push('\n');
    for served in all {
        let _ = write!(text, "  {:wide$}  ", served.contender.name());
        for nth in 0..moments.len() {
            let of = |it: &slabyard_lab::small::Outcome| it.looks.get(nth).map(&figure);
            let figures = || served.outcomes.iter().filter_map(of);
            let cell = match (figures().min(), figures().max()) {
                (Some(least), Some(most)) if least < most => format!("{least}-{most}"),
                (Some(one), _) => one.to_string(),
                _ => "-".into(),
            };
            let _ = write!(text, "{cell:>14}");
        }
        text.push('\n');
    }
    text.push('\n');
}

pub(super) fn json(all: &[ServedLoads]) -> Result<String, Failure> {
    let look = |look: &MachineSample| {
        serde_json::json!({
            "moment": look.moment,
            "free_pages": look.free_pages,
            "free_blocks": look.free_blocks,
            "slab_reclaimable": look.reclaimable,
            "slab_unreclaimable": look.unreclaimable,
            "of_requests": look.of_requests,
        })
    };
    let of = |served: &ServedLoads| {
        let loads: Vec<_> = served
            .outcomes
            .iter()
            .map(|it| {
                serde_json::json!({
                    "looks": it.looks.iter().map(look).collect::<Vec<_>>(),
                    "asked": it.asked,
                    "served": it.served,
                    "objects_refused": it.objects_refused,
                    "fallbacks": it.fallbacks,
                    "caches": it.caches,
                })
            })
            .collect();
        serde_json::json!({ "contender": served.contender.name(), "loads": loads })
    };
    let all: Vec<_> = all.iter().map(of).collect();
    let text = serde_json::to_string_pretty(&all).context("cannot write JSON")?;
    Ok(text + "\n")
}
