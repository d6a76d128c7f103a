//! The tables that the rules go by: `ci/rules.toml`, whose comments say what each is.

use crate::tree::Tree;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Where the tables are.
pub const PATH: &str = "ci/rules.toml";

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
    /// What the design asks for, if that is not what holds for every one of the kind.
    pub wanted: Option<usize>,
    /// What it is today, if that is more.
    pub allowed: Option<usize>,
}

/// The tables of the tree.
pub fn rules(tree: &Tree) -> Result<Rules, String> {
    let text = tree.text(PATH).ok_or_else(|| format!("there is no {PATH}"))?;
    toml::from_str(text).map_err(|error| format!("{PATH}: {error}"))
}
