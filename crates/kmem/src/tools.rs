//! Reports objects to valgrind's memcheck and to AddressSanitizer, so that these tools find uses
//! after free, overflows, double frees and leaks of caches' objects.
//!
//! Neither tool is linked. memcheck recognises *client requests*, instruction sequences that have
//! no effect elsewhere (valgrind's manual, "The Client Request mechanism"); AddressSanitizer's
//! functions are weak symbols. If one of the tools is present at the start, every call takes the
//! slow path, which reports to that tool; otherwise fast paths have no extra instruction.
//!
//! ```text
//! slab set up   each object: no access, after its constructor, which may write there
//! allocated     the object: access; the gap up to the next object: no access
//! freed         no access; if the cache is SLAB_TYPESAFE_BY_RCU, access stays
//! ```
//! This module gives each cache a constructor and a destructor that mark objects as inaccessible;
//! its [`Record`] holds the program's own two. Under memcheck, caches get padding behind each
//! object, and an engine that stores no addresses of objects: memcheck would take these for
//! pointers to leaked objects. AddressSanitizer tracks neither leaks nor stacks for memory that is
//! not from its own malloc, so under this tool caches get debugging that tracks both
//! ([`DebugFlags::TRACK`]).
//!
//! Neighbours: [`crate::create`] creates caches; [`crate::slow`], [`crate::objects`] and
//! [`crate::kmalloc`] report their objects and blocks. Caches with requested debugging check their
//! objects themselves, and are not reported.

use crate::mutex::MutexGuard;
use crate::state::YARD;
use core::ffi::c_void;
use slabyard::cache::classes::CLASSES;
use slabyard::cache::{CacheFlags, CacheId, CacheSettings};
use slabyard::live;
use slabyard::platform::GRANULE;
use slabyard::slab::ObjectFn;
use slabyard::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use slabyard::yard::AddressKind;
use slabyard_abi::debug::DebugFlags;
use slabyard_process::state::hold_open;

const NONE: u8 = 0;
const MEMCHECK: u8 = 1;
const SANITIZER: u8 = 2;

static TOOL: AtomicU8 = AtomicU8::new(NONE);

/// Caches that are reported, at most.
const MOST: usize = 1024;
/// Bytes behind each object under memcheck.
const ZONE: u32 = 16;

/// What is reported of a cache's objects.
pub(crate) struct Record {
    taken: AtomicBool,
    /// Bytes of an object, and to the next.
    object: AtomicU32,
    stride: AtomicU32,
    /// The program's own, or 0.
    constructor: AtomicUsize,
    destructor: AtomicUsize,
    /// Readers may access freed objects.
    keeps: AtomicBool,
}

static RECORDS: [Record; MOST] = [const {
    Record {
        taken: AtomicBool::new(false),
        object: AtomicU32::new(0),
        stride: AtomicU32::new(0),
        constructor: AtomicUsize::new(0),
        destructor: AtomicUsize::new(0),
        keeps: AtomicBool::new(false),
    }
}; MOST];

/// Before the yard begins: checks which tool is present, and closes the fast path for it.
pub(crate) fn begin() {
    let tool = if memcheck::is_there() {
        MEMCHECK
    } else if sanitizer::is_there() {
        SANITIZER
    } else {
        return;
    };
    TOOL.store(tool, Ordering::Relaxed);
    hold_open(false);
}

/// True if a tool is present.
#[inline]
pub(crate) fn is_on() -> bool {
    TOOL.load(Ordering::Relaxed) != NONE
}

/// True if the engine must not keep addresses of objects.
pub(crate) fn looks_for_pointers() -> bool {
    TOOL.load(Ordering::Relaxed) == MEMCHECK
}

/// Changes the settings of a cache that is to be made. The lock of handles is held.
pub(crate) fn prepare(
    settings: &mut CacheSettings,
    _held: &MutexGuard<'_>,
) -> Option<&'static Record> {
    if !is_on() || !settings.debug.is_empty() {
        return None;
    }
    let record = RECORDS.iter().find(|record| !record.taken.load(Ordering::Relaxed))?;
    record.taken.store(true, Ordering::Relaxed);
    record.object.store(settings.object, Ordering::Relaxed);
    record.stride.store(settings.object, Ordering::Relaxed);
    record.constructor.store(settings.constructor.map_or(0, |it| it.word), Ordering::Relaxed);
    record.destructor.store(settings.destructor.map_or(0, |it| it.word), Ordering::Relaxed);
    record.keeps.store(settings.flags.has(CacheFlags::TYPESAFE_BY_RCU), Ordering::Relaxed);
    let word = core::ptr::from_ref(record) as usize;
    settings.constructor = Some(ObjectFn { function: construct, word });
    settings.destructor = Some(ObjectFn { function: destruct, word });
    if looks_for_pointers() {
        let wider = CacheSettings { object: settings.object + ZONE, ..*settings };
        if wider.geometry(0).is_some() {
            *settings = wider;
        }
    } else {
        settings.debug = DebugFlags::CHECK.with(DebugFlags::TRACK);
        slabyard_process::debug::prepare();
    }
    Some(record)
}

impl Record {
    /// The cache was made, and no object of it yet.
    pub(crate) fn begins(&self, id: CacheId) {
        if let Some(cache) = YARD.find_cache(id) {
            self.stride.store(cache.shape().geometry.size, Ordering::Relaxed);
        }
    }

    /// It was not made, or is no more.
    pub(crate) fn ends(&self) {
        self.taken.store(false, Ordering::Relaxed);
    }

    fn object(&self) -> usize {
        self.object.load(Ordering::Relaxed) as usize
    }

    fn stride(&self) -> usize {
        self.stride.load(Ordering::Relaxed) as usize
    }

    /// What the object may keep while it is free.
    fn keeps_state(&self) -> bool {
        self.constructor.load(Ordering::Relaxed) != 0 || self.keeps.load(Ordering::Relaxed)
    }
}

fn record(word: usize) -> Option<&'static Record> {
    let offset = word.wrapping_sub(RECORDS.as_ptr() as usize);
    RECORDS.get(offset / size_of::<Record>()).filter(|_| offset.is_multiple_of(size_of::<Record>()))
}

/// The record of a cache, if it has one.
pub(crate) fn record_of(id: CacheId) -> Option<&'static Record> {
    record(YARD.find_cache(id)?.shape().constructor.as_ref()?.word)
}

fn construct(object: usize, word: usize) {
    let Some(record) = record(word) else { return };
    run(record, &record.constructor, object);
    if !record.keeps.load(Ordering::Relaxed) {
        close(object, record.object());
    }
    close(object + record.object(), record.stride() - record.object());
}

fn destruct(object: usize, word: usize) {
    let Some(record) = record(word) else { return };
    run(record, &record.destructor, object);
    close(object, record.stride());
}

/// Calls one of the program's functions, which may read and write the object.
fn run(record: &Record, function: &AtomicUsize, object: usize) {
    let word = function.load(Ordering::Relaxed);
    if word != 0 {
        open(object, record.object(), record.keeps_state());
        // SAFETY: `prepare` made the word of a function of this type.
        let function: extern "C" fn(*mut c_void) = unsafe { core::mem::transmute(word) };
        function(object as *mut c_void);
    }
}

/// An object was handed out.
#[inline]
pub(crate) fn allocated(id: CacheId, object: usize) {
    if is_on() && object != 0 {
        tell_allocated(id, object);
    }
}

#[cold]
fn tell_allocated(id: CacheId, object: usize) {
    let Some(record) = record_of(id) else { return };
    if looks_for_pointers() {
        if record.keeps.load(Ordering::Relaxed) {
            // It would end at the free, while readers look.
            return open(object, record.object(), true);
        }
        memcheck::allocated(object, record.object(), record.keeps_state());
    } else {
        sanitizer::see_region();
        open(object, record.object(), true);
        close(object + record.object(), record.stride() - record.object());
    }
}

/// An object of a cache is about to be freed, if it is one.
#[inline]
pub(crate) fn freed(id: CacheId, object: usize) {
    if is_on() {
        tell_freed(id, object, FreedAfter::Call);
    }
}

/// When a freed object is free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FreedAfter {
    Call,
    Readers,
}

#[cold]
fn tell_freed(id: CacheId, object: usize, after: FreedAfter) {
    let Some(record) = record_of(id) else { return };
    let is_its = match YARD.place_of(object) {
        AddressKind::Object { class, begin: true, .. } => class == id.number(),
        _ => false,
    };
    // Readers look at it at any time: access does not end for a moment either.
    let is_read = after == FreedAfter::Readers || record.keeps.load(Ordering::Relaxed);
    if !looks_for_pointers() {
        if is_its && !is_read && !sanitizer::is_closed(object) {
            close(object, record.object());
        }
        return;
    }
    // What is nobody's object is reported by memcheck, too, which knows both stacks.
    let is_nobodys = !is_its && YARD.usable(object).is_none();
    if (is_its || is_nobodys) && !record.keeps.load(Ordering::Relaxed) {
        memcheck::freed(object);
        if is_its && is_read {
            open(object, record.object(), true);
        }
    }
}

/// A block of kmalloc's was handed out.
#[inline]
pub(crate) fn block_allocated(block: usize) {
    if is_on() && block != 0 {
        let bytes = YARD.usable(block).unwrap_or(0);
        if looks_for_pointers() {
            memcheck::allocated(block, bytes, false);
        } else {
            sanitizer::see_region();
            open(block, bytes, true);
        }
    }
}

/// A block reads as zeros, although not each of its bytes was written.
#[inline]
pub(crate) fn block_cleared(block: usize, bytes: usize) {
    if looks_for_pointers() {
        open(block, bytes, true);
    }
}

/// A block was resized in place.
#[inline]
pub(crate) fn block_resized(block: usize) {
    if is_on() {
        if looks_for_pointers() {
            memcheck::freed(block);
            memcheck::allocated(block, YARD.usable(block).unwrap_or(0), true);
        } else {
            block_allocated(block);
        }
    }
}

/// A block, or an object of any cache, is about to be freed, if it is one.
#[inline]
pub(crate) fn any_freed(address: usize) {
    if is_on() {
        tell_any_freed(address, FreedAfter::Call);
    }
}

/// As [`any_freed`], after the readers that look now.
pub(crate) fn any_waits(address: usize) {
    if is_on() {
        tell_any_freed(address, FreedAfter::Readers);
    }
}

#[cold]
fn tell_any_freed(address: usize, after: FreedAfter) {
    if let Some(id) = live::cache_of(&YARD, address).filter(|id| id.number() >= CLASSES) {
        return tell_freed(id, address, after);
    }
    let (AddressKind::Object { bytes, begin: true, .. } | AddressKind::Large(bytes)) =
        YARD.place_of(address)
    else {
        return;
    };
    if looks_for_pointers() {
        memcheck::freed(address);
    } else if after == FreedAfter::Call && YARD.heap.region.granule_of(address).is_some() {
        // A mapping of its own goes back to the system, which may give others the addresses.
        close(address, bytes);
    }
    if after == FreedAfter::Readers && looks_for_pointers() {
        open(address, bytes, true);
    }
}

/// From here on an access is a fault.
fn close(address: usize, bytes: usize) {
    if looks_for_pointers() {
        memcheck::close(address, bytes);
    } else {
        sanitizer::close(address, bytes);
    }
}

/// From here on it is none; `defined`: what is there may be read.
fn open(address: usize, bytes: usize, defined: bool) {
    if looks_for_pointers() {
        memcheck::open(address, bytes, defined);
    } else {
        sanitizer::open(address, bytes);
    }
}

/// Client requests, by the numbers of `valgrind/valgrind.h` and `valgrind/memcheck.h`.
mod memcheck {
    const RUNNING: usize = 0x1001;
    const MALLOCLIKE: usize = 0x1301;
    const FREELIKE: usize = 0x1302;
    const NO_ACCESS: usize = 0x4d43_0000;
    const UNDEFINED: usize = 0x4d43_0001;
    const DEFINED: usize = 0x4d43_0002;

    #[cfg(target_arch = "x86_64")]
    fn request(what: usize, a: usize, b: usize, c: usize, d: usize) -> usize {
        let request = [what, a, b, c, d, 0];
        let mut result = 0usize;
        // SAFETY: four rotations by 128 bits together, and an exchange of a register with itself:
        // nothing changes on a processor. Under valgrind the request is read, and its answer given.
        unsafe {
            core::arch::asm!(
                "rol rdi, 3",
                "rol rdi, 13",
                "rol rdi, 61",
                "rol rdi, 51",
                "xchg rbx, rbx",
                inout("rdx") result,
                in("rax") request.as_ptr(),
                options(nostack),
            );
        }
        result
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn request(_: usize, _: usize, _: usize, _: usize, _: usize) -> usize {
        0
    }

    pub(super) fn is_there() -> bool {
        request(RUNNING, 0, 0, 0, 0) > 0
    }

    pub(super) fn allocated(address: usize, bytes: usize, defined: bool) {
        request(MALLOCLIKE, address, bytes, 0, usize::from(defined));
    }

    pub(super) fn freed(address: usize) {
        request(FREELIKE, address, 0, 0, 0);
    }

    pub(super) fn close(address: usize, bytes: usize) {
        request(NO_ACCESS, address, bytes, 0, 0);
    }

    pub(super) fn open(address: usize, bytes: usize, defined: bool) {
        request(if defined { DEFINED } else { UNDEFINED }, address, bytes, 0, 0);
    }
}

/// AddressSanitizer's functions (`sanitizer/asan_interface.h`, `sanitizer/lsan_interface.h`).
mod sanitizer {
    use super::{AtomicBool, GRANULE, Ordering, YARD};

    /// The address of a function that the process has; 0 if it has none.
    macro_rules! address_of {
        ($name:literal) => {{
            #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
            let address = slabyard::weak_address!($name, $name);
            #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
            let address = 0usize;
            address
        }};
    }

    fn call(function: usize, address: usize, bytes: usize) -> i32 {
        if function == 0 {
            return 0;
        }
        // SAFETY: the functions below take these two, or the first of them; what they return that is
        // nothing is not used.
        let function: extern "C" fn(usize, usize) -> i32 =
            unsafe { core::mem::transmute(function) };
        function(address, bytes)
    }

    pub(super) fn is_there() -> bool {
        address_of!("__asan_poison_memory_region") != 0
    }

    pub(super) fn close(address: usize, bytes: usize) {
        call(address_of!("__asan_poison_memory_region"), address, bytes);
    }

    pub(super) fn open(address: usize, bytes: usize) {
        call(address_of!("__asan_unpoison_memory_region"), address, bytes);
    }

    pub(super) fn is_closed(address: usize) -> bool {
        call(address_of!("__asan_address_is_poisoned"), address, 0) != 0
    }

    /// Lets the search for leaks see what objects point to: once, because it reads those pages of
    /// the region that can be read.
    pub(super) fn see_region() {
        static SEEN: AtomicBool = AtomicBool::new(false);
        if !SEEN.swap(true, Ordering::Relaxed) {
            let region = &YARD.heap.region;
            let root = address_of!("__lsan_register_root_region");
            call(root, region.base(), region.granules() * GRANULE);
        }
    }
}
