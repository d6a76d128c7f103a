//! `slabyard shrink`: flushes parked objects, frees empty slabs, and prints what was gained.
//!
//! Neighbours: [`work`] sends the requests to the kernel or the process, [`outcome`] prints the
//! numbers before and after, [`samples`] watches the totals around it. Invariant: after a failure,
//! the work done until then is still printed, and the exit code is 3.

mod outcome;
mod samples;
mod work;

use crate::asking::{Wait, seconds};
use crate::failure::Failure;
use crate::{look, stdout};
use anyhow::Context;
use outcome::Outcome;
use samples::Watch;
use slabyard_observe::hidden;
use slabyard_observe::source::{ReadScope, SourceName};
use slabyard_observe::view::pick::{CacheFilter, Pattern};
use slabyard_observe::{Cache, Snapshot};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;
use work::{ShrinkExtent, Target};

const EXAMPLES: &str = "\
Examples:
  slabyard shrink kernel                        every cache of the kernel (root)
  slabyard shrink kernel dentry 'kmalloc-*'
  slabyard shrink kernel --watch 5              6 samples before and after, 5 s apart
  slabyard shrink $(pgrep -n python3)
  slabyard shrink --empties $(pgrep -n python3)  only the empty slabs on CPU partial lists

What a kernel counts as active and has parked is flushed, so that live is exact in the
caches that are shown after it: from 6.18 on a shrink waits for RCU's readers, and shrinks again what
kfree_rcu() freed before; up to 6.17 such frees may come back 5 s later. A
process serves the request at its next slow path, or at once by its helper thread if it was started
with `slabyard run --helper`. Where it makes no call, a thread of it that waits in a system call is
stopped for some milliseconds, serves, and waits on: a call with a time limit that the system does not
keep (epoll_wait) may then last up to twice as long, and no call ends with EINTR. --no-stop leaves this
out. If this command is killed meanwhile (SIGKILL), the thread goes on by itself, and a sleep may end
with EINTR. What nobody serves before --timeout, or before Ctrl-C, is taken back: exit code 3.";

/// `slabyard shrink`.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", look::CODES))]
pub struct ShrinkArgs {
    /// What to shrink: `kernel` or a process
    #[arg(value_name = "SOURCE")]
    source: SourceName,
    /// Only caches with such a name [default: all]
    #[arg(value_name = "CACHE", value_parser = look::pattern)]
    patterns: Vec<Pattern>,
    /// Only end the empty slabs on CPU partial lists; the rest of the lists stays (a process with
    /// CPU slabs)
    #[arg(long)]
    empties: bool,
    /// Sample the totals so many seconds apart, before and after
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    watch: Option<Duration>,
    /// Samples on each side
    #[arg(long, value_name = "N", default_value_t = 6, requires = "watch")]
    samples: u32,
    #[command(flatten)]
    wait: Wait,
    /// For programs
    #[arg(long)]
    json: bool,
}

/// Shrinks and prints what became of it.
pub fn run(args: &ShrinkArgs) -> Result<ExitCode, Failure> {
    let target = Target::of(&args.source, args.wait)?;
    let look = || look::sample(&args.source, ReadScope::default());
    let picked = args.picked(look()?)?;
    let style = look::style(&std::io::stdout());
    let mut watch = Watch::new(&args.source, args.watch, args.samples);
    watch.sample(&look, args.json)?;

    let before = look()?;
    if args.empties {
        has_lists(&args.source, &before)?;
    }
    let what = if args.empties { ShrinkExtent::Empties } else { ShrinkExtent::All };
    let done = work::shrink(&target, &picked, what, progress());
    let mut after = look()?;
    let named = !args.patterns.is_empty();
    let outcome = Outcome::new(&args.only(before), shrunk(&mut after, args), named, done);
    if outcome.is_nothing() {
        // Before and after would be the same look twice.
        return outcome.failure().map_or(Ok(ExitCode::SUCCESS), Err);
    }
    let mut page = Vec::new();
    if !args.json {
        outcome.write(&mut page, style).context("what was shrunk")?;
        stdout::print(&page)?;
    }
    watch.shrunk();
    watch.sample(&look, args.json)?;
    if args.json {
        outcome.write_json(&mut page, watch.taken()).context("what was shrunk")?;
        stdout::print(&page)?;
    }
    outcome.failure().map_or(Ok(ExitCode::SUCCESS), Err)
}

impl ShrinkArgs {
    /// The caches that were named, or `None` for all of them.
    fn picked(&self, snapshot: Snapshot) -> Result<work::ShrinkTargets, Failure> {
        let caches: Vec<String> =
            self.only(snapshot).caches.into_iter().map(|cache| cache.name).collect();
        look::has_match(!caches.is_empty(), &self.source, &self.patterns)?;
        let all = self.patterns.is_empty();
        Ok(work::ShrinkTargets { caches, all })
    }

    /// The snapshot without the caches that were not named.
    fn only(&self, mut snapshot: Snapshot) -> Snapshot {
        let pick = CacheFilter { patterns: self.patterns.clone(), ..CacheFilter::default() };
        snapshot.caches.retain(|cache: &Cache| pick.takes(cache));
        snapshot
    }
}

/// Refuses a source that has no CPU partial lists, or cannot be asked to drain them so.
fn has_lists(source: &SourceName, snapshot: &Snapshot) -> Result<(), Failure> {
    let why = match source {
        SourceName::Kernel => {
            "a kernel drains its CPU partial lists as a whole only, without --empties"
        }
        _ if snapshot.caches.iter().any(|cache| cache.reading("slabs_cpu_partial").is_some()) => {
            return Ok(());
        }
        _ => {
            "none of its caches has CPU partial lists; `slabyard run --engine slub --set \
             front=cpu-slabs -- PROGRAM` starts a program that has them"
        }
    };
    Err(anyhow::anyhow!("{source}: {why}").into())
}

/// The caches that were shrunk just now, of which a kernel hides nothing.
fn shrunk<'a>(after: &'a mut Snapshot, args: &ShrinkArgs) -> &'a Snapshot {
    let pick = CacheFilter { patterns: args.patterns.clone(), ..CacheFilter::default() };
    after.caches.retain(|cache| pick.takes(cache));
    hidden::after_shrink(after);
    after
}

/// A bar on a terminal, nothing elsewhere.
fn progress() -> indicatif::ProgressBar {
    if std::io::stderr().is_terminal() {
        indicatif::ProgressBar::no_length()
    } else {
        indicatif::ProgressBar::hidden()
    }
}
