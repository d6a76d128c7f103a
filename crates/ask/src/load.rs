//! Loads the inputs of a replay: the trace, the snapshot taken at its start, and the settings of
//! the machine to replay it on.
//!
//! Invariants: a malformed, too new, truncated or damaged file is an error, whose message says what
//! to do; with `--partial` the readable part is used, and each gap is reported.

use crate::files::{self, shown};
use crate::{Error, Listener, Wanted};
use anyhow::{Context, anyhow};
use slabyard_lab::import;
use slabyard_lab::lists::json;
use slabyard_lab::malloc;
use slabyard_lab::rules::{Machine, Settings};
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_lab::trace::{
    self, Attached, Events, LISTS, LOAD, LONG, MALLOC, START, Source, Trace,
};
use slabyard_observe::file;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A trace, and what it begins with.
#[derive(Clone, Debug, Default)]
pub struct TraceFile {
    /// A file of ours, a CSV, or a load's text; `-` is standard input.
    pub file: PathBuf,
    /// The snapshot taken just before the trace; `None`: the one in the trace, or beside it.
    pub start: Option<PathBuf>,
    /// The dump in the snapshot's file.
    pub dump: Option<String>,
    /// Begin as if no lists had been read out of the kernel.
    pub no_lists: bool,
    /// Take what is left of a trace that was cut off or damaged.
    pub partial: bool,
}

/// All that was read.
pub struct Loaded {
    /// Its events, which stay in the file if they are many.
    pub trace: Source,
    /// The caches at its start.
    pub snapshot: KernelSnapshot,
    /// The file of the snapshot that the trace begins with.
    pub start: PathBuf,
    /// The rules and the machine that were asked for.
    pub settings: Settings,
    /// The machine that the trace is from, as far as is known.
    pub traced: Machine,
    /// No kernel had its slabs: it is of a process's malloc, or a load's.
    pub is_without_slabs: bool,
}

/// Reads the trace, all of it; tells what is missing in it.
pub fn trace(args: &TraceFile, listener: &dyn Listener) -> Result<Trace, Error> {
    let mut source = source(args, u64::MAX, listener)?;
    Ok(source.take_whole().context("cannot read the trace")?)
}

/// Opens the trace, whose events stay in its file if they are so many; tells what is missing in it.
fn source(args: &TraceFile, long: u64, listener: &dyn Listener) -> Result<Source, Error> {
    let file = shown(&args.file);
    listener.stage(&format!("reading {file}"));
    let trace = if files::is_stdin(&args.file) {
        Source::read_long(io::stdin().lock(), long).map_err(|error| anyhow!("{file}: {error}"))
    } else {
        import::open_long(&args.file, long).map_err(anyhow::Error::from)
    };
    let trace = trace.context("cannot read the trace")?;
    listener.clear();
    if let (true, Events::Stored(_)) = (files::is_stdin(&args.file), trace.events()) {
        let at = std::env::temp_dir();
        listener
            .say(&format!("{file} is long, and kept in a file without a name in {}", at.display()));
    }
    for damage in trace.damaged.iter().filter(|_| args.partial) {
        listener.say(&format!("{file} is damaged: {damage}"));
    }
    if let Some(damage) = trace.damaged.first().filter(|_| !args.partial) {
        let left = trace.nr_events();
        let more = match trace.damaged.len() - 1 {
            0 => String::new(),
            1 => " (and in 1 more place)".into(),
            n => format!(" (and in {n} more places)"),
        };
        return Err(anyhow!(
            "{file} is damaged: {damage}{more}; copy it again from where it was recorded, or add \
             --partial to take the {left} events that are left"
        )
        .into());
    }
    if trace.lost > 0 {
        listener.say(&format!("{file}: {} events were lost while it was recorded", trace.lost));
    }
    if are_missing(&trace) {
        listener.say("events are missing, so that all figures are uncertain");
    }
    Ok(trace)
}

/// As far as the trace itself tells.
pub fn are_missing(trace: &Source) -> bool {
    trace.lost > 0 || trace.damaged.iter().any(|damage| damage.events != Some(0))
}

/// Reads trace and snapshot, and finds the settings.
pub fn load(args: &TraceFile, wanted: &Wanted, listener: &dyn Listener) -> Result<Loaded, Error> {
    // Found before the trace is read, which may take long.
    is_there(args)?;
    let place = match attachments(args)? {
        Attachments::Start | Attachments::Unknown => None,
        Attachments::Nothing => Some(place(args, listener)?),
    };
    let mut trace = source(args, LONG, listener)?;
    let unread = |attached: &Attached| attached.name == LISTS && args.no_lists;
    trace.attached.retain(|attached| !unread(attached));
    if let Some(lists) = trace.attachment(LISTS)
        && json::read(&lists.bytes).is_none()
    {
        let file = shown(&args.file);
        return Err(anyhow!("the lists in {file} make no sense; replay without: --no-lists").into());
    }
    let is_made = [MALLOC, LOAD].into_iter().any(|name| trace.attachment(name).is_some());
    let is_without_slabs = place.is_none() && is_made;
    let (start, snapshot) = match (place, trace.attachment(START)) {
        (Some((start, dump)), _) => {
            listener.stage(&format!("reading {}", shown(&start)));
            let snapshot = open(&start, dump.as_deref())?;
            listener.clear();
            (start, snapshot)
        }
        (None, Some(start)) => (args.file.clone(), in_trace(args, start)?),
        (None, None) => match trace.attachment(MALLOC) {
            Some(start) => {
                let snapshot = in_trace(args, start)?;
                trace = calls_placed(trace, listener)?;
                (args.file.clone(), snapshot)
            }
            None => {
                let (start, dump) = self::place(args, listener)?;
                let snapshot = open(&start, dump.as_deref())?;
                (start, snapshot)
            }
        },
    };
    belong_together(&trace, &snapshot, listener)?;
    let (settings, traced) = wanted.of_trace(&trace, &snapshot, listener)?;
    Ok(Loaded { trace, snapshot, start, settings, traced, is_without_slabs })
}

/// Says of a trace that is not there that it is not, and not that it has no snapshot.
fn is_there(args: &TraceFile) -> Result<(), Error> {
    let file = args.file.display();
    if !files::is_stdin(&args.file) {
        fs::metadata(&args.file)
            .with_context(|| format!("{file}"))
            .context("cannot read the trace")?;
    } else if args.start.as_deref().is_some_and(files::is_stdin) {
        let text = "standard input is the trace or the snapshot, not both";
        return Err(Error::Usage(text.into()));
    }
    Ok(())
}

/// The snapshot of `--start`, or the one beside the trace; read for `--convert`,
/// which does without if there is none.
pub fn snapshot_if_any(
    args: &TraceFile,
    listener: &dyn Listener,
) -> Result<Option<KernelSnapshot>, Error> {
    is_there(args)?;
    if let Attachments::Start = attachments(args)? {
        return Ok(None);
    }
    match place(args, listener) {
        Ok((start, dump)) => open(&start, dump.as_deref()).map(Some),
        Err(_) if args.start.is_none() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// What a trace's file holds beside the events, as far as it is known before it is read.
enum Attachments {
    /// The snapshot that it begins with, and none was typed.
    Start,
    Nothing,
    /// It can be read but once.
    Unknown,
}

fn attachments(args: &TraceFile) -> Result<Attachments, Error> {
    if args.start.is_some() {
        return Ok(Attachments::Nothing);
    }
    let is_file = fs::metadata(&args.file).is_ok_and(|meta| meta.is_file());
    if files::is_stdin(&args.file) || !is_file {
        return Ok(Attachments::Unknown);
    }
    if import::holds_caches(&args.file) {
        return Ok(Attachments::Start);
    }
    // What is wrong with the file is told when it is read.
    let attached = trace::attached(&args.file).unwrap_or_default();
    let start = attached.iter().any(|attached| attached.name == START || attached.name == MALLOC);
    Ok(if start { Attachments::Start } else { Attachments::Nothing })
}

/// A process's trace as one of a kernel whose caches are malloc's classes.
fn calls_placed(mut trace: Source, listener: &dyn Listener) -> Result<Source, Error> {
    let (placed, left) = malloc::placed(&trace.take_whole().context("cannot read the trace")?);
    let malloc::LeftOut { large, unknown, missed } = left;
    listener.say(&format!(
        "the trace is of a process's malloc: {large} allocations above the largest class and \
         {unknown} frees of theirs or of what was there before are left out"
    ));
    if missed > 0 {
        listener.say(&format!("{missed} objects were allocated again and never freed"));
    }
    Ok(placed.into())
}

/// The snapshot that a trace holds itself.
fn in_trace(args: &TraceFile, start: &Attached) -> Result<KernelSnapshot, Error> {
    let snapshots = KernelSnapshot::parse(&start.bytes);
    let mut snapshots = snapshots
        .with_context(|| format!("the snapshot in {}", shown(&args.file)))
        .context("the snapshot cannot be used; give another one as --start SNAPSHOT")?;
    snapshots.pop().ok_or_else(|| anyhow!("{} holds an empty snapshot", shown(&args.file)).into())
}

/// The snapshot's file, and the dump in it.
fn place(args: &TraceFile, listener: &dyn Listener) -> Result<(PathBuf, Option<String>), Error> {
    let Some(typed) = &args.start else {
        if files::is_stdin(&args.file) {
            let text = "nothing is beside standard input: give the snapshot that was taken just \
                        before the trace as --start SNAPSHOT";
            return Err(Error::Usage(text.into()));
        }
        let beside = beside(&args.file);
        let found = beside.iter().find(|path| path.is_file());
        let found = found.ok_or_else(|| Error::Usage(no_snapshot(&beside)))?;
        listener.say(&format!("starts from {}, found beside the trace", found.display()));
        return Ok((found.clone(), args.dump.clone()));
    };
    Ok(match &args.dump {
        Some(dump) => (typed.clone(), Some(dump.clone())),
        None => file::dump_of(typed),
    })
}

/// Where a trace's snapshot is looked for: `NAME.before.json`, for `NAME.slabtrace`.
fn beside(file: &Path) -> Vec<PathBuf> {
    let mut name = file.to_owned();
    for extension in ["zst", "csv", "slabtrace"] {
        if name.extension().is_some_and(|e| e == extension) {
            name.set_extension("");
        }
    }
    let with = |end: &str| {
        let mut path = name.clone().into_os_string();
        path.push(end);
        path.into()
    };
    vec![with(".before.json"), with(".before.json.zst")]
}

fn no_snapshot(looked: &[PathBuf]) -> String {
    let looked: Vec<String> = looked.iter().map(|path| path.display().to_string()).collect();
    format!(
        "a trace does not tell its caches' sizes nor what was there before: give the snapshot that \
         was taken just before it as --start SNAPSHOT ({} not found); `slabyard replay --help` \
         shows how to take one",
        looked.join(" and ")
    )
}

fn open(path: &Path, dump: Option<&str>) -> Result<KernelSnapshot, Error> {
    let file = shown(path);
    let snapshots = files::snapshots(path)
        .context("the snapshot cannot be used; `slabyard replay --help` shows how to take one")?;
    files::one_of(snapshots, &file, dump, "with --dump")
}

/// A trace and a snapshot of two machines make nonsense.
fn belong_together(
    trace: &Source,
    snapshot: &KernelSnapshot,
    listener: &dyn Listener,
) -> Result<(), Error> {
    let header = &trace.header;
    let differ = |what: &str, trace: &str, snapshot: &str| {
        anyhow!(
            "trace and snapshot are of different machines: {what}, {trace} in the trace and \
             {snapshot} in the snapshot; give the snapshot that was taken before this trace"
        )
    };
    if let Some(page_size) = header.page_size.filter(|size| *size != snapshot.page_size) {
        let (ours, theirs) = (page_size.to_string(), snapshot.page_size.to_string());
        return Err(differ("bytes of a page", &ours, &theirs).into());
    }
    let possible = snapshot.machine().map(|machine| machine.possible_cpus);
    if let (Some(cpus), Some(possible)) = (header.cpus, possible)
        && cpus > possible
    {
        return Err(differ("CPUs", &cpus.to_string(), &possible.to_string()).into());
    }
    if let Some(kernel) = snapshot.kernel.as_deref()
        && !header.release.is_empty()
        && !header.release.starts_with(kernel)
        && !kernel.starts_with(&header.release)
    {
        let release = &header.release;
        listener.say(&format!("the trace is of kernel {release}, the snapshot of {kernel}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_looked_for_beside_its_trace() {
        for file in ["/d/a.b.slabtrace", "/d/a.b.csv", "/d/a.b.csv.zst", "/d/a.b"] {
            let want = ["/d/a.b.before.json", "/d/a.b.before.json.zst"];
            assert_eq!(beside(Path::new(file)), want.map(PathBuf::from), "{file}");
        }
    }
}
