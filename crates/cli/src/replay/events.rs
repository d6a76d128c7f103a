//! Parses the options for events of the machine during a replay: `--offline 3@2.5`, `--online 3@4`,
//! `--shrink 3`.
//!
//! Neighbours: [`super::args`] defines the options; `slabyard-lab` checks and applies the events.

use crate::failure::Failure;
use crate::terminal::seconds;
use slabyard_ask::load::Loaded;
use slabyard_lab::replay::events::{Event, MachineEvent};

/// Parses `--offline`: `CPU@SECONDS`.
pub fn offline(text: &str) -> Result<Event, String> {
    of_cpu(text, MachineEvent::Offline)
}

/// Parses `--online`, likewise.
pub fn online(text: &str) -> Result<Event, String> {
    of_cpu(text, MachineEvent::Online)
}

/// Parses `--shrink`: seconds.
pub fn shrink(text: &str) -> Result<Event, String> {
    let at_ns = time(text).ok_or("expected seconds since the trace began, such as 2.5")?;
    Ok(Event { at_ns, what: MachineEvent::Shrink })
}

fn of_cpu(text: &str, what: fn(u16) -> MachineEvent) -> Result<Event, String> {
    let event = text
        .split_once('@')
        .and_then(|(cpu, at)| Some(Event { at_ns: time(at)?, what: what(cpu.parse().ok()?) }));
    event.ok_or_else(|| "expected a CPU and seconds since the trace began, such as 3@2.5".into())
}

fn time(text: &str) -> Option<u64> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    seconds.map(|seconds| (seconds * 1e9) as u64)
}

/// The events, if none is after the end of the trace.
pub fn within(events: impl Iterator<Item = Event>, loaded: &Loaded) -> Result<Vec<Event>, Failure> {
    let all: Vec<Event> = events.collect();
    let (first, last) = loaded.trace.span().into_inner();
    match all.iter().find(|event| event.at_ns > last - first) {
        None => Ok(all),
        Some(event) => Err(Failure::Usage(format!(
            "{} is after the end of the trace, which is {} long",
            seconds(event.at_ns),
            seconds(last - first)
        ))),
    }
}
