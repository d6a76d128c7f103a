//! The memory behind stacks: arrays of places, and the private handle to one.
//!
//! ```text
//! Places (8256 bytes = 129 cache lines; an odd number spreads over L1's sets)
//! +------+-----+-------+------------------------------------------+
//! | next | len | guard | objects[0] objects[1] ... objects[1029]   |
//! +------+-----+-------+------------------------------------------+
//!                ^ top of an empty stack
//! ```
//! The guard holds 0: a pop that finds it sees that the stack is empty. The
//! places lie where the rows can number them ([`crate::platform::stack`]).
//!
//! A [`Sheaf`] is in transit: its holder alone owns it and the objects in it.

use super::table::{Table, Zeroed};
use crate::platform::stack::{PLACE_BYTES, STOPPED, Stack};
use crate::platform::{Platform, Stretch};
use crate::sync::{AtomicU32, AtomicUsize, Lock, Ordering, Rank};

/// Places of one sheaf.
pub const PLACES: usize = 1030;
/// No sheaf.
pub const NO_SHEAF: u32 = u32::MAX;

#[repr(C, align(64))]
struct Places {
    next: AtomicU32,
    count: AtomicU32,
    guard: AtomicUsize,
    objects: [AtomicUsize; PLACES],
}

// SAFETY: atomic numbers only.
unsafe impl Zeroed for Places {}

const _: () = {
    use slabyard_abi::region::sheaf;
    assert!(size_of::<Places>() == sheaf::BYTES);
    assert!(core::mem::offset_of!(Places, next) == sheaf::NEXT);
    assert!(core::mem::offset_of!(Places, count) == sheaf::COUNT);
    assert!(core::mem::offset_of!(Places, guard) == sheaf::GUARD);
    assert!(core::mem::offset_of!(Places, objects) == sheaf::OBJECTS);
    assert!(NO_SHEAF == sheaf::NONE);
};
/// Words of one sheaf, and its guard's number among them.
const STRIDE: u32 = (size_of::<Places>() / PLACE_BYTES) as u32;
const GUARD: u32 = (core::mem::offset_of!(Places, guard) / PLACE_BYTES) as u32;

/// An array of places that nobody else can reach, with `count` objects.
#[must_use]
#[derive(Debug)]
pub struct Sheaf {
    index: u32,
    count: u32,
}

impl Drop for Sheaf {
    fn drop(&mut self) {
        debug_assert!(false, "a sheaf was dropped with {} objects", self.count);
    }
}

impl Sheaf {
    /// Objects in it.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// True without objects.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A sheaf that is being filled.
pub struct Filling<'a> {
    objects: &'a [AtomicUsize; PLACES],
    sheaf: &'a mut Sheaf,
}

impl Filling<'_> {
    /// Adds an object.
    #[inline]
    pub fn push(&mut self, object: usize) {
        self.objects[self.sheaf.count as usize].store(object, Ordering::Relaxed);
        self.sheaf.count += 1;
    }
}

struct Free {
    /// Sheaves whose pages may be in use, the last one used first.
    head: u32,
    /// Sheaves whose inner pages were given back.
    bare: u32,
    /// Sheaves ever made.
    made: u32,
}

/// All places of a yard.
pub struct SheafPool {
    table: Table<Places>,
    /// Number of the table's first place.
    first: AtomicU32,
    free: Lock<Free>,
}

impl SheafPool {
    pub(super) const fn new() -> Self {
        SheafPool {
            table: Table::new(),
            first: AtomicU32::new(0),
            free: Lock::new(Rank::Pool, Free { head: NO_SHEAF, bare: NO_SHEAF, made: 0 }),
        }
    }

    pub(super) fn init<P: Platform>(&self, p: &P) {
        let (base, bytes) = p.rows().places();
        self.table.set(base, bytes);
        self.first.store(p.rows().place_number(base), Ordering::Relaxed);
    }

    /// Address of the first sheaf, and of the number of bytes committed for sheaves.
    pub(super) fn words_at(&self) -> [usize; 2] {
        [self.table.base(), self.table.committed_at()]
    }

    /// Bytes of the places.
    pub fn metadata_bytes(&self) -> usize {
        self.table.committed_bytes()
    }

    /// An empty sheaf; `None` if there is no memory for one.
    pub fn take<P: Platform>(&self, p: &P) -> Option<Sheaf> {
        let mut free = self.free.lock(p);
        let index = if free.head != NO_SHEAF {
            let index = free.head;
            free.head = self.places(index).next.load(Ordering::Relaxed);
            index
        } else if free.bare != NO_SHEAF {
            let index = free.bare;
            free.bare = self.places(index).next.load(Ordering::Relaxed);
            index
        } else {
            let index = free.made;
            if !self.table.ensure(p, index as usize + 1) {
                return None;
            }
            free.made += 1;
            index
        };
        Some(Sheaf { index, count: 0 })
    }

    /// Takes an empty sheaf back.
    pub fn give<P: Platform>(&self, p: &P, sheaf: Sheaf) {
        debug_assert!(sheaf.is_empty());
        let mut free = self.free.lock(p);
        self.places(sheaf.index).next.store(free.head, Ordering::Relaxed);
        free.head = sheaf.index;
        core::mem::forget(sheaf);
    }

    /// Gives the inner pages of sheaves back that nobody uses. Returns how many bytes.
    pub fn rest<P: Platform>(&self, p: &P) -> usize {
        core::iter::from_fn(|| self.rest_one(p)).sum()
    }

    /// Gives the inner pages of one such sheaf back. Returns how many bytes; `None` if
    /// there is none.
    pub fn rest_one<P: Platform>(&self, p: &P) -> Option<usize> {
        let page = p.page_bytes();
        let mut free = self.free.lock(p);
        let index = free.head;
        if index == NO_SHEAF {
            return None;
        }
        free.head = self.places(index).next.load(Ordering::Relaxed);
        drop(free);
        // In transit, and no lock is held: pages that hold objects' places alone.
        let objects = self.places(index).objects.as_ptr() as usize;
        let begin = objects.next_multiple_of(page);
        let end = (objects + PLACES * PLACE_BYTES) / page * page;
        let given = end.saturating_sub(begin);
        if given > 0 {
            p.give_back(&[Stretch { address: begin, bytes: given }]);
        }
        let mut free = self.free.lock(p);
        self.places(index).next.store(free.bare, Ordering::Relaxed);
        free.bare = index;
        Some(given)
    }

    fn places(&self, index: u32) -> &Places {
        self.table.get(index as usize)
    }

    /// Adds an object; the caller has seen that there is room.
    #[inline]
    pub fn push(&self, sheaf: &mut Sheaf, object: usize) {
        self.places(sheaf.index).objects[sheaf.count as usize].store(object, Ordering::Relaxed);
        sheaf.count += 1;
    }

    /// To add many objects; the caller has seen that there is room.
    pub fn filling<'a>(&'a self, sheaf: &'a mut Sheaf) -> Filling<'a> {
        Filling { objects: &self.places(sheaf.index).objects, sheaf }
    }

    /// Takes all objects, the top one first.
    pub fn pop_all(&self, sheaf: &mut Sheaf) -> impl Iterator<Item = usize> + '_ {
        let count = core::mem::take(&mut sheaf.count) as usize;
        let objects = self.places(sheaf.index).objects[..count].iter().rev();
        objects.map(|place| place.load(Ordering::Relaxed))
    }

    /// Takes the top object.
    #[inline]
    pub fn pop(&self, sheaf: &mut Sheaf) -> Option<usize> {
        sheaf.count = sheaf.count.checked_sub(1)?;
        Some(self.places(sheaf.index).objects[sheaf.count as usize].load(Ordering::Relaxed))
    }

    /// The top object.
    pub fn top(&self, sheaf: &Sheaf) -> Option<usize> {
        let top = sheaf.count.checked_sub(1)?;
        Some(self.places(sheaf.index).objects[top as usize].load(Ordering::Relaxed))
    }

    /// What an entry holds when this sheaf is its stack, with room for pushes up to
    /// `capacity` objects.
    pub fn publish(&self, sheaf: Sheaf, capacity: u32) -> Stack {
        let guard = self.first.load(Ordering::Relaxed) + sheaf.index * STRIDE + GUARD;
        let stack = Stack { top: guard + sheaf.count, end: guard + capacity };
        core::mem::forget(sheaf);
        stack
    }

    /// Index and objects of the sheaf behind the stack with this top; `None` if
    /// there is none, or it is stopped and its top is not told.
    fn locate(&self, top: u32) -> Option<(u32, u32)> {
        if top == 0 || top == STOPPED {
            return None;
        }
        let word = top - self.first.load(Ordering::Relaxed);
        Some((word / STRIDE, word % STRIDE - GUARD))
    }

    /// The sheaf of a stack that was taken out of its entry.
    pub fn adopt(&self, stack: Stack) -> Option<Sheaf> {
        self.locate(stack.top).map(|(index, count)| Sheaf { index, count })
    }

    /// Objects of a stack, from the number of its top; `None` without a stack.
    pub fn count_of(&self, top: u32) -> Option<u32> {
        self.locate(top).map(|(_, count)| count)
    }

    /// Takes a sheaf back whose stack, with this top, was stopped and taken away, its
    /// objects with it.
    pub fn give_stopped<P: Platform>(&self, p: &P, top: u32) {
        if let Some((index, _)) = self.locate(top) {
            self.give(p, Sheaf { index, count: 0 });
        }
    }

    /// Objects of a stack that its owner cannot touch (stopped, or its owner
    /// asks), from the number of its top.
    pub fn objects_of(&self, top: u32) -> impl Iterator<Item = usize> + '_ {
        self.locate(top)
            .into_iter()
            .flat_map(|(index, count)| &self.places(index).objects[..count as usize])
            .map(|place| place.load(Ordering::Relaxed))
    }

    /// Puts a sheaf into a list whose head is `head` (under the list's lock).
    pub fn link(&self, head: &mut u32, sheaf: Sheaf) {
        let places = self.places(sheaf.index);
        places.next.store(*head, Ordering::Relaxed);
        places.count.store(sheaf.count, Ordering::Relaxed);
        *head = sheaf.index;
        core::mem::forget(sheaf);
    }

    /// Takes the first sheaf of a list (under the list's lock).
    pub fn unlink(&self, head: &mut u32) -> Option<Sheaf> {
        if *head == NO_SHEAF {
            return None;
        }
        let places = self.places(*head);
        let sheaf = Sheaf { index: *head, count: places.count.load(Ordering::Relaxed) };
        *head = places.next.load(Ordering::Relaxed);
        Some(sheaf)
    }

    /// Calls `f` with each object in the sheaves of a list (under the list's lock).
    pub fn each_listed(&self, mut head: u32, mut f: impl FnMut(usize)) {
        while head != NO_SHEAF {
            let places = self.places(head);
            for place in &places.objects[..places.count.load(Ordering::Relaxed) as usize] {
                f(place.load(Ordering::Relaxed));
            }
            head = places.next.load(Ordering::Relaxed);
        }
    }
}
