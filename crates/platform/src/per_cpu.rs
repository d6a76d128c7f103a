//! The stacks of this CPU: the row of the running thread, the restartable sequences that work on
//! it, and the fence that aborts sequences on other CPUs.
//!
//! Neighbours: [`crate::stack`] draws a row; [`crate::stops`] stops stacks, by marks and a fence;
//! [`crate::rseq`] implements the sequences on real CPUs. Invariant: a stack is changed only by the
//! owner of its row, by one committing store, or by a thread that [stopped](crate::stop) it.

use crate::FastPath;
use crate::stack::{Rows, Slot, Stack, Stopped};
use crate::sync::Ordering;

/// Which objects a push takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Whatever tag the stack has.
    Each,
    /// Those that have the [`Tag`](crate::stack::Tag) of the stack, which must be of a kind that
    /// has one. Of several at once a stack that takes the objects of one slab alone may take none.
    Tagged,
}

/// Rows of stacks, one for each CPU (or thread), and what their owner does with them.
pub trait PerCpu {
    /// The rows of stacks.
    fn rows(&self) -> &Rows;

    /// Makes this many bytes of each row usable, whole pages, which read as zero. False if the
    /// system refuses: then no more are usable than before. One caller at a time.
    fn commit_rows(&self, bytes: usize) -> bool;

    /// Called at the start of every slow path: gives this thread its row, where
    /// the platform hands rows to threads.
    fn enter(&self);

    /// This CPU's row, if it has one now. A hint: the thread may move at once.
    fn row_hint(&self) -> Option<usize>;

    /// True if another CPU's sequence can be fenced, as far as is known: the kernel may refuse
    /// [`PerCpu::fence`] all the same, and then this is false from then on.
    fn can_stop(&self) -> bool;

    /// When it returns true, no sequence that began before is still able to commit. False
    /// if the kernel refuses: nothing is known of them then.
    fn fence(&self) -> bool;

    /// As [`PerCpu::fence`], of the sequences on some rows.
    fn fence_rows(&self, rows: impl Iterator<Item = usize> + Clone) -> bool;

    /// Takes the top object of this CPU's stack; `None` if it is empty or stopped.
    fn pop(&self, slot: Slot) -> Option<usize>;

    /// As [`PerCpu::pop`], where the platform has a sequence that needs no call. A thread that
    /// has left its row must not come here.
    #[inline(always)]
    fn pop_inlined(&self, words: &FastPath) -> Option<usize> {
        self.pop(words.slot_of_pop())
    }

    /// Puts an object on this CPU's stack; false if it is full or stopped, does not take the
    /// object, or has it on its top already.
    fn push(&self, slot: Slot, object: usize, takes: Takes) -> bool;

    /// As [`PerCpu::pop_inlined`]: counts the row's countdown down, and then does what
    /// [`PerCpu::push`] does; false, too, if the countdown is over. Whether the object is on top
    /// already it may not notice: a box is dropped once.
    #[inline(always)]
    fn push_inlined(&self, words: &FastPath, object: usize) -> bool
    where
        Self: Sized,
    {
        count_down(self, 1) && self.push(words.slot(), object, Takes::Each)
    }

    /// Takes the top objects of this CPU's stack, the top first, as many as it has and `out` has room
    /// for; returns how many.
    fn pop_many(&self, slot: Slot, out: &mut [usize]) -> usize;

    /// Puts objects on this CPU's stack, the last one on top; returns how many of the first found
    /// room. None if the first of them is on its top already.
    fn push_many(&self, slot: Slot, objects: &[usize], takes: Takes) -> usize;

    /// Replaces this CPU's stack as a whole, and returns the one before. Its row is in use from now on.
    ///
    /// # Errors
    /// [`Stopped`] if the stack is stopped, this thread has no row, or it was preempted or moved in the
    /// midst; nothing has changed then.
    fn exchange(&self, slot: Slot, new: Stack) -> Result<Stack, Stopped>;
}

/// Counts frees of this CPU's row; false if the countdown ran out. The sequences of
/// `free` do the same themselves.
#[inline]
pub fn count_down<P: PerCpu>(p: &P, frees: u32) -> bool {
    p.row_hint().is_some_and(|row| {
        let word = p.rows().countdown(row);
        let after = word.load(Ordering::Relaxed).wrapping_sub(frees).cast_signed();
        word.store(after as u32, Ordering::Relaxed);
        after >= 0
    })
}
