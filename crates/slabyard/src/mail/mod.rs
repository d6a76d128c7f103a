//! The mailbox: another process writes a request into this yard's header; any thread's next slow
//! path, or a helper thread that the requester wakes, serves it (`abi::region::Mail`).
//!
//! Neighbour: [`crate::reclaim::drain`] runs the requested drains. One thread at a time serves
//! requests, under the drain lock. Invariants: a request is served at most once; a request that two
//! requesters wrote at the same time is never served; a request about a destroyed cache is refused,
//! even if a new cache has its number; no request, whatever its words, damages the yard.

pub mod header;

use crate::cache::Cache;
use crate::debugging::{self, validate_inside};
use crate::engine::{Changed, Engine};
use crate::mail::header::header_word;
use crate::platform::Platform;
use crate::reclaim::drain::{
    drain_empties, drain_stacks, give_back, request_drains, shrink_caches,
};
use crate::reclaim::walk::{Stacks, caches_of};
use crate::sync::Ordering;
use crate::yard::Yard;
use slabyard_abi::region::{
    FORGOTTEN, Mail, Outcome, Request, TUNABLES, TunableRow, WHOLE_YARD, check,
};

/// The answer to a request.
pub(crate) struct Answer {
    outcome: Outcome,
    old: u64,
    new: u64,
    pub(crate) bytes: u64,
}

impl Answer {
    fn refused(outcome: Outcome) -> Self {
        Answer { outcome, old: 0, new: 0, bytes: 0 }
    }
}

/// Forgets a request without an answer: the child of a fork has a copy of its parent's mailbox.
/// Who asked the child itself before its first slow path reads that there was no outcome, and
/// asks again.
pub fn forget_mail<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let asked = mail(yard, Mail::Asked);
    header_word(yard, Mail::Result.index()).store(FORGOTTEN, Ordering::Relaxed);
    // Release: as in `serve`.
    header_word(yard, Mail::Answered.index()).store(asked, Ordering::Release);
}

fn mail<P: Platform, E: Engine>(yard: &Yard<P, E>, word: Mail) -> u64 {
    header_word(yard, word.index()).load(Ordering::Relaxed)
}

/// True if there is a request without an answer.
#[inline]
fn has_mail<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    let header = yard.platform().rows().header();
    let word = |word: Mail| header[word.index()].load(Ordering::Relaxed);
    word(Mail::Asked) != word(Mail::Answered)
}

/// In a slow path: serves a request, if there is one.
#[inline]
pub(crate) fn answer_mail<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    if has_mail(yard) {
        serve(yard);
    }
}

/// True if a slab's end may call what is not ours: a destructor, or a report, which looks up
/// functions' names in the loader's lists.
pub(crate) fn calls_program<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    let destructs = |number| yard.caches.get(number).shape().destructor.is_some();
    E::SIZED && debugging::has_debugging(yard) || yard.caches.used.caches().any(destructs)
}

#[cold]
fn serve<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let p = yard.platform();
    let Some(_guard) = yard.drain.try_lock(p) else { return };
    // A request of which a word is not there yet is not what its checksum says: the next slow path
    // finds it.
    let asked = mail(yard, Mail::Asked);
    let request = [
        asked,
        mail(yard, Mail::What),
        mail(yard, Mail::Cache),
        mail(yard, Mail::Generation),
        mail(yard, Mail::Key),
        mail(yard, Mail::Value),
    ];
    if asked == mail(yard, Mail::Answered) || mail(yard, Mail::Check) != check(request) {
        return;
    }
    let begin = p.now_ns();
    let answer = answer_to(yard, request);
    let put = |word: Mail, value: u64| {
        header_word(yard, word.index()).store(value, Ordering::Relaxed);
    };
    put(Mail::Result, answer.outcome as u64);
    put(Mail::Old, answer.old);
    put(Mail::New, answer.new);
    put(Mail::Bytes, answer.bytes);
    put(Mail::Nanoseconds, p.now_ns().saturating_sub(begin));
    // Release: a reader that sees the token sees the answer.
    header_word(yard, Mail::Answered.index()).store(asked, Ordering::Release);
}

fn answer_to<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    [_, what, cache, generation, key, value]: [u64; 6],
) -> Answer {
    let scope = match usize::try_from(cache) {
        _ if cache == WHOLE_YARD => Stacks::All,
        // The cache that the requester saw may be gone, and another one have its number.
        Ok(number) if yard.caches.is_there_in(number, generation) => Stacks::Cache(number),
        _ => return Answer::refused(Outcome::Unknown),
    };
    match Request::of(what) {
        Some(Request::Shrink) => shrink(yard, scope, false),
        Some(Request::ShrinkEmpty) => shrink(yard, scope, true),
        Some(Request::Set) => set(yard, scope, key, value),
        Some(Request::Validate) if E::SIZED && debugging::has_debugging(yard) => Answer {
            outcome: Outcome::Done,
            old: validate_inside(yard),
            new: yard.findings(),
            bytes: 0,
        },
        Some(Request::Validate) | None => Answer::refused(Outcome::Unknown),
    }
}

/// The caches that a request is about: all, or one.
fn in_scope<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    scope: Stacks,
) -> impl Iterator<Item = &Cache<E>> {
    caches_of(yard, scope).map(|number| yard.caches.get(number))
}

/// Drains what is parked, or, of CPU partial lists, the empty slabs alone.
pub(crate) fn shrink<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    scope: Stacks,
    empties: bool,
) -> Answer {
    let slabs = || in_scope(yard, scope).map(|cache| u64::from(cache.nr_slabs())).sum();
    let old = slabs();
    let cleaned = yard.heap.cleaned.load(Ordering::Relaxed);
    let mut own = false;
    if empties {
        in_scope(yard, scope).for_each(|cache| own |= !drain_empties(yard, cache));
    } else {
        drain_stacks(yard, scope);
        shrink_caches(yard, scope);
    }
    let bytes = give_back(yard, cleaned).iter().sum::<usize>() as u64;
    let outcome = match (empties, own) {
        (true, true) => Outcome::Own,
        (true, false) => Outcome::Done,
        (false, _) => reach(yard),
    };
    Answer { outcome, old, new: slabs(), bytes }
}

/// The outcome of a drain: done, or, where the platform cannot stop other CPUs, requested of
/// each thread.
fn reach<P: Platform, E: Engine>(yard: &Yard<P, E>) -> Outcome {
    if yard.platform().can_stop() {
        return Outcome::Done;
    }
    request_drains(yard);
    Outcome::Asked
}

fn set<P: Platform, E: Engine>(yard: &Yard<P, E>, scope: Stacks, key: u64, value: u64) -> Answer {
    let Some(row) = TUNABLES.iter().find(|row| row.number == key) else {
        return Answer::refused(Outcome::Unknown);
    };
    if !(row.least..=row.most).contains(&value) {
        return Answer::refused(Outcome::OutOfRange);
    }
    match scope {
        Stacks::All if row.of_yard => set_of_yard(yard, row, value),
        Stacks::Cache(number) if !row.of_yard => set_of_cache(yard, number, row, value),
        _ => Answer::refused(Outcome::Unknown),
    }
}

fn set_of_yard<P: Platform, E: Engine>(yard: &Yard<P, E>, row: &TunableRow, value: u64) -> Answer {
    let old = match row.name {
        "decay_ms" => {
            let old = yard.decay_ms();
            yard.set_decay_ms(value as u32);
            u64::from(old)
        }
        "node_limit" => {
            let old = yard.heap.barn_bytes.limit();
            yard.heap.barn_bytes.set_limit(value as usize);
            shrink_caches(yard, Stacks::All);
            old as u64
        }
        _ => return Answer::refused(Outcome::Unknown),
    };
    Answer { outcome: Outcome::Done, old, new: value, bytes: 0 }
}

fn set_of_cache<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    number: usize,
    row: &TunableRow,
    value: u64,
) -> Answer {
    let cache = yard.caches.get(number);
    let changed = cache.engine.set(cache.on(&yard.heap), row.name, value as u32);
    let Some(Changed { old, drains }) = changed else {
        return Answer::refused(Outcome::Unknown);
    };
    let mut outcome = Outcome::Done;
    if drains {
        drain_stacks(yard, Stacks::Cache(number));
        outcome = reach(yard);
    }
    Answer { outcome, old: old.into(), new: value, bytes: 0 }
}
