//! Many answers about one trace, on all CPUs of this machine.
//!
//! Neighbours: [`crate::answer`] makes each; `ask`, `sweep` and `tune` want many. Invariants: answers
//! are the same on any number of CPUs; all questions are looked at before the first is answered, so
//! that a wrong one costs nothing.

use crate::answer::{Answer, Answerer};
use crate::axis::{self, Changes};
use crate::question::Question;
use crate::{Error, Listener};
use anyhow::anyhow;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// What is asked about a trace.
pub struct Task<'a> {
    /// What each point begins with.
    pub base: &'a Question,
    /// What each answer is asked to change.
    pub points: &'a [Changes],
    /// CPUs that overlap in time, if waits are asked for.
    pub contention: Option<u32>,
}

/// Answers each point, and hands each answer over with its number as soon as it is there, one at a
/// time but in any order; an error of `take` ends it.
///
/// # Errors
/// As [`Answerer::check`], of the first point that is wrong; then no point was answered. As
/// [`Answerer::answer_with`] and `take`.
pub fn each(
    first: &mut Answerer<'_>,
    task: &Task<'_>,
    listener: &dyn Listener,
    take: &mut (dyn FnMut(usize, Answer) -> Result<(), Error> + Send),
) -> Result<(), Error> {
    let &Task { base, points, contention } = task;
    for changes in points {
        first.check(base, changes).map_err(|error| match error {
            Error::Usage(text) if !changes.is_empty() => {
                Error::Usage(format!("{}: {text}", axis::name(changes)))
            }
            other => other,
        })?;
    }
    let answer = |answerer: &mut Answerer<'_>, nth: usize| {
        answerer.answer_with(base, &points[nth], contention)
    };
    on_all_cpus(first, points.len(), &answer, listener, take)
}

/// Makes so many results on all CPUs, and hands each over with its number as [`each`] does.
pub(crate) fn on_all_cpus<'a, T: Send>(
    first: &mut Answerer<'a>,
    nr: usize,
    make: &(dyn Fn(&mut Answerer<'a>, usize) -> Result<T, Error> + Sync),
    listener: &dyn Listener,
    take: &mut (dyn FnMut(usize, T) -> Result<(), Error> + Send),
) -> Result<(), Error> {
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let taker = Mutex::new((take, Ok(())));
    let work = &|answerer: &mut Answerer<'a>| {
        while !stop.load(Ordering::Relaxed) {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= nr {
                return;
            }
            let made = make(answerer, nth);
            let mut taker = taker.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (take, result) = &mut *taker;
            // What others made after an error is not taken.
            let taken = match result {
                Err(_) => Ok(()),
                Ok(()) if listener.is_stopped() => Err(anyhow!("stopped").into()),
                Ok(()) => made.and_then(|made| take(nth, made)),
            };
            if let Err(error) = taken {
                *result = Err(error);
                stop.store(true, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..cpus.min(nr) {
            let mut another = first.clone();
            scope.spawn(move || work(&mut another));
        }
        work(first);
    });
    taker.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).1
}

/// All answers, in the order of the points.
///
/// # Errors
/// As [`each`].
pub fn all(
    first: &mut Answerer<'_>,
    task: &Task<'_>,
    listener: &dyn Listener,
) -> Result<Vec<Answer>, Error> {
    let mut answers: Vec<Option<Answer>> = vec![None; task.points.len()];
    let mut done = 0;
    let all = answers.len();
    listener.done(0, all);
    let mut take = |nth: usize, answer: Answer| {
        done += 1;
        listener.done(done, all);
        answers[nth] = Some(answer);
        Ok(())
    };
    each(first, task, listener, &mut take)?;
    listener.clear();
    Ok(answers.into_iter().flatten().collect())
}
