//! The recorder: sets up the kernel's tracing, runs the readers and the merger, and writes the
//! file.
//!
//! Invariants: the replay's initial state precedes the first event in the file, and is written out
//! within a second of [`Running::begin`]. If the recorder is killed or its disk is full, at most
//! the last second of events is missing.

use super::error::Error;
use super::kmem::{EVENTS, Layouts, MOVABLE, is_optional};
use super::layout::Page;
use super::merge::Merge;
use super::own_runs::OwnRuns;
use super::probes::Probes;
use super::reader::{self, Batch, Reader};
use super::sieve::{RecorderObjects, RecorderThread, Sieve, Wanted};
use super::symbols::Symbols;
use super::tracefs::{self, TraceInstance, Tracefs};
use crate::event::Event;
use crate::trace::{self, Attached, Frames, Header, Writer};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Batches that may wait for the merger, of all CPUs together.
const WAITING: usize = 64;
/// Events that the page frames' base is found from, before the file begins.
const FIRST: usize = 1 << 17;
/// So long the file waits for these, and events for their chunk to become full.
const PATIENCE: Duration = Duration::from_secs(1);
/// zstd's level: the recorder must keep up with the machine that it runs on. Levels above cost
/// more time than the kernel's own part of a recording.
const LEVEL: i32 = 1;

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

/// How far it came.
#[derive(Default)]
pub struct Progress {
    start: AtomicU64,
    events: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    over: AtomicBool,
    /// [`RecorderThread`], in two words.
    own: AtomicU32,
    own_until: AtomicU64,
    left_out: AtomicU64,
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

/// What the file is to hold beside the events.
enum BesideEvents {
    Attached(Attached),
    /// All that is to stand before the first event has come.
    Begin,
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
                    progress.over.store(true, Ordering::Release);
                }
                done
            })
        };
        let readers: Vec<_> = readers.into_iter().map(run).collect();
        drop(to);
        let start = reader::now();
        progress.start.store(start, Ordering::Relaxed);
        self.instance.set("tracing_on", "1")?;
        let work = MergerState {
            merge,
            sieve: Sieve::new(self.options.wanted.take().filter(|_| !self.unnamed)),
            own: RecorderObjects::default(),
            names: trace::Names::new(),
            start,
            most_bytes: self.options.most_bytes.unwrap_or(u64::MAX),
            progress: progress.clone(),
        };
        let (beside, to_attach) = channel();
        let merger = thread::spawn(move || {
            favour();
            let progress = work.progress.clone();
            let done = work.run(&from, out, header, attached, &to_attach);
            progress.over.store(true, Ordering::Release);
            done
        });
        Ok(Running { recorder: self, start, stop, progress, readers, merger, beside })
    }
}

impl Progress {
    /// Nanoseconds since the trace began.
    pub fn now(&self) -> u64 {
        reader::now().saturating_sub(self.start.load(Ordering::Relaxed))
    }

    /// Events in the file so far.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Bytes of the file so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Events lost so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// True if it ended by itself: the file is full, or something went wrong.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn own(&self) -> RecorderThread {
        // Pairs with the store in `leave_out_this_thread`.
        let number = self.own.load(Ordering::Acquire);
        RecorderThread { number, until: self.own_until.load(Ordering::Relaxed) }
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
        self.progress.own_until.store(u64::MAX, Ordering::Relaxed);
        self.progress.own.store(own, Ordering::Release);
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
        self.progress.own_until.store(reader::now(), Ordering::Relaxed);
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

/// What the merger works with.
struct MergerState {
    merge: Merge,
    sieve: Sieve,
    own: RecorderObjects,
    names: trace::Names,
    start: u64,
    most_bytes: u64,
    progress: Arc<Progress>,
}

impl MergerState {
    /// The writer, and true if the file became as large as it may.
    fn run<W: Write>(
        mut self,
        from: &Receiver<Batch>,
        out: W,
        header: Header,
        mut attached: Vec<Attached>,
        beside: &Receiver<BesideEvents>,
    ) -> Result<(Writer<W>, bool), Error> {
        let mut ordered = Vec::new();
        let mut lost = 0;
        let mut ended = self.until_begun(from, beside, &mut attached, (&mut ordered, &mut lost));
        let frames = Frames::detect(&ordered);
        let header = Header { page_offset: frames.map(|f| f.page_offset), ..header };
        let mut writer = Writer::new(out, &header)?.with_level(LEVEL);
        for attached in &attached {
            writer.attach(attached)?;
        }
        let mut written = Instant::now();
        loop {
            writer.lost(std::mem::take(&mut lost));
            std::mem::swap(writer.names(), &mut self.names);
            for event in ordered.drain(..) {
                writer.push(&event)?;
            }
            if written.elapsed() >= PATIENCE {
                writer.flush()?;
                written = Instant::now();
            }
            while let Ok(BesideEvents::Attached(attached)) = beside.try_recv() {
                writer.attach(&attached)?;
            }
            std::mem::swap(writer.names(), &mut self.names);
            self.progress.bytes.store(writer.bytes(), Ordering::Relaxed);
            let full = writer.bytes() >= self.most_bytes;
            if ended || full {
                *writer.names() = self.names;
                return Ok((writer, full));
            }
            ended = !self.next(from, &mut ordered, &mut lost);
        }
    }

    /// Collects the first events, in which the base of the page frames shows, which stands in the
    /// header; and what is attached before them. True if there are no more events.
    fn until_begun(
        &mut self,
        from: &Receiver<Batch>,
        beside: &Receiver<BesideEvents>,
        attached: &mut Vec<Attached>,
        (ordered, lost): (&mut Vec<Event>, &mut u64),
    ) -> bool {
        let mut ended = false;
        let mut begun: Option<Instant> = None;
        loop {
            match beside.try_recv() {
                Ok(BesideEvents::Attached(one)) => attached.push(one),
                Ok(BesideEvents::Begin) | Err(TryRecvError::Disconnected) => {
                    begun.get_or_insert_with(Instant::now);
                }
                Err(TryRecvError::Empty) => {}
            }
            let has_waited = begun.is_some_and(|begun| begun.elapsed() >= PATIENCE);
            if begun.is_some() && (ended || has_waited || ordered.len() >= FIRST) {
                return ended;
            }
            if ended || ordered.len() >= FIRST {
                // It is to begin with what is still to come.
                match beside.recv() {
                    Ok(BesideEvents::Attached(one)) => attached.push(one),
                    Ok(BesideEvents::Begin) | Err(_) => begun = Some(Instant::now()),
                }
                continue;
            }
            ended = !self.next(from, ordered, lost);
        }
    }

    /// Takes the next batch, and gives what is complete with it; false at the end.
    fn next(&mut self, from: &Receiver<Batch>, ordered: &mut Vec<Event>, lost: &mut u64) -> bool {
        let Ok(batch) = from.recv() else { return false };
        *lost += batch.lost;
        self.progress.lost.fetch_add(batch.lost, Ordering::Relaxed);
        self.merge.add(batch, &mut self.names);
        let before = ordered.len();
        let mut complete = Vec::new();
        self.merge.complete(&mut complete);
        let own = self.progress.own();
        for event in complete {
            if self.own.takes(&event, own) {
                self.progress.left_out.fetch_add(1, Ordering::Relaxed);
            } else if self.sieve.passes(&event, &self.names) {
                ordered.push(Event { time: event.time.saturating_sub(self.start), ..event });
            }
        }
        self.progress.events.fetch_add((ordered.len() - before) as u64, Ordering::Relaxed);
        true
    }
}
