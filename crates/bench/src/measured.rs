//! A suite's results, ready to be printed alone or beside others: its text, its JSON and its goals.
//!
//! Each suite produces a [`Measured`]; `main` prints that of one suite, `all` those of all suites.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::allocators::Allocator;
use crate::args::Common;
use crate::goals::{Goal, Verdict, judge};
use crate::machine::Machine;
use crate::peers::Absent;
use crate::screen;

/// What the report of a suite beside all peers begins with.
#[derive(Serialize)]
pub struct Head<'a> {
    format: u32,
    suite: &'static str,
    pub machine: &'a Machine,
    pub allocators: &'a [Allocator],
    absent: &'a [Absent],
}

impl<'a> Head<'a> {
    pub fn new(
        format: u32,
        suite: &'static str,
        machine: &'a Machine,
        allocators: &'a [Allocator],
        absent: &'a [Absent],
    ) -> Self {
        Self { format, suite, machine, allocators, absent }
    }
}

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
    /// Of `report`, which holds it all, and its tables.
    pub fn new(
        head: &Head,
        tables: &str,
        report: &impl Serialize,
        goals: Vec<Goal>,
    ) -> Result<Self> {
        let heading = screen::heading(head.machine, head.allocators);
        let body = screen::left_out(head.absent) + tables;
        let report = RawValue::from_string(serde_json::to_string_pretty(report)?)?;
        Ok(Self { heading, body, report, goals })
    }

    /// Prints the text, or writes the JSON where it is wanted, and judges if asked to.
    pub fn publish(&self, common: &Common) -> Result<Verdict> {
        self.publish_to(common.json.as_deref(), common.check)
    }

    /// The same for a suite without the options that all others share.
    pub fn publish_to(&self, json: Option<&Path>, check: bool) -> Result<Verdict> {
        let mut text = format!("{}\n{}", self.heading, self.body);
        if !self.goals.is_empty() {
            text += &format!("\n{}", screen::goals(&self.goals));
        }
        screen::publish(&text, &self.report, json)?;
        Ok(judge(&self.goals, check))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_begin_with_the_machine_and_who_was_measured() {
        #[derive(Serialize)]
        struct Report<'a> {
            #[serde(flatten)]
            head: Head<'a>,
            rounds: u32,
        }
        let machine = Machine::read().unwrap();
        let absent = [Absent { name: "tcmalloc", why: "not installed".to_owned() }];
        let head = Head::new(1, "rest", &machine, &[], &absent);
        let report = Report { head, rounds: 3 };
        let measured = Measured::new(&report.head, "tables\n", &report, Vec::new()).unwrap();
        assert!(measured.heading.contains(&machine.kernel), "{}", measured.heading);
        assert_eq!(measured.body, "left out: tcmalloc: not installed\ntables\n");
        let json: serde_json::Value = serde_json::from_str(measured.report.get()).unwrap();
        assert_eq!((&json["suite"], &json["rounds"]), (&"rest".into(), &3.into()));
        assert_eq!(json["absent"][0]["name"], "tcmalloc");
    }
}
