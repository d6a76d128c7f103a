//! The tables that the rules use, `ci/rules.toml` and `ci/words.toml`: comments in these files
//! describe each table.

use crate::tree::Tree;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Where the tables are.
pub const PATH: &str = "ci/rules.toml";

const WORDS: &str = "ci/words.toml";

/// All tables.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rules {
    pub edges: BTreeMap<String, Vec<String>>,
    pub without_others: Vec<String>,
    pub optional: BTreeMap<String, Vec<String>>,
    pub engine_crate: String,
    pub floors: Vec<Vec<String>>,
    pub without_unsafe: Vec<String>,
    pub vague_names: Vec<String>,
    pub limits: BTreeMap<String, Limit>,
}

/// How large concepts of one kind may be.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limit {
    /// For all that have no row; without it, only what has a row is looked at.
    pub every: Option<usize>,
    /// How much less than is allowed a number may be before the table has to follow it.
    #[serde(default)]
    pub slack: usize,
    #[serde(default)]
    pub rows: BTreeMap<String, Row>,
}

/// The limit of one concept.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// What the design demands, if that differs from what holds for every one of the kind.
    pub wanted: Option<usize>,
    /// What it is today, if that is more.
    pub allowed: Option<usize>,
}

/// The words of documents and comments: `ci/words.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Words {
    pub foreign: Vec<String>,
    pub exempt: Vec<String>,
    pub fillers: Vec<String>,
    pub of_engine: Vec<String>,
    pub retired: BTreeMap<String, String>,
    pub retired_of_engine: BTreeMap<String, String>,
}

/// The tables of the tree.
pub fn rules(tree: &Tree) -> Result<Rules, String> {
    table(tree, PATH)
}

/// The words of the tree.
pub fn words(tree: &Tree) -> Result<Words, String> {
    table(tree, WORDS)
}

fn table<T: DeserializeOwned>(tree: &Tree, path: &str) -> Result<T, String> {
    let text = tree.text(path).ok_or_else(|| format!("there is no {path}"))?;
    toml::from_str(text).map_err(|error| format!("{path}: {error}"))
}
