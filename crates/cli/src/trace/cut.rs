//! `slabyard trace cut`: cuts a part out of a trace.

use super::output::{OutputArgs, progress, report};
use super::snapshots;
use crate::failure::Failure;
use crate::stderr::say;
use crate::trace_file;
use clap::ValueHint;
use slabyard_ask::Listener as _;
use slabyard_lab::edit::cut::{Selection, cut, holds};
use slabyard_lab::record::Wanted;
use slabyard_lab::trace::{Attached, LISTS, START};
use slabyard_observe::view::pick::Pattern;
use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;

/// `slabyard trace cut`.
#[derive(clap::Args)]
pub struct CutArgs {
    /// The trace
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
    /// Leave out what was before so many seconds
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    from: u64,
    /// Leave out what was after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    to: Option<u64>,
    /// CPUs that stay: 0-3,8
    #[arg(long, value_name = "CPUS", value_parser = cpus)]
    cpus: Option<Cpus>,
    /// Caches that stay, kmalloc's by family and size (kmalloc-cg-1k), or by size in all families
    /// (kmalloc-1k); pages stay as well
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    caches: Vec<Pattern>,
}

#[derive(Clone)]
struct Cpus(Vec<u16>);

pub fn run(args: &CutArgs) -> Result<ExitCode, Failure> {
    let to = args.to.unwrap_or(u64::MAX);
    if to <= args.from {
        return Err(Failure::Usage("--to must be later than --from".into()));
    }
    let progress = progress("cutting");
    let stream = trace_file::open(&args.file)?;
    let attached = stream.attached().to_vec();
    let header = stream.header().clone();
    let part = Selection {
        times: args.from..to,
        cpus: args.cpus.clone().map(|cpus| cpus.0),
        wanted: wanted(&args.caches, &attached)?,
    };
    let done = trace_file::put(&args.output.output, |out| {
        let (done, writer) = cut(stream, part, out, &header).map_err(trace_file::failed)?;
        Ok((done, writer, args.attached(&attached)?))
    })?;
    progress.clear();
    if args.cpus.is_some() {
        say(
            "objects that other CPUs allocated or freed are cut in two: a replay of it is uncertain",
        );
    }
    if args.from > 0 && attached.iter().any(|attached| attached.name == START) {
        say(
            "its snapshot tells the caches' sizes only: what was on lists where the cut begins is not known",
        );
    }
    report(&args.file, &args.output.output, &done)
}

impl CutArgs {
    /// What of the trace's attachments is still true.
    fn attached(&self, attached: &[Attached]) -> Result<Vec<Attached>, Failure> {
        let mut stay = Vec::new();
        let times = self.from..self.to.unwrap_or(u64::MAX);
        for one in attached.iter().filter(|one| holds(one, &times)) {
            match one.name.as_str() {
                START if self.from > 0 => {
                    let bytes = snapshots::sizes_only(&one.bytes)?;
                    stay.push(Attached { bytes, time: 0, ..one.clone() });
                }
                LISTS => {
                    let stays = wanted(&self.caches, attached)?;
                    let stays = |name: &str| stays.as_ref().is_none_or(|stays| stays(name));
                    stay.push(Attached {
                        bytes: snapshots::lists_of(&one.bytes, stays)?,
                        ..one.clone()
                    });
                }
                _ => {
                    stay.push(Attached { time: one.time.saturating_sub(self.from), ..one.clone() })
                }
            }
        }
        Ok(stay)
    }
}

/// The caches by all their names that the trace's snapshot tells.
fn wanted(patterns: &[Pattern], attached: &[Attached]) -> Result<Option<Wanted>, Failure> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let mut names = HashSet::new();
    if let Some(start) = attached.iter().find(|attached| attached.name == START) {
        for cache in &snapshots::parse(&start.bytes)?.caches {
            if cache.names().any(|name| patterns.iter().any(|pattern| pattern.matches(name))) {
                names.extend(cache.names().map(str::to_owned));
            }
        }
    }
    // Which of these a `kmalloc` took from no event tells: its size has to do.
    let by_size: Vec<String> = names.iter().filter_map(|name| size_of_random(name)).collect();
    names.extend(by_size);
    let patterns = patterns.to_vec();
    let matches = move |name: &str| patterns.iter().any(|pattern| pattern.matches(name));
    Ok(Some(Box::new(move |name| names.contains(name) || matches(name))))
}

/// The size of a cache of CONFIG_RANDOM_KMALLOC_CACHES, as a name: `kmalloc-rnd-03-1k`.
fn size_of_random(name: &str) -> Option<String> {
    let size = name.strip_prefix("kmalloc-rnd-")?.rsplit('-').next()?;
    Some(format!("kmalloc-{size}"))
}

fn seconds(text: &str) -> Result<u64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds >= 0.0 && seconds.is_finite());
    seconds
        .map(|seconds| (seconds * 1e9) as u64)
        .ok_or_else(|| "expected seconds, such as 1.5".into())
}

fn cpus(text: &str) -> Result<Cpus, String> {
    let one = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.parse::<u16>().ok()?, to.parse::<u16>().ok()?);
        (from <= to).then(|| (from..=to).collect::<Vec<u16>>())
    };
    let all: Option<Vec<Vec<u16>>> = text.split(',').map(one).collect();
    all.map(|all| Cpus(all.concat())).ok_or_else(|| "expected CPUs, such as 0-3,8".into())
}
