//! Checks that policy modules and their tests contain no `unsafe`. The compiler rejects `unsafe`
//! under the attribute `forbid(unsafe_code)`, in the code that it compiles; this rule checks that
//! the attribute is present, and searches all code.

use crate::rules::Rules;
use crate::source::{Source, Tokens};

/// The breaches in the modules that have a row.
pub fn breaches_of_unsafe(sources: &[Source], rules: &Rules) -> Vec<String> {
    let mut breaches = Vec::new();
    for module in &rules.without_unsafe {
        let heads =
            [format!("{module}.rs"), format!("{module}/mod.rs"), format!("{module}/lib.rs")];
        let inside = format!("{module}/");
        let mut forbidden = false;
        for source in sources {
            let is_head = heads.contains(&source.path);
            if !is_head && !source.path.starts_with(&inside) {
                continue;
            }
            let tokens = Tokens(&source.tokens);
            for i in 0..source.tokens.len() {
                if tokens.at(i) == "unsafe" {
                    let line = source.tokens[i].line;
                    breaches.push(format!("{}:{line}: unsafe in {module}", source.path));
                }
                forbidden |=
                    is_head && tokens.are(i, &["#", "!", "[", "forbid", "(", "unsafe_code"]);
            }
        }
        if !forbidden {
            breaches.push(format!("{module}: no head with #![forbid(unsafe_code)]"));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sources;
    use crate::tree::Tree;

    const ENGINE: &str = "crates/slabyard/src/engine";

    fn found(head: &str, planted: &str) -> Vec<String> {
        let rules = Rules { without_unsafe: vec![ENGINE.to_owned()], ..Rules::default() };
        let mut tree = Tree::of([("crates/slabyard/src/slab.rs", "unsafe fn f() {}")]);
        tree.plant(&format!("{ENGINE}/mod.rs"), head);
        tree.plant(&format!("{ENGINE}/planted.rs"), planted);
        breaches_of_unsafe(&sources(&tree).unwrap(), &rules)
    }

    #[test]
    fn finds_unsafe_code_and_no_words() {
        let head = "//! Engines.\n#![forbid(unsafe_code)]\nmod planted;";
        assert_eq!(
            found(head, "\nfn f() { unsafe { g() } }"),
            ["crates/slabyard/src/engine/planted.rs:2: unsafe in crates/slabyard/src/engine"]
        );
        assert_eq!(found(head, "macro_rules! m { () => { unsafe { g() } } }").len(), 1);
        assert_eq!(found(head, "// unsafe\nconst A: &str = \"unsafe\";"), [""; 0]);
    }

    #[test]
    fn finds_a_head_that_forbids_nothing() {
        assert_eq!(
            found("#![deny(missing_docs)]\nmod planted;", ""),
            ["crates/slabyard/src/engine: no head with #![forbid(unsafe_code)]"]
        );
    }
}
