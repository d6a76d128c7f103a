//! Profiles of allocations: who allocates, how much of it lives, and how long the rest lived.
//!
//! [`Collector`] takes the samples of a process ([`crate::process::profile`]), [`unwind`] finds the
//! call stack of each, and [`Profile`] has the sums by stack, with names. [`pprof`] and
//! [`collapsed`] write it for other programs, [`crate::view::profile`] for people.
//!
//! Invariants: a sum is an estimate without bias, whose deviation falls with the number of samples
//! behind it; nothing that the process could not keep is guessed: it is counted as lost. Which
//! slabs a site pins is not known: a sampled object does not lie in the slab in which it would have
//! lain.

pub mod collapsed;
mod perf_map;
pub mod pprof;
mod unwind;

use crate::process::Error;
use crate::process::profile::{Sample, SampleFree, Session, Taken};
use crate::symbols::{Loaded, Symbols};
use perf_map::PerfMap;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};
use unwind::{CallStack, ProfileMap, Unwinder};

/// How long the list of the process's files holds, while each frame is in one of them.
const FILES_HOLD: Duration = Duration::from_millis(100);

/// Powers of two of nanoseconds by which lifetimes are counted.
pub const LIFETIMES: usize = 64;

/// A profile of a process's allocations.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// The process.
    pub pid: u32,
    /// What runs in it, as the system names it.
    pub program: String,
    /// The mean distance of samples, in bytes.
    pub rate: u64,
    /// By the wall clock.
    #[serde(skip)]
    pub began: SystemTime,
    /// How long allocations were sampled.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub duration: Duration,
    /// Where memory was allocated, the site of most live bytes first.
    pub sites: Vec<ProfileSite>,
    /// Files and other memory that the frames are in.
    #[serde(skip)]
    pub(crate) maps: Vec<ProfileMap>,
    /// Samples that were taken.
    pub samples: u64,
    /// Samples that the process could not keep: what they stand for is missing.
    pub lost_samples: u64,
    /// Frees that it could not keep: their blocks count as live.
    pub lost_frees: u64,
    /// Stacks that go on beyond what was copied of them.
    pub cut_stacks: u64,
}

/// What was allocated by one call stack: estimates.
#[derive(Clone, Debug, Serialize)]
pub struct ProfileSite {
    /// Samples behind the estimates.
    pub samples: u64,
    /// Objects that were allocated.
    pub alloc_objects: f64,
    /// Their bytes, as requested.
    pub alloc_bytes: f64,
    /// Of these, the objects that still live.
    pub live_objects: f64,
    /// What these objects requested.
    pub live_bytes: f64,
    /// Objects that were freed, by the power of two of nanoseconds that they lived.
    #[serde(rename = "lifetimes_ns", serialize_with = "used")]
    pub lifetimes: [f64; LIFETIMES],
    /// The frames, the innermost first.
    pub frames: Vec<ProfileFrame>,
}

/// A frame of a call stack.
#[derive(Clone, Debug, Serialize)]
pub struct ProfileFrame {
    /// In the call.
    pub address: u64,
    /// The function around it.
    pub function: Option<String>,
    /// The file that was loaded there.
    pub file: Option<String>,
    /// Where the call is in the file.
    pub offset: u64,
    #[serde(skip)]
    pub(crate) map: Option<usize>,
}

impl ProfileFrame {
    /// The function, or else the file and the address.
    #[must_use]
    pub fn name(&self) -> String {
        match (&self.function, &self.file) {
            (Some(function), _) => function.clone(),
            (None, Some(file)) => {
                format!("{}+{:#x}", file.rsplit('/').next().unwrap_or(file), self.offset)
            }
            (None, None) => format!("{:#x}", self.address),
        }
    }
}

impl ProfileSite {
    /// The lifetime that half of the freed objects did not reach, within a factor of two.
    #[must_use]
    pub fn median_lifetime(&self) -> Option<Duration> {
        let all: f64 = self.lifetimes.iter().sum();
        let mut below = 0.0;
        let half = self.lifetimes.iter().position(|objects| {
            below += objects;
            below > 0.0 && below >= all / 2.0
        })?;
        Some(Duration::from_nanos(1u64.checked_shl(half as u32).unwrap_or(u64::MAX)))
    }
}

fn seconds<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

fn used<S: serde::Serializer>(lifetimes: &[f64; LIFETIMES], to: S) -> Result<S::Ok, S::Error> {
    let used = lifetimes.iter().enumerate().filter(|(_, objects)| **objects > 0.0);
    to.collect_seq(used.map(|(power, objects)| (1u64 << power, objects)))
}

/// Sums of one stack.
#[derive(Clone)]
struct Sums {
    samples: u64,
    objects: f64,
    bytes: f64,
    live_objects: f64,
    live_bytes: f64,
    lifetimes: [f64; LIFETIMES],
}

/// A sampled block that was not freed yet.
struct LiveSample {
    site: usize,
    weight: f64,
    bytes: u64,
    time_ns: u64,
}

/// Takes samples, and adds them up.
pub struct Collector {
    session: Session,
    unwinder: Unwinder,
    began: (SystemTime, Instant),
    /// When its files were listed.
    listed: Option<Instant>,
    rate: u64,
    sites: HashMap<CallStack, usize>,
    sums: Vec<Sums>,
    live: HashMap<u64, LiveSample>,
    /// Frees whose samples were not whole yet.
    early: Vec<SampleFree>,
    perf_map: PerfMap,
    taken: Taken,
    nr_samples: u64,
    nr_cut: u64,
}

impl Collector {
    /// Adds up what a session takes.
    #[must_use]
    pub fn new(session: Session, rate: u64) -> Collector {
        let root = PathBuf::from(format!("/proc/{}/root", session.pid()));
        Collector {
            unwinder: Unwinder::new(root),
            began: (SystemTime::now(), Instant::now()),
            listed: None,
            rate,
            sites: HashMap::new(),
            sums: Vec::new(),
            live: HashMap::new(),
            early: Vec::new(),
            perf_map: PerfMap::of(session.pid()),
            session,
            taken: Taken::default(),
            nr_samples: 0,
            nr_cut: 0,
        }
    }

    /// Takes what there is; true if the process ends.
    ///
    /// # Errors
    /// As [`Session::take`].
    pub fn collect(&mut self) -> Result<bool, Error> {
        let taken = self.session.take()?;
        Ok(self.add(taken))
    }

    /// Ends the session.
    ///
    /// # Errors
    /// As [`Session::end`].
    pub fn end(&mut self) -> Result<(), Error> {
        let taken = self.session.end()?;
        self.add(taken);
        Ok(())
    }

    fn add(&mut self, taken: Taken) -> bool {
        let Taken { samples, frees, lost_samples, lost_frees, ends } = taken;
        let begin = Instant::now();
        let is_old = self.listed.is_none_or(|at| begin - at > FILES_HOLD);
        if is_old && !samples.is_empty() {
            self.list_files();
        }
        self.nr_samples += samples.len() as u64;
        for sample in samples {
            self.add_sample(&sample, begin);
        }
        let early = std::mem::take(&mut self.early);
        for free in early.into_iter().chain(frees) {
            if !self.add_free(free) {
                self.early.push(free);
            }
        }
        self.taken = Taken { lost_samples, lost_frees, ..Taken::default() };
        if ends {
            self.session.let_end();
        }
        ends
    }

    /// What is loaded, while it is there.
    fn list_files(&mut self) {
        self.unwinder.refresh(self.session.loaded());
        self.perf_map.read();
        self.listed = Some(Instant::now());
    }

    /// Adds a sample of the look that began then.
    fn add_sample(&mut self, sample: &Sample, begin: Instant) {
        let (mut stack, mut is_cut) = self.unwinder.unwind(sample.registers, &sample.stack);
        // It may have been loaded since.
        if stack.iter().any(|frame| frame.map.is_none()) && self.listed < Some(begin) {
            self.list_files();
            (stack, is_cut) = self.unwinder.unwind(sample.registers, &sample.stack);
        }
        self.nr_cut += u64::from(is_cut);
        let sums = &mut self.sums;
        let site = *self.sites.entry(stack).or_insert_with(|| {
            sums.push(Sums {
                samples: 0,
                objects: 0.0,
                bytes: 0.0,
                live_objects: 0.0,
                live_bytes: 0.0,
                lifetimes: [0.0; LIFETIMES],
            });
            sums.len() - 1
        });
        let weight = sample.weight();
        let bytes = weight * sample.bytes as f64;
        let sums = &mut self.sums[site];
        sums.samples += 1;
        sums.objects += weight;
        sums.bytes += bytes;
        sums.live_objects += weight;
        sums.live_bytes += bytes;
        let live = LiveSample { site, weight, bytes: sample.bytes, time_ns: sample.time_ns };
        self.live.insert(sample.sequence, live);
    }

    /// False if there is no such sample yet.
    fn add_free(&mut self, free: SampleFree) -> bool {
        let Some(freed) = self.live.remove(&free.sequence) else { return false };
        let sums = &mut self.sums[freed.site];
        sums.live_objects -= freed.weight;
        sums.live_bytes -= freed.weight * freed.bytes as f64;
        let lived = free.time_ns.saturating_sub(freed.time_ns).max(1);
        sums.lifetimes[lived.ilog2() as usize] += freed.weight;
        true
    }

    /// True once there was a sample.
    #[must_use]
    pub fn has_samples(&self) -> bool {
        self.nr_samples > 0
    }

    /// What was found.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let mut symbols: BTreeMap<PathBuf, Symbols> = BTreeMap::new();
        let mut names: HashMap<(usize, u64), Option<String>> = HashMap::new();
        let mut sites: Vec<_> = self.sites.iter().collect();
        sites.sort_by_key(|(_, site)| **site);
        let mut sites: Vec<ProfileSite> = sites
            .into_iter()
            .map(|(stack, site)| {
                let sums = self.sums[*site].clone();
                let frames = stack.iter().map(|frame| {
                    let map = frame.map.map(|map| &self.unwinder.maps()[map].loaded);
                    let offset = map.map_or(0, |map| frame.address - map.memory.start + map.offset);
                    let mut look_up = |map: &Loaded| {
                        let read = || Symbols::of(&map.path, Some(self.unwinder.root()));
                        let symbols = symbols.entry(map.path.clone()).or_insert_with(read);
                        symbols.around(offset).0
                    };
                    let named = frame.map.zip(map).and_then(|(number, map)| {
                        names.entry((number, offset)).or_insert_with(|| look_up(map)).clone()
                    });
                    let by_map = || self.perf_map.name(frame.address).map(str::to_owned);
                    ProfileFrame {
                        address: frame.address,
                        function: if map.is_some() { named } else { by_map() },
                        file: map.map(|map| map.path.display().to_string()),
                        offset,
                        map: frame.map,
                    }
                });
                ProfileSite {
                    samples: sums.samples,
                    alloc_objects: sums.objects,
                    alloc_bytes: sums.bytes,
                    // A sum of differences may end below.
                    live_objects: sums.live_objects.max(0.0),
                    live_bytes: sums.live_bytes.max(0.0),
                    lifetimes: sums.lifetimes,
                    frames: frames.collect(),
                }
            })
            .collect();
        sites.sort_by(|a, b| {
            b.live_bytes.total_cmp(&a.live_bytes).then(b.alloc_bytes.total_cmp(&a.alloc_bytes))
        });
        Profile {
            pid: self.session.pid(),
            program: self.session.program().to_owned(),
            rate: self.rate,
            began: self.began.0,
            duration: self.began.1.elapsed(),
            sites,
            maps: self.unwinder.maps().to_vec(),
            samples: self.nr_samples,
            lost_samples: self.taken.lost_samples,
            lost_frees: self.taken.lost_frees,
            cut_stacks: self.nr_cut,
        }
    }
}
