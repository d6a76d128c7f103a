//! The state of a table entry: one word, so that each change is one compare-exchange.
//!
//! ```text
//! | generation:32 | state:2 | users:30 |
//! free -> claimed -> live -> free          nobody uses it
//!                      |
//!                      +--> ending -> free the last user leaves
//! ```
//! Invariant: only the thread that claimed an entry changes its contents, and only while the entry
//! is not in use.

use core::sync::atomic::{AtomicU64, Ordering};

const USERS: u64 = (1 << 30) - 1;
const STATE: u64 = 3 << 30;
const FREE: u64 = 0;
const CLAIMED: u64 = 1 << 30;
const LIVE: u64 = 2 << 30;
const ENDING: u64 = 3 << 30;

pub(super) struct UseWord(AtomicU64);

/// How far a removal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalState {
    /// It is not called any more, and no call of it is under way.
    Done,
    /// It is not called any more; a call that began before is under way.
    Running,
}

impl UseWord {
    pub(super) const fn new() -> Self {
        UseWord(AtomicU64::new(FREE))
    }

    /// Claims a free entry: its generation.
    pub(super) fn claim(&self) -> Option<u32> {
        let change = |word| (word & STATE == FREE).then_some((word & !STATE) | CLAIMED);
        // Acquire: what the last user did is before what the claimer writes. Pairs with `leave`.
        let word = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, change).ok()?;
        Some((word >> 32) as u32)
    }

    /// Shows a claimed entry.
    pub(super) fn publish(&self) {
        // Release: who enters sees what the claimer wrote. Pairs with `enter`.
        self.0.fetch_xor(CLAIMED ^ LIVE, Ordering::Release);
    }

    /// Enters a live entry.
    pub(super) fn enter(&self) -> bool {
        let change = |word| (word & STATE == LIVE && word & USERS < USERS).then_some(word + 1);
        // Acquire: pairs with `publish`.
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, change).is_ok()
    }

    /// Leaves it; the last user frees an entry that ends.
    pub(super) fn leave(&self) {
        let change = |word: u64| {
            let left = word - 1;
            let last = left & STATE == ENDING && left & USERS == 0;
            Some(if last { next(left) } else { left })
        };
        // Release: pairs with `claim` and `removal`. The change is never refused.
        let _ = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, change);
    }

    /// Ends an entry of a generation; `None` if it is another one by now.
    pub(super) fn end(&self, generation: u32) -> Option<RemovalState> {
        let change = |word: u64| {
            let fits = word & STATE == LIVE && word >> 32 == generation.into();
            fits.then(|| if word & USERS == 0 { next(word) } else { word | ENDING })
        };
        // Acquire: what users did comes before the end. Pairs with `leave`.
        let word = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, change).ok()?;
        Some(if word & USERS == 0 { RemovalState::Done } else { RemovalState::Running })
    }

    /// How far the removal of an entry of a generation is.
    pub(super) fn removal(&self, generation: u32) -> RemovalState {
        // Acquire: pairs with `leave`.
        let gone = self.0.load(Ordering::Acquire) >> 32 != generation.into();
        if gone { RemovalState::Done } else { RemovalState::Running }
    }

    pub(super) fn is_live(&self, generation: u32) -> bool {
        // Relaxed: nothing is read after it.
        let word = self.0.load(Ordering::Relaxed);
        word & STATE == LIVE && word >> 32 == generation.into()
    }
}

/// The free entry after this one.
fn next(word: u64) -> u64 {
    ((word >> 32).wrapping_add(1) << 32) | FREE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_user_frees_what_ends() {
        let word = UseWord::new();
        assert!(!word.enter() && word.end(0).is_none());
        assert_eq!(word.claim(), Some(0));
        assert!(word.claim().is_none() && !word.enter() && word.end(0).is_none());
        word.publish();
        assert!(word.enter() && word.enter());
        assert_eq!(word.end(1), None, "another generation's");
        assert_eq!(word.end(0), Some(RemovalState::Running));
        assert!(!word.enter() && word.end(0).is_none() && word.claim().is_none());
        word.leave();
        assert_eq!(word.removal(0), RemovalState::Running);
        word.leave();
        assert_eq!((word.removal(0), word.claim()), (RemovalState::Done, Some(1)));
        word.publish();
        assert_eq!(word.end(1), Some(RemovalState::Done));
    }

    /// Each call is one exchange of the word, so that all that threads can do is an order of their
    /// calls: the test tries each order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Step {
        Claim,
        Write,
        Publish,
        End,
        /// Waits until nobody uses what was removed, and forgets it.
        Forget,
        Enter,
        Look,
        Leave,
    }
    use Step::*;

    /// A removal by which an entry is free although it has users: the planted bug.
    fn end_too_early(word: &UseWord, generation: u32) -> Option<RemovalState> {
        let change = |word: u64| {
            let fits = word & STATE == LIVE && word >> 32 == generation.into();
            fits.then(|| next(word) | word & USERS)
        };
        word.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).ok()?;
        Some(RemovalState::Done)
    }

    #[derive(Clone, Copy, Default)]
    struct Thread {
        at: usize,
        generation: Option<u32>,
        inside: bool,
        saw: u32,
    }

    #[derive(Clone, Copy)]
    struct World {
        word: u64,
        /// What the entry holds: 0 is nothing that may be called.
        what: u32,
        threads: [Thread; 3],
    }

    type Removes = fn(&UseWord, u32) -> Option<RemovalState>;

    /// Does a thread's next step. `Ok(None)`: it waits.
    fn step(
        mut world: World,
        nth: usize,
        step: Step,
        end: Removes,
    ) -> Result<Option<World>, String> {
        let word = UseWord(AtomicU64::new(world.word));
        let used = world.threads.iter().any(|thread| thread.inside);
        let thread = &mut world.threads[nth];
        match step {
            Claim => thread.generation = word.claim(),
            Write if thread.generation.is_some() => {
                if used {
                    return Err("it is written while a pass uses it".into());
                }
                world.what = nth as u32 + 1;
            }
            Publish if thread.generation.is_some() => word.publish(),
            End => {
                if let Some(generation) = thread.generation {
                    end(&word, generation).ok_or("a live entry does not end")?;
                }
            }
            Forget => {
                if let Some(generation) = thread.generation {
                    if word.removal(generation) == RemovalState::Running {
                        return Ok(None);
                    }
                    if world.threads.iter().any(|it| it.inside && it.saw == nth as u32 + 1) {
                        return Err("its removal is done while a pass calls it".into());
                    }
                }
            }
            Enter if word.enter() => {
                (thread.inside, thread.saw) = (true, world.what);
                if world.what == 0 {
                    return Err("a pass finds nothing".into());
                }
            }
            Look if thread.inside && thread.saw != world.what => {
                return Err("it changes while a pass uses it".into());
            }
            Leave if thread.inside => {
                word.leave();
                thread.inside = false;
            }
            Write | Publish | Enter | Look | Leave => {}
        }
        world.threads[nth].at += 1;
        world.word = word.0.into_inner();
        Ok(Some(world))
    }

    /// Orders of all steps; the first fault.
    fn explore(world: World, scripts: &[&[Step]; 3], end: Removes) -> Result<u64, String> {
        let (mut orders, mut waits, mut done) = (0, false, true);
        for nth in 0..3 {
            let Some(next) = scripts[nth].get(world.threads[nth].at) else { continue };
            done = false;
            match step(world, nth, *next, end)? {
                Some(world) => orders += explore(world, scripts, end)?,
                None => waits = true,
            }
        }
        if done {
            orders = 1;
        } else if waits && orders == 0 {
            return Err("a removal waits for ever".into());
        }
        Ok(orders)
    }

    /// One thread registers and removes, another asks, the third as the first.
    const SCRIPTS: [&[Step]; 3] = [
        &[Claim, Write, Publish, End, Forget],
        &[Enter, Look, Leave, Enter, Look, Leave],
        &[Claim, Write, Publish, End],
    ];

    const EMPTY: World = World {
        word: 0,
        what: 0,
        threads: [Thread { at: 0, generation: None, inside: false, saw: 0 }; 3],
    };

    #[test]
    fn no_order_of_calls_uses_what_is_gone() {
        let orders = explore(EMPTY, &SCRIPTS, UseWord::end).unwrap_or_else(|why| panic!("{why}"));
        assert!(orders > 100_000, "{orders}");
    }

    #[test]
    fn an_entry_that_is_free_too_early_is_found() {
        let found = explore(EMPTY, &SCRIPTS, end_too_early);
        let why = found.expect_err("an entry that is free while a pass uses it");
        assert!(why.contains("while a pass"), "{why}");
    }
}
