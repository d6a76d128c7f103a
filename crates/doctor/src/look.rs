//! Everything that is read of a source at one moment.
//!
//! Neighbours: `slabyard_observe` reads; [`crate::mappings`] says what a process's mappings are, and
//! [`crate::kernel_files`] reads what a kernel tells beside its slabs. Invariant: what could not be
//! read is in [`Look::missing`], and is guessed nowhere.

use crate::kernel_files::KernelFiles;
use crate::recording::Recording;
use slabyard_lab::trace;
use slabyard_observe::process::{self, Residence};
use slabyard_observe::profile::Profile;
use slabyard_observe::smaps::{self, Mapping};
use slabyard_observe::snapshot::{Missing, SourceKind};
use slabyard_observe::source::{self, ReadScope, SourceName};
use slabyard_observe::timeline::{self, Timeline};
use slabyard_observe::traces::Traces;
use slabyard_observe::{Snapshot, file, kernel};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What no rule judges: it is not missed.
const UNUSED: [&str; 3] = ["counters", "failslab", "skip_kfence"];

/// A source at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    /// As people typed it.
    pub source: SourceName,
    /// Milliseconds since 1970.
    pub taken_at_ms: u64,
    /// What its allocator tells; `None` of a process that does not run on Slabyard.
    pub snapshot: Option<Snapshot>,
    /// What the system tells of a process.
    pub process: Option<ProcessLook>,
    /// What a kernel tells beside its slabs.
    pub kernel: Option<KernelFiles>,
    /// What a recording tells: the last look has it.
    pub recording: Option<Recording>,
    /// What could not be read, and why.
    pub missing: Vec<Missing>,
}

/// What the system tells of a process.
#[derive(Clone, Debug, Default)]
pub struct ProcessLook {
    /// Its id.
    pub pid: u32,
    /// The program's name.
    pub program: String,
    /// Its mappings, in the order of their addresses.
    pub mappings: Vec<Mapping>,
    /// Stack pointers of threads that wait in a system call.
    pub stack_pointers: Vec<u64>,
    /// Threads; 0 where that is unknown.
    pub threads: u64,
    /// How much of its yards is resident.
    pub residence: Option<Residence>,
    /// Call sites of the live objects of caches that keep tracks.
    pub sites: Vec<Traces>,
    /// What was allocated during a watch, by call site: the last look has it.
    pub profile: Option<Profile>,
}

impl Look {
    /// Reads a source now, or a file as it is.
    ///
    /// # Errors
    /// Those of the source, but that a process does not run on Slabyard is none.
    pub fn take(source: &SourceName) -> Result<Look, source::Error> {
        match source {
            SourceName::Process(pid) => of_process(source, *pid),
            SourceName::Kernel => {
                let scope = ReadScope { all: true, slabs: false };
                let root = Path::new(source::ROOT);
                let mut look = Look::of(source, kernel::sample(root, scope)?);
                look.kernel = Some(KernelFiles::read(root, &mut look.missing));
                Ok(look)
            }
            SourceName::File(_) | SourceName::Stdin => {
                Ok(Look::of(source, source::sample(source, ReadScope::default())?))
            }
        }
    }

    /// At most `most` of the looks of a timeline, over its whole time: thinning left the old ones
    /// further apart than the new. None of a file that is no timeline.
    ///
    /// # Errors
    /// The file cannot be read, or has no look that is whole.
    pub fn of_timeline(source: &SourceName, most: usize) -> Result<Option<Vec<Look>>, file::Error> {
        let SourceName::File(path) = source else { return Ok(None) };
        if !timeline::looks_like(path) {
            return Ok(None);
        }
        let timeline = Timeline::open(path)?;
        let times: Vec<u64> = timeline.times().collect();
        let mut looks: Vec<Look> = Vec::new();
        let mut damaged = None;
        for nth in spread(&times, most) {
            match timeline.look(nth) {
                Ok(look) => looks.push(Look::of(source, look)),
                Err(error) => damaged = Some(error),
            }
        }
        match (looks.last_mut(), damaged) {
            (None, None) => timeline::sample(path).map(|look| Some(vec![Look::of(source, look)])),
            (None, Some(error)) => Err(error),
            (Some(last), damaged) => {
                last.missing.extend(damaged.map(|error| Missing {
                    what: "looks of the timeline".into(),
                    why: error.to_string(),
                }));
                Ok(Some(looks))
            }
        }
    }

    /// The beginning and the end of a recording, of a kernel's with its slabs at both.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of_recording(path: &Path) -> Result<Vec<Look>, trace::Error> {
        let source = SourceName::File(path.into());
        let (recording, snapshots, missing) = Recording::open(path)?;
        let mut looks: Vec<Look> =
            snapshots.into_iter().map(|snapshot| Look::of(&source, snapshot)).collect();
        if looks.is_empty() {
            looks.push(Look {
                source,
                taken_at_ms: 0,
                snapshot: None,
                process: None,
                kernel: None,
                recording: None,
                missing: Vec::new(),
            });
        }
        if let Some(last) = looks.last_mut() {
            last.missing.extend(missing);
            last.recording = Some(recording);
        }
        Ok(looks)
    }

    /// A look at what a snapshot tells.
    #[must_use]
    pub fn of(source: &SourceName, snapshot: Snapshot) -> Look {
        let of_kernel = snapshot.source.kind == SourceKind::Kernel;
        Look {
            source: source.clone(),
            taken_at_ms: snapshot.taken_at_ms,
            missing: missed(&snapshot),
            kernel: of_kernel.then(|| KernelFiles::of(&snapshot)),
            snapshot: Some(snapshot),
            process: None,
            recording: None,
        }
    }

    /// True of a kernel's slabs, or of a model's.
    #[must_use]
    pub fn is_kernel(&self) -> bool {
        let kind = self.snapshot.as_ref().map(|snapshot| snapshot.source.kind);
        let is_recorded = self.recording.as_ref().is_some_and(|it| it.of_kernel);
        is_recorded || matches!(kind, Some(SourceKind::Kernel | SourceKind::Lab))
    }

    /// What it is, for a heading.
    #[must_use]
    pub fn title(&self) -> String {
        let of = self.snapshot.as_ref().map(|snapshot| &snapshot.source);
        if let Some(process) = &self.process {
            return format!("{}, process {}", process.program, process.pid);
        }
        let file = match &self.source {
            SourceName::File(path) => format!(" in {}", path.display()),
            SourceName::Kernel | SourceName::Process(_) | SourceName::Stdin => String::new(),
        };
        match of {
            Some(of) if self.is_kernel() => {
                let release = of.release.as_deref().unwrap_or("of unknown release");
                format!("kernel {release}{file}")
            }
            Some(of) => {
                let program = of.program.as_deref().unwrap_or("a program");
                let pid = of.pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
                format!("{program}{pid}{file}")
            }
            None => {
                let recorded = self.recording.as_ref().filter(|it| !it.title.is_empty());
                recorded.map_or_else(|| self.source.to_string(), |it| it.title.clone() + &file)
            }
        }
    }

    /// The source as it is typed behind a command.
    #[must_use]
    pub fn typed(&self) -> String {
        match &self.source {
            SourceName::Process(pid) => pid.to_string(),
            SourceName::Stdin => "-".into(),
            other => other.to_string(),
        }
    }
}

/// Of ascending times, first and last among them, those nearest to `most` equal distances.
fn spread(times: &[u64], most: usize) -> Vec<usize> {
    let Some((first, last)) = times.first().zip(times.last()) else { return Vec::new() };
    let parts = most.max(2) as u64 - 1;
    let span = last.saturating_sub(*first);
    let mut nearest: Vec<usize> = (0..=parts)
        .filter_map(|part| {
            let wanted = first + span / parts * part + span % parts * part / parts;
            (0..times.len()).min_by_key(|at| times[*at].abs_diff(wanted))
        })
        .collect();
    nearest.dedup();
    nearest
}

fn of_process(source: &SourceName, pid: u32) -> Result<Look, source::Error> {
    let mut missing = Vec::new();
    let mut miss = |what: String, why: String| missing.push(Missing { what, why });
    let (snapshot, mappings) = match process::sample_with_mappings(pid, ReadScope::default()) {
        Ok((snapshot, mappings)) => (Some(snapshot), mappings),
        Err(process::Error::NoYard { .. }) => (None, None),
        Err(why) => return Err(why.into()),
    };
    let mut look = ProcessLook { pid, program: program(pid), ..ProcessLook::default() };
    match mappings.map_or_else(|| smaps::of_process(pid), Ok) {
        Ok(mappings) => look.mappings = mappings,
        Err(why) => miss(format!("/proc/{pid}/smaps"), why.to_string()),
    }
    if let Some(snapshot) = &snapshot {
        match process::residence(pid) {
            Ok(residence) => look.residence = Some(residence),
            Err(why) => miss(format!("/proc/{pid}/pagemap"), why.to_string()),
        }
        // Tracks are behind each object: such a cache's objects lie further apart than they are large.
        let has_tracks = snapshot.caches.iter().filter(|cache| {
            let sizes = cache.exact("slab_size").zip(cache.exact("object_size"));
            cache.exact("slabs") > Some(0) && sizes.is_some_and(|(stride, size)| stride > size)
        });
        for cache in has_tracks {
            match process::traces(pid, &cache.name) {
                Ok(told) => look.sites.extend(told),
                Err(why) => miss(format!("call sites of {}", cache.name), why.to_string()),
            }
        }
    }
    (look.threads, look.stack_pointers) = threads(pid);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let taken_at_ms = snapshot.as_ref().map_or(now_ms, |snapshot| snapshot.taken_at_ms);
    missing.extend(snapshot.iter().flat_map(missed));
    Ok(Look {
        source: source.clone(),
        taken_at_ms,
        snapshot,
        process: Some(look),
        kernel: None,
        recording: None,
        missing,
    })
}

/// What a snapshot lacks that a rule would judge.
fn missed(snapshot: &Snapshot) -> Vec<Missing> {
    let is_used = |missing: &&Missing| !UNUSED.contains(&missing.what.as_str());
    snapshot.missing.iter().filter(is_used).cloned().collect()
}

/// The program's name; of one that just ended, `?`.
fn program(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name: String = name.trim().chars().filter(|c| !c.is_control()).collect();
    if name.is_empty() { "?".into() } else { name }
}

/// How many threads there are, and the stack pointers of those that wait (proc_pid_syscall(5)).
fn threads(pid: u32) -> (u64, Vec<u64>) {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return (0, Vec::new()) };
    let mut count = 0;
    let mut pointers = Vec::new();
    for task in tasks.flatten() {
        count += 1;
        let Ok(text) = std::fs::read_to_string(task.path().join("syscall")) else { continue };
        // The number of the call, its arguments, the stack pointer, the program counter.
        let mut from_end = text.split_whitespace().rev().skip(1);
        let pointer = from_end.next().and_then(|word| word.strip_prefix("0x"));
        pointers.extend(pointer.and_then(|word| u64::from_str_radix(word, 16).ok()));
    }
    (count, pointers)
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn looks_are_spread_over_the_time() {
        assert_eq!(spread(&[], 5), [] as [usize; 0]);
        assert_eq!(spread(&[7], 5), [0]);
        assert_eq!(spread(&[0, 1, 2], 9), [0, 1, 2]);
        // Old looks are an hour apart, new ones a minute.
        let times: Vec<u64> = (0..=10).map(|hour| hour * 60).chain(601..=720).collect();
        let taken: Vec<u64> = spread(&times, 7).into_iter().map(|at| times[at]).collect();
        assert_eq!(taken, [0, 120, 240, 360, 480, 600, 720]);
    }
}
