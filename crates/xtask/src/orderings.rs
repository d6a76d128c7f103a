//! Each memory ordering between Relaxed and SeqCst has a row in `ci/orderings.toml`, which says with
//! what it pairs, and which test fails without it.
//!
//! A site is a call with such an ordering, named by its function, receiver, method and orderings. A
//! row has a key for each way to weaken the call by one step: `acquire` and `release` take that half
//! from it, `seen` takes the Acquire of an exchange that fails. Its value is `loom:TEST`, `miri:TEST`,
//! `none: REASON`, or [`UNCAUGHT`], of which there are as many as the table's first row says: whoever adds
//! a site adds its test, and whoever adds a test counts down.
//!
//! Neighbours: `ci/orderings-by-hand` weakens each site and runs its test; the crate
//! `slabyard-models` has the tests of `loom`.

use crate::limits::Finding;
use crate::source::{Source, for_tests};
use crate::tree::Tree;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

const PATH: &str = "ci/orderings.toml";

/// What a row says of a weakening for which no test was written.
const UNCAUGHT: &str = "none: nothing catches it yet";

/// The crates whose code runs in programs that allocate.
const SHIPPED: [&str; 13] = [
    "abi",
    "engines",
    "fixed",
    "kernels",
    "kmem",
    "malloc",
    "page-lists",
    "platform",
    "process",
    "recorder",
    "shrinker",
    "slabyard",
    "small",
];

/// One way to weaken a call by a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mutant {
    /// Of the row.
    key: &'static str,
    /// Which of the call's orderings, and which half, in the words of `SLABYARD_WEAKEN`.
    of: &'static str,
    half: &'static str,
}

/// A call with an ordering between Relaxed and SeqCst.
#[derive(Debug)]
struct Site {
    file: String,
    name: String,
    line: usize,
    column: usize,
    mutants: Vec<Mutant>,
}

/// A site, whatever tree it is in: the file and its name there.
type Rows = BTreeMap<String, BTreeMap<String, toml::Value>>;

/// The breaches: sites without a row, rows without a site, and rows with other keys than the site
/// has mutants.
pub fn finding(tree: &Tree, sources: &[Source]) -> Finding {
    ("orderings", breaches(tree, sources).unwrap_or_else(|error| vec![error]))
}

/// A line for each mutant: the place as `SLABYARD_WEAKEN` has it, its test, and the site's name.
pub fn mutants(tree: &Tree, sources: &[Source]) -> Result<Vec<String>, String> {
    let rows = rows(tree)?;
    let mut lines = Vec::new();
    for site in sites(sources) {
        let row = rows.get(&site.file).and_then(|rows| rows.get(&site.name));
        for Mutant { key, of, half } in &site.mutants {
            let test = row.and_then(|row| row.get(key)?.as_str()).unwrap_or("no row");
            let Site { file, name, line, column, .. } = &site;
            lines.push(format!("{file}:{line}:{column} {of} {half}\t{test}\t{file} {name}: {key}"));
        }
    }
    Ok(lines)
}

fn rows(tree: &Tree) -> Result<Rows, String> {
    let text = tree.text(PATH).unwrap_or_default();
    toml::from_str(text).map_err(|error| format!("{PATH}: {error}"))
}

fn breaches(tree: &Tree, sources: &[Source]) -> Result<Vec<String>, String> {
    let mut rows = rows(tree)?;
    let mut found = Vec::new();
    let all = rows.remove("all").and_then(|all| all.get("uncaught")?.as_integer()).unwrap_or(0);
    let uncaught = rows.values().flat_map(BTreeMap::values).filter_map(toml::Value::as_table);
    let uncaught = uncaught.flat_map(|row| row.values()).filter(|it| it.as_str() == Some(UNCAUGHT));
    let uncaught = uncaught.count();
    if i64::try_from(uncaught) != Ok(all) {
        found.push(format!(
            "{PATH}: nothing catches {uncaught} weakenings, and `uncaught` is {all}"
        ));
    }
    for site in sites(sources) {
        let Site { file, name, line, .. } = &site;
        let Some(row) = rows.get_mut(file).and_then(|rows| rows.remove(name)) else {
            found.push(format!("{file}:{line}: `{name}` has no row in {PATH}"));
            continue;
        };
        let mut keys: BTreeSet<&str> =
            row.as_table().into_iter().flat_map(|row| row.keys()).map(String::as_str).collect();
        if !keys.remove("with") {
            found.push(format!("{PATH}: {file}: `{name}` does not say with what it pairs"));
        }
        for Mutant { key, .. } in &site.mutants {
            let test = row.get(key).and_then(toml::Value::as_str).unwrap_or_default();
            let is_known = match test.split_once(':') {
                Some(("loom", test)) => has_test(tree, "crates/models/tests/", test),
                Some(("miri", test)) => has_test(tree, "crates/", test),
                Some(("none", reason)) => reason.len() > 20,
                _ => false,
            };
            if !is_known {
                found.push(format!("{PATH}: {file}: `{name}`: `{key}` names no test: `{test}`"));
            }
            keys.remove(key);
        }
        for key in keys {
            found.push(format!("{PATH}: {file}: `{name}` cannot be weakened by `{key}`"));
        }
    }
    for (file, rows) in rows {
        for name in rows.keys().filter(|name| *name != "protocol") {
            found.push(format!("{PATH}: {file} has no `{name}`"));
        }
    }
    Ok(found)
}

fn has_test(tree: &Tree, directory: &str, test: &str) -> bool {
    let name = format!("fn {}(", test.rsplit("::").next().unwrap_or(test));
    tree.files(directory, ".rs").any(|(_, text)| text.contains(&name))
}

/// All sites of what is shipped, in the order of files and lines.
fn sites(sources: &[Source]) -> Vec<Site> {
    let tests = for_tests(sources);
    let mut sites = Vec::new();
    for source in sources.iter().filter(|source| !tests.contains(source.path.as_str())) {
        let mut parts = source.path.split('/').skip(1);
        if !SHIPPED.contains(&parts.next().unwrap_or_default()) || parts.next() != Some("src") {
            continue;
        }
        let mut walk = Walk { file: &source.path, sites: Vec::new(), names: BTreeMap::new() };
        walk.items(source.stream(), "");
        sites.append(&mut walk.sites);
    }
    sites
}

struct Walk<'a> {
    file: &'a str,
    sites: Vec<Site>,
    /// Orderings that variables of the function have.
    names: BTreeMap<String, String>,
}

impl Walk<'_> {
    /// Code outside of the parentheses of a call, in a function.
    fn items(&mut self, stream: TokenStream, function: &str) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut function = function.to_owned();
        let mut is_test = false;
        for (at, tree) in trees.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|at| trees.get(at));
            match tree {
                TokenTree::Ident(name) if before.is_some_and(|it| is_word(it, "fn")) => {
                    function = name.to_string();
                    self.names.clear();
                }
                TokenTree::Group(group) => match group.delimiter() {
                    Delimiter::Bracket if before.is_some_and(|it| is_punct(it, '#')) => {
                        is_test =
                            is_test || group.stream().to_string().replace(' ', "") == "cfg(test)";
                    }
                    Delimiter::Brace if is_test => is_test = false,
                    Delimiter::Parenthesis => self.parentheses(&trees, at, &function),
                    _ => self.items(group.stream(), &function),
                },
                TokenTree::Punct(punct) if punct.as_char() == ';' => is_test = false,
                _ => {}
            }
        }
    }

    fn parentheses(&mut self, trees: &[TokenTree], at: usize, function: &str) {
        let TokenTree::Group(group) = &trees[at] else { return };
        let arguments = arguments(group.stream());
        let orderings: Vec<Option<String>> =
            arguments.iter().map(|argument| self.ordering(argument)).collect();
        match at.checked_sub(1).map(|at| &trees[at]) {
            Some(TokenTree::Ident(method)) => {
                let given: Vec<&str> = orderings.iter().flatten().map(String::as_str).collect();
                let mutants = mutants_of(&given);
                if !mutants.is_empty() {
                    let receiver = receiver(trees, at - 1);
                    let name = format!("{function} {receiver}{method}({})", given.join(", "));
                    let begin = method.span().start();
                    let (line, column) = (begin.line, begin.column + 1);
                    self.add(Site { file: self.file.into(), name, line, column, mutants });
                }
            }
            // `let (set, seen) = (Ordering::AcqRel, Ordering::Relaxed)`
            Some(it) if is_punct(it, '=') => {
                if let Some(TokenTree::Group(names)) = at.checked_sub(2).map(|at| &trees[at]) {
                    for (name, ordering) in self::arguments(names.stream()).iter().zip(orderings) {
                        if let ([name], Some(ordering)) = (&name[..], ordering) {
                            self.names.insert(name.to_string(), ordering);
                        }
                    }
                }
            }
            _ => {}
        }
        self.items(group.stream(), function);
    }

    fn add(&mut self, mut site: Site) {
        let twins =
            |name: &str| self.sites.iter().any(|it| it.file == site.file && it.name == name);
        let numbered = |nth: usize| match nth {
            1 => site.name.clone(),
            nth => format!("{} {nth}", site.name),
        };
        let name = (1..).map(numbered).find(|name| !twins(name)).unwrap_or_default();
        site.name = name;
        self.sites.push(site);
    }

    /// The ordering that an argument is, if it is one.
    fn ordering(&self, argument: &[TokenTree]) -> Option<String> {
        match argument {
            [TokenTree::Ident(ordering), a, b, TokenTree::Ident(name)]
                if ordering == "Ordering" && is_punct(a, ':') && is_punct(b, ':') =>
            {
                Some(name.to_string())
            }
            [TokenTree::Ident(name)] => self.names.get(&name.to_string()).cloned(),
            _ => None,
        }
    }
}

fn mutants_of(orderings: &[&str]) -> Vec<Mutant> {
    const ACQUIRE: Mutant = Mutant { key: "acquire", of: "set", half: "acquire" };
    const RELEASE: Mutant = Mutant { key: "release", of: "set", half: "release" };
    const SEEN: Mutant = Mutant { key: "seen", of: "seen", half: "acquire" };
    let mut mutants = match orderings.first() {
        Some(&"Acquire") => vec![ACQUIRE],
        Some(&"Release") => vec![RELEASE],
        Some(&"AcqRel") => vec![ACQUIRE, RELEASE],
        _ => Vec::new(),
    };
    if orderings.get(1) == Some(&"Acquire") {
        mutants.push(SEEN);
    }
    mutants
}

/// The last name in front of a method, and its dot.
fn receiver(trees: &[TokenTree], method: usize) -> String {
    if method < 1 || !is_punct(&trees[method - 1], '.') {
        return String::new();
    }
    let name = trees[..method - 1].iter().rev().find_map(|tree| match tree {
        TokenTree::Ident(name) => Some(name.to_string()),
        TokenTree::Literal(number) => Some(number.to_string()),
        _ => None,
    });
    name.map(|name| format!("{name}.")).unwrap_or_default()
}

/// What is between the commas.
fn arguments(stream: TokenStream) -> Vec<Vec<TokenTree>> {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let arguments = trees.split(|tree| is_punct(tree, ','));
    arguments.map(<[TokenTree]>::to_vec).filter(|argument| !argument.is_empty()).collect()
}

fn is_punct(tree: &TokenTree, is: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == is)
}

fn is_word(tree: &TokenTree, is: &str) -> bool {
    matches!(tree, TokenTree::Ident(name) if name == is)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sources;

    const CODE: &str = "
impl Lock {
    fn lock(&self) {
        // Acquire pairs with the Release in `free`.
        if self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {}
    }
    fn free(&self) {
        self.words[0].store(Kind::Release.number(), Ordering::Release);
        self.other.load(Ordering::SeqCst);
    }
    fn change(&self) {
        let (set, seen) = (Ordering::AcqRel, Ordering::Acquire);
        self.word
            .compare_exchange(1, 0, set, seen);
    }
}
#[cfg(test)]
mod tests {
    fn free() { WORD.store(1, Ordering::Release); }
}
";
    const TABLE: &str = "
[\"crates/platform/src/lock.rs\"]
protocol = \"a lock\"
\"lock word.compare_exchange(Acquire, Relaxed)\" = { with = \"free\", acquire = \"loom:locks\" }
\"free words.store(Release)\" = { with = \"lock\", release = \"none: a reason that one can read\" }
\"change word.compare_exchange(AcqRel, Acquire)\" = { with = \"itself\", acquire = \"loom:locks\", release = \"miri:locks\", seen = \"loom:locks\" }
";

    fn found(code: &str, table: &str) -> Vec<String> {
        let tree = Tree::of([
            ("crates/platform/src/lock.rs", code),
            ("crates/models/tests/sync.rs", "#[test] fn locks() {}"),
            ("crates/lab/src/lock.rs", "fn a() { A.load(Ordering::Acquire) }"),
            (PATH, table),
        ]);
        finding(&tree, &sources(&tree).unwrap()).1
    }

    #[test]
    fn each_site_has_its_row() {
        assert_eq!(found(CODE, TABLE), [""; 0]);
    }

    #[test]
    fn a_site_without_a_row_is_found() {
        let code =
            CODE.replace("fn free", "fn other() { FREE.swap(0, Ordering::AcqRel); } fn free");
        assert_eq!(
            found(&code, TABLE),
            [
                "crates/platform/src/lock.rs:7: `other FREE.swap(AcqRel)` has no row in ci/orderings.toml"
            ]
        );
        // A second call that looks the same has a row of its own.
        let twice =
            CODE.replace("self.other", "self.words[1].store(0, Ordering::Release); self.other");
        assert!(found(&twice, TABLE)[0].contains("`free words.store(Release) 2` has no row"));
    }

    #[test]
    fn a_row_without_a_site_is_found() {
        let code = CODE.replace("0, 1, Ordering::Acquire", "0, 1, Ordering::Relaxed");
        assert_eq!(
            found(&code, TABLE),
            [
                "ci/orderings.toml: crates/platform/src/lock.rs has no `lock word.compare_exchange(Acquire, Relaxed)`"
            ]
        );
    }

    #[test]
    fn a_row_names_a_test_for_each_half() {
        let table = TABLE.replace("release = \"miri:locks\", ", "");
        assert!(found(CODE, &table)[0].contains("`release` names no test: ``"));
        assert!(found(CODE, &TABLE.replace("loom:locks", "loom:gone"))[0].contains("`loom:gone`"));
        assert!(
            found(CODE, &TABLE.replace("none: a reason that one can read", "none: "))[0]
                .contains("none")
        );
        let table = TABLE.replace("with = \"lock\", ", "with = \"lock\", seen = \"loom:locks\", ");
        assert!(found(CODE, &table)[0].contains("cannot be weakened by `seen`"));
    }

    #[test]
    fn what_nothing_catches_is_counted() {
        let table = TABLE.replace("none: a reason that one can read", UNCAUGHT);
        assert!(
            found(CODE, &table)[0].contains("nothing catches 1 weakenings, and `uncaught` is 0")
        );
        let counted = |n| format!("[all]\nuncaught = {n}\n{table}");
        assert_eq!(found(CODE, &counted(1)), [""; 0]);
        assert_eq!(found(CODE, &counted(2)).len(), 1);
    }

    #[test]
    fn a_mutant_is_where_the_call_is() {
        let tree = Tree::of([("crates/platform/src/lock.rs", CODE), (PATH, TABLE)]);
        let lines = mutants(&tree, &sources(&tree).unwrap()).unwrap();
        assert_eq!(
            lines[0],
            "crates/platform/src/lock.rs:5:22 set acquire\tloom:locks\tcrates/platform/src/lock.rs lock word.compare_exchange(Acquire, Relaxed): acquire"
        );
        assert!(
            lines[4].starts_with("crates/platform/src/lock.rs:14:14 seen acquire\tloom:locks"),
            "{lines:?}"
        );
        assert_eq!(lines.len(), 5);
    }
}
