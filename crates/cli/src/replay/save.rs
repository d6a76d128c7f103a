//! `slabyard replay FILE --save OUT`: writes the model's caches as a snapshot, which every command
//! that reads a source accepts.
//!
//! Neighbours: `slabyard-lab` makes the snapshot, [`slabyard_observe::file`] writes it completely
//! or not at all. Invariant: the same trace and rules always give the same run. Only a complete run
//! shows when the number of slabs peaked, so a second run stops at that moment.

use super::args::{ReplayArgs, SaveAt};
use crate::failure::Failure;
use crate::terminal::Progress;
use anyhow::Context;
use slabyard_ask::Listener as _;
use slabyard_ask::load::Loaded;
use slabyard_lab::case::Case;
use slabyard_lab::replay::{Plan, Replayed, replay};
use slabyard_lab::to_snapshot::ReplaySnapshot;
use slabyard_observe::{Snapshot, file};
use std::path::Path;

/// Saves what came of a plan.
pub fn run(
    args: &ReplayArgs,
    to: &Path,
    loaded: &Loaded,
    plan: &Plan<'_>,
    case: &Case,
    replayed: &Replayed,
    progress: &Progress,
) -> Result<(), Failure> {
    let again;
    let replayed = match args.save_at {
        SaveAt::End => replayed,
        SaveAt::Peak => {
            progress.stage("replaying up to the peak");
            let steps = Some(replayed.peak);
            again =
                replay(&Plan { steps, sample_every: 0, ..*plan }).context("the replay failed")?;
            &again
        }
    };
    let snapshot = snapshot(args, loaded, plan, case, replayed);
    progress.stage(&format!("writing {}", to.display()));
    file::save(&snapshot, to).map_err(anyhow::Error::from)?;
    progress.clear();
    Ok(())
}

/// The model's caches as they were when a run ended.
pub fn snapshot(
    args: &ReplayArgs,
    loaded: &Loaded,
    plan: &Plan<'_>,
    case: &Case,
    replayed: &Replayed,
) -> Snapshot {
    let run = ReplaySnapshot {
        name: &args.trace.name(),
        lost: loaded.trace.lost,
        damaged: &loaded.trace.damaged,
        kernel: &loaded.snapshot,
        settings: &loaded.settings,
        case,
        start: plan.start,
        replayed,
    };
    run.snapshot()
}
