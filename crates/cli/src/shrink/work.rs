//! Sends the requests: one per cache to a kernel, one for all caches to a process.

use crate::asking::{RequestWait, Wait};
use crate::failure::Failure;
use crate::look;
use anyhow::anyhow;
use indicatif::ProgressBar;
use slabyard_abi::region;
use slabyard_observe::kernel;
use slabyard_observe::process::{self, RequestKind};
use slabyard_observe::source::{ROOT, SourceName};
use std::path::Path;
use std::time::{Duration, Instant};

/// What can be shrunk.
pub enum Target {
    /// The running kernel.
    Kernel,
    /// A process, and how long to wait for it.
    Process(u32, Wait),
}

/// What is to be shrunk.
pub struct ShrinkTargets {
    pub caches: Vec<String>,
    /// True if these are all that there are.
    pub all: bool,
}

/// How much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShrinkExtent {
    /// All that is parked.
    All,
    /// The empty slabs on CPU partial lists.
    Empties,
}

/// How far it came.
#[derive(Default)]
pub struct Done {
    /// Caches that were shrunk.
    pub caches: usize,
    /// Time that it took.
    pub took: Duration,
    /// Bytes that went back, where the source counts them itself.
    pub bytes: Option<u64>,
    /// True if other threads were asked to give back what they hold.
    pub asked: bool,
    /// True if the lists of other threads were not reached.
    pub own: bool,
    /// True for the kernel's own caches.
    pub of_kernel: bool,
    /// True if what waited for RCU's readers came back before the end.
    pub awaited: bool,
    /// The signal that ended it early.
    pub signal: Option<i32>,
    /// What was not shrunk, and why.
    pub failed: Vec<anyhow::Error>,
}

impl Target {
    pub fn of(named: &SourceName, wait: Wait) -> Result<Target, Failure> {
        match named {
            SourceName::Kernel => Ok(Target::Kernel),
            SourceName::Process(pid) => Ok(Target::Process(*pid, wait)),
            SourceName::File(path) => {
                let why = "what it tells is past and cannot be shrunk";
                Err(anyhow!(look::only_a_file(path, why)).into())
            }
            SourceName::Stdin => Err(anyhow!("what is on standard input cannot be shrunk").into()),
        }
    }
}

/// Shrinks; what fails is told in the end.
pub fn shrink(
    target: &Target,
    picked: &ShrinkTargets,
    part: ShrinkExtent,
    progress: ProgressBar,
) -> Done {
    let start = Instant::now();
    let mut done = Done { of_kernel: matches!(target, Target::Kernel), ..Done::default() };
    match target {
        Target::Kernel => {
            progress.set_length(picked.caches.len() as u64);
            done.awaited = kernel::wait_for_readers();
            shrink_each(&mut done, &picked.caches, &progress);
            // The first shrink sent what kfree_rcu() had collected to wait for readers, too; when that
            // is over, slabs are empty that were not.
            if done.awaited && done.caches > 0 && kernel::wait_for_readers() {
                let mut again = Done::default();
                shrink_each(&mut again, &picked.caches, &ProgressBar::hidden());
                done.failed.append(&mut again.failed);
            }
        }
        Target::Process(pid, wait) => {
            let one_by_one = picked.caches.iter().map(|cache| Some(cache.clone()));
            let asks: Vec<Option<String>> =
                if picked.all { vec![None] } else { one_by_one.collect() };
            let asking = match RequestWait::new(*wait) {
                Ok(asking) => asking,
                Err(error) => {
                    done.failed.push(error);
                    return done;
                }
            };
            for cache in asks {
                let ask = match part {
                    ShrinkExtent::All => RequestKind::Shrink { cache },
                    ShrinkExtent::Empties => RequestKind::ShrinkEmpty { cache },
                };
                if let Err(error) = ask_all(&mut done, *pid, &ask, &asking) {
                    done.signal = asking.signal();
                    // One that serves no request serves no other either.
                    done.failed.push(error.into());
                    break;
                }
            }
        }
    }
    progress.finish_and_clear();
    done.took = start.elapsed();
    done
}

/// Has a kernel shrink one cache after the other.
fn shrink_each(done: &mut Done, caches: &[String], progress: &ProgressBar) {
    for cache in caches {
        progress.set_message(cache.clone());
        match kernel::shrink(Path::new(ROOT), cache) {
            Ok(()) => done.caches += 1,
            // A cache that ended meanwhile has nothing to give.
            Err(kernel::Error::UnknownCache { .. }) => {}
            Err(error) => {
                done.failed.push(error.into());
                // Without the right to the first there is none to the others.
                if done.caches == 0 {
                    break;
                }
            }
        }
        progress.inc(1);
    }
}

/// Asks each yard that it is for; the error of one that did not do it, after all were asked.
fn ask_all(
    done: &mut Done,
    pid: u32,
    ask: &RequestKind,
    asking: &RequestWait,
) -> Result<(), process::Error> {
    let mut failed = None;
    for asked in asking.ask_each(pid, ask)? {
        match asked.answer {
            Ok(answer) => {
                done.caches += asked.caches;
                done.bytes = Some(done.bytes.unwrap_or(0).saturating_add(answer.bytes));
                done.asked |= answer.outcome == region::Outcome::Asked;
                done.own |= answer.outcome == region::Outcome::Own;
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(()), Err)
}
