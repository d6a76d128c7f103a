//! Follows objects from their allocation to their free by the events of a sample.
//!
//! Invariant: each followed object counts as many times as one block was in the sample; when the
//! sample becomes smaller, objects outside of it are not followed any more, and the others count
//! twice.

use super::lines::{Event, Line};
use crate::bpf::{Raw, RawCache, RawOrigin, Survivor, kmalloc_name};
use slabyard_observe::kernel::Symbols;
use std::collections::HashMap;
use std::fmt::Write;

/// Distance of the numbers that stand for call sites.
const APART: u64 = 16;
/// Objects that are followed at most.
const ROOM: usize = 1 << 19;

/// An object that lives.
struct Object {
    origin: usize,
    born_ns: u64,
    bytes: u32,
    bits: u32,
}

/// What was seen.
#[derive(Default)]
pub(super) struct Followed {
    /// The process that reads.
    own: u32,
    caches: HashMap<String, usize>,
    sites: HashMap<String, u64>,
    /// By cache, site and process.
    origins: HashMap<(usize, u64, u32), usize>,
    raw: Raw,
    live: HashMap<u64, Object>,
    /// Events that the kernel had no room for.
    pub lost: u64,
}

impl Followed {
    /// Without what this process allocates.
    pub(super) fn without(own: u32) -> Followed {
        Followed { own, ..Followed::default() }
    }

    /// Takes an event of a sample of one block in 2^bits, whose blocks have no bit of the mask.
    pub(super) fn take(&mut self, line: &Line<'_>, bits: u32, mask: u64) {
        // What was printed before the sample became smaller.
        if line.address & mask != 0 {
            return;
        }
        self.raw.events += 1;
        match line.event {
            // The reader itself is left out.
            Event::Allocated { .. } if line.tgid == self.own => {}
            Event::Allocated { site, cache, bytes, flags } => {
                let cache = match cache {
                    Some(cache) => self.cache(cache, bytes),
                    None => self.cache(&kmalloc_name(bytes, families(flags)), bytes),
                };
                let origin = self.origin(cache, site, line);
                let scale = 1 << bits;
                let counts = &mut self.raw.origins[origin];
                counts.allocations += scale;
                counts.bytes += u64::from(bytes) * scale;
                self.raw.caches[cache].allocations += scale;
                if self.live.len() < ROOM {
                    let object = Object { origin, born_ns: line.time_ns, bytes, bits };
                    self.live.insert(line.address, object);
                } else {
                    self.raw.live_full += 1;
                }
            }
            Event::Freed { cache } => {
                let object = self.live.remove(&line.address);
                let scale = 1 << object.as_ref().map_or(bits, |object| object.bits.max(bits));
                let mut of = cache.and_then(|cache| self.caches.get(cache)).copied();
                if let Some(object) = object {
                    let origin = &mut self.raw.origins[object.origin];
                    origin.frees += scale;
                    of = of.or(Some(origin.cache));
                }
                if let Some(cache) = of {
                    self.raw.caches[cache].frees += scale;
                }
            }
        }
    }

    fn cache(&mut self, name: &str, bytes: u32) -> usize {
        if let Some(nth) = self.caches.get(name) {
            return *nth;
        }
        let nth = self.raw.caches.len();
        let (number, name) = (nth as u64, name.to_owned());
        self.caches.insert(name.clone(), nth);
        self.raw.caches.push(RawCache {
            number,
            name,
            object_bytes: bytes,
            allocations: 0,
            frees: 0,
        });
        nth
    }

    fn origin(&mut self, cache: usize, site: &str, line: &Line<'_>) -> usize {
        let next = (self.sites.len() as u64 + 1) * APART;
        let site = match self.sites.get(site) {
            Some(site) => *site,
            None => *self.sites.entry(site.to_owned()).or_insert(next),
        };
        let origins = &mut self.raw.origins;
        *self.origins.entry((cache, site, line.tgid)).or_insert_with(|| {
            origins.push(RawOrigin {
                cache,
                site,
                cgroup: 0,
                tgid: line.tgid,
                comm: line.comm.to_owned(),
                stack: Vec::new(),
                allocations: 0,
                bytes: 0,
                frees: 0,
            });
            origins.len() - 1
        })
    }

    /// Follows only objects with such addresses from now on.
    pub(super) fn keep(&mut self, is_kept: impl Fn(u64) -> bool) {
        self.live.retain(|address, _| is_kept(*address));
    }

    pub(super) fn processes(&self) -> Vec<u32> {
        self.raw.origins.iter().map(|origin| origin.tgid).collect()
    }

    /// What was followed until now, at which a sample of one block in 2^bits ends; with a table of
    /// names in which call sites have the numbers that the origins have.
    pub(super) fn raw(
        mut self,
        now_ns: u64,
        bits: u32,
        cgroup: impl Fn(u32) -> u64,
    ) -> (Raw, Symbols) {
        let mut text = String::new();
        for (site, number) in &self.sites {
            let _ = writeln!(text, "{number:x} t {site}");
        }
        for origin in &mut self.raw.origins {
            origin.cgroup = cgroup(origin.tgid);
            origin.stack = vec![origin.site];
        }
        let survivors = self.live.into_values().map(|object| Survivor {
            origin: object.origin,
            age_ns: now_ns.saturating_sub(object.born_ns),
            bytes: object.bytes,
            stands_for: 1 << object.bits.max(bits),
            look: None,
        });
        self.raw.survivors = survivors.collect();
        self.raw.one_in = 1 << bits;
        self.raw.missed = self.lost;
        (self.raw, Symbols::parse(text))
    }
}

/// The flags by which kmalloc chooses among families of caches, as numbers of the kernel.
fn families(flags: &str) -> u32 {
    let has = |flag: &str| flags.split('|').any(|it| it == flag);
    match flags {
        _ if has("GFP_DMA") || has("__GFP_DMA") => 0x1,
        _ if has("__GFP_RECLAIMABLE") => 0x10,
        _ if has("GFP_KERNEL_ACCOUNT") || has("__GFP_ACCOUNT") => 0x40_0000,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(address: u64, event: Event<'_>) -> Line<'_> {
        Line { comm: "plant", tgid: 7, time_ns: 5, address, event }
    }

    #[test]
    fn an_object_counts_as_many_times_as_the_sample_says_at_its_end() {
        let mut followed = Followed::without(4);
        let made = |flags| Event::Allocated { site: "f", cache: None, bytes: 96, flags };
        followed.take(&line(0x10000, made("GFP_KERNEL")), 1, 0);
        followed.take(&line(0x20000, made("GFP_KERNEL_ACCOUNT")), 1, 0);
        followed.take(&line(0x40000, made("GFP_KERNEL")), 1, 0);
        followed.take(&Line { tgid: 4, ..line(0x80000, made("GFP_KERNEL")) }, 1, 0);
        // Smaller by one bit: the second object is outside.
        let mask = 0x20000;
        followed.keep(|address| address & mask == 0);
        followed.take(&line(0x20000, Event::Freed { cache: None }), 2, mask);
        followed.take(&line(0x10000, Event::Freed { cache: None }), 2, mask);
        let (raw, symbols) = followed.raw(8, 2, |tgid| u64::from(tgid) + 1);
        assert_eq!((raw.survivors.len(), raw.survivors[0].stands_for), (1, 4));
        assert_eq!(raw.survivors[0].age_ns, 3);
        let origin = &raw.origins[raw.survivors[0].origin];
        assert_eq!((origin.allocations, origin.frees, origin.cgroup), (4, 4, 8));
        assert_eq!(symbols.name(origin.site), "f");
        let names: Vec<&str> = raw.caches.iter().map(|cache| &*cache.name).collect();
        assert_eq!(names, ["kmalloc-96", "kmalloc-cg-96"]);
    }
}
