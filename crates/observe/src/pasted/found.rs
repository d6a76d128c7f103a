//! The snapshot that the formats of pasted texts fill, and what is worked out when all of them have.
//!
//! Neighbours: [`super::slabinfo`] and the other formats fill it; [`super::read`] begins and finishes
//! it. Invariant: the first format that tells a total is believed.

use super::lines;
use crate::hidden;
use crate::kernel::machine;
use crate::snapshot::{Cache, Missing, Snapshot, Source, SourceKind};
use crate::value::Value;
use std::collections::BTreeSet;

/// What a format finds in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing of its own.
    Absent,
    /// Its lines, which are read.
    Read,
    /// The line that it begins with, and then nothing that fits: in words.
    Damaged(String),
}

/// The snapshot that the formats fill.
pub(super) struct Pasted {
    pub(super) snapshot: Snapshot,
    /// Names of caches that are taken.
    names: BTreeSet<String>,
    /// Totals that a text tells in pages, until the size of a page is known.
    pages: Vec<(&'static str, u64)>,
}

impl Pasted {
    /// A snapshot of now of which nothing is known.
    pub(super) fn new() -> Pasted {
        Pasted {
            snapshot: Snapshot::new(Source::of(SourceKind::Kernel)),
            names: BTreeSet::new(),
            pages: Vec::new(),
        }
    }

    pub(super) fn miss(&mut self, what: &str, why: impl Into<String>) {
        self.snapshot.missing.push(Missing { what: what.into(), why: why.into() });
    }

    /// A cache with a name that no other has.
    pub(super) fn cache(&mut self, name: &str) -> Cache {
        crate::kernel::names::named(&lines::clean(name), None, &[], &mut self.names)
    }

    /// The cache of this name, which another format may have told of before.
    pub(super) fn cache_named(&mut self, name: &str) -> &mut Cache {
        let clean = lines::clean(name);
        let known = self.snapshot.caches.iter().position(|cache| cache.name == clean);
        let at = known.unwrap_or_else(|| {
            let cache = self.cache(name);
            self.snapshot.caches.push(cache);
            self.snapshot.caches.len() - 1
        });
        &mut self.snapshot.caches[at]
    }

    /// Stores a total, unless it is known.
    pub(super) fn total(&mut self, name: &str, value: impl Into<Value>) {
        self.snapshot.totals.entry(name.into()).or_insert_with(|| value.into());
    }

    /// Stores a total that is told in pages.
    pub(super) fn pages(&mut self, name: &'static str, pages: u64) {
        if !self.pages.iter().any(|(known, _)| *known == name) {
            self.pages.push((name, pages));
        }
    }

    /// Says that the text is of another allocator's heap, and of which.
    pub(super) fn heap(&mut self, allocator: Option<String>) {
        self.snapshot.source.kind = SourceKind::Heap;
        if let Some(allocator) = allocator {
            self.total("engine", Value::Text(lines::clean(&allocator)));
        }
    }

    /// Works out what needs all of the text.
    pub(super) fn finish(mut self) -> Snapshot {
        let told = self.snapshot.machine.page_bytes;
        self.snapshot.machine.page_bytes =
            told.or_else(|| machine::page_bytes(&self.snapshot.caches));
        let page_bytes = self.snapshot.machine.page_bytes;
        let mut unknown = Vec::new();
        for (name, pages) in std::mem::take(&mut self.pages) {
            match page_bytes.and_then(|bytes| pages.checked_mul(bytes)) {
                Some(bytes) => self.total(name, bytes),
                None => unknown.push(name),
            }
        }
        if !unknown.is_empty() {
            let why = "they are told in pages, and no line tells the size of a page";
            self.miss(&unknown.join(", "), why);
        }
        if self.snapshot.source.kind == SourceKind::Kernel {
            bound_live(&mut self.snapshot);
            hidden::sum(&mut self.snapshot);
        }
        self.snapshot
    }
}

/// Bounds live objects, where a text tells only those that the kernel counts as active.
fn bound_live(snapshot: &mut Snapshot) {
    let hides = |cache: &Cache| hidden::objects(snapshot, cache).is_some();
    let known: Vec<bool> = snapshot.caches.iter().map(hides).collect();
    for (cache, known) in snapshot.caches.iter_mut().zip(known) {
        if let Some(active) = cache.exact("objects").filter(|_| !known) {
            cache.set("live", Value::between(0, active));
        }
    }
}
