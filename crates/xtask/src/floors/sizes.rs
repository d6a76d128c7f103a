//! Counts the lines in each directory of sources.

use crate::limits::Counts;
use crate::tree::Tree;
use std::collections::HashSet;

/// The lines of each directory of sources without tests, comments and empty lines, files and
/// directories in it included. A file's tests stand at its end.
pub fn code_lines(tree: &Tree) -> Counts {
    add_up(tree, |_, text| {
        let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").filter(|line| {
            let line = line.trim_start();
            !line.is_empty() && !line.starts_with("//")
        });
        lines.count()
    })
}

/// All lines of each directory of sources, but those of files for tests alone.
pub fn lines(tree: &Tree, tests: &HashSet<&str>) -> Counts {
    add_up(tree, |path, text| if tests.contains(path) { 0 } else { text.lines().count() })
}

fn add_up(tree: &Tree, count: impl Fn(&str, &str) -> usize) -> Counts {
    let mut counts = Counts::new();
    for (path, text) in tree.files("crates/", ".rs") {
        let number = count(path, text);
        for (at, _) in path.match_indices('/') {
            *counts.entry(path[..at].to_owned()).or_default() += number;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(planted: &str) -> usize {
        let tree = Tree::of([
            ("crates/slabyard/src/yard/mod.rs", "//! Head.\nmod planted;\n"),
            ("crates/slabyard/src/yard/planted.rs", planted),
            ("crates/slabyard/src/yards.rs", "mod other;"),
        ]);
        code_lines(&tree)["crates/slabyard/src/yard"]
    }

    #[test]
    fn counts_lines_but_no_files_for_tests() {
        let tree = Tree::of([
            ("crates/slabyard/src/lib.rs", "//! Head.\n\nmod tests;\n"),
            ("crates/slabyard/src/tests.rs", "a\nb\n"),
        ]);
        let counts = lines(&tree, &HashSet::from(["crates/slabyard/src/tests.rs"]));
        assert_eq!(counts["crates/slabyard/src"], 3);
    }

    #[test]
    fn counts_code_and_no_tests_comments_and_empty_lines() {
        assert_eq!(counted(&"const A: u32 = 0;\n".repeat(1300)), 1301);
        assert_eq!(counted(&"    // Line\n\n".repeat(1300)), 1);
        assert_eq!(
            counted(&("#[cfg(test)]\n".to_owned() + &"const A: u32 = 0;\n".repeat(1300))),
            1
        );
    }
}
