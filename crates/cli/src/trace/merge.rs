//! `slabyard trace merge`: merges traces of several machines into the trace of one machine that has
//! all their CPUs.

use super::output::{OutputArgs, progress, report};
use super::snapshots;
use crate::failure::Failure;
use crate::stderr::say;
use crate::trace_file;
use anyhow::anyhow;
use clap::ValueHint;
use slabyard_ask::Listener as _;
use slabyard_lab::edit::MergeError;
use slabyard_lab::edit::merge::merge;
use slabyard_lab::trace::{Attached, SHRINK, START};
use std::path::PathBuf;
use std::process::ExitCode;

/// `slabyard trace merge`.
#[derive(clap::Args)]
pub struct MergeArgs {
    /// The traces
    #[arg(value_name = "FILE", required = true, num_args = 2.., value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

pub fn run(args: &MergeArgs) -> Result<ExitCode, Failure> {
    let progress = progress("merging");
    let streams: Result<Vec<_>, Failure> =
        args.files.iter().map(|file| trace_file::open(file)).collect();
    let streams = streams?;
    let starts = streams.iter().map(|stream| {
        let cpus = stream.header().cpus.unwrap_or(1);
        let start = stream.attached().iter().find(|one| one.name == START)?;
        Some((start.bytes.clone(), cpus))
    });
    let starts: Option<Vec<(Vec<u8>, u32)>> = starts.collect();
    let shrinks: Vec<Attached> = streams
        .iter()
        .flat_map(|stream| stream.attached().iter().filter(|one| one.name == SHRINK))
        .cloned()
        .collect();
    let releases: Vec<String> = streams.iter().map(|s| s.header().release.clone()).collect();
    let done = trace_file::put(&args.output.output, |out| {
        let mut attached = shrinks.clone();
        if let Some(starts) = &starts {
            let bytes = snapshots::together(starts)?;
            attached.push(Attached { name: START.into(), time: 0, bytes });
        }
        let (done, writer) = merge(streams, out).map_err(|error| explained(error, args))?;
        Ok((done, writer, attached))
    })?;
    progress.clear();
    if starts.is_none() {
        say(
            "not every trace holds its snapshot, so that the new one holds none: replay it with --start",
        );
    }
    if !shrinks.is_empty() {
        say(&format!(
            "{} shrinks of caches are kept; in the new trace each shrinks the cache of all machines",
            shrinks.len()
        ));
    }
    if releases.iter().any(|release| release != &releases[0]) {
        say(&format!(
            "the traces are of kernels {}; the new one names the first",
            releases.join(", ")
        ));
    }
    report(&args.files[0], &args.output.output, &done)
}

fn explained(error: MergeError, args: &MergeArgs) -> Failure {
    let nth = match &error {
        MergeError::Addresses { nth } | MergeError::Pages { nth, .. } => nth.checked_sub(1),
        _ => None,
    };
    let file = nth.and_then(|nth| args.files.get(nth)).map(|file| file.display().to_string());
    let error = anyhow!(error);
    match file {
        Some(file) => error.context(format!("{file} does not go with the others")).into(),
        None => error.into(),
    }
}
