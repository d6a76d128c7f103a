//! Checks bytes to which the program may write during the check; such a write is the bug that the
//! check looks for.
//!
//! Neighbour: [`super::memory`] checks objects' memory with it, for caches with debugging.

use crate::sync::{AtomicU8, AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();

/// The first of this many bytes that has another value than this.
///
/// # Safety
/// They are readable.
pub(super) unsafe fn first_other(address: usize, bytes: usize, value: u8) -> Option<(usize, u8)> {
    let end = address + bytes;
    let wanted = u64::from_ne_bytes([value; WORD]);
    let mut at = address;
    while at < end {
        if at.is_multiple_of(WORD) {
            while at + WORD <= end {
                // SAFETY: the word lies in front of `end`, aligned.
                let word = unsafe { &*(at as *const AtomicU64) };
                if word.load(Ordering::Relaxed) != wanted {
                    break;
                }
                at += WORD;
            }
            if at == end {
                break;
            }
        }
        // SAFETY: it lies in front of `end`.
        let found = unsafe { &*(at as *const AtomicU8) }.load(Ordering::Relaxed);
        if found != value {
            return Some((at, found));
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_other_byte_is_found_where_it_is() {
        let mut bytes = [0x6bu8; 64];
        for begin in 0..9 {
            for len in 0..40 {
                let address = bytes.as_ptr() as usize + begin;
                // SAFETY: a part of the array.
                assert_eq!(unsafe { first_other(address, len, 0x6b) }, None);
                for nth in 0..64 {
                    bytes[nth] = 7;
                    let address = bytes.as_ptr() as usize + begin;
                    // SAFETY: a part of the array.
                    let found = unsafe { first_other(address, len, 0x6b) };
                    let is_in = (begin..begin + len).contains(&nth);
                    let expected = is_in.then(|| (bytes.as_ptr() as usize + nth, 7));
                    assert_eq!(found, expected, "{nth} in {begin} and {len}");
                    bytes[nth] = 0x6b;
                }
            }
        }
    }
}
