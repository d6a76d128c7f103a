//! `slabyard doctor`: says in words what is wrong with the memory of a process or a kernel.
//!
//! Neighbours: the crate `slabyard-doctor` looks and judges; this module decides how often it looks,
//! prints, and chooses the exit code; [`owners`] watches who allocates in a kernel meanwhile, and
//! [`sites`] where a process does; [`page`] draws for `--html`.

mod owners;
mod page;
mod sites;

use crate::failure::Failure;
use crate::html::HtmlArgs;
use crate::stderr::say;
use crate::terminal::Progress;
use crate::{look, stdout};
use anyhow::{Context, anyhow};
use clap::ValueHint;
use owners::{Evidence, Watching};
use sites::Sampling;
use slabyard_ask::{Listener as _, files};
use slabyard_doctor::owners::Owners;
use slabyard_doctor::recording;
use slabyard_doctor::rules::RULES;
use slabyard_doctor::{Diagnosis, Look, Outcome, examine, text};
use slabyard_observe::snapshot::Source;
use slabyard_observe::source::SourceName;
use slabyard_owners::Watch;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  slabyard doctor $(pgrep -n redis-server)      a process, on Slabyard or not
  slabyard doctor $(pgrep -n python3) --watch 60    does it grow?
  slabyard doctor kernel
  slabyard doctor kernel --watch 60             what grows, and who allocates it
  slabyard doctor before.json.zst after.json.zst    two snapshots of one source
  slabyard doctor day.timeline                  what `slabyard watch` wrote
  slabyard doctor load.slabtrace                what `slabyard record` wrote
  slabyard doctor slabinfo.txt                  a text that somebody pasted
  slabyard doctor core.4711 --html why.html     with a chart, for a browser
  slabyard doctor kernel --json | jq -r '.findings[0].id'";

const CODES: &str = "\
SOURCE is `kernel`, the id of any process, or a file: a saved snapshot, a timeline of them, a
recording, the core file of a process that runs on Slabyard, a copied folder, or a pasted text; `-`
is a snapshot or a text on standard input.

The exit code is 0 if nothing is found, 1 if something is, 2 for wrong usage, and 3 if the source
cannot be read or most of its memory cannot be seen, with the reason.";

/// Looks of a timeline.
const OF_TIMELINE: usize = 25;
/// Looks of a watch.
const LOOKS: u32 = 6;
/// From so many milliseconds on a second look does not wait for the decay of free pages.
const MOST_DECAY_MS: u64 = 1000;
/// A second look waits at least so long.
const LEAST_WAIT_MS: u64 = 300;

/// `slabyard doctor`.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{CODES}"), after_long_help = long_help())]
pub struct DoctorArgs {
    /// Where to look: `kernel`, a process, or a file; two snapshots of one source show growth
    #[arg(value_name = "SOURCE", default_value = "kernel", num_args = 1..=2, value_hint = ValueHint::FilePath)]
    sources: Vec<SourceName>,
    /// Look for so long whether something grows
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    watch: Option<Duration>,
    /// What a watch of the kernel may take of one CPU: of more, fewer objects are followed
    #[arg(long, value_name = "PERCENT", default_value = "1", requires = "watch", value_parser = percent)]
    budget: f64,
    /// For programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: HtmlArgs,
}

/// Looks, judges, prints.
pub fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    args.html.look_before(args.sources.iter().filter_map(look::file_of))?;
    let mut watching = None;
    if let ([SourceName::Kernel], Some(watch)) = (&args.sources[..], args.watch) {
        watching = Some(Watching::start(watch, args.budget));
    }
    let looks = match (&args.sources[..], args.watch) {
        ([_, _], Some(_)) => {
            let why = "--watch looks at one source more than once: name one, or leave --watch out";
            return Err(Failure::Usage(why.into()));
        }
        ([old, new], None) => pair(old, new)?,
        ([source, ..], watch) => match live(source, watch) {
            Ok(looks) => looks,
            Err(why) => {
                // What everybody may read is told even where nobody can judge.
                let watched = watching.filter(|_| !args.json).map(Watching::end);
                stdout::print(watched.as_ref().map(owners::text).unwrap_or_default().as_bytes())?;
                return Err(why);
            }
        },
        ([], _) => unreachable!("there is a default"),
    };
    let watched = watching.map(Watching::end);
    let evidence = watched.as_ref().map(|watch| Evidence::of(watch, &looks));
    let diagnosis = examine(&looks, evidence.as_ref().map(|it| it as &dyn Owners));
    let json = || json(&diagnosis, watched.as_ref());
    args.html.write(|| Ok(page::of(&diagnosis, watched.as_ref(), json()?)))?;
    let printed = if args.json {
        json()?
    } else {
        let width = look::style(&std::io::stdout()).width;
        text::of(&diagnosis, width) + &watched.as_ref().map(owners::text).unwrap_or_default()
    };
    stdout::print(printed.as_bytes())?;
    Ok(ExitCode::from(code(&diagnosis)))
}

/// The diagnosis for programs, with what a watch of a kernel saw.
fn json(diagnosis: &Diagnosis, watch: Option<&Watch>) -> Result<String, Failure> {
    let mut value = serde_json::to_value(diagnosis).context("the diagnosis")?;
    if let Some(watch) = watch {
        value["watch"] = serde_json::to_value(watch).context("the watch")?;
    }
    Ok(format!("{value:#}\n"))
}

fn code(diagnosis: &Diagnosis) -> u8 {
    match diagnosis.outcome {
        Outcome::NothingFound => 0,
        Outcome::Found => 1,
        Outcome::CannotTell => 3,
    }
}

fn take(source: &SourceName) -> Result<Look, Failure> {
    Ok(Look::take(source).map_err(anyhow::Error::from)?)
}

/// Two snapshots, which are of one source.
fn pair(old: &SourceName, new: &SourceName) -> Result<Vec<Look>, Failure> {
    let looks = vec![take(old)?, take(new)?];
    let of = |look: &Look| look.snapshot.as_ref().map(|snapshot| snapshot.source.clone());
    if let (Some(before), Some(after)) = (of(&looks[0]), of(&looks[1]))
        && !is_one_source(&before, &after)
    {
        return Err(anyhow!(
            "{old} and {new} are not of one source: nothing can be said of growth"
        )
        .into());
    }
    if looks[0].taken_at_ms > looks[1].taken_at_ms {
        return Err(anyhow!("{old} was taken after {new}: name the older one first").into());
    }
    Ok(looks)
}

fn is_one_source(before: &Source, after: &Source) -> bool {
    let same = |a: Option<u32>, b: Option<u32>| a.is_none() || b.is_none() || a == b;
    let is_kind = before.kind == after.kind || (before.kind.is_yard() && after.kind.is_yard());
    is_kind && same(before.pid, after.pid)
}

/// Looks at a source that lives, once and again, or at a file once; or those of a timeline or a
/// recording.
fn live(source: &SourceName, watch: Option<Duration>) -> Result<Vec<Look>, Failure> {
    let stays = || {
        let why = format!("--watch looks more than once, and {source} does not change");
        Failure::Usage(why)
    };
    if let SourceName::File(path) = source
        && recording::looks_like(path)
    {
        if watch.is_some() {
            return Err(stays());
        }
        let screen = Progress::new();
        screen.stage(&format!("reading {}", files::shown(path)));
        let looks = Look::of_recording(path).map_err(anyhow::Error::from)?;
        screen.clear();
        return Ok(looks);
    }
    if watch.is_none()
        && let Some(looks) = Look::of_timeline(source, OF_TIMELINE).map_err(anyhow::Error::from)?
    {
        return Ok(looks);
    }
    let mut looks = vec![take(source)?];
    let is_live = matches!(source, SourceName::Kernel | SourceName::Process(_));
    let Some(watch) = watch else {
        // What a busy program freed just now is no burst that stays.
        let first = examine(&looks, None);
        if is_live && first.findings.iter().any(|finding| finding.id == "burst.free") {
            thread::sleep(decay(&looks[0]));
            looks.push(take(source)?);
            looks[0].process.iter_mut().for_each(|process| process.sites.clear());
        }
        return Ok(looks);
    };
    if !is_live {
        return Err(stays());
    }
    let sampling = Sampling::start(&looks[0], watch);
    let began = Instant::now();
    for nth in 1..LOOKS {
        let goes_on = sampling.wait(began + watch * nth / (LOOKS - 1));
        match take(source) {
            Ok(look) => looks.push(look),
            // What was seen until the process ended is worth a word.
            Err(why) if looks.len() >= 2 => {
                say(&format!("the watch ends early: {why:#}"));
                break;
            }
            Err(why) => return Err(why),
        }
        if !goes_on {
            break;
        }
    }
    let last = looks.len() - 1;
    sampling.end(&mut looks[last]);
    Ok(looks)
}

/// How long free pages wait before they go back, with some room.
fn decay(look: &Look) -> Duration {
    let decay = look.snapshot.as_ref().and_then(|snapshot| snapshot.total("decay_ms")?.exact());
    let decay = decay.unwrap_or(0).min(MOST_DECAY_MS);
    Duration::from_millis((decay * 3 / 2).max(LEAST_WAIT_MS))
}

/// A share, by a number of percent.
pub fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|it| (0.01..=10_000.0).contains(it));
    percent
        .map(|it: f64| it / 100.0)
        .ok_or_else(|| "it is a number of percent, 0.01 or more".into())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is a number of seconds".to_owned())?;
    let fits = (1.0..=1e7).contains(&seconds);
    fits.then(|| Duration::from_secs_f64(seconds))
        .ok_or_else(|| "it is at least 1 second".to_owned())
}

fn long_help() -> String {
    let mut text = format!("{EXAMPLES}\n\n{CODES}\n\nWhat is found, and from when on:\n");
    for rule in &RULES {
        text += &format!("  {:<24}{}\n", rule.id, rule.measures);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_observe::snapshot::SourceKind;

    #[test]
    fn a_kernel_and_a_heap_are_not_one_source() {
        let is_one = |a, b| is_one_source(&Source::of(a), &Source::of(b));
        assert!(is_one(SourceKind::Kernel, SourceKind::Kernel));
        assert!(is_one(SourceKind::Process, SourceKind::Core));
        assert!(!is_one(SourceKind::Kernel, SourceKind::Heap));
        assert!(!is_one(SourceKind::Kernel, SourceKind::Process));
    }

    #[test]
    fn a_watch_takes_a_second_at_least() {
        assert_eq!(seconds("60"), Ok(Duration::from_secs(60)));
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for text in ["0", "0.5", "-1", "x", "inf", "nan", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
