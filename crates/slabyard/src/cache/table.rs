//! The table of all caches. Malloc's classes have the first numbers and are never destroyed; after
//! them come created caches, whose memory is committed as they are created.
//!
//! ```text
//! number     0 .. 61            62 ..               4086
//!           | malloc's classes | created caches         |
//!             in the yard        in a table of its own
//! state of a created number:
//!   vacant ---create---> there ---destroy---> retired ---a fence of all CPUs---> vacant
//! ```
//!
//! Neighbours: [`crate::yard`]'s `created` creates and destroys caches; drains, reclaim passes and
//! checks walk over the caches [in use](Caches::used), a few over all existing caches. Invariants:
//! only the holder of the drain lock creates or destroys caches, and every walk over created caches
//! holds that lock, or runs while the gate is closed. A number in state vacant or retired whose
//! slot is not in use has no slab, no stack and no parked object.

use super::Cache;
use super::classes::CLASSES;
use super::slots::{MOST_CACHES, slot_of};
use super::used::Used;
use crate::engine::nodes::NodeSettings;
use crate::engine::{Any, Engine};
use crate::platform::{Platform, Slot};
use crate::sync::{AtomicU16, AtomicU64, Once, Ordering};
use crate::table::{Room, Table};
use slabyard_abi::debug::DebugFlags;
use slabyard_abi::engines::EngineName;

/// Created caches that there may be.
pub const MOST_CREATED: usize = MOST_CACHES - CLASSES;
const WORDS: usize = MOST_CREATED.div_ceil(64);

/// Names a created cache: no other cache of the yard ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheId {
    number: u16,
    generation: u32,
}

impl CacheId {
    /// Its index among all caches: malloc's classes come first.
    #[inline]
    #[must_use]
    pub const fn number(self) -> usize {
        self.number as usize
    }

    /// Tells it from earlier caches of its number.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// The slot of its main stacks.
    #[inline]
    #[must_use]
    pub const fn slot(self) -> Slot {
        slot_of(self.number())
    }
}

/// A bit for each created number.
struct Bits([AtomicU64; WORDS]);

impl Bits {
    const fn new() -> Self {
        Bits([const { AtomicU64::new(0) }; WORDS])
    }

    fn contains(&self, index: usize) -> bool {
        self.0[index / 64].load(Ordering::Acquire) >> (index % 64) & 1 == 1
    }

    fn change(&self, index: usize, to: bool) {
        let bit = 1 << (index % 64);
        // Release pairs with the Acquire in `contains`: a thread that finds a cache there finds
        // what it is. SeqCst: an abandoner's bit comes before its look (`created::abandoned`).
        if to {
            self.0[index / 64].fetch_or(bit, Ordering::SeqCst);
        } else {
            // Relaxed: a bit that goes says nothing, and the others keep what they say.
            self.0[index / 64].fetch_and(!bit, Ordering::Relaxed);
        }
    }

    fn each(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            let bits = bits.load(Ordering::Acquire);
            let rest = |bits: &u64| Some(bits & (bits - 1)).filter(|bits| *bits != 0);
            core::iter::successors(Some(bits).filter(|bits| *bits != 0), rest)
                .map(move |bits| word * 64 + bits.trailing_zeros() as usize)
        })
    }
}

/// All caches. Malloc's classes stay in the yard, whose address the library knows: its slow path
/// reads no base, and a process without created caches makes no system call for their table.
pub struct Caches<E> {
    classes: [Cache<E>; CLASSES],
    created: Table<Room<Cache<E>>>,
    /// Created numbers below this were in use at some time.
    made: AtomicU64,
    there: Bits,
    retired: Bits,
    /// Those whose makers gave them up.
    abandoned: Bits,
    /// Of created numbers: the offset of the slot for pops that are inlined, or 0 while each
    /// allocation must take the slow path.
    pops: [AtomicU16; MOST_CREATED],
    /// The slots in use.
    pub used: Used,
    /// Which caches have debugging, by their names.
    pub(crate) debug_rules: Once<fn(&[u8]) -> DebugFlags>,
}

impl Caches<Any> {
    /// Chooses SLUB or SLAB on the platform's memory nodes as the engine of all caches, of those that
    /// will be created, too. Call it before the first begins.
    pub fn choose_on_nodes(&self, name: EngineName, settings: NodeSettings) {
        for cache in &self.classes {
            cache.engine.choose(name);
            cache.engine.follow_nodes(settings);
        }
    }
}

impl<E: Engine> Caches<E> {
    pub(crate) const fn new() -> Self {
        Caches {
            classes: [const { Cache::new() }; CLASSES],
            created: Table::new(),
            made: AtomicU64::new(0),
            there: Bits::new(),
            retired: Bits::new(),
            abandoned: Bits::new(),
            pops: [const { AtomicU16::new(0) }; MOST_CREATED],
            used: Used::new(),
            debug_rules: Once::new(),
        }
    }

    /// Malloc's classes.
    #[inline]
    pub fn classes(&self) -> &[Cache<E>; CLASSES] {
        &self.classes
    }

    /// A cache by its number.
    ///
    /// # Panics
    /// If there never was a cache of this number.
    #[inline]
    pub fn get(&self, number: usize) -> &Cache<E> {
        match self.classes.get(number) {
            Some(class) => class,
            None => self.created(number - CLASSES),
        }
    }

    fn made(&self) -> usize {
        // Acquire: a thread that sees the number sees the cache. Pairs with the Release in `put`.
        self.made.load(Ordering::Acquire) as usize
    }

    // In dozens of places, all on slow paths.
    #[inline(never)]
    fn created(&self, index: usize) -> &Cache<E> {
        assert!(index < self.made(), "no such cache");
        // SAFETY: `put` wrote it before it raised `made`.
        unsafe { self.created.get(index).get() }
    }

    /// True if a cache of this number is there.
    #[inline]
    pub fn is_there(&self, number: usize) -> bool {
        number < CLASSES || number < MOST_CACHES && self.there.contains(number - CLASSES)
    }

    /// The cache that an id names, if it is there.
    #[inline]
    pub fn find(&self, id: CacheId) -> Option<&Cache<E>> {
        self.is_there_in(id.number(), id.generation.into()).then(|| self.get(id.number()))
    }

    /// The id of the cache of a number, if it is there.
    pub fn id_of(&self, number: usize) -> Option<CacheId> {
        let id = || CacheId { number: number as u16, generation: self.get(number).generation() };
        self.is_there(number).then(id)
    }

    /// True if a cache of this number and generation is there.
    #[inline]
    pub fn is_there_in(&self, number: usize, generation: u64) -> bool {
        self.is_there(number) && u64::from(self.get(number).generation()) == generation
    }

    /// Of malloc's classes, and of the created ones that are not destroyed, in order.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CLASSES).chain(self.there.each().map(|index| CLASSES + index))
    }

    /// From now on a created cache's slots are in use: called before its first object leaves a
    /// slab.
    #[inline]
    pub(crate) fn begin_use(&self, number: usize) {
        if !self.used.contains(number) {
            self.used.insert(number);
        }
    }

    /// The lowest number without a cache; `fence` is called if a destroyed cache's number would
    /// do, after a fence of all CPUs. `None` if all are there. The drain lock is held.
    pub(crate) fn vacant(&self, fence: impl FnOnce()) -> Option<usize> {
        let made = self.made();
        let vacant = |taken: &dyn Fn(usize) -> u64| {
            (0..made.div_ceil(64)).find_map(|word| {
                let index = word * 64 + taken(word).trailing_ones() as usize;
                (index < made.min((word + 1) * 64)).then_some(index)
            })
        };
        let word = |bits: &Bits, word: usize| bits.0[word].load(Ordering::Relaxed);
        let both = |w: usize| word(&self.there, w) | word(&self.retired, w);
        let found = vacant(&both).or_else(|| {
            vacant(&|w| word(&self.there, w)).inspect(|_| {
                fence();
                self.retired.0.iter().for_each(|bits| bits.store(0, Ordering::Relaxed));
            })
        });
        found.or_else(|| (made < MOST_CREATED).then_some(made)).map(|index| CLASSES + index)
    }

    /// Makes room for a created number. False if the kernel refuses. The drain lock is held.
    pub(crate) fn ensure<P: Platform>(&self, p: &P, number: usize) -> bool {
        (self.created.is_reserved() || self.created.reserve(p, MOST_CREATED))
            && self.created.ensure(p, number - CLASSES + 1)
    }

    /// Puts a new cache into a [vacant](Caches::vacant) number that has room; `choose` chooses its
    /// engine, and `begin` gives it its shape and the generation that it gets. The drain lock is
    /// held.
    pub(crate) fn put(
        &self,
        number: usize,
        choose: impl FnOnce(&mut E),
        begin: impl FnOnce(&Cache<E>, u32),
    ) -> CacheId {
        let index = number - CLASSES;
        let made = self.made();
        debug_assert!(index <= made && !self.is_there(number) && !self.used.contains(number));
        let generation = if index < made { self.created(index).generation() + 1 } else { 1 };
        let room = self.created.get(index);
        // SAFETY: the number is vacant: no call is about the cache before, which its destroyer
        // promised, and no walk meets it; the drain lock keeps other creators away.
        unsafe { Self::put_new(room) };
        // SAFETY: written above, and no other thread has seen it.
        unsafe { room.change(|cache| choose(&mut cache.engine)) };
        // SAFETY: written above.
        begin(unsafe { room.get() }, generation);
        // Release pairs with the Acquire in `made`.
        self.made.fetch_max(index as u64 + 1, Ordering::Release);
        self.there.change(index, true);
        CacheId { number: number as u16, generation }
    }

    /// Puts a cache that is not in use. Apart from its caller, which needs no copy of it on its
    /// stack.
    ///
    /// # Safety
    /// As [`Room::put`].
    #[inline(never)]
    unsafe fn put_new(room: &Room<Cache<E>>) {
        // SAFETY: the caller's promise.
        unsafe { room.put(Cache::new()) };
    }

    /// The offset of which pops of a created cache are inlined.
    pub(crate) fn pops(&self, number: usize) -> &AtomicU16 {
        &self.pops[number - CLASSES]
    }

    /// Sets the offsets for pops that are inlined, to 0 if `none` may be.
    pub(crate) fn choose_pops(&self, none: bool) {
        for (index, pops) in self.pops[..self.made()].iter().enumerate() {
            let offset = if none { 0 } else { slot_of(CLASSES + index).offset() };
            pops.store(offset as u16, Ordering::Relaxed);
        }
    }

    /// Takes a cache out whose last object is back in its slab and whose slabs have ended. The
    /// drain lock is held.
    pub(crate) fn take_out(&self, number: usize) {
        self.get(number).hide();
        self.used.remove(number);
        self.abandoned.change(number - CLASSES, false);
        self.retired.change(number - CLASSES, true);
        self.there.change(number - CLASSES, false);
    }

    /// Bytes of the table of created caches.
    pub fn metadata_bytes(&self) -> usize {
        self.created.committed_bytes()
    }

    /// From now on a created cache is abandoned, as long as it is there.
    pub(crate) fn abandon(&self, number: usize) {
        self.abandoned.change(number - CLASSES, true);
    }

    /// True if a cache is abandoned.
    #[inline]
    pub(crate) fn is_abandoned(&self, number: usize) -> bool {
        let Some(index) = number.checked_sub(CLASSES) else { return false };
        // SeqCst: a free's work comes before its look (`created::abandoned`).
        self.abandoned.0[index / 64].load(Ordering::SeqCst) >> (index % 64) & 1 == 1
    }

    /// Numbers of the abandoned caches.
    pub(crate) fn abandoned(&self) -> impl Iterator<Item = usize> + '_ {
        self.abandoned.each().map(|index| CLASSES + index)
    }

    /// For readers outside: the addresses of the table's address, of how many numbers were in
    /// use, and of the bytes committed.
    pub(crate) fn words_at(&self) -> [usize; 3] {
        [self.created.base_at(), self.made.as_ptr() as usize, self.created.committed_at()]
    }
}
