//! Caches with debugging, in the library of all engines: which malloc's caches have it
//! (`SLABYARD_DEBUG`), and what the yard calls for them.
//!
//! [`report`] prints findings, [`stack`] says who calls, [`symbols`] names functions, [`fail`]
//! makes allocations fail, `makers` compares who frees with who allocated. Neighbours: `abi::debug` has the rules, `slabyard::engine::debug`
//! finds.
//! Invariant: nothing here allocates, but the first capture of a stack, at the start.

mod fail;
#[cfg(any_engine)]
pub(crate) mod makers;
mod report;
mod stack;
mod symbols;

use crate::state::YARD;
use crate::text::say;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use slabyard::pages::finding::Hooks;
use slabyard_abi::debug::{self, DebugFlags, LONGEST};
use slabyard_abi::failslab;

pub(crate) use report::call_stack;

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

/// Bytes of slabs that the end of a forked child looks at in any case.
const LOOK_BYTES: usize = 1 << 20;
/// And so many more for each call of its own: the look takes about as long as these did.
const LOOK_BYTES_A_CALL: usize = 4096;

/// Takes the rules of `SLABYARD_DEBUG`.
pub(crate) fn take_rules(text: &[u8]) {
    if let Err(wrong) = debug::check(text) {
        return say!("SLABYARD_DEBUG is ignored: {wrong}");
    }
    RULES.iter().zip(text).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
    LENGTH.store(text.len() + 1, Ordering::Relaxed);
}

/// Takes the rule of `SLABYARD_FAILSLAB`.
pub(crate) fn take_failslab(text: &[u8]) {
    match failslab::parse(text) {
        Some(rule) => fail::set(&rule),
        None => {
            say!("SLABYARD_FAILSLAB is ignored: write probability=P,interval=N,times=N,after=N")
        }
    }
}

/// The flags of a cache by its name.
pub(crate) fn flags_for(name: &[u8]) -> DebugFlags {
    let Some(length) = LENGTH.load(Ordering::Relaxed).checked_sub(1) else {
        return DebugFlags::NONE;
    };
    let mut rules = [0; LONGEST];
    rules.iter_mut().zip(&RULES).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
    debug::flags_for(&rules[..length], name)
}

/// The flags of a class by malloc's name of it.
fn flags_of_class(name: &[u8]) -> DebugFlags {
    if cfg!(object_caches) {
        // There it is kmalloc's.
        let mut longer = [b'k'; 32];
        let len = name.len().min(longer.len() - 1);
        longer[1..=len].copy_from_slice(&name[..len]);
        return flags_for(&longer[..=len]);
    }
    flags_for(name)
}

/// True if rules were set.
pub(crate) fn is_wanted() -> bool {
    LENGTH.load(Ordering::Relaxed) != 0
}

/// Gives malloc's caches their debugging, before the yard begins.
pub(crate) fn choose() {
    let hooks = Hooks {
        report: report::found,
        track: stack::track,
        trace: report::trace,
        fails: fail::fails,
    };
    YARD.on_findings(hooks);
    ON.store(YARD.choose_debug(flags_of_class), Ordering::Relaxed);
}

/// True if a cache of malloc's has debugging.
#[inline]
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Makes the capture of stacks ready, for a cache that is made with debugging: it allocates.
#[cfg(object_caches)]
pub(crate) fn prepare() {
    stack::prepare();
}

/// In the constructor: makes the capture of stacks ready, which allocates.
pub(crate) fn begin() {
    if is_wanted() {
        stack::prepare();
    }
}

/// In a forked child: [`at_exit`] counts its calls from now on.
pub(crate) fn after_fork() {
    if is_on() {
        IS_CHILD.store(true, Ordering::Relaxed);
        CALLS_BEFORE.store(YARD.debugged_calls_and_bytes().0, Ordering::Relaxed);
    }
}

/// True if the end of this process is worth a look: of a forked child not, where it made few calls
/// for what there is to look at. The look's time is in proportion to the heap, and whoever waits
/// for such a child would wait for that; its parent is looked at as it ends.
fn is_worth_a_look() -> bool {
    if !IS_CHILD.load(Ordering::Relaxed) {
        return true;
    }
    let (calls, bytes) = YARD.debugged_calls_and_bytes();
    let calls = calls.wrapping_sub(CALLS_BEFORE.load(Ordering::Relaxed)) as usize;
    bytes <= LOOK_BYTES + calls * LOOK_BYTES_A_CALL
}

/// At the process's end: looks through all objects. True if something was found.
pub(crate) fn at_exit() -> bool {
    is_on() && is_worth_a_look() && YARD.validate().is_some_and(|wrong| wrong > 0)
}
