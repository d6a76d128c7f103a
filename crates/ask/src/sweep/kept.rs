//! The trace of the last point that [`super::run_point`] replayed, kept for the next one: programs with
//! workers of their own ask for points one by one, and reading a trace takes longer than a replay.
//!
//! Neighbours: `super::plan` reads a trace and its digest, `super::run` replays. Invariants: a process
//! keeps one trace at most; it is used again only by a plan that has its digest, and while its files have
//! the identity, size and time that they had before it was read.

use super::plan::Plan;
use crate::answer::Answerer;
use crate::load::Loaded;
use crate::{Error, Listener};
use slabyard_lab::case::Case;
use slabyard_lab::replay::contend::COSTS;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A trace that is ready to be replayed.
pub struct Ready {
    /// Its events, and the snapshot that it begins with.
    pub loaded: Loaded,
    /// As it is prepared, by the rules of the traced kernel.
    case: Case,
}

impl Ready {
    /// Reads and prepares a trace of a sweep.
    fn of(plan: &Plan, input: usize, listener: &dyn Listener) -> Result<Ready, Error> {
        let loaded = plan.load(input, listener)?;
        let case = Answerer::new(&loaded, COSTS, listener)?.case().clone();
        Ok(Ready { loaded, case })
    }

    /// For questions; all that are made share its steps.
    pub fn answerer(&self) -> Answerer<'_> {
        Answerer::of_case(&self.loaded, self.case.clone(), COSTS)
    }
}

/// Tells a file that was changed or replaced, without reading it.
type Stamp = (u64, u64, u64, i64, i64);

fn stamp(file: &Path) -> Option<Stamp> {
    let of = |it: Metadata| (it.dev(), it.ino(), it.size(), it.mtime(), it.mtime_nsec());
    fs::metadata(file).ok().map(of)
}

struct Kept {
    digest: String,
    /// Of the trace, under the name by which the plan has it, and of the snapshot that it begins with.
    stamps: [Option<Stamp>; 2],
    ready: Arc<Ready>,
}

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

/// A trace of a sweep: the kept one, if it is that; else it is read, and kept in its place.
///
/// # Errors
/// As [`Plan::load`] and [`Answerer::new`].
pub fn ready(plan: &Plan, input: usize, listener: &dyn Listener) -> Result<Arc<Ready>, Error> {
    let file = &plan.inputs[input];
    // Held while a trace is read: whoever waits needs the same one.
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let before = stamp(&file.file);
    if let Some(kept) = &*kept
        && kept.digest == file.digest
        && kept.stamps == [before, stamp(&kept.ready.loaded.start)]
        && before.is_some()
    {
        return Ok(Arc::clone(&kept.ready));
    }
    // Two would be in memory else.
    *kept = None;
    let ready = Arc::new(Ready::of(plan, input, listener)?);
    let stamps = [before, stamp(&ready.loaded.start)];
    *kept = Some(Kept { digest: file.digest.clone(), stamps, ready: Arc::clone(&ready) });
    Ok(ready)
}
