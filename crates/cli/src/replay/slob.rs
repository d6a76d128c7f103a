//! `slabyard replay --engine slob`: computes the pages that SLOB would need for a trace's
//! allocations.
//!
//! Neighbour: [`slabyard_lab::slob::load`] runs them on the model. Invariant: objects allocated
//! before the trace are not counted, because no snapshot of another allocator says how SLOB would
//! have packed them.

use super::args::ReplayArgs;
use super::json::Source;
use crate::failure::Failure;
use crate::stderr::say;
use crate::stdout;
use crate::terminal::{Colour, Grid, Progress, bytes, count, percent, seconds};
use anyhow::Context;
use serde::Serialize;
use slabyard_ask::Listener as _;
use slabyard_ask::load::{self as trace_load, Loaded};
use slabyard_lab::event::Event;
use slabyard_lab::slob::load::{self, Kernel, Load, Object, PageUse};
use slabyard_observe::value::plural;
use std::process::ExitCode;

/// Pages of the modelled machine: 4 GiB of 4 KiB each.
const MOST_PAGES: u32 = 1 << 20;
/// What `kmalloc` aligns to at least, where caches do not say more.
const LEAST_ALIGN: u32 = 8;

pub(super) fn run(args: &ReplayArgs, progress: &Progress) -> Result<ExitCode, Failure> {
    refuse(args)?;
    let mut loaded = trace_load::load(&args.trace.file(), &args.wanted(), progress)?;
    let page = loaded.settings.machine.page_size;
    progress.stage("replaying");
    let kernel = Kernel::new(page, LEAST_ALIGN, MOST_PAGES);
    let every = args.sample_every(loaded.trace.nr_events() as usize)?;
    // Its passes are over events in memory.
    let trace = loaded.trace.take_whole().context("cannot read the trace")?;
    let load = load::run(&trace, &kernel, objects(&loaded), every).context("the replay failed")?;
    progress.clear();
    if load.again > 0 {
        say(&format!("{} frees are missing", load.again));
    }
    let doubtful = trace_load::are_missing(&loaded.trace) && !args.trace.partial;
    let text = if args.json { json(args, &loaded, &load)? } else { table(&loaded, &load) };
    stdout::print(text.as_bytes())?;
    Ok(ExitCode::from(u8::from(doubtful)))
}

/// What asks for something that SLOB does not have.
fn refuse(args: &ReplayArgs) -> Result<(), Failure> {
    let asked = [
        (args.check, "--check"),
        (args.save.is_some(), "--save"),
        (args.counters, "--counters"),
        (args.html.is_asked(), "--html"),
        (args.all, "--all"),
        (args.no_look_ahead, "--no-look-ahead"),
        (args.rules.release.is_some(), "--release"),
        (!args.rules.set.is_empty(), "--set"),
        (args.nodes.is_some(), "--nodes"),
        (args.memoryless.is_some(), "--memoryless"),
        (args.rules.machine.cpus.is_some(), "--cpus"),
        (args.rules.machine.possible_cpus.is_some(), "--possible-cpus"),
        (args.tasks > 1, "--tasks"),
        (!args.offline.is_empty(), "--offline"),
        (!args.online.is_empty(), "--online"),
        (!args.shrink.is_empty(), "--shrink"),
    ];
    if args.memory.is_some() {
        let text = "--memory is not for --engine slob: it starts from nothing, so that what was there \
                    before the trace would have no pages; `slabyard small --events` serves a whole boot";
        return Err(Failure::Usage(text.into()));
    }
    match asked.iter().find(|(is_asked, _)| *is_asked) {
        None => Ok(()),
        Some((_, what)) => Err(Failure::Usage(format!(
            "{what} is not for --engine slob: it has no caches, no tunables and no part for a \
             node or CPU, and starts from nothing"
        ))),
    }
}

/// What a cache's objects are, by the snapshot; by the trace where it does not know the cache.
fn objects(loaded: &Loaded) -> impl Fn(&Event) -> Object {
    let of = |name: &str| {
        let cache = loaded.snapshot.cache(name)?;
        let bytes = cache.object_size.unwrap_or(cache.slab_size);
        Some(Object { bytes, align: cache.align.unwrap_or(LEAST_ALIGN) })
    };
    let names: Vec<Option<Object>> = loaded.trace.names.iter().map(|(_, name)| of(name)).collect();
    move |event| {
        let known = names.get(event.name as usize).copied().flatten();
        known.unwrap_or(Object { bytes: event.allocated, align: LEAST_ALIGN })
    }
}

fn table(loaded: &Loaded, load: &Load) -> String {
    let page = u64::from(loaded.settings.machine.page_size);
    let (first, last) = loaded.trace.span().into_inner();
    let mut text = format!(
        "{} events, recorded over {} on kernel {}; rules of SLOB, {}, pages of {} KiB, start empty\n\
         {} objects allocated, {} freed; {} frees of objects from before left out\n\n",
        loaded.trace.nr_events(),
        seconds(last - first),
        loaded.snapshot.kernel.as_deref().unwrap_or("unknown"),
        plural(loaded.settings.machine.online_cpus.into(), "CPU"),
        page >> 10,
        load.allocated,
        load.freed,
        load.left_out,
    );
    let mut grid = Grid::new(&["moment", "time", "pages", "memory", "objects", "live", "waste"]);
    let moments = load.series.iter().map(|moment| ("", moment));
    for (name, moment) in moments.chain([("peak", &load.peak), ("end", &load.end)]) {
        let held = u64::from(moment.pages) * page;
        let waste = (held > 0).then(|| 1.0 - moment.live as f64 / held as f64);
        grid.push(vec![
            name.into(),
            seconds(moment.time),
            moment.pages.to_string(),
            bytes(Some(held)),
            count(Some(moment.objects)),
            bytes(Some(moment.live)),
            percent(waste),
        ]);
    }
    grid.write(&mut text, Colour::of_stdout());
    text + &format!("\nfree in partly free pages at the end: {}\n", bytes(Some(load.free_at_end)))
}

#[derive(Serialize)]
struct SlobMomentJson {
    time_ns: u64,
    pages: u32,
    bytes: u64,
    objects: u64,
    live: u64,
}

#[derive(Serialize)]
struct Json {
    source: Source,
    engine: &'static str,
    page_size: u64,
    allocated: u64,
    freed: u64,
    frees_left_out: u64,
    frees_missing: u64,
    peak: SlobMomentJson,
    end: SlobMomentJson,
    free_partial: u64,
    series: Vec<SlobMomentJson>,
}

fn json(args: &ReplayArgs, loaded: &Loaded, load: &Load) -> Result<String, Failure> {
    let page_size = u64::from(loaded.settings.machine.page_size);
    let moment = |moment: &PageUse| SlobMomentJson {
        time_ns: moment.time,
        pages: moment.pages,
        bytes: u64::from(moment.pages) * page_size,
        objects: moment.objects,
        live: moment.live,
    };
    let value = Json {
        source: Source::of(args, loaded),
        engine: args.rules.engine.name(),
        page_size,
        allocated: load.allocated,
        freed: load.freed,
        frees_left_out: load.left_out,
        frees_missing: load.again,
        peak: moment(&load.peak),
        end: moment(&load.end),
        free_partial: load.free_at_end,
        series: load.series.iter().map(moment).collect(),
    };
    Ok(serde_json::to_string_pretty(&value).context("JSON")? + "\n")
}
