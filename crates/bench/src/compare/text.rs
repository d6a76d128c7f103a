//! The comparison as text, on the screen and in the written document.

use std::fmt::Write as _;

use super::judge;
use super::measures::WALL;
use super::report::{Report, Section};
use super::results::Results;
use super::tables;
use crate::screen;
use crate::stats::median;

/// The allocator whose times show how steady the machine was.
const STEADY: &str = "glibc";

/// Rounds below which an interval says little.
const FEW_ROUNDS: u32 = 10;

/// All of it, below the machine and the allocators.
pub fn body(report: &Report) -> String {
    let mut text = method(report);
    for section in &report.sections {
        text += &results(section);
    }
    text + &loads(report)
}

fn method(report: &Report) -> String {
    let mut text = format!(
        "Each run is a process that does the whole of a load and ends.\n\
         {} rounds; in each, every load runs once on every allocator, in an order drawn anew, \
         with the round's number as its seed if the loads are the program's own.\n\
         A load runs on, {} rounds at most, while the interval of its time beside the best \
         peer's holds the limit; the tables say how many it had. Means take the first {} of each.\n\
         Cells are medians over rounds; a ratio is the median over rounds of ours to a peer's in \
         the same round, so not that of two cells; less than 1 is better for ours; 95 % bootstrap \
         intervals draw rounds.\n\
         Means are geometric, over the loads that both ended.\n\
         CPU time, peak RSS and minor page faults are those of `wait4`; RSS over time is the \
         integral of samples each 10 ms; mappings are counted each 100 ms.\n\
         System calls are counted by `strace`, in one more run that is not timed; the loader's and \
         the threads' own are among them.\n\
         The best is the first of the peers on that load and measure, without ours, by this ratio.\n",
        report.rounds, report.most_rounds, report.rounds
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
    let mut text = format!("### Transparent huge pages: {}\n\n", section.thp);
    text += &steadiness(results);
    let _ = write!(text, "#### Means\n\n{}\n\n", tables::means(results));
    if !judge::is_ours(results) {
        let (title, table) = (capital(tables::SIDE_BY_SIDE), tables::side_by_side(results));
        let _ = write!(text, "#### {title}\n\n{table}\n\n");
    }
    text += "#### Losses\n\n";
    if section.losses.is_empty() {
        text += "None: no peer is ahead on any load in wall time or in peak RSS.\n\n";
    } else {
        text += "Each load on which a peer is ahead in wall time or in peak RSS.\n\n";
        let _ = write!(text, "{}\n\n", tables::losses(&section.losses));
    }
    if !results.failures.is_empty() {
        text += "#### Failures\n\nThese did not end, and are in no table:\n\n";
        for failure in &results.failures {
            let (load, allocator, why) = (&failure.load, failure.allocator, &failure.why);
            let _ = writeln!(text, "- {load} on {allocator}, round {}: {why}", failure.round);
        }
        text += "\n";
    }
    for (title, table) in tables::all_medians(results) {
        let _ = write!(text, "#### {}\n\n{table}\n\n", capital(&title));
    }
    match &section.calls {
        Ok(calls) => {
            let table = tables::calls(&results.loads, &results.allocators, calls);
            let _ = write!(text, "#### {}\n\n{table}\n\n", capital(tables::CALLS_TITLE));
        }
        Err(why) => {
            let _ = write!(text, "#### System calls\n\nskipped: {why}.\n\n");
        }
    }
    text
}

/// How much the machine's own doings change: by the C library's times, which no build of
/// ours does.
fn steadiness(results: &Results) -> String {
    let spreads = results.place(STEADY).map(|place| results.spreads(WALL, place));
    let Some(spreads) = spreads.filter(|spreads| !spreads.is_empty()) else {
        return String::new();
    };
    let most = spreads.iter().copied().fold(0.0, f64::max);
    format!(
        "How steady the machine was: the middle half of {STEADY}'s wall times of a load lies \
         within {:.0} % of their median, of one load in two; {:.0} % at most.\n\n",
        median(&spreads) * 100.0,
        most * 100.0
    )
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
    format!("### Loads\n\n{}\n", screen::words(&heading, rows.collect()))
}

fn capital(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::super::calls::Calls;
    use super::super::results::tests::made_up;
    use super::*;
    use crate::args::{Args, Suite};
    use crate::machine::Machine;
    use clap::Parser;

    #[test]
    fn text_holds_losses_and_failures() {
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
        let sections = vec![Section::new("madvise", results, calls)];
        let line = ["slabyard-bench", "compare", "--rounds", "3"];
        let Suite::Compare(options) = Args::try_parse_from(line).unwrap().suite else {
            unreachable!("the suite asked for")
        };
        let report = Report::new(&machine, &[], &[], sections, &options);

        let text = body(&report);
        let losses = text.split("### Losses").nth(1).unwrap().split("###").next().unwrap();
        assert!(losses.contains("| lost") && losses.contains("1.500"), "{losses}");
        assert!(!losses.contains("| good") && losses.contains("not explained yet"), "{losses}");
        for words in [
            "- dead on glibc, round 1: signal 11",
            "### Transparent huge pages: madvise",
            "their intervals tell little",
            "within 0 % of their median",
            "11 / 22 / 33",
        ] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
        let raw = serde_json::to_value(&report).unwrap();
        let sample = &raw["settings"][0]["loads"][1]["samples"]["ours"]["wall_us"];
        assert_eq!(*sample, serde_json::json!([30, 30, 30]));
        assert_eq!(raw["settings"][0]["loads"][0]["calls"]["glibc"]["map"], 22);
    }
}
