//! The file that `all --json` writes: all measurements, by suite.
//!
//! `all` fills this file and keeps parts of an earlier one; `page` reads it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::goals::Goal;

const FORMAT: u32 = 1;

/// A suite as it is written down.
#[derive(Serialize, Deserialize)]
pub struct SuiteResult {
    /// How it was measured.
    pub command: String,
    /// The commit of the sources, where git knows it.
    #[serde(default)]
    pub commit: Option<String>,
    /// All of its tables.
    pub text: String,
    pub goals: Vec<Goal>,
    /// What the suite's own `--json` is; nothing if it was left out.
    pub report: Option<Box<RawValue>>,
}

/// By the suites' names.
pub type SuiteResults = BTreeMap<String, SuiteResult>;

/// The raw results of all suites, from which the page is made.
#[derive(Serialize, Deserialize)]
pub struct ResultsFile {
    format: u32,
    pub suites: SuiteResults,
}

impl ResultsFile {
    /// Of these parts.
    pub fn new(suites: SuiteResults) -> Self {
        Self { format: FORMAT, suites }
    }

    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let written: Self =
            serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        let (format, path) = (written.format, path.display());
        ensure!(format == FORMAT, "{path}: format {format}, and this program reads {FORMAT}");
        Ok(written)
    }
}
