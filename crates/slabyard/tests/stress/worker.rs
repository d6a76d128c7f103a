//! The workers: what they allocate, how long they keep it, whom they give it to.

use crate::token::{self, LARGEST, TokenObject};
use crate::{Stressed, asker, bystanders};
use slabyard::calls::trim;
use slabyard::platform::linux::Mode;
use slabyard::platform::{PerCpu, rseq};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// Workers at any time.
const WORKERS: usize = 64;
/// Every other worker ends after so many parts of the load, and another begins.
const CHURN_PARTS: u64 = 4;
/// Calls in one part of the load.
const PART: u64 = 4096;
/// Objects that a worker keeps between its parts.
const KEPT: usize = 192;
/// Places where objects go from one thread to another.
const PLACES: usize = 128;

/// Are sequences restarted?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// As the platform does it.
    Right,
    /// The planted bug: all threads have the first private slot.
    Broken,
}

/// One run.
pub struct Load {
    /// The yard under load.
    pub yard: &'static Stressed,
    sequence: Sequence,
    /// Calls to make.
    pub ops: u64,
    begun: AtomicU64,
    /// Calls made.
    pub done: AtomicU64,
    /// True once all workers have ended.
    pub over: AtomicBool,
    /// Kernel's numbers of the threads to interrupt, 0 for none: the workers' and
    /// that of the thread that trims.
    pub threads: [AtomicI32; WORKERS + 1],
    places: Vec<Mutex<Option<TokenObject>>>,
}

/// Small generator (xorshift).
pub struct Random(pub u64);

impl Random {
    /// Less than `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % n
    }

    /// Sizes over all classes, small ones more often, with runs and a few
    /// mappings.
    pub fn bytes(&mut self) -> usize {
        let most = match self.below(4096) {
            0 => LARGEST,
            1..16 => 512 << 10,
            16..100 => 64 << 10,
            100..500 => 18_720,
            500..1200 => 4096,
            1200..2500 => 1024,
            _ => 256,
        };
        1 + self.below(most as u64) as usize
    }
}

struct Worker<'a> {
    load: &'a Load,
    owner: u64,
    sequence: u64,
    random: Random,
    kept: Vec<TokenObject>,
}

impl Load {
    pub fn new(yard: &'static Stressed, sequence: Sequence, ops: u64) -> Self {
        Load {
            yard,
            sequence,
            ops,
            begun: AtomicU64::new(0),
            done: AtomicU64::new(0),
            over: AtomicBool::new(false),
            threads: [const { AtomicI32::new(0) }; WORKERS + 1],
            places: (0..PLACES).map(|_| Mutex::new(None)).collect(),
        }
    }

    /// Runs all of it; when it returns, everything is freed.
    pub fn run(&self) {
        // The first private slot is this thread's.
        self.yard.platform().enter();
        std::thread::scope(|scope| {
            scope.spawn(|| bystanders::watch(self));
            scope.spawn(|| asker::ask(self));
            scope.spawn(|| self.leaving(|| self.trim()));
            if self.yard.platform().mode() != Mode::Slots {
                bystanders::install(self.yard);
                scope.spawn(|| bystanders::interrupt(self));
            }
            std::thread::scope(|workers| {
                for number in 0..WORKERS {
                    workers.spawn(move || self.keep_working(number));
                }
            });
            self.over.store(true, Ordering::Relaxed);
        });
        for place in &self.places {
            if let Some(held) = place.lock().expect("no panic").take() {
                held.free(self.yard);
            }
        }
    }

    /// The worker `number`, one thread after the other or a single one.
    fn keep_working(&self, number: usize) {
        let parts = if number.is_multiple_of(2) { u64::MAX } else { CHURN_PARTS };
        let mut generation = 0;
        while self.more() {
            std::thread::scope(|scope| {
                scope.spawn(|| self.leaving(|| self.work(number, generation, parts)));
            });
            generation += 1;
        }
    }

    fn more(&self) -> bool {
        self.begun.load(Ordering::Relaxed) < self.ops
    }

    /// Runs `f` in a thread that ends afterwards: a private slot is given back,
    /// as the malloc library does it.
    fn leaving(&self, f: impl FnOnce()) {
        let yard = self.yard;
        yard.platform().enter();
        if self.sequence == Sequence::Broken {
            rseq::thread().cpu_id.store(0, Ordering::Relaxed);
        }
        f();
        bystanders::leave(yard);
        if yard.platform().mode() == Mode::Slots && self.sequence == Sequence::Right {
            trim::drain_thread(yard);
            yard.platform().give_slot_back();
        }
    }

    fn trim(&self) {
        self.interruptible(WORKERS);
        bystanders::trim(self);
    }

    /// From here on this thread gets signals.
    fn interruptible(&self, number: usize) {
        // SAFETY: a plain system call.
        self.threads[number].store(unsafe { libc::gettid() }, Ordering::Relaxed);
    }

    fn work(&self, number: usize, generation: u64, parts: u64) {
        self.interruptible(number);
        let seed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (generation << 7);
        let mut worker = Worker {
            load: self,
            owner: number as u64,
            // Generations differ in their numbers.
            sequence: generation << 16,
            random: Random(seed | 1),
            kept: Vec::with_capacity(KEPT + PART as usize),
        };
        for _ in 0..parts {
            if self.begun.fetch_add(PART, Ordering::Relaxed) >= self.ops {
                break;
            }
            let before = worker.sequence;
            worker.part();
            // Some worker frees each allocation.
            self.done.fetch_add(2 * (worker.sequence - before), Ordering::Relaxed);
        }
        while let Some(held) = worker.kept.pop() {
            held.free(self.yard);
        }
        self.threads[number].store(0, Ordering::Relaxed);
    }
}

impl Worker<'_> {
    fn part(&mut self) {
        match self.random.below(4) {
            0 => self.mixed(),
            1 => self.bursts(),
            2 => self.pairs(),
            _ => self.trade(),
        }
    }

    fn alloc(&mut self, bytes: usize) -> TokenObject {
        self.sequence += 1;
        let align = match self.random.below(64) {
            0 => 16 << self.random.below(9),
            _ => 16,
        };
        let held = TokenObject::alloc(self.load.yard, bytes, align, self.owner, self.sequence);
        held.unwrap_or_else(|| {
            token::wrong("no memory", 0, bytes as u64, align as u64);
            unreachable!("the process has ended")
        })
    }

    fn free(&mut self, held: TokenObject) {
        held.free(self.load.yard);
    }

    /// One at a time, freed in any order.
    fn mixed(&mut self) {
        for _ in 0..PART {
            let n = self.kept.len();
            if n < KEPT && (n == 0 || self.random.below(2) == 0) {
                let bytes = self.random.bytes();
                let held = self.alloc(bytes);
                self.kept.push(held);
            } else {
                let i = self.random.below(n as u64) as usize;
                self.kept[self.random.below(n as u64) as usize].check();
                let held = self.kept.swap_remove(i);
                self.free(held);
            }
        }
    }

    /// Many of one size, through sheaves, barn and slabs and back.
    fn bursts(&mut self) {
        let mut left = PART / 2;
        while left > 0 {
            let bytes = self.random.bytes().min(16 << 10);
            let n = left.min(((512 << 10) / bytes as u64).max(1));
            let base = self.kept.len();
            for _ in 0..n {
                let held = self.alloc(bytes);
                self.kept.push(held);
            }
            match self.random.below(3) {
                0 => self.kept[base..].reverse(),
                1 => {
                    for i in base..self.kept.len() {
                        let j = base + self.random.below(n) as usize;
                        self.kept.swap(i, j);
                    }
                }
                _ => {}
            }
            while self.kept.len() > base {
                let held = self.kept.pop().expect("counted");
                self.free(held);
            }
            left -= n;
        }
    }

    /// Allocated and freed at once: the fast path alone.
    fn pairs(&mut self) {
        let bytes = self.random.bytes().min(16 << 10);
        for _ in 0..PART / 2 {
            let held = self.alloc(bytes);
            self.free(held);
        }
    }

    /// Objects go from hand to hand: what lay there is freed here.
    fn trade(&mut self) {
        for _ in 0..PART / 2 {
            let bytes = self.random.bytes();
            let held = self.alloc(bytes);
            let place = &self.load.places[self.random.below(PLACES as u64) as usize];
            // Nobody waits: a thread with a place locked may have been preempted.
            let old = match place.try_lock() {
                Ok(mut place) => place.replace(held),
                Err(_) => Some(held),
            };
            if let Some(old) = old {
                self.free(old);
            }
        }
    }
}
