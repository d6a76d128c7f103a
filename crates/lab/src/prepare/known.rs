//! Which list each slab was on at the start, as the recorder read it from the kernel
//! ([`crate::lists`]), indexed by the trace's slab numbers.
//!
//! The kernel kept running while its lists were read. So each cache's steps begin at the moment
//! when its lists had been read; the lists already contain the effects of earlier events
//! ([`begins`]). If an object's first event after that contradicts what was read, the event is
//! trusted: either the event or the reading was a moment late, or an untraced task freed or
//! allocated the object.
//!
//! [`super::frames`] finds the slabs; [`super::steps`] reads here which objects are live, and the
//! replay's start reads the order of the lists. Invariant, for a cache whose lists were read: every
//! slab that had a free object then is on a list or has it in a sheaf, and the state of all the cache's objects is
//! known, except in slabs that changed while they were read.

use super::frames::{CacheStarts, Slab};
use super::input::{Input, NO_CACHE};
use super::naming::Caches;
use crate::lists::{CacheLists, CpuSheaves, Objects, Sheaf, SlabOnList};
use std::collections::{HashMap, HashSet};

/// Of each cache of the trace; `None` of those that were not read.
pub type Known = Vec<Option<KnownCache>>;

/// The lists of one cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownCache {
    /// Of each node, the slab to be used next first.
    pub nodes: Vec<Vec<ListedSlab>>,
    /// Of each CPU that had something.
    pub cpus: Vec<KnownCpu>,
    /// Of each CPU with sheaves.
    pub sheaves: Vec<KnownSheaves>,
    /// Of each node, the full sheaves of its barn, the next to be taken first.
    pub barns: Vec<Vec<KnownSheaf>>,
}

/// The slabs of the objects in a sheaf, the next to be allocated last.
pub type KnownSheaf = Vec<u32>;

/// The sheaves of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownSheaves {
    /// As the trace numbers it.
    pub cpu: usize,
    /// The one that it allocates from.
    pub main: KnownSheaf,
    /// The other one.
    pub spare: Option<KnownSheaf>,
    /// Freed by `kfree_rcu()`.
    pub rcu_free: KnownSheaf,
}

/// The CPU slab and the CPU partial list that a snapshot of lists has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownCpu {
    /// As the trace numbers it.
    pub cpu: usize,
    /// The one that it allocated from when the trace began.
    pub slab: Option<ListedSlab>,
    /// Its list, the slab to be used next first.
    pub partial: Vec<ListedSlab>,
}

/// How a snapshot's slab is known to a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedSlab {
    /// One that events show, by its number.
    Shown(u32),
    /// One that no event shows, with its free objects.
    Unseen(u32),
}

/// The caches whose lists were read whole, each with its number.
fn read<'a>(input: &Input<'a>) -> impl Iterator<Item = (usize, &'a CacheLists)> {
    let caches = Caches::new(input.caches, input.aliases);
    let lists = input.lists.map_or([].as_slice(), |lists| &lists.caches);
    let number = move |cache: &'a CacheLists| (caches.named(&cache.name), cache);
    let known = lists.iter().map(number).filter(|(number, _)| *number != NO_CACHE);
    known.map(|(number, cache)| (number as usize, cache))
}

/// When the steps of each cache begin, and what is on lists then.
pub(super) fn begins(input: &Input) -> CacheStarts {
    let (mut times, mut listed) = (Vec::new(), Vec::new());
    for (number, cache) in read(input) {
        times.resize(input.caches.len(), None);
        times[number] = Some(cache.read_at);
        // Those of lower orders show by events alone.
        let usual = cache.each().filter(|slab| slab.objects == input.caches[number].objects);
        listed.extend(usual.map(|slab| (number as u16, input.frames.of(slab.base))));
        // Slabs whose free objects are all in sheaves are on no list. In the order of the sheaves,
        // which is the same wherever a trace's memory was moved to.
        let mut known = HashSet::new();
        let in_sheaves = cache.in_sheaves().map(|object| slab_frame(input, number, object));
        let in_sheaves = in_sheaves.filter(|frame| known.insert(*frame));
        listed.extend(in_sheaves.map(|frame| (number as u16, frame)));
    }
    CacheStarts { times: times.into(), listed: listed.into() }
}

/// What was read, by the numbers of the slabs that the trace shows; sets which objects are live as
/// far as no event shows it.
pub(super) fn known(input: &Input, slabs: &[Slab], live: &mut [bool]) -> Known {
    let mut known: Known = Vec::new();
    let by_frame = by_frame(slabs);
    for (number, cache) in read(input) {
        known.resize(input.caches.len(), None);
        let mut place =
            |listed: &SlabOnList| match by_frame.get(&(number, input.frames.of(listed.base))) {
                Some(slab) if slabs[*slab as usize].objects == listed.objects => {
                    ListedSlab::Shown(*slab)
                }
                _ => ListedSlab::Unseen(listed.nr_free()),
            };
        let mut of = of_cache(cache, &mut place);
        let slab_of =
            |object: &u64| by_frame.get(&(number, slab_frame(input, number, *object))).copied();
        let slabs_of = |sheaf: &Sheaf| sheaf.iter().filter_map(slab_of).collect();
        of.sheaves = cache.sheaves.iter().map(|of| sheaves(of, &slabs_of)).collect();
        of.barns =
            cache.barns.iter().map(|barn| barn.full.iter().map(&slabs_of).collect()).collect();
        known[number] = Some(of);
    }
    for slab in slabs.iter().take_while(|slab| slab.initial) {
        if known.get(slab.cache as usize).is_some_and(Option::is_some) {
            live[slab.objects_range()].fill(true);
        }
    }
    for (slab, free) in listed(input, &by_frame) {
        let objects = slabs[slab as usize].objects_range();
        match free {
            Some(free) => {
                let state = |nth| !free.has(nth);
                objects.zip(0..).for_each(|(object, nth)| live[object] = state(nth));
            }
            None => live[objects].fill(slabs[slab as usize].closed_at.is_none()),
        }
    }
    for (number, cache) in read(input) {
        for address in cache.in_sheaves() {
            let frame = slab_frame(input, number, address);
            let Some(slab) = by_frame.get(&(number, frame)) else { continue };
            let Slab { first_object, objects, .. } = slabs[*slab as usize];
            let nth =
                input.frames.within(frame, address) / u64::from(input.caches[number].slab_size);
            if nth < objects.into() {
                live[first_object as usize + nth as usize] = false;
            }
        }
    }
    known
}

/// The first frame of the slab that an object of a cache is in: one of the usual order.
fn slab_frame(input: &Input, number: usize, object: u64) -> u64 {
    input.frames.of(object) >> input.caches[number].order << input.caches[number].order
}

fn sheaves(of: &CpuSheaves, slabs_of: &impl Fn(&Sheaf) -> KnownSheaf) -> KnownSheaves {
    KnownSheaves {
        cpu: of.cpu as usize,
        main: slabs_of(&of.main),
        spare: of.spare.as_ref().map(slabs_of),
        rcu_free: of.rcu_free.as_ref().map(slabs_of).unwrap_or_default(),
    }
}

/// The slabs on lists that events show.
fn listed<'a>(
    input: &Input<'a>,
    by_frame: &HashMap<(usize, u64), u32>,
) -> Vec<(u32, Option<&'a Objects>)> {
    let mut found = Vec::new();
    for (number, cache) in read(input) {
        for listed in cache.each() {
            if let Some(slab) = by_frame.get(&(number, input.frames.of(listed.base))) {
                found.push((*slab, listed.free.as_ref()));
            }
        }
    }
    found
}

fn of_cache(cache: &CacheLists, place: &mut impl FnMut(&SlabOnList) -> ListedSlab) -> KnownCache {
    let mut all = |slabs: &[SlabOnList]| slabs.iter().map(&mut *place).collect::<Vec<_>>();
    let nodes = cache.nodes.iter().map(|slabs| all(slabs)).collect();
    let cpus = cache.cpus.iter().map(|of| KnownCpu {
        cpu: of.cpu as usize,
        slab: all(of.slab.as_slice()).pop(),
        partial: all(&of.partial),
    });
    KnownCache { cpus: cpus.collect(), nodes, ..KnownCache::default() }
}

/// For each initial slab, the objects that neither an event nor a list shows.
pub(super) fn untold(input: &Input, slabs: &[Slab], mut untold: Vec<u32>) -> Vec<u32> {
    let by_frame = by_frame(slabs);
    let torn: HashSet<u32> = listed(input, &by_frame)
        .into_iter()
        .filter_map(|(slab, free)| free.is_none().then_some(slab))
        .collect();
    let numbers: HashSet<usize> = read(input).map(|(number, _)| number).collect();
    for ((number, slab), count) in (0..).zip(slabs).zip(&mut untold) {
        if numbers.contains(&slab.cache.into()) && !torn.contains(&number) {
            *count = 0;
        }
    }
    untold
}

/// The initial slabs by cache and first frame.
fn by_frame(slabs: &[Slab]) -> HashMap<(usize, u64), u32> {
    let initial = (0..).zip(slabs).take_while(|(_, slab)| slab.initial);
    initial.map(|(number, slab)| ((slab.cache.into(), slab.frame), number)).collect()
}
