//! Checks that numbers and tables that appear in two places agree.

use super::documents::documents;
use crate::rules::Rules;
use crate::tree::Tree;

/// The figures in README's part "Measured" are in the document of benchmarks.
pub fn wrong_figures(tree: &Tree) -> Vec<String> {
    let readme = tree.text("README.md").unwrap_or_default();
    let benchmarks = tree.text("docs/benchmarks.md").unwrap_or_default();
    let measured = readme.lines().skip_while(|line| !line.starts_with("## Measured"));
    let measured = measured.skip(1).take_while(|line| !line.starts_with("## "));
    let figures: Vec<&str> = measured.flat_map(figures).collect();
    if figures.is_empty() {
        return vec!["README.md: no figure was found under Measured".to_owned()];
    }
    let unknown = figures.into_iter().filter(|figure| !benchmarks.contains(figure));
    unknown.map(|figure| format!("README.md: docs/benchmarks.md has no figure {figure}")).collect()
}

/// Numbers with a fraction, with their range or as a share.
fn figures(line: &str) -> Vec<&str> {
    let mut figures = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[at..];
        let number = number(rest);
        let range = rest[number..]
            .strip_prefix(" (")
            .and_then(|range| range.find(')').map(|end| (&range[..end], number + end + 3)))
            .filter(|(range, _)| range.contains(" to "));
        let share = rest[number..].starts_with(" %");
        let length = range.map_or(if share { number + 2 } else { number }, |(_, length)| length);
        if rest[..number].contains('.') {
            figures.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    figures
}

/// How much of a text is a number.
fn number(text: &str) -> usize {
    let length = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..length].trim_end_matches('.').len()
}

/// Each step of `ci/test` has a row in a document.
pub fn wrong_steps(tree: &Tree) -> Vec<String> {
    let steps = steps(tree.text("ci/test").unwrap_or_default());
    if steps.is_empty() {
        return vec!["no step was found in ci/test".to_owned()];
    }
    let has_row = |step: &String| {
        let name = format!("`ci/{step}`");
        let is_row = |line: &str| line.starts_with('|') && line.contains(&name);
        documents(tree).any(|(_, text)| text.lines().any(is_row))
    };
    steps.iter().filter(|step| !has_row(step)).map(|step| format!("no row for ci/{step}")).collect()
}

/// The steps in the lists of the script: words, or several with arguments in quotation marks.
fn steps(script: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = script;
    while let Some(at) = rest.find("=(") {
        let name = rest[..at].rsplit('\n').next().unwrap_or_default();
        rest = &rest[at + 2..];
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase()) {
            continue;
        }
        let (list, _) = rest.split_once(")\n").unwrap_or((rest, ""));
        for (i, part) in list.split('"').enumerate() {
            let quoted = i % 2 == 1;
            let words = part.split_whitespace().take(if quoted { 1 } else { usize::MAX });
            steps.extend(words.map(str::to_owned));
        }
    }
    steps
}

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// The table of crates in the architecture has the crates of the table of edges.
pub fn wrong_crates(tree: &Tree, rules: &Rules) -> Vec<String> {
    let text = tree.text(ARCHITECTURE).unwrap_or_default();
    let table = text.lines().skip_while(|line| !line.starts_with("| crate |"));
    let rows = table.skip(2).take_while(|line| line.starts_with('|'));
    let shown: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    let crates = rules.edges.keys().map(|name| name.strip_prefix("slabyard-").unwrap_or(name));
    let crates: Vec<&str> = crates.collect();
    let lacks = crates.iter().filter(|name| !shown.contains(name));
    let has = shown.iter().filter(|name| !crates.contains(name));
    lacks
        .map(|name| format!("{ARCHITECTURE}: no row for the crate {name}"))
        .chain(has.map(|name| format!("{ARCHITECTURE}: there is no crate {name}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readme(measured: &str) -> Tree {
        Tree::of([
            ("README.md", &*format!("## Measured\n\n{measured}\n\n## Documents\n\n7.5\n")),
            ("docs/benchmarks.md", "| 0.801 (0.728 to 0.853) | 91.3 % |"),
        ])
    }

    #[test]
    fn finds_figures_that_were_not_measured() {
        let tree = readme("| 0.801 (0.728 to 0.853) | 91.3 %, in 24 loads.");
        assert_eq!(wrong_figures(&tree), [""; 0]);
        let tree = readme("0.123 (0.100 to 0.150)");
        let wrong = "README.md: docs/benchmarks.md has no figure 0.123 (0.100 to 0.150)";
        assert_eq!(wrong_figures(&tree), [wrong]);
        let tree = readme("0.801 (0.728 to 0.854)");
        assert_eq!(wrong_figures(&tree).len(), 1, "the range is a part of the figure");
        let none = "README.md: no figure was found under Measured";
        assert_eq!(wrong_figures(&readme("24")), [none]);
    }

    #[test]
    fn finds_steps_without_a_row() {
        let mut tree = Tree::of([
            ("ci/test", "build=(build)\nengine=(\"unit engine\")\nshared=(floors\n    walks)\n"),
            ("CONTRIBUTING.md", "| `ci/build`, `ci/floors` | a |\n| `ci/unit` | b |"),
        ]);
        assert_eq!(wrong_steps(&tree), ["no row for ci/walks"]);
        tree.plant("docs/steps.md", "| `ci/walks` | c |");
        assert_eq!(wrong_steps(&tree), [""; 0]);
        tree.plant("ci/test", "build");
        assert_eq!(wrong_steps(&tree), ["no step was found in ci/test"]);
    }

    #[test]
    fn finds_crates_that_only_one_table_has() {
        let edges = ["slabyard", "slabyard-abi"].map(|name| (name.to_owned(), Vec::new())).into();
        let rules = Rules { edges, ..Rules::default() };
        let table = |rows: &str| {
            let text = format!("| `other` |\n\n| crate | is |\n|---|---|\n{rows}\n\n| `else` |\n");
            Tree::of([(ARCHITECTURE, &*text)])
        };
        let tree = table("| `abi` | a |\n| `slabyard` | b |");
        assert_eq!(wrong_crates(&tree, &rules), [""; 0]);
        let tree = table("| `abi` | a |\n| `bare` | b |");
        let wrong = ["no row for the crate slabyard", "there is no crate bare"];
        assert_eq!(wrong_crates(&tree, &rules), wrong.map(|w| format!("{ARCHITECTURE}: {w}")));
    }
}
