//! Runs a kernel's events as the load, and prints the kernel's own numbers at the same moments
//! beside ours.
//!
//! Neighbour: [`super::served`] computes the outcomes. Invariant: moments in the kernel's log and
//! in the load are matched by their order.

use super::served::ServedLoads;
use crate::failure::Failure;
use anyhow::{Context, anyhow};
use slabyard_lab::geometry::kmalloc_sizes;
use slabyard_lab::slob::Machine;
use slabyard_lab::small::buddy::Buddy;
use slabyard_lab::small::load::AllocType;
use slabyard_lab::small::state::{self, KernelReport, State};
use slabyard_lab::small::{Load, MachineSample, text};
use slabyard_lab::trace;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::BufReader;
use std::path::Path;

/// A load, and what its kernel told beside its events.
pub(super) struct Source {
    pub load: Load,
    pub told: KernelReport,
}

pub(super) fn load(
    file: &Path,
    before: Option<&Path>,
    state: Option<&Path>,
    save: Option<&Path>,
) -> Result<Source, Failure> {
    let name = file.display();
    let is_ours = ["slabtrace", "csv", "zst"]
        .iter()
        .any(|end| file.extension().is_some_and(|extension| extension == *end));
    let (trace, mut moments) = if is_ours {
        let trace = trace::open(file).map_err(anyhow::Error::from);
        let trace = trace.context("cannot read the trace")?;
        let moments = text::moments(&trace);
        (trace, moments)
    } else {
        let open = fs::File::open(file).with_context(|| format!("{name}"));
        let read = text::read(BufReader::new(open.context("cannot read the trace")?));
        let read = read.with_context(|| format!("{name}")).context("cannot read the trace")?;
        (read.trace, read.marks)
    };
    if trace.events.is_empty() {
        return Err(anyhow!("{name} holds no kmem event of a kernel").into());
    }
    if let Some(save) = save {
        trace.save(save).map_err(anyhow::Error::from).context("cannot save the trace")?;
    }
    if moments.is_empty() {
        moments.push((u64::MAX, "end".into()));
    }
    // The probe's text has both.
    let told = match state.or(Some(file).filter(|_| !is_ours)) {
        Some(state) => {
            let told = state::open(state).with_context(|| format!("{}", state.display()));
            told.context("cannot read what the kernel told")?
        }
        None => KernelReport::default(),
    };
    let mut load = Load::of_kernel(&trace, &moments, &told, Machine::X86_64).load;
    if let Some(before) = before {
        let text = fs::read_to_string(before).with_context(|| format!("{}", before.display()))?;
        load.begin_with_live(&text);
    }
    Ok(Source { load, told })
}

/// What is live of each cache at the first moment: lines `NAME OBJECT_SIZE COUNT`, size classes as
/// SLUB names them.
pub(super) fn live_text(load: &Load) -> String {
    let mut counts: BTreeMap<(String, u32), u32> = BTreeMap::new();
    for (of, count) in load.live_at(0) {
        let (kind, bytes) = match of {
            AllocType::Cache(number) => {
                let cache = &load.caches[number as usize];
                *counts.entry((cache.name.clone(), cache.object_size)).or_default() += count;
                continue;
            }
            AllocType::Kmalloc(bytes) => ("kmalloc", bytes),
            AllocType::KmallocReclaimable(bytes) => ("kmalloc-rcl", bytes),
        };
        let class = kmalloc_sizes(4096).into_iter().find(|class| *class >= bytes);
        let Some(class) = class else { continue };
        let short = if class < 1024 { class.to_string() } else { format!("{}k", class >> 10) };
        *counts.entry((format!("{kind}-{short}"), class)).or_default() += count;
    }
    let line = |((name, size), count)| format!("{name} {size} {count}\n");
    counts.into_iter().map(line).collect()
}

/// What a kernel's `/proc` had at a moment.
struct ProcSample {
    moment: String,
    slab_kb: u32,
    free_kb: u32,
    buddy: String,
}

fn logged(log: &str) -> Vec<ProcSample> {
    let mut all: Vec<ProcSample> = Vec::new();
    for line in log.lines() {
        if let Some(moment) = line.strip_prefix("=== ") {
            let moment = moment.trim_start_matches("STATE ").to_owned();
            if !moment.starts_with("end") && !moment.starts_with("END") {
                all.push(ProcSample { moment, slab_kb: 0, free_kb: 0, buddy: String::new() });
            }
        }
        let Some(last) = all.last_mut() else { continue };
        let kb = |rest: &str| rest.trim().trim_end_matches(" kB").parse().unwrap_or(0);
        if let Some(rest) = line.strip_prefix("Slab:") {
            last.slab_kb = kb(rest);
        } else if let Some(rest) = line.strip_prefix("MemFree:") {
            last.free_kb = kb(rest);
        } else if line.starts_with("Node 0, zone") && last.buddy.is_empty() {
            last.buddy = line.split_whitespace().skip(4).collect::<Vec<_>>().join(" ");
        }
    }
    all
}

pub(super) fn beside(log: &Path, all: &[ServedLoads]) -> Result<String, Failure> {
    let text = fs::read_to_string(log).with_context(|| format!("{}", log.display()))?;
    let told = logged(&text);
    if told.is_empty() {
        return Err(anyhow!("{} tells of no moment", log.display()).into());
    }
    let mut out = String::from(
        "\nbeside the kernel: slab pages, theirs and ours, and the difference; free pages likewise\n",
    );
    for served in all {
        let Some(outcome) = served.outcomes.first() else { continue };
        for (look, kernel) in outcome.looks.iter().zip(&told) {
            let (slab, free) = (kernel.slab_kb / 4, kernel.free_kb / 4);
            let off = |ours: u32, theirs: u32| i64::from(ours) - i64::from(theirs);
            let _ = writeln!(
                out,
                "  {:24} {:10} slab {slab:>5} {:>5} {:>+4} ({:+.1} %)  free {free:>6} {:>6} {:>+5}",
                served.contender.name(),
                kernel.moment,
                look.slab_pages(),
                off(look.slab_pages(), slab),
                100.0 * off(look.slab_pages(), slab) as f64 / f64::from(slab.max(1)),
                look.free_pages,
                off(look.free_pages, free),
            );
            let ours = Buddy::line(&look.free_blocks);
            let ours: Vec<&str> = ours.split_whitespace().collect();
            let _ = writeln!(
                out,
                "  {:35} theirs {}\n  {:35} ours   {}",
                "",
                kernel.buddy,
                "",
                ours.join(" ")
            );
        }
    }
    Ok(out)
}

/// Beside what the kernel told of itself at each moment but the first, the begin.
pub(super) fn beside_states(told: &KernelReport, all: &[ServedLoads], show_caches: bool) -> String {
    let mut out = String::from(
        "\nbeside the kernel: pages of slabs, theirs and ours; free ones; those kept on the CPU; free blocks by order\n",
    );
    for served in all {
        let Some(outcome) = served.outcomes.first() else { continue };
        for (look, state) in outcome.looks.iter().zip(told.states.iter().skip(1)) {
            let off = |ours: u32, theirs: u32| i64::from(ours) - i64::from(theirs);
            let pair = |ours, theirs| format!("{theirs:>5} {ours:>5} {:>+4}", off(ours, theirs));
            let _ = writeln!(
                out,
                "  {:24} {:10} slabs {}  free {}  kept {}",
                served.contender.name(),
                state.moment.to_lowercase(),
                pair(look.slab_pages(), state.slab),
                pair(look.free_pages, state.free),
                pair(look.kept, state.kept),
            );
            for (whose, counts) in [("theirs", state.counts()), ("ours", look.free_blocks)] {
                let _ = writeln!(out, "  {:35} {whose:6} {}", "", Buddy::line(&counts));
            }
            if show_caches {
                caches_beside(&mut out, look, state);
            }
        }
    }
    out
}

/// Caches that do not have as many slabs of as many pages.
fn caches_beside(out: &mut String, look: &MachineSample, state: &State) {
    let mut pages: BTreeMap<&str, [u32; 2]> = BTreeMap::new();
    for slab in &state.slabs {
        pages.entry(&slab.name).or_default()[0] += 1 << slab.block.1;
    }
    for (name, order, count) in &look.slabs {
        pages.entry(name).or_default()[1] += count << order;
    }
    for (name, [theirs, ours]) in pages.iter().filter(|(_, [theirs, ours])| theirs != ours) {
        let _ = writeln!(out, "    {name:28} {theirs:>4} {ours:>4}");
    }
}
