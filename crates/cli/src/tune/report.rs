//! What `slabyard tune` prints: the front as a table and as a picture, the recommended settings with how
//! a kernel is given them, and what the judging loads said.
//!
//! Invariant: the terminal's table leaves points out, of which it says how many; JSON and the page have all.

use crate::failure::Failure;
use crate::html;
use crate::terminal::{Colour, Grid};
use anyhow::Context;
use slabyard_ask::tune::judge::{HeldOut, Interval, Verdict, interval};
use slabyard_ask::tune::single::Goal;
use slabyard_ask::tune::tuned::{JudgedSingles, Tuned};
use slabyard_ask::tune::{Point, Score};
use slabyard_page::{Axis, Cell, Chart, Page, Section, Series, Table, Unit};
use std::fmt::Write;

/// Rows and columns of the picture.
const PICTURE: (usize, usize) = (12, 60);
/// A point whose memory and whose work are both this near to a shown one's, as parts of the default's, is
/// left out of the table: [`slabyard_ask::tune`] takes no less for a gain, nor for more work.
const NEAR: f64 = 0.01;

/// As a terminal, a program and a browser show it.
pub(super) struct Report<'a>(pub(super) &'a Tuned);

impl Report<'_> {
    pub(super) fn json(&self) -> Result<String, Failure> {
        Ok(serde_json::to_string_pretty(self.0).context("JSON")? + "\n")
    }

    pub(super) fn table(&self) -> String {
        let mut grid = Grid::new(&["settings", "memory", "peak", "parked", "work"]);
        let shown = self.distinct();
        for point in &shown {
            let score = &point.score;
            let parts = [score.memory, score.peak, score.parked, score.work];
            let name = if point.changes.is_empty() { "base (default)" } else { &point.name };
            let mark = if Some(name) == self.0.recommended.as_deref() { " *" } else { "" };
            let cells = parts.map(|part| format!("{part:.3}"));
            grid.push([vec![format!("{name}{mark}")], cells.into()].concat());
        }
        let mut text = String::new();
        grid.write(&mut text, Colour::of_stdout());
        let _ = writeln!(
            text,
            "\nRelative to the default: {} settings, from {} replays.",
            self.0.settings, self.0.replays
        );
        let more = self.0.front.len() - shown.len();
        if more > 0 {
            let percent = NEAR * 100.0;
            let _ = writeln!(
                text,
                "The front has {more} more, within {percent} % of these (--json shows all)."
            );
        }
        text.push('\n');
        text.push_str(&self.picture());
        text.push('\n');
        self.0.judges.iter().flatten().for_each(|judge| text.push_str(&said(judge)));
        if let Some(HeldOut { recordings, memory, work }) = self.0.held_out {
            let range = |(low, high): Interval| format!("{low:.3} to {high:.3}");
            let _ = writeln!(
                text,
                "lowest to highest of {recordings} recordings, each held out: memory {}, work {}",
                range(memory),
                range(work)
            );
        }
        text + &self.conclusion()
    }

    /// The default, what was judged, and the points of the front that are near to none before them.
    fn distinct(&self) -> Vec<&Point> {
        let Tuned { front, recommended, refused, .. } = self.0;
        let best = recommended.as_ref().or(refused.as_ref());
        let is_always_shown = |it: &Point| it.changes.is_empty() || Some(&it.name) == best;
        let is_near = |a: &Score, b: &Score| {
            (a.memory - b.memory).abs() <= NEAR && (a.work - b.work).abs() <= NEAR
        };
        let mut is_shown: Vec<bool> = front.iter().map(is_always_shown).collect();
        for (nth, point) in front.iter().enumerate() {
            let mut shown = front.iter().zip(&is_shown).filter(|(_, is_shown)| **is_shown);
            is_shown[nth] |= !shown.any(|(other, _)| is_near(&other.score, &point.score));
        }
        front
            .iter()
            .zip(is_shown)
            .filter_map(|(point, is_shown)| is_shown.then_some(point))
            .collect()
    }

    fn conclusion(&self) -> String {
        let whose = if self.0.is_halved { "the first half" } else { "all loads" };
        let mut text = match (&self.0.recommended, &self.0.refused) {
            (Some(name), _) => format!("* recommended, from {whose}: {name}\n"),
            (None, Some(name)) => format!("{name} is not recommended: it does not hold\n"),
            (None, None) => {
                "nothing is smaller than the default and takes no more work: keep the default\n"
                    .into()
            }
        };
        self.0.apply.iter().for_each(|line| _ = writeln!(text, "  {line}"));
        text + &self.of_single_caches()
    }

    fn of_single_caches(&self) -> String {
        if self.0.writable.is_empty() {
            return "single caches: this kernel takes no writes\n".into();
        }
        let line = |goal: Goal| {
            let found = self.0.single_caches.iter().find(|it| it.singles.goal == goal);
            found.map_or_else(
                || {
                    let (less, files) = (less(goal), self.0.writable.join(" and "));
                    format!("single caches, {less}: {files} of some are not worth writing\n")
                },
                singles_text,
            )
        };
        Goal::ALL.map(line).concat()
    }

    /// Work upwards, memory to the right: `o` a point of the front, `D` the default, `*` what is
    /// recommended.
    fn picture(&self) -> String {
        let (rows, columns) = PICTURE;
        let memory = interval(self.0.front.iter().map(|it| it.score.memory));
        let work = interval(self.0.front.iter().map(|it| it.score.work));
        let place = |value: f64, (low, high): Interval, cells: usize| {
            let share = if high > low { (value - low) / (high - low) } else { 0.0 };
            (share * (cells - 1) as f64).round() as usize
        };
        let mut cells = vec![vec![' '; columns]; rows];
        for point in &self.0.front {
            let score = &point.score;
            let row = rows - 1 - place(score.work, work, rows);
            let cell = &mut cells[row][place(score.memory, memory, columns)];
            *cell = match () {
                () if Some(&point.name) == self.0.recommended.as_ref() => '*',
                () if point.changes.is_empty() => 'D',
                () if *cell == ' ' => 'o',
                () => *cell,
            };
        }
        let mut text = String::new();
        for (nth, row) in cells.iter().enumerate() {
            let label = match nth {
                0 => format!("{:.3}", work.1),
                nth if nth == rows - 1 => format!("{:.3}", work.0),
                _ => String::new(),
            };
            let line: String = row.iter().collect();
            let _ = writeln!(text, "{label:>9} |{}", line.trim_end());
        }
        let _ = writeln!(text, "{:>9} +{}", "work", "-".repeat(columns));
        let _ = writeln!(text, "{:>11}{:<50.3}{:>10.3} memory", "", memory.0, memory.1);
        text
    }

    pub(super) fn page(&self) -> Result<Page, Failure> {
        let part = |of: &str| Axis::new(of, Unit::Count);
        let points = Series::new("front", "/front/*/score/memory", "/front/*/score/work");
        let chart = Chart::scatter(
            "Slow-path work against memory",
            part("memory, relative to the default"),
            part("work, relative to the default"),
        )
        .with(points.labels("/front/*/name").connected());
        let mut table = Table::new(["settings", "memory", "peak", "parked", "work"]);
        for point in &self.0.front {
            let score = &point.score;
            let number = |it: f64| Cell::number(format!("{it:.3}"), it);
            table.push([
                Cell::text(point.name.clone()),
                number(score.memory),
                number(score.peak),
                number(score.parked),
                number(score.work),
            ]);
        }
        Ok(html::page("Settings tuned to loads", self.json()?)
            .with(Section::new("The front").chart(chart).table(table))
            .with(Section::new("What to set").text(self.conclusion())))
    }
}

/// What was found for single caches with one goal.
fn singles_text(found: &JudgedSingles) -> String {
    let JudgedSingles { singles, judges, apply } = found;
    let mut text: String = judges.iter().flatten().map(said).collect();
    let Score { memory, work, .. } = singles.score;
    let _ = writeln!(
        text,
        "single caches, {}, {}: {} beside {}: memory {memory:.3}, work {work:.3}",
        less(singles.goal),
        if apply.is_empty() { "not recommended" } else { "recommended" },
        singles.caches.len(),
        singles.beside,
    );
    apply.iter().for_each(|line| _ = writeln!(text, "  {line}"));
    text
}

fn less(goal: Goal) -> &'static str {
    match goal {
        Goal::Memory => "less memory",
        Goal::Work => "less work",
    }
}

/// A line that says what a judging load said.
fn said(judge: &Verdict) -> String {
    format!(
        "{} {} on {}, which it was not found by: memory {:.3}, work {:.3}\n",
        judge.name,
        if judge.holds { "holds" } else { "does not hold" },
        judge.load,
        judge.memory,
        judge.work
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_ask::tune::single::{Single, Singles};

    const SCORE: Score = Score { memory: 0.9, peak: 0.95, parked: 1.0, work: 0.99 };

    fn judge(holds: bool) -> Option<Verdict> {
        let (load, name) = ("other".into(), "max_order=1".into());
        Some(Verdict { load, name, memory: 0.9, work: 1.0, holds })
    }

    fn tuned(judges: Vec<Option<Verdict>>) -> Tuned {
        let base = Score { memory: 1.0, peak: 1.0, parked: 1.0, work: 1.0 };
        let changes = vec![("max_order".to_owned(), "1".to_owned())];
        let point = |name: &str, changes, score| Point { name: name.into(), changes, score };
        let front = vec![point("max_order=1", changes, SCORE), point("base", Vec::new(), base)];
        Tuned::of_front(front, judges, vec!["min_partial"])
    }

    /// What is best is recommended if every judge says that it holds, and with how a kernel is given
    /// it; one judge that refuses it, or that found nothing, suffices against it.
    #[test]
    fn what_does_not_hold_everywhere_is_not_recommended() {
        let found = tuned(vec![judge(true), judge(true)]);
        assert!(found.is_recommended() && found.refused.is_none());
        let text = Report(&found).table();
        assert!(text.contains("max_order=1 *") && text.contains("slub_max_order=1"), "{text}");
        for judges in [[judge(true), judge(false)], [judge(true), None]] {
            let found = tuned(judges.into());
            let refused = found.refused.as_deref();
            assert_eq!((found.is_recommended(), refused), (false, Some("max_order=1")));
            let text = Report(&found).table();
            assert!(!text.contains("slub_max_order=1"), "{text}");
            assert!(text.contains("is not recommended: it does not hold\n"), "{text}");
        }
    }

    /// Points that nobody could tell apart are counted; the default and what was judged are shown.
    #[test]
    fn the_table_leaves_out_what_is_near_to_what_it_shows() {
        let mut found = tuned(vec![judge(true)]);
        for (name, memory, work) in [
            ("near_best", 0.905, 0.985),
            ("smaller", 0.8, 1.2),
            ("near_smaller", 0.805, 1.195),
            ("less_work", 0.905, 0.9),
            ("near_base", 0.995, 0.995),
        ] {
            let changes = vec![(name.to_owned(), "1".to_owned())];
            let score = Score { memory, work, ..SCORE };
            found.front.push(Point { name: name.into(), changes, score });
        }
        let text = Report(&found).table();
        for name in ["max_order=1 *", "base (default)", "smaller ", "less_work"] {
            assert!(text.contains(name), "{name}: {text}");
        }
        assert!(!text.contains("near_"), "{text}");
        assert!(text.contains("has 3 more, within 1 % of these"), "{text}");
        let Ok(json) = Report(&found).json() else { panic!("it is JSON") };
        assert!(json.contains("near_best") && json.contains("near_base"), "{json}");
    }

    /// Single caches are judged by themselves.
    #[test]
    fn writes_to_single_caches_that_do_not_hold_are_not_recommended() {
        let writes = vec![("min_partial".to_owned(), "0".to_owned())];
        let caches = vec![Single { cache: "filp".into(), writes }];
        let beside = "max_order=1".into();
        let singles = Singles { goal: Goal::Memory, beside, caches, score: SCORE };
        for (said, is_written) in [(judge(true), true), (judge(false), false), (None, false)] {
            let mut found = tuned(vec![judge(true)]);
            found.single_caches = vec![JudgedSingles::new(singles.clone(), vec![said])];
            let text = Report(&found).table();
            let line = "as root: echo 0 >/sys/kernel/slab/filp/min_partial";
            assert_eq!(text.contains(line), is_written, "{text}");
        }
    }
}
