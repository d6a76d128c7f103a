//! `slabyard boot`: foretells from a snapshot alone how much slab memory a kernel would use with
//! other settings or on another machine.
//!
//! Neighbours: `slabyard-lab`'s population lays the snapshot's objects out anew; [`args`] has the
//! arguments, [`variants`] makes rules and machines of them, [`report`] prints one of these, [`rows`]
//! several, [`page`] draws. Invariants: only the table or JSON goes to standard output, notes to
//! standard error; an impossible setting gives exit code 2, an unreadable snapshot 3.

pub mod args;
mod page;
mod report;
mod rows;
mod variants;

use crate::failure::Failure;
use crate::stdout;
use anyhow::Context;
use args::BootArgs;
use report::Report;
use rows::Rows;
use slabyard_ask::files;
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_observe::file;
use std::path::Path;
use std::process::ExitCode;
use variants::Variant;

/// Prints the memory of each cache before and after, or of each variant.
pub fn run(args: &BootArgs) -> Result<ExitCode, Failure> {
    args.html.look_before([Some(&args.snapshot), args.shrunk.as_ref()].into_iter().flatten())?;
    let snapshot = open(&args.snapshot)?;
    let shrunk = args.shrunk.as_deref().map(open).transpose()?;
    let (base, all) = variants::of(&snapshot, shrunk.as_ref(), args)?;
    let text = match <[Variant; 1]>::try_from(all) {
        Ok([one]) => {
            let report = Report {
                snapshot: &snapshot,
                own: &base.settings,
                new: &one.settings,
                before: base.outcome,
                after: one.outcome,
                errors: one.errors,
            };
            args.html.write(|| page::of(&report))?;
            if args.json { report.json()? } else { report.table(args.all) }
        }
        Err(all) => {
            let rows = Rows { snapshot: &snapshot, base: &base, variants: &all };
            args.html.write(|| page::of_rows(&rows))?;
            if args.json { rows.json()? } else { rows.table() }
        }
    };
    stdout::print(text.as_bytes())
}

/// The snapshot of the running kernel, of a file, or of one of its dumps.
fn open(source: &Path) -> Result<KernelSnapshot, Failure> {
    if source == Path::new("kernel") {
        return Ok(KernelSnapshot::live().context("the running kernel")?);
    }
    let (path, dump) = file::dump_of(source);
    let shown = files::shown(&path);
    let all = files::snapshots(&path).with_context(|| shown.clone())?;
    Ok(files::one_of(all, &shown, dump.as_deref(), &format!("as {shown}#DUMP"))?)
}
