//! What a replay with limited memory reports: how close memory came to running out. If it ran out,
//! the report is what a kernel prints when it must kill a process (`mm/show_mem.c`,
//! `mm/slab_common.c: dump_unreclaimable_slab`), with one more column: how many of the used objects
//! are parked.
//!
//! Neighbour: [`slabyard_lab::replay::memory`] counts the memory. The report goes to standard
//! error, because standard output has the results up to that moment.

use crate::failure::Failure;
use serde::Serialize;
use slabyard_ask::load::Loaded;
use slabyard_lab::case::Case;
use slabyard_lab::replay::memory::{FailedRequest, Free, MOST_ORDER, MemoryOutcome, MemoryUser};
use slabyard_lab::replay::{Relief, Replayed};
use slabyard_lab::small::buddy::Buddy;
use std::fmt::Write;

/// The exit code of a run that had too little memory.
pub const CODE: u8 = 4;

/// A word for each page of a larger machine would be too much for this one.
const MOST_BYTES: u64 = 64 << 30;

/// What is done when memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pressure {
    /// Nothing, as in every kernel
    None,
    /// Empty slabs on CPUs' and nodes' lists end
    Empties,
    /// CPUs' lists and sheaves are flushed, and empty slabs end
    Full,
}

impl Pressure {
    /// As the lab names it.
    pub fn relief(self) -> Relief {
        match self {
            Pressure::None => Relief::None,
            Pressure::Empties => Relief::Empties,
            Pressure::Full => Relief::Full,
        }
    }
}

/// Refuses what no machine of 32-bit page numbers has, and what is less than a page.
pub fn fits(bytes: u64, page_size: u32) -> Result<(), Failure> {
    if (u64::from(page_size)..=MOST_BYTES).contains(&bytes) {
        return Ok(());
    }
    let page = page_size / 1024;
    let text = format!("--memory: give it a page ({page}K) at least, and 64G at most");
    Err(Failure::Usage(text))
}

/// What became of the memory, and free pages as `/proc/buddyinfo` shows them at three moments.
pub fn moments(told: &MemoryOutcome, case: &Case) -> String {
    let kb = |pages: u64| pages * u64::from(case.page_size) / 1024;
    let counts = &told.counts;
    let mut text = format!(
        "\nmemory {} kB: slabs {} kB at most, {} kB of them that no event touches; {} of a lower \
         order; {} reliefs gave back {} kB, {} objects retried\n",
        told.limit.bytes / 1024,
        kb(counts.most_of_slabs.into()),
        kb(told.untouched),
        counts.fallbacks,
        told.reliefs,
        kb(told.relieved_pages),
        told.retried,
    );
    for (name, free) in [("start", &told.start), ("fewest", &told.fewest), ("end", &told.end)] {
        let since = free.time_ns.saturating_sub(*case.prepared.span.start());
        let _ = writeln!(
            text,
            "{name} at {:.6} s: {} kB free, {} kB kept by CPUs\nNode 0, zone   Normal {}",
            since as f64 / 1e9,
            kb(free.pages.into()),
            kb(free.kept.into()),
            Buddy::line(&free.blocks),
        );
    }
    text
}

/// The same for programs.
#[derive(Serialize)]
pub struct MemoryJson<'a> {
    bytes: u64,
    page_size: u32,
    most_slab_bytes: u64,
    untouched_bytes: u64,
    request_bytes: u64,
    order_fallbacks: u64,
    reliefs: u64,
    relieved_bytes: u64,
    retried: u64,
    start: FreeJson,
    fewest: FreeJson,
    end: FreeJson,
    failed: Option<FailedJson<'a>>,
}

#[derive(Serialize)]
struct FreeJson {
    time_ns: u64,
    free_pages: u32,
    kept_pages: u32,
    free_blocks: [u32; MOST_ORDER as usize + 1],
}

#[derive(Serialize)]
struct FailedJson<'a> {
    step: usize,
    time_ns: u64,
    what: &'static str,
    cache: Option<&'a str>,
    order: u8,
    lacking_bytes: u64,
}

impl<'a> MemoryJson<'a> {
    pub fn of(told: &MemoryOutcome, case: &'a Case) -> MemoryJson<'a> {
        let start = *case.prepared.span.start();
        let bytes = |pages: u64| pages * u64::from(case.page_size);
        let free = |free: &Free| FreeJson {
            time_ns: free.time_ns.saturating_sub(start),
            free_pages: free.pages,
            kept_pages: free.kept,
            free_blocks: free.blocks,
        };
        let failed = told.failed.map(|failed| {
            let (what, cache, lacking) = match failed.what {
                MemoryUser::Start { lacking } => ("start", None, lacking),
                MemoryUser::Slab { cache } => ("slab", Some(case.ids[cache].as_str()), 0),
                MemoryUser::Pages => ("pages", None, 0),
            };
            FailedJson {
                step: failed.step,
                time_ns: failed.time_ns.saturating_sub(start),
                what,
                cache,
                order: failed.order,
                lacking_bytes: bytes(lacking),
            }
        });
        MemoryJson {
            bytes: told.limit.bytes,
            page_size: case.page_size,
            most_slab_bytes: bytes(told.counts.most_of_slabs.into()),
            untouched_bytes: bytes(told.untouched),
            request_bytes: bytes(told.counts.of_requests.into()),
            order_fallbacks: told.counts.fallbacks,
            reliefs: told.reliefs,
            relieved_bytes: bytes(told.relieved_pages),
            retried: told.retried,
            start: free(&told.start),
            fewest: free(&told.fewest),
            end: free(&told.end),
            failed,
        }
    }
}

/// One line of the table.
struct Row {
    name: String,
    reclaimable: bool,
    pages: u64,
    used: u64,
    parked: u64,
    total: u64,
}

/// The report; `None` if memory was enough.
pub fn report(
    told: &MemoryOutcome,
    case: &Case,
    loaded: &Loaded,
    replayed: &Replayed,
) -> Option<String> {
    let failed = told.failed?;
    let rows = rows(case, loaded, replayed);
    let mut text = String::new();
    write(&mut text, told, &failed, case, loaded, &rows).ok()?;
    Some(text)
}

/// The caches, the largest first.
fn rows(case: &Case, loaded: &Loaded, replayed: &Replayed) -> Vec<Row> {
    let all = replayed.after.caches.iter().enumerate();
    let mut rows: Vec<Row> = all
        .map(|(nth, moment)| {
            let [slabs, small] = [moment.places.slabs, moment.places.small].map(u64::from);
            let size = u64::from(case.sizes[nth]);
            // As /proc/slabinfo counts: free are those on nodes' lists alone.
            let total = moment.places.objects;
            let used = total.saturating_sub(moment.free.node_partial);
            Row {
                name: case.ids[nth].clone(),
                reclaimable: loaded.snapshot.caches[nth].reclaim_account == Some(true),
                pages: ((slabs - small) << case.orders[nth]) + (small << case.least[nth].0),
                used: used * size,
                parked: moment.free.parked().min(used) * size,
                total: total * size,
            }
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total));
    rows
}

fn write(
    text: &mut String,
    told: &MemoryOutcome,
    failed: &FailedRequest,
    case: &Case,
    loaded: &Loaded,
    rows: &[Row],
) -> std::fmt::Result {
    let page_kb = u64::from(case.page_size) / 1024;
    write_cause(text, told, failed, case, page_kb)?;
    write_pages(text, told, loaded, rows, page_kb)?;
    write_slabs(text, rows)
}

/// Which request found no memory.
fn write_cause(
    text: &mut String,
    told: &MemoryOutcome,
    failed: &FailedRequest,
    case: &Case,
    page_kb: u64,
) -> std::fmt::Result {
    let at = failed.time_ns.saturating_sub(*case.prepared.span.start()) as f64 / 1e9;
    let (order, step) = (failed.order, failed.step);
    match failed.what {
        MemoryUser::Start { lacking } => writeln!(
            text,
            "what was there before the trace began does not fit: --memory {}K has room for it, and \
             for nothing else",
            (u64::from(told.pages) + lacking) * page_kb,
        )?,
        MemoryUser::Slab { cache } => writeln!(
            text,
            "slab allocation failure: order:{order}, cache={}, default order:{}, at {at:.6} s \
             (step {step})",
            case.ids[cache], case.orders[cache],
        )?,
        MemoryUser::Pages => {
            writeln!(text, "page allocation failure: order:{order}, at {at:.6} s (step {step})")?;
        }
    }
    Ok(())
}

/// What became of the pages.
fn write_pages(
    text: &mut String,
    told: &MemoryOutcome,
    loaded: &Loaded,
    rows: &[Row],
    page_kb: u64,
) -> std::fmt::Result {
    let pages = |reclaimable| -> u64 {
        rows.iter().filter(|row| row.reclaimable == reclaimable).map(|row| row.pages).sum()
    };
    writeln!(text, "Mem-Info:")?;
    writeln!(text, " slab_reclaimable:{} slab_unreclaimable:{}", pages(true), pages(false))?;
    writeln!(
        text,
        " free:{} free_pcp:{} waiting_for_rcu:{} slab_untouched:{} others:{} of {} pages of \
         {page_kb}kB on {} CPUs",
        told.end.pages,
        told.end.kept,
        told.waiting_pages,
        told.untouched,
        told.counts.of_requests,
        told.pages,
        loaded.settings.machine.online_cpus,
    )?;
    write!(text, "Node 0 Normal:")?;
    for (order, n) in told.end.blocks.iter().enumerate() {
        write!(text, " {n}*{}kB", page_kb << order)?;
    }
    writeln!(text, " = {}kB", u64::from(told.end.pages) * page_kb)
}

/// The caches that no shrinker of a kernel makes smaller, and how much of them is parked.
fn write_slabs(text: &mut String, rows: &[Row]) -> std::fmt::Result {
    let kb = |bytes: u64| format!("{}KB", bytes / 1024);
    writeln!(text, "Unreclaimable slab info:")?;
    writeln!(text, "Name                      Used          Total    of Used parked")?;
    for row in rows.iter().filter(|row| !row.reclaimable && row.total > 0) {
        let [used, total, parked] = [row.used, row.total, row.parked].map(kb);
        writeln!(text, "{:<17} {used:>12} {total:>14} {parked:>17}", row.name)?;
    }
    let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
    let (used, parked, total) = (sum(|r| r.used), sum(|r| r.parked), sum(|r| r.total));
    writeln!(
        text,
        "Out of memory: of {} in slabs {} count as used, {} of that are free and parked",
        kb(total),
        kb(used),
        kb(parked)
    )
}
