//! The trait through which the kernel's memory is read.
//!
//! [`super::bpf`] implements the trait for the running kernel, tests for simulated memory;
//! [`super::walk`] reads through it.

use super::error::{ListsError, Unreadable};
use super::layout::Layout;

/// The memory of a kernel.
pub trait Memory {
    /// Copies the bytes that start at an address.
    ///
    /// # Errors
    /// Nothing is mapped there, or the source is gone.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Unreadable>;

    /// The addresses of all caches.
    ///
    /// # Errors
    /// The source has no way to them.
    fn caches(&mut self, layout: &Layout) -> Result<Vec<u64>, ListsError>;

    /// What is added to the address of a variable of each CPU to have that of one CPU.
    ///
    /// # Errors
    /// The source has no way to it.
    fn cpu_offset(&mut self, layout: &Layout, cpu: u32) -> Result<u64, ListsError>;

    /// A word.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn word(&mut self, address: u64) -> Result<u64, Unreadable> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}
