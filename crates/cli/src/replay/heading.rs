//! The first line of every report of a replay: the trace, the rules and the machine.

use super::args::ReplayArgs;
use crate::machine::Engine;
use crate::terminal::seconds;
use slabyard_ask::load::Loaded;
use slabyard_lab::replay::Start;
use slabyard_lab::rules::Machine;
use slabyard_lab::trace::{LISTS, LOAD};
use slabyard_observe::value::plural;

/// What was replayed, on what.
pub(super) fn heading(args: &ReplayArgs, loaded: &Loaded, start: Start) -> String {
    let (trace, settings) = (&loaded.trace, &loaded.settings);
    let machine = &settings.machine;
    let (first, last) = trace.span().into_inner();
    let is_load = trace.attachment(LOAD).is_some();
    let (made_over, made_on) = if is_load { ("a load of", "for") } else { ("recorded over", "on") };
    format!(
        "{} events, {made_over} {} {made_on} kernel {}; rules of {}, {}{}, {}, pages of {} KiB, start {}\n",
        trace.nr_events(),
        seconds(last - first),
        loaded.snapshot.kernel.as_deref().unwrap_or("unknown"),
        match args.rules.engine {
            Engine::Slub => settings.rules_name(),
            Engine::Tiny => format!("{}, SLUB_TINY", settings.rules_name()),
            Engine::Slab => "SLAB".into(),
            Engine::Slob => "SLOB".into(),
        },
        plural(machine.online_cpus.into(), "CPU"),
        if args.tasks > 1 { format!(", each task {} times", args.tasks) } else { String::new() },
        nodes(machine),
        machine.page_size >> 10,
        start_name(start, loaded),
    )
}

fn nodes(machine: &Machine) -> String {
    let nodes = plural(machine.nodes.into(), "node");
    if machine.memoryless.is_empty() {
        return nodes;
    }
    format!("{nodes} ({} without memory)", machine.memoryless)
}

/// The start of a replay, as JSON and headings name it.
pub(super) fn start_name(start: Start, loaded: &Loaded) -> &'static str {
    match start {
        Start::LookAhead if loaded.trace.attachment(LISTS).is_some() => "lists",
        Start::LookAhead => "look-ahead",
        Start::Snapshot => "snapshot",
        Start::Empty => "empty",
    }
}
