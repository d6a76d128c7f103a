//! What each page frame holds while [`super::Walk`] passes over the events.
//!
//! Invariant: all frames of an open block have the same place.

use crate::trace::Frames;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Binary logarithm of the largest direct map (x86-64 with four levels of tables).
const MOST_MEMORY: u32 = 46;

/// The frame that an address is in, if the direct map has it: an address below the
/// map wraps to one far above.
pub(super) fn frame_of(frames: Frames, address: u64) -> Option<u64> {
    let frame = frames.of(address);
    (frame >> (MOST_MEMORY - frames.page_shift) == 0).then_some(frame)
}

/// The frames of pages. Past the last possible frame they wrap, which harms nothing.
pub(super) fn frames_of(first: u64, order: u8) -> impl Iterator<Item = u64> {
    (0..1u64 << order).map(move |nth| first.wrapping_add(nth))
}

/// What a frame holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Unseen,
    Closed,
    Open(u32),
}

/// Binary logarithm of the frames of one chunk.
const CHUNK_SHIFT: u32 = 9;

/// The state of every frame, in chunks, as a machine's memory is sparse and a
/// trace's addresses are near each other.
#[derive(Default)]
pub(super) struct FrameTable {
    chunk_of: HashMap<u64, u32, BuildHasherDefault<Spread>>,
    /// 0 unseen, 1 closed, else the place of what is open + 2.
    chunks: Vec<[u32; 1 << CHUNK_SHIFT]>,
}

impl FrameTable {
    pub(super) fn get(&self, frame: u64) -> State {
        let Some(&chunk) = self.chunk_of.get(&(frame >> CHUNK_SHIFT)) else {
            return State::Unseen;
        };
        match self.chunks[chunk as usize][frame as usize % (1 << CHUNK_SHIFT)] {
            0 => State::Unseen,
            1 => State::Closed,
            word => State::Open(word - 2),
        }
    }

    pub(super) fn set(&mut self, frame: u64, state: State) {
        let chunk = *self.chunk_of.entry(frame >> CHUNK_SHIFT).or_insert_with(|| {
            self.chunks.push([0; 1 << CHUNK_SHIFT]);
            self.chunks.len() as u32 - 1
        });
        self.chunks[chunk as usize][frame as usize % (1 << CHUNK_SHIFT)] = match state {
            State::Unseen => 0,
            State::Closed => 1,
            State::Open(place) => place + 2,
        };
    }
}

/// A hash for numbers that nobody chooses against us: Fibonacci's.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}
