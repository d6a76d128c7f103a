//! The rings by which a process tells a recorder of its calls to malloc.
//!
//! ```text
//! page 0         header: magic, version, rings, entries of a ring, process, bytes in all
//! then each ring: page of its words (written, lock, lost | read), entries of 32 bytes
//! ```
//!
//! The library `slabyard-recorder` in the process writes, the recorder reads by `pread` and
//! tells what it has read. A ring is that of the CPU that a thread runs on: its lock is hardly
//! ever taken by another one. Invariants: `read <= written <= read + entries`; times rise within a
//! ring; an entry is whole before `written` counts it.

/// Names the file of the rings to the library. Not of the names that the malloc takes for its options.
pub const ENV: &str = "RECORDER_RINGS";
/// The first word of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"SLABRING");
/// The second.
pub const VERSION: u64 = 1;
/// Bytes of the header, and of each ring's words.
pub const PAGE: usize = 4096;
/// Bytes of an entry.
pub const ENTRY: usize = 32;
/// Most rings: more CPUs share.
pub const MOST_RINGS: usize = 1024;

/// Words of the header, by number.
pub mod header {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// [`super::VERSION`].
    pub const VERSION: usize = 1;
    /// Number of rings.
    pub const RINGS: usize = 2;
    /// Entries of a ring, a power of two.
    pub const ENTRIES: usize = 3;
    /// The process that writes; 0 before one does.
    pub const PROCESS: usize = 4;
    /// Calls that found every ring full or locked.
    pub const LOST: usize = 5;
}

/// Words of a ring, by number: those that the process writes, and, on a cache line of
/// its own, the one that the recorder writes.
pub mod ring {
    /// Entries written since the beginning.
    pub const WRITTEN: usize = 0;
    /// Not 0 while somebody writes.
    pub const LOCK: usize = 1;
    /// Entries that the recorder has read.
    pub const READ: usize = 16;
}

/// Where a ring begins in the file.
#[must_use]
pub const fn ring_at(ring: usize, entries: usize) -> usize {
    PAGE + ring * (PAGE + entries * ENTRY)
}

/// Bytes of the file.
#[must_use]
pub const fn bytes(rings: usize, entries: usize) -> usize {
    ring_at(rings, entries)
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// By the processor's counter.
    pub ticks: u64,
    /// The object.
    pub address: u64,
    /// Bytes asked for; up to 2^40.
    pub bytes: u64,
    /// Where it was called from.
    pub site: u64,
    /// A number of the thread; up to 2^22.
    pub thread: u32,
    /// The CPU.
    pub cpu: u16,
    /// It was given back.
    pub freed: bool,
}

const LOW: u64 = (1 << 48) - 1;
const MOST_BYTES: u64 = (1 << 40) - 1;
const MOST_THREAD: u32 = (1 << 22) - 1;

impl Call {
    /// The words of its entry.
    #[inline]
    #[must_use]
    pub const fn words(self) -> [u64; 4] {
        let bytes = if self.bytes > MOST_BYTES { MOST_BYTES } else { self.bytes };
        [
            self.ticks,
            self.address & LOW | (self.cpu as u64) << 48,
            bytes | ((self.thread & MOST_THREAD) as u64) << 40 | (self.freed as u64) << 62,
            self.site & LOW,
        ]
    }

    /// Back from its words.
    #[must_use]
    pub const fn of(words: [u64; 4]) -> Call {
        Call {
            ticks: words[0],
            address: words[1] & LOW,
            cpu: (words[1] >> 48) as u16,
            bytes: words[2] & MOST_BYTES,
            thread: (words[2] >> 40) as u32 & MOST_THREAD,
            freed: words[2] >> 62 & 1 != 0,
            site: words[3] & LOW,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_comes_back_from_its_words() {
        let call = Call {
            ticks: u64::MAX,
            address: LOW,
            bytes: MOST_BYTES,
            site: 0x7fff_1234_5678,
            thread: MOST_THREAD,
            cpu: 511,
            freed: true,
        };
        assert_eq!(Call::of(call.words()), call);
        let other = Call { ticks: 1, freed: false, thread: 7, bytes: 1 << 50, ..call };
        assert_eq!(Call::of(other.words()), Call { bytes: MOST_BYTES, ..other });
    }
}
