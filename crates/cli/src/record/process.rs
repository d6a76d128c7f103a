//! `slabyard record -- PROGRAM`: records the malloc calls of a program that runs on Slabyard.
//!
//! A library preloaded in front of ours writes each call into rings, which this module copies while
//! the program runs, and converts to events after its end. Programs that are not recorded do not
//! load that library.

use super::args::RecordArgs;
use super::failures::{cannot_write, written};
use super::wait::{self, CommandWait, RecordingState};
use crate::failure::Failure;
use crate::run::library;
use crate::run::{PRELOAD_ENV, preload};
use crate::stderr::say;
use crate::terminal::{Progress, bytes, seconds};
use anyhow::Context;
use serde_json::json;
use slabyard_abi::recording;
use slabyard_ask::Listener as _;
use slabyard_lab::malloc;
use slabyard_lab::record::{Error, ProcessProgress, ProcessRecorded, Rings};
use slabyard_lab::trace::{Attached, Header, MALLOC, RECORDING, Writer};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread::available_parallelism;
use std::time::{Instant, SystemTime};

/// Malloc's slabs are of granules of this size on every machine.
const PAGE_SIZE: u32 = 4096;

/// Records, and says how it went; the exit code is the program's.
pub fn record(args: &RecordArgs, output: &Path) -> Result<ExitCode, Failure> {
    let mut command = command(args)?;
    let cpus = available_parallelism().map_or(1, usize::from);
    let room = output.parent().filter(|room| !room.as_os_str().is_empty());
    let rings = Rings::new(cpus, || slabyard_abi::ticks!(), room.unwrap_or(Path::new(".")))
        .context("no memory for the rings")?;
    command.env(recording::ENV, rings.path());
    let out = File::create(output).with_context(|| cannot_write(output))?;
    let mut waiting = CommandWait::new()?;
    let header = Header {
        release: String::new(),
        page_size: Some(PAGE_SIZE),
        cpus: u32::try_from(cpus).ok(),
        page_offset: None,
        source: format!("slabyard record -- {}", words(args).join(" ")),
    };
    let began = SystemTime::now();
    let out = (BufWriter::new(out), &header);
    let (events, looked) = run(args, &mut command, rings, out, &mut waiting)?;
    let status = match looked? {
        RecordingState::Ended(status) => Some(status),
        RecordingState::Goes | RecordingState::Stopped => None,
    };
    let (recorded, mut writer) = events.map_err(|error| match error {
        Error::Trace(error) => written(output, error),
        error => anyhow::Error::from(error).into(),
    })?;
    let snapshot = malloc::snapshot(cpus as u32, PAGE_SIZE);
    let facts = facts(args, &recorded, began);
    for (name, time, bytes) in [(MALLOC, 0, snapshot), (RECORDING, recorded.took_ns, facts)] {
        let attached = Attached { name: name.into(), time, bytes };
        writer.attach(&attached).with_context(|| cannot_write(output))?;
    }
    writer.finish().with_context(|| cannot_write(output))?;
    report(output, &recorded);
    let status = match status {
        Some(status) => Some(status),
        None => waiting.command()?,
    };
    Ok(status.map_or(ExitCode::SUCCESS, wait::code))
}

/// The program with the library that records in front of the malloc that it records.
fn command(args: &RecordArgs) -> Result<Command, Failure> {
    let Some((program, rest)) = args.command.split_first() else {
        let text = "give what is to be recorded: --kernel, or a program behind `--`";
        return Err(Failure::Usage(text.into()));
    };
    let library = library::find(false)?;
    let mut preloaded = preload(&library::recorder()?, None)?;
    preloaded.push(":");
    preloaded.push(preload(&library, std::env::var_os(PRELOAD_ENV).as_deref())?);
    let mut command = Command::new(program);
    command.args(rest).env(PRELOAD_ENV, preloaded);
    Ok(command)
}

/// Of a recording that ended well, the writer to which the attachments still go.
type Events = Result<(ProcessRecorded, Writer<BufWriter<File>>), Error>;

/// Runs the program and records it until it ends, a signal comes, or the time is over. The second
/// result is how the program stood then.
fn run(
    args: &RecordArgs,
    command: &mut Command,
    rings: Rings,
    (out, header): (BufWriter<File>, &Header),
    waiting: &mut CommandWait,
) -> Result<(Events, Result<RecordingState, Failure>), Failure> {
    let screen = Progress::new();
    let start = Instant::now();
    let pid = waiting.spawn(command)?;
    let most = args.max_size.unwrap_or(u64::MAX);
    let mut looked = Ok(RecordingState::Goes);
    let events = rings.record(pid, out, header, most, |far| {
        screen.stage(&shown(far));
        if far.writes {
            return false;
        }
        if args.duration.is_some_and(|duration| start.elapsed() >= duration) {
            return true;
        }
        looked = waiting.look();
        !matches!(looked, Ok(RecordingState::Goes))
    });
    Ok((events, looked))
}

fn shown(far: ProcessProgress) -> String {
    let ProcessProgress { calls, written, bytes: size, writes } = far;
    match writes {
        true => format!("writing: {written} of {calls} events in {}", bytes(Some(size))),
        false => format!("recording: {calls} events"),
    }
}

fn words(args: &RecordArgs) -> Vec<String> {
    args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

fn facts(args: &RecordArgs, recorded: &ProcessRecorded, began: SystemTime) -> Vec<u8> {
    let since = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let facts = json!({
        "recorder": concat!("slabyard ", env!("CARGO_PKG_VERSION")),
        "of": "process",
        "began_unix_ms": u64::try_from(since.as_millis()).unwrap_or(0),
        "took_ns": recorded.took_ns,
        "command": words(args),
        "events": recorded.events,
        "lost": recorded.lost,
        "full": recorded.full,
    });
    facts.to_string().into_bytes()
}

/// Says how it went.
fn report(output: &Path, recorded: &ProcessRecorded) {
    let size = std::fs::metadata(output).map(|meta| meta.len()).ok();
    let each = size.unwrap_or(0) as f64 / recorded.events.max(1) as f64;
    let (events, took) = (recorded.events, seconds(recorded.took_ns));
    let (shown, size) = (output.display(), bytes(size));
    say(&format!("{shown}: {events} events of {took} in {size}, {each:.2} bytes an event"));
    if recorded.events == 0 {
        say(
            "no call was told: the program is statically linked, set-user-id, or brings a malloc of its own",
        );
    }
    if recorded.lost > 0 {
        let lost = recorded.lost;
        say(&format!(
            "{lost} events were lost, so that figures of this trace are uncertain: the rings were full"
        ));
    }
    if recorded.full {
        say(
            "the file is as large as --max-size lets it be: recorded to there; the program goes on",
        );
    }
}
