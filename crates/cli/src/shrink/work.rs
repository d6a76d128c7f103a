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
            let root = Path::new(ROOT);
            progress.set_length(picked.caches.len() as u64);
            let shrunk = shrink_each(root, &picked.caches, &mut done.failed, &progress);
            done.caches = shrunk.len();
            // The first shrink sent what kfree_rcu() had collected to wait for readers, where full
            // sheaves waited already; when that is over, slabs are empty that were not.
            done.awaited = !shrunk.is_empty() && kernel::wait_for_readers();
            if done.awaited {
                shrink_each(root, shrunk, &mut done.failed, &ProgressBar::hidden());
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

/// Has a kernel shrink one cache after the other; those that it shrank.
fn shrink_each<'a>(
    root: &Path,
    caches: impl IntoIterator<Item = &'a String>,
    failed: &mut Vec<anyhow::Error>,
    progress: &ProgressBar,
) -> Vec<&'a String> {
    let mut shrunk = Vec::new();
    for cache in caches {
        progress.set_message(cache.clone());
        match kernel::shrink(root, cache) {
            Ok(()) => shrunk.push(cache),
            // A cache that ended meanwhile has nothing to give.
            Err(kernel::Error::UnknownCache { .. }) => {}
            Err(error) => {
                failed.push(error.into());
                // Without the right to the first there is none to the others.
                if shrunk.is_empty() {
                    break;
                }
            }
        }
        progress.inc(1);
    }
    shrunk
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Each cache's `shrink` below a root; of one that refuses it is a directory.
    fn tree(caches: &[(&str, bool)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (cache, refuses) in caches {
            let cache = root.path().join("sys/kernel/slab").join(cache);
            fs::create_dir_all(&cache).unwrap();
            match refuses {
                true => fs::create_dir(cache.join("shrink")).unwrap(),
                false => fs::write(cache.join("shrink"), "").unwrap(),
            }
        }
        root
    }

    fn shrunk_and_failed(root: &Path, caches: &[&str]) -> (Vec<String>, usize) {
        let caches: Vec<String> = caches.iter().map(|cache| (*cache).into()).collect();
        let mut failed = Vec::new();
        let shrunk = shrink_each(root, &caches, &mut failed, &ProgressBar::hidden());
        (shrunk.into_iter().cloned().collect(), failed.len())
    }

    #[test]
    fn a_cache_that_refuses_is_not_among_those_that_are_shrunk_again() {
        let root = tree(&[("a", false), ("b", true), ("c", false)]);
        let (shrunk, failed) = shrunk_and_failed(root.path(), &["a", "gone", "b", "c"]);
        assert_eq!((shrunk, failed), (vec!["a".into(), "c".into()], 1));
        assert_eq!(fs::read(root.path().join("sys/kernel/slab/a/shrink")).unwrap(), b"1");
    }

    #[test]
    fn without_the_right_to_the_first_no_other_is_asked() {
        let root = tree(&[("a", true), ("b", false)]);
        assert_eq!(shrunk_and_failed(root.path(), &["a", "b"]), (Vec::new(), 1));
    }
}
