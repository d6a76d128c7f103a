//! Stores the word of [`crate::birth`] in a page that a fork wipes, or in plain memory where the
//! kernel refuses such a page (before 4.14).
//!
//! A `fork` handler sets the word, too, because an emulator may accept the request to wipe the page
//! but not wipe it. The handler must not set the word after the child's first slow path, so the
//! owner's process id is stored beside the word. Another library's handler may run before ours in
//! the child and allocate: so without such a page, a forking thread's slow paths compare the ids.

use super::calls::{PROT_RW, mmap, unmap};
use crate::birth::{CHILD, WHOLE};
use crate::rseq::{self, flags};
use crate::sync::{AtomicU32, OnceNumber, Ordering};
use crate::sys;

const MADV_WIPEONFORK: usize = 18;

/// What a fork wipes.
#[repr(C)]
struct Words {
    word: AtomicU32,
    /// Process id.
    process: AtomicU32,
}

pub(super) struct Birth {
    /// Where there is no page.
    plain: Words,
    /// Address of the page, if there is one.
    page: OnceNumber,
}

fn process() -> u32 {
    // SAFETY: the call has no argument.
    unsafe { sys::call(sys::GETPID, [0; 6]) as u32 }
}

impl Birth {
    pub(super) const fn new() -> Self {
        let plain = Words { word: AtomicU32::new(WHOLE), process: AtomicU32::new(0) };
        Birth { plain, page: OnceNumber::new() }
    }

    /// The address that the kernel chose for the page, or would.
    pub(super) fn init(&self, page_bytes: usize) -> Option<usize> {
        let chosen = mmap(page_bytes, PROT_RW, 0);
        if let Some(page) = chosen {
            let arguments = [page, page_bytes, MADV_WIPEONFORK, 0, 0, 0];
            // SAFETY: the page just mapped.
            let is_wiped = unsafe { sys::call(sys::MADVISE, arguments) } == 0;
            if !is_wiped || self.page.set(page).is_err() {
                unmap(page, page_bytes);
            }
        }
        self.words().word.store(WHOLE, Ordering::Relaxed);
        self.claim();
        chosen
    }

    #[inline]
    fn words(&self) -> &Words {
        match self.page.get() {
            0 => {
                if rseq::thread().flags.load(Ordering::Relaxed) & flags::FORKING != 0 {
                    self.look_at_process();
                }
                &self.plain
            }
            // SAFETY: `init` mapped it, for ever; it is changed as atomic numbers only.
            page => unsafe { &*(page as *const Words) },
        }
    }

    #[inline]
    pub(super) fn word(&self) -> &AtomicU32 {
        &self.words().word
    }

    /// The words are this process's.
    pub(super) fn claim(&self) {
        self.words().process.store(process(), Ordering::Relaxed);
    }

    /// Without a page, by a thread that forks: it may be the child's.
    #[cold]
    fn look_at_process(&self) {
        if self.plain.process.load(Ordering::Relaxed) != process() {
            let (set, seen) = (Ordering::Relaxed, Ordering::Relaxed);
            // Else the child repairs already.
            let _ = self.plain.word.compare_exchange(WHOLE, CHILD, set, seen);
        }
    }

    pub(super) fn mark_child(&self) {
        if self.words().process.load(Ordering::Relaxed) != process() {
            self.word().store(CHILD, Ordering::Relaxed);
        }
    }
}
