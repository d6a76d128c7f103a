//! The readers of a yard: their places, and the sections that they open and close.
//!
//! Neighbours: [`super::periods`] ends grace periods; [`super::slow`] counts the sections of
//! threads that have no place.

use super::grace::{EPOCH_SHIFT, FENCED, Grace, NEST, TAKEN};
use crate::platform::Platform;
use crate::platform::reader::{ENDED, ReaderSlot, TAKING};
use crate::sync::{AtomicU64, AtomicUsize, Lock, Ordering, Rank, compiler_fence};
use crate::table::Table;

/// Threads with a place, at most: the others count.
pub const MOST_PLACES: usize = 1 << 12;
const PLACES_BYTES: usize = MOST_PLACES * size_of::<ReaderSlot>();

/// The first epoch.
const FIRST: u64 = 1;

/// The readers of a yard, and its grace periods.
pub struct Rcu {
    pub(crate) epoch: AtomicU64,
    /// Grace periods up to this one have ended.
    pub(crate) completed: AtomicU64,
    pub(crate) places: Table<ReaderSlot>,
    /// Address of the first place, from which on [`PLACES_BYTES`] are places.
    pub(crate) begin: AtomicUsize,
    /// Places were refused by the kernel: no reader tries again before one is free.
    pub(crate) refused: AtomicU64,
    /// Sections without a place, by the last bit of their epoch.
    pub(crate) slow: [AtomicU64; 2],
    pub(super) grace: Lock<Grace>,
}

impl Rcu {
    pub(crate) const fn new() -> Self {
        Rcu {
            epoch: AtomicU64::new(FIRST << EPOCH_SHIFT | TAKEN),
            completed: AtomicU64::new(0),
            places: Table::new(),
            begin: AtomicUsize::new(usize::MAX / 2),
            refused: AtomicU64::new(0),
            slow: [const { AtomicU64::new(0) }; 2],
            grace: Lock::new(Rank::Grace, Grace::new()),
        }
    }

    /// This thread's place, if its word names one of this yard's.
    #[inline(always)]
    fn place<P: Platform>(&self, p: &P) -> Option<&ReaderSlot> {
        let at = p.thread().reader[0].load(Ordering::Relaxed);
        let offset = at.wrapping_sub(self.begin.load(Ordering::Relaxed));
        // SAFETY: the thread took it: it is one of the table's, which stays.
        (offset < PLACES_BYTES).then(|| unsafe { &*(at as *const ReaderSlot) })
    }

    /// Opens a section. False if this thread has no place at hand: nothing has changed.
    #[inline(always)]
    pub(crate) fn enter<P: Platform>(&self, p: &P) -> bool {
        let Some(place) = self.place(p) else { return false };
        let word = p.announced(&place.word);
        if word & NEST != 0 {
            debug_assert!(word & NEST != NEST, "sections nested too deep");
            p.announce(&place.word, word + 1);
            return true;
        }
        // Acquire: with this epoch the reader sees what was unlinked before it rose. Pairs with
        // the SeqCst addition in `grace`.
        let epoch = self.epoch.load(Ordering::Acquire);
        p.announce(&place.word, epoch + 1);
        if epoch & FENCED != 0 {
            p.fence_reader();
        }
        // The loads of the section stay behind the store in the program; the fence of all threads
        // does the rest.
        compiler_fence(Ordering::SeqCst);
        true
    }

    /// Ends a section. False if this thread has no place at hand: nothing has changed.
    #[inline(always)]
    pub(crate) fn leave<P: Platform>(&self, p: &P) -> bool {
        let Some(place) = self.place(p) else { return false };
        let word = p.announced(&place.word);
        if word & NEST == 0 {
            // It may have been opened without a place.
            return false;
        }
        p.announce(&place.word, word - 1);
        true
    }

    /// As [`Rcu::enter`], where the thread's word names no place of this yard. `take` says
    /// whether a place may be taken for the thread, which is in a slow path then.
    #[cold]
    #[inline(never)]
    pub(crate) fn enter_slow<P: Platform>(&self, p: &P, take: bool) {
        if !self.is_in_slow_section(p) && (self.find_place(p) || take && self.take_place(p)) {
            let entered = self.enter(p);
            debug_assert!(entered);
            return;
        }
        self.count_section(p);
    }

    /// As [`Rcu::leave`], where the thread's word names no place of this yard, or one without a
    /// section.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_slow<P: Platform>(&self, p: &P) {
        if !self.is_in_slow_section(p) && self.find_place(p) && self.leave(p) {
            return;
        }
        self.uncount_section(p);
    }

    /// True in a section of this thread's.
    pub(crate) fn is_in_section<P: Platform>(&self, p: &P) -> bool {
        let nests = |place: &ReaderSlot| p.announced(&place.word) & NEST != 0;
        self.is_in_slow_section(p)
            || self.place(p).map_or_else(|| self.own_place(p).is_some_and(nests), nests)
    }

    /// True if a place may be had: [`Rcu::enter_slow`] is worth a slow path.
    pub(crate) fn may_take<P: Platform>(&self, p: &P) -> bool {
        let word = p.thread().reader[0].load(Ordering::Relaxed);
        word != TAKING && word != ENDED && self.refused.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn each_place(&self) -> impl Iterator<Item = &ReaderSlot> {
        (0..self.places.len()).map(|nth| self.places.get(nth))
    }

    /// The place that this thread took before its word named one of another yard's.
    fn own_place<P: Platform>(&self, p: &P) -> Option<&ReaderSlot> {
        let me = p.thread().reader.as_ptr() as usize;
        self.each_place().find(|place| place.thread.load(Ordering::Relaxed) == me)
    }

    fn find_place<P: Platform>(&self, p: &P) -> bool {
        // A thread whose word is 0 has no place: one that seems to be its own was left by a
        // thread whose end nobody noticed.
        if matches!(p.thread().reader[0].load(Ordering::Relaxed), 0 | TAKING) {
            return false;
        }
        let own = self.own_place(p);
        own.is_some_and(|place| {
            p.thread().reader[0].store(core::ptr::from_ref(place) as usize, Ordering::Relaxed);
            true
        })
    }

    /// Takes a place for this thread. False if there is none.
    fn take_place<P: Platform>(&self, p: &P) -> bool {
        let [word, _] = &p.thread().reader;
        let before = word.load(Ordering::Relaxed);
        if before == TAKING || before == ENDED {
            return false;
        }
        // A handler that interrupts us finds this, and does without a place.
        word.store(TAKING, Ordering::Relaxed);
        let place = self.vacant_place(p);
        let taken = place.filter(|place| {
            let ends = p.on_thread_end(place);
            if !ends {
                place.leave();
            }
            ends
        });
        let now = taken.map_or(before, |place| core::ptr::from_ref(place) as usize);
        word.store(now, Ordering::Relaxed);
        if taken.is_none() {
            self.refused.store(1, Ordering::Relaxed);
        }
        taken.is_some()
    }

    /// A place that is nobody's, or that seems to be this thread's own; it is the thread's then.
    fn vacant_place<P: Platform>(&self, p: &P) -> Option<&ReaderSlot> {
        let me = p.thread().reader.as_ptr() as usize;
        let _grace = self.grace.lock(p);
        loop {
            let vacant = self.each_place().find(|place| {
                let thread = place.thread.load(Ordering::Acquire);
                thread == 0 || thread == me
            });
            if let Some(place) = vacant {
                let fenced = self.epoch.load(Ordering::SeqCst) & FENCED;
                place.word.store(TAKEN | fenced, Ordering::SeqCst);
                place.thread.store(me, Ordering::SeqCst);
                return Some(place);
            }
            if !(self.places.is_reserved() || self.places.reserve(p, MOST_PLACES))
                || !self.places.ensure(p, self.places.len() + 1)
            {
                return None;
            }
            self.begin.store(self.places.base(), Ordering::Relaxed);
        }
    }

    /// In the child of a fork: the other threads' places and sections are no more.
    pub(crate) fn forget_others<P: Platform>(&self, p: &P) {
        let me = p.thread().reader.as_ptr() as usize;
        let others = self.each_place().filter(|it| it.thread.load(Ordering::Relaxed) != me);
        others.for_each(ReaderSlot::leave);
        self.forget_others_sections(p);
        self.refused.store(0, Ordering::Relaxed);
    }

    /// In the child of a fork: nobody has the lock.
    pub(crate) fn abandon(&self) {
        self.grace.abandon();
    }

    /// Address of the number of bytes committed for places.
    pub(crate) fn metadata_at(&self) -> usize {
        self.places.committed_at()
    }

    /// Bytes of the places.
    pub(crate) fn metadata_bytes(&self) -> usize {
        self.places.committed_bytes()
    }
}
