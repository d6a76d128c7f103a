//! Virtual threads: OS threads that take turns, so that only one runs at a time.
//!
//! `Turns::current` says whose turn it is. A thread passes its turn on in `Machine::step`
//! (preemption), in a wait, and at its end; a seeded generator chooses the next thread and its CPU.
//!
//! Waiting works like a futex: [`Machine::wake_one`] wakes a thread that sleeps on a word, and a
//! wait may by chance return early. A forgotten wake ends in a deadlock, which is reported.
//!
//! A panic in a virtual thread ends the run: each other thread is unwound without a message at its
//! next turn, and the first panic is resumed in the caller of [`Machine::run`].

use super::Machine;
use super::turns::{IMPLICIT, State, Turns};
use slabyard_platform::birth::CHILD;
use slabyard_platform::sync::{AtomicU32, Ordering};
use std::cell::Cell;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{MutexGuard, PoisonError};

/// What a virtual thread does.
pub type Body<'a> = Box<dyn FnOnce(&Machine) + Send + 'a>;

/// What unwinds the other threads after a panic.
struct RunEnded;

thread_local! {
    /// The machine (by address) and the number of the virtual thread that this
    /// system thread is.
    static ME: Cell<(usize, usize)> = const { Cell::new((0, IMPLICIT)) };
}

impl Machine {
    /// Runs virtual threads until all have ended.
    ///
    /// # Panics
    /// With the first panic of a virtual thread; on a deadlock; if the threads
    /// take more steps than the machine allows, or are more than it has.
    pub fn run(&self, threads: Vec<Body<'_>>) {
        let nr = threads.len();
        assert!(nr <= self.config.max_threads, "{nr} threads on this machine");
        if nr == 0 {
            return;
        }
        {
            let mut turns = self.schedule.turns();
            assert!(turns.states.is_empty(), "a run inside of a run");
            turns.states = std::vec![State::Ready; nr];
            turns.steps = 0;
            for words in &self.threads[1..=nr] {
                words.own.held.store(0, Ordering::Relaxed);
                words.own.depth.store(0, Ordering::Relaxed);
                words.registered.store(u32::from(!self.schedule.late), Ordering::Relaxed);
            }
            let first = turns.below(nr) + 1;
            self.resume(&mut turns, first);
        }
        self.schedule.running.store(1, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for (i, body) in threads.into_iter().enumerate() {
                scope.spawn(move || self.live(i + 1, body));
            }
        });
        self.schedule.running.store(0, Ordering::Relaxed);
        let mut turns = self.schedule.turns();
        turns.states.clear();
        turns.current = IMPLICIT;
        let panic = turns.panic.take();
        drop(turns);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// As the child of a fork sees it: the other threads of the run no longer exist, nor does what
    /// they held; and the process is a child. In a virtual thread.
    ///
    /// # Panics
    /// Outside of a run.
    pub fn begin_child(&self) {
        assert!(self.schedule.is_running(), "the implicit thread has no others");
        let me = self.me();
        let mut turns = self.schedule.turns();
        for (i, state) in turns.states.iter_mut().enumerate() {
            if i + 1 != me && *state != State::Done {
                *state = State::Gone;
            }
        }
        drop(turns);
        self.birth.store(CHILD, Ordering::Relaxed);
    }

    /// Moves the implicit thread to another CPU.
    ///
    /// # Panics
    /// If there is no such CPU, or inside of a run.
    pub fn set_cpu(&self, cpu: usize) {
        assert!(cpu < self.config.cpus, "no CPU {cpu}");
        assert!(!self.schedule.is_running(), "virtual threads are moved by the machine");
        self.threads[IMPLICIT].cpu.store(cpu, Ordering::Relaxed);
    }

    /// The CPU of this thread.
    pub fn cpu(&self) -> usize {
        self.here().cpu()
    }

    /// A hash of every choice so far: equal traces are equal schedules.
    pub fn trace(&self) -> u64 {
        self.schedule.turns().trace
    }

    /// Preemptions, moves and signals so far.
    pub fn interruptions(&self) -> u64 {
        self.schedule.moves.load(Ordering::Relaxed)
    }

    pub(super) fn me(&self) -> usize {
        let (machine, thread) = ME.get();
        if machine == self.address() { thread } else { IMPLICIT }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The whole life of a virtual thread.
    fn live(&self, me: usize, body: Body<'_>) {
        ME.set((self.address(), me));
        let ended = {
            let turns = self.await_turn(me, self.schedule.turns());
            turns.is_over_for(me)
        };
        let result = if ended { Ok(()) } else { catch_unwind(AssertUnwindSafe(|| body(self))) };
        self.deliver(me);
        let mut turns = self.schedule.turns();
        if let Err(panic) = result
            && !panic.is::<RunEnded>()
            && turns.panic.is_none()
        {
            turns.panic = Some(panic);
        }
        turns.states[me - 1] = State::Done;
        let cpu = self.threads[me].cpu();
        turns.note(4, me, cpu);
        if turns.states.iter().all(|s| *s == State::Done) {
            return;
        }
        let next = turns.choose().or_else(|| {
            // The last one that could have woken the others is gone.
            let dump = self.dump(&turns);
            turns.panic = Some(Box::new(dump));
            turns.choose()
        });
        if let Some(next) = next {
            self.resume(&mut turns, next);
        }
    }

    /// Puts a thread on a CPU and gives it the turn.
    fn resume(&self, turns: &mut Turns, next: usize) {
        let words = &self.threads[next];
        let old = words.cpu();
        let cpu = if turns.below(4) == 0 { turns.below(self.config.cpus) } else { old };
        self.place(turns, next, cpu);
        turns.note(1, next, cpu);
        turns.current = next;
        self.schedule.resumed[next].notify_one();
    }

    /// Puts a thread on a CPU; sequences that this interrupts are ended.
    fn place(&self, turns: &mut Turns, thread: usize, cpu: usize) {
        let words = &self.threads[thread];
        let old = words.cpu();
        if old != cpu {
            self.raise(old);
        }
        if old != cpu || turns.on_cpu[cpu] != thread {
            self.raise(cpu);
            // A switch is a full fence, of who leaves and of who comes.
            self.deliver(turns.on_cpu[cpu]);
            self.deliver(thread);
        }
        words.cpu.store(cpu, Ordering::Relaxed);
        turns.on_cpu[cpu] = thread;
    }

    fn raise(&self, cpu: usize) {
        self.generations[cpu].fetch_add(1, Ordering::Relaxed);
    }

    fn await_turn<'a>(&self, me: usize, mut turns: MutexGuard<'a, Turns>) -> MutexGuard<'a, Turns> {
        while turns.current != me {
            turns = self.schedule.resumed[me].wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        turns
    }

    /// Gives the turn to `next` and waits for the next one of its own.
    fn hand_over(&self, mut turns: MutexGuard<'_, Turns>, me: usize, next: usize) {
        self.resume(&mut turns, next);
        let turns = self.await_turn(me, turns);
        let ended = turns.is_over_for(me);
        drop(turns);
        if ended && !std::thread::panicking() {
            resume_unwind(Box::new(RunEnded));
        }
    }

    /// Counts a step; too many end the run.
    fn count_step<'a>(&self, mut turns: MutexGuard<'a, Turns>) -> MutexGuard<'a, Turns> {
        turns.steps += 1;
        if turns.steps > self.schedule.max_steps && turns.panic.is_none() {
            let dump = self.dump(&turns);
            drop(turns);
            panic!("no end after {} steps\n{dump}", self.schedule.max_steps);
        }
        turns
    }

    pub(super) fn take_step(&self) {
        // While a thread is unwound its locks are opened in peace.
        if !self.schedule.is_running() || std::thread::panicking() {
            return;
        }
        let me = self.me();
        let mut turns = self.count_step(self.schedule.turns());
        if turns.below(1000) >= self.schedule.preemption as usize {
            return;
        }
        self.schedule.moves.fetch_add(1, Ordering::Relaxed);
        match turns.below(8) {
            0 => {
                let cpu = turns.below(self.config.cpus);
                self.place(&mut turns, me, cpu);
                turns.note(2, me, cpu);
            }
            1 => {
                let cpu = self.threads[me].cpu();
                self.raise(cpu);
                turns.note(3, me, cpu);
            }
            _ => {
                let next = turns.choose().expect("this thread can go on");
                if next == me {
                    self.resume(&mut turns, me);
                } else {
                    self.hand_over(turns, me, next);
                }
            }
        }
    }

    /// A choice of one in two; always true outside of a run.
    pub(super) fn is_hasty(&self) -> bool {
        !self.schedule.is_running() || self.schedule.turns().below(2) == 0
    }

    pub(super) fn sleep(&self, word: &AtomicU32, value: u32) {
        // The word is read by its owner's turn only: no wake is missed between.
        if word.load(Ordering::Relaxed) != value {
            return;
        }
        assert!(self.schedule.is_running(), "deadlock: the only thread would sleep");
        let me = self.me();
        let mut turns = self.count_step(self.schedule.turns());
        let early = self.schedule.preemption > 0 && turns.below(8) == 0;
        turns.states[me - 1] =
            if early { State::Ready } else { State::Asleep(word.as_ptr().addr()) };
        let Some(next) = turns.choose() else {
            let dump = self.dump(&turns);
            turns.states[me - 1] = State::Ready;
            drop(turns);
            panic!("{dump}");
        };
        self.hand_over(turns, me, next);
        self.schedule.turns().states[me - 1] = State::Ready;
    }

    pub(super) fn wake_one(&self, word: &AtomicU32) {
        if !self.schedule.is_running() {
            return;
        }
        let mut turns = self.schedule.turns();
        let asleep = State::Asleep(word.as_ptr().addr());
        let nr = turns.states.iter().filter(|s| **s == asleep).count();
        if nr == 0 {
            return;
        }
        let nth = turns.below(nr);
        if let Some(state) = turns.states.iter_mut().filter(|s| **s == asleep).nth(nth) {
            *state = State::Ready;
        }
    }

    /// What every thread is at, for a report.
    fn dump(&self, turns: &Turns) -> String {
        let mut text = std::format!(
            "deadlock or endless run, seed {}, step {}:",
            self.config.seed,
            turns.steps
        );
        for (i, state) in turns.states.iter().enumerate() {
            let words = &self.threads[i + 1];
            let what = match state {
                State::Ready => "can go on".into(),
                State::Asleep(word) => std::format!("sleeps on {word:#x}"),
                State::Gone => "is gone".into(),
                State::Done => "has ended".into(),
            };
            let held = words.own.held.load(Ordering::Relaxed);
            let depth = words.own.depth.load(Ordering::Relaxed);
            let _ = write!(
                text,
                "\n  thread {} on CPU {}: {what}, ranks held {held:#b}, depth {depth}",
                i + 1,
                words.cpu()
            );
        }
        text
    }
}
