//! What the doctor says: one finding, with its numbers, what it is worth, the command that shows the
//! evidence, and the remedy.

use crate::owners::Owner;
use serde::Serialize;
use std::collections::BTreeMap;

/// Something that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The rule that found it: a row of [`crate::rules::RULES`].
    pub id: &'static str,
    /// Whether something is wrong.
    pub severity: Severity,
    /// What is the matter, in one or two sentences.
    pub says: String,
    /// Bytes at stake.
    pub bytes: u64,
    /// The numbers of the sentences, by name.
    pub numbers: BTreeMap<&'static str, u64>,
    /// Caches that it is about, the worst first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<String>,
    /// Who holds the memory, where that is known, the largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<Owner>,
    /// What it is worth.
    pub confidence: Confidence,
    /// Commands that show it.
    pub evidence: Vec<String>,
    /// With what it gives, and its risk.
    pub remedy: Remedy,
}

/// Whether something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something is: the exit code says so.
    Finding,
    /// It is not, but people ask about it: no reason for an exit code.
    Note,
}

/// What a finding is worth.
#[derive(Clone, Debug, Serialize)]
pub struct Confidence {
    /// In one word.
    pub level: Level,
    /// What the level rests on.
    pub because: String,
    /// What would raise it; none at the highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raised_by: Option<String>,
}

/// How sure the doctor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The numbers fit, and other causes fit as well.
    Low,
    /// The numbers fit, and another cause is possible.
    Medium,
    /// The numbers are what the finding says.
    High,
}

/// What to do about a finding.
#[derive(Clone, Debug, Serialize)]
pub struct Remedy {
    /// In words.
    pub what: String,
    /// To be typed in a shell, where that does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Bytes that it gives at most; `None` where that is not known.
    pub gives: Option<u64>,
    /// What it may cost.
    pub risk: &'static str,
}

impl Remedy {
    /// Which nothing but a change of the program brings.
    pub(crate) fn of_program(what: impl Into<String>, gives: Option<u64>) -> Remedy {
        let risk = "none: it needs a change of the program";
        Remedy { what: what.into(), command: None, gives, risk }
    }

    /// Which no command brings.
    pub(crate) fn in_words(what: impl Into<String>) -> Remedy {
        Remedy { what: what.into(), command: None, gives: None, risk: "none" }
    }
}

impl Confidence {
    /// The highest: nothing would raise it.
    pub(crate) fn high(because: impl Into<String>) -> Confidence {
        Confidence { level: Level::High, because: because.into(), raised_by: None }
    }

    pub(crate) fn of(
        level: Level,
        because: impl Into<String>,
        raised_by: impl Into<String>,
    ) -> Confidence {
        Confidence { level, because: because.into(), raised_by: Some(raised_by.into()) }
    }
}
