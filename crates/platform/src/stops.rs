//! Stopped stacks: their owner can neither pop nor push, and the thread that stopped them owns the
//! objects in them.
//!
//! Neighbours: [`crate::stack`] defines the marks, [`crate::PerCpu::fence`] aborts the restartable
//! sequences that may have read a stack before its mark. Reclaim drains stopped stacks. Invariant:
//! the caller ensures that no other thread stops or starts these stacks, and that
//! [`crate::PerCpu::can_stop`] was true.

use crate::PerCpu;
use crate::stack::{STOPPED, Slot};

/// Stops stacks, and returns true. `stops` gives row and slot of each; its third part receives the
/// top that each had. False if the kernel refuses a fence: no stack is stopped then.
///
/// A stack in use may take several fences.
pub fn stop<P: PerCpu>(p: &P, stops: &mut [(usize, Slot, u32)]) -> bool {
    mark(p, stops);
    // An owner that had read its top before the mark may still overwrite
    // it by its committing store. After the fence no such store is on its
    // way; a mark that got lost is made again.
    loop {
        if !p.fence() {
            unmark(p, stops);
            return false;
        }
        let mut lost = false;
        for (row, slot, top) in stops.iter_mut() {
            let entry = p.rows().entry(*row, *slot);
            if !entry.is_stopped() {
                *top = entry.mark_stopped();
                lost = true;
            }
        }
        if !lost {
            return true;
        }
    }
}

/// As [`stop`], by one fence: a stack whose owner used it meanwhile is
/// not stopped, and its third part says [`STOPPED`]; so does that of each if
/// the kernel refuses the fence.
pub fn stop_idle<P: PerCpu>(p: &P, stops: &mut [(usize, Slot, u32)]) {
    mark(p, stops);
    if !p.fence() {
        unmark(p, stops);
        stops.iter_mut().for_each(|(.., top)| *top = STOPPED);
    }
    for (row, slot, top) in stops.iter_mut() {
        if !p.rows().entry(*row, *slot).is_stopped() {
            *top = STOPPED;
        }
    }
}

fn mark<P: PerCpu>(p: &P, stops: &mut [(usize, Slot, u32)]) {
    for (row, slot, top) in stops {
        *top = p.rows().entry(*row, *slot).mark_stopped();
    }
}

/// Takes marks back after a refused fence.
fn unmark<P: PerCpu>(p: &P, stops: &[(usize, Slot, u32)]) {
    for (row, slot, top) in stops {
        p.rows().entry(*row, *slot).unmark(*top);
    }
}
