//! Geometry as JSON.

use crate::failure::Failure;
use anyhow::Context;
use serde::Serialize;

/// A value as JSON that people can read, too.
pub(super) fn json(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value).context("JSON")?;
    Ok(text + "\n")
}
