//! Checks that each module of the engine's crate names only modules of its own floor or below. Only
//! a name that starts at the crate's root can refer to another module, so the rule looks at
//! `crate::` and at chains of `super::` that reach the root. `lib.rs` and code that is compiled
//! only for tests are exempt.

use crate::rules::Rules;
use crate::source::{Source, Tokens};
use std::collections::HashMap;

/// The breaches in all files of the engine's crate.
pub fn breaches_of_modules(sources: &[Source], rules: &Rules) -> Vec<String> {
    let root = format!("crates/{}/src/", rules.engine_crate);
    let mut look = Look { floor: HashMap::new(), named: Vec::new(), breaches: Vec::new() };
    for (floor, modules) in rules.floors.iter().enumerate() {
        for module in modules {
            look.floor.insert(module.clone(), floor);
        }
    }
    for source in sources {
        if let Some(inside) = source.path.strip_prefix(&root)
            && inside != "lib.rs"
        {
            look.at(source, inside);
        }
    }
    look.judge();
    look.breaches
}

struct Look<'a> {
    floor: HashMap<String, usize>,
    named: Vec<Named<'a>>,
    breaches: Vec<String>,
}

/// A name at the crate's root that module `here` uses.
struct Named<'a> {
    path: &'a str,
    line: usize,
    here: &'a str,
    name: &'a str,
}

impl<'a> Look<'a> {
    fn at(&mut self, source: &'a Source, inside: &'a str) {
        let inside = inside.strip_suffix(".rs").unwrap_or(inside);
        let inside = inside.strip_suffix("/mod").unwrap_or(inside);
        let here = inside.split('/').next().unwrap_or(inside);
        if !self.floor.contains_key(here) {
            self.breaches.push(format!("{}:1: module {here} is on no floor", source.path));
            return;
        }
        // From the crate's root to the module that the token at hand is in.
        let mut depth = inside.split('/').count();
        // The modules that braces have opened, by the number of open braces.
        let mut inner = Vec::new();
        let mut braces = 0;
        let tokens = Tokens(&source.tokens);
        let mut i = 0;
        while i < source.tokens.len() {
            match tokens.at(i) {
                "#" if tokens.for_tests(i) => i = tokens.end_of_item(i),
                // An exported macro is at the root whatever file it is in; its floor is its file's.
                "macro_rules" => {
                    self.floor.insert(tokens.at(i + 2).to_owned(), self.floor[here]);
                }
                "mod" if tokens.at(i + 2) == "{" => {
                    inner.push(braces + 1);
                    depth += 1;
                }
                "{" => braces += 1,
                "}" => {
                    if inner.last() == Some(&braces) {
                        inner.pop();
                        depth -= 1;
                    }
                    braces -= 1;
                }
                "crate" => self.names(source, i + 1, here),
                "super" => {
                    let mut up = 1;
                    while tokens.are(i + 1, &["::", "super"]) {
                        i += 2;
                        up += 1;
                    }
                    if up >= depth {
                        self.names(source, i + 1, here);
                    }
                }
                _ => {}
            }
            i += 1;
        }
    }

    /// What is named behind the crate's root; `i` is the token after it.
    fn names(&mut self, source: &'a Source, i: usize, here: &'a str) {
        let tokens = Tokens(&source.tokens);
        let line = source.tokens.get(i).map_or(0, |token| token.line);
        if tokens.at(i) == "as" {
            self.breaches
                .push(format!("{}:{line}: the crate's root under another name", source.path));
        }
        if tokens.at(i) != "::" {
            return;
        }
        if tokens.at(i + 1) != "{" {
            self.name(source, i + 1, here);
            return;
        }
        let mut depth = 1;
        let mut i = i + 2;
        while depth > 0 && i < source.tokens.len() {
            let first = depth == 1 && matches!(tokens.at(i - 1), "{" | ",");
            match tokens.at(i) {
                "}" => depth -= 1,
                "{" => depth += 1,
                _ if first => self.name(source, i, here),
                _ => {}
            }
            i += 1;
        }
    }

    fn name(&mut self, source: &'a Source, i: usize, here: &'a str) {
        if let Some(token) = source.tokens.get(i) {
            let name = token.text.as_str();
            self.named.push(Named { path: &source.path, line: token.line, here, name });
        }
    }

    /// Last, when the floors of all exported macros are known.
    fn judge(&mut self) {
        for &Named { path, line, here, name } in &self.named {
            let floor = self.floor[here];
            match self.floor.get(name) {
                None => self.breaches.push(format!(
                    "{path}:{line}: {here} names crate::{name}, which is on no floor"
                )),
                Some(&of_name) if of_name > floor => self.breaches.push(format!(
                    "{path}:{line}: {here} (floor {floor}) names {name} (floor {of_name})"
                )),
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sources;
    use crate::tree::Tree;

    fn found<const N: usize>(files: [(&str, &str); N]) -> Vec<String> {
        let floors = [&["sync", "list"][..], &["platform"], &["pages"], &["slab"], &["engine"]];
        let floors = floors.into_iter().chain([&["yard", "verify"][..]]);
        let rules = Rules {
            engine_crate: "slabyard".to_owned(),
            floors: floors.map(|row| row.iter().map(|&name| name.to_owned()).collect()).collect(),
            ..Rules::default()
        };
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.plant(&format!("crates/slabyard/src/{path}"), text);
        }
        breaches_of_modules(&sources(&tree).unwrap(), &rules)
    }

    #[track_caller]
    fn finds(path: &str, text: &str, breach: &str) {
        let line = text.lines().count();
        assert_eq!(found([(path, text)]), [format!("crates/slabyard/src/{path}:{line}: {breach}")]);
    }

    #[track_caller]
    fn allows(path: &str, text: &str) {
        assert_eq!(found([(path, text)]), [""; 0]);
    }

    #[test]
    fn finds_a_module_above() {
        let text = "use crate::engine::Sheaves;";
        finds("pages/planted.rs", text, "pages (floor 2) names engine (floor 4)");
        let text = "fn f() { crate::yard::new(); }";
        finds("sync/planted.rs", text, "sync (floor 0) names yard (floor 5)");
    }

    #[test]
    fn finds_a_module_above_among_others() {
        let text = "use crate::{list::Links, slab::{word, free}};";
        finds("pages/planted.rs", text, "pages (floor 2) names slab (floor 3)");
    }

    #[test]
    fn finds_a_module_above_by_the_way_up() {
        let text = "mod inner { use super::super::super::verify::all; }";
        finds("slab/planted.rs", text, "slab (floor 3) names verify (floor 5)");
    }

    #[test]
    fn finds_the_whole_crate() {
        let breach = "slab names crate::*, which is on no floor";
        finds("slab/planted.rs", "use super::super::*;", breach);
        let breach = "the crate's root under another name";
        finds("slab/planted.rs", "use crate as whole;", breach);
    }

    #[test]
    fn finds_a_name_on_no_floor() {
        let breach = "slab names crate::Sheaf, which is on no floor";
        finds("slab/planted.rs", "use crate::Sheaf;", breach);
        finds("attic.rs", "//! Nothing.", "module attic is on no floor");
    }

    #[test]
    fn finds_what_is_not_for_tests_alone() {
        let breach = "slab (floor 3) names yard (floor 5)";
        finds("slab/planted.rs", "#[cfg(not(test))] use crate::yard::Yard;", breach);
        let text = "#[cfg(test)]\nmod tests { fn f<'a>(c: char) -> bool { c == '{' } }\nuse crate::yard::Yard;";
        finds("slab/planted.rs", text, breach);
    }

    #[test]
    fn finds_a_macro_of_a_floor_above() {
        let above = "macro_rules! planted { () => {} }";
        assert_eq!(
            found([
                ("pages/planted.rs", "fn f() { crate::planted!() }"),
                ("engine/planted.rs", above)
            ]),
            ["crates/slabyard/src/pages/planted.rs:1: pages (floor 2) names planted (floor 4)"]
        );
        let files =
            [("pages/planted.rs", "fn f() { $crate::planted!() }"), ("pages/also.rs", above)];
        assert_eq!(found(files), [""; 0]);
    }

    #[test]
    fn allows_what_is_below_and_what_tests_name() {
        let text = "pub(crate) use crate::{pages::{Run, map}, slab::word}; use super::slub::Sheaf;";
        allows("engine/planted.rs", text);
        let text = "#[cfg(test)]\nmod tests { use crate::yard::Yard; use super::*; }";
        allows("slab/planted.rs", text);
    }

    #[test]
    fn reads_no_comments_and_strings() {
        allows("slab/planted.rs", "/* crate::yard /* nested */ crate::yard */ // crate::yard");
        let text = r##"const S: &str = r#"crate::yard " crate::yard"#; const T: &str = "crate::yard \" crate::yard";"##;
        allows("slab/planted.rs", text);
    }
}
