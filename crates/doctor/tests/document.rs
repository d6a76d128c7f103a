//! `docs/doctor.md` has the table of rules that the code has.
//! `SLABYARD_BLESS=1 cargo test -p slabyard-doctor --test document` writes it.

use slabyard_doctor::rule::{RuleSource, Threshold};
use slabyard_doctor::rules::RULES;
use slabyard_observe::view::cell::human;
use std::fmt::Write;
use std::{fs, path::PathBuf};

const BEGIN: &str = "<!-- rules -->\n";
const END: &str = "<!-- end of rules -->";

fn threshold(threshold: Threshold) -> String {
    let floor = human(threshold.floor).replace(".0 ", " ");
    match threshold.percent {
        0 => floor,
        percent => format!("{floor} and {percent} %"),
    }
}

fn table() -> String {
    let mut table = String::new();
    for (source, heading) in [(RuleSource::Process, "process"), (RuleSource::Kernel, "kernel")] {
        let _ = writeln!(
            table,
            "| rule for a {heading} | what is measured | at least | why | remedy |\n|---|---|---|---|---|"
        );
        for rule in RULES.iter().filter(|rule| rule.of == source) {
            let at_least = threshold(rule.threshold);
            let _ = writeln!(
                table,
                "| `{}` | {} | {at_least} | {} | {} |",
                rule.id, rule.measures, rule.why, rule.remedy
            );
        }
        if source == RuleSource::Process {
            table.push('\n');
        }
    }
    table
}

#[test]
fn the_document_has_each_rule_as_the_code_has_it() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    let found = fs::read_to_string(&path).expect("docs/doctor.md");
    let (before, rest) = found.split_once(BEGIN).expect("the table begins");
    let (_, after) = rest.split_once(END).expect("the table ends");
    let right = format!("{before}{BEGIN}{}{END}{after}", table());
    if std::env::var_os("SLABYARD_BLESS").is_some() {
        return fs::write(&path, right).expect("docs/doctor.md");
    }
    let differs = right.lines().zip(found.lines()).find(|(right, found)| right != found);
    let command = "run `SLABYARD_BLESS=1 cargo test -p slabyard-doctor --test document`";
    assert!(found == right, "docs/doctor.md differs ({differs:?}); {command}");
}

#[test]
fn rules_have_different_names_that_are_words_with_a_dot() {
    let mut ids: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
    let is_id = |id: &&str| {
        id.contains('.') && id.chars().all(|c| c.is_ascii_lowercase() || ".-".contains(c))
    };
    assert!(ids.iter().all(is_id), "{ids:?}");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), RULES.len());
}
