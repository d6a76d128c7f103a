//! The start of a library for programs, its profile, its thread that watches memory pressure.
//!
//! Their files are compiled here beside stand-ins for the neighbours that they name, because a library's
//! own yard is on Linux.
#![cfg(loom)]

use slabyard_models::{Data, Modelled, keep, model, model_by_words, prepare, spawn, watch};
use slabyard_platform::sync::Ordering;

#[path = "../../process/src/profile/blocks.rs"]
#[allow(dead_code)]
mod blocks;
#[path = "../../process/src/control.rs"]
#[allow(dead_code)]
mod control;
#[path = "../../process/src/state.rs"]
#[allow(dead_code, unused_imports)]
mod state;
#[path = "../../process/src/malloc/pressure/watcher.rs"]
#[allow(dead_code)]
mod watcher;

/// A library of one yard, whose words are numbers.
mod library {
    use slabyard_models::Data;
    use slabyard_platform::sync::{AtomicUsize, Ordering};

    pub trait Library: 'static {
        const UNALIGNED: usize = 15;
        fn yard() -> &'static Yard {
            &YARD
        }
        fn limit_chosen(_every_call: bool) {}
    }

    pub struct Programs;

    impl Library for Programs {}

    pub struct Yard {
        pub heap: Heap,
    }

    pub struct Heap {
        pub region: Region,
    }

    pub struct Region {
        /// Granules that the page map reaches.
        pub reach: AtomicUsize,
    }

    pub static YARD: Yard = Yard { heap: Heap { region: Region { reach: AtomicUsize::new(1) } } };

    pub const ROWS: usize = 4096;
    pub const MAP: usize = 8192;

    impl Yard {
        pub fn platform(&self) -> &Self {
            self
        }

        pub fn rows(&self) -> &Self {
            self
        }

        pub fn base(&self) -> usize {
            ROWS
        }

        pub fn cs_offset(&self) -> usize {
            64
        }

        pub fn wants_every_call(&self) -> bool {
            false
        }
    }

    impl Region {
        pub fn map_base(&self) -> usize {
            MAP
        }

        pub fn base(&self) -> usize {
            1 << 30
        }

        pub fn reach(&self) -> usize {
            self.reach.load(Ordering::Acquire)
        }

        /// The page map has entries for two granules.
        pub fn grow(&self, entries: &Data) {
            entries.write(1);
            self.reach.store(2, Ordering::Release);
        }
    }
}

/// In place of the profile's memory, of which the table of blocks is a part: one bucket for all blocks.
mod rings {
    use slabyard_abi::profile::BLOCKS_AT;
    use slabyard_platform::sync::AtomicU64;

    pub const MEMORY: usize = 4096;
    pub const WORDS: usize = 32;
    pub static BUCKET: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

    pub fn word_at(address: usize) -> &'static AtomicU64 {
        &BUCKET[(address - MEMORY - BLOCKS_AT) / 8 % WORDS]
    }
}

use library::{MAP, Programs, ROWS, YARD};
use state::{FAST, STATE, choose_limit, choose_mask, end_start, ready};

/// No yard, whatever a model before left in the words that it did not watch.
fn begin_cold() {
    STATE.store(0, Ordering::Relaxed);
    FAST.base.store(1, Ordering::Relaxed);
    FAST.mask.store(usize::MAX, Ordering::Relaxed);
    for word in [&FAST.limit, &FAST.rows, &FAST.map, &control::COUNTED] {
        word.store(0, Ordering::Relaxed);
    }
    control::word(slabyard_abi::profile::control::STATE).store(0, Ordering::Relaxed);
}

/// What a fast path finds behind the limit: a row 0, once there is a limit.
fn pop() {
    // As the sequences load it.
    if FAST.limit.load(Ordering::Acquire) != 0 {
        assert_eq!(FAST.rows.load(Ordering::Relaxed), ROWS);
    }
}

/// What a fast path finds behind the mask: the page map of the region, once an address passes.
fn push() {
    if FAST.mask.load(Ordering::Acquire) != usize::MAX {
        assert_eq!(FAST.map.load(Ordering::Relaxed), MAP);
    }
}

/// Who finds the yard ready finds it whole.
#[test]
fn a_yard_that_is_ready_is_whole() {
    model(2, || {
        begin_cold();
        let yard: &Data = keep(Data::new());
        watch(&STATE);
        let other = spawn(move || {
            yard.write(1);
            end_start::<Programs>(true);
        });
        if ready() {
            yard.read();
        }
        other.join().unwrap();
    });
}

/// Who finds the yard ready may open the fast path before the thread that began the yard does: one that
/// makes a cache chooses the limit, and one that grows the region chooses the mask.
#[test]
fn a_yard_that_is_ready_has_what_fast_paths_read() {
    model(2, || {
        begin_cold();
        watch(&STATE);
        watch(&FAST.rows);
        watch(&FAST.base);
        watch(&FAST.map);
        watch(&FAST.limit);
        watch(&FAST.mask);
        let other = spawn(|| end_start::<Programs>(true));
        if ready() {
            choose_limit::<Programs>();
            pop();
            choose_mask::<Programs>();
            push();
        }
        other.join().unwrap();
    });
}

/// What fast paths read is there for a thread that never asked whether the yard is ready.
#[test]
fn a_limit_comes_with_the_words_behind_it() {
    model_by_words(3, || {
        begin_cold();
        watch(&STATE);
        watch(&FAST.base);
        watch(&FAST.rows);
        watch(&FAST.limit);
        let starts = spawn(|| end_start::<Programs>(true));
        let chooses = spawn(|| {
            if ready() {
                choose_limit::<Programs>();
            }
        });
        pop();
        starts.join().unwrap();
        chooses.join().unwrap();
    });
}

/// The same while a profile counts requests, for which another word opens the path.
#[test]
fn a_request_is_counted_with_the_words_behind_it() {
    use slabyard_abi::profile::{State, control::STATE as PROFILE};
    model_by_words(3, || {
        begin_cold();
        control::word(PROFILE).store(State::On as u64, Ordering::Relaxed);
        watch(&STATE);
        watch(&FAST.base);
        watch(&FAST.rows);
        watch(&control::COUNTED);
        let starts = spawn(|| end_start::<Programs>(true));
        let chooses = spawn(|| {
            if ready() {
                choose_limit::<Programs>();
            }
        });
        // As the sequence loads it.
        if control::COUNTED.load(Ordering::Acquire) != 0 {
            assert_eq!(FAST.rows.load(Ordering::Relaxed), ROWS);
        }
        starts.join().unwrap();
        chooses.join().unwrap();
    });
}

/// The page map has entries where a mask lets addresses pass.
#[test]
fn a_mask_comes_with_entries_of_the_page_map() {
    model_by_words(3, || {
        begin_cold();
        let entries: &Data = keep(Data::new());
        watch(&FAST.base);
        watch(&FAST.mask);
        watch(&YARD.heap.region.reach);
        prepare(|| end_start::<Programs>(true));
        let narrow = FAST.mask.load(Ordering::Relaxed);
        let grows = spawn(move || YARD.heap.region.grow(entries));
        let chooses = spawn(choose_mask::<Programs>);
        if FAST.mask.load(Ordering::Acquire) != narrow {
            entries.read();
        }
        grows.join().unwrap();
        chooses.join().unwrap();
    });
}

/// Who finds a profile on finds its memory mapped.
#[test]
fn a_profile_that_is_on_has_its_memory() {
    use control::{is_on, memory, switch_on};
    use slabyard_abi::profile::control::{MEMORY, STATE};
    model(2, || {
        let mapped: &Data = keep(Data::new());
        watch(control::word(STATE));
        watch(control::word(MEMORY));
        let other = spawn(move || {
            mapped.write(1);
            switch_on(4096);
        });
        if is_on() {
            assert_eq!(memory(), 4096);
            mapped.read();
        }
        other.join().unwrap();
    });
}

/// Who finds a sampled block finds its sequence.
#[test]
fn a_sampled_block_has_its_sequence() {
    use rings::{BUCKET, MEMORY};
    model(2, || {
        BUCKET[..2].iter().for_each(watch);
        let other = spawn(|| assert!(blocks::add(MEMORY, 4096, 7)));
        assert!(blocks::remove(MEMORY, 4096).is_none_or(|sequence| sequence == 7));
        other.join().unwrap();
    });
}

/// What a block's thread did with its element comes before another block is there.
#[test]
fn a_sampled_block_comes_after_the_one_before() {
    use rings::{BUCKET, MEMORY};
    model(2, || {
        // The bucket is full but for the first element.
        BUCKET[2..].iter().step_by(2).for_each(|key| key.store(8192, Ordering::Relaxed));
        let element: &Data = keep(Data::new());
        BUCKET[..2].iter().for_each(watch);
        prepare(|| assert!(blocks::add(MEMORY, 4096, 7)));
        let other = spawn(move || {
            element.read();
            assert_eq!(blocks::remove(MEMORY, 4096), Some(7));
        });
        if blocks::add(MEMORY, 12288, 8) {
            element.write(8);
        }
        other.join().unwrap();
    });
}

/// Who ends the thread that watches memory pressure has its bell.
#[test]
fn a_thread_that_watches_has_a_bell() {
    use watcher::{BELL, TID, WORD, end, watch as begin};
    model(2, || {
        let p = keep(Modelled::new());
        watch(&WORD);
        watch(&TID);
        watch(&BELL);
        let other = spawn(|| begin(p, 7, 9));
        assert!(end().is_none_or(|found| found == [7, 9]));
        other.join().unwrap();
    });
}
