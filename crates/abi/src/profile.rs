//! Sampled allocations: the words and the memory through which another process switches the
//! sampling of a library's `malloc` on and off, and takes the samples.
//!
//! The word `Profile` of the readable region has the address of the [`control`] words. A reader
//! writes the mean distance of samples in bytes there; the next slow `malloc` maps the memory whose
//! layout the constants below give, and sends each `malloc` past the fast path to count its bytes.
//! A sample is an allocation, with the registers and the stack at its call, so that the reader can
//! unwind it; a record of the second ring is the free of a sampled block.
//!
//! Both rings are of fixed records. A writer claims a position by the ring's head, and writes the
//! record's first word, position + 1, last. The reader takes records from the tail on, and then
//! moves the tail. A record that finds its ring full is counted as lost.
//!
//! Neighbours: `slabyard_process::profile` writes, `slabyard_observe::profile` reads. Invariant: the
//! reader writes only [`control::RATE`], [`control::ATTENDED`], the tails, and 0 to
//! [`control::STATE`] before it asks, to [`control::ENDING`] and to the word that [`control::LIMIT`] names.

/// The mean distance of samples where nobody says another one, in bytes: the default of the heap
/// profiles of tcmalloc, jemalloc and Go.
pub const RATE: u64 = 512 << 10;
/// The smallest distance. Below, most of the time would be spent on samples.
pub const LEAST_RATE: u64 = 1 << 10;
/// The largest distance.
pub const MOST_RATE: u64 = 1 << 30;
/// A profile that its reader left alone for so long ends, in nanoseconds.
pub const PATIENCE_NS: u64 = 10_000_000_000;

/// The 64-bit words of the control, by their numbers.
pub mod control {
    /// The mean distance of samples that is asked for, in bytes; 0: none are to be taken.
    pub const RATE: usize = 0;
    /// When the reader looked last, by the monotonic clock in nanoseconds.
    pub const ATTENDED: usize = 1;
    /// A number of [`State`](super::State).
    pub const STATE: usize = 2;
    /// The address of the memory; 0 before the first profile.
    pub const MEMORY: usize = 3;
    /// The address of a word of the fast path: where a reader writes 0 there, the next `malloc`
    /// takes the slow path and looks at the control.
    pub const LIMIT: usize = 4;
    /// Profiles so far.
    pub const GENERATION: usize = 5;
    /// 1 while the process, which ends, waits until the reader has taken all records and writes 0.
    pub const ENDING: usize = 6;
    /// How many words.
    pub const WORDS: usize = 7;
}

/// What a process answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum State {
    /// Nothing is sampled.
    Off = 0,
    /// Allocations are sampled.
    On = 1,
    /// The system refused the memory.
    NoMemory = 2,
    /// Caches have debugging, which has an order of its own for objects.
    Debugging = 3,
}

impl State {
    /// The state of a number.
    #[must_use]
    pub const fn of(number: u64) -> Option<Self> {
        match number {
            0 => Some(State::Off),
            1 => Some(State::On),
            2 => Some(State::NoMemory),
            3 => Some(State::Debugging),
            _ => None,
        }
    }
}

/// The 64-bit words at the begin of the memory, by their numbers.
pub mod head {
    /// Samples claimed.
    pub const SAMPLES: usize = 0;
    /// Samples that the reader took.
    pub const SAMPLES_TAKEN: usize = 1;
    /// Samples that were not kept.
    pub const SAMPLES_LOST: usize = 2;
    /// Frees claimed.
    pub const FREES: usize = 3;
    /// Frees that the reader took.
    pub const FREES_TAKEN: usize = 4;
    /// Frees that were not kept.
    pub const FREES_LOST: usize = 5;
    /// How many words.
    pub const WORDS: usize = 6;
}

/// Where the ring of frees is in the memory.
pub const FREES_AT: usize = 4096;
/// Records of the ring of frees: a power of two.
pub const FREES: usize = 1 << 15;

/// A free of a sampled block, of 64-bit words.
pub mod freed {
    /// Position + 1, once the record is whole.
    pub const SEQUENCE: usize = 0;
    /// The sequence of the block's sample.
    pub const SAMPLE: usize = 1;
    /// When, by the monotonic clock in nanoseconds.
    pub const TIME: usize = 2;
    /// How many words.
    pub const WORDS: usize = 4;
}

/// Where the ring of samples is in the memory.
pub const SAMPLES_AT: usize = FREES_AT + FREES * freed::WORDS * 8;
/// Records of the ring of samples: a power of two.
pub const SAMPLES: usize = 512;
/// From one sample to the next in the ring, in bytes.
pub const SAMPLE_BYTES: usize = 16 << 10;

/// A sample, of 64-bit words.
pub mod sample {
    /// Position + 1, once the record is whole.
    pub const SEQUENCE: usize = 0;
    /// The bytes requested; 0: there is no such sample after all.
    pub const BYTES: usize = 1;
    /// The system's number of the thread.
    pub const THREAD: usize = 2;
    /// When, by the monotonic clock in nanoseconds.
    pub const TIME: usize = 3;
    /// The instruction at which the registers were read, inside of the library.
    pub const INSTRUCTION: usize = 4;
    /// Where the innermost stack frame of that instruction ends.
    pub const STACK_POINTER: usize = 5;
    /// The frame pointer there, where the program has any.
    pub const FRAME_POINTER: usize = 6;
    /// Bytes of the stack from the stack pointer on, which follow at [`STACK`].
    pub const STACK_BYTES: usize = 7;
    /// The mean distance of samples with which it was drawn.
    pub const RATE: usize = 8;
    /// Where the copy of the stack begins, in words.
    pub const STACK: usize = 16;
}

/// Most bytes of a stack in a sample.
pub const STACK_BYTES: usize = SAMPLE_BYTES - sample::STACK * 8;

/// Where the library's own table of sampled blocks is in the memory.
pub const BLOCKS_AT: usize = SAMPLES_AT + SAMPLES * SAMPLE_BYTES;
/// Blocks in it: a power of two.
pub const BLOCKS: usize = 1 << 16;
/// Bytes of the memory.
pub const BYTES: usize = BLOCKS_AT + BLOCKS * 16;

const _: () = assert!(head::WORDS * 8 <= FREES_AT);
