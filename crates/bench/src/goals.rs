//! A goal: its limit, the measured value, and whether the goal is met.

use serde::{Deserialize, Serialize};

/// The outcome of a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No goal was missed, or nobody asked.
    Met,
    Missed,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Goal {
    /// What it is about.
    pub name: String,
    /// What was measured, in words.
    pub measured: String,
    /// The limit, in words.
    pub limit: String,
    /// `None`: it could not be measured.
    pub met: Option<bool>,
}

impl Goal {
    /// A goal in KiB: at most `limit`.
    pub fn at_most_kib(name: String, measured: f64, limit: f64) -> Self {
        Self {
            name,
            measured: format!("{measured:.0} KiB"),
            limit: format!("<= {limit:.0} KiB"),
            met: Some(measured <= limit),
        }
    }

    /// A goal in ratios: at most `limit`.
    pub fn at_most_ratio(name: &str, measured: f64, limit: f64) -> Self {
        Self {
            name: name.to_owned(),
            measured: format!("{measured:.3}"),
            limit: format!("<= {limit:.2}"),
            met: Some(measured <= limit),
        }
    }

    /// A goal that could not be measured.
    pub fn skipped(name: String, why: &str) -> Self {
        Self { name, measured: format!("skipped: {why}"), limit: String::new(), met: None }
    }

    /// The verdict in a word.
    pub fn word(&self) -> &'static str {
        match self.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "skipped",
        }
    }
}

/// The verdict on all, where `check` requests one.
pub fn judge(goals: &[Goal], check: bool) -> Verdict {
    if check && goals.iter().any(|goal| goal.met == Some(false)) {
        Verdict::Missed
    } else {
        Verdict::Met
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_missed_goal_is_enough_and_a_skipped_one_is_not() {
        let met = || Goal::at_most_ratio("a", 0.97, 0.97);
        let missed = || Goal::at_most_ratio("b", 0.971, 0.97);
        let skipped = || Goal::skipped("c".to_owned(), "no tool");
        assert_eq!(judge(&[met(), skipped()], true), Verdict::Met);
        assert_eq!(judge(&[met(), missed()], true), Verdict::Missed);
        assert_eq!(judge(&[met(), missed()], false), Verdict::Met);
    }
}
