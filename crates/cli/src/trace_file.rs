//! Opens trace files, and writes them so that each is complete or absent.
//!
//! Neighbours: [`crate::trace`] and [`crate::record`] write such files; `slabyard-lab` defines the
//! format.

use crate::failure::Failure;
use anyhow::{Context, anyhow};
use slabyard_ask::files;
use slabyard_lab::edit::Done;
use slabyard_lab::import;
use slabyard_lab::trace::{self, Attached, Error, Stream, Writer};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

/// Opens a trace, ours or another recorder's, or reads one of ours from standard input.
pub fn open(path: &Path) -> Result<Stream, Failure> {
    let stream = if files::is_stdin(path) {
        trace::read(io::stdin().lock())
            .map(Stream::of)
            .map_err(|error| anyhow!("standard input: {error}"))
    } else {
        import::stream(path).map_err(anyhow::Error::from)
    };
    Ok(stream.context("cannot read the trace")?)
}

/// What was done, the writer of the events, and what is still to be attached.
pub type Filled = (Done, Writer<BufWriter<File>>, Vec<Attached>);

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

/// A trace that cannot be read or written ends the command.
pub fn failed(error: Error) -> Failure {
    anyhow!(error).into()
}
