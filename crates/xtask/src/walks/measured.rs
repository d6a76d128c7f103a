//! The commit at which each number in the documents was measured: the table `ci/measured.toml`, one
//! row per commit. A library's row says by how much the library's size may change before the
//! numbers count as outdated.
//!
//! Neighbours: [`super::figures`] checks numbers that are in two places; `ci/figures` checks
//! numbers that a command prints, and the sizes of built libraries.

use super::documents::documents;
use crate::tree::Tree;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

const PATH: &str = "ci/measured.toml";

/// Letters and digits by which documents name a commit.
const COMMIT: usize = 7;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measurement {
    date: String,
    machine: String,
    command: String,
    library: Option<Library>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Library {
    name: String,
    /// At the commit that was measured.
    bytes: u64,
    /// Further away from these bytes, the numbers are to be measured again.
    percent: u64,
}

fn measurements(tree: &Tree) -> Result<BTreeMap<String, Measurement>, String> {
    let text = tree.text(PATH).ok_or_else(|| format!("there is no {PATH}"))?;
    toml::from_str(text).map_err(|error| format!("{PATH}: {error}"))
}

/// Each commit that a document names has a row, each row says how it was measured, and no section
/// has figures of time without such a commit: in the section, or for all of them at the document's
/// begin or under a heading that begins with `Machine`.
pub fn wrong_measurements(tree: &Tree) -> Result<Vec<String>, String> {
    let rows = measurements(tree)?;
    let mut wrong = Vec::new();
    for (path, text) in documents(tree) {
        let unknown = text.lines().flat_map(commits).filter(|commit| !rows.contains_key(*commit));
        wrong.extend(unknown.map(|commit| format!("{path}: {commit} has no row in {PATH}")));
        let names_commit = |section: &str| words(section).any(|word| rows.contains_key(word));
        let sections = sections(text);
        let is_of_all =
            |(nth, section): (usize, &&str)| nth == 0 || section.starts_with("\n## Machine");
        let mut of_all = sections.iter().enumerate().filter(|part| is_of_all(*part));
        if of_all.any(|(_, section)| names_commit(section)) {
            continue;
        }
        for section in sections.into_iter().filter(|section| !names_commit(section)) {
            if let Some(line) = written_by_hand(section).into_iter().find(|line| has_time(line)) {
                wrong.push(format!("{path}: at which commit was this measured? {line}"));
            }
        }
    }
    for (commit, row) in &rows {
        let is_named = documents(tree).any(|(_, text)| words(text).any(|word| word == commit));
        if !is_named {
            wrong.push(format!("{PATH}: no document names {commit}"));
        }
        if !is_date(&row.date) || row.machine.is_empty() {
            wrong.push(format!("{PATH}: {commit} lacks its date or its machine"));
        }
        if !row.command.split_whitespace().any(|word| is_program(tree, word)) {
            wrong.push(format!("{PATH}: the command of {commit} names no program of the tree"));
        }
    }
    Ok(wrong)
}

/// The libraries in a directory whose sizes are out of bounds.
pub fn grown_libraries(tree: &Tree, built: &Path) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    for (commit, row) in measurements(tree)? {
        let Some(library) = row.library else { continue };
        let file = built.join(&library.name);
        let size = std::fs::metadata(&file).map_err(|error| format!("{}: {error}", file.display()));
        let size = size?.len();
        if size.abs_diff(library.bytes) * 100 > library.bytes * library.percent {
            wrong.push(format!(
                "{} has {size} bytes, and had {} when figures were measured at {commit}: more than \
                 {} % differ",
                library.name, library.bytes, library.percent
            ));
        }
    }
    Ok(wrong)
}

/// A document before its first heading of the second rank, and from each such heading to the next.
fn sections(text: &str) -> Vec<&str> {
    let mut sections = Vec::new();
    let mut begin = 0;
    for (at, _) in text.match_indices("\n## ") {
        sections.push(&text[begin..at]);
        begin = at;
    }
    sections.push(&text[begin..]);
    sections
}

/// The lines that are neither generated nor shown as a program prints them.
fn written_by_hand(section: &str) -> Vec<&str> {
    let (mut is_shown, mut is_generated) = (false, false);
    let mut lines = Vec::new();
    for line in section.lines() {
        if line.starts_with("```") {
            is_shown = !is_shown;
        } else if line.starts_with("<!-- ") {
            is_generated = !line.starts_with("<!-- end of ");
        } else if !is_shown && !is_generated {
            lines.push(line);
        }
    }
    lines
}

/// Words of letters and digits, with the characters before them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
}

/// What looks as a commit: digits and letters to `f`, and not a part of a version.
fn commits(line: &str) -> impl Iterator<Item = &str> {
    let parts = line.split(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
    parts.filter(|part| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        let is_hex = part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        part.len() == COMMIT && is_hex && (1..COMMIT).contains(&digits)
    })
}

/// True for a time of a program's, which a rule or a setting never is: with a fraction, in
/// nanoseconds or in cycles; and for an interval of confidence.
fn has_time(line: &str) -> bool {
    let mut rest = line;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[at..];
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let has_fraction = number.trim_end_matches('.').contains('.');
        let is_unit = |unit: &str| {
            let behind = after.strip_prefix(' ').and_then(|after| after.strip_prefix(unit));
            behind.is_some_and(|behind| !behind.starts_with(|c: char| c.is_alphanumeric()))
        };
        let is_interval = after.starts_with(" (")
            && after.split(')').next().is_some_and(|of| of.contains(" to "));
        if ["ns", "us", "µs", "cycles"].into_iter().any(is_unit)
            || has_fraction && (["ms", "s"].into_iter().any(is_unit) || is_interval)
        {
            return true;
        }
        rest = after;
    }
    false
}

fn is_date(date: &str) -> bool {
    let is_right =
        |(at, c): (usize, u8)| if [4, 7].contains(&at) { c == b'-' } else { c.is_ascii_digit() };
    date.len() == 10 && date.bytes().enumerate().all(is_right)
}

/// A script or a source of the tree, the program of a crate, or cargo, which runs one.
fn is_program(tree: &Tree, word: &str) -> bool {
    let of_crate = || {
        let name = format!("name = \"{word}\"\n");
        tree.files("crates/", "/Cargo.toml").any(|(_, text)| text.contains(&name))
    };
    word == "cargo" || word.contains('/') && tree.text(word).is_some() || of_crate()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str =
        "[a1b2c3d]\ndate = \"2026-11-23\"\nmachine = \"two CPUs\"\ncommand = \"ci/speed 3\"\n";

    fn tree(table: &str, document: &str) -> Tree {
        Tree::of([(PATH, table), ("ci/speed", "#!/bin/bash\n"), ("docs/speed.md", document)])
    }

    fn wrong(table: &str, document: &str) -> Vec<String> {
        wrong_measurements(&tree(table, document)).unwrap()
    }

    #[test]
    fn finds_commits_without_a_row_and_rows_without_a_document() {
        assert_eq!(wrong(ROW, "A call takes 5 ns (a1b2c3d).\n"), [""; 0]);
        let other = "A call takes 5 ns (a1b2c3d), and took 7 (b2c3d4e); crate 0.2.3+b097fd0.\n";
        assert_eq!(wrong(ROW, other), ["docs/speed.md: b2c3d4e has no row in ci/measured.toml"]);
        let unnamed = ["ci/measured.toml: no document names a1b2c3d"];
        assert_eq!(wrong(ROW, "Nothing.\n"), unnamed);
    }

    #[test]
    fn finds_rows_that_do_not_say_how_it_was_measured() {
        let document = "(a1b2c3d)\n";
        let late = ROW.replace("2026-11-23", "yesterday");
        assert_eq!(
            wrong(&late, document),
            ["ci/measured.toml: a1b2c3d lacks its date or its machine"]
        );
        let gone = ROW.replace("ci/speed", "ci/gone");
        let names_none = "ci/measured.toml: the command of a1b2c3d names no program of the tree";
        assert_eq!(wrong(&gone, document), [names_none]);
        assert!(wrong_measurements(&tree("[a1b2c3d]\n", document)).is_err());
        assert!(wrong_measurements(&Tree::of([])).is_err());
    }

    #[test]
    fn finds_figures_of_time_in_sections_without_a_commit() {
        for figure in
            ["5 ns", "1.9 us", "0.15 µs", "486 cycles", "4.9 s", "0.8 ms", "0.8 (0.7 to 0.9)"]
        {
            let named = format!("# Speed\n\n(a1b2c3d)\n\n## Calls\n\nIt takes {figure}.\n");
            assert_eq!(wrong(ROW, &named), [""; 0], "the begin of a document is for all of it");
            let other =
                format!("# Speed\n\n## Rest\n\n(a1b2c3d)\n\n## Calls\n\nIt takes {figure}.\n");
            let which =
                format!("docs/speed.md: at which commit was this measured? It takes {figure}.");
            assert_eq!(wrong(ROW, &other), [which]);
        }
        for text in [
            "```\n5 ns\n```",
            "<!-- table -->\n5 ns\n<!-- end of table -->",
            "250 ms",
            "2 s, 3.5 MiB",
        ] {
            assert_eq!(
                wrong(ROW, &format!("# Speed\n\n## Rest\n\n(a1b2c3d)\n\n## Calls\n\n{text}\n")),
                [""; 0]
            );
        }
    }

    #[test]
    fn finds_libraries_that_are_larger_or_smaller_than_their_bound() {
        let built = tempfile::tempdir().unwrap();
        let table = format!("{ROW}library = {{ name = \"lib.so\", bytes = 1000, percent = 10 }}\n");
        let tree = tree(&table, "(a1b2c3d)\n");
        assert!(grown_libraries(&tree, built.path()).is_err(), "there is none");
        for (bytes, nr_wrong) in [(900, 0), (1000, 0), (1100, 0), (899, 1), (1101, 1)] {
            std::fs::write(built.path().join("lib.so"), vec![0; bytes]).unwrap();
            assert_eq!(grown_libraries(&tree, built.path()).unwrap().len(), nr_wrong, "{bytes}");
        }
    }
}
