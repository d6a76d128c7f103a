//! Sends requests to the yard through its mailbox, as another process would, without end: shrinks,
//! tunables, torn and absurd requests, while the workers go on.

use crate::token;
use crate::worker::{Load, Random};
use slabyard::cache::classes::CLASSES;
use slabyard::platform::PerCpu;
use slabyard_abi::engines::EngineName;
use slabyard_abi::region::{Mail, Outcome, Request, TUNABLES, WHOLE_YARD, check, front};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two requests.
const PAUSE: Duration = Duration::from_millis(3);
/// A request of a busy yard is served sooner.
const PATIENCE: Duration = Duration::from_secs(120);

/// Asks until the workers are done.
pub fn ask(load: &Load) {
    let mut random = Random(0x5eed_1234_9876_aaaa);
    let mut token = 0;
    while !load.over.load(Ordering::Relaxed) {
        token += 1;
        let torn = random.below(16) == 0;
        let expected = write(load, &mut random, token, torn);
        if !torn && !is_answered(load, token, expected) {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Writes a request and returns whether it is to be done.
fn write(load: &Load, random: &mut Random, token: u64, torn: bool) -> bool {
    let header = load.yard.platform().rows().header();
    let class = random.below(CLASSES as u64);
    let row = &TUNABLES[random.below(TUNABLES.len() as u64) as usize];
    let scope = if row.of_yard { WHOLE_YARD } else { class };
    let cache = load.yard.cache(class as usize);
    let has_sheaves = cache.sheaf_capacity() > 0;
    let has_lists = cache.front() & !front::NODES != 0;
    let has_arrays = cache.front() & front::ARRAYS != 0;
    // Small values: what is parked changes most.
    let within = row.least + random.below(row.most.min(1200) - row.least + 1);
    let has_tunable = row.of_yard
        || match row.name {
            "limit" => has_arrays && within >= cache.cpu_partial().0.into(),
            "batchcount" => has_arrays && within <= cache.sheaf_capacity().into(),
            "sharedfactor" => has_arrays,
            "min_partial" => !has_arrays && load.yard.engine() != EngineName::Slob,
            "cpu_partial" => has_lists && !has_arrays,
            _ => has_sheaves && !has_arrays,
        };
    let (request, expected) = match random.below(10) {
        8.. => ([token, Request::ShrinkEmpty as u64, class, 1, 0, 0], true),
        0 => ([token, Request::Shrink as u64, WHOLE_YARD, 0, 0, 0], true),
        1..4 => ([token, Request::Shrink as u64, class, 1, 0, 0], true),
        4 => ([token, Request::Shrink as u64, class, 2, 0, 0], false),
        5 => ([token, Request::Set as u64, scope, 1, row.number, row.most + 1], false),
        _ => ([token, Request::Set as u64, scope, 1, row.number, within], has_tunable),
    };
    let words = [Mail::Asked, Mail::What, Mail::Cache, Mail::Generation, Mail::Key, Mail::Value];
    for (word, value) in words.iter().zip(request).skip(1) {
        header[word.index()].store(value, Ordering::Relaxed);
    }
    let right = check(request).wrapping_add(u64::from(torn));
    header[Mail::Check.index()].store(right, Ordering::Relaxed);
    header[Mail::Asked.index()].store(token, Ordering::Release);
    // The next free of the class is a slow one.
    let rows = load.yard.platform().rows();
    for row in 0..rows.len() {
        let entry = rows.entry(row, slabyard::cache::slots::slot_of(class as usize));
        if !entry.is_none() {
            entry.ask();
        }
    }
    expected
}

/// Waits for the answer; false at the workers' end.
fn is_answered(load: &Load, token: u64, expected: bool) -> bool {
    let header = load.yard.platform().rows().header();
    let begin = Instant::now();
    while header[Mail::Answered.index()].load(Ordering::Acquire) != token {
        if load.over.load(Ordering::Relaxed) {
            return false;
        }
        if begin.elapsed() > PATIENCE {
            token::wrong("a request was not answered", token as usize, 0, 1);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    let outcome = Outcome::of(header[Mail::Result.index()].load(Ordering::Relaxed));
    let done = matches!(outcome, Some(Outcome::Done | Outcome::Asked | Outcome::Own));
    if done != expected {
        token::wrong("a request has a wrong answer", token as usize, done.into(), expected.into());
    }
    true
}
