//! The result of a replay, and the reasons why a replay ends early.

use super::memory::MemoryOutcome;
use super::report::Sample;
use crate::prepare;
use crate::prepare::truth::Change;
use slabyard_model::cache::KernelCache;

/// What came of a replay.
pub struct Replayed {
    /// Slabs allocated and freed, in order of time.
    pub changes: Vec<Change>,
    /// The caches, with what they counted.
    pub caches: Vec<KernelCache>,
    /// The caches as they were at the start.
    pub before: Sample,
    /// As many as the plan requests, in order of time.
    pub samples: Vec<Sample>,
    /// The caches as they are at the end.
    pub after: Sample,
    /// Steps after which the caches first had the most slabs: for [`super::Plan::steps`] of a
    /// second run, as a run cannot know it in advance. Slabs that wait for readers before their
    /// pages are back are gone.
    pub peak: usize,
    /// Frees that had no object: those that the start did not know of.
    pub frees_left_out: u64,
    /// Of each cache, slabs that the snapshot counts and no event touches, as many as their objects
    /// fill on the machine; they are in nothing else here.
    pub untouched: Vec<u64>,
    /// What became of the machine's memory, if that has an end.
    pub memory: Option<MemoryOutcome>,
}

/// The books of a cache were wrong: the model has a bug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("after step {step}, cache number {cache}: {what}; this is a bug in the model")]
pub struct Unsound {
    /// Steps done.
    pub step: usize,
    /// Its index in the plan.
    pub cache: usize,
    /// What is wrong.
    pub what: String,
}

/// Why a run ended before its time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayFailure {
    /// The books of a cache were wrong.
    #[error(transparent)]
    Unsound(#[from] Unsound),
    /// The trace's file cannot be read again.
    #[error(transparent)]
    Trace(#[from] prepare::Error),
}
