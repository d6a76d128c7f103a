//! The pages of a trace that are not slabs: page tables, pipe buffers, stacks and large
//! allocations, if they were recorded.
//!
//! A block that is freed but was not allocated in the trace was in use before the trace. Such a
//! block may be freed in parts.
//!
//! [`crate::prepare`] finds out which pages are slabs; [`super::memory`] allocates the other pages
//! from its machine. Invariant: each page that is freed was allocated, or in use at the start,
//! exactly once.

use crate::event::{Event, EventKind};
use crate::prepare::Slab;
use crate::trace::{Error, Events};
use std::collections::{BTreeMap, HashSet};

/// Pages that are no slabs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherPages {
    /// Orders of the blocks that were in use before, which have the first numbers.
    pub of_start: Vec<u8>,
    /// What becomes of blocks, in order of time.
    pub steps: Vec<PageEvent>,
}

/// Something that happens to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEvent {
    /// Since the trace began.
    pub time_ns: u64,
    /// The block.
    pub number: u32,
    /// The traced CPU.
    pub cpu: u16,
    /// Whether it is allocated, freed or split.
    pub what: PageOp,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOp {
    /// The block is allocated, with this order.
    Take(u8),
    /// The block is freed, or the rest of it.
    Put,
    /// A part is freed: its first page in the block, its order.
    PutPart(u32, u8),
}

/// A block that is held, by its first frame.
struct PageBlock {
    number: u32,
    order: u8,
    left: u32,
}

impl OtherPages {
    /// Those of a trace that has these slabs.
    ///
    /// # Errors
    /// The trace's file cannot be read.
    pub fn of(events: Events<'_>, slabs: &[Slab]) -> Result<OtherPages, Error> {
        let opened: HashSet<(u64, u64)> =
            slabs.iter().map(|slab| (slab.frame, slab.opened_at)).collect();
        let closed: HashSet<(u64, u64)> =
            slabs.iter().filter_map(|slab| Some((slab.frame, slab.closed_at?))).collect();
        let mut others = OtherPages::default();
        let mut held: BTreeMap<u64, PageBlock> = BTreeMap::new();
        // Numbers of those of the start are not known yet: from the highest down.
        let mut next = 0;
        let mut pass = events.pass()?;
        while let Some(block) = pass.next_block()? {
            for event in block {
                let at = (event.address, event.time);
                match event.kind {
                    EventKind::PageAlloc if !opened.contains(&at) => {
                        let (number, order) = (next, event.order);
                        next += 1;
                        let new = PageBlock { number, order, left: 1 << order };
                        if let Some(old) = held.insert(event.address, new) {
                            // Its end is missing.
                            others.note(event, old.number, PageOp::Put);
                        }
                        others.note(event, number, PageOp::Take(order));
                    }
                    EventKind::PageFree if !closed.contains(&at) => {
                        let what = give_back(&mut held, event).unwrap_or_else(|| {
                            others.of_start.push(event.order);
                            (u32::MAX - (others.of_start.len() as u32 - 1), PageOp::Put)
                        });
                        others.note(event, what.0, what.1);
                    }
                    _ => {}
                }
            }
        }
        let of_start = others.of_start.len() as u32;
        for step in &mut others.steps {
            let nth = u32::MAX - step.number;
            step.number = if nth < of_start { nth } else { step.number + of_start };
        }
        others.steps.sort_by_key(|step| step.time_ns);
        Ok(others)
    }

    fn note(&mut self, event: &Event, number: u32, what: PageOp) {
        self.steps.push(PageEvent { time_ns: event.time, number, cpu: event.cpu, what });
    }
}

/// What becomes of the block that pages are of; `None` if none is held.
fn give_back(held: &mut BTreeMap<u64, PageBlock>, event: &Event) -> Option<(u32, PageOp)> {
    let (first, block) = held.range_mut(..=event.address).next_back()?;
    let (first, number, order) = (*first, block.number, block.order);
    if event.address >= first + (1 << order) || event.order > order {
        return None;
    }
    block.left = block.left.saturating_sub(1 << event.order);
    if block.left == 0 {
        held.remove(&first);
    }
    Some(match order == event.order {
        true => (number, PageOp::Put),
        false => (number, PageOp::PutPart((event.address - first) as u32, event.order)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time: u64, kind: EventKind, address: u64, order: u8) -> Event {
        Event { time, kind, address, order, ..Event::BLANK }
    }

    #[test]
    fn pages_that_are_no_slabs_are_told_in_order() {
        let slab =
            Slab { frame: 8, opened_at: 10, closed_at: Some(60), initial: false, ..Slab::ONE };
        let events = [
            event(10, EventKind::PageAlloc, 8, 0),
            event(20, EventKind::PageAlloc, 16, 2),
            event(30, EventKind::PageFree, 18, 1),
            event(40, EventKind::PageFree, 100, 3),
            event(50, EventKind::PageFree, 16, 1),
            event(60, EventKind::PageFree, 8, 0),
            event(70, EventKind::PageAlloc, 8, 0),
            event(80, EventKind::PageFree, 8, 0),
        ];
        let others = OtherPages::of(Events::Held(&events), &[slab]).expect("events in memory");
        assert_eq!(others.of_start, [3]);
        let steps: Vec<(u64, u32, PageOp)> =
            others.steps.iter().map(|of| (of.time_ns, of.number, of.what)).collect();
        let expected = [
            (20, 1, PageOp::Take(2)),
            (30, 1, PageOp::PutPart(2, 1)),
            (40, 0, PageOp::Put),
            (50, 1, PageOp::PutPart(0, 1)),
            (70, 2, PageOp::Take(0)),
            (80, 2, PageOp::Put),
        ];
        assert_eq!(steps, expected);
    }
}
