//! The running programs: they are loaded, attached, kept within their budget. What they counted is
//! read by [`super::counted`], which ends them.

use super::prototypes::{Prototypes, VMLINUX};
use super::records::{Control, Counts, Filter, Lost, Object, Origin};
use super::sample;
use aya::maps::{Array, HashMap as Map, MapData, PerCpuArray};
use aya::programs::RawTracePoint;
use aya::programs::raw_trace_point::RawTracePointLinkId;
use aya::sys::{Stats, enable_stats};
use aya::{Ebpf, EbpfLoader};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Compiled from `bpf/owners.bpf.c`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/owners.bpf.o");

/// The programs, each on the tracepoint of its name.
const PROGRAMS: [(&str, &str); 4] = [
    ("on_cache_alloc", "kmem_cache_alloc"),
    ("on_cache_free", "kmem_cache_free"),
    ("on_kmalloc", "kmalloc"),
    ("on_kfree", "kfree"),
];

/// As in `bpf/owners.bpf.c`.
const CACHE_OF: u32 = 0x7ffe_0001;
/// Objects in `live`, which has room for 131072.
const NEARLY_FULL: usize = 120_000;
/// So long the kernel measures what the programs take.
const MEASURED: Duration = Duration::from_secs(1);
/// A flag of an update.
const IF_IT_EXISTS: u64 = 2;

/// Whether the programs keep the stack of each allocation that they follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stacks {
    Kept,
    LeftOut,
}

/// What a session took so far.
pub(super) struct Spent {
    /// Events that the programs saw: an estimate if the kernel did not measure them to the end.
    pub events: u64,
    pub run_ns: u64,
    /// Of the thread that reads.
    pub reader_ns: u64,
    /// Events that the kernel skipped.
    pub missed: u64,
}

/// Programs that run.
pub(crate) struct Session {
    pub(super) bpf: Ebpf,
    pub(super) links: Vec<(&'static str, RawTracePointLinkId)>,
    /// While it is open, the kernel measures how long programs run, which costs as much again: only
    /// until the rate is known.
    pub(super) stats: Option<OwnedFd>,
    /// Why it does not.
    pub(super) unmeasured: Option<String>,
    /// What was measured last, and at how many bits; 0 if nothing was.
    pub(super) ns_per_event: f64,
    pub(super) measured_bits: u32,
    /// Events since, by those that were sampled, and what these took at most.
    pub(super) estimated: u64,
    pub(super) estimated_ns: f64,
    pub(super) followed: u64,
    /// Before so many were followed, `live` cannot be nearly full.
    pub(super) full_at: u64,
    pub(super) inodes: HashMap<u32, u32>,
    pub(super) budget: f64,
    pub(super) start: Instant,
    pub(super) last: (Instant, u64, u64),
    pub(super) reader_at_start: Duration,
    pub(super) bits: u32,
}

pub(super) fn program<'a>(
    bpf: &'a mut Ebpf,
    name: &str,
) -> Result<&'a mut RawTracePoint, Box<dyn Error>> {
    Ok(bpf.program_mut(name).ok_or("a program is missing")?.try_into()?)
}

pub(super) fn map<'a>(bpf: &'a Ebpf, name: &str) -> Result<&'a aya::maps::Map, Box<dyn Error>> {
    bpf.map(name).ok_or_else(|| "a map is missing".into())
}

/// The chain of causes in one line.
pub(super) fn words(error: &dyn Error) -> String {
    let mut all = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_words = cause.to_string();
        if !all.contains(&cause_words) {
            all = format!("{all}: {cause_words}");
        }
        next = cause.source();
    }
    all
}

/// What this thread took of a CPU.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The object with a call of the kernel's function of this number in the place of that of `cache_of`;
/// or with a 0 for what it returns (`Documentation/bpf/standardization/instruction-set.rst`).
fn object(cache_of: Option<u32>) -> Vec<u8> {
    let call = [&[0x85, 0, 0, 0][..], &CACHE_OF.to_le_bytes()].concat();
    let instead = match cache_of {
        Some(number) => [&[0x85, 0x20, 0, 0][..], &number.to_le_bytes()].concat(),
        None => vec![0xb7, 0, 0, 0, 0, 0, 0, 0],
    };
    let mut object = OBJECT.to_vec();
    for instruction in object.chunks_exact_mut(8).filter(|it| **it == *call) {
        instruction.copy_from_slice(&instead);
    }
    object
}

impl Session {
    /// Starts the programs; why they do not, in words.
    pub(crate) fn start(budget: f64, stacks: Stacks) -> Result<Session, String> {
        let mut found = Prototypes::of_kernel()?;
        let mut session = Session::with(&found, budget, stacks);
        // Without its compiler of programs a kernel lets them call none of its functions.
        if session.is_err() && found.cache_of.take().is_some() {
            session = Session::with(&found, budget, stacks);
        }
        session.map_err(|error| words(error.as_ref()))
    }

    fn with(found: &Prototypes, budget: f64, stacks: Stacks) -> Result<Session, Box<dyn Error>> {
        let own = std::process::id();
        let keep_stacks = u32::from(stacks == Stacks::Kept);
        let btf = aya::Btf::parse_file(VMLINUX, aya::Endianness::default())?;
        let mut loader = EbpfLoader::new();
        let mut bpf = loader
            .btf(Some(&btf))
            .override_global("alloc_cache", &found.alloc_cache, true)
            .override_global("free_cache", &found.free_cache, true)
            .override_global("kmalloc_bytes", &found.kmalloc_bytes, true)
            .override_global("kmalloc_flags", &found.kmalloc_flags, true)
            .override_global("memory_controller", &found.memory_controller, true)
            .override_global("own_tgid", &own, true)
            .override_global("keep_stacks", &keep_stacks, true)
            .load(&object(found.cache_of))?;
        program(&mut bpf, "look")?.load()?;
        for (name, _) in PROGRAMS {
            program(&mut bpf, name)?.load()?;
        }
        let now = Instant::now();
        let (stats, unmeasured) = match enable_stats(Stats::RunTime) {
            Ok(stats) => (Some(stats), None),
            Err(why) => (None, Some(words(&why))),
        };
        let mut session = Session {
            bpf,
            links: Vec::new(),
            stats,
            unmeasured,
            ns_per_event: 0.0,
            measured_bits: sample::FIRST,
            estimated: 0,
            estimated_ns: 0.0,
            followed: 0,
            full_at: NEARLY_FULL as u64,
            inodes: found.inodes.clone(),
            budget,
            start: now,
            last: (now, 0, 0),
            reader_at_start: thread_time(),
            bits: sample::FIRST,
        };
        session.follow(sample::FIRST)?;
        session.attach()?;
        session.start = Instant::now();
        Ok(session)
    }

    fn follow(&mut self, bits: u32) -> Result<(), Box<dyn Error>> {
        let map = self.bpf.map_mut("controls").ok_or("a map is missing")?;
        Array::<_, Control>::try_from(map)?.set(0, Control { bits, unused: 0 }, 0)?;
        self.bits = bits;
        Ok(())
    }

    /// Nanoseconds that the programs ran, how often, and how often the kernel skipped one because it
    /// ran on that CPU already.
    pub(super) fn ran(&self) -> (u64, u64, u64) {
        let mut sums = (0, 0, 0);
        for (name, _) in PROGRAMS {
            let Some(Ok(fd)) = self.bpf.program(name).map(|program| program.fd()) else { continue };
            let path = format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd());
            let text = fs::read_to_string(path).unwrap_or_default();
            let number = |key: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(key));
                line.and_then(|it| it.trim().parse::<u64>().ok()).unwrap_or(0)
            };
            sums.0 += number("run_time_ns:");
            sums.1 += number("run_cnt:");
            sums.2 += number("recursion_misses:");
        }
        sums
    }

    /// Chooses by the cost how many objects are followed; to be called some times a second. Returns how
    /// many times the budget the smallest sample costs, if that is more than the budget: then the look
    /// at each event is what costs.
    pub(crate) fn adapt(&mut self) -> Option<f64> {
        let share = self.share();
        let mut bits = sample::next(self.bits, share, self.budget);
        if self.live_is_full() {
            self.thin_out();
            bits = (bits + 1).min(sample::MOST_BY_ROOM);
        }
        if bits != self.bits {
            let _ = self.follow(bits);
        }
        if self.start.elapsed() >= MEASURED {
            self.stats = None;
        }
        let times = share? / self.budget;
        (times > 1.0 && bits == self.bits && sample::is_smallest(bits)).then_some(times)
    }

    /// Takes the programs off the tracepoints, where they cost nothing.
    pub(crate) fn pause(&mut self) -> Result<(), Box<dyn Error>> {
        self.share();
        for (name, link) in std::mem::take(&mut self.links) {
            program(&mut self.bpf, name)?.detach(link)?;
        }
        Ok(())
    }

    /// Puts them back. What lived at the pause is not followed any more: it may have been freed.
    pub(crate) fn resume(&mut self) -> Result<(), Box<dyn Error>> {
        let mut live =
            Map::<_, u64, Object>::try_from(self.bpf.map_mut("live").ok_or("a map is missing")?)?;
        let old: Vec<u64> = live.keys().flatten().collect();
        old.iter().for_each(|address| drop(live.remove(address)));
        let filters = self.bpf.map_mut("filters").ok_or("a map is missing")?;
        let empty = Filter::empty();
        Array::<_, Filter>::try_from(filters)?.set(0, empty.as_ref(), 0)?;
        self.attach()?;
        let (ran, count, _) = self.ran();
        self.last = (Instant::now(), ran, count);
        Ok(())
    }

    fn attach(&mut self) -> Result<(), Box<dyn Error>> {
        // Frees first: an object whose allocation was seen must not be freed unseen.
        for (name, event) in PROGRAMS.iter().rev() {
            let link = program(&mut self.bpf, name)?.attach(event)?;
            self.links.push((name, link));
        }
        Ok(())
    }

    /// The share of one CPU that the programs took since the last call: measured, or by the number of
    /// followed objects and what an event took when it was measured; `None` if it never was.
    pub(super) fn share(&mut self) -> Option<f64> {
        let (at, ran_before, count_before) = self.last;
        let (ran, count, _) = self.ran();
        let took = at.elapsed().as_nanos().max(1) as f64;
        self.last = (Instant::now(), ran, count);
        let followed = self.losses().followed;
        let more = followed.saturating_sub(self.followed) << self.bits;
        self.followed = followed;
        if self.stats.is_some() {
            let (ran, count) = (ran.saturating_sub(ran_before), count.saturating_sub(count_before));
            if count > 0 {
                self.ns_per_event = ran as f64 / count as f64;
                self.measured_bits = self.bits;
            }
            return Some(ran as f64 / took);
        }
        let ns = sample::ns_per_event(self.ns_per_event, self.measured_bits, self.bits);
        self.estimated += more;
        self.estimated_ns += more as f64 * ns;
        self.unmeasured.is_none().then(|| more as f64 * ns / took)
    }

    /// What the session took since its start.
    pub(super) fn spent(&self) -> Spent {
        let (run_ns, events, missed) = self.ran();
        Spent {
            events: events + self.estimated,
            run_ns: run_ns + self.estimated_ns as u64,
            reader_ns: (thread_time() - self.reader_at_start).as_nanos() as u64,
            missed,
        }
    }

    pub(super) fn live(&self) -> Result<Map<&MapData, u64, Object>, Box<dyn Error>> {
        Ok(Map::try_from(map(&self.bpf, "live")?)?)
    }

    /// Counts the objects only if so many were followed since that it may be: each is a system call.
    fn live_is_full(&mut self) -> bool {
        if self.followed < self.full_at {
            return false;
        }
        let objects = self.live().map_or(0, |live| live.keys().take(NEARLY_FULL).count());
        self.full_at = self.followed + (NEARLY_FULL - objects) as u64;
        objects == NEARLY_FULL
    }

    /// Makes room: half of the objects are not followed any more, and the others count twice.
    fn thin_out(&mut self) {
        let Some(map) = self.bpf.map_mut("live") else { return };
        let Ok(mut live) = Map::<_, u64, Object>::try_from(map) else { return };
        let objects: Vec<(u64, Object)> = live.iter().flatten().collect();
        for (nth, (address, mut object)) in objects.into_iter().enumerate() {
            object.bits += 1;
            // Of an object that was freed meanwhile nothing happens.
            let _ = match nth % 2 {
                0 => live.insert(address, object, IF_IT_EXISTS),
                _ => live.remove(&address),
            };
        }
    }

    pub(super) fn losses(&self) -> Lost {
        let read = || -> Result<Lost, Box<dyn Error>> {
            let map = PerCpuArray::<_, Lost>::try_from(map(&self.bpf, "losses")?)?;
            Ok(map.get(&0, 0)?.iter().fold(Lost::default(), |sum, it| Lost {
                followed: sum.followed + it.followed,
                live_full: sum.live_full + it.live_full,
                origins_full: sum.origins_full + it.origins_full,
                stacks_lost: sum.stacks_lost + it.stacks_lost,
            }))
        };
        read().unwrap_or_default()
    }

    /// The processes that allocated so far, some of them more than once.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let read = || -> Result<Vec<u32>, Box<dyn Error>> {
            let origins = Map::<_, Origin, Counts>::try_from(map(&self.bpf, "origins")?)?;
            Ok(origins.keys().flatten().map(|origin| origin.tgid).collect())
        };
        read().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_for_a_cache_becomes_one_of_the_kernels_or_none() {
        let count = |object: &[u8], wanted: &[u8]| {
            object.chunks_exact(8).filter(|it| it.starts_with(wanted)).count()
        };
        let placed = [0x85, 0, 0, 0, 1, 0, 0xfe, 0x7f];
        let calls = count(OBJECT, &placed);
        // At the least for an allocation and for a free.
        assert!(calls >= 2, "{calls}");
        let with = object(Some(77));
        assert_eq!((count(&with, &placed), count(&with, &[0x85, 0x20, 0, 0, 77])), (0, calls));
        assert_eq!(count(&object(None), &placed), 0);
        assert_eq!(object(None).len(), OBJECT.len());
    }
}
