//! Words in objects' memory, which tests read and write as a program would.

use slabyard_platform::ObjectMemory;
use slabyard_platform::sync::Ordering;

/// Reads a word.
///
/// # Safety
/// As [`ObjectMemory::word`].
pub unsafe fn read_word<P: ObjectMemory>(p: &P, address: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { p.word(address) }.load(Ordering::Relaxed) as usize
}

/// Writes a word.
///
/// # Safety
/// As [`ObjectMemory::word`].
pub unsafe fn write_word<P: ObjectMemory>(p: &P, address: usize, word: usize) {
    // SAFETY: the caller's promise.
    unsafe { p.word(address) }.store(word as u64, Ordering::Relaxed);
}
