//! The project's rules that no compiler checks. `ci/floors` and `ci/walks` run this program.
//!
//! A rule is a function that takes the repository's files, held in memory ([`tree`]), and the
//! tables of `ci/rules.toml` and `ci/words.toml` ([`rules`]), and returns its breaches, one per
//! line. [`floors`] has the rules about crates and modules, [`limits`] those with numeric limits;
//! [`orderings`] has the one about memory orderings, [`walks`] those about documents and comments. A rule's test plants breaches in a tree of
//! a few texts. The repository is the working directory.

#![forbid(unsafe_code)]

mod attributes;
mod floors;
mod limits;
mod orderings;
mod phrase;
mod prose;
mod rules;
mod source;
mod tree;
mod walks;

use limits::{Findings, lowered};
use source::sources;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};
use tree::Tree;

const USAGE: &str = "\
xtask floors              which crate and which module may name which, and how large each may be
xtask walks               documents and comments against the code, and their words
xtask walks --echoes      the comments that say no more than the name of what they document
xtask figures DIRECTORY   what was built there against what documents have figures of
xtask floors --orderings  each way to weaken an ordering of what is shipped, and its test
xtask floors --circles    the modules that name one another in circles
xtask floors --lower      lowers the limits in ci/rules.toml to what there is";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[&str]) -> Result<ExitCode, String> {
    let root = Path::new(".");
    let tree = Tree::read(root).map_err(|error| format!("the tree cannot be read: {error}"))?;
    match arguments {
        ["floors"] => {
            let mut findings = floors::findings(&tree)?;
            findings.push(orderings::finding(&tree, &sources(&tree)?));
            Ok(report("floors", findings))
        }
        ["floors", "--orderings"] => {
            let mutants = orderings::mutants(&tree, &sources(&tree)?)?;
            mutants.iter().for_each(|mutant| println!("{mutant}"));
            Ok(ExitCode::SUCCESS)
        }
        ["walks"] => Ok(report("walks", walks::findings(&tree)?)),
        ["figures", built] => {
            Ok(report("figures", walks::findings_of_figures(&tree, Path::new(built))?))
        }
        ["walks", "--echoes"] => {
            walks::echoes(&tree)?.iter().for_each(|echo| println!("{echo}"));
            Ok(ExitCode::SUCCESS)
        }
        ["floors", "--circles"] => {
            floors::all_circles(&tree)?.iter().for_each(|circle| println!("{circle}"));
            Ok(ExitCode::SUCCESS)
        }
        ["floors", "--lower"] => {
            let text = lowered_rules(&tree)?;
            fs::write(root.join(rules::PATH), text)
                .map_err(|error| format!("{}: {error}", rules::PATH))?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(format!("usage:\n{USAGE}")),
    }
}

/// The text of the tables with each limit lowered to what there is.
fn lowered_rules(tree: &Tree) -> Result<String, String> {
    let rules = rules::rules(tree)?;
    let mut text = tree.text(rules::PATH).unwrap_or_default().to_owned();
    let counted = floors::counted(tree, &rules)?;
    for (kind, counts) in counted.into_iter().chain(walks::counted(tree)?) {
        if let Some(limit) = rules.limits.get(kind) {
            text = lowered(&text, kind, limit, &counts);
        }
    }
    Ok(text)
}

/// A line for each rule as the scripts of `ci` have it, behind its breaches.
fn report(step: &str, findings: Findings) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for (rule, breaches) in findings {
        breaches.iter().for_each(|breach| println!("{breach}"));
        if breaches.is_empty() {
            println!("PASS {step}: {rule}");
        } else {
            println!("FAIL {step}: {rule}");
            code = ExitCode::FAILURE;
        }
    }
    code
}
