//! The table of the suite `walks`: page walks beside each allocator, by setting of huge pages.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Deserialize;

use super::parts::NamedMeasures;
use crate::screen;
use crate::walks::{Counted, Walks};

#[derive(Deserialize)]
struct Report {
    allocators: Vec<NamedMeasures>,
    scale: f64,
    /// By setting, then load: a place for each allocator.
    settings: BTreeMap<String, Counted>,
}

/// So many of the loads in which ours walks most beside the best are named.
const NAMED: usize = 3;

/// Means over loads, and where ours walks most beside the best peer.
pub fn tables(report: &str) -> Result<String> {
    let Report { allocators, scale, settings } = serde_json::from_str(report)?;
    let mut heading = vec!["allocator".to_owned()];
    for thp in settings.keys() {
        heading.extend([format!("walks, `{thp}`"), "to huge pages".to_owned()]);
    }
    let rows = allocators.iter().enumerate().map(|(a, allocator)| {
        let mut row = vec![allocator.name.clone()];
        for loads in settings.values() {
            row.push(format!("{:.2}", mean(loads, a, Walks::per_thousand)));
            row.push(format!("{:.0} %", mean(loads, a, Walks::huge_percentage)));
        }
        row
    });
    let rows = rows.collect();
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    let mut text = format!(
        "Of a thousand accesses of the loads, at {scale} of their size, those that miss both levels \
         of a modelled TLB; and the share of accesses to huge pages. Means over the loads that every \
         allocator ends.\n\n{}\n\n",
        screen::table(&heading, rows)
    );
    for (thp, loads) in &settings {
        text += &format!("- `{thp}`: {}\n", losses(&allocators, loads));
    }
    Ok(text)
}

/// Over the loads that every allocator ends.
fn mean(loads: &Counted, a: usize, of: fn(Walks) -> f64) -> f64 {
    let all = loads.values().filter(|counted| counted.iter().all(Option::is_some));
    let values: Vec<f64> = all.filter_map(|counted| counted[a]).map(of).collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Loads in which ours walks at least a tenth more than the best peer, those of most walks first.
fn losses(allocators: &[NamedMeasures], loads: &Counted) -> String {
    let mut lost: Vec<(f64, String)> = Vec::new();
    for (load, counted) in loads {
        let walks = |a: usize| counted[a].map_or(f64::INFINITY, Walks::per_thousand);
        let best = (1..counted.len()).min_by(|a, b| walks(*a).total_cmp(&walks(*b)));
        let (Some(best), ours) = (best, walks(0)) else { continue };
        let least = walks(best);
        if ours.is_finite() && ours > 1.1 * least {
            let name = &allocators[best].name;
            lost.push((ours - least, format!("`{load}` {ours:.2} to {least:.2} ({name})")));
        }
    }
    lost.sort_by(|a, b| b.0.total_cmp(&a.0));
    let named: Vec<String> = lost.iter().take(NAMED).map(|(_, told)| told.clone()).collect();
    format!(
        "ours walks more than the best peer, by over a tenth, in {} of {} loads{}{}",
        lost.len(),
        loads.len(),
        if named.is_empty() { "" } else { ", most in " },
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_are_beside_each_allocator_with_their_losses() {
        let counted = |walks| {
            format!(
                "{{\"accesses\": 1000000, \"misses\": 0, \"walks\": {walks}, \"huge\": 500000}}"
            )
        };
        let report =
            format!(
            "{{\"allocators\": [{{\"name\": \"ours\"}}, {{\"name\": \"peer\"}}], \"scale\": 0.1,
               \"settings\": {{\"always\": {{\"tree\": [{}, {}], \"web\": [{}, {}],
               \"quiet\": [{}, {}], \"failed\": [{}, null]}}}}}}",
            counted(8000), counted(4000), counted(2000), counted(16000),
            counted(100), counted(1), counted(7000),
        );
        let text = tables(&report).unwrap();
        // Without what failed: the means of 8, 2 and 0.1, and of 4, 16 and 0.
        assert!(text.contains("| ours      |            3.37 |          50 % |"), "{text}");
        assert!(text.contains("| peer      |            6.67 |          50 % |"), "{text}");
        assert!(
            text.contains("in 2 of 4 loads, most in `tree` 8.00 to 4.00 (peer), `quiet` 0.10"),
            "{text}"
        );
    }
}
