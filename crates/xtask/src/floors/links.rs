//! Finds symbolic links by which one crate compiles another crate's files.

use crate::limits::Counts;
use crate::tree::Tree;

/// What links may lead to: no code, but what each package has its own copy of.
const COPIED: [&str; 5] = [".md", ".slabtrace", ".toml", ".txt", ".zst"];

/// The links of each crate that lead out of it. Licences are exempt, and recordings: a package cannot
/// have files of another.
pub fn links_out_of_crates(tree: &Tree) -> Counts {
    let mut counts = Counts::new();
    for (path, to) in tree.links() {
        let mut parts = path.split('/');
        if let (Some("crates"), Some(name)) = (parts.next(), parts.next())
            && !path.contains("/LICENSE")
            && !COPIED.iter().any(|ending| to.ends_with(ending))
            && leads_out(parts.count(), to)
        {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// Does a link lead out of its crate, `depth` parts of a path below which it is?
fn leads_out(depth: usize, to: &str) -> bool {
    to.starts_with('/') || to.split('/').filter(|part| *part == "..").count() >= depth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_links_from_crate_to_crate() {
        let mut tree = Tree::of([("crates/malloc/src/fork.rs", "")]);
        tree.plant_link("crates/kmem/src/fork.rs", "../../malloc/src/fork.rs");
        tree.plant_link("crates/kmem/src/debug/state.rs", "../../../malloc/src/fork.rs");
        tree.plant_link("crates/engines/src", "../malloc/src");
        tree.plant_link("crates/engines/tests/own.rs", "../src/own.rs");
        tree.plant_link("crates/abi/LICENSE-MIT", "../../LICENSE-MIT");
        tree.plant_link("crates/ask/traces/a.slabtrace", "../../lab/traces/a.slabtrace");
        tree.plant_link("docs/other.md", "../README.md");
        let counts = [("engines".to_owned(), 1), ("kmem".to_owned(), 2)];
        assert_eq!(links_out_of_crates(&tree), Counts::from(counts));
    }
}
