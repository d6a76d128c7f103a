//! The recorder: sets up the kernel's tracing, and runs the readers and the merger, which writes the
//! file.
//!
//! Invariants: the replay's initial state precedes the first event in the file, and is written out
//! within a second of [`Running::begin`]. If the recorder is killed or its disk is full, at most
//! the last second of events is missing.

use super::error::Error;
use super::kmem::{EVENTS, Layouts, MOVABLE, is_optional};
use super::layout::Page;
use super::merge::Merge;
use super::merger::{BesideEvents, Merger};
use super::own_runs::OwnRuns;
use super::probes::Probes;
use super::progress::Progress;
use super::reader::{self, Reader};
use super::sieve::{Sieve, Wanted};
use super::tracefs::{self, TraceInstance, Tracefs};
use crate::trace::{Attached, Header, Writer};
use slabyard_observe::kernel::Symbols;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// Batches that may wait for the merger, of all CPUs together.
const WAITING: usize = 64;

/// What to record.
pub struct Options {
    /// KiB of the buffer of each CPU.
    pub buffer_kib: u64,
    /// The caches to be recorded; all if `None`.
    pub wanted: Option<Wanted>,
    /// The file may not grow beyond about so many bytes.
    pub most_bytes: Option<u64>,
    /// Also what only probes tell: `kfree_rcu()`, calls in bulk, and prefilled sheaves.
    pub probes: bool,
}

/// The kernel is set up, and records nothing yet.
pub struct Recorder {
    // Dropped before the instance, which the kernel keeps while a file of it is open.
    readers: Vec<Reader>,
    instance: TraceInstance,
    // After the instance, which uses them and is in the tracefs that they keep.
    probes: Probes,
    no_probes: Option<io::Error>,
    own_runs: OwnRuns,
    options: Options,
    unnamed: bool,
}

/// The end of a recording: what was written, and what was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Events in the file.
    pub events: u64,
    /// Events that the kernel could not keep.
    pub lost: u64,
    /// Events of the recorder itself that the kernel kept, and which are not in the file.
    pub left_out: u64,
    /// Nanoseconds from the start to the stop.
    pub took_ns: u64,
    /// The file would have become larger than it may.
    pub full: bool,
    /// The kernel named no caches in allocations: the file is to be passed through
    /// [`crate::edit::named`], which picks the caches as well.
    pub unnamed: bool,
}

/// It records.
pub struct Running<W: Write> {
    recorder: Recorder,
    start: u64,
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
    readers: Vec<JoinHandle<Result<(), Error>>>,
    merger: JoinHandle<Result<(Writer<W>, bool), Error>>,
    beside: Sender<BesideEvents>,
}

impl Recorder {
    /// Makes an instance in tracefs, and sets it up.
    ///
    /// # Errors
    /// The kernel does not let us, or has not what is needed.
    pub fn new(options: Options) -> Result<Recorder, Error> {
        let tracefs = Arc::new(Tracefs::open()?);
        tracefs::sweep(&tracefs)?;
        // Before the instance: what fails below removes the instance first.
        let mut probes = Probes::new(tracefs.clone());
        let instance = TraceInstance::create(&tracefs)?;
        instance.set("tracing_on", "0")?;
        // What system calls can ask for as well.
        instance.set("trace_clock", "mono")?;
        let kib = options.buffer_kib;
        instance.set("buffer_size_kb", &kib.to_string()).map_err(|_| Error::Buffers { kib })?;
        // Wakes a reader when a quarter is full; a kernel without it wakes with every page.
        let _ = instance.set("buffer_percent", "25");
        let page = instance_page(&tracefs)?;
        let no_probes = options.probes.then(|| probes.set()).and_then(Result::err);
        let layouts = Arc::new(Layouts::of(&instance, &probes)?);
        let symbols = Arc::new(Symbols::of_kernel());
        let own_runs = OwnRuns::of(&symbols);
        let filter = format!("!(gfp_flags & {MOVABLE:#x})");
        instance.set("events/kmem/mm_page_alloc/filter", &filter)?;
        for (event, _) in EVENTS {
            let file = format!("events/kmem/{event}/enable");
            if instance.join(&file).exists() || !is_optional(event) {
                instance.set(&file, "1")?;
            }
        }
        probes.enable(&instance)?;
        let unnamed = !layouts.name_caches();
        let mut readers = Vec::new();
        for cpu in cpus(&instance)? {
            let (path, file) = reader::open(&instance, cpu)?;
            let (layouts, symbols) = (layouts.clone(), symbols.clone());
            readers.push(Reader { cpu, path, file, page, layouts, symbols });
        }
        Ok(Recorder { readers, instance, probes, no_probes, own_runs, options, unnamed })
    }

    /// Which calls without a tracepoint are not recorded: those that cannot be probed, or all on a
    /// kernel without probes, and its error.
    pub fn lacking(&self) -> (&[&'static str], Option<&io::Error>) {
        (&self.probes.lacking, self.no_probes.as_ref())
    }

    /// Records into `out` from now on; the file begins with [`Running::begin`]. `attached` is written
    /// before the first event.
    ///
    /// # Errors
    /// The kernel does not let us.
    pub fn start<W: Write + Send + 'static>(
        mut self,
        out: W,
        header: Header,
        attached: Vec<Attached>,
    ) -> Result<Running<W>, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let progress = Arc::new(Progress::default());
        let (to, from) = sync_channel(WAITING);
        let readers = std::mem::take(&mut self.readers);
        let merge = Merge::new(readers.iter().map(|reader| reader.cpu));
        let run = |reader: Reader| {
            let (stop, to, progress) = (stop.clone(), to.clone(), progress.clone());
            thread::spawn(move || {
                favour();
                let done = reader.run(&stop, &to);
                if done.is_err() {
                    progress.set_over();
                }
                done
            })
        };
        let readers: Vec<_> = readers.into_iter().map(run).collect();
        drop(to);
        let start = reader::now();
        progress.start.store(start, Ordering::Relaxed);
        self.instance.set("tracing_on", "1")?;
        let sieve = Sieve::new(self.options.wanted.take().filter(|_| !self.unnamed));
        let most_bytes = self.options.most_bytes.unwrap_or(u64::MAX);
        let work = Merger::new(merge, sieve, start, most_bytes, progress.clone());
        let (beside, to_attach) = channel();
        let shared = progress.clone();
        let merger = thread::spawn(move || {
            favour();
            let done = work.run(&from, out, header, attached, &to_attach);
            shared.set_over();
            done
        });
        Ok(Running { recorder: self, start, stop, progress, readers, merger, beside })
    }
}

impl<W: Write> Running<W> {
    /// How far it came.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// From now to [`Running::begin`], leaves out what the calling thread allocates with `kmalloc`,
    /// and its frees: it works for the recorder. What its BPF runs do takes no room in the kernel's
    /// buffers.
    ///
    /// # Errors
    /// The kernel does not let us: these events take room, and are left out later.
    pub fn leave_out_this_thread(&self) -> Result<(), Error> {
        let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        self.progress.begin_own(own);
        self.recorder.own_runs.leave_out(&self.recorder.instance, own)
    }

    /// Puts something into the file: in front of the events before [`Running::begin`], later behind
    /// those that are written.
    pub fn attach(&self, attached: Attached) {
        // A merger that ended tells why in the end.
        let _ = self.beside.send(BesideEvents::Attached(attached));
    }

    /// The time of the trace at a moment of the clock of the events; `None` before its start.
    pub fn since_start(&self, clock_ns: u64) -> Option<u64> {
        clock_ns.checked_sub(self.start)
    }

    /// Has the file begin: what is attached from now on comes between the events.
    pub fn begin(&self) {
        self.progress.end_own();
        OwnRuns::record_all(&self.recorder.instance);
        let _ = self.beside.send(BesideEvents::Begin);
    }

    /// Stops recording, and writes what is still in the buffers. The writer takes what is to be
    /// attached.
    ///
    /// # Errors
    /// Something went wrong while it recorded.
    pub fn stop(self) -> Result<(Recorded, Writer<W>), Error> {
        self.recorder.instance.set("tracing_on", "0")?;
        let took_ns = reader::now() - self.start;
        drop(self.beside);
        self.stop.store(true, Ordering::Release);
        let read: Result<Vec<()>, Error> = self.readers.into_iter().map(joined).collect();
        let (mut writer, full) = joined(self.merger)?;
        read?;
        let known = self.progress.lost();
        let lost = if full { known } else { known.max(lost(&self.recorder.instance)?) };
        // What was lost behind the last event has no page that tells.
        writer.lost(lost - known);
        let (events, unnamed) = (self.progress.events(), self.recorder.unnamed);
        let left_out = self.progress.left_out.load(Ordering::Relaxed);
        Ok((Recorded { events, lost, left_out, took_ns, full, unnamed }, writer))
    }
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The recorder is not to wait behind the load that it records. Without the right to that it
/// waits like any other.
pub fn favour() {
    let _ = rustix::process::setpriority_process(None, -20);
}

fn instance_page(tracefs: &Tracefs) -> Result<Page, Error> {
    let path = tracefs.root().join("events/header_page");
    let text = tracefs::read(&path).map_err(|error| Error::at(&path, error))?;
    let what = "the kernel describes it in a way that is not known";
    Page::parse(&text).ok_or(Error::Page { cpu: 0, what })
}

fn cpus(instance: &TraceInstance) -> Result<Vec<u16>, Error> {
    let path = instance.join("per_cpu");
    let entries = fs::read_dir(&path).map_err(|error| Error::at(&path, error))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut cpus: Vec<u16> = names.filter_map(|n| n.strip_prefix("cpu")?.parse().ok()).collect();
    cpus.sort_unstable();
    Ok(cpus)
}

/// What the kernel counts itself of events that it could not keep.
fn lost(instance: &TraceInstance) -> Result<u64, Error> {
    let mut lost = 0;
    for cpu in cpus(instance)? {
        let text = instance
            .read(Path::new("per_cpu").join(format!("cpu{cpu}/stats")).to_str().unwrap_or(""))?;
        let count = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        lost += count("overrun:") + count("dropped events:");
    }
    Ok(lost)
}
