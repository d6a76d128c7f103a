//! Page walks of the loads of `compare`: their own accesses through a model of a TLB.
//!
//! `loads/walks/walks.c` is the model, which `build/` links with the same loads; it counts in the
//! process itself and says what it counted at the end. Counts do not depend on what else runs.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::allocators::{Allocator, Bench, without_settings};
use crate::args::WalksOptions;
use crate::compare::measures::{Failure, Load, OfLoad, Run};
use crate::compare::runs::{Counting, Rounds, Runner};
use crate::compare::{chosen_loads, chosen_peers, only_preloaded, runs};
use crate::machine::Machine;
use crate::measured::{Head, Measured};
use crate::peers::{AllAllocators, everybody};
use crate::{screen, thp};

/// What one run counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walks {
    accesses: u64,
    /// Of the first level.
    misses: u64,
    /// Misses of both levels.
    walks: u64,
    /// Accesses to huge pages.
    huge: u64,
}

impl Walks {
    pub fn per_thousand(self) -> f64 {
        self.walks as f64 * 1000.0 / self.accesses.max(1) as f64
    }

    pub fn huge_percentage(self) -> f64 {
        self.huge as f64 * 100.0 / self.accesses.max(1) as f64
    }
}

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    scale: f64,
    /// By setting of THP.
    settings: BTreeMap<String, Counted>,
}

/// By load, a place for each allocator: none on which it failed.
pub type Counted = BTreeMap<String, Vec<Option<Walks>>>;

/// Runs the suite.
pub fn run(options: &WalksOptions) -> Result<Measured> {
    let bench = Bench::open(options.common.ours.as_deref())?;
    check_model(&bench, None)?;
    let machine = Machine::read()?;
    let loads = Runner::new(&bench, None, options.scale, options.timeout_s).loads()?;
    let loads = chosen_loads(loads, &options.only)?;
    let walked = bench.program("walked");
    let runner = Runner::new(&bench, Some(&walked), options.scale, options.timeout_s);
    let everybody = everybody(&bench, options.gperftools.as_deref());
    let AllAllocators { allocators, absent } =
        only_preloaded(chosen_peers(everybody, &options.peers), &runner)?;
    let mut failed = Vec::new();
    let mut settings = BTreeMap::new();
    if options.thp.is_empty() {
        let word = thp::current().unwrap_or_else(|_| "unknown".to_owned());
        settings.insert(word, all(&runner, &loads, &allocators, &mut failed)?);
    }
    for setting in &options.thp {
        let _setting = thp::Setting::set(setting.word())?;
        let counted = all(&runner, &loads, &allocators, &mut failed)?;
        settings.insert(setting.word().to_owned(), counted);
    }
    let report = Report {
        head: Head::new(1, "walks", &machine, &allocators, &absent),
        scale: options.scale,
        settings,
    };
    Measured::new(&report.head, &text(&report), &report, Vec::new())
}

/// Fails unless the model counts for known strides what is computed by hand. `second` is another
/// second level.
fn check_model(bench: &Bench, second: Option<&str>) -> Result<()> {
    let mut command = without_settings(&bench.program("walked"));
    command.env("WALKS_CHECK", "1");
    command.envs(second.map(|ways| ("WALKS_SECOND", ways)));
    let out = command.output().context("walked")?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{}", said.trim());
    Ok(())
}

/// A load that fails on an allocator, or does not end, leaves its place empty, and is not tried again.
fn all(
    runner: &Runner,
    loads: &[Load],
    allocators: &[Allocator],
    failed: &mut Vec<Failure>,
) -> Result<Counted> {
    let (before, rounds) = (std::mem::take(failed), Rounds::just(1));
    let (runs, failures) = runs::all_but(before, &counting(runner), loads, allocators, rounds)?;
    *failed = failures;
    let once = |runs: Vec<Run<Walks>>| runs.first().map(|run| run.measures);
    let by_allocator = |of: OfLoad<Walks>| of.into_iter().map(once).collect();
    Ok(loads.iter().map(|load| load.name.clone()).zip(runs.into_iter().map(by_allocator)).collect())
}

fn counting(runner: &Runner) -> Counting<'_, Walks> {
    Counting { runner, more: Vec::new(), read: counted }
}

/// Reads the last line `walks 1 accesses 2 misses 3 walks 4 huge`.
fn counted(text: &str) -> Option<Walks> {
    let line = text.lines().rev().find_map(|line| line.strip_prefix("walks "))?;
    let words: Vec<&str> = line.split(' ').collect();
    let number = |nth: usize, name: &str| {
        (words.get(nth + 1) == Some(&name)).then(|| words[nth].parse().ok())?
    };
    Some(Walks {
        accesses: number(0, "accesses")?,
        misses: number(2, "misses")?,
        walks: number(4, "walks")?,
        huge: number(6, "huge")?,
    })
}

fn text(report: &Report) -> String {
    let mut text =
        "Page walks of a thousand of the load's accesses, and the percentage of accesses \
                    to huge pages.\n"
            .to_owned();
    let mut heading = vec!["load"];
    heading.extend(report.head.allocators.iter().map(|allocator| allocator.name));
    for (setting, loads) in &report.settings {
        let rows = loads.iter().map(|(load, counted)| {
            let cell = |walks: &Option<Walks>| {
                walks.map_or("failed".to_owned(), |walks| {
                    format!("{:.2} {:.0}%", walks.per_thousand(), walks.huge_percentage())
                })
            };
            std::iter::once(load.clone()).chain(counted.iter().map(cell)).collect()
        });
        text += &format!("\nTHP {setting}\n{}\n", screen::table(&heading, rows.collect()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::runs::Runs;
    use std::path::Path;

    fn bench() -> Bench {
        Bench::open(Some(Path::new("mimalloc"))).unwrap()
    }

    #[test]
    fn model_counts_what_is_computed_by_hand() {
        let bench = bench();
        match check_model(&bench, None) {
            Err(error) if error.to_string().contains("CAP_SYS_ADMIN") => {
                println!("skipped: {error}");
                return;
            }
            checked => checked.unwrap(),
        }
        let planted = check_model(&bench, Some("24")).unwrap_err().to_string();
        assert!(planted.contains("computed: 6656, 6656, 0"), "{planted}");
        let glibc = &bench.allocators[crate::allocators::GLIBC];
        let runner = Runner::new(&bench, Some(&bench.program("walked")), 0.01, 60);
        let walks = counting(&runner).run("lifo", glibc, 0).unwrap().measures;
        assert!(walks.accesses > 10_000, "{walks:?}");
        assert!(walks.walks <= walks.misses && walks.misses < walks.accesses, "{walks:?}");
    }

    #[test]
    fn line_of_counts_is_read() {
        let text = "noise\nwalks 9 accesses 4 misses 2 walks 5 huge\n";
        let walks = Walks { accesses: 9, misses: 4, walks: 2, huge: 5 };
        assert_eq!(counted(text), Some(walks));
        assert_eq!(counted("walks 9 accesses 4 misses\n"), None);
        assert_eq!(counted("walks 9 misses 4 accesses 2 walks 5 huge\n"), None);
    }

    #[test]
    fn load_that_fails_leaves_its_place_empty() {
        let bench = bench();
        let runner = Runner::new(&bench, Some(Path::new("/bin/false")), 1.0, 60);
        let load = Load { name: "lifo".to_owned(), threads: 1, words: String::new() };
        let glibc = bench.allocators[crate::allocators::GLIBC].clone();
        let mut failed = Vec::new();
        let counted = all(&runner, &[load], &[glibc], &mut failed).unwrap();
        assert_eq!((&counted["lifo"], failed.len()), (&vec![None], 1));
    }
}
