//! A thread's private slot is released when the thread exits; the child of a fork releases the
//! slots of threads that do not exist there.
//!
//! Neighbours: [`super::slots`] manages all slots; [`super::on_linux`] assigns a thread its slot in
//! its first slow path.

use super::mode::Mode;
use super::on_linux::{Counting, OnLinux};
use super::slots::{self, given};
use crate::rseq::{self, flags};
use crate::sync::Ordering;

impl<C: Counting> OnLinux<C> {
    /// Has a function called as a thread ends that got a private slot, to give it back: one
    /// function for all yards of the process. Called by one thread at a time. Without a key of the
    /// C library, slots of threads that ended stay in use: later threads may have none, and take
    /// slow paths.
    pub fn at_slot_end(&self, call: fn()) {
        self.notices_ends.store(slots::at_end(call).into(), Ordering::Relaxed);
    }

    /// Gives this thread's private slot back, whose row was drained if that was possible: the
    /// next owner has what is left. The thread takes slow paths from now on.
    pub fn give_slot_back(&self) {
        let thread = rseq::thread();
        if self.mode() != Mode::Slots {
            return;
        }
        let slot = thread.cpu_id.swap(u32::MAX, Ordering::Relaxed);
        thread.flags.fetch_or(flags::TRIED | flags::EXITED, Ordering::Relaxed);
        slots::free(slot as usize);
    }

    /// In the child of a fork: the slots of threads that do not exist there, or that ended
    /// during the fork and could not drain their rows. Their rows keep their objects until the yard
    /// drains them, which comes before [`OnLinux::free_foreign_slots`].
    pub fn foreign_slots(&self) -> impl Iterator<Item = usize> + '_ {
        let mine = rseq::thread().cpu_id.load(Ordering::Relaxed) as usize;
        let is_slots = self.mode() == Mode::Slots;
        (0..given()).filter(move |slot| is_slots && *slot != mine)
    }

    /// Frees those of [`OnLinux::foreign_slots`], whose rows were adopted.
    pub fn free_foreign_slots(&self) {
        self.foreign_slots().for_each(slots::free);
    }
}
