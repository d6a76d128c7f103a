//! Checks that no modules of a crate name one another in a circle, at any depth, parents and
//! children included.
//!
//! A module is a file here; inline modules belong to their file. The files of a crate are walked
//! three times. The first walk finds the modules, and which of them are only for tests. The second
//! finds what `use` binds, so that a name can be traced to the file that defines it. The third
//! finds the names, those in `use` and the paths in code.
//!
//! Then each directory is searched for circles among its files and subdirectories; a directory
//! names whatever a file in it names. The directory's own file (`mod.rs`; at the crate's root
//! `lib.rs` or `main.rs`) is one of the files, `self`. This file may declare its submodules and
//! re-export them by `pub use`; it counts as naming a submodule only if its own code does. Code
//! that is compiled only for tests is exempt.
//!
//! Names that a `*` imports are not seen, nor are methods, which no path names.

use super::graph::Graph;
use crate::source::{Source, Token, Tokens};
use std::collections::{HashMap, HashSet};

/// The circles of the crate whose source is in `root`, which ends with `/`; one a line, as
/// `a (path:line) > b (path:line) > a`: at such a place a module names the next.
pub fn circles(sources: &[Source], root: &str) -> Vec<String> {
    let files = sources.iter().filter_map(|source| {
        let inside = source.path.strip_prefix(root)?;
        Some(File { module: module_of(inside), inside, tokens: &source.tokens })
    });
    let files: Vec<File> = files.collect();
    let mut walk = Walk::default();
    for file in &files {
        walk.files.insert(file.module.clone());
        let mut module = file.module.as_str();
        while module != ROOT {
            walk.modules.insert(module.to_owned());
            module = parent(module);
        }
    }
    walk.files.insert(ROOT.to_owned());
    for pass in [Pass::Modules, Pass::Bindings, Pass::Names] {
        walk.pass = pass;
        for file in &files {
            if !walk.is_for_tests(&file.module) {
                walk.file(file);
            }
        }
    }
    for (here, name, module) in std::mem::take(&mut walk.shown) {
        if let Some(place) = walk.said_at.get(&(here.clone(), name)).cloned() {
            walk.edge(&here, &module, &place);
        }
    }
    walk.graph.circles()
}

const ROOT: &str = "crate";

struct File<'a> {
    module: String,
    /// The path in the crate's source.
    inside: &'a str,
    tokens: &'a [Token],
}

fn module_of(inside: &str) -> String {
    let path = inside.strip_suffix(".rs").unwrap_or(inside);
    let mut parts: Vec<&str> = path.split('/').collect();
    if matches!(parts.last(), Some(&"mod" | &"lib" | &"main")) {
        parts.pop();
    }
    parts.insert(0, ROOT);
    parts.join("::")
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or(ROOT, |(above, _)| above)
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Pass {
    #[default]
    Modules,
    Bindings,
    Names,
}

/// Where a path leads in the crate.
#[derive(Clone)]
struct Target {
    module: String,
    /// The module itself, or an item of it.
    is_item: bool,
}

#[derive(Default)]
struct Walk {
    pass: Pass,
    /// The modules that are files.
    files: HashSet<String>,
    modules: HashSet<String>,
    for_tests: HashSet<String>,
    /// What a name that `use` binds in a module refers to.
    bound: HashMap<(String, String), String>,
    /// Where a module says a name first.
    said_at: HashMap<(String, String), String>,
    /// What `pub use` shows: the module that does, the name, and the module that has it.
    shown: Vec<(String, String, String)>,
    graph: Graph,
}

impl Walk {
    /// Is the module, or one that it is in, for tests alone?
    fn is_for_tests(&self, mut module: &str) -> bool {
        while module != ROOT {
            if self.for_tests.contains(module) {
                return true;
            }
            module = parent(module);
        }
        false
    }

    fn file(&mut self, file: &File) {
        let tokens = Tokens(file.tokens);
        let mut here = file.module.clone();
        // The modules around inline ones, by the number of open braces.
        let mut around = Vec::new();
        let mut braces = 0;
        let mut i = 0;
        while i < file.tokens.len() {
            match tokens.at(i) {
                "#" if tokens.for_tests(i) => {
                    let end = tokens.end_of_item(i);
                    for at in (i..end).filter(|&at| tokens.at(at) == "mod") {
                        self.for_tests.insert(format!("{here}::{}", tokens.at(at + 1)));
                    }
                    i = end;
                }
                "mod" if tokens.at(i + 2) == ";" => i += 2,
                "mod" if tokens.at(i + 2) == "{" => {
                    braces += 1;
                    let inner = format!("{here}::{}", tokens.at(i + 1));
                    self.modules.insert(inner.clone());
                    around.push((braces, std::mem::replace(&mut here, inner)));
                    i += 2;
                }
                "{" => braces += 1,
                "}" => {
                    if let Some((_, module)) = around.pop_if(|(depth, _)| *depth == braces) {
                        here = module;
                    }
                    braces -= 1;
                }
                // Not `use<'a>`, of a type that captures.
                "use" if tokens.at(i + 1) != "<" => {
                    // `)` can only be that of `pub(...)` here.
                    let public = i > 0 && matches!(tokens.at(i - 1), "pub" | ")");
                    i = self.tree(file, i + 1, String::new(), &here, public);
                }
                _ if self.pass == Pass::Names && begins_path(file.tokens, i) => {
                    i = self.path(file, i, &here);
                }
                _ => {}
            }
            i += 1;
        }
    }

    /// A tree of `use` behind a path; returns its last token.
    fn tree(&mut self, file: &File, i: usize, path: String, here: &str, public: bool) -> usize {
        let tokens = Tokens(file.tokens);
        let (mut i, mut path) = (i, path);
        if tokens.at(i) == "::" {
            i += 1;
        }
        let mut last;
        loop {
            if tokens.at(i) == "{" {
                i += 1;
                while i < file.tokens.len() && tokens.at(i) != "}" {
                    if tokens.at(i) != "," {
                        i = self.tree(file, i, path.clone(), here, public);
                    }
                    i += 1;
                }
                return i;
            }
            last = tokens.at(i);
            if path.is_empty() {
                path = last.to_owned();
            } else if last != "self" {
                path = format!("{path}::{last}");
            }
            if tokens.at(i + 1) != "::" {
                break;
            }
            i += 2;
        }
        let of_path = path.rsplit("::").next().unwrap_or(&path).to_owned();
        let mut name = if last == "self" { of_path.as_str() } else { last };
        if tokens.at(i + 1) == "as" {
            i += 2;
            name = tokens.at(i);
        }
        let place = place(file, i);
        self.used(&path, name, &place, here, public);
        i
    }

    /// What a `use` binds: a module bound for this file alone is named where it is used.
    fn used(&mut self, path: &str, name: &str, place: &str, here: &str, public: bool) {
        match self.pass {
            Pass::Modules => {}
            Pass::Bindings => {
                if path != name && name != "*" {
                    self.bound.insert((here.to_owned(), name.to_owned()), path.to_owned());
                }
            }
            Pass::Names => {
                let path = path.strip_suffix("::*").unwrap_or(path);
                let Some(target) = self.resolve(path, here, 0) else { return };
                let is_part = target.module.strip_prefix(here).is_some_and(|m| m.starts_with("::"));
                if public && is_part {
                    self.shown.push((here.to_owned(), name.to_owned(), target.module));
                } else if public || target.is_item || name == "*" {
                    self.edge(here, &target.module, place);
                }
            }
        }
    }

    /// A name or path in code; returns its last token.
    fn path(&mut self, file: &File, i: usize, here: &str) -> usize {
        let tokens = Tokens(file.tokens);
        let mut path = tokens.at(i).to_owned();
        let place = place(file, i);
        self.said_at.entry((here.to_owned(), path.clone())).or_insert_with(|| place.clone());
        let mut i = i;
        while tokens.at(i + 1) == "::" && file.tokens.get(i + 2).is_some_and(Token::is_word) {
            i += 2;
            path = format!("{path}::{}", tokens.at(i));
        }
        if path.contains("::")
            && let Some(target) = self.resolve(&path, here, 0)
        {
            self.edge(here, &target.module, &place);
        }
        i
    }

    /// Where a path leads, unless it leaves the crate.
    fn resolve(&self, path: &str, here: &str, depth: usize) -> Option<Target> {
        if depth > 8 {
            return None;
        }
        let mut at = here.to_owned();
        for (i, part) in path.split("::").enumerate() {
            let inside = format!("{at}::{part}");
            match part {
                "crate" => at = ROOT.to_owned(),
                "super" => at = parent(&at).to_owned(),
                "self" => {}
                _ if self.modules.contains(&inside) => at = inside,
                _ => {
                    let Some(bound) = self.bound.get(&(at.clone(), part.to_owned())) else {
                        return (i > 0).then_some(Target { module: at, is_item: true });
                    };
                    let target = self.resolve(bound, &at, depth + 1)?;
                    if target.is_item {
                        return Some(target);
                    }
                    at = target.module;
                }
            }
        }
        Some(Target { module: at, is_item: false })
    }

    /// One module names another: an edge in the directory in which they part.
    fn edge(&mut self, from: &str, to: &str, place: &str) {
        if self.is_for_tests(to) {
            return;
        }
        let (from, to) = (self.file_of(from), self.file_of(to));
        if from == to {
            return;
        }
        let from: Vec<&str> = from.split("::").skip(1).collect();
        let to: Vec<&str> = to.split("::").skip(1).collect();
        let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
        let node = |module: &[&str]| {
            let mut name = from[..shared].to_vec();
            name.push(module.get(shared).copied().unwrap_or("self"));
            name.join("/")
        };
        self.graph.edge(node(&from), node(&to), place);
    }

    fn file_of<'a>(&self, mut module: &'a str) -> &'a str {
        while !self.files.contains(module) {
            module = parent(module);
        }
        module
    }
}

/// A word, but a field's, a method's, or one within a path.
fn begins_path(tokens: &[Token], i: usize) -> bool {
    tokens[i].is_word() && (i == 0 || !matches!(tokens[i - 1].text.as_str(), "." | "::"))
}

fn place(file: &File, i: usize) -> String {
    format!("{}:{}", file.inside, file.tokens.get(i).map_or(0, |token| token.line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sources;
    use crate::tree::Tree;

    fn found<const N: usize>(files: [(&str, &str); N]) -> Vec<String> {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.plant(&format!("crates/lab/src/{path}"), text);
        }
        circles(&sources(&tree).unwrap(), "crates/lab/src/")
    }

    #[test]
    fn finds_two_files() {
        assert_eq!(
            found([("also.rs", "use crate::planted::A;"), ("planted.rs", "use crate::also::B;")]),
            ["also (also.rs:1) > planted (planted.rs:1) > also"]
        );
    }

    #[test]
    fn finds_three_files_by_paths_in_code() {
        assert_eq!(
            found([
                ("also.rs", "use crate::{event::Event, planted::{A, a::B}};"),
                ("planted.rs", "fn f() { crate::third::g() }"),
                ("third.rs", "use super::also;\nfn f() { also::g() }"),
            ]),
            ["also (also.rs:1) > planted (planted.rs:1) > third (third.rs:2) > also"]
        );
    }

    #[test]
    fn finds_directories_by_what_is_in_them() {
        assert_eq!(
            found([
                ("also/mod.rs", "mod inner;\npub use inner::B;"),
                ("also/inner.rs", "use crate::planted::a::A;"),
                ("planted/a.rs", "//! Nothing."),
                ("planted/b.rs", "fn f() -> crate::also::B {}"),
            ]),
            ["also (also/inner.rs:1) > planted (planted/b.rs:1) > also"]
        );
    }

    #[test]
    fn finds_a_parent_and_its_part() {
        assert_eq!(
            found([
                ("planted/inner.rs", "use super::A;"),
                ("planted/mod.rs", "mod inner;\npub struct A; fn f() { inner::g() }"),
            ]),
            [
                "planted/inner (planted/inner.rs:1) > planted/self (planted/mod.rs:2) > planted/inner"
            ]
        );
    }

    #[test]
    fn finds_a_parent_that_uses_what_it_shows() {
        let parent = "mod inner;\npub use inner::B;\npub struct A(B);";
        assert_eq!(
            found([("planted/inner.rs", "use super::A;"), ("planted/mod.rs", parent)]),
            [
                "planted/inner (planted/inner.rs:1) > planted/self (planted/mod.rs:3) > planted/inner"
            ]
        );
    }

    #[test]
    fn finds_parts_through_what_their_parent_shows() {
        assert_eq!(
            found([
                ("planted/a.rs", "use super::B;"),
                ("planted/b.rs", "mod inner { fn f() { super::super::a::g() } }"),
                ("planted/mod.rs", "mod a;\nmod b;\npub use b::B;"),
            ]),
            ["planted/a (planted/a.rs:1) > planted/b (planted/b.rs:1) > planted/a"]
        );
    }

    #[test]
    fn finds_a_parent_that_is_a_file_beside_its_directory() {
        assert_eq!(
            found([
                ("planted/a/inner.rs", "use crate::planted::a::A;"),
                ("planted/a.rs", "mod inner; pub enum A { One } use inner::B as C;"),
            ]),
            ["planted/a/self (planted/a.rs:1) > planted/a/inner (planted/a/inner.rs:1) > \
              planted/a/self"]
        );
    }

    #[test]
    fn finds_the_root_and_its_part() {
        assert_eq!(
            found([
                ("planted.rs", "use crate::A;"),
                ("lib.rs", "pub struct A;\nfn f() { planted::g() }"),
            ]),
            ["self (lib.rs:2) > planted (planted.rs:1) > self"]
        );
    }

    #[test]
    fn finds_a_circle_in_a_macro() {
        assert_eq!(
            found([
                ("also.rs", "fn f() { assert!(crate::planted::g()) }"),
                ("planted.rs", "macro_rules! m { () => { crate::also::f() } }"),
            ])
            .len(),
            1
        );
    }

    #[test]
    fn allows_a_parent_that_only_shows_its_part() {
        let parent = "mod inner;\npub use inner::B;\npub struct A;\nconst S: &str = \"inner::g\";";
        let part = "use super::A; // and what planted::also has";
        assert_eq!(found([("planted/inner.rs", part), ("planted/mod.rs", parent)]), [""; 0]);
    }

    #[test]
    fn allows_what_is_for_tests_alone() {
        let tests = "#[cfg(test)]\nmod tests { use crate::also::B; fn f() { crate::also::g() } }";
        assert_eq!(found([("also.rs", "use crate::planted::A;"), ("planted.rs", tests)]), [""; 0]);
        assert_eq!(
            found([
                ("also.rs", "use crate::planted::A;\n#[cfg(test)]\nmod inner;"),
                ("also/inner.rs", "use super::B;"),
                ("planted.rs", "use std::also::B;"),
            ]),
            [""; 0]
        );
    }
}
