//! Sizes that are lines of text.

use crate::limits::Counts;
use crate::tree::Tree;

/// The lines of each directory of sources without tests, comments and empty lines, files and
/// directories in it included. A file's tests stand at its end.
pub fn code_lines(tree: &Tree) -> Counts {
    let mut counts = Counts::new();
    for (path, text) in tree.files("crates/", ".rs") {
        let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").filter(|line| {
            let line = line.trim_start();
            !line.is_empty() && !line.starts_with("//")
        });
        let number = lines.count();
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
    fn counts_code_and_no_tests_comments_and_empty_lines() {
        assert_eq!(counted(&"const A: u32 = 0;\n".repeat(1300)), 1301);
        assert_eq!(counted(&"    // Line\n\n".repeat(1300)), 1);
        assert_eq!(
            counted(&("#[cfg(test)]\n".to_owned() + &"const A: u32 = 0;\n".repeat(1300))),
            1
        );
    }
}
