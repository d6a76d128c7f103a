//! The reclaim ticker: it decides when a reclaim pass begins, and how often a slow path must run to
//! advance it.
//!
//! Only slow paths read the clock. A tick (an eighth of the decay time after the last one) begins a
//! pass ([`super::pass`]), and each slow path runs one slice of it until it ends. A helper thread
//! may run slices ([`help_reclaim`](crate::calls::help::help_reclaim)); the ticker needs none.
//!
//! Dirty free pages beyond 32 MiB plus a quarter of the live memory do not wait for the decay time:
//! they are the purge backlog, which slow paths purge first. A program that frees a gigabyte makes
//! many calls meanwhile, and may make few afterwards.
//!
//! While dirty free pages wait to be purged, the ticker runs: each CPU takes a slow path at least
//! once in `interval` frees ([`super::countdown`]); the interval is computed from the program's
//! rate of frees and the remaining work ([`crate::yard::rate`]).

use crate::engine::Engine;
use crate::pages::runs;
use crate::platform::{GRANULE, Planted, Platform};
use crate::reclaim::countdown::kick_all_rows;
use crate::reclaim::live::{WARM_PART, is_large_warm, is_slow, live_granules};
use crate::reclaim::pass::run_slice;
use crate::reclaim::sparse::flush_sparse;
use crate::reclaim::surplus::look_at_surplus;
use crate::sync::Ordering;
use crate::yard::depth::LOOK_CALLS;
use crate::yard::rate::{EVERY_CALL, LONGEST_INTERVAL};
use crate::yard::{Yard, choose_pops};

/// The ticker runs while there are this many dirty free granules: 256 KiB.
const TICKER_MIN_GRANULES: usize = 64;
/// And where a helper gives back, while barns have this many bytes, which keep slabs.
const TICKER_MIN_BARN_BYTES: usize = 1 << 20;
/// Dirty free granules that may wait for the decay time however little is live: 32 MiB.
const BACKLOG_GRANULES: usize = (32 << 20) / GRANULE;
/// The longest interval while there is a purge backlog: a burst of frees may end at any moment.
const BACKLOG_INTERVAL: u32 = 8;
/// Granules that one slice purges, as a guess: blocks may be smaller.
const GRANULES_A_SLICE: usize = 64;
/// Slices that an open pass needs beside those for pages, as a guess.
const SLICES_A_PASS: u64 = 64;
/// The ticker ends after this many passes in a row reclaimed nothing, and found no run in a bank: a
/// stack counts as idle after two or three, and so do the runs of slabs discarded with it.
const MOST_IDLE_PASSES: u32 = 8;
/// In a slow program the first pass and then every fourth compacts.
const COMPACT_EVERY: u32 = 4;

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Milliseconds from one tick to the next.
    pub fn period_ms(&self) -> u64 {
        u64::from(self.decay_ms() / 8).max(1)
    }
}

fn is_pending<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    yard.heap.buddy.purgeable_hint() >= TICKER_MIN_GRANULES
        || yard.surplus.is_helped()
            && yard.heap.barn_bytes.parked.load(Ordering::Relaxed) >= TICKER_MIN_BARN_BYTES
}

/// Starts the reclaim ticker if enough dirty free pages wait to be purged.
#[inline]
pub(crate) fn start_ticker_if_due<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    if is_pending(yard) && yard.interval.load(Ordering::Relaxed) == 0 {
        start_ticker(yard);
    }
}

/// Starts it if it does not run: a bank is there, whose runs go back when it is idle.
#[inline]
pub(crate) fn start_ticker_for_bank<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    if yard.interval.load(Ordering::Relaxed) == 0 {
        start_ticker(yard);
    }
}

#[cold]
#[inline(never)]
fn start_ticker<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    yard.idle_passes.store(0, Ordering::Relaxed);
    yard.rate.begin();
    set_interval(yard, LONGEST_INTERVAL);
    // A main sheaf may have room for a second of a slow program's frees: the first of them
    // must take the slow path, and start the row's countdown.
    kick_all_rows(yard);
}

pub fn set_interval<P: Platform, E: Engine>(yard: &Yard<P, E>, new: u32) {
    // SeqCst: a thread that an earlier change notified, and that calls `Yard::is_ticking`
    // again, sees this change.
    let old = yard.interval.swap(new, Ordering::SeqCst);
    if (old == 0) != (new == 0)
        && let Some(call) = yard.on_ticking.try_get()
    {
        call(new != 0);
    }
    notify_every_call(yard, old, new);
}

/// If every call must take the slow path from now on, or no longer: closes or opens the fast path
/// of typed caches, and calls `on_every_call`.
fn notify_every_call<P: Platform, E: Engine>(yard: &Yard<P, E>, old: u32, new: u32) {
    if (old == EVERY_CALL) != (new == EVERY_CALL) {
        choose_pops(yard);
        if let Some(call) = yard.on_every_call.try_get() {
            call();
        }
    }
}

/// At a look at the clock while the ticker runs: sets the interval by the program's rate and
/// by how many slices are left to make.
fn adapt_interval<P: Platform, E: Engine>(yard: &Yard<P, E>, now: u64, interval: u32) {
    let calls = if interval == LONGEST_INTERVAL { LOOK_CALLS } else { interval };
    if !yard.rate.look(now, calls) {
        return;
    }
    let mut slices = u64::from(yard.open.load(Ordering::Relaxed)) * SLICES_A_PASS;
    if is_pending(yard) {
        slices += (yard.heap.buddy.purgeable_hint() / GRANULES_A_SLICE) as u64;
    }
    let has_backlog = yard.backlog.load(Ordering::Relaxed) > 0;
    let longest = if has_backlog { BACKLOG_INTERVAL } else { LONGEST_INTERVAL };
    change_interval(yard, interval, yard.rate.interval(slices).min(longest));
}

/// Changes the interval of a running ticker: one that ended meanwhile stays ended.
fn change_interval<P: Platform, E: Engine>(yard: &Yard<P, E>, old: u32, new: u32) {
    // SeqCst: as in `set_interval`.
    if yard.interval.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
        notify_every_call(yard, old, new);
        if new < old / 2 {
            // Each row's countdown still has the rest of the longer interval.
            kick_all_rows(yard);
        }
    }
}

/// Begins a pass if a tick is `due`, and makes a slice. False if another thread holds the
/// drain lock.
pub(crate) fn reclaim<P: Platform, E: Engine>(yard: &Yard<P, E>, due: bool) -> bool {
    let slow = is_slow(yard);
    // Without the lock: several threads may purge the backlog at once.
    if !slow && !due && !yard.surplus.sparse.is_asked() && purge_backlog(yard) {
        return true;
    }
    let Some(mut pass) = yard.drain.try_lock(yard.platform()) else {
        return false;
    };
    // In a slow program, every fourth pass flushes stacks in use too. Their objects lie
    // where a burst left them and each may pin a slab; the refills that follow take their
    // objects from few slabs.
    let nth = yard.slow_passes.load(Ordering::Relaxed);
    if due && pass.begin(slow && nth.is_multiple_of(COMPACT_EVERY)) {
        yard.slow_passes.store(if slow { nth.wrapping_add(1) } else { 0 }, Ordering::Relaxed);
        yard.open.store(1, Ordering::Relaxed);
        yard.heap.sheaves.look(yard.platform());
    }
    if flush_sparse(yard, &mut pass) {
        return true;
    }
    // A slow program makes few slices: the objects that pin slabs are flushed first, and then
    // both those slabs' pages and the backlog are purged.
    if !(slow && pass.is_flushing()) && purge_backlog(yard) {
        pass.count_purge();
        return true;
    }
    // Another thread may have ended the pass since `has_work` read `open`.
    if !pass.is_open() {
        return true;
    }
    let mut ended = run_slice(yard, &mut pass);
    while ended.is_none() && yard.platform().has_planted(Planted::WholePasses) {
        ended = run_slice(yard, &mut pass);
    }
    if let Some(reclaimed) = ended {
        yard.open.store(0, Ordering::Relaxed);
        end_pass(yard, reclaimed || pass.has_banked);
    }
    true
}

/// True while a pass is open, there is a purge backlog, or a cache is to be flushed. Takes no lock,
/// so the answer may be out of date.
#[inline]
pub(crate) fn has_work<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    yard.open.load(Ordering::Relaxed) != 0
        || yard.backlog.load(Ordering::Relaxed) != 0
        || yard.surplus.sparse.is_asked()
}

/// Purges a part of the backlog. False if there is nothing to purge.
fn purge_backlog<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    let backlog = yard.backlog.load(Ordering::Relaxed);
    let purged = if backlog > 0 { yard.heap.purge_part(0) } else { None };
    if backlog > 0 {
        // This may overwrite a raise by another thread, whose next call raises it again.
        let rest = backlog.saturating_sub(purged.unwrap_or(backlog));
        yard.backlog.store(rest, Ordering::Relaxed);
    }
    purged.is_some()
}

/// Raises the purge backlog to the dirty free pages that are too many beside the live memory. Not
/// where large blocks come and go: there the allocation of one makes room ([`crate::large`]).
fn raise_backlog<P: Platform, E: Engine>(yard: &Yard<P, E>, interval: u32) {
    let dirty = yard.heap.buddy.purgeable_hint();
    if dirty > BACKLOG_GRANULES && !is_large_warm(yard) {
        let live = live_granules(yard, runs::free_count(&yard.heap).free);
        let surplus = dirty.saturating_sub(BACKLOG_GRANULES + live / WARM_PART);
        yard.backlog.fetch_max(surplus, Ordering::Relaxed);
        look_at_surplus(yard);
        if surplus > 0 && interval > BACKLOG_INTERVAL {
            change_interval(yard, interval, BACKLOG_INTERVAL);
        }
    }
}

/// Looks at the clock, which adapts the interval and the backlog while the ticker runs. True
/// for one caller when a tick is due.
pub(crate) fn look_at_clock<P: Platform, E: Engine>(yard: &Yard<P, E>, measures: bool) -> bool {
    let now = yard.platform().now_ms();
    let interval = yard.interval.load(Ordering::Relaxed);
    if interval != 0 {
        if measures {
            adapt_interval(yard, now, interval);
        }
        raise_backlog(yard, interval);
    }
    let due = claim_tick(yard, now);
    if due {
        look_at_surplus(yard);
    }
    due
}

/// True for one caller when a tick is due.
pub(crate) fn claim_tick<P: Platform, E: Engine>(yard: &Yard<P, E>, now: u64) -> bool {
    let last = yard.last_tick.load(Ordering::Relaxed);
    now >= last + yard.period_ms()
        && yard.last_tick.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

fn end_pass<P: Platform, E: Engine>(yard: &Yard<P, E>, reclaimed: bool) {
    let idle = !reclaimed && !is_pending(yard);
    let passes = if idle { yard.idle_passes.load(Ordering::Relaxed) + 1 } else { 0 };
    yard.idle_passes.store(passes, Ordering::Relaxed);
    if passes >= MOST_IDLE_PASSES {
        set_interval(yard, 0);
    }
}
