//! The caches of a trace's objects: their names, by how much each grew, and whether the kernel may
//! take their objects back.
//!
//! A `kmalloc` names its call site only; its cache is known by size and flags, and a process's by
//! malloc's class. How a cache grew is known from its events, where each names it, and from the
//! snapshots before and after a recording.

use super::verdict::{FEWEST, GROWING_TENTHS, Survivors, Verdict};
use crate::event::{Event, EventKind};
use crate::prepare::TREE_NODES;
use crate::prepare::naming::kmalloc_cache;
use crate::snapshot::KernelSnapshot;
use crate::trace::{Attached, END, MALLOC, Names, START};
use std::collections::HashMap;

/// Whose name is in the trace, or the number of a name that is made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CacheId {
    Named(u32),
    Kmalloc(u32),
}

pub(super) struct Caches {
    /// Of a process's malloc.
    is_process: bool,
    kmalloc: Names,
    /// By size and flags.
    by_request: HashMap<(u32, u32), u32>,
    /// Allocations less frees of a named cache, those of objects from before the trace too.
    grew: HashMap<u32, i64>,
    /// A call that frees many objects was recorded.
    tells_bulk: bool,
    start: Option<KernelSnapshot>,
    end: Option<KernelSnapshot>,
}

/// The snapshot under a name, if there is one that can be read.
pub(super) fn snapshot(attached: &[Attached], name: &str) -> Option<KernelSnapshot> {
    let bytes = &attached.iter().find(|it| it.name == name)?.bytes;
    KernelSnapshot::parse(bytes).ok()?.pop()
}

impl Caches {
    pub(super) fn new(attached: &[Attached]) -> Caches {
        Caches {
            is_process: attached.iter().any(|it| it.name == MALLOC),
            kmalloc: Names::new(),
            by_request: HashMap::new(),
            grew: HashMap::new(),
            tells_bulk: false,
            start: snapshot(attached, START),
            end: snapshot(attached, END),
        }
    }

    pub(super) fn count(&mut self, event: &Event) {
        let objects = i64::from(event.requested);
        self.tells_bulk |= event.kind == EventKind::FreeBulk;
        let more = match event.kind {
            EventKind::CacheAlloc => 1,
            EventKind::CacheFree => -1,
            EventKind::AllocBulk => objects,
            EventKind::FreeBulk => -objects,
            _ => return,
        };
        *self.grew.entry(event.name).or_default() += more;
    }

    /// The cache of an allocation.
    pub(super) fn of(&mut self, event: &Event) -> CacheId {
        if event.kind == EventKind::CacheAlloc {
            return CacheId::Named(event.name);
        }
        let Caches { is_process, kmalloc, by_request, .. } = self;
        let number = by_request.entry((event.allocated, event.gfp)).or_insert_with(|| {
            kmalloc.intern(&match (*is_process, event.allocated) {
                (true, 0) => "malloc-large".to_owned(),
                (true, size) => format!("malloc-{size}"),
                (false, _) => kmalloc_cache(event),
            })
        });
        CacheId::Kmalloc(*number)
    }

    pub(super) fn name(&self, cache: CacheId, names: &Names) -> String {
        let name = match cache {
            CacheId::Named(name) => names.get(name),
            CacheId::Kmalloc(name) => self.kmalloc.get(name),
        };
        if name.is_empty() { "-".into() } else { name.into() }
    }

    /// The objects by which the cache grew, if that is known; the least of what the events and the
    /// snapshots say, because a bulk call frees objects that no event names.
    fn grew(&self, cache: CacheId, name: &str) -> Option<i64> {
        let by_events = match cache {
            CacheId::Named(name) => self.grew.get(&name).copied(),
            CacheId::Kmalloc(_) => None,
        };
        let by_snapshots = || {
            let objects = |snapshot: &KernelSnapshot| {
                let cache = snapshot.cache(name)?;
                let shared = snapshot.aliases.values().filter(|id| **id == cache.id).count() > 1;
                if shared { None } else { cache.objects.map(|objects| objects as i64) }
            };
            Some(objects(self.end.as_ref()?)? - objects(self.start.as_ref()?)?)
        };
        [by_events, by_snapshots()].into_iter().flatten().min()
    }

    fn is_reclaimable(&self, name: &str) -> bool {
        let told = self.start.as_ref().and_then(|start| start.cache(name)?.reclaim_account);
        told.unwrap_or(name.starts_with("kmalloc-rcl-"))
    }

    pub(super) fn verdict(&self, cache: CacheId, it: &Survivors, names: &Names) -> Verdict {
        let name = self.name(cache, names);
        if !it.are_overdue() {
            return Verdict::Young;
        }
        if self.grew(cache, &name).is_some_and(|grew| grew.saturating_mul(2) < it.overdue as i64) {
            return Verdict::Replaced;
        }
        match it.overdue >= FEWEST && it.growing_tenths() >= GROWING_TENTHS {
            true if name == TREE_NODES && !self.tells_bulk => Verdict::Unseen,
            true if self.is_reclaimable(&name) => Verdict::Reclaimable,
            true => Verdict::Leak,
            false => Verdict::Kept,
        }
    }
}
