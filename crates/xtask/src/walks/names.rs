//! Checks that names in documents and comments exist in the code.

use super::code::{Code, OWN, code_words};
use super::documents::documents;
use super::references::quoted;
use crate::rules::Words;
use crate::tree::Tree;
use std::collections::{BTreeSet, HashMap, HashSet};

/// No variable of the environment is named that no source has. That each option has a row in a
/// document is what the tests of `crates/abi` say.
pub fn wrong_options(tree: &Tree) -> Vec<String> {
    let variables = |text| {
        code_words(text).filter_map(|word| {
            let word = word.trim_end_matches(|c: char| c.is_ascii_lowercase());
            let rest = word.strip_prefix("SLABYARD_")?;
            rest.starts_with(|c: char| c.is_ascii_uppercase()).then_some(word)
        })
    };
    let headers = tree.files("include/", ".h").chain(tree.files("crates/", ".h"));
    let sources = headers.chain(tree.files("crates/", ".rs"));
    let sources = sources.filter(|(path, _)| !path.starts_with(OWN));
    let known: HashSet<&str> = sources.flat_map(|(_, text)| variables(text)).collect();
    let made = made_variables(tree);
    let named: BTreeSet<&str> = documents(tree).flat_map(|(_, text)| variables(text)).collect();
    let unknown = named.into_iter().filter(|name| !known.contains(name) && !made.contains(*name));
    unknown.map(|name| format!("no source has the variable {name}")).collect()
}

/// The table of settings, whose rows are `Item "name" {`.
const SETTINGS: &str = "crates/kernels/src/settings/table.rs";

/// The variables that are made of the names of settings, in no source as they are read.
fn made_variables(tree: &Tree) -> HashSet<String> {
    let rows = tree.text(SETTINGS).unwrap_or_default().lines();
    let names = rows.filter_map(|row| row.strip_suffix("\" {")?.split_once('"'));
    names.map(|(_, name)| format!("SLABYARD_{}", name.to_ascii_uppercase())).collect()
}

/// A name in backticks, in a document or in a comment, is somewhere in the code, or is one of
/// somebody else's. What could only be a name is a path, or has capitals or an underscore; a word
/// in small letters may be any word.
pub fn wrong_idents(tree: &Tree, code: &Code, words: &Words) -> Vec<String> {
    let mut known: HashSet<&str> = code.lines().flat_map(code_words).collect();
    known.extend(words.foreign.iter().map(String::as_str));
    let made = made_variables(tree);
    known.extend(made.iter().map(String::as_str));
    let of_crates = tree.files("crates/", ".md");
    let written = documents(tree)
        .chain(of_crates)
        .flat_map(|(path, text)| text.lines().flat_map(quoted).map(move |name| (path, name)));
    let commented = code.rust.iter().flat_map(|(path, prose)| {
        let quoted = prose.comments.iter().flat_map(|comment| quoted(&comment.text));
        quoted.map(move |name| (*path, name))
    });
    let mut wrong = BTreeSet::new();
    for (path, name) in written.chain(commented) {
        if is_name(name) && !parts(name).all(|part| known.contains(part)) {
            wrong.insert(format!("{path}: no code has the name {name}"));
        }
    }
    wrong.into_iter().collect()
}

fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.strip_suffix("()").unwrap_or(name).split("::")
}

fn is_name(name: &str) -> bool {
    let is_word = |part: &str| {
        part.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
    };
    let mut parts = parts(name);
    parts.by_ref().all(is_word) && (name.contains("::") || has_shape(name))
}

/// Capitals, or an underscore among small letters.
fn has_shape(name: &str) -> bool {
    let name = name.strip_suffix("()").unwrap_or(name);
    let is = |test: fn(&u8) -> bool| name.bytes().all(|byte| test(&byte));
    let is_large = name.len() > 1 && name.starts_with(|c: char| c.is_ascii_uppercase());
    let capitals = || is(|c| *c == b'_' || c.is_ascii_uppercase() || c.is_ascii_digit());
    let camel = || is(u8::is_ascii_alphanumeric);
    let snake = || {
        is(|c| *c == b'_' || c.is_ascii_lowercase() || c.is_ascii_digit())
            && name.trim_end_matches('_').contains('_')
    };
    (is_large && (capitals() || camel())) || snake()
}

/// A public constant is named by more than its own line.
pub fn unused_constants(code: &Code) -> Vec<String> {
    let mut public = BTreeSet::new();
    let mut count: HashMap<&str, usize> = HashMap::new();
    for line in code.lines() {
        for word in code_words(line).filter(|word| word.starts_with(|c: char| c.is_uppercase())) {
            *count.entry(word).or_default() += 1;
        }
        public.extend(public_constant(line));
    }
    let unused = public.into_iter().filter(|name| count[name] < 2);
    unused.map(|name| format!("nothing uses the constant {name}")).collect()
}

fn public_constant(line: &str) -> Option<&str> {
    let line = line.trim_start().strip_prefix("pub")?;
    let line = match line.strip_prefix('(') {
        Some(scope) => scope.split_once(')')?.1,
        None => line,
    };
    let line = line.strip_prefix(" const ").or_else(|| line.strip_prefix(" static "))?;
    let (name, _) = line.split_once(':')?;
    let is_constant = |c: char| c == '_' || c.is_ascii_uppercase() || c.is_ascii_digit();
    name.chars().all(is_constant).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sources;

    fn planted(path: &str, text: &str) -> Tree {
        let mut tree = Tree::of([
            ("crates/malloc/src/lib.rs", "enum Way { Grow }\n// `Way::Grow` of `SLUB_STATS`"),
            ("crates/abi/src/report.rs", "pub const NAME: &str = \"SLABYARD_REPORT\"; f(NAME)"),
            (SETTINGS, "settings! {\n    Mode \"mode\" {\n    }\n}"),
            ("ci/stress", "run free_all"),
            (
                "README.md",
                "`SLABYARD_MODE` and `SLABYARD_REPORT` are read by `free_all` and `word`.\n",
            ),
        ]);
        let text = tree.text(path).unwrap_or_default().to_owned() + "\n" + text;
        tree.plant(path, &text);
        tree
    }

    fn idents(path: &str, text: &str) -> Vec<String> {
        let tree = planted(path, text);
        let words = Words { foreign: vec!["SLUB_STATS".to_owned()], ..Words::default() };
        wrong_idents(&tree, &Code::of(&tree, &sources(&tree).unwrap()), &words)
    }

    #[test]
    fn finds_variables_that_no_source_has() {
        let tree = planted("README.md", "Set `SLABYARD_ABSENT`.");
        assert_eq!(wrong_options(&tree), ["no source has the variable SLABYARD_ABSENT"]);
        assert_eq!(
            wrong_options(&planted("docs/a.md", "SLABYARD_MODE=1 SLABYARD_REPORT=a")),
            [""; 0]
        );
    }

    #[test]
    fn finds_names_that_no_code_has() {
        for (path, name) in [
            ("docs/design.md", "Way::Vanished"),
            ("docs/design.md", "Vanished::new()"),
            ("README.md", "ABSENT_MOST"),
            ("README.md", "Absent"),
            ("crates/bench/README.md", "absent_name"),
        ] {
            let absent = format!("{path}: no code has the name {name}");
            assert_eq!(idents(path, &format!("By `{name}`.")), [absent]);
        }
        let absent = "crates/malloc/src/fork.rs: no code has the name absent_name()";
        assert_eq!(idents("crates/malloc/src/fork.rs", "// Before `absent_name()`."), [absent]);
    }

    #[test]
    fn a_name_in_a_comment_is_none_of_the_code() {
        let absent = "docs/design.md: no code has the name Shrink";
        assert_eq!(idents("docs/design.md", "See `Shrink`."), [absent]);
        assert_eq!(idents("crates/malloc/src/fork.rs", "// Shrink\n").len(), 0);
        let path = "crates/malloc/src/fork.rs";
        assert_eq!(idents(path, "// Shrink, by `Shrink`").len(), 1);
    }

    #[test]
    fn allows_names_of_code_and_words() {
        assert_eq!(idents("docs/a.md", "`Way::Grow`, `free_all()`, `crates/x`, `a b_c`"), [""; 0]);
    }

    #[test]
    fn finds_constants_that_nothing_uses() {
        let unused = |text| {
            let tree = planted("crates/abi/src/report.rs", text);
            unused_constants(&Code::of(&tree, &sources(&tree).unwrap()))
        };
        let planted = "pub(crate) const PLANTED_MOST: u32 = 4; // PLANTED_MOST";
        assert_eq!(unused(planted), ["nothing uses the constant PLANTED_MOST"]);
        assert_eq!(unused("pub const MOST: u32 = 4;\nfn f() -> u32 { MOST }"), [""; 0]);
        assert_eq!(unused("const MOST: u32 = 4;"), [""; 0]);
    }
}
