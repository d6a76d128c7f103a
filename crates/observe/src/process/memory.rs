//! A target's memory: that of a live process or a core file, or made up by a test.
//!
//! Neighbours: [`super::live`] and [`crate::corefile`] implement [`Memory`], through which all
//! decoding goes. Invariants: a read is complete or fails; its parts are read in the given order,
//! so an earlier part is at least as old as a later one.

use std::ops::Range;

/// Bytes in a row in the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPart {
    /// Address in the target.
    pub(crate) address: u64,
    /// How many bytes.
    pub(crate) bytes: usize,
}

/// Why memory could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// Nothing readable is at this address.
    #[error("nothing to read at {0:#x}")]
    Absent(u64),
    /// The system forbids it.
    #[error("permission denied")]
    Denied,
    /// The process has ended.
    #[error("the process has ended")]
    Gone,
    /// The system failed in another way.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Memory that can be read.
pub(crate) trait Memory {
    /// Reads parts into `into`, one behind the other; it is as long as all parts together.
    fn read(&self, parts: &[MemoryPart], into: &mut [u8]) -> Result<(), Fault>;

    /// Private, writable mappings without a file, where a yard may begin.
    fn mappings(&self) -> Result<Vec<Range<u64>>, Fault>;
}

/// Memory that can be written, too.
pub(crate) trait Writable: Memory {
    /// Writes `bytes` to each of the addresses, in their order.
    fn write(&self, addresses: &[u64], bytes: &[u8]) -> Result<(), Fault>;
}

/// Reads parts into one new buffer.
pub(crate) fn read(memory: &dyn Memory, parts: &[MemoryPart]) -> Result<Vec<u8>, Fault> {
    let mut into = vec![0; parts.iter().map(|p| p.bytes).sum()];
    memory.read(parts, &mut into)?;
    Ok(into)
}

/// The 64-bit words of a buffer.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// The 32-bit number at an offset; 0 beyond the end.
pub(crate) fn half(bytes: &[u8], offset: usize) -> u32 {
    let part = bytes.get(offset..).and_then(|rest| rest.first_chunk::<4>());
    part.map_or(0, |part| u32::from_le_bytes(*part))
}
