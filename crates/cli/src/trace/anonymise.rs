//! `slabyard trace anonymise`: makes a publishable copy of a trace.

use super::output::{OutputArgs, progress, report};
use super::renamer::Renamer;
use super::snapshots;
use crate::failure::Failure;
use crate::trace_file;
use clap::ValueHint;
use slabyard_ask::Listener as _;
use slabyard_lab::edit::anonymous::{Names, anonymise};
use slabyard_lab::prepare::naming;
use slabyard_lab::trace::{Attached, LISTS, RECORDING, SHRINK};
use std::path::PathBuf;
use std::process::ExitCode;

const WHAT: &str = "\
Addresses, processes, call sites and names of caches are replaced, each by the same everywhere, in the events
and in the snapshots that the trace holds; of the command line of the recording and of the kernel's
boot only the parameters of slabs are left. Times, CPUs, sizes, flags, the kernel's release and the
counts of each cache stay, and so do names that every kernel has and that rules go by: those of
kmalloc's caches and of a few others. A replay of the copy has the same result.";

/// `slabyard trace anonymise`.
#[derive(clap::Args)]
#[command(after_help = WHAT)]
pub struct AnonymiseArgs {
    /// The trace
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

pub fn run(args: &AnonymiseArgs) -> Result<ExitCode, Failure> {
    let progress = progress("anonymising");
    let stream = trace_file::open(&args.file)?;
    let attached = stream.attached().to_vec();
    let renamer = Renamer::default();
    // In the order of the snapshots, so that caches stay in theirs.
    let mut renamed = Vec::new();
    let is_snapshot = |one: &&Attached| ![RECORDING, LISTS, SHRINK].contains(&one.name.as_str());
    for one in attached.iter().filter(is_snapshot) {
        let bytes = snapshots::anonymous(&one.bytes, &renamer)?;
        renamed.push(Attached { bytes, ..one.clone() });
    }
    for one in attached.iter().filter(|one| one.name == SHRINK) {
        let name = renamer.name(&String::from_utf8_lossy(&one.bytes));
        renamed.push(Attached { bytes: name.into_bytes(), ..one.clone() });
    }
    let done = trace_file::put(&args.output.output, |out| {
        let cache = |name: &str| renamer.name(name);
        let names = Names { cache: &cache, is_known_site: &naming::is_site_of_bucket };
        let (done, writer, mut moved) =
            anonymise(stream, &names, out).map_err(trace_file::failed)?;
        for one in attached.iter().filter(|one| one.name == LISTS) {
            let bytes = snapshots::moved(&one.bytes, &renamer, |base| moved.place(base))?;
            renamed.push(Attached { bytes, ..one.clone() });
        }
        Ok((done, writer, renamed))
    })?;
    progress.clear();
    report(&args.file, &args.output.output, &done)
}
