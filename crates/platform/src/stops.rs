//! Stopped stacks: their owner can neither pop nor push, and the thread that stopped them owns the
//! objects in them.
//!
//! Neighbours: [`crate::stack`] defines the marks, [`crate::PerCpu::fence`] aborts the restartable
//! sequences that may have read a stack before its mark. Reclaim drains stopped stacks. Invariant:
//! the caller ensures that no other thread stops or starts these stacks, and that
//! [`crate::PerCpu::can_stop`] was true.

use crate::PerCpu;
use crate::stack::{STOPPED, Slot};

/// Row, slot and top of a stack to stop.
type Stop = (usize, Slot, u32);

/// Stores the top of a stack as soon as it is marked, and `None` before and where the mark is gone.
/// A fork may come between any two instructions: its child finds the objects of all stacks but one.
type Keep<'a> = &'a dyn Fn(usize, Slot, Option<u32>);

/// Stops stacks, and returns true. `stops` gives row and slot of each; its third part receives the
/// top that each had. False if the kernel refuses a fence: no stack is stopped then. (A stack in use
/// may take several fences.)
pub fn stop<P: PerCpu>(p: &P, stops: &mut [Stop], keep: Keep<'_>) -> bool {
    stops.iter_mut().for_each(|stop| mark(p, stop, keep));
    // An owner that had read its top before the mark may still overwrite it by its committing store.
    // After the fence no such store is on its way; a mark that got lost is made again.
    loop {
        if !fence(p, stops) {
            unmark(p, stops, keep);
            return false;
        }
        let mut lost = false;
        for stop in stops.iter_mut().filter(|stop| !is_stopped(p, stop)) {
            mark(p, stop, keep);
            lost = true;
        }
        if !lost {
            return true;
        }
    }
}

/// As [`stop`], by one fence: a stack whose owner used it meanwhile is not stopped, and its third part
/// says [`STOPPED`]; so does that of each if the kernel refuses the fence.
pub fn stop_idle<P: PerCpu>(p: &P, stops: &mut [Stop], keep: Keep<'_>) {
    stops.iter_mut().for_each(|stop| mark(p, stop, keep));
    if !fence(p, stops) {
        unmark(p, stops, keep);
    }
    for stop in stops.iter_mut().filter(|stop| !is_stopped(p, stop)) {
        keep(stop.0, stop.1, None);
        stop.2 = STOPPED;
    }
}

/// Of the rows' CPUs, each once, as stops are in their order: on one of them runs what may have read an
/// entry before its mark.
fn fence<P: PerCpu>(p: &P, stops: &[Stop]) -> bool {
    debug_assert!(stops.is_sorted_by_key(|stop| stop.0));
    let mut last = None;
    let is_next = move |row: &usize| last.replace(*row) != Some(*row);
    stops.is_empty() || p.fence_rows(stops.iter().map(|stop| stop.0).filter(is_next))
}

fn is_stopped<P: PerCpu>(p: &P, (row, slot, _): &Stop) -> bool {
    p.rows().entry(*row, *slot).is_stopped()
}

fn mark<P: PerCpu>(p: &P, (row, slot, top): &mut Stop, keep: Keep<'_>) {
    keep(*row, *slot, None);
    *top = p.rows().entry(*row, *slot).mark_stopped();
    keep(*row, *slot, Some(*top));
}

/// Takes marks back after a refused fence.
fn unmark<P: PerCpu>(p: &P, stops: &[Stop], keep: Keep<'_>) {
    for (row, slot, top) in stops {
        p.rows().entry(*row, *slot).unmark(*top);
        keep(*row, *slot, None);
    }
}
