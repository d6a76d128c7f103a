//! What a rule is, what it judges, and what its findings are made from.
//!
//! Neighbour: [`crate::rules`] has the rules.

use crate::finding::{Confidence, Finding, Remedy, Severity};
use crate::look::Look;
use crate::owners::Owners;
use crate::verdict::kernel::KernelMemory;
use crate::verdict::process::ProcessMemory;
use slabyard_observe::Value;
use slabyard_observe::view::cell::human;

/// What rules judge.
pub struct Case<'a> {
    /// Looks at one source, the oldest first.
    pub looks: &'a [Look],
    /// Of a process, its memory at each look; else empty.
    pub process: Vec<ProcessMemory>,
    /// Of a kernel, its slab memory at each look; else empty.
    pub kernel: Vec<KernelMemory>,
    /// Who holds a kernel's memory.
    pub owners: Option<&'a dyn Owners>,
}

/// A row of the table.
pub struct Rule {
    /// Stable name.
    pub id: &'static str,
    /// What it is about.
    pub of: RuleSource,
    /// The number that counts, in words.
    pub measures: &'static str,
    /// From when on it is a finding.
    pub threshold: Threshold,
    /// Why that is worth saying.
    pub why: &'static str,
    /// In general; a finding's own may have numbers.
    pub remedy: &'static str,
    pub(crate) find: fn(&Rule, &Case<'_>) -> Vec<Finding>,
}

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSource {
    /// On Slabyard or not.
    Process,
    /// Running, or as a file tells it.
    Kernel,
}

/// At least so many bytes, and at least such a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Bytes.
    pub floor: u64,
    /// Hundredths of the whole.
    pub percent: u64,
}

impl Threshold {
    /// True from the threshold on.
    #[must_use]
    pub fn is_reached(self, bytes: u64, whole: u64) -> bool {
        bytes >= self.floor
            && u128::from(bytes) * 100 >= u128::from(whole) * u128::from(self.percent)
    }
}

impl Case<'_> {
    /// The newest one.
    pub(crate) fn last(&self) -> &Look {
        &self.looks[self.looks.len() - 1]
    }

    /// The source as it is typed.
    pub(crate) fn typed(&self) -> String {
        self.last().typed()
    }

    /// What the newest one's allocator tells under a name.
    pub(crate) fn total(&self, name: &str) -> Option<&Value> {
        self.last().snapshot.as_ref()?.total(name)
    }

    /// Seconds from the first look to the last.
    pub(crate) fn seconds(&self) -> f64 {
        self.last().taken_at_ms.saturating_sub(self.looks[0].taken_at_ms) as f64 / 1000.0
    }
}

/// What a finding's sentences are made from.
pub(crate) struct Says {
    pub(crate) says: String,
    pub(crate) bytes: u64,
    pub(crate) numbers: Vec<(&'static str, u64)>,
    pub(crate) caches: Vec<String>,
    pub(crate) confidence: Confidence,
    pub(crate) evidence: Vec<String>,
    pub(crate) remedy: Remedy,
}

impl Rule {
    pub(crate) fn finding(&self, says: Says) -> Finding {
        says.of(self.id, Severity::Finding)
    }
}

impl Says {
    /// What is not wrong.
    pub(crate) fn note(self, id: &'static str) -> Finding {
        self.of(id, Severity::Note)
    }

    fn of(self, id: &'static str, severity: Severity) -> Finding {
        let Says { says, bytes, numbers, caches, confidence, evidence, remedy } = self;
        Finding {
            id,
            severity,
            says,
            bytes,
            numbers: numbers.into_iter().collect(),
            caches,
            owners: Vec::new(),
            confidence,
            evidence,
            remedy,
        }
    }
}

/// Bytes and their share of the whole.
pub(crate) fn with_share(bytes: u64, whole: u64) -> String {
    if whole == 0 {
        return human(bytes);
    }
    format!("{} ({:.0} %)", human(bytes), bytes as f64 * 100.0 / whole as f64)
}

/// A list in words.
pub(crate) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}
