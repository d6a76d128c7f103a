//! The rings into which a process writes its calls to malloc for a recorder.
//!
//! ```text
//! page 0         header: magic, version, rings, entries of a ring, process, lost, sites, ...
//! then           table of call sites: an address a slot, 0 where it is free
//! then each ring: page of its words (written, lock | read), entries of 24 bytes
//! ```
//!
//! The library `slabyard-recorder` writes the rings inside the process; the recorder reads them by
//! `pread`, and writes back how far it has read. A thread writes to the ring of the CPU on which it
//! runs, so another thread rarely holds that ring's lock. An entry identifies its call site by a
//! slot in the table of sites, so the recorder looks for new sites only in the table. Invariants:
//! `read <= written <= read + entries`; times increase within a ring; an entry is complete before
//! `written` counts it; a slot is written once, before the first entry that refers to it.

/// Names the file of the rings to the library. Not of the names that the malloc takes for its options.
pub const ENV: &str = "RECORDER_RINGS";
/// The first word of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"SLABRING");
/// The second.
pub const VERSION: u64 = 2;
/// Bytes of the header, and of each ring's words.
pub const PAGE: usize = 4096;
/// Bytes of an entry.
pub const ENTRY: usize = 24;
/// Most rings: more CPUs share.
pub const MOST_RINGS: usize = 1024;
/// Slots of the table of call sites. The first is that of all sites which found no free one.
pub const SITES: usize = 1 << 16;

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
    /// Slots of the table that are taken.
    pub const SITES: usize = 6;
    /// Changes as long as the recorder lives.
    pub const ALIVE: usize = 16;
    /// Not 0 when it takes no more.
    pub const OVER: usize = 17;
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

/// Where the table of call sites begins in the file.
pub const SITES_AT: usize = PAGE;

/// Where a ring begins in the file.
#[must_use]
pub const fn ring_at(ring: usize, entries: usize) -> usize {
    SITES_AT + SITES * 8 + ring * (PAGE + (entries * ENTRY).next_multiple_of(PAGE))
}

/// Bytes of the file.
#[must_use]
pub const fn bytes(rings: usize, entries: usize) -> usize {
    ring_at(rings, entries)
}

/// The slot at which a call site is looked for first.
#[inline]
#[must_use]
pub const fn slot_of(site: u64) -> usize {
    (site.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % SITES
}

/// An allocation or a free, as the recorded process writes it into its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// By the processor's counter.
    pub ticks: u64,
    /// The object.
    pub address: u64,
    /// Requested bytes; up to 2^32 - 1.
    pub bytes: u64,
    /// Where it was called from: a slot of the table.
    pub site: u16,
    /// A number of the thread; up to 2^21.
    pub thread: u32,
    /// The CPU; up to 2^10.
    pub cpu: u16,
    /// The object was freed by this call.
    pub freed: bool,
}

const LOW: u64 = (1 << 48) - 1;
const MOST_BYTES: u64 = (1 << 32) - 1;
const MOST_THREAD: u32 = (1 << 21) - 1;
const MOST_CPU: u16 = (1 << 10) - 1;

impl Call {
    /// The words of its entry.
    #[inline]
    #[must_use]
    pub const fn words(self) -> [u64; 3] {
        let bytes = if self.bytes > MOST_BYTES { MOST_BYTES } else { self.bytes };
        let thread = ((self.thread & MOST_THREAD) as u64) << 32;
        let cpu = ((self.cpu & MOST_CPU) as u64) << 53;
        [
            self.ticks,
            self.address & LOW | (self.site as u64) << 48,
            bytes | thread | cpu | (self.freed as u64) << 63,
        ]
    }

    /// Back from its words.
    #[inline]
    #[must_use]
    pub const fn of(words: [u64; 3]) -> Call {
        Call {
            ticks: words[0],
            address: words[1] & LOW,
            site: (words[1] >> 48) as u16,
            bytes: words[2] & MOST_BYTES,
            thread: (words[2] >> 32) as u32 & MOST_THREAD,
            cpu: (words[2] >> 53) as u16 & MOST_CPU,
            freed: words[2] >> 63 != 0,
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
            site: 0xfedc,
            thread: MOST_THREAD,
            cpu: 1023,
            freed: true,
        };
        assert_eq!(Call::of(call.words()), call);
        let other = Call { ticks: 1, freed: false, thread: 7, bytes: 1 << 40, ..call };
        assert_eq!(Call::of(other.words()), Call { bytes: MOST_BYTES, ..other });
    }
}
