//! Checks the diffs that documents show as examples of a change: they must apply to the tree, and
//! be small.

use super::documents::documents;
use crate::tree::Tree;
use std::collections::BTreeSet;

/// The most files that a diff changes: what is added most has a row in one table, its use, and what
/// is generated.
const MOST_FILES: usize = 3;

/// What a diff leaves and takes away is in its files.
pub fn wrong_diffs(tree: &Tree) -> Vec<String> {
    let mut wrong = Vec::new();
    for (document, text) in documents(tree) {
        for diff in text.split("```diff\n").skip(1) {
            let (diff, _) = diff.split_once("```").unwrap_or((diff, ""));
            wrong
                .extend(wrong_diff(tree, diff).into_iter().map(|why| format!("{document}: {why}")));
        }
    }
    wrong
}

fn wrong_diff(tree: &Tree, diff: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut files = BTreeSet::new();
    for part in diff.split("--- a/").skip(1) {
        let (path, hunks) = part.split_once('\n').unwrap_or((part, ""));
        files.insert(path);
        let Some(text) = tree.text(path) else {
            wrong.push(format!("the diff names {path}, which is not there"));
            continue;
        };
        for hunk in hunks.split("@@ -").skip(1) {
            let lines = hunk.lines().skip(1);
            let old: Vec<&str> = lines.filter_map(|line| line.strip_prefix([' ', '-'])).collect();
            if old.is_empty() || !has_lines(text, &old) {
                wrong.push(format!("the diff does not fit {path}: {}", old.join(" / ")));
            }
        }
    }
    if files.is_empty() || files.len() > MOST_FILES {
        wrong.push(format!(
            "the diff changes {} files, at most {MOST_FILES} are right",
            files.len()
        ));
    }
    wrong
}

/// True if these lines follow each other in the text.
fn has_lines(text: &str, wanted: &[&str]) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    lines.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a/ci/rows\n+++ b/ci/rows\n@@ -1,2 +1,3 @@\n one\n+two\n three\n";

    fn wrong(diff: &str, rows: &str) -> Vec<String> {
        let document = format!("So a row is added by\n\n```diff\n{diff}```\n");
        wrong_diffs(&Tree::of([("CONTRIBUTING.md", &*document), ("ci/rows", rows)]))
    }

    #[test]
    fn finds_diffs_that_do_not_fit() {
        assert_eq!(wrong(DIFF, "zero\none\nthree\n"), [""; 0]);
        let unfit = "CONTRIBUTING.md: the diff does not fit ci/rows: one / three";
        assert_eq!(wrong(DIFF, "one\nfour\n"), [unfit]);
        assert_eq!(wrong(DIFF, "one\nzero\nthree\n"), [unfit]);
        let gone = "CONTRIBUTING.md: the diff names ci/gone, which is not there";
        assert_eq!(wrong(&DIFF.replace("rows", "gone"), ""), [gone]);
    }

    #[test]
    fn finds_diffs_of_many_files_and_of_none() {
        let paths = ["a", "b", "c", "d"];
        let diff: String = paths.map(|path| DIFF.replace("ci/rows", path)).concat();
        let found = wrong(&diff, "one\nthree\n");
        let many = "CONTRIBUTING.md: the diff changes 4 files, at most 3 are right";
        assert!(found.iter().any(|why| why == many), "{found:?}");
        assert_eq!(wrong("nothing\n", "").len(), 1);
    }
}
