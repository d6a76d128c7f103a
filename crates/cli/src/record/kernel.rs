//! `slabyard record --kernel`: makes the kernel ready, records, and puts the snapshots of before and
//! after into the file.

use super::args::RecordArgs;
use super::failures::{cannot_write, in_file, of_first_sample, refused, refused_to_user, written};
use super::guard::Guard;
use super::lists;
use super::named;
use super::wait::{self, Ended, Waiting};
use crate::failure::Failure;
use crate::look;
use crate::stderr::say;
use crate::terminal::{Progress, bytes, seconds};
use anyhow::Context;
use serde_json::json;
use slabyard_lab::record::{Error, Options, Progress as Far, Recorded, Recorder, Wanted};
use slabyard_lab::trace::{Attached, END, Header, RECORDING, SHRUNK, START, Writer};
use slabyard_observe::source::{Named, ROOT, Want};
use slabyard_observe::view::pick::Pattern;
use slabyard_observe::{Snapshot, kernel};
use std::collections::HashSet;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

/// KiB of each CPU's buffer, on a machine that has memory for it.
const BUFFER_KIB: u64 = 64 << 10;

type Out = BufWriter<File>;

pub fn record(args: &RecordArgs, output: &Path) -> Result<ExitCode, Failure> {
    let screen = Progress::new();
    screen.stage("making the kernel ready");
    let patterns = patterns(&args.caches)?;
    let first = sample().map_err(of_first_sample)?;
    let picked = wanted(&patterns, &first)?;
    let guard = Guard::start()?;
    let options = Options {
        buffer_kib: args.buffer.map_or_else(|| buffer_kib(&first), |bytes| (bytes >> 10).max(4)),
        wanted: picked,
        most_bytes: args.max_size,
    };
    let buffer_kib = options.buffer_kib;
    let recorder = Recorder::new(options).map_err(refused_to_user)?;
    let mut reader = (!args.no_lists).then(lists::Reader::new).flatten();
    let out = File::create(output).with_context(|| cannot_write(output))?;
    let mut waiting = Waiting::new()?;
    if !args.no_shrink {
        shrink(&first);
    }
    let began = SystemTime::now();
    let start = sample()?;
    let header = header(&start, args);
    let attached = vec![attached(START, 0, &start)?];
    let running = recorder.start(BufWriter::new(out), header, attached).map_err(refused)?;
    let picked = wanted(&patterns, &first)?;
    let far = running.progress();
    let lists = reader.as_mut().and_then(|reader| {
        let begin = || far.leave_out_this_thread();
        reader.read(&start, picked.as_ref(), &|| far.now(), &begin)
    });
    let started = waiting.start(args);
    let shown = |far: &Far| {
        let lost = if far.lost() == 0 { String::new() } else { format!(", {} lost", far.lost()) };
        let size = bytes(Some(far.bytes()));
        screen.stage(&format!("recording: {} events in {size}{lost}", far.events()));
        far.is_over()
    };
    let ended = match &started {
        Ok(()) => waiting.wait(args.duration, || shown(running.progress())),
        Err(_) => Ok(Ended::default()),
    };
    let stopped = running.stop();
    drop(guard);
    screen.clear();
    started?;
    let ended = ended?;
    let (mut recorded, writer) = stopped.map_err(|error| match error {
        Error::Trace(error) => written(output, error),
        error => refused(error),
    })?;
    let facts = facts(args, &recorded, buffer_kib, began, &ended);
    finish(args, &recorded, writer, &first, lists, facts)
        .map_err(|failure| in_file(output, failure))?;
    if recorded.unnamed {
        screen.stage("naming the caches");
        let wanted = wanted(&patterns, &first)?;
        recorded.events = named::name_caches(output, &first, wanted)?;
        screen.clear();
    }
    tell(output, &recorded, args);
    let status = match ended.command {
        Some(status) => Some(status),
        None => waiting.command()?,
    };
    Ok(status.map_or(ExitCode::SUCCESS, wait::code))
}

/// What comes behind the events.
fn finish(
    args: &RecordArgs,
    recorded: &Recorded,
    mut writer: Writer<Out>,
    first: &Snapshot,
    lists: Option<Attached>,
    facts: Vec<u8>,
) -> Result<(), Failure> {
    let time = recorded.took_ns;
    let put = |writer: &mut Writer<Out>, attached: Attached| {
        writer.attach(&attached).map_err(|error| Failure::from(anyhow::Error::from(error)))
    };
    if let Some(lists) = lists {
        put(&mut writer, lists)?;
    }
    let end = attached(END, time, &sample()?)?;
    put(&mut writer, end)?;
    if !args.no_shrink {
        shrink(first);
        put(&mut writer, attached(SHRUNK, time, &sample()?)?)?;
    }
    put(&mut writer, Attached { name: RECORDING.into(), time, bytes: facts })?;
    writer.finish().map_err(anyhow::Error::from)?;
    Ok(())
}

fn facts(
    args: &RecordArgs,
    recorded: &Recorded,
    buffer_kib: u64,
    began: SystemTime,
    ended: &Ended,
) -> Vec<u8> {
    let since = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let command: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let facts = json!({
        "recorder": concat!("slabyard ", env!("CARGO_PKG_VERSION")),
        "of": "kernel",
        "began_unix_ms": u64::try_from(since.as_millis()).unwrap_or(0),
        "took_ns": recorded.took_ns,
        "command": command,
        "exit": ended.command.and_then(|status| status.code()),
        "caches": args.caches,
        "buffer_kib": buffer_kib,
        "events": recorded.events,
        "lost": recorded.lost,
        "left_out": recorded.left_out,
        "full": recorded.full,
    });
    facts.to_string().into_bytes()
}

fn tell(output: &Path, recorded: &Recorded, args: &RecordArgs) {
    let size = std::fs::metadata(output).map(|meta| meta.len()).ok();
    let each = size.unwrap_or(0) as f64 / recorded.events.max(1) as f64;
    let output = output.display();
    let (events, took) = (recorded.events, seconds(recorded.took_ns));
    let size = bytes(size);
    say(&format!("{output}: {events} events of {took} in {size}, {each:.2} bytes an event"));
    if let Some(share) = share(recorded) {
        say(&format!(
            "{} events of kmalloc and kfree were the recorder's own and are not in the file: {share} of all",
            recorded.left_out
        ));
    }
    match recorded.lost {
        0 => {}
        lost => say(&format!(
            "{lost} events were lost, so that figures of this trace are uncertain: the kernel's \
             buffers were full; give more with --buffer, or record fewer caches with --caches"
        )),
    }
    if recorded.full {
        let then = if args.command.is_empty() { "" } else { "; the command goes on" };
        say(&format!("the file is as large as --max-size lets it be: recorded to there{then}"));
    }
}

/// What share of all events was the recorder's own; `None` if there was none.
fn share(recorded: &Recorded) -> Option<String> {
    let all = recorded.left_out + recorded.events;
    (recorded.left_out > 0)
        .then(|| format!("{:.1} %", recorded.left_out as f64 * 100.0 / all as f64))
}

fn sample() -> Result<Snapshot, Failure> {
    look::sample(&Named::Kernel, Want { all: true, slabs: false })
}

fn shrink(snapshot: &Snapshot) {
    for cache in &snapshot.caches {
        // One that has ended meanwhile has nothing to give.
        let _ = kernel::shrink(Path::new(ROOT), &cache.name);
    }
}

fn attached(name: &str, time: u64, snapshot: &Snapshot) -> Result<Attached, Failure> {
    let bytes = serde_json::to_vec(snapshot).context("the snapshot")?;
    Ok(Attached { name: name.into(), time, bytes })
}

fn header(snapshot: &Snapshot, args: &RecordArgs) -> Header {
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let machine = &snapshot.machine;
    Header {
        release: snapshot.source.release.clone().unwrap_or_default(),
        page_size: machine.page_bytes.and_then(|size| u32::try_from(size).ok()),
        cpus: machine.possible_cpus,
        page_offset: None,
        source: match words.is_empty() {
            true => "slabyard record --kernel".into(),
            false => format!("slabyard record --kernel -- {}", words.join(" ")),
        },
    }
}

/// A hundredth of the machine's memory for all buffers together is not missed.
fn buffer_kib(snapshot: &Snapshot) -> u64 {
    let memory = snapshot.total("mem_total").and_then(|value| value.exact()).unwrap_or(0);
    let cpus = u64::from(snapshot.machine.online_cpus.unwrap_or(1)).max(1);
    ((memory / 100 / cpus) >> 10).clamp(1 << 10, BUFFER_KIB)
}

fn patterns(caches: &[String]) -> Result<Vec<Pattern>, Failure> {
    let parse = |text: &String| {
        text.parse().map_err(|error| Failure::Usage(format!("--caches {text}: {error}")))
    };
    caches.iter().map(parse).collect()
}

/// The names by which events may know the caches that were picked.
fn wanted(patterns: &[Pattern], snapshot: &Snapshot) -> Result<Option<Wanted>, Failure> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let mut names = HashSet::new();
    for cache in &snapshot.caches {
        if cache.names().any(|name| patterns.iter().any(|pattern| pattern.matches(name))) {
            names.extend(cache.names().map(str::to_owned));
        }
    }
    look::has_match(!names.is_empty(), &Named::Kernel, patterns)?;
    // Events tell the size of a `kmalloc`, and not of which family it is.
    let sizes: Vec<String> = names.iter().filter_map(|name| size_of(name)).collect();
    names.extend(sizes);
    Ok(Some(Box::new(move |name| names.contains(name))))
}

fn size_of(name: &str) -> Option<String> {
    let size = name.contains("kmalloc-").then(|| name.rsplit('-').next()).flatten()?;
    size.starts_with(|c: char| c.is_ascii_digit()).then(|| format!("kmalloc-{size}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_of_kmalloc_are_told_by_their_sizes() {
        assert_eq!(size_of("kmalloc-cg-64"), Some("kmalloc-64".into()));
        assert_eq!(size_of("dma-kmalloc-8k"), Some("kmalloc-8k".into()));
        assert_eq!(size_of("kmalloc-rnd-01-96"), Some("kmalloc-96".into()));
        assert_eq!((size_of("dentry"), size_of("kmalloc-x")), (None, None));
    }
}
