//! Checks that the file above each source file, tests included, declares it as a module: an
//! undeclared file is not compiled, and its tests do not run.

use crate::source::{Source, Tokens};
use std::collections::{HashMap, HashSet};

/// The files that are modules of none. Programs and libraries follow cargo's own layout: `lib.rs`,
/// `main.rs`, `build.rs`, and each file directly in `tests`, `examples` or `benches`, any of which
/// may have the files beside it as modules.
pub fn breaches_of_files(sources: &[Source]) -> Vec<String> {
    let declared: HashMap<&str, HashSet<&str>> =
        sources.iter().map(|source| (source.path.as_str(), modules_of(source))).collect();
    let declares = |path: &str, name: &str| declared.get(path).is_some_and(|of| of.contains(name));
    let mut breaches = Vec::new();
    for Source { path, .. } in sources {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        if is_root(directory, name) {
            continue;
        }
        let (directory, name) = match name {
            "mod.rs" => directory.rsplit_once('/').unwrap_or(("", directory)),
            _ => (directory, name.strip_suffix(".rs").unwrap_or(name)),
        };
        let found = if is_of_programs(directory) {
            let beside = |path: &str| path.rsplit_once('/').is_some_and(|(of, _)| of == directory);
            declared.keys().any(|path| beside(path) && declares(path, name))
        } else {
            ["/mod.rs", "/lib.rs", "/main.rs", ".rs"]
                .iter()
                .any(|file| declares(&format!("{directory}{file}"), name))
        };
        if !found {
            breaches.push(format!("{path}: a module of no file"));
        }
    }
    breaches
}

fn is_root(directory: &str, name: &str) -> bool {
    matches!(name, "lib.rs" | "main.rs" | "build.rs") || is_of_programs(directory)
}

/// Is this the directory of a crate in which each file is a program?
fn is_of_programs(directory: &str) -> bool {
    let mut parts = directory.split('/').skip(2);
    matches!(parts.next(), Some("tests" | "examples" | "benches")) && parts.next().is_none()
}

fn modules_of(source: &Source) -> HashSet<&str> {
    let tokens = Tokens(&source.tokens);
    (0..source.tokens.len())
        .filter(|&i| tokens.at(i) == "mod" && tokens.at(i + 2) == ";")
        .map(|i| tokens.at(i + 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sources;
    use crate::tree::Tree;

    /// A tree without orphans, and this file in it.
    fn found(planted: &str) -> Vec<String> {
        let mut tree = Tree::of([
            ("crates/slabyard/src/lib.rs", "mod yard;"),
            ("crates/slabyard/src/yard/mod.rs", "pub(crate) mod slow_path;\nmod inner { mod x; }"),
            ("crates/slabyard/src/yard/slow_path.rs", ""),
            ("crates/slabyard/tests/machine.rs", "mod frees;\nmod machine;"),
            ("crates/slabyard/tests/machine/mod.rs", ""),
            ("crates/slabyard/tests/frees/mod.rs", "mod deep;"),
            ("crates/slabyard/tests/frees/deep.rs", ""),
            ("crates/bench/build/main.rs", "mod peers;"),
            ("crates/bench/build/peers.rs", ""),
            ("crates/bench/src/main.rs", "mod speed;"),
            ("crates/bench/src/speed.rs", "mod table;"),
            ("crates/bench/src/speed/table.rs", ""),
        ]);
        tree.plant(planted, "// mod planted; mod lost;");
        breaches_of_files(&sources(&tree).unwrap())
    }

    #[test]
    fn finds_files_that_are_modules_of_none() {
        for path in [
            "crates/slabyard/src/yard/planted.rs",
            "crates/slabyard/tests/machine/planted.rs",
            "crates/slabyard/tests/lost/mod.rs",
            "crates/bench/build/planted.rs",
        ] {
            assert_eq!(found(path), [format!("{path}: a module of no file")]);
        }
    }

    #[test]
    fn allows_programs() {
        assert_eq!(found("crates/slabyard/examples/planted.rs"), [""; 0]);
        assert_eq!(found("crates/slabyard/build.rs"), [""; 0]);
    }
}
