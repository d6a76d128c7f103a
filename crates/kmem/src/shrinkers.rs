//! The C functions for shrinkers: [`slabyard_relieve`] asks a program to free what it can do
//! without.
//!
//! Neighbour: `slabyard_shrinker` implements the shrinkers' table and the rules.

use crate::caches::refuse;
use crate::state::{YARD, ensure};
use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use slabyard::platform::Time;
use slabyard::sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use slabyard_process::state::ready;
use slabyard_shrinker::{
    ENTRIES, Id, Pass, Registered, RemovalState, Rule, Shrink, ShrinkScope, Shrinkers,
};

const ENOMEM: c_int = 12;
const EINVAL: c_int = 22;
/// `SLABYARD_SHRINK_STOP`.
const STOP: c_ulong = c_ulong::MAX;

type Count = extern "C" fn(*mut c_void) -> c_ulong;
type Scan = extern "C" fn(*mut c_void, c_ulong) -> c_ulong;

static SHRINKERS: Shrinkers = Shrinkers::new();
static CALLBACKS: [Callbacks; ENTRIES] = [const { Callbacks::new() }; ENTRIES];

/// The functions of one shrinker.
struct Callbacks {
    /// 0: free, 1: being filled, 2: in use, 3: its removal is not done yet.
    state: AtomicU32,
    count: AtomicUsize,
    scan: AtomicUsize,
    with: AtomicPtr<c_void>,
    id: IdCell,
}

/// The registration, while the state says that there is one.
struct IdCell(core::cell::UnsafeCell<Option<Id>>);

// SAFETY: written by the thread that fills the entry, read by the one that removes it: the state
// lies between.
unsafe impl Sync for IdCell {}

const FREE: u32 = 0;
const FILLING: u32 = 1;
const USED: u32 = 2;
const LEAVING: u32 = 3;

impl Callbacks {
    const fn new() -> Self {
        Callbacks {
            state: AtomicU32::new(FREE),
            count: AtomicUsize::new(0),
            scan: AtomicUsize::new(0),
            with: AtomicPtr::new(core::ptr::null_mut()),
            id: IdCell(core::cell::UnsafeCell::new(None)),
        }
    }

    fn change(&self, from: u32, to: u32) -> bool {
        // AcqRel: what the entry holds is seen with its state.
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn id(&self) -> Option<Id> {
        // SAFETY: see `IdCell`: the caller has the entry.
        unsafe { *self.id.0.get() }
    }
}

impl Shrink for Callbacks {
    fn count(&self) -> u64 {
        // SAFETY: `register` stored a function of this type before the entry was in use.
        let count: Count = unsafe { core::mem::transmute(self.count.load(Ordering::Relaxed)) };
        count(self.with.load(Ordering::Relaxed))
    }

    fn scan(&self, objects: u64) -> Option<u64> {
        // SAFETY: as above.
        let scan: Scan = unsafe { core::mem::transmute(self.scan.load(Ordering::Relaxed)) };
        Some(scan(self.with.load(Ordering::Relaxed), objects)).filter(|freed| *freed != STOP)
    }
}

/// What a pass must know: the clock, and what the yard has committed.
struct PassInputs;

impl ShrinkScope for PassInputs {
    fn now_ns(&self) -> u64 {
        YARD.platform().now_ns()
    }

    fn bytes(&self) -> u64 {
        let caches = YARD.caches();
        let of = |number: usize| {
            let cache = YARD.cache(number);
            u64::from(cache.nr_slabs()) * cache.shape().geometry.slab_bytes() as u64
        };
        caches.used.caches().map(of).sum()
    }
}

/// Registers a shrinker; its number, or -1.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_shrinker_register(
    name: *const c_char,
    count: Option<Count>,
    scan: Option<Scan>,
    with: *mut c_void,
    seeks: c_uint,
    batch: c_long,
) -> c_int {
    let (Some(count), Some(scan)) = (count, scan) else {
        refuse!(EINVAL, "slabyard_shrinker_register: a function is missing");
        return -1;
    };
    let name = if name.is_null() {
        "shrinker"
    } else {
        // SAFETY: the caller's promise: the name stays as long as the shrinker.
        unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("?")
    };
    if !ensure() {
        slabyard_process::errno::set_errno(ENOMEM);
        return -1;
    }
    CALLBACKS.iter().for_each(finish_removal);
    let Some((nth, entry)) =
        CALLBACKS.iter().enumerate().find(|(_, entry)| entry.change(FREE, FILLING))
    else {
        refuse!(ENOMEM, "slabyard_shrinker_register(\"{name}\"): there are {ENTRIES} already");
        return -1;
    };
    entry.count.store(count as usize, Ordering::Relaxed);
    entry.scan.store(scan as usize, Ordering::Relaxed);
    entry.with.store(with, Ordering::Relaxed);
    let batch = u64::try_from(batch).unwrap_or(0);
    match SHRINKERS.register(Registered { shrink: entry, name, seeks, batch }) {
        Ok(id) => {
            // SAFETY: this thread fills the entry.
            unsafe { *entry.id.0.get() = Some(id) };
            entry.change(FILLING, USED);
            nth as c_int
        }
        Err(slabyard_shrinker::Full) => {
            entry.change(FILLING, FREE);
            slabyard_process::errno::set_errno(ENOMEM);
            -1
        }
    }
}

fn finish_removal(entry: &Callbacks) {
    if entry.change(LEAVING, FILLING) {
        let done = entry.id().is_none_or(|id| SHRINKERS.removal(id) == RemovalState::Done);
        entry.change(FILLING, if done { FREE } else { LEAVING });
    }
}

/// Removes a shrinker. From now on no call of it begins; one that is under way ends first, unless it
/// is the caller.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_shrinker_unregister(number: c_int) -> c_int {
    let entry = usize::try_from(number).ok().and_then(|number| CALLBACKS.get(number));
    let Some(entry) = entry.filter(|entry| entry.change(USED, FILLING)) else {
        refuse!(EINVAL, "slabyard_shrinker_unregister({number}): there is no such shrinker");
        return -1;
    };
    let removal = entry.id().and_then(|id| SHRINKERS.remove(id));
    entry.change(FILLING, LEAVING);
    finish_removal(entry);
    c_int::from(removal != Some(RemovalState::Done) && removal.is_some())
}

/// Asks all shrinkers once, and returns what became free.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_relieve() -> c_long {
    if !ready() {
        return 0;
    }
    match SHRINKERS.relieve(Rule::Priority(0), &PassInputs) {
        Pass::Done(freed) => {
            YARD.trim();
            c_long::try_from(freed).unwrap_or(c_long::MAX)
        }
        Pass::Busy => -1,
    }
}
