//! `slabyard replay FILE --convert OUT`: the same events as a trace file of ours.
//!
//! Invariant: `OUT` is whole or untouched: it is written beside its place and then
//! put there, so that it may be `FILE` itself.

use super::screen::{Progress, bytes};
use super::{ReplayArgs, input};
use crate::failure::Failure;
use crate::{say, stdout};
use anyhow::Context;
use slabyard_lab::trace::{Frames, Header};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &ReplayArgs, to: &Path, progress: &Progress) -> Result<ExitCode, Failure> {
    let snapshot = input::snapshot_if_any(args)?;
    let mut trace = input::trace(args, progress)?;
    if let Some(snapshot) = &snapshot {
        let known = Header {
            release: snapshot.kernel.clone().unwrap_or_default(),
            page_size: Some(snapshot.page_size),
            cpus: snapshot.machine().map(|machine| machine.possible_cpus),
            ..Header::default()
        };
        // What the trace was recorded with goes before.
        trace.header = trace.header.clone().or(&known);
    } else {
        say("without --start the file will not name the kernel");
    }
    if trace.header.source.is_empty() {
        let name = args.file.file_name().unwrap_or(args.file.as_os_str());
        trace.header.source = format!("converted from {}", name.display());
    }
    if trace.header.page_offset.is_none()
        && let Some(frames) = Frames::detect(&trace.events)
    {
        trace.header.page_offset = Some(frames.page_offset);
    }
    progress.stage(&format!("writing {}", to.display()));
    let size = write(&trace, to).with_context(|| format!("cannot write {}", to.display()))?;
    progress.clear();
    let events = trace.events.len();
    let each = size as f64 / events.max(1) as f64;
    let text = format!(
        "{}: {events} events in {}, {each:.2} bytes an event\n",
        to.display(),
        bytes(Some(size))
    );
    stdout::print(text.as_bytes())
}

fn write(trace: &slabyard_lab::trace::Trace, to: &Path) -> anyhow::Result<u64> {
    let directory = to.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Readable as any new file is: the umask takes away from this.
    let file = tempfile::Builder::new()
        .prefix(".slabyard-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    trace.save(file.path())?;
    let size = file.path().metadata()?.len();
    file.persist(to)?;
    Ok(size)
}
