//! The whole answer: what was found, and where the memory is.

use crate::finding::{Finding, Level, Severity};
use crate::look::Look;
use crate::owners::Owners;
use crate::rule::Case;
use crate::rules;
use crate::verdict::kernel::KernelMemory;
use crate::verdict::process::ProcessMemory;
use crate::verdict::{Verdict, recorded};
use serde::Serialize;
use slabyard_observe::snapshot::Missing;

/// Version of the form of the JSON: fields are added, never renamed.
const FORMAT: u32 = 1;

/// What the doctor says of one source.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// Version of this form.
    pub format: u32,
    /// What was looked at.
    pub source: String,
    /// How often.
    pub looks: usize,
    /// Seconds from the first look to the last.
    pub seconds: f64,
    /// What it comes to.
    pub outcome: Outcome,
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// What people ask about, and is not wrong.
    pub notes: Vec<Finding>,
    /// Where the memory is.
    pub verdict: Verdict,
    /// What could not be read, and why.
    pub missing: Vec<Missing>,
}

/// What it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing is wrong.
    NothingFound,
    /// Something is.
    Found,
    /// Most of the memory cannot be seen.
    CannotTell,
}

/// A process of which more than this cannot be seen, and more than half, is not called healthy.
const UNSEEN: u64 = 64 << 20;

/// Judges looks at one source, the oldest first.
///
/// # Panics
/// Without a look.
#[must_use]
pub fn examine(looks: &[Look], owners: Option<&dyn Owners>) -> Diagnosis {
    let last = looks.last().expect("a look");
    let (process, kernel): (Vec<_>, Vec<_>) = if last.is_kernel() {
        (Vec::new(), looks.iter().map(KernelMemory::of).collect())
    } else {
        (looks.iter().map(ProcessMemory::of).collect(), Vec::new())
    };
    let recording = last.recording.as_ref();
    let verdict = match (process.last(), kernel.last(), recording) {
        (_, _, Some(recording)) if last.snapshot.is_none() => recorded::verdict(recording),
        (_, Some(kernel), _) => kernel.verdict(),
        (Some(process), None, _) => process.verdict(),
        (None, None, _) => unreachable!("there is a look"),
    };
    let owners = owners.or(recording.map(|recording| recording as &dyn Owners));
    let case = Case { looks, process, kernel, owners };
    let (findings, notes): (Vec<Finding>, Vec<Finding>) =
        rules::judge(&case).into_iter().partition(|found| found.severity == Severity::Finding);
    let unseen = notes.iter().filter(|note| note.confidence.level == Level::Low);
    let unseen: u64 = unseen.map(|note| note.bytes).sum();
    let outcome = if !findings.is_empty() {
        Outcome::Found
    } else if unseen >= UNSEEN && unseen * 2 > verdict.bytes {
        Outcome::CannotTell
    } else {
        Outcome::NothingFound
    };
    Diagnosis {
        format: FORMAT,
        source: last.title(),
        looks: looks.len(),
        seconds: case.seconds(),
        outcome,
        findings,
        notes,
        verdict,
        missing: last.missing.clone(),
    }
}
