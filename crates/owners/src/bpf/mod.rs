//! Watches the kernel by programs of its own virtual machine (BPF) on raw tracepoints, with nothing
//! but the kernel's type information (BTF): no probes, no debug information.
//!
//! `bpf/owners.bpf.c` has the programs, `bpf/owners.bpf.o` is their object, which
//! `ci/owners --build` makes of it. [`records`] has the structures that they share with this reader,
//! [`sample`] chooses how many objects are followed, [`prototypes`] looks up what differs between
//! kernels. [`Session::end`] returns what they counted, with addresses and numbers for names;
//! [`crate::naming`] names them. The programs end with the session.

mod prototypes;
mod records;
mod sample;

use aya::maps::{Array, HashMap as Map, MapData, PerCpuArray, StackTraceMap};
use aya::programs::raw_trace_point::RawTracePointLinkId;
use aya::programs::{RawTracePoint, RawTracePointRunOptions, TestRun};
use aya::sys::{Stats, enable_stats};
use aya::{Ebpf, EbpfLoader};
use prototypes::{Prototypes, VMLINUX};
use records::{Cache, CgroupName, Control, Counts, Looked, Lost, Object, Origin, text};
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

/// Objects in `live`, which has room for 131072.
const NEARLY_FULL: usize = 120_000;
/// Directory entries and inodes that are looked at in the end.
const MOST_LOOKS: usize = 20_000;

/// What an object says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// It is a directory entry whose name does not exist.
    pub negative: bool,
    /// Major and minor number of the file system.
    pub device: (u32, u32),
    /// The device, or what the file system calls itself.
    pub id: String,
    /// Its type.
    pub file_system: String,
    /// Names of the directories that the entry is in, the outermost first; with `...` in front if
    /// there are more.
    pub directory: Vec<String>,
}

/// An object that was allocated in the watch and lives.
#[derive(Clone, Debug)]
pub(crate) struct Survivor {
    /// Index of its origin.
    pub origin: usize,
    pub age_ns: u64,
    pub bytes: u32,
    pub look: Option<Look>,
}

/// Who allocated, where and in which cache.
#[derive(Clone, Debug)]
pub(crate) struct RawOrigin {
    /// Index of the cache.
    pub cache: usize,
    pub site: u64,
    pub cgroup: u64,
    pub tgid: u32,
    pub comm: String,
    pub stack: Vec<u64>,
    pub allocations: u64,
    pub bytes: u64,
    pub frees: u64,
}

/// A cache and its events.
#[derive(Clone, Debug)]
pub(crate) struct RawCache {
    pub name: String,
    pub object_bytes: u32,
    pub allocations: u64,
    pub frees: u64,
}

/// What the programs counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Raw {
    pub caches: Vec<RawCache>,
    pub origins: Vec<RawOrigin>,
    pub survivors: Vec<Survivor>,
    pub cgroups: HashMap<u64, String>,
    /// One object in so many was followed.
    pub one_in: u64,
    pub events: u64,
    pub run_ns: u64,
    /// Why `events` is an estimate and `run_ns` is not known.
    pub unmeasured: Option<String>,
    /// Why objects did not say anything of themselves.
    pub unlooked: Option<String>,
    pub reader_ns: u64,
    pub missed: u64,
    pub live_full: u64,
    pub origins_full: u64,
    pub stacks_lost: u64,
}

/// Programs that run.
pub(crate) struct Session {
    bpf: Ebpf,
    links: Vec<(&'static str, RawTracePointLinkId)>,
    /// While it is open, the kernel measures how long programs run, which costs as much again: only
    /// until the rate is known.
    stats: Option<OwnedFd>,
    /// Why it does not.
    unmeasured: Option<String>,
    /// What was measured last; 0 if nothing was.
    ns_per_event: f64,
    /// Events since, by those that were followed.
    estimated: u64,
    followed: u64,
    /// Before so many were followed, `live` cannot be nearly full.
    full_at: u64,
    inodes: HashMap<u32, u32>,
    budget: f64,
    start: Instant,
    last: (Instant, u64, u64),
    reader_at_start: Duration,
    bits: u32,
    /// The most that were in use since the rate is known.
    most_bits: u32,
}

fn program<'a>(bpf: &'a mut Ebpf, name: &str) -> Result<&'a mut RawTracePoint, Box<dyn Error>> {
    Ok(bpf.program_mut(name).ok_or("a program is missing")?.try_into()?)
}

fn map<'a>(bpf: &'a Ebpf, name: &str) -> Result<&'a aya::maps::Map, Box<dyn Error>> {
    bpf.map(name).ok_or_else(|| "a map is missing".into())
}

/// The chain of causes in one line.
fn words(error: &dyn Error) -> String {
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

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Session {
    /// Starts the programs; why they do not, in words.
    pub(crate) fn start(budget: f64) -> Result<Session, String> {
        let found = Prototypes::of_kernel()?;
        Session::with(found, budget).map_err(|error| words(error.as_ref()))
    }

    fn with(found: Prototypes, budget: f64) -> Result<Session, Box<dyn Error>> {
        let own = std::process::id();
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
            .load(OBJECT)?;
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
            estimated: 0,
            followed: 0,
            full_at: NEARLY_FULL as u64,
            inodes: found.inodes,
            budget,
            start: now,
            last: (now, 0, 0),
            reader_at_start: thread_time(),
            bits: sample::FIRST,
            most_bits: 0,
        };
        session.follow(sample::FIRST)?;
        // Frees first: an object whose allocation was seen must not be freed unseen.
        for (name, event) in PROGRAMS.iter().rev() {
            let link = program(&mut session.bpf, name)?.attach(event)?;
            session.links.push((name, link));
        }
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
    fn ran(&self) -> (u64, u64, u64) {
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

    /// Chooses by the cost how many objects are followed; to be called some times a second.
    pub(crate) fn adapt(&mut self) {
        let since = self.start.elapsed();
        let share = self.share();
        let mut bits = sample::next(self.bits, share, self.budget, since);
        if bits == self.bits && self.live_is_full() {
            bits += 1;
        }
        if bits != self.bits {
            let _ = self.follow(bits);
        }
        if since >= sample::SETTLES {
            self.stats = None;
            self.most_bits = self.most_bits.max(self.bits);
            self.forget_unfollowed();
        }
    }

    /// The share of one CPU that the programs took since the last call: measured, or by the number of
    /// followed objects and what an event took when it was measured; `None` if it never was.
    fn share(&mut self) -> Option<f64> {
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
            }
            return Some(ran as f64 / took);
        }
        self.estimated += more;
        self.unmeasured.is_none().then(|| more as f64 * self.ns_per_event / took)
    }

    fn live(&self) -> Result<Map<&MapData, u64, Object>, Box<dyn Error>> {
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

    /// Makes room: what is not in the sample any more is not looked at in the end.
    fn forget_unfollowed(&mut self) {
        let bits = self.most_bits;
        if self.losses().live_full == 0 {
            return;
        }
        let Some(map) = self.bpf.map_mut("live") else { return };
        let Ok(mut live) = Map::<_, u64, Object>::try_from(map) else { return };
        let old: Vec<u64> =
            live.keys().flatten().filter(|address| !sample::is_followed(*address, bits)).collect();
        for address in old {
            let _ = live.remove(&address);
        }
    }

    fn losses(&self) -> Lost {
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

    /// Stops the programs, and returns what they counted.
    pub(crate) fn end(mut self) -> Result<Raw, String> {
        self.read().map_err(|error| words(error.as_ref()))
    }

    fn read(&mut self) -> Result<Raw, Box<dyn Error>> {
        self.share();
        for (name, link) in std::mem::take(&mut self.links) {
            program(&mut self.bpf, name)?.detach(link)?;
        }
        let time = clock_gettime(ClockId::Monotonic);
        let now = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let bits = self.most_bits.max(self.bits);
        let (run_ns, events, missed) = self.ran();
        let lost = self.losses();
        let mut raw = Raw {
            one_in: 1 << bits,
            events: events + self.estimated,
            run_ns: run_ns + (self.estimated as f64 * self.ns_per_event) as u64,
            unmeasured: self.unmeasured.take(),
            missed,
            live_full: lost.live_full,
            origins_full: lost.origins_full,
            stacks_lost: lost.stacks_lost,
            ..Raw::default()
        };
        let mut caches = HashMap::new();
        for entry in Map::<_, u64, Cache>::try_from(map(&self.bpf, "caches")?)?.iter() {
            let (number, cache) = entry?;
            caches.insert(number, raw.caches.len());
            raw.caches.push(named(number, &cache));
        }
        let stacks = StackTraceMap::try_from(map(&self.bpf, "stacks")?)?;
        let mut origins = HashMap::new();
        for entry in Map::<_, Origin, Counts>::try_from(map(&self.bpf, "origins")?)?.iter() {
            let (origin, counts) = entry?;
            let Some(cache) = caches.get(&origin.cache) else { continue };
            let frames = |id: u32| stacks.get(&id, 0).ok();
            let stack = u32::try_from(origin.stack).ok().and_then(frames);
            origins.insert(origin, raw.origins.len());
            raw.origins.push(RawOrigin {
                cache: *cache,
                site: origin.site,
                cgroup: origin.cgroup,
                tgid: origin.tgid,
                comm: text(&counts.comm),
                stack: stack.map_or(Vec::new(), |it| it.frames().iter().map(|f| f.ip).collect()),
                allocations: counts.allocations,
                bytes: counts.bytes,
                frees: counts.frees,
            });
        }
        let live: Vec<(u64, Object)> = self.live()?.iter().flatten().collect();
        for entry in Map::<_, u64, CgroupName>::try_from(map(&self.bpf, "cgroups")?)?.iter() {
            let (id, name) = entry?;
            raw.cgroups.insert(id, text(&name.name));
        }
        let (mut looks, mut unlooked) = (0, None);
        for (address, object) in live {
            let Some(origin) = origins.get(&object.origin) else { continue };
            if !sample::is_followed(address, bits) {
                continue;
            }
            let cache = &raw.caches[raw.origins[*origin].cache];
            let kind = self.kind(cache, address).filter(|_| looks < MOST_LOOKS);
            looks += usize::from(kind.is_some());
            raw.survivors.push(Survivor {
                origin: *origin,
                age_ns: now.saturating_sub(object.born_ns),
                bytes: object.bytes,
                look: kind.and_then(|(kind, address)| {
                    let looked = self.look(kind, address);
                    looked.inspect_err(|why| unlooked = Some(words(why.as_ref()))).ok()
                }),
            });
        }
        raw.unlooked = unlooked;
        raw.reader_ns = (thread_time() - self.reader_at_start).as_nanos() as u64;
        Ok(raw)
    }

    /// What `look` is to make of an object: 0 a directory entry, 1 an inode, and its address.
    fn kind(&self, cache: &RawCache, address: u64) -> Option<(u64, u64)> {
        match &*cache.name {
            "dentry" => Some((0, address)),
            name if name.contains("inode") => {
                let offset = self.inodes.get(&cache.object_bytes)?;
                Some((1, address + u64::from(*offset)))
            }
            _ => None,
        }
    }

    fn look(&mut self, kind: u64, address: u64) -> Result<Look, Box<dyn Error>> {
        let mut options = RawTracePointRunOptions::new();
        (options.args[0], options.args[1]) = (kind, address);
        program(&mut self.bpf, "look")?.test_run(options)?;
        let looked = Array::<_, Looked>::try_from(map(&self.bpf, "looks")?)?.get(&0, 0)?;
        let depth = (looked.depth as usize).min(records::DEEPEST);
        let names = looked.names[..depth].iter().skip(1).rev();
        let mut directory: Vec<String> = names.map(|name| text(name)).collect();
        if looked.is_root == 0 && kind == 0 {
            directory.insert(0, "...".into());
        }
        Ok(Look {
            negative: kind == 0 && looked.inode == 0,
            device: (looked.device >> 20, looked.device & 0xf_ffff),
            id: text(&looked.id),
            file_system: text(&looked.file_system),
            directory,
        })
    }
}

/// A cache by its own name, or that of the kmalloc cache of this size and family, where the kernel
/// has all families. Caches of call sites of their own are not told apart.
fn named(number: u64, cache: &Cache) -> RawCache {
    let name = text(&cache.name);
    let (bytes, flags) = (number as u32, (number >> 32) as u32);
    let object_bytes = if name.is_empty() { bytes } else { cache.object_size };
    let name = if name.is_empty() { kmalloc_name(bytes, flags) } else { name };
    RawCache { name, object_bytes, allocations: cache.allocations, frees: cache.frees }
}

fn kmalloc_name(bytes: u32, flags: u32) -> String {
    const FAMILIES: [(u32, &str); 3] =
        [(0x1, "dma-kmalloc-"), (0x10, "kmalloc-rcl-"), (0x40_0000, "kmalloc-cg-")];
    let family = FAMILIES.iter().find(|(flag, _)| flags & flag != 0);
    let family = family.map_or("kmalloc-", |(_, name)| name);
    match bytes {
        1024.. if bytes.is_multiple_of(1024) => format!("{family}{}k", bytes / 1024),
        _ => format!("{family}{bytes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kmalloc_is_named_by_size_and_family() {
        assert_eq!(kmalloc_name(96, 0xcc0), "kmalloc-96");
        assert_eq!(kmalloc_name(2048, 0x40_0000), "kmalloc-cg-2k");
        assert_eq!(kmalloc_name(96, 0x10), "kmalloc-rcl-96");
    }
}
