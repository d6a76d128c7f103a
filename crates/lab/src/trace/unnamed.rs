//! Finds the caches of allocations that do not name them.
//!
//! Before kernel 6.18, `kmem_cache_alloc` events have the call site and sizes, and only
//! `kmem_cache_free` events name the cache. So an allocation is first [marked] with its call site.
//! [`Votes`] counts, for each call site and sizes, to which caches these objects were freed;
//! [`Caches`] then assigns to each call site the cache with the most frees. In nearly all kernel
//! code, the objects of one size from one call site belong to one cache; [`Caches::others`] counts
//! the frees that contradict this.
//!
//! The recorder and the readers of other recorders' files mark allocations; [`crate::edit::named`]
//! reads a file twice to name them. Memory use: an entry for each live object.

use super::names::Names;
use super::whole::Trace;
use crate::event::{Event, EventKind};
use std::collections::HashMap;

/// Precedes a call site that is in the field of a cache's name. No cache's name begins so.
const MARK: char = '@';

/// The name of an allocation whose event has no cache, until it is known.
#[must_use]
pub fn marked(site: &str) -> String {
    format!("{MARK}{site}")
}

fn is_marked(name: &str) -> bool {
    name.starts_with(MARK)
}

/// Call site, requested bytes, bytes of the object.
type AllocSite = (u32, u32, u32);

fn place(event: &Event) -> AllocSite {
    (event.name, event.requested, event.allocated)
}

/// Which caches free what was allocated where.
#[derive(Debug, Default)]
pub struct Votes {
    live: HashMap<u64, AllocSite>,
    of: HashMap<AllocSite, HashMap<u32, u64>>,
}

impl Votes {
    /// Takes an event of a trace, in order.
    pub fn count(&mut self, event: &Event, names: &Names) {
        match event.kind {
            EventKind::CacheAlloc if is_marked(names.get(event.name)) => {
                self.of.entry(place(event)).or_default();
                self.live.insert(event.address, place(event));
            }
            EventKind::CacheFree => {
                if let Some(place) = self.live.remove(&event.address) {
                    *self.of.entry(place).or_default().entry(event.name).or_default() += 1;
                }
            }
            EventKind::Kfree | EventKind::KfreeRcu | EventKind::CacheAlloc | EventKind::Kmalloc => {
                self.live.remove(&event.address);
            }
            _ => {}
        }
    }

    /// Gives each place its cache. Where nothing was freed, `by_sizes` may know the cache that has
    /// objects of these sizes: the requested size, and the object's.
    #[must_use]
    pub fn decide(self, names: &Names, by_sizes: impl Fn(u32, u32) -> Option<String>) -> Caches {
        let mut caches = Caches::default();
        for (place, votes) in self.of {
            // Of equals the first by name: the same trace names alike each time.
            let most =
                votes.iter().max_by_key(|(name, n)| (**n, std::cmp::Reverse(names.get(**name))));
            let name = match most {
                Some((name, most)) => {
                    caches.others += votes.values().sum::<u64>() - most;
                    names.get(*name).to_owned()
                }
                None => match by_sizes(place.1, place.2) {
                    Some(name) => {
                        caches.by_sizes += 1;
                        name
                    }
                    None => {
                        caches.unknown += 1;
                        continue;
                    }
                },
            };
            caches.of.insert(place, name);
        }
        caches
    }
}

/// The caches of places.
#[derive(Debug, Default)]
pub struct Caches {
    of: HashMap<AllocSite, String>,
    /// Frees of objects to another cache than that which their place has.
    pub others: u64,
    /// Places whose cache is known by sizes alone.
    pub by_sizes: u64,
    /// Places whose cache is not known: their objects are in no replay.
    pub unknown: u64,
}

impl Caches {
    /// Gives a marked allocation its call site, and its cache if that is known; nothing to other events.
    /// `event` is as it was counted, `same` has the numbers of `names`.
    pub fn name(&self, event: &Event, same: &mut Event, names: &mut Names) {
        if event.kind != EventKind::CacheAlloc {
            return;
        }
        if let Some(site) = names.get(same.name).strip_prefix(MARK).map(str::to_owned) {
            same.site = names.intern(&site);
        }
        if let Some(cache) = self.of.get(&place(event)) {
            same.name = names.intern(cache);
        }
    }
}

/// Names the marked allocations of a trace that is in memory.
pub fn name_all(trace: &mut Trace) {
    if !trace.names.iter().any(|(_, name)| is_marked(name)) {
        return;
    }
    let mut votes = Votes::default();
    trace.events.iter().for_each(|event| votes.count(event, &trace.names));
    let caches = votes.decide(&trace.names, |_, _| None);
    for event in &mut trace.events {
        let counted = *event;
        caches.name(&counted, event, &mut trace.names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(events: &[(EventKind, &str, u64, u32)]) -> Trace {
        let mut trace = Trace::default();
        for (kind, name, address, bytes) in events {
            let (name, allocated) = (trace.names.intern(name), *bytes);
            let event = Event { kind: *kind, name, allocated, address: *address, ..Event::BLANK };
            trace.events.push(event);
        }
        trace
    }

    fn names(trace: &Trace) -> Vec<&str> {
        trace.events.iter().map(|event| trace.names.get(event.name)).collect()
    }

    #[test]
    fn frees_tell_the_cache_of_a_place_by_site_and_size() {
        use EventKind::{CacheAlloc, CacheFree, Kfree};
        let mut trace = trace(&[
            (CacheAlloc, "@open", 1, 256),
            (CacheAlloc, "@open", 2, 64),
            (CacheFree, "filp", 1, 0),
            (CacheFree, "pid", 2, 0),
            (CacheAlloc, "@open", 1, 256),
            (CacheAlloc, "@alone", 3, 64),
            (Kfree, "x", 1, 0),
            // Of an object that no allocation was traced of.
            (CacheFree, "dentry", 1, 0),
        ]);
        name_all(&mut trace);
        let told = ["filp", "pid", "filp", "pid", "filp", "@alone", "x", "dentry"];
        assert_eq!(names(&trace), told);
        let site = |event: &Event| trace.names.get(event.site);
        let sites: Vec<_> = trace.events.iter().map(site).collect();
        assert_eq!(sites, ["open", "open", "", "", "open", "alone", "", ""]);
    }

    #[test]
    fn most_frees_win_and_the_others_are_counted() {
        use EventKind::{CacheAlloc, CacheFree};
        let mut events = Vec::new();
        for n in 0..5 {
            events.push((CacheAlloc, "@pool", n, 128));
            events.push((CacheFree, if n == 2 { "odd" } else { "bio" }, n, 0));
        }
        events.push((CacheAlloc, "@once", 9, 512));
        events.push((CacheAlloc, "@never", 10, 8));
        let trace = trace(&events);
        let mut votes = Votes::default();
        trace.events.iter().for_each(|event| votes.count(event, &trace.names));
        let caches =
            votes.decide(&trace.names, |_, object| (object == 512).then(|| "inode".to_owned()));
        assert_eq!((caches.others, caches.by_sizes, caches.unknown), (1, 1, 1));
        let named = |nth: usize| {
            let (mut same, mut names) = (trace.events[nth], trace.names.clone());
            caches.name(&trace.events[nth], &mut same, &mut names);
            names.get(same.name).to_owned()
        };
        // A free names its cache itself.
        assert_eq!([4, 5, 10, 11].map(named), ["bio", "odd", "inode", "@never"]);
    }
}
