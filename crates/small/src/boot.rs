//! A boot-like load from a seed: the levels of the kernel's start-up, its threads, a shell and the
//! commands that it runs, and dropping caches.
//!
//! Within a level, the seed decides the order of the subsystems and the order in which each creates
//! its objects. So lasting objects are placed among others that are freed after a few requests, as
//! in a real boot. A process requests one contiguous block of 2^7 pages, as on a machine without an
//! MMU; if that fails, the load continues, so that a seed makes the same requests whether or not
//! they succeed.
//!
//! [`crate::tables`] lists the objects and their numbers. The crate's head states the invariants.

use crate::caches::ObjectType;
use crate::random::Random;
use crate::request::{Checkpoint, Request, SLOTS};
use crate::tables::{self, BootObjects, LEVELS, Subsystem};

/// Objects that are freed soon: at most this many wait for it.
const SOON: usize = 32;
/// Requests that one step makes, at most.
const BATCH: usize = 192;
/// Slots of a process: for its objects, and for its pages.
const OF_PROCESS: usize = 32;
/// Objects that wait for dropping caches, at most.
const CACHED: usize = 2048;
/// Open files and pipes: objects.
const OPEN: usize = 512;

#[derive(Clone, Copy)]
struct Process {
    slots: [u16; OF_PROCESS],
    nr: u8,
    stack: u16,
    image: u16,
}

const NO_PROCESS: Process = Process { slots: [0; OF_PROCESS], nr: 0, stack: 0, image: 0 };

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BootStage {
    /// A subsystem of a level.
    Level(u8, u8),
    Thread(u16),
    Settled,
    Shell,
    Command(u16),
    Hold,
    Held,
    Release,
    Released,
    Drop,
    Dropped,
    Over,
}

/// The load: an iterator of its requests.
pub struct Boot {
    random: Random,
    stage: BootStage,
    /// Requests to be handed out before anything else.
    batch: [Option<Request>; BATCH],
    begin: usize,
    end: usize,
    vacant: [u16; SLOTS],
    nr_vacant: usize,
    /// Slots of objects that go soon, oldest first.
    soon: [u16; SOON],
    nr_soon: usize,
    /// The order of the level's subsystems, and what is left of the one under way.
    order: [u8; 8],
    left: [(u16, u16); 4],
    cached: [u16; CACHED],
    nr_cached: usize,
    open: [u16; OPEN],
    nr_open: usize,
    shell: Process,
    running: [Process; tables::RUNNING as usize],
}

impl Boot {
    /// The load of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Boot {
        let mut boot = Boot {
            random: Random::new(seed),
            stage: BootStage::Level(0, 0),
            batch: [None; BATCH],
            begin: 0,
            end: 0,
            vacant: core::array::from_fn(|n| (SLOTS - 1 - n) as u16),
            nr_vacant: SLOTS,
            soon: [0; SOON],
            nr_soon: 0,
            order: [0; 8],
            left: [(0, 0); 4],
            cached: [0; CACHED],
            nr_cached: 0,
            open: [0; OPEN],
            nr_open: 0,
            shell: NO_PROCESS,
            running: [NO_PROCESS; tables::RUNNING as usize],
        };
        boot.begin_level(0);
        boot
    }

    fn push(&mut self, request: Request) {
        self.batch[self.end] = Some(request);
        self.end += 1;
    }

    fn slot(&mut self) -> u16 {
        self.nr_vacant -= 1;
        self.vacant[self.nr_vacant]
    }

    fn alloc(&mut self, what: ObjectType) -> u16 {
        let slot = self.slot();
        self.push(Request::Alloc { slot, what });
        slot
    }

    fn free(&mut self, slot: u16) {
        self.push(Request::Free { slot });
        self.vacate(slot);
    }

    fn vacate(&mut self, slot: u16) {
        self.vacant[self.nr_vacant] = slot;
        self.nr_vacant += 1;
    }

    /// An object that goes soon.
    fn alloc_for_now(&mut self, what: ObjectType) {
        while self.nr_soon == SOON {
            self.free_one_soon();
        }
        self.soon[self.nr_soon] = self.alloc(what);
        self.nr_soon += 1;
    }

    /// Of the objects that go soon, an old one goes more likely: the first of two by chance.
    fn free_one_soon(&mut self) {
        let nr = self.nr_soon as u32;
        let at = self.random.below(nr).min(self.random.below(nr)) as usize;
        let slot = self.soon[at];
        self.soon.copy_within(at + 1..self.nr_soon, at);
        self.nr_soon -= 1;
        self.free(slot);
    }

    /// An object that stays until dropping caches.
    fn alloc_cached(&mut self, what: ObjectType) {
        if self.nr_cached < CACHED {
            self.cached[self.nr_cached] = self.alloc(what);
            self.nr_cached += 1;
        }
    }

    fn subsystem(&self, level: u8, nth: u8) -> Subsystem {
        LEVELS[level as usize][self.order[nth as usize] as usize]
    }

    fn begin_level(&mut self, level: u8) {
        let nr = LEVELS[level as usize].len();
        for n in 0..nr {
            self.order[n] = n as u8;
        }
        for n in (1..nr).rev() {
            self.order.swap(n, self.random.below(n as u32 + 1) as usize);
        }
        self.begin_subsystem(level, 0);
    }

    fn begin_subsystem(&mut self, level: u8, nth: u8) {
        let items: &[BootObjects] = self.subsystem(level, nth);
        self.left = [(0, 0); 4];
        for (left, item) in self.left.iter_mut().zip(items) {
            *left = (item.stay, item.go);
        }
    }

    /// One object of the subsystem under way; false: it has all of them.
    fn one_of(&mut self, level: u8, nth: u8) -> bool {
        let all: u32 = self.left.iter().map(|(stay, go)| u32::from(stay + go)).sum();
        if all == 0 {
            return false;
        }
        let items = self.subsystem(level, nth);
        let mut chosen = self.random.below(all);
        for (n, item) in items.iter().enumerate() {
            let (stay, go) = self.left[n];
            if chosen < u32::from(stay) {
                self.left[n].0 -= 1;
                self.alloc(item.what);
                break;
            }
            if chosen < u32::from(stay + go) {
                self.left[n].1 -= 1;
                self.alloc_for_now(item.what);
                break;
            }
            chosen -= u32::from(stay + go);
        }
        if self.nr_soon > 0 && self.random.below(3) == 0 {
            self.free_one_soon();
        }
        true
    }

    fn level(&mut self, level: u8, nth: u8) {
        if self.one_of(level, nth) {
            return;
        }
        self.stage = if usize::from(nth) + 1 < LEVELS[level as usize].len() {
            self.begin_subsystem(level, nth + 1);
            BootStage::Level(level, nth + 1)
        } else if usize::from(level) + 1 < LEVELS.len() {
            self.begin_level(level + 1);
            BootStage::Level(level + 1, 0)
        } else {
            BootStage::Thread(0)
        };
    }

    /// What each task has, of the kernel or not.
    fn task(&mut self) -> Process {
        let mut process = NO_PROCESS;
        process.stack = self.slot();
        self.push(Request::Pages { slot: process.stack, order: tables::STACK_ORDER });
        for what in [tables::TASK, tables::SIGHAND, tables::SIGNAL, tables::PID, tables::CRED] {
            self.own(&mut process, what);
        }
        process
    }

    fn own(&mut self, process: &mut Process, what: ObjectType) {
        process.slots[usize::from(process.nr)] = self.alloc(what);
        process.nr += 1;
    }

    /// A process with its image.
    fn exec(&mut self) -> Process {
        let mut process = self.task();
        self.own(&mut process, tables::FILES);
        self.own(&mut process, tables::MM);
        for _ in 0..3 {
            self.own(&mut process, tables::VMA);
            self.own(&mut process, tables::FILP);
        }
        self.alloc_for_now(tables::NAMES);
        self.alloc_for_now(tables::MAPLE);
        self.alloc_for_now(ObjectType::Kmalloc(416));
        process.image = self.slot();
        self.push(Request::Pages { slot: process.image, order: tables::IMAGE_ORDER });
        process
    }

    fn exit(&mut self, process: &Process) {
        self.push(Request::FreePages { slot: process.image });
        self.vacate(process.image);
        for n in (0..usize::from(process.nr)).rev() {
            self.free(process.slots[n]);
        }
        self.push(Request::FreePages { slot: process.stack });
        self.vacate(process.stack);
    }

    /// A file is looked up: its name and its inode stay in the kernel's caches.
    fn look_up(&mut self) {
        self.alloc_for_now(tables::NAMES);
        self.alloc_cached(tables::DENTRY);
        let inode = if self.random.below(3) == 0 { tables::PROC_INODE } else { tables::INODE };
        self.alloc_cached(inode);
        if self.random.below(2) == 0 {
            self.alloc_cached(tables::BUFFER);
        }
    }

    fn command(&mut self, nth: u16) {
        let process = self.exec();
        for _ in 0..2 + self.random.below(4) {
            self.look_up();
            self.alloc_for_now(tables::SEQ);
            self.alloc_for_now(ObjectType::Kmalloc(136));
        }
        while self.nr_soon > 4 {
            self.free_one_soon();
        }
        if nth < tables::COMMANDS - tables::RUNNING {
            self.exit(&process);
        } else {
            self.running[usize::from(nth + tables::RUNNING - tables::COMMANDS)] = process;
        }
    }

    /// Files and pipes are opened; false: all are open.
    fn hold(&mut self) -> bool {
        let nr = self.nr_open as u16;
        if nr < tables::OPEN_FILES {
            self.look_up();
            self.keep_open(tables::FILP);
        } else if nr < tables::OPEN_FILES + 4 * tables::PIPES {
            self.keep_open(tables::FILP);
            self.keep_open(tables::FILP);
            self.keep_open(ObjectType::Kmalloc(640));
            self.keep_open(ObjectType::Kmalloc(144));
        } else {
            return false;
        }
        true
    }

    fn keep_open(&mut self, what: ObjectType) {
        self.open[self.nr_open] = self.alloc(what);
        self.nr_open += 1;
    }

    /// Four open ones are closed, in no order; false: none is left.
    fn release(&mut self) -> bool {
        for _ in 0..self.nr_open.min(4) {
            let at = self.random.below(self.nr_open as u32) as usize;
            self.nr_open -= 1;
            self.open.swap(at, self.nr_open);
            self.free(self.open[self.nr_open]);
        }
        self.nr_open > 0
    }

    /// The oldest of what is cached goes, but every eighth, which somebody uses.
    fn drop_one(&mut self) -> bool {
        if self.nr_cached == 0 {
            return false;
        }
        let at = CACHED - self.nr_cached;
        self.nr_cached -= 1;
        if !at.is_multiple_of(8) {
            self.free(self.cached[at]);
        }
        true
    }

    /// Makes the next requests; each stage but the last makes some or moves on to another.
    fn step(&mut self) {
        match self.stage {
            BootStage::Level(level, nth) => self.level(level, nth),
            BootStage::Thread(nth) => {
                self.task();
                let next = nth + 1;
                self.stage = if next < tables::THREADS {
                    BootStage::Thread(next)
                } else {
                    BootStage::Settled
                };
            }
            BootStage::Settled => {
                while self.nr_soon > 0 {
                    self.free_one_soon();
                }
                self.push(Request::Reach(Checkpoint::Booted));
                self.stage = BootStage::Shell;
            }
            BootStage::Shell => {
                self.shell = self.exec();
                self.stage = BootStage::Command(0);
            }
            BootStage::Command(nth) => {
                self.command(nth);
                let next = nth + 1;
                self.stage = if next < tables::COMMANDS {
                    BootStage::Command(next)
                } else {
                    BootStage::Hold
                };
            }
            BootStage::Hold => {
                self.stage = if self.hold() { BootStage::Hold } else { BootStage::Held }
            }
            BootStage::Held => {
                self.push(Request::Reach(Checkpoint::Held));
                for process in self.running {
                    self.exit(&process);
                }
                self.stage = BootStage::Release;
            }
            BootStage::Release => {
                self.stage = if self.release() { BootStage::Release } else { BootStage::Released };
            }
            BootStage::Released => {
                self.push(Request::Reach(Checkpoint::Released));
                // To the end of their array, in order: the oldest is the first of them.
                self.cached.copy_within(0..self.nr_cached, CACHED - self.nr_cached);
                self.stage = BootStage::Drop;
            }
            BootStage::Drop => {
                self.stage = if self.drop_one() { BootStage::Drop } else { BootStage::Dropped }
            }
            BootStage::Dropped => {
                self.push(Request::Reach(Checkpoint::Dropped));
                self.stage = BootStage::Over;
            }
            BootStage::Over => {}
        }
    }
}

impl Iterator for Boot {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        while self.begin == self.end {
            if self.stage == BootStage::Over {
                return None;
            }
            (self.begin, self.end) = (0, 0);
            self.step();
        }
        self.begin += 1;
        self.batch[self.begin - 1]
    }
}

#[cfg(test)]
mod tests;
