//! The stacks of this CPU on Linux, changed by restartable sequences (rseq), or by plain code on a
//! private slot.
//!
//! Neighbours: [`crate::rseq`] implements the sequences; [`super::fence`] aborts sequences on other
//! CPUs; [`super::shared`] records when a thread has given up its row.

use super::fence;
use super::mode::Mode;
use super::on_linux::{Counting, OnLinux};
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
use crate::FastPath;
use crate::rseq::{self, flags};
use crate::stack::{Rows, Slot, Stack, Stopped};
use crate::sync::Ordering;
use crate::sync::lock::may_call;
use crate::{PerCpu, Takes};

impl<C: Counting> PerCpu for OnLinux<C> {
    fn rows(&self) -> &Rows {
        &self.rows
    }

    fn commit_rows(&self, bytes: usize) -> bool {
        may_call(self);
        bytes <= self.rows.row_bytes()
            || !self.is_sealed() && self.reservations.commit_rows(&self.rows, bytes)
    }

    #[inline]
    fn enter(&self) {
        let thread = rseq::thread();
        if thread.flags.load(Ordering::Relaxed) >= flags::SHARED {
            self.look_for_child();
        }
        if self.mode() == Mode::Library {
            return;
        }
        if thread.flags.load(Ordering::Relaxed) & flags::TRIED == 0 {
            self.enter_first(thread);
        }
    }

    fn row_hint(&self) -> Option<usize> {
        if self.has_left_row() {
            return None;
        }
        // Without a number, below 0, it is beyond all rows.
        let row = rseq::cpu_id(self.rows.cs_offset().wrapping_sub(8)).cast_unsigned() as usize;
        (row < self.rows.len()).then_some(row)
    }

    fn can_stop(&self) -> bool {
        if self.mode() == Mode::Slots {
            return false;
        }
        self.prepare_fence();
        self.fence.is_ready()
    }

    fn fence(&self) -> bool {
        self.count_fence();
        self.fence.make()
    }

    fn fence_rows(&self, mut rows: impl Iterator<Item = usize> + Clone) -> bool {
        self.count_fence();
        let few = rows.clone().count() * fence::PART <= self.rows.len();
        few && rows.all(|cpu| self.fence.make_on(cpu)) || self.fence.make()
    }

    #[inline]
    fn pop(&self, slot: Slot) -> Option<usize> {
        let (rows, slot, cs_offset) = self.stack(slot)?;
        // SAFETY: they are of `init`.
        unsafe { rseq::pop(rows, slot, cs_offset) }
    }

    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    #[inline(always)]
    fn pop_inlined(&self, words: &FastPath) -> Option<usize> {
        // SAFETY: rows and offset are those of `init`.
        Some(unsafe { rseq::pop_inlined(words) }).filter(|object| *object != 0)
    }

    #[inline(always)]
    fn push(&self, slot: Slot, object: usize, takes: Takes) -> bool {
        let Some((rows, slot, cs_offset)) = self.stack(slot) else { return false };
        // SAFETY: as in `pop`.
        unsafe {
            match takes {
                Takes::Each => rseq::push(rows, slot, cs_offset, object),
                Takes::Tagged => rseq::push_if(rows, slot, cs_offset, object),
            }
        }
    }

    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    #[inline(always)]
    fn push_inlined(&self, words: &FastPath, object: usize) -> bool {
        // SAFETY: as in `pop_inlined`.
        unsafe { rseq::push_inlined(words, object) }
    }

    #[inline]
    fn pop_many(&self, slot: Slot, out: &mut [usize]) -> usize {
        let Some((rows, slot, cs_offset)) = self.stack(slot) else { return 0 };
        // SAFETY: as in `pop`.
        unsafe { rseq::pop_many(rows, slot, cs_offset, out) }
    }

    #[inline]
    fn push_many(&self, slot: Slot, objects: &[usize], takes: Takes) -> usize {
        let Some((rows, slot, cs_offset)) = self.stack(slot) else { return 0 };
        // SAFETY: as in `pop`.
        unsafe {
            match takes {
                Takes::Each => rseq::push_many(rows, slot, cs_offset, objects),
                Takes::Tagged => rseq::push_many_if(rows, slot, cs_offset, objects),
            }
        }
    }

    // Always, so that the stack which is returned does not pass through memory.
    #[inline(always)]
    fn exchange(&self, slot: Slot, new: Stack) -> Result<Stack, Stopped> {
        let (rows, slot, cs_offset) = self.stack(slot).ok_or(Stopped)?;
        // SAFETY: as in `pop`.
        unsafe { rseq::exchange(rows, slot, cs_offset, new) }
    }
}

impl<C: Counting> OnLinux<C> {
    fn count_fence(&self) {
        may_call(self);
        if C::COUNTS
            && let Some(fences) = self.counts.fences(self.rows.len())
        {
            fences.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What a sequence needs to find a stack of this thread's row, if the thread has not left it:
    /// row 0, the slot's offset in a row, and where the row's number is.
    #[inline(always)]
    fn stack(&self, slot: Slot) -> Option<(usize, usize, usize)> {
        if self.has_left_row() {
            return None;
        }
        Some((self.rows.base(), slot.offset(), self.rows.cs_offset()))
    }
}
