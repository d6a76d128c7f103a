//! The documents: Markdown files in the root and in `docs`.

use crate::tree::Tree;

/// The documents with their texts.
pub fn documents(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.files("", ".md").filter(|(path, _)| !path.contains('/') || path.starts_with("docs/"))
}
