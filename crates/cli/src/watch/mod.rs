//! `slabyard watch`: takes a look at a source at intervals, for days, into one file of bounded size.
//!
//! Neighbours: `slabyard_observe::timeline` defines the file, and thins it out; [`crate::top`] shows
//! one again. Invariants: however the command ends, each look that was taken is in the file; a
//! process whose id another one got is not looked at.

use crate::failure::Failure;
use crate::stderr::say;
use crate::target::Target;
use crate::terminal::{Progress, bytes};
use crate::{look, outputs};
use anyhow::Context;
use clap::ValueHint;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use slabyard_ask::Listener;
use slabyard_ask::sizes::memory_size;
use slabyard_observe::source::{self, ReadScope, SourceName};
use slabyard_observe::timeline::Writer;
use slabyard_observe::value::plural;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  slabyard watch -o day.timeline                      the kernel, once a minute
  slabyard watch $(pidof redis-server) -o redis.timeline --interval 10s --for 1d
  slabyard watch -o soon.timeline --interval 1s --looks 10
  slabyard top --replay day.timeline                  as it was, look by look
  slabyard diff day.timeline#1 day.timeline           what the day changed
  slabyard list day.timeline#2026-11-27T03:00         the last look before that time, UTC
  slabyard list day.timeline --over-time              curves of totals and caches; --html, too

Every command that takes a file as its SOURCE takes the last look, or that behind #: a
number from 1, or a time. The same command again goes on with the file. When the file
exceeds --max-size, every second look of its older half goes: the last hours stay as they
were taken, and the older a look is, the longer the time to the next. A day of looks at a
kernel, one a minute, is a few MiB.

The exit code is 0 when the time is over, all looks are taken, a signal ended it or the
process did; 2 for wrong usage; 3 if the source cannot be read or the file not be written.";

/// A limit below this would hold a few looks.
const LEAST_BYTES: u64 = 256 << 10;
/// Far less than a reader takes, which would leave out the looks behind.
const MOST_BYTES: u64 = 1 << 30;
const SHORTEST: Duration = Duration::from_millis(100);

/// `slabyard watch`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct WatchArgs {
    /// `kernel`, or the id of a process
    #[arg(value_name = "SOURCE", default_value = "kernel")]
    source: SourceName,
    /// The file; one that is there goes on
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// Time between two looks: 10, 0.5s, 5m, 1h
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = interval)]
    interval: Duration,
    /// End after so long: 90s, 12h, 7d
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,
    /// End after so many looks, beside those that are in the file
    #[arg(long, value_name = "N")]
    looks: Option<NonZeroU64>,
    /// The most that the file may take
    #[arg(long, value_name = "SIZE", default_value = "20M", value_parser = limit)]
    max_size: u64,
}

/// Takes looks until the end.
pub fn run(args: &WatchArgs) -> Result<ExitCode, Failure> {
    let target = match &args.source {
        SourceName::Kernel => None,
        SourceName::Process(pid) => Some(Target::new(*pid)),
        SourceName::File(path) => {
            return Err(Failure::Usage(look::only_a_file(path, "it does not change")));
        }
        SourceName::Stdin => return Err(Failure::Usage("standard input does not change".into())),
    };
    outputs::look_before("-o", &args.output, look::file_of(&args.source))?;
    let began = Instant::now();
    let end = args.length.and_then(|length| began.checked_add(length));
    let signals = signals()?;
    let want = ReadScope { all: true, slabs: false };
    let first = look::sample(&args.source, want)?;
    let mut writer =
        Writer::open(&args.output, args.max_size, &first.source).map_err(anyhow::Error::from)?;
    writer.push(&first).map_err(anyhow::Error::from)?;
    let progress = Progress::new();
    let mut due = began;
    let (mut taken, mut missed) = (1, 0_u64);
    while args.looks.is_none_or(|looks| taken < looks.get()) {
        let size = bytes(Some(writer.bytes()));
        progress.stage(&format!("watching {}: {} looks, {size}", args.source, writer.looks()));
        // From now on where a look took longer than the interval: looks do not pile up.
        due = (due + args.interval).max(Instant::now());
        let until = end.map_or(due, |end| end.min(due));
        match signals.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => break,
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        match source::sample(&args.source, want) {
            // What has the id by now may be another process.
            _ if target.is_some_and(|target| target.ended()) => {
                progress.say(&format!("{} ended", args.source));
                break;
            }
            Ok(snapshot) => {
                writer.push(&snapshot).map_err(anyhow::Error::from)?;
                taken += 1;
            }
            Err(error) => {
                missed += 1;
                progress.say(&format!("no look at {}: {error}", args.source));
            }
        }
    }
    drop(progress);
    let size = bytes(Some(writer.bytes()));
    let missed = if missed == 0 { String::new() } else { format!("; {missed} failed") };
    let looks = plural(writer.looks() as u64, "look");
    say(&format!("{} has {looks}, {size}{missed}", args.output.display()));
    Ok(ExitCode::SUCCESS)
}

/// Signals that end the watch, between two looks.
fn signals() -> Result<Receiver<i32>, Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot take signals")?;
    let (to, from) = channel();
    thread::spawn(move || signals.forever().try_for_each(|signal| to.send(signal)));
    Ok(from)
}

/// A time with its unit: seconds without one.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time, such as 90s, 5m, 12h or 7d".to_owned();
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];
    let (number, unit) = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)))
        .unwrap_or((text, 1.0));
    let plain = number.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = number.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
    let time = Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())?;
    if time.is_zero() { Err(wrong()) } else { Ok(time) }
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time < SHORTEST { Err("0.1 seconds at least".into()) } else { Ok(time) }
}

fn limit(text: &str) -> Result<u64, String> {
    let bytes = memory_size(text)?;
    match bytes {
        ..LEAST_BYTES => Err("256K at least".into()),
        LEAST_BYTES..=MOST_BYTES => Ok(bytes),
        _ => Err("1G at most: a timeline is read whole".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("10", 10.0), ("0.5s", 0.5), ("5m", 300.0), ("1d", 86400.0)] {
            assert_eq!(duration(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "s", "0", "-1s", "+1", "1w", "1e400", "nan", "inf", "1 h", "ü"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(interval("0.05").is_err() && interval("100").is_ok());
        assert!(limit("1K").is_err() && limit("256K") == Ok(256 << 10));
        assert!(limit("1G") == Ok(1 << 30) && limit("2G").is_err());
    }
}
