//! `docs/porting.md` names each source file that chooses by the processor's architecture, so that who
//! ports finds all of them, and no file that does not.

use crate::tree::Tree;
use std::collections::BTreeSet;

const DOCUMENT: &str = "docs/porting.md";
/// Its list begins here, and ends with the next heading.
const HEADING: &str = "## The places that name an architecture\n";
/// How code asks for one.
const QUESTION: &str = "target_arch";
/// Crates of which none is ported: the first has this question as a word.
const NOT_PORTED: [&str; 2] = ["crates/xtask/", "crates/bench/"];

/// Of the files that ask, those without a name there; of the names, those whose file does not ask.
pub fn wrong_places(tree: &Tree) -> Vec<String> {
    let Some((_, list)) = tree.text(DOCUMENT).and_then(|text| text.split_once(HEADING)) else {
        return vec![format!("{DOCUMENT} has no list of places")];
    };
    let list = list.split("\n## ").next().unwrap_or(list);
    let named: BTreeSet<&str> = list
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|path| path.starts_with("crates/"))
        .map(|place| place.split(':').next().unwrap_or(place))
        .collect();
    let asks = |text: &str| text.contains(QUESTION);
    let asking: BTreeSet<&str> = tree
        .files("crates/", ".rs")
        .filter(|(path, text)| path.contains("/src/") && asks(text))
        .map(|(path, _)| path)
        .filter(|path| !NOT_PORTED.iter().any(|not| path.starts_with(not)))
        .collect();
    let missing = asking.difference(&named).map(|path| format!("{DOCUMENT} does not name {path}"));
    let idle = named.difference(&asking).filter(|path| path.ends_with(".rs"));
    missing.chain(idle.map(|path| format!("{DOCUMENT}: {path} names no architecture"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "#[cfg(target_arch = \"x86_64\")]\nmod fast;\n";

    fn wrong(list: &str, other: &str) -> Vec<String> {
        let document =
            format!("# Porting\n\n{HEADING}\n{list}\n\n## Next\n\n`crates/c/src/lib.rs`\n");
        wrong_places(&Tree::of([
            (DOCUMENT, &*document),
            ("crates/a/src/lib.rs", CODE),
            ("crates/a/tests/a.rs", CODE),
            ("crates/b/src/lib.rs", other),
        ]))
    }

    #[test]
    fn finds_a_place_without_a_name_and_a_name_without_a_place() {
        assert_eq!(wrong("`crates/a/src/lib.rs: fast`", ""), [""; 0]);
        assert_eq!(wrong("", ""), ["docs/porting.md does not name crates/a/src/lib.rs"]);
        let both = wrong("`crates/a/src/lib.rs`, `crates/b/src/lib.rs`", "mod slow;\n");
        assert_eq!(both, ["docs/porting.md: crates/b/src/lib.rs names no architecture"]);
        assert_eq!(wrong("`crates/a/src/lib.rs`, `crates/b/src/lib.rs`", CODE), [""; 0]);
        let none = wrong_places(&Tree::of([(DOCUMENT, "# Porting\n")]));
        assert_eq!(none, ["docs/porting.md has no list of places"]);
    }
}
