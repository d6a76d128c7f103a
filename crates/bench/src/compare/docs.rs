//! The written document: `benchmarks.md`, and the raw samples beside it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{Report, Section, tables};
use crate::args::CompareOptions;
use crate::screen;

/// Rounds below which an interval tells little.
const FEW_ROUNDS: u32 = 10;

/// Writes both files into `directory`.
pub fn write(directory: &Path, report: &Report, options: &CompareOptions) -> Result<()> {
    let name = directory.display();
    ensure!(directory.is_dir(), "{name}: no directory; --write-docs=DIR names another");
    let document = directory.join("benchmarks.md");
    fs::write(&document, text(report, options)).with_context(|| document.display().to_string())?;
    let raw = directory.join("benchmarks.json");
    let told = || raw.display().to_string();
    let mut file = BufWriter::new(File::create(&raw).with_context(told)?);
    serde_json::to_writer(&mut file, report).with_context(told)?;
    file.write_all(b"\n").and_then(|()| file.flush()).with_context(told)
}

fn text(report: &Report, options: &CompareOptions) -> String {
    let mut text = String::from(
        "# Benchmarks\n\n\
         Slabyard's malloc beside its peers, each preloaded into the same programs.\n\
         This file and `benchmarks.json`, which holds every sample, were written by one command:\n\n",
    );
    let _ = writeln!(text, "```\n{}\n```\n", commands(options));
    text += &machine(report);
    text += &method(report);
    for section in &report.sections {
        text += &results(section);
    }
    text += &loads(report);
    text
}

/// How to repeat it, without paths of the machine where it was done.
fn commands(options: &CompareOptions) -> String {
    let mut text = "cargo build --release -p slabyard-malloc\n\
         cargo build --release -p slabyard-bench --features peers\n\
         target/release/slabyard-bench compare"
        .to_owned();
    let _ = write!(text, " --rounds {}", options.rounds);
    if options.scale != 1.0 {
        let _ = write!(text, " --scale {}", options.scale);
    }
    if !options.thp.is_empty() {
        let words: Vec<&str> = options.thp.iter().map(|thp| thp.word()).collect();
        let _ = write!(text, " --thp {}", words.join(","));
    }
    if !options.only.is_empty() {
        let _ = write!(text, " --only {}", options.only.join(","));
    }
    if !options.peers.is_empty() {
        let _ = write!(text, " --peers {}", options.peers.join(","));
    }
    text + " --write-docs"
}

fn machine(report: &Report) -> String {
    let machine = report.machine;
    let mut text = format!(
        "## Machine and allocators\n\n\
         {}, {} CPUs, Linux {}, {}.\n",
        machine.cpu,
        machine.cpus.len(),
        machine.kernel,
        machine.compiler
    );
    for setting in &machine.settings {
        let _ = writeln!(text, "Setting of ours: `{setting}`.");
    }
    let rows = report.allocators.iter().map(|allocator| {
        let flags = match allocator.flags {
            "" => "as found".to_owned(),
            flags => format!("`{flags}`"),
        };
        vec![allocator.name.to_owned(), allocator.version.clone(), flags]
    });
    let _ = write!(text, "\n{}\n", plain(&["allocator", "version", "built with"], rows));
    if report.absent.is_empty() {
        return text + "\nNo peer was left out.\n\n";
    }
    text += "\nLeft out:\n\n";
    for absent in report.absent {
        let _ = writeln!(text, "- {}: {}", absent.name, absent.why);
    }
    text + "\n"
}

fn method(report: &Report) -> String {
    let mut text = format!(
        "## Method\n\n\
         Each run is a process that does the whole of a load and ends.\n\
         {} rounds; in each, every load runs once on every allocator, in an order drawn anew.\n\
         Cells are medians over rounds; ratios are ours to a peer's, less than 1 being better for \
         ours, with 95 % bootstrap intervals that draw rounds.\n\
         Means are geometric, over the loads that both ended.\n\
         CPU time, peak RSS and minor page faults are those of `wait4`; RSS over time is the \
         integral of samples each 10 ms; mappings are counted each 100 ms.\n\
         System calls are counted by `strace`, in one more run that is not timed; the loader's and \
         the threads' own are among them.\n\
         The second-best is the second of the peers on that load and measure, without ours.\n",
        report.rounds
    );
    if report.rounds < FEW_ROUNDS {
        let _ = writeln!(text, "So few rounds show that it runs; their intervals tell little.");
    }
    if report.scale != 1.0 {
        let _ = writeln!(text, "The loads ran at {} of their size.", report.scale);
    }
    text + "\n"
}

fn results(section: &Section) -> String {
    let results = &section.results;
    let mut text = format!("## Transparent huge pages: {}\n\n", section.thp);
    let _ = write!(text, "### Goals\n\n{}\n\n", screen::goals(&section.goals));
    let _ = write!(text, "### Means\n\n{}\n\n", tables::means(results));
    text += "### Losses\n\n";
    if section.losses.is_empty() {
        text += "None: no peer is ahead on any load in wall time or in peak RSS.\n\n";
    } else {
        text += "Each load on which a peer is ahead in wall time or in peak RSS.\n\n";
        let _ = write!(text, "{}\n\n", tables::losses(&section.losses));
    }
    if !results.failures.is_empty() {
        text += "### Failures\n\nThese did not end, and are in no table:\n\n";
        for failure in &results.failures {
            let (load, allocator, why) = (&failure.load, failure.allocator, &failure.why);
            let _ = writeln!(text, "- {load} on {allocator}, round {}: {why}", failure.round);
        }
        text += "\n";
    }
    for (title, table) in tables::all_medians(results) {
        let _ = write!(text, "### {}\n\n{table}\n\n", capital(&title));
    }
    match &section.calls {
        Ok(calls) => {
            let table = tables::calls(&results.loads, &results.allocators, calls);
            let _ = write!(text, "### {}\n\n{table}\n\n", capital(tables::CALLS_TITLE));
        }
        Err(why) => {
            let _ = write!(text, "### System calls\n\nskipped: {why}.\n\n");
        }
    }
    text
}

fn loads(report: &Report) -> String {
    let rows = report.sections.first().into_iter().flat_map(|section| {
        let loads = section.results.loads.iter().zip(&section.results.work);
        loads.map(|(load, ops)| {
            let ops = ops.map_or("-".to_owned(), |ops| ops.to_string());
            vec![load.name.clone(), load.threads.to_string(), ops, load.words.clone()]
        })
    });
    let heading = ["load", "threads", "operations", "what it does"];
    format!("## Loads\n\n{}\n", plain(&heading, rows))
}

fn plain(heading: &[&str], rows: impl Iterator<Item = Vec<String>>) -> comfy_table::Table {
    let mut table = screen::table(heading, rows.collect());
    if let Some(column) = table.column_mut(heading.len() - 1) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    table
}

fn capital(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::super::calls::Calls;
    use super::super::results::tests::made_up;
    use super::super::section;
    use super::*;
    use crate::args::{Args, Suite};
    use crate::machine::Machine;
    use crate::peers::Absent;
    use clap::Parser;

    fn options(more: &[&str]) -> CompareOptions {
        let line = ["slabyard-bench", "compare"].iter().chain(more);
        match Args::try_parse_from(line).unwrap().suite {
            Suite::Compare(options) => options,
            _ => unreachable!("the suite asked for"),
        }
    }

    #[test]
    fn document_holds_losses_failures_and_who_was_left_out() {
        let options = options(&["--rounds", "3", "--thp", "madvise", "--write-docs"]);
        let results = made_up(
            &["ours", "mimalloc", "glibc"],
            &[
                ("good", &[Some((10, 9)), Some((20, 10)), Some((20, 10))]),
                ("lost", &[Some((30, 9)), Some((20, 10)), Some((20, 10))]),
                ("dead", &[Some((30, 9)), Some((40, 10)), None]),
            ],
        );
        let some = Some(Calls { madvise: 11, map: 22, mprotect: 33 });
        let calls = Ok(vec![vec![some; 3]; 3]);
        let machine = Machine::read().unwrap();
        let absent = [Absent { name: "tcmalloc", why: "not installed".to_owned() }];
        let report =
            Report::new(&machine, &[], &absent, vec![section("madvise", results, calls)], &options);

        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &report, &options).unwrap();
        let text = fs::read_to_string(directory.path().join("benchmarks.md")).unwrap();
        let losses = text.split("### Losses").nth(1).unwrap().split("###").next().unwrap();
        assert!(losses.contains("| lost") && losses.contains("1.500"), "{losses}");
        assert!(!losses.contains("| good") && losses.contains("not explained yet"), "{losses}");
        for words in [
            "compare --rounds 3 --thp madvise --write-docs",
            "- tcmalloc: not installed",
            "- dead on glibc, round 1: signal 11",
            "## Transparent huge pages: madvise",
            "their intervals tell little",
            "11 / 22 / 33",
        ] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
        let raw = fs::read_to_string(directory.path().join("benchmarks.json")).unwrap();
        let raw: serde_json::Value = serde_json::from_str(&raw).unwrap();
        let sample = &raw["settings"][0]["loads"][1]["samples"]["ours"]["wall_us"];
        assert_eq!(*sample, serde_json::json!([30, 30, 30]));
        assert_eq!(raw["settings"][0]["loads"][0]["calls"]["glibc"]["map"], 22);
    }

    #[test]
    fn missing_directory_is_named() {
        let options = options(&[]);
        let machine = Machine::read().unwrap();
        let report = Report::new(&machine, &[], &[], Vec::new(), &options);
        let error = write(Path::new("/nowhere"), &report, &options).unwrap_err().to_string();
        assert!(error.contains("/nowhere") && error.contains("--write-docs="), "{error}");
    }
}
