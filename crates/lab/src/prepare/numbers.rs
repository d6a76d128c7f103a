//! Object numbers, by which a replay knows which object a step concerns.
//!
//! [`super::frames`] numbers the objects known from the start, and [`super::matching`] those of
//! slabs allocated later. Invariant: a number belongs to one object until that object's slab is
//! freed, and only then to another object.

use super::error::Error;
use std::collections::{HashMap, VecDeque};

/// How objects are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbering {
    /// Each object of each slab has a number of its own.
    Own,
    /// Slabs that the trace opens take the numbers of slabs that it closed.
    Again,
}

/// No number of an object.
pub(super) const NO_NUMBER: u32 = u32::MAX;

/// Numbers of objects.
pub(super) struct Numbers {
    pub(super) numbering: Numbering,
    next: u32,
    /// First numbers of ended slabs and when the last of their steps ran, by number of objects.
    free: HashMap<u32, VecDeque<(u64, u32)>>,
}

impl Numbers {
    /// Those of so many objects are taken.
    pub(super) fn new(numbering: Numbering, next: u32) -> Numbers {
        Numbers { numbering, next, free: HashMap::new() }
    }

    /// The lowest that was never taken.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Takes back the numbers of a slab whose last step ran at `until`.
    pub(super) fn give_back(&mut self, objects: u32, until: u64, first: u32) {
        self.free.entry(objects).or_default().push_back((until, first));
    }

    /// Numbers for the objects of a slab whose steps run at `from` or later: those of a slab whose
    /// steps ran until then, so that in order of time no object of both is live at once.
    pub(super) fn take(&mut self, objects: u32, from: u64) -> Result<u32, Error> {
        if let Some(free) = self.free.get_mut(&objects)
            && free.front().is_some_and(|(until, _)| *until <= from)
            && let Some((_, first)) = free.pop_front()
        {
            return Ok(first);
        }
        let first = self.next;
        self.next = first.checked_add(objects).ok_or(Error::TooLong("objects of all slabs"))?;
        Ok(first)
    }
}
