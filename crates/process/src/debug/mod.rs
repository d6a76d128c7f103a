//! Debugging of caches: chooses the size classes that have it (`SLABYARD_DEBUG`), and supplies the
//! functions that the yard calls for them.
//!
//! [`report`] prints findings, [`stack`] captures the caller's stack, [`symbols`] names functions,
//! [`fail`] makes allocations fail, `makers` compares the freeing function with the allocating one.
//! Neighbours: `abi::debug` defines the options; `slabyard::engine::debug` checks objects.
//! Invariant: nothing here allocates, except the first capture of a stack, at the start.

pub mod fail;
pub mod makers;
pub mod report;
pub mod stack;
pub mod symbols;

use crate::library::Library;
use crate::options::LibraryOptions;
use crate::say;
use slabyard::engine::Engine;
use slabyard::pages::finding::Hooks;
use slabyard::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use slabyard_abi::debug::{self, DebugFlags, LONGEST};
use slabyard_abi::failslab;
use slabyard_kernels::settings::{ENGINE_OPTIONS, EngineKey, Opt, engine_row};

/// The rules: a copy, because programs that set their title write over their environment.
static RULES: [AtomicU8; LONGEST] = [const { AtomicU8::new(0) }; LONGEST];
/// Their bytes and 1; 0: none were set.
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// A cache of malloc's has debugging.
static ON: AtomicBool = AtomicBool::new(false);

/// This process is a forked child.
static IS_CHILD: AtomicBool = AtomicBool::new(false);
/// Calls on caches with debugging before the fork.
static CALLS_BEFORE: AtomicU32 = AtomicU32::new(0);

/// Bytes of slabs that are always checked at the end of a forked child.
const LOOK_BYTES: usize = 1 << 20;
/// And this many more for each call of its own: the check takes about as long as these calls did.
const LOOK_BYTES_A_CALL: usize = 4096;

/// The options of a library whose caches may have debugging.
pub const FURTHER: LibraryOptions = LibraryOptions { rows: ENGINE_OPTIONS, take_text };

/// Takes an option that is text.
fn take_text(row: &'static Opt, value: &[u8]) {
    if row.env == engine_row(EngineKey::Debug).env {
        take_rules(value);
    } else if row.env == engine_row(EngineKey::Failslab).env {
        take_failslab(value);
    }
}

/// Takes the rules of `SLABYARD_DEBUG`.
fn take_rules(text: &[u8]) {
    if let Err(wrong) = debug::check(text) {
        return say!("SLABYARD_DEBUG is ignored: {wrong}");
    }
    RULES.iter().zip(text).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
    LENGTH.store(text.len() + 1, Ordering::Relaxed);
}

/// Takes the rule of `SLABYARD_FAILSLAB`.
fn take_failslab(text: &[u8]) {
    match failslab::parse(text) {
        Some(rule) => fail::set(&rule),
        None => {
            say!("SLABYARD_FAILSLAB is ignored: write probability=P,interval=N,times=N,after=N")
        }
    }
}

/// The flags of a cache by its name.
pub fn flags_for(name: &[u8]) -> DebugFlags {
    let Some(length) = LENGTH.load(Ordering::Relaxed).checked_sub(1) else {
        return DebugFlags::NONE;
    };
    let mut rules = [0; LONGEST];
    rules.iter_mut().zip(&RULES).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
    debug::flags_for(&rules[..length], name)
}

/// The flags of a class by malloc's name of it.
fn flags_of_class<L: Library>(name: &[u8]) -> DebugFlags {
    let mut longer = [0; 32];
    let (prefix, own) = longer.split_at_mut(L::CLASS_PREFIX.len());
    prefix.copy_from_slice(L::CLASS_PREFIX.as_bytes());
    let len = name.len().min(own.len());
    own[..len].copy_from_slice(&name[..len]);
    flags_for(&longer[..L::CLASS_PREFIX.len() + len])
}

/// True if rules were set.
pub fn is_wanted() -> bool {
    LENGTH.load(Ordering::Relaxed) != 0
}

/// Gives malloc's caches their debugging, before the yard begins.
pub fn choose<L: Library>() {
    let hooks = Hooks {
        report: report::found::<L>,
        track: stack::track::<L>,
        trace: report::trace::<L>,
        fails: fail::fails,
    };
    L::yard().on_findings(hooks);
    ON.store(L::yard().choose_debug(flags_of_class::<L>), Ordering::Relaxed);
}

/// True if a cache of malloc's has debugging.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Makes the capture of stacks ready, for a cache that is made with debugging: it allocates.
pub fn prepare() {
    stack::prepare();
}

/// In the constructor: makes the capture of stacks ready, which allocates.
pub fn begin() {
    if is_wanted() {
        stack::prepare();
    }
}

/// In a forked child: [`at_exit`] counts its calls from here.
pub fn after_fork<L: Library>() {
    if is_on() {
        IS_CHILD.store(true, Ordering::Relaxed);
        CALLS_BEFORE.store(calls_and_bytes::<L>().0, Ordering::Relaxed);
    }
}

/// Calls on caches with debugging, a wrapping count, and the bytes of their slabs.
fn calls_and_bytes<L: Library>() -> (u32, usize) {
    let caches = L::yard().caches();
    let debugged = caches.numbers().map(|number| caches.get(number));
    debugged.filter(|cache| cache.engine.debug().is_some()).fold((0, 0), |(calls, bytes), cache| {
        let slabs = cache.nr_slabs() as usize;
        (
            u32::wrapping_add(calls, cache.begun()),
            bytes + slabs * cache.shape().geometry.slab_bytes(),
        )
    })
}

/// True if the end of this process is worth a check: for a forked child not, if it made few calls
/// relative to what there is to check. The look's time is in proportion to the heap, and whoever
/// waits for such a child would wait for that; its parent is looked at as it ends.
fn is_worth_a_look<L: Library>() -> bool {
    if !IS_CHILD.load(Ordering::Relaxed) {
        return true;
    }
    let (calls, bytes) = calls_and_bytes::<L>();
    let calls = calls.wrapping_sub(CALLS_BEFORE.load(Ordering::Relaxed)) as usize;
    bytes <= LOOK_BYTES + calls * LOOK_BYTES_A_CALL
}

/// At the process's end: looks through all objects. True if something was found.
pub fn at_exit<L: Library>() -> bool {
    is_on() && is_worth_a_look::<L>() && L::yard().validate().is_some_and(|wrong| wrong > 0)
}
