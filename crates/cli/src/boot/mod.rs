//! `slabyard boot`: foretells from a snapshot alone how much slab memory a kernel would use with
//! other settings or on another machine.
//!
//! Neighbours: `slabyard-lab`'s population lays the snapshot's objects out anew; [`args`] has the
//! arguments, [`report`] prints, [`page`] draws. Invariants: only the table or JSON goes to standard output, notes
//! to standard error; an impossible setting gives exit code 2, an unreadable snapshot 3.

pub mod args;
mod page;
mod report;

use crate::failure::Failure;
use crate::machine::Engine;
use crate::stderr::say;
use crate::stdout;
use anyhow::Context;
use args::BootArgs;
use report::Report;
use slabyard_ask::{Wanted, files};
use slabyard_lab::population::Population;
use slabyard_lab::population::measured;
use slabyard_lab::rules::Settings;
use slabyard_lab::snapshot::{KernelSnapshot, UnknownRules};
use slabyard_observe::file;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Prints the memory of each cache before and after.
pub fn run(args: &BootArgs) -> Result<ExitCode, Failure> {
    let inputs =
        [Some(&args.snapshot), args.shrunk.as_ref()].map(|file| file.map(PathBuf::as_path));
    args.html.look_before(&inputs.into_iter().flatten().collect::<Vec<_>>())?;
    let snapshot = open(&args.snapshot)?;
    let (own, new) = args.settings(&snapshot)?;
    let usage = |error: slabyard_lab::population::Error| Failure::Usage(error.to_string());
    let population = match &args.shrunk {
        None => Population::from_snapshot(&snapshot, &own),
        Some(shrunk) => Population::from_snapshots(&snapshot, &open(shrunk)?, &own),
    };
    let population = population.map_err(usage)?;
    let impossible = |error: slabyard_lab::geometry::SizeError| Failure::Usage(error.to_string());
    let before = population.on(&own).map_err(impossible)?;
    let after = population.on(&new).map_err(impossible)?;
    let errors = measured::of(&own, &new);
    let report = Report { snapshot: &snapshot, own: &own, new: &new, before, after, errors };
    args.html.write(|| page::of(&report))?;
    let text = if args.json { report.json()? } else { report.table(args.all) };
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

impl BootArgs {
    /// The rules of the snapshot's kernel, and those that were typed.
    fn settings(&self, snapshot: &KernelSnapshot) -> Result<(Settings, Settings), Failure> {
        let usage = |text: String| Failure::Usage(text);
        let rules = &self.rules;
        if !matches!(rules.engine, Engine::Slub | Engine::Tiny) {
            let text =
                "boot knows the slabs of SLUB and SLUB_TINY; for SLAB and SLOB, replay a trace";
            return Err(usage(text.into()));
        }
        let machine = snapshot.machine().ok_or(UnknownRules::NoCpus);
        let machine = machine.map_err(|error| usage(error.to_string()))?;
        let kernel = snapshot.kernel.as_deref().or(rules.release.as_deref());
        let kernel = kernel.ok_or_else(|| usage(UnknownRules::NoVersion.to_string()))?;
        let booted = |settings: &mut Settings| snapshot.boot(settings);
        let (own, _) = Wanted::default().settings(kernel, machine, booted)?;
        let version = rules.release.as_deref().unwrap_or(kernel);
        let wanted = rules.wanted();
        let (new, note) = wanted.settings(version, wanted.on(machine), booted)?;
        note.iter().for_each(|note| say(note));
        match new.typed_of_calls() {
            None => Ok((own, new)),
            Some(key) => Err(usage(format!(
                "{key} changes what calls do, which no snapshot shows; it is for `slabyard replay \
                 --set`"
            ))),
        }
    }
}
