//! `slabyard replay FILE --convert OUT`: writes the same events as a trace file in Slabyard's
//! format.
//!
//! The snapshot that `--start` names, or the one beside the trace, is stored in the file, so that
//! its replay needs no other file.
//!
//! Invariant: `OUT` is either complete or untouched, and may be `FILE` itself; a device, pipe or
//! symbolic link is not replaced ([`file::put`]).

use super::args::ReplayArgs;
use crate::failure::Failure;
use crate::stderr::say;
use crate::stdout;
use crate::terminal::{Progress, bytes};
use anyhow::Context;
use slabyard_ask::Listener as _;
use slabyard_ask::files;
use slabyard_ask::load;
use slabyard_lab::trace::{Attached, Frames, Header, START};
use slabyard_observe::file;
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &ReplayArgs, to: &Path, progress: &Progress) -> Result<ExitCode, Failure> {
    let snapshot = load::snapshot_if_any(&args.trace.file(), progress)?;
    let mut trace = load::trace(&args.trace.file(), progress)?;
    if let Some(snapshot) = &snapshot {
        let known = Header {
            release: snapshot.kernel.clone().unwrap_or_default(),
            page_size: Some(snapshot.page_size),
            cpus: snapshot.machine().map(|machine| machine.possible_cpus),
            ..Header::default()
        };
        // What the trace was recorded with goes before.
        trace.header = trace.header.clone().or(&known);
        trace.attached.retain(|attached| attached.name != START);
        let start = Attached { name: START.into(), time: 0, bytes: snapshot.to_json() };
        trace.attached.insert(0, start);
    } else if trace.header.release.is_empty() {
        say("without --start the file will not name the kernel");
    }
    if trace.header.source.is_empty() {
        let name = args.trace.name();
        trace.header.source = format!("converted from {}", files::shown(name.as_ref()));
    }
    if trace.header.page_offset.is_none()
        && let Some(frames) = Frames::detect(&trace.events)
    {
        trace.header.page_offset = Some(frames.page_offset);
    }
    let to_stdout = to == Path::new(files::DASH);
    let shown = if to_stdout { "standard output".into() } else { to.display().to_string() };
    progress.stage(&format!("writing {shown}"));
    let failed = || format!("cannot write {shown}");
    let file = trace.write(Vec::new()).with_context(failed)?;
    if !to_stdout {
        file::put(&file, to).with_context(failed)?;
    }
    progress.clear();
    let events = trace.events.len();
    let each = file.len() as f64 / events.max(1) as f64;
    let size = bytes(Some(file.len() as u64));
    let text = format!("{shown}: {events} events in {size}, {each:.2} bytes an event");
    if to_stdout {
        say(&text);
        return stdout::print(&file);
    }
    stdout::print((text + "\n").as_bytes())
}
