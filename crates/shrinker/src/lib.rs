//! Shrinkers: a pass asks a program's caches to free objects that the program can do without, in
//! proportion to the memory pressure. It compares what the caches claim to have freed with what
//! they freed.
//!
//! A program registers each of its caches of objects with a count and a scan function ([`Shrink`]).
//! [`Shrinkers::relieve`] calls them all by one [`Rule`], the kernel's of 2002 or today's, and
//! counts what it requested, what they claimed and freed, and how long they took ([`Counts`]). The
//! program then calls the allocator (`Yard::relieve`, `Yard::trim`), which returns the pages.
//!
//! Neighbours: [`rule`] computes how much to scan, [`slot`] tracks the users of a table entry,
//! `slabyard-kmem` exports the C functions. The crate depends on no allocator: the program supplies
//! its own clock and its own count of bytes as a [`ShrinkScope`]. Invariants:
//! * No lock is held during a callback: it may allocate, and register and remove shrinkers.
//! * One pass is under way at a time. A caller that arrives during a pass, even by a callback's own
//!   allocation, gets [`Pass::Busy`] and does not wait; nothing recurses.
//! * A callback is not called after its removal is [`RemovalState::Done`].
//! * The table has a fixed size and this crate never allocates.

#![cfg_attr(not(test), no_std)]
#![warn(missing_docs)]

pub mod rule;
mod slot;
#[cfg(test)]
mod tests;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub use rule::Rule;
pub use slot::RemovalState;
use slot::UseWord;

/// Callbacks of a cache of objects.
pub trait Shrink: Sync {
    /// Objects that could be freed now.
    fn count(&self) -> u64;

    /// Scans `objects` objects, in its own order, and frees those that it can do without: returns
    /// how many it freed. `None`: it can do nothing now, and is not asked further in this pass.
    fn scan(&self, objects: u64) -> Option<u64>;
}

/// What a pass must know of the world.
pub trait ShrinkScope {
    /// A clock, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Bytes that the objects' memory takes; what a scan gave back is the difference.
    fn bytes(&self) -> u64;
}

/// A shrinker, as it is registered.
#[derive(Clone, Copy)]
pub struct Registered {
    /// Callbacks.
    pub shrink: &'static dyn Shrink,
    /// For the report.
    pub name: &'static str,
    /// What an object costs to make again; 0: nothing.
    pub seeks: u32,
    /// Objects of a call; 0: the rule's own number.
    pub batch: u64,
}

/// A registration, to end it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    entry: usize,
    generation: u32,
}

/// The table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// How a call of all shrinkers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// All shrinkers were asked; they say that they freed this many objects.
    Done(u64),
    /// Another one is under way, in this thread or another.
    Busy,
}

macro_rules! counts {
    ($($name:ident $help:literal,)*) => {
        /// What a shrinker did.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts { $(#[doc = $help] pub $name: u64,)* }

        struct Words { $($name: AtomicU64,)* }

        impl Counts {
            /// The names, in order.
            pub const NAMES: &[&str] = &[$(stringify!($name),)*];

            /// The numbers, in order.
            #[must_use]
            pub fn values(&self) -> [u64; Self::NAMES.len()] {
                [$(self.$name,)*]
            }
        }

        impl Words {
            const fn new() -> Self {
                Words { $($name: AtomicU64::new(0),)* }
            }

            fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }

            fn clear(&self) {
                $(self.$name.store(0, Ordering::Relaxed);)*
            }
        }
    };
}

counts! {
    passes "Passes that asked it how many objects it has.",
    calls "Scans.",
    asked "Objects that these were to look at.",
    freed "Objects that it says it freed.",
    unproved "Of these, those by which its own count did not fall.",
    bytes "Bytes that memory fell by during its scans.",
    ns "Nanoseconds of its callbacks.",
    longest_ns "Nanoseconds of the longest.",
    stops "Scans that said that nothing can be done.",
    vain "Passes that asked for objects, and whose scans reported none freed.",
    hollow "Passes whose scans reported freed objects, while neither its count nor memory fell.",
    reentered "Passes that others, or its own callbacks, wanted while it was scanning.",
    deferred "Objects that it still owes.",
}

struct Entry {
    used: UseWord,
    what: UnsafeCell<Option<Registered>>,
    counts: Words,
}

// SAFETY: `what` is written by the claimer of a free entry alone, and read by users of a live one
// (`slot`).
unsafe impl Sync for Entry {}

/// Entries of a table where nobody says otherwise.
pub const ENTRIES: usize = 16;

/// A table of shrinkers.
pub struct Shrinkers<const N: usize = ENTRIES> {
    entries: [Entry; N],
    /// A pass is under way.
    busy: AtomicBool,
    /// The entry that it is at.
    at: AtomicUsize,
}

impl<const N: usize> Default for Shrinkers<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Shrinkers<N> {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Shrinkers {
            entries: [const {
                Entry { used: UseWord::new(), what: UnsafeCell::new(None), counts: Words::new() }
            }; N],
            busy: AtomicBool::new(false),
            at: AtomicUsize::new(N),
        }
    }

    /// Registers a shrinker. Any thread, any time, a callback, too.
    ///
    /// # Errors
    /// [`Full`], where a removal may make room. Where others register and remove at the same time,
    /// it may find no free entry in a table that is never full.
    pub fn register(&self, what: Registered) -> Result<Id, Full> {
        for (entry, it) in self.entries.iter().enumerate() {
            let Some(generation) = it.used.claim() else { continue };
            // SAFETY: claimed, so that nobody else reads or writes it.
            unsafe { *it.what.get() = Some(what) };
            it.counts.clear();
            it.used.publish();
            return Ok(Id { entry, generation });
        }
        Err(Full)
    }

    /// Removes a shrinker: no call of it begins after this. `None`: it was removed before. It does
    /// not wait, so that a callback may remove its own shrinker.
    pub fn remove(&self, id: Id) -> Option<RemovalState> {
        self.entries.get(id.entry)?.used.end(id.generation)
    }

    /// How far the removal is that [`Shrinkers::remove`] began.
    #[must_use]
    pub fn removal(&self, id: Id) -> RemovalState {
        self.entries.get(id.entry).map_or(RemovalState::Done, |it| it.used.removal(id.generation))
    }

    /// What a shrinker did; `None` once it was removed.
    #[must_use]
    pub fn counts(&self, id: Id) -> Option<Counts> {
        let it = self.entries.get(id.entry)?;
        let counts = it.counts.read();
        it.used.is_live(id.generation).then_some(counts)
    }

    /// Calls `f` with each shrinker's name and what it did.
    pub fn each(&self, mut f: impl FnMut(&'static str, Counts)) {
        for entry in 0..N {
            if let Some(user) = self.enter(entry) {
                f(user.what().name, user.entry.counts.read());
            }
        }
    }

    /// Asks all shrinkers once.
    pub fn relieve(&self, rule: Rule, scope: &dyn ShrinkScope) -> Pass {
        // Acquire: what the last pass left. Pairs with the Release below.
        if self.busy.swap(true, Ordering::Acquire) {
            if let Some(it) = self.entries.get(self.at.load(Ordering::Relaxed)) {
                it.counts.reentered.fetch_add(1, Ordering::Relaxed);
            }
            return Pass::Busy;
        }
        // Ends the pass even if a callback unwinds.
        let _end = End(self);
        let mut freed = 0u64;
        for entry in 0..N {
            if let Some(user) = self.enter(entry) {
                self.at.store(entry, Ordering::Relaxed);
                freed = freed.saturating_add(user.ask(rule, scope));
            }
        }
        Pass::Done(freed)
    }

    fn enter(&self, entry: usize) -> Option<User<'_>> {
        let entry = &self.entries[entry];
        // Not made before it is known: its drop leaves.
        entry.used.enter().then(|| User { entry })
    }
}

struct End<'a, const N: usize>(&'a Shrinkers<N>);

impl<const N: usize> Drop for End<'_, N> {
    fn drop(&mut self) {
        self.0.at.store(N, Ordering::Relaxed);
        self.0.busy.store(false, Ordering::Release);
    }
}

/// A user of a live entry.
struct User<'a> {
    entry: &'a Entry,
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.entry.used.leave();
    }
}

impl User<'_> {
    fn what(&self) -> Registered {
        // SAFETY: a user of a live entry: nobody writes it, and it was written before it became
        // live.
        let what = unsafe { *self.entry.what.get() };
        what.expect("a live entry has a shrinker")
    }

    /// Asks the shrinker by the rule; returns what it says it freed.
    fn ask(&self, rule: Rule, scope: &dyn ShrinkScope) -> u64 {
        let (what, counts) = (self.what(), &self.entry.counts);
        let add = |word: &AtomicU64, n: u64| word.fetch_add(n, Ordering::Relaxed);
        add(&counts.passes, 1);
        let freeable = self.timed(scope, |shrink| shrink.count());
        if freeable == 0 {
            return 0;
        }
        let deferred = counts.deferred.load(Ordering::Relaxed);
        let demand = rule.demand(freeable, what.seeks, what.batch, deferred);
        let before = scope.bytes();
        let (mut scanned, mut freed) = (0u64, 0u64);
        while let objects @ 1.. = demand.next(scanned) {
            add(&counts.calls, 1);
            add(&counts.asked, objects);
            let Some(n) = self.timed(scope, |shrink| shrink.scan(objects)) else {
                add(&counts.stops, 1);
                break;
            };
            freed = freed.saturating_add(n);
            scanned += objects;
        }
        counts.deferred.store(demand.left(scanned), Ordering::Relaxed);
        if scanned == 0 {
            return freed;
        }
        let bytes = before.saturating_sub(scope.bytes());
        let fell = freeable.saturating_sub(self.timed(scope, |shrink| shrink.count()));
        add(&counts.freed, freed);
        add(&counts.unproved, freed.saturating_sub(fell));
        add(&counts.bytes, bytes);
        add(&counts.vain, u64::from(freed == 0));
        add(&counts.hollow, u64::from(freed > 0 && fell == 0 && bytes == 0));
        freed
    }

    fn timed<R>(&self, scope: &dyn ShrinkScope, f: impl FnOnce(&dyn Shrink) -> R) -> R {
        let begin = scope.now_ns();
        let result = f(self.what().shrink);
        let ns = scope.now_ns().saturating_sub(begin);
        self.entry.counts.ns.fetch_add(ns, Ordering::Relaxed);
        self.entry.counts.longest_ns.fetch_max(ns, Ordering::Relaxed);
        result
    }
}

/// The example of the README runs as those of the documentation do.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
