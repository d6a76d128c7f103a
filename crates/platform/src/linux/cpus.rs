//! Finds how many CPUs there may ever be: each CPU number that the kernel can use needs a row,
//! because the fast path does not check CPU numbers.
//!
//! The masks in `/proc/self/status` have one digit per four CPUs that the kernel can use
//! (proc_pid_status(5)), so their width gives the number of these CPUs, rounded up. The file of
//! possible CPUs in sysfs would be exact, but may show too few: containers show their own share
//! there, or another mount covers the file. The width is accepted only if it is plausible: at least
//! the highest CPU that this thread may use, and at most the size of the kernel's masks, which
//! sched_getaffinity(2) returns. Otherwise there are as many rows as the masks have bits.

use crate::sys;

/// CPUs of the kernel's masks on the largest machines, where nothing says how large they are.
const MOST: usize = 8192;

/// Those of all but the largest machines.
const USUAL: usize = 1024;

/// This many CPUs need rows; and the number below which the kernel's CPU numbers are in any case.
pub(super) fn possible() -> (usize, usize) {
    let mask = Mask::of_this_thread();
    (choose(&mask, width_in_status()), mask.bits)
}

fn choose(mask: &Mask, width: Option<usize>) -> usize {
    let least = mask.end.max(1);
    width.filter(|width| (least..=mask.bits).contains(width)).unwrap_or(mask.bits)
}

/// The CPUs that a thread may use.
struct Mask {
    /// CPUs that the kernel's masks have room for.
    bits: usize,
    /// The highest that it may use, and one.
    end: usize,
}

impl Mask {
    fn of_this_thread() -> Self {
        // The kernel refuses room for fewer CPUs than it can name; a small stack has none for most.
        Self::read_on_stack::<{ USUAL / 64 }>()
            .or_else(Self::read_on_stack::<{ MOST / 64 }>)
            .unwrap_or(Mask { bits: MOST, end: 0 })
    }

    #[cold]
    #[inline(never)]
    fn read_on_stack<const WORDS: usize>() -> Option<Self> {
        Self::read(&mut [0; WORDS])
    }

    #[inline(never)]
    fn read(words: &mut [u64]) -> Option<Self> {
        let (bytes, first) = (size_of_val(words), words.as_mut_ptr() as usize);
        // SAFETY: it writes at most so many bytes.
        let done = unsafe { sys::call(sys::SCHED_GETAFFINITY, [0, bytes, first, 0, 0, 0]) };
        let bytes = usize::try_from(done).ok().filter(|bytes| *bytes > 0)?;
        let last = words.iter().rposition(|word| *word != 0)?;
        let end = 64 * last + 64 - words[last].leading_zeros() as usize;
        Some(Mask { bits: (8 * bytes).max(end), end })
    }
}

/// CPUs that the masks in this process's status have digits for.
#[cold]
#[inline(never)]
fn width_in_status() -> Option<usize> {
    // Parts: the text is longer than what a small stack has room for.
    let (mut buffer, mut width) = ([0u8; 256], MaskWidth::default());
    sys::read_parts(c"/proc/self/status", &mut buffer, |part| !width.ends_in(part))?;
    width.get()
}

/// Counts the bits of the mask in a status, read part by part.
#[derive(Default)]
struct MaskWidth {
    /// Bytes of [`MaskWidth::NAME`] that the text ends with.
    matched: usize,
    digits: usize,
    ended: bool,
}

impl MaskWidth {
    const NAME: &[u8] = b"\nCpus_allowed:";

    /// Takes the next part; true if the mask ends in it.
    fn ends_in(&mut self, part: &[u8]) -> bool {
        for &byte in part {
            if self.matched == Self::NAME.len() {
                self.ended = byte == b'\n';
                if self.ended {
                    return true;
                }
                self.digits += usize::from(byte.is_ascii_hexdigit());
            } else if byte == Self::NAME[self.matched] {
                self.matched += 1;
            } else {
                // The name's first byte occurs in it once.
                self.matched = usize::from(byte == Self::NAME[0]);
            }
        }
        false
    }

    fn get(&self) -> Option<usize> {
        (self.ended && self.digits > 0).then_some(4 * self.digits)
    }
}

#[cfg(test)]
mod tests;
