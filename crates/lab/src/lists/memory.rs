//! The trait through which the kernel's memory is read.
//!
//! [`super::bpf`] implements the trait for the running kernel, tests for simulated memory;
//! [`super::walk`] reads through it.

use super::error::{ListsError, Unreadable};
use super::layout::Layout;

/// Addresses as a trace holds them.
pub(super) const ADDRESS: u64 = (1 << 48) - 1;

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

    /// Half a word.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn int(&mut self, address: u64) -> Result<u32, Unreadable> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(u32::from_ne_bytes(bytes))
    }
}

/// A word of what was read; 0 behind its end.
pub(super) fn u64_at(bytes: &[u8], at: u32) -> u64 {
    let at = at as usize;
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// Half a word of it.
pub(super) fn u32_at(bytes: &[u8], at: u32) -> u32 {
    let at = at as usize;
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes)
}
