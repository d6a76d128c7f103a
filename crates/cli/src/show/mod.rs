//! `slabyard show`: prints one cache with everything known about it.
//!
//! Neighbour: [`of_kernel`] reads what a kernel's files do not tell.

mod of_kernel;

use crate::failure::Failure;
use crate::{look, stdout};
use anyhow::{Context, anyhow};
use clap::ValueHint;
use slabyard_observe::source::{self, ReadScope, SourceName};
use slabyard_observe::view::Style;
use slabyard_observe::view::pick::CacheFilter;
use slabyard_observe::view::show::fullness::SlabLines;
use slabyard_observe::view::show::{self, counts, cpu_partial, sheaves, traces};
use slabyard_observe::{Cache, Snapshot};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard show kernel dentry
  slabyard show kernel 'kmalloc-*'              one after the other
  slabyard show $(pgrep -n python3) malloc-64   with how full its slabs are
  slabyard show $(pgrep -n python3) malloc-64 --slabs     and each slab on its partial lists
  slabyard show core.4711 malloc-64 --json
  slabyard show $(pgrep -n python3) --cpu-partial         each CPU's partial list, of all caches
  slabyard show $(pgrep -n python3) malloc-64 --counts    slow paths, exchanges, locks, drains
  slabyard show $(pgrep -n python3) --counts              the same of all caches together
  slabyard show $(pgrep -n python3) malloc-64 --traces    who allocated its live objects

  slabyard show kernel dentry --cpu-partial               the same of a kernel to 6.19 (root, bpf(2))
  slabyard show kernel filp --sheaves                     CPUs' sheaves and nodes' barns, from 6.18

Traces are those of a program that keeps them, or of a kernel that was started with slab_debug=U:
  slabyard run --slab-debug=U,malloc-64 -- PROGRAM

CPU partial lists are those of a kernel, of a replay (`slabyard replay --save`), or of a process with
CPU slabs:
  slabyard run --engine slub --set front=cpu-slabs --set release=5.9 --set count=1 -- PROGRAM";

/// `slabyard show`.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", look::CODES))]
pub struct ShowArgs {
    /// Where to look: `kernel`, a process, or a file
    #[arg(value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    source: SourceName,
    /// The cache, by any of its names; or a pattern, for each that it takes
    #[arg(value_name = "CACHE", required_unless_present_any = ["cpu_partial", "sheaves", "counts"])]
    cache: Option<String>,
    /// Only the slabs on each CPU's partial list, from its head [without CACHE: of all caches]
    #[arg(long)]
    cpu_partial: bool,
    /// Only the objects in each CPU's sheaves and each node's barn, by slab, and the slabs that have no
    /// others in use (a kernel) [without CACHE: of all caches]
    #[arg(long, conflicts_with_all = ["cpu_partial", "counts", "traces"])]
    sheaves: bool,
    /// Only what was counted, by CPU [without CACHE: of all caches together]
    #[arg(long, conflicts_with = "cpu_partial")]
    counts: bool,
    /// Only the sites that allocated its live objects, with stacks, and the slabs that each keeps
    #[arg(long, conflicts_with_all = ["cpu_partial", "counts"], requires = "cache")]
    traces: bool,
    /// Each slab that is not full as well, a line for each, at the end (a process or a core)
    #[arg(long, conflicts_with_all = ["cpu_partial", "sheaves", "counts", "traces"])]
    slabs: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

/// Prints one cache, or those of a pattern, in the form that is asked for.
pub fn run(args: &ShowArgs) -> Result<ExitCode, Failure> {
    // A kernel would say that it cannot.
    let slabs = args.source != SourceName::Kernel;
    let mut snapshot = look::sample(&args.source, ReadScope { all: true, slabs })?;
    let style = look::style(&std::io::stdout());
    let mut page = Vec::new();
    if args.cpu_partial {
        if args.source == SourceName::Kernel {
            args.read_cpu_partial(&mut snapshot)?;
        }
        args.cpu_partial(&mut page, &snapshot, style)?;
        return stdout::print(&page);
    }
    if args.sheaves {
        args.sheaves(&mut page, &snapshot, style)?;
        return stdout::print(&page);
    }
    let all;
    let caches = match &args.cache {
        Some(name) => args.caches(&snapshot, name)?,
        None => {
            all = args.all_counts(&snapshot)?;
            vec![&all]
        }
    };
    if args.traces {
        args.traces(&mut page, &snapshot, &caches, style)?;
        return stdout::print(&page);
    }
    for (nth, cache) in caches.into_iter().enumerate() {
        if args.json {
            show::write_json(&mut page, &snapshot, cache)
        } else {
            let apart: &[u8] = if nth == 0 { b"" } else { b"\n" };
            page.extend_from_slice(apart);
            match args.counts {
                true => show::write_counts(&mut page, &snapshot, cache, style),
                false => show::write(&mut page, &snapshot, cache, args.each(), style),
            }
        }
        .context("the cache")?;
    }
    stdout::print(&page)
}

impl ShowArgs {
    fn each(&self) -> SlabLines {
        if self.slabs { SlabLines::Each } else { SlabLines::Counted }
    }

    /// The cache with this very name, else those that it takes as a pattern.
    fn caches<'a>(&self, snapshot: &'a Snapshot, name: &str) -> Result<Vec<&'a Cache>, Failure> {
        let is_pattern = name.contains(['*', '?', '[']);
        if !is_pattern || snapshot.cache(name).is_some() {
            return Ok(vec![look::cache(snapshot, &self.source, name)?]);
        }
        let patterns = vec![look::pattern(name).map_err(Failure::Usage)?];
        let pick = CacheFilter { patterns, ..CacheFilter::default() };
        let picked = pick.caches(snapshot).caches;
        look::has_match(!picked.is_empty(), &self.source, &pick.patterns)?;
        Ok(picked)
    }

    /// Writes who allocated the objects of those caches that keep it; fails if none does.
    fn traces(
        &self,
        page: &mut Vec<u8>,
        snapshot: &Snapshot,
        caches: &[&Cache],
        style: Style,
    ) -> Result<(), Failure> {
        for cache in caches {
            let told = source::traces(&self.source, &cache.name).map_err(anyhow::Error::from)?;
            let Some(told) = told else { continue };
            if self.json {
                traces::write_json(page, snapshot, &told)
            } else {
                let apart: &[u8] = if page.is_empty() { b"" } else { b"\n" };
                page.extend_from_slice(apart);
                traces::write(page, &told, style)
            }
            .context("the traces")?;
        }
        if !page.is_empty() {
            return Ok(());
        }
        let why = match &self.source {
            SourceName::Kernel => {
                "a kernel tells them in /sys/kernel/debug/slab/CACHE/alloc_traces, if it was \
                 started with slab_debug=U and debugfs is mounted (root)"
            }
            SourceName::Process(_) => {
                "no such cache keeps tracks; `slabyard run --slab-debug=U,CACHE -- PROGRAM` starts \
                 a program of which one does"
            }
            _ => {
                "no such cache keeps tracks here; a process that does tells them while it runs, and \
                 its core file, but no saved snapshot"
            }
        };
        Err(anyhow!("{}: {why}", self.source).into())
    }

    /// What all caches counted together.
    fn all_counts(&self, snapshot: &Snapshot) -> Result<Cache, Failure> {
        let nothing = || {
            anyhow!(
                "{}: no slow path is counted; `slabyard run --set count=1 -- PROGRAM` starts a \
                 program that counts them, and a kernel needs CONFIG_SLUB_STATS",
                self.source
            )
        };
        Ok(counts::sum(snapshot).ok_or_else(nothing)?)
    }

    fn caches_or_all<'a>(&self, snapshot: &'a Snapshot) -> Result<Vec<&'a Cache>, Failure> {
        match &self.cache {
            Some(name) => self.caches(snapshot, name),
            None => Ok(snapshot.caches.iter().collect()),
        }
    }

    /// Completes a kernel's caches by the slabs on CPUs' lists.
    fn read_cpu_partial(&self, snapshot: &mut Snapshot) -> Result<(), Failure> {
        let caches = self.caches_or_all(snapshot)?;
        let lists = of_kernel::read(snapshot, &caches, of_kernel::Wanted::CpuPartial)?;
        for cache in &mut snapshot.caches {
            let order = cache.exact("order").and_then(|order| u32::try_from(order).ok());
            cache.slabs = of_kernel::of(&lists, cache)
                .zip(order)
                .map(|(lists, order)| of_kernel::cpu_partial(lists, order));
        }
        Ok(())
    }

    /// Writes what is in a kernel's sheaves.
    fn sheaves(
        &self,
        page: &mut Vec<u8>,
        snapshot: &Snapshot,
        style: Style,
    ) -> Result<(), Failure> {
        if self.source != SourceName::Kernel {
            let why = "sheaves are shown slab by slab of the running kernel alone";
            return Err(anyhow!("{}: {why}; `slabyard show` tells their sums", self.source).into());
        }
        let caches = self.caches_or_all(snapshot)?;
        let lists = of_kernel::read(snapshot, &caches, of_kernel::Wanted::Sheaves)?;
        let held = caches.into_iter().filter_map(|cache| {
            let lists = of_kernel::of(&lists, cache).filter(|lists| !lists.sheaves.is_empty())?;
            Some((cache, of_kernel::sheaves(snapshot, cache, lists)?))
        });
        let held: Vec<_> = held.collect();
        if held.is_empty() {
            return Err(anyhow!("{}: no such cache has sheaves", self.source).into());
        }
        if self.json {
            sheaves::write_json(page, snapshot, &held).context("the sheaves")?;
            return Ok(());
        }
        for (cache, held) in &held {
            let apart: &[u8] = if page.is_empty() { b"" } else { b"\n" };
            page.extend_from_slice(apart);
            sheaves::write(page, snapshot, cache, held, style).context("the sheaves")?;
        }
        Ok(())
    }

    /// Writes what is on CPUs' lists.
    fn cpu_partial(
        &self,
        page: &mut Vec<u8>,
        snapshot: &Snapshot,
        style: Style,
    ) -> Result<(), Failure> {
        let caches = self.caches_or_all(snapshot)?;
        let has_lists = |cache: &&Cache| cache.reading("slabs_cpu_partial").is_some();
        let listed: Vec<&Cache> = caches.iter().copied().filter(has_lists).collect();
        if listed.is_empty() {
            return Err(anyhow!(
                "{}: no such cache has CPU slabs; `slabyard run --engine slub --set \
                 front=cpu-slabs -- PROGRAM` starts a program that has them",
                self.source
            )
            .into());
        }
        if self.json {
            cpu_partial::write_json(page, snapshot, &listed).context("the lists")?;
            return Ok(());
        }
        for cache in listed {
            cpu_partial::write(page, snapshot, cache, style).context("the lists")?;
        }
        Ok(())
    }
}
