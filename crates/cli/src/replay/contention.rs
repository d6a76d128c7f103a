//! `slabyard replay FILE --contention`: replays with CPUs whose calls overlap in time, and prints a
//! row for each number of CPUs.
//!
//! Neighbours: [`slabyard_lab::replay::contend`] runs the replay; this module sets up the machines,
//! and prints how often atomic exchanges failed and calls waited. Invariants: all rows use the same
//! trace and start; the rows of one number of CPUs differ only in eager or delayed slab freezing.

use super::args::ReplayArgs;
use super::heading::heading;
use super::json::{SettingsJson, Source, pretty};
use crate::failure::Failure;
use crate::stdout;
use crate::terminal::{Colour, Grid, Progress};
use anyhow::Context as _;
use serde::Serialize;
use slabyard_ask::Listener as _;
use slabyard_ask::load::Loaded;
use slabyard_ask::{costs, prepare};
use slabyard_lab::counters::Counter;
use slabyard_lab::replay::Plan;
use slabyard_lab::replay::contend::{COSTS, Contended, contend};
use slabyard_lab::rules::{Freezing, Front, Settings};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

/// The counts of a machine with so many CPUs.
#[derive(Serialize)]
struct Row {
    cpus: u32,
    tasks: u32,
    /// `null` without CPU slabs.
    freezing: Option<&'static str>,
    slabs: u64,
    span_ns: u64,
    exchanges: u64,
    exchanges_under_list_lock: u64,
    failed: u64,
    failed_under_list_lock: u64,
    breaks: u64,
    list_locks: u64,
    waited: u64,
    wait_ns: u64,
    longest_wait_ns: u64,
    held_ns: u64,
    passed_over: u64,
    barn_locks: u64,
    barn_waited: u64,
    barn_wait_ns: u64,
    calls: u64,
    call_ns: u64,
    latest_ns: u64,
}

impl Row {
    fn of(cpus: u32, tasks: u32, freezing: Option<Freezing>, done: &Contended) -> Row {
        let counts = &done.counts;
        Row {
            cpus,
            tasks,
            freezing: freezing.map(Freezing::name),
            slabs: done.slabs,
            span_ns: done.span_ns,
            exchanges: counts.exchanges,
            exchanges_under_list_lock: done.counters.get(Counter::CmpxchgUnderLock),
            failed: counts.failed,
            failed_under_list_lock: counts.failed_under_lock,
            breaks: counts.breaks,
            list_locks: counts.locks,
            waited: counts.waited,
            wait_ns: counts.wait_ns,
            longest_wait_ns: counts.longest_wait_ns,
            held_ns: counts.held_ns,
            passed_over: counts.passed_over,
            barn_locks: counts.barn_locks,
            barn_waited: counts.barn_waited,
            barn_wait_ns: counts.barn_wait_ns,
            calls: counts.calls,
            call_ns: counts.call_ns,
            latest_ns: done.latest_ns,
        }
    }
}

#[derive(Serialize)]
struct Json {
    source: Source,
    settings: SettingsJson,
    /// Nanoseconds of each operation.
    costs: BTreeMap<&'static str, u32>,
    rows: Vec<Row>,
}

pub fn run(
    args: &ReplayArgs,
    cpus: &[u32],
    loaded: &Loaded,
    progress: &Progress,
) -> Result<ExitCode, Failure> {
    let start = args.start_state();
    let order = slabyard_lab::case::order_of(&loaded.snapshot);
    let mut case = prepare::case(args.rules.engine.of_kernels(), loaded, order, progress)?;
    let own = [loaded.settings.machine.online_cpus];
    let lengths = costs::typed(COSTS, &args.costs)?;
    let mut rows = Vec::new();
    for cpus in if cpus.is_empty() { &own } else { cpus } {
        // As many tasks for each CPU as the traced machine had.
        let tasks = args.tasks * (cpus / case_cpus(loaded)).max(1);
        prepare::fits(&case, tasks)?;
        for freezing in freezings(&loaded.settings) {
            progress.stage(&format!("replaying on {cpus} CPUs"));
            let mut settings = loaded.settings.clone();
            let machine = &mut settings.machine;
            (machine.online_cpus, machine.present_cpus, machine.possible_cpus) =
                (*cpus, *cpus, machine.possible_cpus.max(*cpus));
            settings.freezing = freezing.or(settings.freezing);
            settings.validate().map_err(|error| Failure::Usage(error.to_string()))?;
            case.rule(&loaded.trace.header, &loaded.snapshot, &settings)
                .context("no such machine")?;
            let done = contend(&Plan { tasks, ..case.plan(start) }, lengths);
            case.prepared.steps.sound().context("the replay failed")?;
            rows.push(Row::of(*cpus, tasks, freezing, &done));
        }
    }
    progress.clear();
    let text = if args.json {
        let costs = costs::named(lengths);
        let (source, settings) = (Source::of(args, loaded), SettingsJson::of(args, loaded, start));
        pretty(&Json { source, settings, costs, rows })?
    } else {
        heading(args, loaded, start) + "\n" + &table(&rows)
    };
    stdout::print(text.as_bytes())?;
    let doubtful = prepare::doubts(&args.trace.file(), loaded, &case, progress);
    Ok(ExitCode::from(u8::from(doubtful)))
}

fn case_cpus(loaded: &Loaded) -> u32 {
    loaded.traced.online_cpus.max(1)
}

/// The kinds of freezing that are compared: eager and delayed, or the one that was set.
fn freezings(settings: &Settings) -> Vec<Option<Freezing>> {
    if settings.tiny || settings.front() == Front::Sheaves {
        return vec![None];
    }
    match settings.freezing {
        Some(one) => vec![Some(one)],
        None => vec![Some(Freezing::Eager), Some(Freezing::Delayed)],
    }
}

fn table(rows: &[Row]) -> String {
    let heads = [
        "CPUs",
        "tasks",
        "freezing",
        "exchanges",
        "under lock",
        "failed",
        "so under lock",
        "breaks",
        "list locks",
        "waited",
        "waiting ms",
        "longest us",
        "held ms",
        "barn locks",
        "barn waits",
        "barn ms",
        "of calls",
        "ns a call",
        "M calls/s",
    ];
    let mut grid = Grid::new(&heads);
    let ms = |ns: u64| format!("{:.2}", ns as f64 / 1e6);
    for row in rows {
        let waits = row.wait_ns + row.barn_wait_ns;
        grid.push(vec![
            row.cpus.to_string(),
            format!("{}x", row.tasks),
            row.freezing.unwrap_or("-").into(),
            row.exchanges.to_string(),
            row.exchanges_under_list_lock.to_string(),
            row.failed.to_string(),
            row.failed_under_list_lock.to_string(),
            row.breaks.to_string(),
            row.list_locks.to_string(),
            row.waited.to_string(),
            ms(row.wait_ns),
            format!("{:.2}", row.longest_wait_ns as f64 / 1e3),
            ms(row.held_ns),
            row.barn_locks.to_string(),
            row.barn_waited.to_string(),
            ms(row.barn_wait_ns),
            format!("{:.2} %", waits as f64 * 100.0 / row.call_ns.max(1) as f64),
            format!("{:.0}", row.call_ns as f64 / row.calls.max(1) as f64),
            format!("{:.2}", row.calls as f64 * 1e3 / row.span_ns.max(1) as f64),
        ]);
    }
    let mut text = String::new();
    grid.write(&mut text, Colour::of_stdout());
    let _ = writeln!(
        text,
        "\nexchanges: of slabs' words, under lock those that held a list lock; failed because another \
         CPU's was\nunder way. breaks: times that an exchange which is not tried again made the slow \
         path leave a node's list.\nwaiting: for list locks; barn locks: taken to exchange a sheaf; of \
         calls: the share of both waits in the\ntime that all calls took."
    );
    let late = rows.iter().filter(|row| row.latest_ns > row.span_ns / 100);
    for row in late {
        let _ = writeln!(
            text,
            "{} CPUs, {}: calls began up to {} ms late, because their CPU was in another one: the \
             load is more than these CPUs can do",
            row.cpus,
            row.freezing.unwrap_or("no CPU slabs"),
            ms(row.latest_ns),
        );
    }
    text
}
