//! `slabyard record --kernel`: sets up the kernel's tracing, records events, and stores snapshots
//! from before and after in the file.

use super::args::RecordArgs;
use super::failures::{cannot_write, in_file, of_first_sample, refused, refused_to_user, written};
use super::guard::Guard;
use super::lists;
use super::named;
use super::wait::{self, CommandWait, RecordingEnd};
use crate::failure::Failure;
use crate::kernel_lists::{Moments, Reader};
use crate::look;
use crate::stderr::say;
use crate::terminal::{Progress, bytes, seconds};
use anyhow::Context;
use serde_json::json;
use slabyard_ask::Listener as _;
use slabyard_lab::record::{Error, Options, Progress as Far, Recorded, Recorder, Wanted};
use slabyard_lab::trace::{Attached, END, Header, RECORDING, SHRUNK, START, Writer};
use slabyard_observe::source::{ROOT, ReadScope, SourceName};
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

/// Records, and says how it went; the exit code is the command's.
pub fn record(args: &RecordArgs, output: &Path) -> Result<ExitCode, Failure> {
    let recording = Recording::new(args, output)?;
    let (events, mut waiting) = recording.run(recording.make_ready()?)?;
    let (command, shrinks) = (events.ended.command, events.shrinks);
    let recorded = recording.finish(events)?;
    report(output, &recorded, args);
    report_shrinks(&shrinks);
    let status = match command {
        Some(status) => Some(status),
        None => waiting.command()?,
    };
    Ok(status.map_or(ExitCode::SUCCESS, wait::code))
}

/// A recording: what was asked for, and the kernel's caches before anything was changed.
struct Recording<'a> {
    args: &'a RecordArgs,
    output: &'a Path,
    screen: Progress,
    patterns: Vec<Pattern>,
    first: Snapshot,
    buffer_kib: u64,
}

/// A kernel that is ready to be recorded. The guard ends last: it puts the kernel back.
struct KernelRecording {
    waiting: CommandWait,
    out: File,
    reader: Option<Reader>,
    shrinks: lists::Watch,
    recorder: Recorder,
    guard: Guard,
}

/// The events, which are written, and what comes behind them, which is not.
struct Events {
    recorded: Recorded,
    writer: Writer<Out>,
    shrinks: Shrunk,
    began: SystemTime,
    ended: RecordingEnd,
}

/// What others shrank meanwhile.
#[derive(Clone, Copy)]
struct Shrunk {
    told: u64,
    lost: u64,
}

impl<'a> Recording<'a> {
    fn new(args: &'a RecordArgs, output: &'a Path) -> Result<Recording<'a>, Failure> {
        let screen = Progress::new();
        screen.stage("making the kernel ready");
        let patterns = patterns(&args.caches)?;
        let first = sample().map_err(of_first_sample)?;
        let typed = args.buffer.map(|bytes| (bytes >> 10).max(4));
        let buffer_kib = typed.unwrap_or_else(|| buffer_kib(&first));
        Ok(Recording { args, output, screen, patterns, first, buffer_kib })
    }

    fn make_ready(&self) -> Result<KernelRecording, Failure> {
        let wanted = self.wanted()?;
        let guard = Guard::start()?;
        let options = Options {
            buffer_kib: self.buffer_kib,
            wanted,
            most_bytes: self.args.max_size,
            probes: !self.args.no_probes,
        };
        let recorder = Recorder::new(options).map_err(refused_to_user)?;
        tell_lacking(&recorder);
        let reader = (!self.args.no_lists).then(lists::open).flatten();
        let out = File::create(self.output).with_context(|| cannot_write(self.output))?;
        let (waiting, shrinks) = (CommandWait::new()?, lists::Watch::new());
        Ok(KernelRecording { waiting, out, reader, shrinks, recorder, guard })
    }

    /// Records until the command has ended, or whatever else ends it.
    fn run(&self, ready: KernelRecording) -> Result<(Events, CommandWait), Failure> {
        let KernelRecording { mut waiting, out, mut reader, mut shrinks, recorder, guard } = ready;
        if !self.args.no_shrink {
            shrink(&self.first);
        }
        let began = SystemTime::now();
        let start = sample()?;
        let header = header(&start, self.args);
        let attached = vec![attached(START, 0, &start)?];
        let running = recorder.start(BufWriter::new(out), header, attached).map_err(refused)?;
        let (far, wanted) = (running.progress(), self.wanted()?);
        let lists = reader.as_mut().and_then(|reader| {
            let begin = || lists::tell_own(running.leave_out_this_thread());
            let moments = Moments { begin: &begin, now: &|| far.now() };
            lists::read(reader, &start, wanted.as_ref(), moments)
        });
        lists.into_iter().for_each(|lists| running.attach(lists));
        running.begin();
        let mut look = || shrinks.look(&running, wanted.as_ref());
        let ended = self.wait(&mut waiting, far, &mut look);
        look();
        // It sees the recorder's own shrink no more.
        let shrunk = Shrunk { told: shrinks.attached, lost: shrinks.lost() };
        drop(shrinks);
        let stopped = running.stop();
        drop(guard);
        self.screen.clear();
        let ended = ended?;
        let (recorded, writer) = stopped.map_err(|error| match error {
            Error::Trace(error) => written(self.output, error),
            error => refused(error),
        })?;
        Ok((Events { recorded, writer, shrinks: shrunk, began, ended }, waiting))
    }

    /// Starts the command, and waits for the end.
    fn wait(
        &self,
        waiting: &mut CommandWait,
        far: &Far,
        look: &mut dyn FnMut(),
    ) -> Result<RecordingEnd, Failure> {
        waiting.start(&self.args.command)?;
        waiting.wait(self.args.duration, || {
            look();
            let lost = far.lost();
            let lost = if lost == 0 { String::new() } else { format!(", {lost} lost") };
            let size = bytes(Some(far.bytes()));
            self.screen.stage(&format!("recording: {} events in {size}{lost}", far.events()));
            far.is_over()
        })
    }

    /// Writes what comes behind the events, and names the caches of a kernel that did not.
    fn finish(&self, events: Events) -> Result<Recorded, Failure> {
        let facts = self.facts(&events);
        let Events { mut recorded, writer, .. } = events;
        let attached = self.attach(writer, recorded.took_ns, facts);
        attached.map_err(|failure| in_file(self.output, failure))?;
        if recorded.unnamed {
            self.screen.stage("naming the caches");
            recorded.events = named::name_caches(self.output, &self.first, self.wanted()?)?;
            self.screen.clear();
        }
        Ok(recorded)
    }

    fn attach(&self, mut writer: Writer<Out>, time: u64, facts: Vec<u8>) -> Result<(), Failure> {
        let put = |writer: &mut Writer<Out>, attached: Attached| {
            writer.attach(&attached).map_err(|error| Failure::from(anyhow::Error::from(error)))
        };
        let end = attached(END, time, &sample()?)?;
        put(&mut writer, end)?;
        if !self.args.no_shrink {
            shrink(&self.first);
            put(&mut writer, attached(SHRUNK, time, &sample()?)?)?;
        }
        put(&mut writer, Attached { name: RECORDING.into(), time, bytes: facts })?;
        writer.finish().map_err(anyhow::Error::from)?;
        Ok(())
    }

    /// How it was recorded, for who reads the file later.
    fn facts(&self, events: &Events) -> Vec<u8> {
        let Events { recorded, shrinks, began, ended, .. } = events;
        let since = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let command: Vec<_> = self.args.command.iter().map(|it| it.to_string_lossy()).collect();
        let facts = json!({
            "recorder": concat!("slabyard ", env!("CARGO_PKG_VERSION")),
            "of": "kernel",
            "began_unix_ms": u64::try_from(since.as_millis()).unwrap_or(0),
            "took_ns": recorded.took_ns,
            "command": command,
            "exit": ended.command.and_then(|status| status.code()),
            "caches": self.args.caches,
            "buffer_kib": self.buffer_kib,
            "events": recorded.events,
            "lost": recorded.lost,
            "left_out": recorded.left_out,
            "full": recorded.full,
            "shrinks": shrinks.told,
            "shrinks_lost": shrinks.lost,
        });
        facts.to_string().into_bytes()
    }

    /// The names by which events may know the caches that were picked.
    fn wanted(&self) -> Result<Option<Wanted>, Failure> {
        if self.patterns.is_empty() {
            return Ok(None);
        }
        let mut names = HashSet::new();
        for cache in &self.first.caches {
            if cache.names().any(|name| self.patterns.iter().any(|it| it.matches(name))) {
                names.extend(cache.names().map(str::to_owned));
            }
        }
        look::has_match(!names.is_empty(), &SourceName::Kernel, &self.patterns)?;
        // Events tell the size of a `kmalloc`, and not of which family it is.
        let sizes: Vec<String> = names.iter().filter_map(|name| size_of(name)).collect();
        names.extend(sizes);
        Ok(Some(Box::new(move |name| names.contains(name))))
    }
}

/// Says how it went.
fn report(output: &Path, recorded: &Recorded, args: &RecordArgs) {
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

/// Says what others did to the caches, which no event tells.
fn report_shrinks(shrinks: &Shrunk) {
    let Shrunk { told, lost } = *shrinks;
    if told > 0 {
        say(&format!(
            "others shrank caches {told} times meanwhile: the file tells which and when, and a \
             replay shrinks them too"
        ));
    }
    if lost > 0 {
        say(&format!(
            "others shrank more caches, too fast to be told, {lost} times: figures of this trace are \
             uncertain"
        ));
    }
}

/// What share of all events was the recorder's own; `None` if there was none.
fn share(recorded: &Recorded) -> Option<String> {
    let all = recorded.left_out + recorded.events;
    (recorded.left_out > 0)
        .then(|| format!("{:.1} %", recorded.left_out as f64 * 100.0 / all as f64))
}

fn sample() -> Result<Snapshot, Failure> {
    look::sample(&SourceName::Kernel, ReadScope { all: true, slabs: false })
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

/// Says which calls leave no event in the file.
fn tell_lacking(recorder: &Recorder) {
    let lost =
        "objects of kfree_rcu(), of calls in bulk and of prefilled sheaves are known by guesses";
    match recorder.lacking() {
        (_, Some(error)) => {
            say(&format!("{lost}: the kernel has no probes: kprobe_events: {error}"))
        }
        ([], None) => {}
        (calls, None) => {
            say(&format!("the kernel does not let these calls be probed: {}", calls.join(", ")))
        }
    }
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
