//! `slabyard profile`: samples the allocations of a running process for a while, and says who
//! allocates: as a table, and in files for pprof and for flame graphs.
//!
//! Neighbours: [`slabyard_observe::profile`] takes and adds up the samples; [`attend`] does so for
//! `slabyard run --profile`. Invariants: when this command ends, by a signal too, the process
//! samples no more; a file is whole or is not there.

pub mod attend;
mod written;

use crate::asking::seconds;
use crate::failure::Failure;
use crate::{look, outputs, stdout};
use anyhow::Context;
use clap::ValueHint;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use slabyard_abi::profile::{LEAST_RATE, MOST_RATE, RATE};
use slabyard_observe::process::profile::Session;
use slabyard_observe::profile::{Collector, Profile};
use slabyard_observe::source::SourceName;
use slabyard_observe::view;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  slabyard profile $(pgrep -n server)                 a table of the largest sites, after 10 s
  slabyard profile $(pgrep -n server) --seconds 30 -o heap.pb.gz
  go tool pprof -sample_index=inuse_space -top heap.pb.gz
  slabyard profile $(pgrep -n server) --collapsed stacks.txt
  inferno-flamegraph stacks.txt > flames.svg          or flamegraph.pl
  slabyard run --profile heap.pb.gz -- ./server       from its start to its end

The process must run on Slabyard; no signal is sent and no thread is stopped: its next malloc
switches the sampling on. One allocation in --rate bytes is a sample, drawn at random, so that
the sums are estimates without bias: a site of N samples is known to about 100/sqrt(N) percent.
While it is off, nothing is counted and the fast paths of malloc and free are as before. Live is
what was allocated during the profile and not freed by its end. Stacks are unwound outside of the
process, by the tables for exceptions that compilers write, or by frame pointers. Frames of Python
have names where it runs with -X perf.

Exit codes: 0 done, 1 samples were lost (the message says how many), 2 usage, 3 cannot: the
process may not be read, is profiled already, or debugs its caches.";

/// `slabyard profile`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ProfileArgs {
    /// The process
    #[arg(value_name = "PID")]
    source: SourceName,
    /// For how long; Ctrl-C ends it sooner
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    seconds: Duration,
    /// Mean bytes from one sample to the next
    #[arg(long, value_name = "BYTES", default_value = "512K", value_parser = rate)]
    rate: u64,
    /// Write the profile to this file, for pprof
    #[arg(short, long, value_name = "F", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Write collapsed stacks to this file, for flame graphs
    #[arg(long, value_name = "F", value_hint = ValueHint::FilePath)]
    collapsed: Option<PathBuf>,
    /// What the collapsed stacks count
    #[arg(long, value_name = "VALUE", value_enum, default_value_t = written::Counted::Live)]
    count: written::Counted,
    /// Show at most so many sites
    #[arg(long, value_name = "N", default_value_t = 20)]
    sites: usize,
    /// For programs
    #[arg(long)]
    json: bool,
}

/// Bytes between samples.
pub fn rate(text: &str) -> Result<u64, String> {
    let rate = slabyard_kernels::settings::bytes(text.as_bytes()).ok();
    rate.filter(|rate| (LEAST_RATE..=MOST_RATE).contains(rate))
        .ok_or_else(|| format!("expected bytes from {LEAST_RATE} to 1G, such as {RATE} or 512K"))
}

/// Profiles, and prints what was found.
pub fn run(args: &ProfileArgs) -> Result<ExitCode, Failure> {
    let SourceName::Process(pid) = args.source else {
        let text = "only a process can be profiled";
        return Err(anyhow::anyhow!("{}: {text}", args.source).into());
    };
    for (option, path) in [("--output", &args.output), ("--collapsed", &args.collapsed)] {
        if let Some(path) = path {
            outputs::look_before(option, path, [] as [&PathBuf; 0])?;
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&stop)).context("signals")?;
    }
    let session = Session::begin(pid, args.rate).map_err(anyhow::Error::from)?;
    let mut collector = Collector::new(session, args.rate);
    wait(&mut collector, args.seconds, &stop)?;
    let profile = collector.profile();
    drop(collector);
    if let Some(path) = &args.output {
        written::pprof(&profile, path)?;
    }
    if let Some(path) = &args.collapsed {
        written::collapsed(&profile, args.count, path)?;
    }
    let mut page = Vec::new();
    if args.json {
        serde_json::to_writer_pretty(&mut page, &profile).context("the profile")?;
        page.push(b'\n');
    } else {
        let colour = look::style(&std::io::stdout()).colour;
        view::profile::write(&profile, args.sites, colour, &mut page).context("the profile")?;
    }
    stdout::print(&page)?;
    Ok(written::doubt(&profile))
}

/// How often samples are taken.
const PAUSE: Duration = Duration::from_millis(20);

/// Collects until the time is over, a signal comes, or the process ends.
fn wait(collector: &mut Collector, time: Duration, stop: &AtomicBool) -> Result<(), Failure> {
    let bar = if std::io::stderr().is_terminal() {
        indicatif::ProgressBar::new(time.as_secs())
    } else {
        indicatif::ProgressBar::hidden()
    };
    let (begin, mut ends) = (Instant::now(), false);
    while begin.elapsed() < time && !stop.load(Ordering::Relaxed) && !ends {
        std::thread::sleep(PAUSE.min(time.saturating_sub(begin.elapsed())));
        bar.set_position(begin.elapsed().as_secs());
        match collector.collect() {
            Ok(is_end) => ends = is_end,
            // What was taken until then is what there is.
            Err(error) if has_ended(&error) && collector.has_samples() => ends = true,
            Err(error) => return Err(anyhow::Error::from(error).into()),
        }
    }
    bar.finish_and_clear();
    if !ends {
        match collector.end() {
            Err(error) if !has_ended(&error) => return Err(anyhow::Error::from(error).into()),
            _ => {}
        }
    }
    Ok(())
}

/// True if the process is not there any more, or is another program.
fn has_ended(error: &slabyard_observe::process::Error) -> bool {
    use slabyard_observe::process::Error;
    matches!(error, Error::Ended { .. } | Error::NoSuchProcess { .. } | Error::Damaged { .. })
}

/// As the summary of a profile says it.
pub fn sum_of(profile: &Profile) -> String {
    let all: f64 = profile.sites.iter().map(|site| site.alloc_bytes).sum();
    format!("{} samples, {}", profile.samples, view::cell::human(all.round() as u64))
}
