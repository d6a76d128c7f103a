//! Prints the runs of `lists` as tables.

use std::fmt::Write as _;

use comfy_table::Table;

use super::look::OfCache;
use super::measure::HoldPoint;
use super::report::{OfFront, OfLoad, Report};
use crate::counts::DrainedFrees;
use crate::load::said::{Frees, Run, SHARES};
use crate::screen;
use crate::stats::median;

/// Caches of a front that are shown.
const SHOWN: usize = 5;

/// Everything below the heading.
pub fn body(report: &Report) -> String {
    let first = report.fronts[0].name;
    let mut text = String::new();
    if report.scale != 1.0 {
        let _ = writeln!(text, "The loads ran at {} of their size.\n", report.scale);
    }
    let _ = write!(
        text,
        "#### What lists claim, and what they hold\n\n\
         Of all caches, after a fork bomb: live: its last tasks have not ended; ended: all is \
         freed.\nclaimed: free objects by the lists' own count, where it has one; free: those in \
         their slabs.\n\n{}\n\n\
         The {SHOWN} caches with most in empty slabs on lists, when all has ended:\n\n{}\n\n",
        claims(report),
        by_cache(report)
    );
    let _ = write!(
        text,
        "#### Shrinking\n\nAll slabs' KiB before and after one request to shrink all caches; \
         Horn's are lines `Slab` of /proc/meminfo.\n\n{}\n\n",
        shrinking(report)
    );
    let _ = write!(
        text,
        "#### The unlucky free\n\nSlow frees of one run that counts and is not timed, by the slabs \
         that each drained: how many / nanoseconds on average / the longest.\n\n{}\n\n\
         Nanoseconds of single frees of the load drain, nothing being counted; medians of {} \
         rounds, and the longest of all.\n\n{}\n\n",
        drains(report),
        report.rounds,
        percentiles(report)
    );
    let _ = write!(
        text,
        "#### Times\n\nMedians of {} rounds, in each of which every front runs each load once; a \
         ratio is the median over rounds of a front's time to {first}'s in the same round, with \
         its 95 % bootstrap interval.\n\n{}\n",
        report.rounds,
        times(report)
    );
    text
}

fn claims(report: &Report) -> Table {
    let heading = [
        "front",
        "moment",
        "lists",
        "slabs",
        "claimed",
        "free",
        "empty",
        "empty, KiB",
        "of all KiB",
    ];
    let row = |front: &OfFront, nth: usize| {
        let held = &front.held[nth];
        let sum = held.lists;
        vec![
            front.name.to_owned(),
            held.moment.word().to_owned(),
            sum.lists.to_string(),
            sum.slabs.to_string(),
            sum.claimed.map_or("-".to_owned(), |claimed| claimed.to_string()),
            sum.free.to_string(),
            sum.empty.to_string(),
            (sum.empty_bytes / 1024).to_string(),
            held.before_kib.to_string(),
        ]
    };
    let rows = report.fronts.iter().flat_map(|front| (0..front.held.len()).map(|n| row(front, n)));
    screen::table(&heading, rows.collect())
}

fn by_cache(report: &Report) -> Table {
    let heading = [
        "front",
        "cache",
        "slabs",
        "claimed",
        "free",
        "empty",
        "empty, KiB",
        "by CPU: slabs (empty)",
    ];
    let mut rows = Vec::new();
    for front in &report.fronts {
        let ended = front.held.iter().find(|held| held.moment == HoldPoint::Ended);
        let mut caches: Vec<&OfCache> = ended.iter().flat_map(|held| &held.before.caches).collect();
        caches.retain(|cache| cache.sum().slabs > 0);
        caches.sort_by_key(|cache| std::cmp::Reverse(cache.sum().empty_bytes));
        for cache in caches.into_iter().take(SHOWN) {
            let sum = cache.sum();
            let lists = cache.lists.iter();
            let lists = lists.map(|list| format!("C{}={}({})", list.cpu, list.slabs, list.empty));
            rows.push(vec![
                front.name.to_owned(),
                cache.name.clone(),
                sum.slabs.to_string(),
                sum.claimed.map_or("-".to_owned(), |claimed| claimed.to_string()),
                sum.free.to_string(),
                sum.empty.to_string(),
                (sum.empty_bytes / 1024).to_string(),
                lists.collect::<Vec<_>>().join(" "),
            ]);
        }
    }
    screen::words(&heading, rows)
}

fn shrinking(report: &Report) -> Table {
    let change =
        |before: u64, after: u64| format!("{:+.1} %", (after as f64 / before as f64 - 1.0) * 100.0);
    let row = |name: String, moment: &str, before: u64, after: u64| {
        let (told, moment) = (change(before, after), moment.to_owned());
        vec![name, moment, before.to_string(), after.to_string(), told]
    };
    let mut rows = Vec::new();
    for front in &report.fronts {
        for held in &front.held {
            let name = front.name.to_owned();
            rows.push(row(name, held.moment.word(), held.before_kib, held.after_kib));
        }
    }
    for theirs in report.published {
        rows.push(row(theirs.machine.to_owned(), "", theirs.before_kib, theirs.after_kib));
    }
    screen::table(&["front", "moment", "before, KiB", "after, KiB", "change"], rows)
}

/// A row for each size of drains that some front has.
fn drains(report: &Report) -> Table {
    let mut heading = vec!["load".to_owned(), "slabs".to_owned()];
    heading.extend(report.fronts.iter().map(|front| front.name.to_owned()));
    let mut rows = Vec::new();
    for nth in 0..2 {
        let mut sizes: Vec<u32> = report
            .fronts
            .iter()
            .flat_map(|front| loads(front)[nth].drains.iter().map(|row| row.slabs))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            let cell = |front: &OfFront| {
                let found = loads(front)[nth].drains.iter().find(|row| row.slabs == size);
                found.map_or(String::new(), drained)
            };
            let mut row = vec![loads(&report.fronts[0])[nth].load.to_owned(), bounds(size)];
            row.extend(report.fronts.iter().map(cell));
            rows.push(row);
        }
    }
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    screen::table(&heading, rows)
}

fn loads<'r, 'a>(front: &'r OfFront<'a>) -> [&'r OfLoad<'a>; 2] {
    [&front.bomb, &front.drain]
}

/// Powers of two, as the counters have them.
fn bounds(least: u32) -> String {
    match least {
        0..=2 => least.to_string(),
        least => format!("{least}-{}", (least - 1) * 2),
    }
}

fn drained(row: &DrainedFrees) -> String {
    format!("{} / {} / {}", row.frees, row.ns / row.frees, row.longest_ns)
}

fn percentiles(report: &Report) -> Table {
    let mut heading = vec!["front"];
    heading.extend(SHARES);
    heading.push("max");
    let row = |front: &OfFront| {
        let frees: Vec<&Frees> =
            front.drain.runs.iter().filter_map(|run| run.frees.as_ref()).collect();
        let over = |p: usize| {
            median(&frees.iter().map(|frees| frees.percentiles[p]).collect::<Vec<f64>>())
        };
        let mut row = vec![front.name.to_owned()];
        row.extend((0..SHARES.len()).map(|p| format!("{:.0}", over(p))));
        row.push(format!("{:.0}", frees.iter().map(|frees| frees.max).fold(0.0, f64::max)));
        row
    };
    screen::table(&heading, report.fronts.iter().map(row).collect())
}

fn times(report: &Report) -> Table {
    let to_first = format!("to {}", report.fronts[0].name);
    let heading = ["load", "front", "ms", &to_first, "peak RSS, MiB"];
    let row = |front: &OfFront, of: &OfLoad| {
        let over =
            |value: fn(&Run) -> f64| median(&of.runs.iter().map(value).collect::<Vec<f64>>());
        let e = of.to_first;
        vec![
            of.load.to_owned(),
            front.name.to_owned(),
            format!("{:.1}", over(|run| run.ns as f64 / 1e6)),
            format!("{:.3} ({:.3} to {:.3})", e.value, e.low, e.high),
            format!("{:.1}", over(|run| run.peak_kib as f64 / 1024.0)),
        ]
    };
    let bombs = report.fronts.iter().map(|front| row(front, &front.bomb));
    let drains = report.fronts.iter().map(|front| row(front, &front.drain));
    screen::table(&heading, bombs.chain(drains).collect())
}
