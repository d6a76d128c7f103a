//! `slabyard trace`: what is in a trace file, a part of it, several together, a copy that names
//! nothing, and traces of other recorders as ours.
//!
//! Neighbours: the lab's `edit` passes through the events; here the snapshots that a trace holds
//! are changed with them ([`snapshots`]).
//! Invariant: a file that is written is whole or not there ([`put`]).

mod anonymise;
mod cut;
mod info;
mod merge;
mod renamer;
mod snapshots;

use crate::failure::Failure;
use crate::replay::screen::{Progress, bytes};
use crate::{say, stdin, stdout};
use anyhow::{Context, anyhow};
use clap::{Subcommand, ValueHint};
use slabyard_lab::edit::Done;
use slabyard_lab::import;
use slabyard_lab::trace::{self, Attached, Error, Stream, Writer};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard trace info load.slabtrace
  slabyard trace cut load.slabtrace -o minute.slabtrace --from 60 --to 120
  slabyard trace cut load.slabtrace -o dentry.slabtrace --caches 'dentry,*inode_cache'
  slabyard trace merge web1.slabtrace web2.slabtrace -o both.slabtrace
  slabyard trace anonymise load.slabtrace -o public.slabtrace
  zcat load.csv.gz | slabyard trace info -

A trace is a file of ours or any that `slabyard replay` reads; `-` is standard input.
Exit code: 0 done; 1 it is damaged, and what is left of it was used; 2 usage; 3 it cannot be done.";

/// `slabyard trace`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TraceCommandArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Subcommand)]
enum TraceCommand {
    /// Say what is in a trace
    Info(info::InfoArgs),
    /// Write a part of a trace: of a time, of CPUs, of caches
    Cut(cut::CutArgs),
    /// Write traces of several machines as one of a machine that has all their CPUs and memory
    Merge(merge::MergeArgs),
    /// Write a copy without addresses, processes, call sites and names of caches, which replays alike
    Anonymise(anonymise::AnonymiseArgs),
}

/// The file to be written.
#[derive(clap::Args)]
struct Output {
    /// The trace file to be written
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: PathBuf,
}

/// Does what is asked for.
pub fn run(args: &TraceCommandArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        TraceCommand::Info(args) => info::run(args),
        TraceCommand::Cut(args) => cut::run(args),
        TraceCommand::Merge(args) => merge::run(args),
        TraceCommand::Anonymise(args) => anonymise::run(args),
    }
}

/// Opens a trace.
fn open(path: &Path) -> Result<Stream, Failure> {
    let stream = if stdin::is_meant(path) {
        trace::read(io::stdin().lock())
            .map(Stream::of)
            .map_err(|error| anyhow!("standard input: {error}"))
    } else {
        import::stream(path).map_err(anyhow::Error::from)
    };
    Ok(stream.context("cannot read the trace")?)
}

/// What was done, the writer of the events, and what is still to be attached.
type Filled = (Done, Writer<BufWriter<File>>, Vec<Attached>);

/// Writes a file beside its place, has it filled, and puts it there.
pub fn put(
    output: &Path,
    fill: impl FnOnce(BufWriter<File>) -> Result<Filled, Failure>,
) -> Result<Done, Failure> {
    let failed = || format!("cannot write {}", output.display());
    let directory = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    let beside = tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))
        .with_context(failed)?;
    let out = BufWriter::new(beside.reopen().with_context(failed)?);
    let (done, mut writer, attached) = fill(out)?;
    let finish = |writer: &mut Writer<_>| attached.iter().try_for_each(|one| writer.attach(one));
    finish(&mut writer).with_context(failed)?;
    let out = writer.finish().with_context(failed)?;
    out.into_inner()
        .map_err(|error| error.into_error())
        .with_context(failed)?
        .sync_data()
        .with_context(failed)?;
    let beside = beside.persist(output).map_err(|error| error.error).with_context(failed)?;
    // A temporary file is its owner's alone; this one is like any other.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666 & !umask());
    beside.set_permissions(mode).with_context(failed)?;
    Ok(done)
}

fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

/// Says what was written, and what is wrong with what it was made of.
fn tell(input: &Path, output: &Path, done: &Done) -> Result<ExitCode, Failure> {
    let size = fs::metadata(output).map(|meta| meta.len()).ok();
    let Done { read, written, .. } = done;
    let size = bytes(size);
    let output = output.display();
    stdout::print(format!("{output}: {written} of {read} events in {size}\n").as_bytes())?;
    for damage in &done.damaged {
        say(&format!("{} is damaged: {damage}", stdin::shown(input)));
    }
    Ok(ExitCode::from(u8::from(!done.damaged.is_empty())))
}

pub fn failed(error: Error) -> Failure {
    anyhow!(error).into()
}

fn progress(what: &str) -> Progress {
    let progress = Progress::new();
    progress.stage(what);
    progress
}
