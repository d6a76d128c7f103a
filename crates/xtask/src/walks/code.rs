//! The code, as the rules about documents see it: its lines, comments and strings.

use crate::prose::{ProseOfFile, prose};
use crate::source::{Source, for_tests};
use crate::tree::Tree;
use std::collections::HashSet;

/// What people read in the Rust files, and what the machine does.
pub struct Code<'a> {
    pub rust: Vec<(&'a str, ProseOfFile)>,
    /// The files for tests only.
    pub tests: HashSet<&'a str>,
    /// The texts of the code in other languages.
    others: Vec<&'a str>,
}

/// The crate of these rules, whose texts name things that do not exist.
pub const OWN: &str = "crates/xtask/";

impl<'a> Code<'a> {
    pub fn of(tree: &'a Tree, sources: &'a [Source]) -> Code<'a> {
        let rust = sources.iter().filter(|source| !source.path.starts_with(OWN)).map(|source| {
            let text = tree.text(&source.path).unwrap_or_default();
            (source.path.as_str(), prose(source, text))
        });
        let others = ["crates/", "ci/", "include/"].into_iter().flat_map(|directory| {
            tree.files(directory, "").filter(move |(path, _)| is_code(path, directory))
        });
        Code {
            rust: rust.collect(),
            tests: for_tests(sources),
            others: others.map(|(_, text)| text).collect(),
        }
    }

    /// In all languages, without the comments of Rust.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        let rust = self.rust.iter().flat_map(|(_, prose)| prose.code.iter().map(String::as_str));
        rust.chain(self.others.iter().flat_map(|text| text.lines()))
    }
}

/// Is this code in another language than Rust? Scripts of `ci` have no ending.
fn is_code(path: &str, directory: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((_, ending)) => matches!(ending, "c" | "h" | "s" | "cc" | "py" | "toml"),
        None => directory == "ci/",
    }
}

/// The words of which code is made.
pub fn code_words(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    words.filter(|word| word.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic()))
}
