//! What `slabyard sweep` and `sweep join` print at their end: where the table is, its best points, and
//! what each trace's answers are worth.
//!
//! Neighbour: [`super::page`] draws the same. Invariant: JSON has all that is printed.

use crate::failure::Failure;
use crate::terminal::{Colour, Grid};
use anyhow::Context;
use serde::Serialize;
use serde_json::Value as Json;
use slabyard_ask::sweep::summary::{Compared, Front};
use slabyard_ask::sweep::{Summary, Table};
use slabyard_ask::trust::Trust;
use std::fmt::Write;

/// Best points that are printed.
const MOST_BEST: usize = 12;

/// What the check of a trace's own run says.
#[derive(Serialize)]
pub(super) struct Checked {
    /// File name of the trace.
    pub(super) trace: String,
    /// As people read it.
    pub(super) line: String,
    #[serde(flatten)]
    pub(super) trust: Option<Trust>,
}

/// A table that was written.
pub(super) struct Report<'a> {
    /// What was done, for programs.
    pub(super) done: Json,
    /// The same in a line.
    pub(super) line: String,
    pub(super) table: &'a Table,
    pub(super) summary: Summary,
    /// Empty where traces are not checked.
    pub(super) checked: &'a [Checked],
}

#[derive(Serialize)]
struct JsonReport<'a> {
    #[serde(flatten)]
    done: &'a Json,
    trust: &'a [Checked],
    #[serde(flatten)]
    summary: &'a Summary,
}

impl Report<'_> {
    pub(super) fn json(&self) -> Result<String, Failure> {
        let Report { done, summary, checked, .. } = self;
        let json = JsonReport { done, trust: checked, summary };
        Ok(serde_json::to_string_pretty(&json).context("JSON")? + "\n")
    }

    /// A line, a table of the best points, and a line for each trace.
    pub(super) fn text(&self, colour: Colour) -> String {
        let mut text = format!("{}\n", self.line);
        if self.summary.compared.len() > 1 {
            self.best(&mut text, colour);
        }
        for line in self.trust() {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// What the answers about each trace are worth.
    pub(super) fn trust(&self) -> Vec<String> {
        match self.checked {
            [one] => vec![one.line.clone()],
            all => all.iter().map(|one| format!("{}: {}", one.trace, one.line)).collect(),
        }
    }

    /// True if some points differ in what can be chosen, and not in trace and machine alone.
    pub(super) fn has_choice(&self) -> bool {
        self.summary.fronts.iter().any(|front| front.points > 1)
    }

    /// The best points; without a choice the first ones.
    fn best(&self, text: &mut String, colour: Colour) {
        let fronts = &self.summary.fronts;
        let all: usize = fronts.iter().map(|front| front.best.len()).sum();
        let shown = |front: &Front| match front.best[..] {
            [first, .., last] if all > MOST_BEST && 2 * fronts.len() <= MOST_BEST => {
                vec![first, last]
            }
            [first, ..] if all > MOST_BEST => vec![first],
            _ => front.best.clone(),
        };
        let shown: Vec<usize> = fronts.iter().flat_map(shown).take(MOST_BEST).collect();
        let (head, more) = match self.has_choice() {
            true => ("best points", "more are as good"),
            false => ("points", "more are in the table"),
        };
        let mut grid = Grid::new(&[head, "KiB in the mean", "slow-path ns a call"]);
        for nth in &shown {
            let point = &self.summary.compared[*nth];
            let (kib, ns) = (point.memory_bytes >> 10, point.slow_path_ns);
            grid.push(vec![self.name(point).into(), kib.to_string(), format!("{ns:.3}")]);
        }
        text.push('\n');
        grid.write(text, colour);
        text.push('\n');
        if all > shown.len() {
            let _ = writeln!(text, "{} {more}; --html shows them", all - shown.len());
        }
        if self.has_choice() {
            text.push_str(
                "no other point of the same trace and machine takes less memory and less slow-path \
                 work\n",
            );
        }
    }

    /// A point's name, without the trace's where there is one trace.
    pub(super) fn name<'b>(&self, point: &'b Compared) -> &'b str {
        let trace = &self.summary.fronts[0].trace;
        let is_alone = self.summary.fronts.iter().all(|front| front.trace == *trace);
        let rest = point.name.strip_prefix(trace.as_str()).and_then(|rest| rest.strip_prefix(':'));
        rest.filter(|_| is_alone).unwrap_or(&point.name)
    }
}
