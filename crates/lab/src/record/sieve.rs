//! Drops events that concern no slab: frees of pages that were not slabs, and events of caches that
//! were not selected.
//!
//! The kernel itself already drops allocations of user pages; a free does not say what the pages
//! were used for. A frame that was not allocated in this trace may have belonged to a slab earlier.
//! Memory use: an entry for each 64 page frames of which one was freed and, if caches are selected,
//! for each of their live objects: no more than there are events, whatever their numbers are.

use super::kmem::MOVABLE;
use crate::event::{Event, EventKind};
use crate::prepare::naming::kmalloc_cache;
use crate::trace::Names;
use std::collections::{HashMap, HashSet};

/// The caches to be recorded.
pub type Wanted = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Decides which events are recorded.
pub struct Sieve {
    /// Frames that were freed, or allocated for something else, and not allocated for a slab since: a
    /// bit each, by 64.
    others: HashMap<u64, u64>,
    wanted: Option<SieveFilter>,
}

struct SieveFilter {
    is_wanted: Wanted,
    /// By the index of the name: 0 not asked yet, 1 no, 2 yes.
    names: Vec<u8>,
    /// Objects of `kmalloc` that are recorded and live.
    live: HashSet<u64>,
}

impl Sieve {
    /// One for the caches that are wanted; for all if `None`.
    #[must_use]
    pub fn new(wanted: Option<Wanted>) -> Sieve {
        let picked = |is_wanted| SieveFilter { is_wanted, names: Vec::new(), live: HashSet::new() };
        Sieve { others: HashMap::new(), wanted: wanted.map(picked) }
    }

    /// True if the event is recorded.
    pub fn passes(&mut self, event: &Event, names: &Names) -> bool {
        match event.kind {
            EventKind::PageAlloc => {
                let slab = event.gfp & MOVABLE == 0;
                self.mark(event.address, !slab);
                slab
            }
            EventKind::PageFree => !self.mark(event.address, true),
            _ => self.wanted.as_mut().is_none_or(|picked| picked.passes(event, names)),
        }
    }

    /// Marks a frame; returns what it was before.
    fn mark(&mut self, frame: u64, other: bool) -> bool {
        let bit = 1 << (frame % 64);
        let word = self.others.entry(frame / 64).or_default();
        let before = *word & bit != 0;
        *word = if other { *word | bit } else { *word & !bit };
        before
    }
}

impl SieveFilter {
    fn passes(&mut self, event: &Event, names: &Names) -> bool {
        match event.kind {
            EventKind::Kmalloc => {
                // By its family, or by its size in any of them.
                let wanted =
                    (self.is_wanted)(&kmalloc_cache(event)) || (self.is_wanted)(&class(event));
                if wanted {
                    self.live.insert(event.address);
                }
                wanted
            }
            EventKind::Kfree => self.live.remove(&event.address),
            // Of which cache it is follows from events alone.
            EventKind::KfreeRcu => true,
            _ => self.is_named(event.name, names),
        }
    }

    fn is_named(&mut self, name: u32, names: &Names) -> bool {
        let at = name as usize;
        if at >= self.names.len() {
            self.names.resize(at + 1, 0);
        }
        if self.names[at] == 0 {
            self.names[at] = 1 + u8::from((self.is_wanted)(names.get(name)));
        }
        self.names[at] == 2
    }
}

/// `kmalloc-64` and `kmalloc-1k`, whichever family it is of.
fn class(event: &Event) -> String {
    match event.allocated {
        bytes if bytes >= 1024 && bytes % 1024 == 0 => format!("kmalloc-{}k", bytes / 1024),
        bytes => format!("kmalloc-{bytes}"),
    }
}

/// The thread that works for the recorder.
#[derive(Clone, Copy)]
pub struct RecorderThread {
    /// Its number; 0: there is none.
    pub number: u32,
    /// When it had ended: the kernel then gives the number to others.
    pub until: u64,
}

/// What the recorder itself takes from `kmalloc`: left out with its frees, whoever frees it. What the
/// recorder's thread frees of others stays, as interrupts free in it.
#[derive(Default)]
pub struct RecorderObjects {
    live: HashSet<u64>,
}

impl RecorderObjects {
    /// True for an event of the thread's own.
    pub fn takes(
        &mut self,
        event: &Event,
        RecorderThread { number, until }: RecorderThread,
    ) -> bool {
        let is_own = number != 0 && event.pid == number && event.time <= until;
        match event.kind {
            EventKind::Kmalloc if is_own => {
                self.live.insert(event.address);
                true
            }
            EventKind::Kmalloc => {
                // Its free was lost.
                self.live.remove(&event.address);
                false
            }
            EventKind::Kfree => self.live.remove(&event.address),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, address: u64, name: u32, gfp: u32) -> Event {
        Event { kind, address, name, gfp, requested: 60, allocated: 64, ..Event::BLANK }
    }

    #[test]
    fn what_the_recorder_takes_and_gives_back_is_left_out() {
        let mut own = RecorderObjects::default();
        let mut takes = |kind, address, pid, number| {
            let thread = RecorderThread { number, until: u64::MAX };
            own.takes(&Event { pid, ..event(kind, address, 0, 0) }, thread)
        };
        assert!(!takes(EventKind::Kmalloc, 0x1000, 7, 0), "nobody is left out yet");
        assert!(!takes(EventKind::Kfree, 0x1000, 7, 7), "of before");
        assert!(takes(EventKind::Kmalloc, 0x2000, 7, 7));
        assert!(takes(EventKind::Kfree, 0x2000, 0, 7), "in an interrupt");
        assert!(!takes(EventKind::Kfree, 0x2000, 7, 7), "another's, freed by an interrupt in it");
        assert!(!takes(EventKind::Kmalloc, 0x3000, 8, 7) && !takes(EventKind::Kfree, 0x3000, 8, 7));
        assert!(
            !takes(EventKind::CacheAlloc, 0x4000, 7, 7) && !takes(EventKind::PageAlloc, 9, 7, 7)
        );
        assert!(takes(EventKind::Kmalloc, 0x5000, 7, 7), "its free is lost");
        assert!(!takes(EventKind::Kmalloc, 0x5000, 8, 7) && !takes(EventKind::Kfree, 0x5000, 8, 7));
    }

    #[test]
    fn a_thread_that_has_the_number_later_is_not_left_out() {
        let mut own = RecorderObjects::default();
        let mut takes = |kind, address, time| {
            let thread = RecorderThread { number: 7, until: 100 };
            own.takes(&Event { pid: 7, time, ..event(kind, address, 0, 0) }, thread)
        };
        assert!(takes(EventKind::Kmalloc, 0x1000, 99) && takes(EventKind::Kmalloc, 0x2000, 100));
        assert!(!takes(EventKind::Kmalloc, 0x3000, 101) && !takes(EventKind::Kfree, 0x3000, 102));
        assert!(takes(EventKind::Kfree, 0x1000, 103), "the recorder's own, freed later");
        assert!(!takes(EventKind::Kmalloc, 0x2000, 104), "its free was lost");
    }

    #[test]
    fn a_page_is_given_back_once_and_only_if_it_may_have_been_a_slab() {
        let (mut sieve, names) = (Sieve::new(None), Names::new());
        let mut passes = |kind, frame, gfp| sieve.passes(&event(kind, frame, 0, gfp), &names);
        assert!(passes(EventKind::PageFree, 70, 0), "it was got before the trace");
        assert!(!passes(EventKind::PageFree, 70, 0), "nobody got it since");
        assert!(!passes(EventKind::PageAlloc, 70, MOVABLE));
        assert!(!passes(EventKind::PageFree, 70, 0));
        assert!(passes(EventKind::PageAlloc, 70, 0));
        assert!(passes(EventKind::PageFree, 70, 0));
        assert!(!passes(EventKind::PageAlloc, 71, MOVABLE));
        assert!(!passes(EventKind::PageFree, 71, 0), "it was a user's");
    }

    #[test]
    fn a_family_of_kmalloc_is_picked_by_its_flag() {
        const ACCOUNT: u32 = 0x40_0000;
        let names = Names::new();
        for (wanted, gfp, passes) in [
            ("kmalloc-cg-64", ACCOUNT, true),
            ("kmalloc-cg-64", 0, false),
            ("kmalloc-rcl-64", 0x10, true),
            ("dma-kmalloc-64", 0x1, true),
            ("kmalloc-64", ACCOUNT, true),
            ("kmalloc-cg-128", ACCOUNT, false),
        ] {
            let mut sieve = Sieve::new(Some(Box::new(move |name| name == wanted)));
            let event = event(EventKind::Kmalloc, 0x3000, 0, gfp);
            assert_eq!(sieve.passes(&event, &names), passes, "{wanted} {gfp:#x}");
        }
    }

    #[test]
    fn caches_are_picked_by_name_and_by_size() {
        let mut names = Names::new();
        let (filp, dentry) = (names.intern("filp"), names.intern("dentry"));
        let wanted: Wanted = Box::new(|name| matches!(name, "filp" | "kmalloc-64"));
        let mut sieve = Sieve::new(Some(wanted));
        let mut passes = |kind, address, name| sieve.passes(&event(kind, address, name, 0), &names);
        assert!(passes(EventKind::CacheAlloc, 0x1000, filp));
        assert!(!passes(EventKind::CacheFree, 0x2000, dentry));
        assert!(!passes(EventKind::Kfree, 0x3000, dentry), "of which cache is not known");
        assert!(passes(EventKind::Kmalloc, 0x3000, dentry));
        assert!(passes(EventKind::Kfree, 0x3000, dentry));
    }
}
