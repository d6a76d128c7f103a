//! The contents of an object's first and last words, and the check of them.
//!
//! ```text
//! 63     56 55     46 45            21 20       0
//! +--------+---------+----------------+----------+
//! |  LIVE  |  owner  |    sequence    |  bytes   |   while it is owned
//! |  FREE  |               as before             |   from its free on
//! +--------+-------------------------------------+
//! ```
//!
//! Both words of every freed object are overwritten, so free memory holds no
//! token with the tag LIVE: one that is met there belongs to another owner.

use crate::Stressed;
use slabyard::verify::{Fault, Sound};
use std::sync::atomic::{AtomicU64, Ordering};

/// Exit code: an error was found.
pub const FOUND: i32 = 19;
/// Exit code: nothing went on for a while.
pub const HUNG: i32 = 20;

const LIVE: u64 = 0xa5 << 56;
const FREE: u64 = 0x5a << 56;
const TAG: u64 = 0xff << 56;
const BYTES_BITS: u32 = 21;
const SEQUENCE_BITS: u32 = 25;
/// The largest object that a token can describe.
pub const LARGEST: usize = (1 << BYTES_BITS) - 1;

/// An object owned.
#[derive(Debug)]
#[must_use]
pub struct TokenObject {
    address: usize,
    bytes: usize,
    token: u64,
}

/// Ends the process at once: no destructor, no buffer, so that it may be called
/// anywhere.
pub fn end(code: i32) -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Reports an error and ends the process.
pub fn wrong(what: &str, address: usize, found: u64, expected: u64) {
    eprintln!("error: {what} at {address:#x}: found {found:#018x}, expected {expected:#018x}");
    end(FOUND);
}

/// Reports an unsound yard and ends the process.
pub fn wrong_yard(when: &str, verified: &Option<Result<Sound, Fault>>) {
    match verified {
        Some(Err(fault)) => eprintln!("error: {when}: {fault}"),
        other => eprintln!("error: {when}: {other:?}"),
    }
    end(FOUND);
}

fn word(address: usize) -> &'static AtomicU64 {
    // SAFETY: an aligned word of an object that the caller owns; it is touched
    // as an atomic only. Where the allocator is wrong about the owner, that is
    // what the words are to show.
    unsafe { &*(address as *const AtomicU64) }
}

/// Places of the first and the last whole word.
fn places(address: usize, bytes: usize) -> [usize; 2] {
    [address, address + (bytes.max(8) - 8) / 8 * 8]
}

impl TokenObject {
    /// Allocates and signs. `None` without memory.
    pub fn alloc(
        yard: &Stressed,
        bytes: usize,
        align: usize,
        owner: u64,
        sequence: u64,
    ) -> Option<TokenObject> {
        // Room for a token, whatever the object is for.
        let address = yard.alloc_fast(bytes.max(8), align)?;
        if !address.is_multiple_of(align.max(16)) {
            wrong("the address is not aligned", address, address as u64, align as u64);
        }
        let sequence = sequence & ((1 << SEQUENCE_BITS) - 1);
        let token =
            LIVE | owner << (BYTES_BITS + SEQUENCE_BITS) | sequence << BYTES_BITS | bytes as u64;
        for place in places(address, bytes) {
            let found = word(place).load(Ordering::Relaxed);
            // A token has bytes. What debugging leaves behind its free objects has none.
            if found & TAG == LIVE && found & ((1 << BYTES_BITS) - 1) != 0 {
                wrong("a live object was handed out again", place, found, 0);
            }
        }
        for place in places(address, bytes) {
            word(place).store(token, Ordering::Relaxed);
        }
        Some(TokenObject { address, bytes, token })
    }

    /// Is the owner's token still there?
    pub fn check(&self) {
        for place in places(self.address, self.bytes) {
            let found = word(place).load(Ordering::Relaxed);
            if found != self.token {
                wrong("the owner's token is gone", place, found, self.token);
            }
        }
    }

    /// Checks, takes the token away and frees.
    pub fn free(self, yard: &Stressed) {
        self.check();
        for place in places(self.address, self.bytes) {
            word(place).store(self.token & !TAG | FREE, Ordering::Relaxed);
        }
        if let Err(place) = yard.free_fast(self.address) {
            eprintln!("the object is {place:?}");
            wrong("a free was refused", self.address, 0, self.token);
        }
    }
}
