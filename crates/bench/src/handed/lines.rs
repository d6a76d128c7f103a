//! Cache lines in which two threads have objects, and the time of writes there.

use anyhow::Result;
use comfy_table::Table;
use serde::Serialize;

use crate::allocators::Allocator;
use crate::compare::measures::{Failure, Load, OfLoad, Run};
use crate::compare::runs::{self, Counting, Rounds, Runner};
use crate::screen;
use crate::stats::median;

/// What one process counted, and measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinesRun {
    pub lines: u64,
    /// Of two threads.
    pub shared: u64,
    /// Of two threads on other CPUs.
    pub apart: u64,
    /// Picoseconds a write, of one thread.
    pub alone_ps: u64,
    /// The same while the others write theirs.
    pub together_ps: u64,
}

/// A load; by allocator its rounds, none where it failed.
#[derive(Serialize)]
pub struct Lines {
    pub load: String,
    pub runs: Vec<Vec<LinesRun>>,
}

/// All loads on all allocators, and what failed.
pub fn all(
    runner: &Runner,
    loads: &[Load],
    allocators: &[Allocator],
    rounds: u32,
) -> Result<(Vec<Lines>, Vec<Failure>)> {
    let counting = Counting { runner, more: Vec::new(), read: counted };
    let (runs, failures) = runs::all(&counting, loads, allocators, Rounds::just(rounds))?;
    let counts = |runs: Vec<Run<LinesRun>>| runs.into_iter().map(|run| run.measures).collect();
    let row = |(load, runs): (&Load, OfLoad<LinesRun>)| Lines {
        load: load.name.clone(),
        runs: runs.into_iter().map(counts).collect(),
    };
    Ok((loads.iter().zip(runs).map(row).collect(), failures))
}

/// Reads the line `lines LINES SHARED APART alone PS together PS`.
fn counted(text: &str) -> Option<LinesRun> {
    let line = text.lines().find_map(|line| line.strip_prefix("lines "))?;
    let fields: Vec<&str> = line.split(' ').collect();
    let [lines, shared, apart, "alone", alone, "together", together] = fields.as_slice() else {
        return None;
    };
    let number = |word: &&str| word.parse().ok();
    Some(LinesRun {
        lines: number(lines)?,
        shared: number(shared)?,
        apart: number(apart)?,
        alone_ps: number(alone)?,
        together_ps: number(together)?,
    })
}

/// How many lines: a load a row, both counts.
pub fn counts(all: &[Lines], names: &[&str]) -> Table {
    table(all, names, |runs| {
        let counts = |of: fn(&LinesRun) -> u64| {
            let (least, most) = (runs.iter().map(of).min(), runs.iter().map(of).max());
            let (least, most) = (least.unwrap_or(0), most.unwrap_or(0));
            if least == most { least.to_string() } else { format!("{least} to {most}") }
        };
        let lines = counts(|run| run.lines);
        format!("{} ({}) of {lines}", counts(|run| run.shared), counts(|run| run.apart))
    })
}

/// Time of a write to that of one thread alone: a load a row.
pub fn times(all: &[Lines], names: &[&str]) -> Table {
    table(all, names, |runs| {
        let slower = |run: &LinesRun| run.together_ps as f64 / run.alone_ps.max(1) as f64;
        format!("{:.2}", median(&runs.iter().map(slower).collect::<Vec<f64>>()))
    })
}

fn table(all: &[Lines], names: &[&str], cell: impl Fn(&[LinesRun]) -> String) -> Table {
    let heading: Vec<&str> = ["load"].iter().chain(names).copied().collect();
    let row = |of: &Lines| {
        let cells = of.runs.iter().map(|runs| match runs.as_slice() {
            [] => "failed".to_owned(),
            runs => cell(runs),
        });
        std::iter::once(of.load.clone()).chain(cells).collect()
    };
    screen::table(&heading, all.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: LinesRun =
        LinesRun { lines: 90, shared: 30, apart: 20, alone_ps: 400, together_ps: 1200 };

    #[test]
    fn line_is_read() {
        let text = "ops 7\nlines 90 30 20 alone 400 together 1200\n";
        assert_eq!(counted(text), Some(SOME));
        for wrong in ["", "ops 7", "lines 1 2 3", "lines 1 2 3 together 4 alone 5"] {
            assert_eq!(counted(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn counts_that_repeat_are_one_number() {
        let other = LinesRun { shared: 31, together_ps: 800, ..SOME };
        let runs = vec![vec![SOME, SOME], vec![SOME, other], Vec::new()];
        let all = [Lines { load: "lines_passive".to_owned(), runs }];
        let names = ["ours", "mimalloc", "glibc"];
        let text = counts(&all, &names).to_string();
        for cell in [" 30 (20) of 90 |", " 30 to 31 (20) of 90 |", " failed |"] {
            assert!(text.contains(cell), "{cell} is not in\n{text}");
        }
        let text = times(&all, &names).to_string();
        for cell in [" 3.00 |", " 2.50 |", " failed |"] {
            assert!(text.contains(cell), "{cell} is not in\n{text}");
        }
    }
}
