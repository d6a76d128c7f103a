//! The results of a part of the suite: a table, its samples, and goals.
//!
//! Each part of the suite produces a [`PartResult`]; the suite prints all of them together.

use serde::Serialize;

use crate::goals::Goal;
use crate::stats::median;

/// A table as it is printed, and the samples behind it.
#[derive(Serialize)]
pub struct PartResult {
    pub title: &'static str,
    pub heading: Vec<&'static str>,
    /// As printed.
    pub rows: Vec<Vec<String>>,
    /// By row.
    pub samples: Vec<Sampled>,
    pub goals: Vec<Goal>,
}

/// What was run, and its samples in KiB by allocator.
#[derive(Serialize)]
pub struct Sampled {
    pub name: String,
    pub kib: Vec<Vec<u64>>,
}

/// Median of samples in KiB.
pub fn median_kib(samples: &[u64]) -> f64 {
    let values: Vec<f64> = samples.iter().map(|&kib| kib as f64).collect();
    median(&values)
}
