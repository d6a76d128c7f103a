//! The rules that compare documents and comments with the code. Each rule takes the tree of files
//! and returns the faults that it finds, one per line. A document is a Markdown file in the root or
//! in `docs`; Markdown files of crates are checked where a rule says so.

mod architectures;
mod code;
mod diffs;
mod documents;
mod echoes;
mod figures;
mod measured;
mod names;
mod references;
mod words;

use crate::limits::{Counts, Findings, breaches_of_limit};
use crate::rules::{rules, words};
use crate::source::{for_tests, sources};
use crate::tree::Tree;
use code::Code;
use documents::documents;
use std::path::Path;

/// What all rules find.
pub fn findings(tree: &Tree) -> Result<Findings, String> {
    let (rules, words) = (rules(tree)?, words(tree)?);
    let sources = sources(tree)?;
    let code = Code::of(tree, &sources);
    Ok(vec![
        ("files", references::wrong_files(tree)),
        ("names", references::wrong_names(tree)),
        ("links", references::wrong_links(tree)),
        ("options", names::wrong_options(tree)),
        ("idents", names::wrong_idents(tree, &code, &words)),
        ("unused", names::unused_constants(&code)),
        ("figures", figures::wrong_figures(tree)),
        ("measured", measured::wrong_measurements(tree)?),
        ("diffs", diffs::wrong_diffs(tree)),
        ("architectures", architectures::wrong_places(tree)),
        ("steps", figures::wrong_steps(tree)),
        ("crates", figures::wrong_crates(tree, &rules)),
        breaches_of_limit("length", &rules, &lengths(tree)),
        breaches_of_limit("echoes", &rules, &nr_echoes(tree)?),
        ("words", words::retired_words(tree, &code, &words)),
    ])
}

/// The comments that say no more than the name of what they document, one a line.
pub fn echoes(tree: &Tree) -> Result<Vec<String>, String> {
    let sources = sources(tree)?;
    let tests = for_tests(&sources);
    let own = sources.iter().filter(|source| !tests.contains(source.path.as_str()));
    echoes::echoes(own, &words(tree)?)
}

/// For what was built, the numbers in documents that are outdated.
pub fn findings_of_figures(tree: &Tree, built: &Path) -> Result<Findings, String> {
    Ok(vec![("libraries are near to what was measured", measured::grown_libraries(tree, built)?)])
}

/// What has a limit here, by the name that it has in the table.
pub fn counted(tree: &Tree) -> Result<Vec<(&'static str, Counts)>, String> {
    Ok(vec![("length", lengths(tree)), ("echoes", nr_echoes(tree)?)])
}

/// In all crates together, so that a module that moves lowers no limit and breaks none.
fn nr_echoes(tree: &Tree) -> Result<Counts, String> {
    Ok(Counts::from([("crates".to_owned(), echoes(tree)?.len())]))
}

/// The words of each document, and of all below `docs`.
fn lengths(tree: &Tree) -> Counts {
    let mut counts = Counts::new();
    for (path, text) in documents(tree) {
        let number = text.split_whitespace().count();
        counts.insert(path.to_owned(), number);
        if path.starts_with("docs/") {
            *counts.entry("docs".to_owned()).or_default() += number;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_words_of_documents() {
        let tree = Tree::of([
            ("README.md", "one two\n\n| three |\n"),
            ("docs/design.md", "one"),
            ("docs/tuning.md", "one two"),
            ("crates/abi/README.md", "one"),
        ]);
        let counts = [("README.md", 5), ("docs", 3), ("docs/design.md", 1), ("docs/tuning.md", 2)];
        assert_eq!(lengths(&tree), counts.map(|(path, number)| (path.to_owned(), number)).into());
    }
}
