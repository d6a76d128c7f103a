//! The restartable sequences (rseq) on the modelled machine, with a step between any two of their
//! loads and stores.
//!
//! A thread that lost its token notices at its next instruction, as on real hardware, where the
//! kernel moves the thread to the abort address before it continues. So a sequence never combines
//! halves of two different stacks.
//!
//! If each thread has private stacks (`can_stop` is false), there is no token, and nothing is
//! aborted.

use super::Machine;
use super::config::Broken;
use slabyard_platform::stack::{Entry, STOPPED, Slot, Stack, Stopped, Tag};
use slabyard_platform::sync::Ordering;
use slabyard_platform::{Park, Takes};

/// A thread's right to commit on a CPU.
struct Token {
    cpu: usize,
    generation: u64,
}

/// What a sequence ended with; `None` means an abort.
type Ended<T> = Option<T>;

impl Machine {
    /// The implicit or virtual thread's row, if it has one.
    pub(super) fn row(&self) -> Option<usize> {
        let words = self.here();
        let row = if self.config.can_stop { words.cpu() } else { self.me() };
        words.is_registered().then_some(row)
    }

    fn token(&self) -> Token {
        let cpu = self.here().cpu();
        Token { cpu, generation: self.generations[cpu].load(Ordering::Relaxed) }
    }

    fn is_valid(&self, token: &Token) -> bool {
        !self.config.can_stop
            || self.here().cpu() == token.cpu
                && self.generations[token.cpu].load(Ordering::Relaxed) == token.generation
    }

    /// A step inside of a sequence; `None` if the sequence is aborted.
    fn inside(&self, token: &Token) -> Option<()> {
        self.step();
        self.is_valid(token).then_some(())
    }

    /// The step in front of the committing store.
    fn before_commit(&self, token: &Token) -> Option<()> {
        self.step();
        (self.config.broken == Broken::CommitWithoutCheck || self.is_valid(token)).then_some(())
    }

    /// Makes a sequence; `slow` is the result of one that is aborted.
    fn or_slow<T>(&self, slow: T, sequence: impl FnOnce(&Token) -> Ended<T>) -> T {
        sequence(&self.token()).unwrap_or(slow)
    }

    pub(super) fn pop_in_steps(&self, slot: Slot) -> Option<usize> {
        self.or_slow(None, |token| {
            let Some(row) = self.row() else {
                return Some(None);
            };
            self.inside(token)?;
            let entry = self.rows.entry(row, slot);
            let top = entry.top();
            self.inside(token)?;
            // The element -1, where a stopped stack's top is, holds 0.
            let object = match top {
                STOPPED => 0,
                top => self.rows.element(top).load(Ordering::Relaxed),
            };
            if object == 0 {
                return Some(None);
            }
            self.before_commit(token)?;
            entry.commit(top - 1);
            Some(Some(object))
        })
    }

    /// `slot` is read inside of what is aborted.
    pub(super) fn push_in_steps(&self, slot: impl Fn() -> Slot, object: usize) -> bool {
        self.or_slow(false, |token| {
            let Some(row) = self.row() else {
                return Some(false);
            };
            self.inside(token)?;
            let entry = self.rows.entry(row, slot());
            let top = entry.top();
            self.inside(token)?;
            // The top of a stopped stack is above every end.
            if top >= entry.end() {
                return Some(false);
            }
            self.inside(token)?;
            if self.rows.element(top).load(Ordering::Relaxed) == object {
                return Some(false);
            }
            self.inside(token)?;
            self.rows.element(top + 1).store(object, Ordering::Relaxed);
            self.before_commit(token)?;
            entry.commit(top + 1);
            Some(true)
        })
    }

    pub(super) fn push_if_in_steps(&self, slot: Slot, object: usize) -> bool {
        self.or_slow(false, |token| {
            let Some(row) = self.row() else {
                return Some(false);
            };
            self.inside(token)?;
            let entry = self.rows.entry(row, slot);
            let top = entry.top();
            self.inside(token)?;
            let end = entry.end();
            if top >= end {
                return Some(false);
            }
            self.inside(token)?;
            let word = |number| self.rows.element(number).load(Ordering::Relaxed);
            let Tag { base, mask } = Tag::of(end, word);
            if (object ^ base) & mask != 0 {
                return Some(false);
            }
            self.inside(token)?;
            if self.rows.element(top).load(Ordering::Relaxed) == object {
                return Some(false);
            }
            self.inside(token)?;
            self.rows.element(top + 1).store(object, Ordering::Relaxed);
            self.before_commit(token)?;
            entry.commit(top + 1);
            Some(true)
        })
    }

    pub(super) fn pop_many_in_steps(&self, slot: Slot, out: &mut [usize]) -> usize {
        self.or_slow(0, |token| {
            let Some(row) = self.row() else {
                return Some(0);
            };
            self.inside(token)?;
            let entry = self.rows.entry(row, slot);
            let top = entry.top();
            let mut taken = 0;
            for object in out.iter_mut() {
                self.inside(token)?;
                let found = match top {
                    STOPPED => 0,
                    top => self.rows.element(top - taken).load(Ordering::Relaxed),
                };
                if found == 0 {
                    break;
                }
                *object = found;
                taken += 1;
            }
            if taken == 0 {
                return Some(0);
            }
            self.before_commit(token)?;
            entry.commit(top - taken);
            Some(taken as usize)
        })
    }

    pub(super) fn push_many_in_steps(&self, slot: Slot, objects: &[usize], takes: Takes) -> usize {
        self.or_slow(0, |token| {
            let Some(row) = self.row() else {
                return Some(0);
            };
            let Some(first) = objects.first() else {
                return Some(0);
            };
            self.inside(token)?;
            let entry = self.rows.entry(row, slot);
            let top = entry.top();
            self.inside(token)?;
            let end = entry.end();
            if top >= end {
                return Some(0);
            }
            let word = |number| self.rows.element(number).load(Ordering::Relaxed);
            if takes == Takes::Tagged && Tag::of(end, word).mask != 0 {
                return Some(0);
            }
            self.inside(token)?;
            if word(top) == *first {
                return Some(0);
            }
            let pushed = (end - top).min(objects.len() as u32);
            for (nth, object) in (1..=pushed).zip(objects) {
                self.inside(token)?;
                self.rows.element(top + nth).store(*object, Ordering::Relaxed);
            }
            self.before_commit(token)?;
            entry.commit(top + pushed);
            Some(pushed as usize)
        })
    }

    /// On a row that is not in use it begins anew once it is.
    pub(super) fn exchange_in_steps(&self, slot: Slot, new: Stack) -> Result<Stack, Stopped> {
        let mut looks = true;
        loop {
            let mut unused = None;
            let done = self.or_slow(Err(Stopped), |token| {
                let Some(row) = self.row() else {
                    return Some(Err(Stopped));
                };
                self.inside(token)?;
                let entry = self.rows.entry(row, slot);
                let old = entry.load();
                if old.is_none() && looks && self.rows.next_used(row) != Some(row) {
                    unused = Some(row);
                    return None;
                }
                if old.top == STOPPED {
                    return Some(Err(Stopped));
                }
                self.before_commit(token)?;
                store(entry, new);
                Some(Ok(old))
            });
            let Some(row) = unused else { return done };
            self.step();
            self.rows.begin_use(row);
            looks = self.config.broken != Broken::ExchangeOnAnotherRow;
            self.step();
        }
    }
}

/// The committing store of an exchange: like the real one it overwrites a mark
/// that was made after the entry was loaded.
fn store(entry: &Entry, new: Stack) {
    entry.commit(0);
    let done = entry.replace(new);
    debug_assert!(done.is_ok(), "it is not stopped");
}
