//! A suite's results, ready to be printed alone or beside others: its text, its JSON and its goals.
//!
//! Each suite produces a [`Measured`]; `main` prints that of one suite, `all` those of all suites.

use anyhow::Result;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::args::Common;
use crate::goals::{Goal, Verdict, judge};
use crate::screen;

/// What a suite measured.
pub struct Measured {
    /// The machine and the allocators.
    pub heading: String,
    /// The rest of the text, in Markdown.
    pub body: String,
    /// Everything, as JSON.
    pub report: Box<RawValue>,
    /// What was asked of it.
    pub goals: Vec<Goal>,
}

impl Measured {
    /// What is said below `heading`, and `report`, which holds it all.
    pub fn new(
        heading: String,
        body: String,
        report: &impl Serialize,
        goals: Vec<Goal>,
    ) -> Result<Self> {
        let report = RawValue::from_string(serde_json::to_string_pretty(report)?)?;
        Ok(Self { heading, body, report, goals })
    }

    /// Prints the text, or writes the JSON where it is wanted, and judges if asked to.
    pub fn publish(&self, common: &Common) -> Result<Verdict> {
        let mut text = format!("{}\n{}", self.heading, self.body);
        if !self.goals.is_empty() {
            text += &format!("\n{}", screen::goals(&self.goals));
        }
        screen::publish(&text, &self.report, common.json.as_deref())?;
        Ok(judge(&self.goals, common.check))
    }
}
