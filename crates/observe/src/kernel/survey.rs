//! Reads the attributes of all caches; an attribute that the first caches lack is not read from the
//! others.
//!
//! Two threads read in parallel, because system calls take nearly all of the time.
//!
//! Neighbours: [`super::tree`] reads the files, [`super::attribute`] says which attributes are
//! read, and when. Invariant: an attribute that no cache has is listed as missing once.

use super::attribute::{self, ATTRIBUTES, Attribute, NOT_READ, ReadTime};
use super::error::why;
use super::names::FoundCache;
use super::tree::{BELOW, Directory, Listing, Reader, Tree};
use crate::release::Release;
use crate::snapshot::{Cache, Missing};
use crate::want::ReadScope;
use std::io;
use std::slice::IterMut;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// After this many caches without an attribute, it is not read again. A cache may end while it is
/// read: one is not enough.
const ENOUGH: u32 = 3;

/// Up to this many partial slabs of a node, slabinfo counts each; of more it counts the first and
/// the last ones and estimates. Sysfs counts all.
const COUNTED: u64 = 10_000;

/// The reading of all caches.
pub(super) struct Survey<'a> {
    tree: &'a Tree,
    release: Option<Release>,
    attempts: Vec<AttributeRead>,
    /// In a kernel from which all were requested: without counters.
    no_counters: bool,
    /// A second thread helps.
    two: bool,
}

/// What is known of an attribute.
#[derive(Clone)]
struct AttributeRead {
    name: String,
    /// Asked for only of caches that slabinfo does not list.
    only_unlisted: bool,
    /// A cache has it.
    seen: bool,
    misses: u32,
    /// Not to be read any more.
    given_up: bool,
    /// Only root may read it.
    denied: bool,
    /// Why it was not read, if not for its absence.
    why: Option<String>,
    /// A text that is none of its kind, and where.
    strange: Option<String>,
}

impl<'a> Survey<'a> {
    pub(super) fn new(
        tree: &'a Tree,
        listing: &Listing,
        want: ReadScope,
        release: Option<Release>,
    ) -> Survey<'a> {
        let attempt = |a: &Attribute| {
            let only_unlisted = match a.when {
                ReadTime::Plain => false,
                ReadTime::All if !want.all => return None,
                ReadTime::All => false,
                ReadTime::AllOrUnlisted => !want.all,
                ReadTime::Unlisted => true,
            };
            Some(AttributeRead::new(a.name, only_unlisted))
        };
        let mut attempts: Vec<_> = ATTRIBUTES.iter().filter_map(attempt).collect();
        let mut no_counters = false;
        if want.all {
            // All caches of a kernel have the same files.
            let lists = listing.ids.iter().map(|id| tree.attributes(id));
            let mut names = lists.into_iter().find(|names| !names.is_empty()).unwrap_or_default();
            names.sort();
            no_counters = !names.is_empty() && !names.iter().any(|n| attribute::is_counter(n));
            names.retain(|n| {
                !NOT_READ.contains(&n.as_str()) && !ATTRIBUTES.iter().any(|a| a.name == n)
            });
            attempts.extend(names.iter().map(|name| AttributeRead::new(name, false)));
        }
        for attempt in &mut attempts {
            attempt.why = attribute::stub(&attempt.name, release.as_ref());
            attempt.given_up = attempt.why.is_some();
        }
        let two = thread::available_parallelism().is_ok_and(|n| n.get() > 1);
        Survey { tree, release, attempts, no_counters, two }
    }

    /// Reads, and returns what could not be read.
    pub(super) fn fill(mut self, found: &mut [FoundCache]) -> Vec<Missing> {
        let (tree, work) = (self.tree, Mutex::new(found.iter_mut()));
        let mut others = self.attempts.clone();
        thread::scope(|scope| {
            let help = || fill(tree, &mut others, &work);
            // Where no thread can be had, one does it all.
            let helper = self.two.then(|| thread::Builder::new().spawn_scoped(scope, help));
            fill(tree, &mut self.attempts, &work);
            drop(helper);
        });
        for (attempt, other) in self.attempts.iter_mut().zip(others) {
            attempt.join(other);
        }
        self.missing()
    }

    fn missing(&self) -> Vec<Missing> {
        let mut rows = Vec::new();
        let mut row = |what: &str, why: String| rows.push(Missing { what: what.into(), why });
        let denied = self.attempts.iter().filter(|a| a.denied).map(|a| a.name.as_str());
        let denied: Vec<_> = denied.collect();
        if !denied.is_empty() {
            let why = why(&io::ErrorKind::PermissionDenied.into());
            row(&format!("/{BELOW}/*/: {}", denied.join(", ")), why);
        }
        for attempt in &self.attempts {
            if !attempt.seen && !attempt.denied {
                let absent = || attribute::absent(&attempt.name, self.release.as_ref());
                let why = attempt.why.clone();
                let why = why.or_else(|| (attempt.misses > 0).then(absent));
                why.into_iter().for_each(|why| row(&attempt.name, why));
            }
            attempt.strange.iter().for_each(|strange| row(&attempt.name, strange.clone()));
        }
        if self.no_counters {
            row("counters", attribute::no_counters(self.release.as_ref()));
        }
        rows
    }
}

/// Reads caches until none is left.
fn fill(tree: &Tree, attempts: &mut [AttributeRead], work: &Mutex<IterMut<'_, FoundCache>>) {
    let mut reader = Reader::new();
    let next = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
    while let Some(found) = next() {
        // A cache may have ended since it was listed.
        let Some(Ok(directory)) = found.directory.as_deref().map(|id| tree.enter(id)) else {
            continue;
        };
        let estimate = found.cache.exact("objects").filter(|_| found.listed);
        for attempt in &mut *attempts {
            if !attempt.given_up && (!attempt.only_unlisted || !found.listed) {
                attempt.read(&mut reader, &directory, &mut found.cache);
            }
        }
        if let Some(estimate) = estimate {
            count(&mut reader, &directory, &mut found.cache, estimate);
        }
    }
}

/// Keeps what slabinfo estimates apart from what sysfs counts, of a cache with many
/// partial slabs.
fn count(reader: &mut Reader, directory: &Directory, cache: &mut Cache, estimate: u64) {
    if cache.exact("partial").is_none_or(|partial| partial <= COUNTED) {
        return;
    }
    let text = reader.read(directory, "objects").ok();
    if let Some(counted) = text.and_then(|text| attribute::parse("objects", text).ok()) {
        cache.set("objects_counted", counted);
        cache.set("objects", estimate);
    }
}

impl AttributeRead {
    fn new(name: &str, only_unlisted: bool) -> AttributeRead {
        AttributeRead {
            name: name.into(),
            only_unlisted,
            seen: false,
            misses: 0,
            given_up: false,
            denied: false,
            why: None,
            strange: None,
        }
    }

    fn read(&mut self, reader: &mut Reader, directory: &Directory, cache: &mut Cache) {
        let error = match reader.read(directory, &self.name) {
            Ok(text) => {
                match attribute::parse(&self.name, text) {
                    Ok(reading) => {
                        self.seen = true;
                        cache.set(self.name.as_str(), reading);
                    }
                    Err(what) if self.strange.is_none() => {
                        self.strange = Some(format!("cache `{}`: {what}", cache.name));
                    }
                    Err(_) => {}
                }
                return;
            }
            Err(error) => error,
        };
        match error.kind() {
            io::ErrorKind::PermissionDenied => self.denied = true,
            // A kernel without it, or a cache that has ended.
            io::ErrorKind::NotFound => {}
            _ if self.why.is_none() => self.why = Some(why(&error)),
            _ => {}
        }
        self.misses += 1;
        self.given_up = self.denied || (!self.seen && self.misses >= ENOUGH);
    }

    /// What another thread learnt about the same attribute.
    fn join(&mut self, other: AttributeRead) {
        self.seen |= other.seen;
        self.denied |= other.denied;
        self.misses = self.misses.saturating_add(other.misses);
        self.why = self.why.take().or(other.why);
        self.strange = self.strange.take().or(other.strange);
    }
}
