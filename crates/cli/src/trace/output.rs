//! The option that names the output trace file, and the message at the end.

use crate::failure::Failure;
use crate::stderr::say;
use crate::stdout;
use crate::terminal::{Progress, bytes};
use clap::ValueHint;
use slabyard_ask::Listener as _;
use slabyard_ask::files;
use slabyard_lab::edit::Done;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `--output` of the ways that write a trace.
#[derive(clap::Args)]
pub(super) struct OutputArgs {
    /// The trace file to be written
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) output: PathBuf,
}

/// Says what was written, and what is wrong with what it was made of.
pub(super) fn report(input: &Path, output: &Path, done: &Done) -> Result<ExitCode, Failure> {
    let size = fs::metadata(output).map(|meta| meta.len()).ok();
    let Done { read, written, .. } = done;
    let size = bytes(size);
    let output = output.display();
    stdout::print(format!("{output}: {written} of {read} events in {size}\n").as_bytes())?;
    for damage in &done.damaged {
        say(&format!("{} is damaged: {damage}", files::shown(input)));
    }
    Ok(ExitCode::from(u8::from(!done.damaged.is_empty())))
}

/// Says on a terminal what is being done.
pub(super) fn progress(what: &str) -> Progress {
    let progress = Progress::new();
    progress.stage(what);
    progress
}
