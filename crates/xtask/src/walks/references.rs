//! Checks that each file, function and other document that a document names exists.

use super::code::code_words;
use super::documents::documents;
use crate::tree::Tree;
use std::collections::BTreeSet;

/// Each file of the tree that a document names exists.
pub fn wrong_files(tree: &Tree) -> Vec<String> {
    let mut wrong = BTreeSet::new();
    for (document, text) in documents(tree) {
        for path in paths(text) {
            if !tree.has(path) {
                wrong.insert(format!("{document}: no file {path}"));
            }
        }
    }
    wrong.into_iter().collect()
}

/// The paths below the directories of the tree that a text names.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let starts = ["crates/", "ci/", "docs/", "include/"];
    let begins = move |at: usize| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"_-./".contains(c))
    };
    let found = starts.into_iter().flat_map(move |start| text.match_indices(start));
    found.filter(move |(at, _)| begins(*at)).map(move |(at, _)| {
        let is_of_path = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
        let path = &text[at..];
        let path = &path[..path.find(|c| !is_of_path(c)).unwrap_or(path.len())];
        path.trim_end_matches(['.', '/'])
    })
}

/// In `crates/.../file.rs: name`, the file has a word `name`.
pub fn wrong_names(tree: &Tree) -> Vec<String> {
    let mut wrong = BTreeSet::new();
    for (document, text) in documents(tree) {
        for quoted in text.lines().flat_map(quoted) {
            let Some((path, name)) = quoted.split_once(": ") else { continue };
            if !path.starts_with("crates/") || code_words(name).next() != Some(name) {
                continue;
            }
            let has = |text: &str| text.lines().flat_map(code_words).any(|word| word == name);
            if !tree.text(path).is_some_and(has) {
                wrong.insert(format!("{document}: no {name} in {path}"));
            }
        }
    }
    wrong.into_iter().collect()
}

/// The texts in backticks on a line.
pub fn quoted(line: &str) -> impl Iterator<Item = &str> {
    let parts: Vec<&str> = line.split('`').collect();
    let last = parts.len() - 1;
    // Backticks in a row begin something else.
    let mut is_open = false;
    parts.into_iter().enumerate().filter_map(move |(i, part)| {
        let is_quoted = is_open && i < last && !part.is_empty();
        is_open = i < last && !is_quoted;
        is_quoted.then_some(part)
    })
}

/// Each link to a document or heading leads there.
pub fn wrong_links(tree: &Tree) -> Vec<String> {
    let mut wrong = BTreeSet::new();
    for (document, text) in documents(tree) {
        for (at, _) in text.match_indices("](") {
            let target = &text[at + 2..];
            let target = &target[..target.find([')', '\n']).unwrap_or(target.len())];
            if target.starts_with("http:") || target.starts_with("https:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { document.to_owned() } else { beside(document, path) };
            if !tree.has(&path) {
                wrong.insert(format!("{document}: no file for the link {target}"));
            } else if !anchor.is_empty() && !anchors(tree.text(&path)).any(|of| of == anchor) {
                wrong.insert(format!("{document}: no heading for the link {target}"));
            }
        }
    }
    wrong.into_iter().collect()
}

/// The path that is `path` in a file.
fn beside(file: &str, path: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of a document's headings.
fn anchors(text: Option<&str>) -> impl Iterator<Item = String> {
    let mut is_code = false;
    let headings = text.unwrap_or_default().lines().filter_map(move |line| {
        is_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        heading.strip_prefix(' ').filter(|_| !is_code && heading != line)
    });
    headings.map(|heading| {
        let heading = heading.to_ascii_lowercase().replace(' ', "-");
        heading.chars().filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree in which nothing is wrong, and `text` at the end of a document.
    fn planted(document: &str, text: &str) -> Tree {
        let mut tree = Tree::of([
            ("README.md", "See [design](docs/design.md#how-it-works) and `ci/floors`.\n"),
            (
                "docs/design.md",
                "## How `it` works\n\nBy `crates/malloc/src/slow.rs: malloc_slow`, in \
                 [README](../README.md), and [above](#how-it-works).\n```\n# No heading\n```\n",
            ),
            ("crates/malloc/src/slow.rs", "fn malloc_slow() {}"),
            ("ci/floors", ""),
        ]);
        let text = tree.text(document).unwrap_or_default().to_owned() + text;
        tree.plant(document, &text);
        tree
    }

    #[test]
    fn nothing_is_wrong_in_what_is_right() {
        let tree = planted("docs/tuning.md", "See `ci/floors`, not `.ci/floors` or `ci/*`.");
        assert_eq!(wrong_files(&tree), [""; 0]);
        assert_eq!(wrong_names(&tree), [""; 0]);
        assert_eq!(wrong_links(&tree), [""; 0]);
    }

    #[test]
    fn finds_files_that_are_not_there() {
        let tree = planted("docs/design.md", "See `crates/slabyard/src/absent.rs`.");
        let absent = "docs/design.md: no file crates/slabyard/src/absent.rs";
        assert_eq!(wrong_files(&tree), [absent]);
        let tree = planted("README.md", "Run `ci/absent`.");
        assert_eq!(wrong_files(&tree), ["README.md: no file ci/absent"]);
        let mut tree = planted("README.md", "");
        tree.remove("crates/malloc/src/slow.rs");
        assert_eq!(wrong_files(&tree), ["docs/design.md: no file crates/malloc/src/slow.rs"]);
    }

    #[test]
    fn finds_names_that_a_file_has_not() {
        let mut tree = planted("docs/design.md", "");
        tree.plant("crates/malloc/src/slow.rs", "fn malloc_slower() {}");
        let absent = "docs/design.md: no malloc_slow in crates/malloc/src/slow.rs";
        assert_eq!(wrong_names(&tree), [absent]);
        let tree = planted("docs/design.md", "See `crates/malloc/src/c.rs: absent`.");
        assert_eq!(wrong_names(&tree), ["docs/design.md: no absent in crates/malloc/src/c.rs"]);
    }

    #[test]
    fn quoted_is_what_has_a_backtick_on_each_side() {
        let of = |line| quoted(line).collect::<Vec<_>>();
        assert_eq!(of("a `b` c `d`"), ["b", "d"]);
        assert_eq!(of("```compile_fail"), [""; 0]);
        assert_eq!(of("`a` and ``` b"), ["a"]);
    }

    #[test]
    fn finds_links_that_lead_nowhere() {
        let tree = planted("docs/tuning.md", "See [this](design.md#absent).");
        let absent = "docs/tuning.md: no heading for the link design.md#absent";
        assert_eq!(wrong_links(&tree), [absent]);
        let tree = planted("docs/tuning.md", "See [this](design.md#no-heading).");
        assert_eq!(wrong_links(&tree).len(), 1, "code has no headings");
        let tree = planted("README.md", "See [this](docs/absent.md).");
        assert_eq!(wrong_links(&tree), ["README.md: no file for the link docs/absent.md"]);
    }
}
