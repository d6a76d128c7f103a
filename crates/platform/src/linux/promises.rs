//! Before the first use of a system call, tests on pages of our own whether it keeps its
//! guarantees.
//!
//! Some emulators and sandboxes report success for calls that they did not carry out. Under
//! qemu-user, other calls treat the old range as unmapped after `MREMAP_DONTUNMAP`. There,
//! `MADV_DONTNEED` keeps the contents of pages that were ever moved, but returns 0
//! (`linux-user/mmap.c`). gVisor's `mincore` reports every page as resident (its compatibility
//! list). A call that fails the test is not used. A *refused* call passes the test, because its
//! caller handles the error.
//!
//! Neighbour: [`super::memory`] asks here before it makes such a call.
//! Invariant: a test changes only its own memory, and unmaps it again.

use super::calls::{
    MAP_NORESERVE, MREMAP_DONTUNMAP, MREMAP_MAYMOVE, PROT_RW, find_resident, mmap, purge,
    purge_several, remap, unmap,
};
use crate::sync::{AtomicU32, Ordering};
use crate::{Stretch, sys};

/// What is known of one promise.
pub(super) struct Promise {
    state: AtomicU32,
    is_kept: fn(usize) -> Option<bool>,
}

const UNKNOWN: u32 = 0;
const KEPT: u32 = 1;
const BROKEN: u32 = 2;

impl Promise {
    const fn new(is_kept: fn(usize) -> Option<bool>) -> Self {
        Promise { state: AtomicU32::new(UNKNOWN), is_kept }
    }

    /// True if the kernel keeps it, as the first look found. Threads that look at the same time
    /// find the same. False without memory to look, which the next one may have.
    pub(super) fn is_kept(&self, page: usize) -> bool {
        match self.state.load(Ordering::Relaxed) {
            UNKNOWN => self.look(page),
            state => state == KEPT,
        }
    }

    #[cold]
    #[inline(never)]
    fn look(&self, page: usize) -> bool {
        let found = (self.is_kept)(page);
        if let Some(kept) = found {
            self.state.store(if kept { KEPT } else { BROKEN }, Ordering::Relaxed);
        }
        found == Some(true)
    }
}

/// Pages after `MADV_DONTNEED` read as zero, and no others do.
pub(super) static PURGES: Promise =
    Promise::new(|page| on_pages(page, |at| !purge(at, page) || words(at, page) == [0, MARK]));

/// The same of several stretches by one call: as many bytes as it answers.
pub(super) static PURGES_SEVERAL: Promise = Promise::new(|page| {
    on_pages(page, |at| {
        let done = purge_several(&[at, at + page].map(|address| Stretch { address, bytes: page }));
        let words = words(at, page);
        (done < page || words[0] == 0) && (done < 2 * page || words[1] == 0)
    })
});

/// Pages that are resident are told from others.
pub(super) static TELLS_RESIDENT: Promise = Promise::new(|page| {
    let at = mmap(2 * page, PROT_RW, MAP_NORESERVE)?;
    write(at, MARK);
    let mut seen = [0u8; 2];
    let done = find_resident(at, 2 * page, &mut seen);
    unmap(at, 2 * page);
    Some(!done || seen.map(|byte| byte & 1) == [1, 0])
});

/// A mapping that is resized keeps its contents, and what it gains is there and reads as zero.
pub(super) static RESIZES: Promise = Promise::new(|page| {
    let at = mmap(page, PROT_RW, MAP_NORESERVE)?;
    write(at, MARK);
    let Some(moved) = remap(at, [page, 2 * page], MREMAP_MAYMOVE, 0) else {
        unmap(at, page);
        return Some(true);
    };
    let kept = is_usable(moved) && is_usable(moved + page) && words(moved, page) == [MARK, 0];
    unmap(moved, 2 * page);
    Some(kept)
});

/// Pages that were moved out leave others in their place: mapped, for system calls too, zero, and
/// purged like any.
pub(super) static MOVES_OUT: Promise = Promise::new(|page| {
    let at = mmap(page, PROT_RW, MAP_NORESERVE)?;
    write(at, MARK);
    let Some(moved) = remap(at, [page; 2], MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0) else {
        unmap(at, page);
        return Some(true);
    };
    let left = is_usable(at) && read(at) == 0 && is_usable(moved) && read(moved) == MARK && {
        write(at, MARK);
        !purge(at, page) || read(at) == 0
    };
    unmap(moved, page);
    unmap(at, page);
    Some(left)
});

/// What a page that was written begins with.
const MARK: usize = 0x5ab1;

/// Looks at two pages that were written; `None` if there is no memory for them.
fn on_pages(page: usize, look: impl FnOnce(usize) -> bool) -> Option<bool> {
    let at = mmap(2 * page, PROT_RW, MAP_NORESERVE)?;
    write(at, MARK);
    write(at + page, MARK);
    let kept = look(at);
    unmap(at, 2 * page);
    Some(kept)
}

fn words(at: usize, page: usize) -> [usize; 2] {
    [read(at), read(at + page)]
}

fn read(at: usize) -> usize {
    // SAFETY: the begin of a page that was just mapped by us. The system changes it.
    unsafe { (at as *const usize).read_volatile() }
}

fn write(at: usize, word: usize) {
    // SAFETY: as in `read`.
    unsafe { (at as *mut usize).write_volatile(word) };
}

/// True if the kernel can write behind the first word of a page: a call that does, and nothing
/// else.
fn is_usable(at: usize) -> bool {
    // The bytes of a set of signals. The C library makes this call for each thread, so filters that
    // came since allow it.
    const SET: usize = 8;
    // SAFETY: it changes nothing and writes the set of blocked signals into our page, or fails.
    let done = unsafe { sys::call(sys::RT_SIGPROCMASK, [0, 0, at + 64, SET, 0, 0]) };
    done == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_system_keeps_all_of_them_and_what_does_not_is_noticed() {
        let page = super::super::process::page_bytes();
        for promise in [&PURGES, &PURGES_SEVERAL, &TELLS_RESIDENT, &RESIZES, &MOVES_OUT] {
            assert!(promise.is_kept(page) && promise.is_kept(page));
        }
        static LOOKS: AtomicU32 = AtomicU32::new(0);
        let answers = |_| match LOOKS.fetch_add(1, Ordering::Relaxed) {
            0 => None,
            1 => Some(false),
            _ => Some(true),
        };
        let broken = Promise::new(answers);
        assert!((0..4).all(|_| !broken.is_kept(page)));
        assert_eq!(LOOKS.load(Ordering::Relaxed), 2, "it looks once, and again without memory");
    }
}
