//! Writes the measured part of README.md: the table of means and the worst loads, between two
//! marks, so that its figures are those of the page beside it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::parts;
use crate::raw::{ResultsFile, SuiteResult};

const BEGIN: &str = "<!-- slabyard-bench page -->\n";
const END: &str = "<!-- end -->\n";

/// Writes the part into the README beside the directory of documents, if one is there that has
/// the marks.
pub fn write(docs: &Path, written: &ResultsFile) -> Result<()> {
    let readme = docs.join("..").join("README.md");
    let Ok(text) = fs::read_to_string(&readme) else { return Ok(()) };
    let Some((before, rest)) = text.split_once(BEGIN) else { return Ok(()) };
    let told = || readme.display().to_string();
    let (_, after) = rest.split_once(END).with_context(|| format!("{}: no {END}", told()))?;
    let Some(part) = measured(written)? else { return Ok(()) };
    fs::write(&readme, format!("{before}{BEGIN}{part}{END}{after}")).with_context(told)
}

/// `None` without the loads, of which it tells.
fn measured(written: &ResultsFile) -> Result<Option<String>> {
    let suite = |name| written.suites.get(name).filter(|suite| suite.report.is_some());
    let Some(loads) = suite("compare") else { return Ok(None) };
    let report = loads.report.as_ref().context("no report")?;
    let commit = loads.commit.as_ref().map_or(String::new(), |commit| format!(", at {commit}"));
    let mut text = format!(
        "Mean ratios of Slabyard to each peer over {}{commit}; less is better:\n\n{}\n",
        parts::loads_and_machine(report.get())?,
        parts::table_of_means(report.get())?,
    );
    let worst = numbers(loads, "wall time to the best peer's, worst load");
    ensure!(!worst.is_empty(), "the goals have no worst load");
    let _ = write!(text, "On its worst load Slabyard takes {} times", worst[0]);
    if let Some(always) = worst.get(1) {
        let _ = write!(text, " ({always} with huge pages for all)");
    }
    text += " as long as the peer that is best on it";
    if let Some(worst) =
        suite("programs").and_then(|p| numbers(p, "wall time to the best peer's, worst load").pop())
    {
        let _ = write!(text, "; on the worst of the real programs, {worst} times");
    }
    text += ".\n";
    if let Some(latency) = suite("latency") {
        let mut tails = numbers(latency, "p99.9 of");
        tails.sort_by(|a, b| number(a).total_cmp(&number(b)));
        if let [least, .., most] = tails.as_slice() {
            let _ = writeln!(
                text,
                "The p99.9 latency of single calls is {least} to {most} times mimalloc's."
            );
        }
    }
    Ok(Some(text))
}

/// The first number of each goal with `name` in its name.
fn numbers(suite: &SuiteResult, name: &str) -> Vec<String> {
    let of = suite.goals.iter().filter(|goal| goal.name.contains(name));
    of.filter_map(|goal| goal.measured.split(' ').next().map(str::to_owned))
        .filter(|number| number.parse::<f64>().is_ok())
        .collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::super::tests;
    use super::*;
    use crate::raw::SuiteResults;

    fn written() -> ResultsFile {
        let mut loads = tests::loads();
        let worst = |thp: &str, ratio: &str| {
            let name = format!("{thp}: wall time to the best peer's, worst load");
            tests::goal(&name, &format!("{ratio} (a, b); 1 of 24 above"), "<= 1.10", false)
        };
        loads.goals.extend([worst("madvise", "1.203"), worst("always", "1.125")]);
        ResultsFile::new(SuiteResults::from([("compare".to_owned(), loads)]))
    }

    #[test]
    fn what_stands_between_the_marks_is_replaced_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let (docs, readme) = (root.path().join("docs"), root.path().join("README.md"));
        fs::create_dir(&docs).unwrap();
        // Without a README, or without marks in it, nothing happens.
        write(&docs, &written()).unwrap();
        fs::write(&readme, "A\n").unwrap();
        write(&docs, &written()).unwrap();
        assert_eq!(fs::read_to_string(&readme).unwrap(), "A\n");
        fs::write(&readme, format!("A\n{BEGIN}old\n{END}B\n")).unwrap();
        write(&docs, &written()).unwrap();
        let text = fs::read_to_string(&readme).unwrap();
        assert!(text.starts_with(&format!("A\n{BEGIN}")) && text.ends_with(&format!("{END}B\n")));
        for words in [
            "over 2 loads, on 2 CPUs (A CPU), at abc1234 (2026-11-23)",
            "0.500 (0.400 to 0.600)",
            "takes 1.203 times (1.125 with huge pages for all) as long",
        ] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
        assert!(!text.contains("old"));
        fs::write(&readme, format!("A\n{BEGIN}old\n")).unwrap();
        assert!(write(&docs, &written()).is_err(), "the end is missing");
    }
}
