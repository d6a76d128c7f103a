//! The ring buffers that the recorder reads, mapped when the program starts, if a recorder started
//! it.

use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::system;
use core::ptr::null_mut;
use slabyard_abi::recording::{
    Call, ENTRY, ENV, MAGIC, MOST_RINGS, PAGE, SITES, SITES_AT, VERSION, bytes, header, ring,
    ring_at, slot_of,
};

/// Where they are mapped; null while nothing is recorded.
static RINGS: AtomicPtr<u64> = AtomicPtr::new(null_mut());
/// Their number, and the entries of each; written before [`RINGS`].
static NUMBER: AtomicUsize = AtomicUsize::new(0);
static ENTRIES: AtomicUsize = AtomicUsize::new(0);

/// Rings that are tried before a call waits.
const RINGS_TRIED: usize = 4;
/// Naps without a sign of the recorder after which nobody is thought to read any more: half a
/// second at least.
const WAITS: usize = 1000;
/// Slots that are tried for a call site.
const PROBES: usize = 16;

// Runs before `main`, when the C library is ready.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// True if they are the same words.
const fn is(one: &str, other: &core::ffi::CStr) -> bool {
    let (one, other) = (one.as_bytes(), other.to_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

pub(crate) extern "C" fn start() {
    const { assert!(is(ENV, c"RECORDER_RINGS")) };
    // SAFETY: the name ends with a null byte.
    let path = unsafe { system::getenv(c"RECORDER_RINGS".as_ptr()) };
    if path.is_null() {
        return;
    }
    // SAFETY: `path` is the environment's, which ends with a null byte.
    let file = unsafe { system::open(path, system::O_RDWR | system::O_CLOEXEC) };
    if file < 0 {
        return;
    }
    if let Some((base, rings, entries)) = map(file) {
        NUMBER.store(rings, Ordering::Relaxed);
        ENTRIES.store(entries, Ordering::Relaxed);
        // SAFETY: the handler is a function that stays.
        unsafe { system::pthread_atfork(None, None, Some(stop)) };
        RINGS.store(base, Ordering::Release);
    }
    // SAFETY: it is ours, and the mapping does without.
    unsafe { system::close(file) };
}

/// A child is another process, whose addresses are the same.
extern "C" fn stop() {
    RINGS.store(null_mut(), Ordering::Relaxed);
}

fn map(file: i32) -> Option<(*mut u64, usize, usize)> {
    let map = |bytes| {
        // SAFETY: a new mapping, where the system has room.
        let base = unsafe {
            system::mmap(null_mut(), bytes, system::PROT_READ_WRITE, system::MAP_SHARED, file, 0)
        };
        (base as usize != usize::MAX).then_some(base.cast::<u64>())
    };
    let base = map(PAGE)?;
    // Relaxed: the recorder wrote the page before it started this program.
    let get = |at| word(base, at).load(Ordering::Relaxed);
    let (rings, entries) = (get(header::RINGS) as usize, get(header::ENTRIES) as usize);
    let fits = get(header::MAGIC) == MAGIC
        && get(header::VERSION) == VERSION
        && (1..=MOST_RINGS).contains(&rings)
        && entries.is_power_of_two()
        && entries <= 1 << 24;
    // SAFETY: takes nothing.
    let own = unsafe { system::getpid() } as u64;
    let owner = word(base, header::PROCESS);
    let claimed = owner.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
    // A program that became another one by `exec` goes on.
    if !fits || claimed.is_err_and(|other| other != own) {
        return None;
    }
    Some((map(bytes(rings, entries))?, rings, entries))
}

/// A word of the mapping.
fn word<'a>(base: *mut u64, at: usize) -> &'a AtomicU64 {
    // SAFETY: callers name words within the mapping, which stays to the process's end; others
    // write them as atomics as well.
    unsafe { AtomicU64::from_ptr(base.add(at)) }
}

/// Tells of a call. Where the ring is full it waits for the recorder, so that a busy program is
/// slowed down rather than recorded by half; for a recorder that no longer reads it does not wait
/// again.
#[inline]
pub fn record_call(freed: bool, address: usize, bytes: usize, site: usize) {
    let base = RINGS.load(Ordering::Acquire);
    if base.is_null() || address == 0 {
        return;
    }
    let call = Call {
        ticks: 0,
        address: address as u64,
        bytes: bytes as u64,
        site: number(base, site as u64),
        thread: system::thread(),
        cpu: system::cpu(),
        freed,
    };
    if !put(base, call) {
        wait(base, call);
    }
}

/// False if there is no room.
#[inline]
fn put(base: *mut u64, call: Call) -> bool {
    let (rings, entries) = (NUMBER.load(Ordering::Relaxed), ENTRIES.load(Ordering::Relaxed));
    // The ring is another one's, if a thread was moved away while it wrote, or a signal came
    // meanwhile.
    for turn in 0..RINGS_TRIED.min(rings) {
        let at = ring_at((usize::from(call.cpu) + turn) % rings, entries) / 8;
        let (written, lock) = (word(base, at + ring::WRITTEN), word(base, at + ring::LOCK));
        if lock.swap(1, Ordering::Acquire) != 0 {
            continue;
        }
        // Only the holder of the lock writes it.
        let nth = written.load(Ordering::Relaxed);
        let read = word(base, at + ring::READ).load(Ordering::Acquire);
        let room = nth.wrapping_sub(read) < entries as u64;
        if room {
            let call = Call { ticks: slabyard_abi::ticks!(), ..call };
            let entry = at + PAGE / 8 + (nth as usize & (entries - 1)) * (ENTRY / 8);
            for (offset, value) in call.words().into_iter().enumerate() {
                word(base, entry + offset).store(value, Ordering::Relaxed);
            }
            // The recorder reads the entry after it has read this.
            written.store(nth + 1, Ordering::Release);
        }
        lock.store(0, Ordering::Release);
        if room {
            return true;
        }
    }
    false
}

/// The slot of a call site, which it is given at its first call.
#[inline]
fn number(base: *mut u64, site: u64) -> u16 {
    let first = slot_of(site);
    if word(base, SITES_AT / 8 + first).load(Ordering::Relaxed) == site && first != 0 {
        return first as u16;
    }
    probe(base, site, first)
}

#[cold]
fn probe(base: *mut u64, site: u64, first: usize) -> u16 {
    for slot in (first..first + PROBES).map(|slot| slot % SITES) {
        if slot == 0 {
            continue;
        }
        // The entry that names it is published after it.
        let place = word(base, SITES_AT / 8 + slot);
        match place.compare_exchange(0, site, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                word(base, header::SITES).fetch_add(1, Ordering::Relaxed);
                return slot as u16;
            }
            Err(other) if other == site => return slot as u16,
            Err(_) => {}
        }
    }
    0
}

#[cold]
fn wait(base: *mut u64, call: Call) {
    let alive = || word(base, header::ALIVE).load(Ordering::Relaxed);
    let (mut sign, mut naps) = (alive(), 0);
    while naps < WAITS {
        system::nap();
        if put(base, call) {
            return;
        }
        if word(base, header::OVER).load(Ordering::Relaxed) != 0 {
            return stop();
        }
        // While it makes room for more it reads nothing, but lives.
        let now = alive();
        naps = if now == sign { naps + 1 } else { 0 };
        sign = now;
    }
    word(base, header::LOST).fetch_add(1, Ordering::Relaxed);
    stop();
}
