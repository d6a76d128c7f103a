//! Checks that no file, directory or module has a vague name, such as `utils`.

use crate::rules::Rules;
use crate::source::{Source, Tokens};
use crate::tree::Tree;

/// The names that are in the table of such names.
pub fn breaches_of_names(tree: &Tree, sources: &[Source], rules: &Rules) -> Vec<String> {
    let vague = |name: &str| rules.vague_names.iter().any(|vague| vague == name);
    let mut breaches = Vec::new();
    for path in tree.paths() {
        let name = path.rsplit('/').next().unwrap_or(path);
        if vague(name.split('.').next().unwrap_or(name)) {
            breaches.push(format!("{path}: a name that says nothing"));
        }
    }
    for Source { path, tokens, .. } in sources {
        let all = Tokens(tokens);
        for (i, token) in tokens.iter().enumerate() {
            let name = all.at(i + 1);
            if token.text == "mod" && matches!(all.at(i + 2), ";" | "{") && vague(name) {
                breaches.push(format!("{path}:{}: a module named {name} says nothing", token.line));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sources;

    fn found(path: &str, text: &str) -> Vec<String> {
        let names = ["common", "utils", "types"].map(str::to_owned);
        let rules = Rules { vague_names: names.into(), ..Rules::default() };
        let tree = Tree::of([(path, text)]);
        breaches_of_names(&tree, &sources(&tree).unwrap(), &rules)
    }

    #[test]
    fn finds_files_directories_and_modules() {
        assert_eq!(
            found("crates/abi/src/utils.rs", "// Anything."),
            ["crates/abi/src/utils.rs: a name that says nothing"]
        );
        assert_eq!(
            found("crates/cli/tests/common/mod.rs", "// Anything."),
            ["crates/cli/tests/common: a name that says nothing"]
        );
        assert_eq!(
            found("crates/abi/src/planted.rs", "\nmod types { }"),
            ["crates/abi/src/planted.rs:2: a module named types says nothing"]
        );
        assert_eq!(found("crates/abi/src/typed.rs", "mod utility; fn types() {}"), [""; 0]);
    }
}
