//! `slabyard ask`: a load under other rules and on other machines, the base beside each variant.
//!
//! Neighbours: `slabyard-ask` answers; [`args`] has the arguments, [`table`] prints. Invariants: only
//! the answers go to standard output, notes to standard error; a wrong variant is refused before
//! any replay.

pub mod args;
mod page;
mod table;

use crate::failure::Failure;
use crate::stdout;
use crate::terminal::{Colour, Progress};
use anyhow::Context as _;
use args::{AskArgs, WhichCosts};
use serde::Serialize;
use slabyard_ask::asked::{Asked, Asking, ask};
use slabyard_ask::axis::variants;
use slabyard_ask::load::{self, Loaded};
use slabyard_ask::question::{self, Question};
use slabyard_ask::{Listener as _, costs};
use slabyard_lab::replay::contend::COSTS;
use std::process::ExitCode;

/// The answers, and what they are of.
#[derive(Serialize)]
struct Json<'a> {
    trace: String,
    kernel: Option<&'a str>,
    events: u64,
    machine: &'a [String],
    #[serde(flatten)]
    asked: &'a Asked,
}

/// Asks, and prints a row each.
pub fn run(args: &AskArgs) -> Result<ExitCode, Failure> {
    let file = args.trace.file();
    args.html.look_before([&file.file])?;
    let base = Question::default().with(&question::machine(&args.machine.join(","))?)?;
    let variants = variants(&args.variants)?;
    let costs = match args.costs {
        WhichCosts::Measured => costs::measured(),
        WhichCosts::Table => COSTS,
    };
    let costs = costs::typed(costs, &args.typed_costs)?;
    let progress = Progress::new();
    let loaded = load::load(&file, &base.wanted, &progress)?;
    let asking = Asking {
        file: &file,
        loaded: &loaded,
        base: &base,
        variants: &variants,
        costs,
        contention: args.contention,
        is_checked: !args.no_check,
    };
    let asked = ask(&asking, &progress)?;
    progress.clear();
    asked.notes.iter().for_each(|note| progress.say(note));
    let json = Json {
        trace: slabyard_ask::files::shown(&file.file),
        kernel: loaded.snapshot.kernel.as_deref(),
        events: loaded.trace.nr_events(),
        machine: &args.machine,
        asked: &asked,
    };
    let json = serde_json::to_string_pretty(&json).context("JSON")? + "\n";
    args.html.write(|| Ok(page::of(&heading(&loaded, args), &asked, &json)))?;
    if args.json {
        stdout::print(json.as_bytes())?;
    } else {
        let mut text = heading(&loaded, args) + "\n";
        table::write(&mut text, &asked, Colour::of_stdout());
        stdout::print(text.as_bytes())?;
    }
    let doubtful = asked.trust.as_ref().is_some_and(|trust| trust.doubtful);
    Ok(ExitCode::from(u8::from(doubtful)))
}

fn heading(loaded: &Loaded, args: &AskArgs) -> String {
    let (first, last) = loaded.trace.span().into_inner();
    let machine = &loaded.settings.machine;
    let typed = if args.machine.is_empty() { "as traced".into() } else { args.machine.join(",") };
    format!(
        "{} events over {} on kernel {}; base: rules of {}, {} CPUs of {} possible, pages of {} KiB ({typed})",
        loaded.trace.nr_events(),
        crate::terminal::seconds(last - first),
        loaded.snapshot.kernel.as_deref().unwrap_or("unknown"),
        loaded.settings.rules_name(),
        machine.online_cpus,
        machine.possible_cpus,
        machine.page_size >> 10,
    )
}
