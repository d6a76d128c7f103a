//! Finds leaks in a trace: the objects that were allocated in it and are alive at its end, by call
//! site, cache and process, with their ages, and how each site's objects grew.
//!
//! [`find`] passes over the events once. [`live`] holds the live objects, of which it keeps a sample
//! if there are many; [`lifetimes`] says how long a site's objects live that are freed; [`hoards`]
//! reads from the snapshots of a recording which caches keep free objects, which no site has leaked.
//! `slabyard trace info` counts the same live objects without their ages. Invariant: memory is
//! bounded by [`Limits`] and by the number of call sites, not by the number of events.
//!
//! An object is overdue if it is older than twice the age before which 99 of 100 freed objects of its
//! site were freed, and than a twentieth of the recording; at a site that freed none, if it is older
//! than a tenth of the recording. [`Verdict`] has the rules by which sites are told apart.

mod caches;
mod hoards;
mod lifetimes;
mod live;
mod verdict;

pub use hoards::Hoard;
pub use verdict::{Survivors, TENTHS, Verdict};

use crate::event::{Event, EventKind};
use crate::trace::{Error, Stream};
use caches::{CacheId, Caches};
use lifetimes::Lifetimes;
use live::{Birth, Live};
use std::cmp::Reverse;
use std::collections::HashMap;

/// How much memory an analysis may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Live objects that are held at once; of more, every second address is left out, and so on.
    pub objects: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { objects: 4 << 20 }
    }
}

/// What one call site allocated in one cache, and did not free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// None where the trace does not tell.
    pub site: Option<String>,
    /// The cache, or malloc's class.
    pub cache: String,
    /// What its survivors are.
    pub verdict: Verdict,
    /// Objects that it allocated in all.
    pub allocated: u64,
    /// Age before which 99 of 100 freed objects were freed; None if none was.
    pub usual_life_ns: Option<u64>,
    /// Of all processes.
    pub survivors: Survivors,
    /// By the process that allocated them, those with most bytes first.
    pub processes: Vec<(u32, Survivors)>,
}

/// What was found in a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaks {
    /// Nanoseconds from the first event to the last.
    pub took_ns: u64,
    /// Events that were read.
    pub events: u64,
    /// Events that the recorder lost: their frees are missing here.
    pub lost: u64,
    /// One address in so many was followed, and counts are multiplied by it.
    pub one_in: u64,
    /// True if no event names a call site.
    pub without_sites: bool,
    /// Leaks first, then by verdict, each with most bytes first.
    pub sites: Vec<Site>,
    /// Caches that keep memory free, largest first; None if the trace does not tell.
    pub hoards: Option<Vec<Hoard>>,
}

/// A call site and a cache.
type Group = (u32, CacheId);

#[derive(Default)]
struct GroupCounts {
    allocated: u64,
    lifetimes: Lifetimes,
}

struct Pass {
    groups: Vec<(Group, GroupCounts)>,
    numbers: HashMap<Group, u32>,
    caches: Caches,
    live: Live,
    first: u64,
    last: u64,
    named: bool,
}

/// Reads all of a trace and says what stayed.
///
/// # Errors
/// The file cannot be read on.
pub fn find(stream: &mut Stream, limits: Limits) -> Result<Leaks, Error> {
    let mut pass = Pass {
        groups: Vec::new(),
        numbers: HashMap::new(),
        caches: Caches::new(stream.attached()),
        live: Live::new(limits.objects),
        first: u64::MAX,
        last: 0,
        named: false,
    };
    let mut events = Vec::new();
    let (mut nr_events, mut lost) = (0, 0u64);
    while let Some(missed) = stream.next(&mut events)? {
        lost = lost.saturating_add(missed);
        nr_events += events.len() as u64;
        events.iter().for_each(|event| pass.take(event));
    }
    let mut leaks = pass.end(stream);
    (leaks.events, leaks.lost) = (nr_events, lost);
    Ok(leaks)
}

impl Pass {
    fn take(&mut self, event: &Event) {
        self.first = self.first.min(event.time);
        self.last = self.last.max(event.time);
        self.caches.count(event);
        match event.kind {
            EventKind::CacheAlloc | EventKind::Kmalloc => self.born(event),
            EventKind::CacheFree | EventKind::Kfree | EventKind::KfreeRcu => self.freed(event),
            _ => {}
        }
    }

    fn born(&mut self, event: &Event) {
        let site = if event.kind == EventKind::Kmalloc { event.name } else { event.site };
        self.named |= site != crate::trace::NO_NAME;
        let group = (site, self.caches.of(event));
        let groups = &mut self.groups;
        let number = *self.numbers.entry(group).or_insert_with(|| {
            groups.push((group, GroupCounts::default()));
            groups.len() as u32 - 1
        });
        groups[number as usize].1.allocated += 1;
        let bytes = if event.allocated == 0 { event.requested } else { event.allocated };
        self.live.insert(
            event.address,
            Birth { group: number, pid: event.pid, time: event.time, bytes },
        );
    }

    fn freed(&mut self, event: &Event) {
        if let Some(birth) = self.live.remove(event.address) {
            let counts = &mut self.groups[birth.group as usize].1;
            counts.lifetimes.add(event.time.saturating_sub(birth.time), self.live.one_in());
        }
    }

    fn end(self, stream: &Stream) -> Leaks {
        let first = self.first.min(self.last);
        let moments = Moments { first, last: self.last };
        let usual: Vec<Option<u64>> =
            self.groups.iter().map(|(_, counts)| counts.lifetimes.usual()).collect();
        let mut births: HashMap<u32, HashMap<u32, Vec<Birth>>> = HashMap::new();
        for birth in self.live.births() {
            births.entry(birth.group).or_default().entry(birth.pid).or_default().push(*birth);
        }
        let one_in = self.live.one_in();
        let mut sites: Vec<Site> = births
            .into_iter()
            .map(|(number, processes)| {
                let ((site, cache), counts) = &self.groups[number as usize];
                let usual = usual[number as usize];
                let of = |births: &mut [Birth]| moments.survivors(births, usual, one_in);
                let mut all: Vec<Birth> = processes.values().flatten().copied().collect();
                let survivors = of(&mut all);
                let mut processes: Vec<(u32, Survivors)> =
                    processes.into_iter().map(|(pid, mut births)| (pid, of(&mut births))).collect();
                processes.sort_by_key(|(pid, it)| (Reverse((it.bytes, it.objects)), *pid));
                let word = stream.names().get(*site);
                Site {
                    site: (!word.is_empty()).then(|| word.to_owned()),
                    cache: self.caches.name(*cache, stream.names()),
                    verdict: self.caches.verdict(*cache, &survivors, stream.names()),
                    allocated: counts.allocated,
                    usual_life_ns: usual,
                    survivors,
                    processes,
                }
            })
            .collect();
        sites.sort_by(|a, b| {
            let key = |it: &Site| (it.verdict, Reverse((it.survivors.bytes, it.survivors.objects)));
            key(a).cmp(&key(b)).then_with(|| (&a.cache, &a.site).cmp(&(&b.cache, &b.site)))
        });
        Leaks {
            took_ns: moments.took(),
            one_in,
            without_sites: !self.named,
            sites,
            hoards: hoards::of(stream.attached()),
            ..Leaks::default()
        }
    }
}

/// When the trace began and ended.
#[derive(Clone, Copy)]
struct Moments {
    first: u64,
    last: u64,
}

impl Moments {
    fn took(self) -> u64 {
        self.last - self.first
    }

    fn tenth(self, time: u64) -> usize {
        let far = u128::from(time - self.first) * TENTHS as u128;
        usize::try_from(far / u128::from(self.took().max(1))).map_or(0, |it| it.min(TENTHS - 1))
    }

    fn survivors(self, births: &mut [Birth], usual: Option<u64>, one_in: u64) -> Survivors {
        births.sort_unstable_by_key(|birth| birth.time);
        let age = |birth: &Birth| self.last - birth.time;
        let usual = match usual {
            Some(life) => life.saturating_mul(2).max(self.took() / 20),
            None => self.took() / 10,
        };
        let mut sum = Survivors {
            oldest_ns: births.first().map_or(0, age),
            median_ns: births.get(births.len() / 2).map_or(0, age),
            ..Survivors::default()
        };
        for birth in births.iter() {
            sum.objects += one_in;
            sum.bytes += u64::from(birth.bytes) * one_in;
            sum.overdue += if age(birth) > usual { one_in } else { 0 };
            sum.born[self.tenth(birth.time)] += one_in;
        }
        sum
    }
}

impl Survivors {
    /// In how many of the first nine tenths some were born.
    fn growing_tenths(&self) -> usize {
        self.born[..TENTHS - 1].iter().filter(|born| **born > 0).count()
    }

    fn are_overdue(&self) -> bool {
        self.overdue * 10 > self.objects
    }
}
