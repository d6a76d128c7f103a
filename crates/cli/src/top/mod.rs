//! `slabyard top`: shows a kernel's or a process's caches live, on a full screen.
//!
//! Neighbours: `slabyard_observe::source` samples; [`live`] runs the loop, [`app`] holds the state,
//! [`draw`] draws it. Invariant: however the command ends, it restores the terminal first.

mod app;
mod columns;
mod counting;
mod draw;
mod events;
mod filter;
mod history;
mod keys;
mod live;
mod pane;
mod screen;
mod short;
#[cfg(test)]
mod tests;

use crate::doctor;
use crate::failure::Failure;
use crate::look;
use crate::stderr::say;
use crate::target::Target;
use anyhow::{Context, anyhow};
use app::Start;
use clap::ValueHint;
use columns::Column;
use counting::Counting;
use draw::{Colour, ScreenOptions};
use filter::Filter;
use live::{End, Sample, Taken};
use pane::{Pane, Want};
use slabyard_observe::Snapshot;
use slabyard_observe::source::{self, ReadScope, SourceName};
use slabyard_observe::timeline::Timeline;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  slabyard top                              the running kernel
  slabyard top $(pgrep -n python3)          a process that runs on Slabyard
  slabyard top --sort live/s --filter 'kmalloc-*' --interval 0.5
  slabyard top --sites                      who allocates from the kernel's caches
  slabyard top --replay day.timeline --interval 0.2    what `slabyard watch` wrote

Keys are shown at the foot of the screen, all of them by `?`. The code is 0 when
it is quit and when the process ended, 2 for usage, 3 if there is nothing to show.
NO_COLOR turns the colours off.";

/// `slabyard top`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TopArgs {
    /// `kernel`, or the id of a process
    #[arg(value_name = "SOURCE", default_value = "kernel")]
    source: SourceName,
    /// Show a timeline again from its first look, one at each interval; it stops at the last
    #[arg(long, value_name = "FILE", conflicts_with = "source", value_hint = ValueHint::FilePath)]
    replay: Option<PathBuf>,
    /// Seconds between two looks, 0.1 at least
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// The column to sort by: one that is shown, or any field of `list`
    #[arg(long, value_name = "FIELD", default_value = "bytes", value_parser = column)]
    sort: Column,
    /// Show only caches whose name holds this, or matches it as in `kmalloc-*`
    #[arg(long, value_name = "PATTERN", default_value = "")]
    filter: String,
    /// Show who allocates from the kernel's caches, and how much, as the key `w` does
    #[arg(long, conflicts_with = "replay")]
    sites: bool,
    /// What counting for that may take of one CPU: of more, fewer allocations are followed
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = doctor::percent)]
    budget: f64,
}

/// Shows the source until the end.
pub fn run(args: &TopArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.replay {
        return again(args, path);
    }
    let target = match &args.source {
        SourceName::Kernel => None,
        SourceName::Process(pid) => Some(Target::new(*pid)),
        SourceName::File(path) => {
            let shown = path.display();
            let why = format!("it does not change; `slabyard list {shown}` shows what it holds");
            return Err(Failure::Usage(look::only_a_file(path, &why)));
        }
        SourceName::Stdin => {
            let text = "standard input does not change; `slabyard list -` shows what it holds";
            return Err(Failure::Usage(text.into()));
        }
    };
    if args.sites && target.is_some() {
        let why = "--sites is of the kernel: `slabyard profile PID` samples a process's call sites";
        return Err(Failure::Usage(why.into()));
    }
    look_for_terminal(args)?;
    let first = source::sample(&args.source, ReadScope::default()).map_err(anyhow::Error::from)?;
    let began = Instant::now();
    let mut counting = Counting::new(&args.source, args.budget);
    show(args, first, |want| match source::sample(&args.source, want.scope) {
        Ok(snapshot) => {
            let at = began.elapsed();
            Sample::Taken(Box::new(Taken { snapshot, at, activity: counting.look(want.pane) }))
        }
        Err(_) if target.is_some_and(|target| target.ended()) => Sample::Gone,
        Err(error) => Sample::Failed(error.to_string()),
    })
}

/// Shows a timeline again.
fn again(args: &TopArgs, path: &Path) -> Result<ExitCode, Failure> {
    look_for_terminal(args)?;
    let timeline = Timeline::open(path).map_err(anyhow::Error::from)?;
    let mut looks = timeline.looks();
    let Some(first) = looks.next() else {
        return Err(anyhow!("{} has no look yet", path.display()).into());
    };
    let first = first.map_err(anyhow::Error::from)?;
    let began = first.taken_at_ms;
    show(args, first, |want| match looks.next() {
        Some(Ok(look)) => {
            let at = Duration::from_millis(look.taken_at_ms.saturating_sub(began));
            let why = "a timeline does not tell who allocates";
            let activity = (want.pane == Pane::Sites).then(|| Err(why.into()));
            Sample::Taken(Box::new(Taken { snapshot: look, at, activity }))
        }
        Some(Err(error)) => Sample::Failed(error.to_string()),
        None => Sample::Over,
    })
}

fn look_for_terminal(args: &TopArgs) -> Result<(), Failure> {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        return Ok(());
    }
    let instead = match args.sites {
        true => "`slabyard doctor kernel --watch 10` prints who allocates",
        false => "`slabyard list` prints the same columns",
    };
    Err(Failure::Usage(format!("top needs a terminal to draw on: {instead}")))
}

/// Shows looks until the end.
fn show(
    args: &TopArgs,
    first: Snapshot,
    sample: impl FnMut(Want) -> Sample,
) -> Result<ExitCode, Failure> {
    let start = Start {
        interval: args.interval,
        sort: args.sort,
        filter: Filter::new(&args.filter),
        pane: if args.sites { Pane::Sites } else { Pane::Closed },
    };
    let look = ScreenOptions { zone: jiff::tz::TimeZone::system(), colour: colour() };
    match live::run(start, first, &look, sample).context("the terminal")? {
        End::Quit => {}
        End::Gone => say(&format!("{} ended", args.source)),
        End::Signal(signal) => {
            // As if we had not caught it: who sent it sees that it did its work.
            signal_hook::low_level::emulate_default_handler(signal).context("signal")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn colour() -> Colour {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if no_color { Colour::No } else { Colour::Yes }
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "seconds are wanted, such as 0.5".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if (app::SHORTEST..=app::LONGEST).contains(&time) => Ok(time),
        _ => Err("from 0.1 to 3600 seconds".into()),
    }
}

fn column(name: &str) -> Result<Column, String> {
    Column::named(name).ok_or_else(|| {
        let names: Vec<&str> = columns::names().collect();
        format!(
            "no such field; columns are {}, and each field of `list` may be one",
            names.join(", ")
        )
    })
}
