//! The handles by which C programs refer to caches: one for each cache number of the yard, at a
//! fixed address.
//!
//! ```text
//! handle: one cache line
//! | word                      | id         | constructor | object | users | name          |
//! | slot:16 | own slot:16 | 1 | generation |             |        |       | 31 bytes, a 0 |
//! ```
//! The fast path reads `slot`: the cache's own slot, or 0, on which no pop or push succeeds, if
//! there is no cache or every call must take the slow path.
//!
//! Neighbours: [`crate::create`] fills handles; [`crate::caches`] checks those that C programs
//! pass; [`crate::entry`] reads `slot`. Invariants: the first word changes by compare-exchange, so
//! that the slot of a destroyed cache's handle stays 0. The other fields change only while [`LOCK`]
//! is held and that word says that there is no cache.

use crate::mutex::{Mutex, MutexGuard};
use crate::state::{ObjectCaches, YARD};
use core::ffi::{CStr, c_char};
use slabyard::cache::CacheId;
use slabyard::cache::classes::CLASSES;
use slabyard::cache::slots::{MOST_CACHES, slot_of};
use slabyard::platform::Slot;
use slabyard::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use slabyard_process::state::choose_limit;

/// Bytes of a name, with the 0 at its end.
pub(crate) const NAME_BYTES: usize = 32;

const OWN_SHIFT: u32 = 16;
/// There is a cache.
const THERE: u64 = 1 << 32;
const SLOT: u64 = 0xffff;

/// A cache as C names it: `struct slabyard_cache`.
#[repr(C, align(64))]
pub struct Handle {
    word: AtomicU64,
    /// The constructor's address, or 0.
    pub(crate) constructor: AtomicUsize,
    /// Requested bytes of an object.
    pub(crate) object: AtomicU32,
    /// How often it was created under further names and not destroyed again.
    pub(crate) aliases: AtomicU32,
    name: [AtomicU8; NAME_BYTES],
}

const _: () = assert!(core::mem::offset_of!(Handle, word) == 0 && size_of::<Handle>() == 64);

static HANDLES: [Handle; MOST_CACHES] = [const {
    Handle {
        word: AtomicU64::new(0),
        constructor: AtomicUsize::new(0),
        object: AtomicU32::new(0),
        aliases: AtomicU32::new(0),
        name: [const { AtomicU8::new(0) }; NAME_BYTES],
    }
}; MOST_CACHES];

/// Handles below this number may have caches.
static MADE: AtomicUsize = AtomicUsize::new(0);
/// Held while a cache comes or goes.
static LOCK: Mutex = Mutex::new();
static MERGES: AtomicBool = AtomicBool::new(false);

/// Sets whether equal caches share slabs.
pub(crate) fn set_merging(on: bool) {
    MERGES.store(on, Ordering::Relaxed);
}

/// True if equal caches share slabs.
pub(crate) fn merges() -> bool {
    MERGES.load(Ordering::Relaxed)
}

/// Locks the coming and going of caches.
pub(crate) fn lock() -> MutexGuard<'static> {
    LOCK.lock()
}

/// Before a fork: no cache is half made in the child.
pub(crate) fn before_fork() {
    LOCK.acquire();
}

/// After it, in either process.
pub(crate) fn after_fork() {
    LOCK.release();
}

/// Sets what fast paths read in all handles: 0 if each call must take the slow path.
pub(crate) fn choose_slots(none: bool) {
    for handle in &HANDLES[..MADE.load(Ordering::Relaxed)] {
        let chosen = |word: u64| {
            let slot = if none { 0 } else { word >> OWN_SHIFT & SLOT };
            (word & THERE != 0).then_some(word & !SLOT | slot)
        };
        let _ = handle.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, chosen);
    }
}

/// The handle at an address, whether it has a cache or not.
pub(crate) fn at(address: usize) -> Option<&'static Handle> {
    let offset = address.wrapping_sub(HANDLES.as_ptr() as usize);
    let handle = HANDLES.get(offset / size_of::<Handle>());
    handle.filter(|_| offset.is_multiple_of(size_of::<Handle>()))
}

/// The handle of the cache with a number, if the cache exists.
pub(crate) fn of_number(number: usize) -> Option<&'static Handle> {
    HANDLES.get(number).filter(|handle| handle.is_there())
}

/// The handle of a number.
pub(crate) fn place(number: usize) -> &'static Handle {
    &HANDLES[number]
}

/// The handles of created caches.
pub(crate) fn created() -> impl Iterator<Item = &'static Handle> {
    HANDLES[..MADE.load(Ordering::Relaxed)].iter().skip(CLASSES).filter(|it| it.is_there())
}

impl Handle {
    /// Number of its cache.
    pub(crate) fn number(&self) -> usize {
        (core::ptr::from_ref(self) as usize - HANDLES.as_ptr() as usize) / size_of::<Handle>()
    }

    /// True if there is a cache.
    pub(crate) fn is_there(&self) -> bool {
        self.word.load(Ordering::Acquire) & THERE != 0
    }

    /// Its cache's slot, while calls on it may take the fast path.
    #[inline(always)]
    pub(crate) fn open_slot(&self) -> Option<Slot> {
        // Acquire pairs with the Release in `fill`: the yard has begun.
        let offset = self.word.load(Ordering::Acquire) as u16;
        (offset != 0).then(|| Slot::at(offset))
    }

    /// The cache's id, if the cache exists.
    pub(crate) fn id(&self) -> Option<CacheId> {
        self.is_there().then(|| YARD.caches().id_of(self.number()))?
    }

    /// The cache's name.
    pub(crate) fn name(&self) -> &str {
        self.c_name().to_str().unwrap_or("?")
    }

    /// The cache's name, for C.
    pub(crate) fn c_name(&self) -> &CStr {
        // SAFETY: the last byte is 0 for ever; a name changes only while there is no cache.
        unsafe { CStr::from_ptr(self.name.as_ptr().cast::<c_char>()) }
    }

    /// Makes it the handle of a cache, under the lock.
    pub(crate) fn fill(
        &self,
        number: usize,
        name: &[u8; NAME_BYTES],
        object: u32,
        constructor: usize,
    ) {
        self.name.iter().zip(name).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
        self.object.store(object, Ordering::Relaxed);
        self.constructor.store(constructor, Ordering::Relaxed);
        self.aliases.store(0, Ordering::Relaxed);
        let own = slot_of(number).offset() as u64;
        // Release: who sees that the cache is there sees what it is.
        self.word.store(THERE | own << OWN_SHIFT, Ordering::Release);
        // Relaxed: each handle says itself whether it has a cache.
        MADE.fetch_max(number + 1, Ordering::Relaxed);
        // Sets the slot.
        choose_limit::<ObjectCaches>();
    }

    /// There is no cache any more. Returns what the word was, for [`Handle::put_back`].
    pub(crate) fn clear(&self) -> u64 {
        // Relaxed: nobody calls the cache any more, and the lock orders what fills it again.
        self.word.swap(0, Ordering::Relaxed)
    }

    /// The cache is usable again: it was not destroyed.
    pub(crate) fn put_back(&self, word: u64) {
        self.word.store(word, Ordering::Release);
        choose_limit::<ObjectCaches>();
    }
}
