//! `slabyard boot`: foretells from a snapshot alone how much slab memory a kernel would use with
//! other settings or on another machine.
//!
//! Neighbours: [`slabyard_ask::boot`] foretells; [`args`] has the arguments, [`report`] prints one variant,
//! [`rows`] several, [`page`] draws. Invariants: only the table or JSON goes to standard output, notes to
//! standard error; an impossible setting gives exit code 2, an unreadable snapshot 3.

pub mod args;
mod page;
mod report;
mod rows;

use crate::failure::Failure;
use crate::machine::Engine;
use crate::stderr::say;
use crate::stdout;
use crate::terminal::Progress;
use args::BootArgs;
use report::Report;
use rows::Rows;
use slabyard_ask::Error;
use slabyard_ask::axis::Axis;
use slabyard_ask::boot::{self, BootRequest};
use std::process::ExitCode;

/// Prints the memory of each cache before and after, or of each variant.
pub fn run(args: &BootArgs) -> Result<ExitCode, Failure> {
    args.html.look_before([Some(&args.snapshot), args.shrunk.as_ref()].into_iter().flatten())?;
    let snapshot = boot::open(&args.snapshot)?;
    for assumed in &snapshot.assumed {
        say(&format!("{}: {assumed}", args.snapshot.display()));
    }
    let shrunk = args.shrunk.as_deref().map(boot::open).transpose()?;
    let boots = boot::foretell(&snapshot, shrunk.as_ref(), &asked(args)?, &Progress::new())?;
    let json = || report::json(&snapshot, &boots);
    let text = match boots.variants.len() {
        1 => {
            let report = Report { snapshot: &snapshot, boots: &boots };
            args.html.write(|| page::of(&report))?;
            if args.json { json()? } else { report.table(args.all) }
        }
        _ => {
            let rows = Rows { snapshot: &snapshot, boots: &boots };
            args.html.write(|| page::of_rows(&rows))?;
            if args.json { json()? } else { rows.table() }
        }
    };
    stdout::print(text.as_bytes())
}

/// What was typed, as axes.
fn asked(args: &BootArgs) -> Result<BootRequest, Error> {
    let engines = args.engine.iter().map(|engine| engine.name()).collect::<Vec<_>>().join(",");
    let engine = (args.engine != [Engine::Slub]).then_some(engines);
    let typed = [
        ("engine", &engine),
        ("release", &args.release),
        ("page_size", &args.page_size),
        ("cpus", &args.cpus),
        ("possible_cpus", &args.possible_cpus),
    ];
    let named = typed.into_iter().filter_map(|(key, values)| Some((key, values.as_ref()?)));
    let options = named.map(|(key, values)| Axis::parse(&format!("{key}={values}")));
    let set = args.set.iter().map(|text| Axis::parse(text));
    Ok(BootRequest {
        options: options.collect::<Result<_, _>>()?,
        set: set.collect::<Result<_, _>>()?,
    })
}
