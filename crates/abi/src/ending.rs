//! A page shared by `slabyard run` and the program that it started: through the page, a program
//! that ends without running destructors asks `run` to read its yard.
//!
//! `exit` runs our destructor, which writes the report (see [`crate::report`]). `_exit` and
//! `quick_exit` do not: there the library sets a request on this page, and waits until `run` has
//! read the yard from outside ([`crate::region`]).
//!
//! ```text
//! run        makes the file with this page beside the report's, maps it, and forks
//! the child  writes its process id as `owner`, before exec
//! a program  maps it at its start if it is the owner: `begun` + 1, and its name
//! the owner  at `_exit`: state IDLE -> ASKED, wakes run, and waits
//! run        reads the owner's memory; state ASKED -> IDLE, wakes the owner
//! ```
//!
//! The owner's id does not change on exec, so each program of a chain of execs uses this page if it
//! runs on Slabyard, and the last program's numbers are reported. Forked children have other ids. A
//! program that writes to the page by mistake can only lose its report; it cannot harm `run`.

use core::sync::atomic::{AtomicU32, Ordering};

/// What follows the report's path in the path of the page.
pub const SUFFIX: &str = ".ending";
/// Bytes of the file: a page of any machine.
pub const BYTES: usize = 64 << 10;

/// Nobody asks.
pub const IDLE: u32 = 0;
/// The owner waits to be read.
pub const ASKED: u32 = 1;

/// The memory that `slabyard run` and the process that it started share.
#[repr(C)]
#[derive(Default)]
pub struct EndPage {
    /// The process that may use it: the one that `run` started; 0 until then.
    pub owner: AtomicU32,
    /// The reading process: without it the owner does not wait.
    pub reader: AtomicU32,
    /// How many programs on Slabyard the owner has executed so far, one after the other.
    pub begun: AtomicU32,
    /// [`IDLE`] or [`ASKED`]; both sides sleep on it.
    pub state: AtomicU32,
    /// The last one's name, as the kernel has it: 15 bytes at most, and zeros.
    pub name: [AtomicU32; 4],
}

impl EndPage {
    /// Writes the program's name.
    pub fn set_name(&self, name: &[u8; 16]) {
        for (word, bytes) in self.name.iter().zip(name.chunks_exact(4)) {
            let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
            word.store(u32::from_ne_bytes(bytes), Ordering::Relaxed);
        }
    }

    /// Reads it.
    pub fn name(&self) -> [u8; 16] {
        let mut name = [0; 16];
        for (word, bytes) in self.name.iter().zip(name.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written() {
        let page = EndPage::default();
        page.set_name(b"python3.11\0\0\0\0\0\0");
        assert_eq!(&page.name(), b"python3.11\0\0\0\0\0\0");
    }
}
