//! The memory behind stacks: arrays of places, and the private handle to one.
//!
//! ```text
//! Places (2112 bytes = 33 cache lines; an odd number spreads over L1's sets)
//! +------+-----+-------+------------------------------------------+
//! | next | pad | guard | objects[0] objects[1] ... objects[261]   |
//! +------+-----+-------+------------------------------------------+
//!                      ^ what an entry points to
//! ```
//! The guard is what the push sequence compares with when the stack is empty:
//! never an object's address.
//!
//! A [`Sheaf`] is in transit: its holder alone owns it and the objects in it.

use super::table::{Table, Zeroed};
use crate::platform::{Platform, Stack};
use crate::sync::{AtomicU32, AtomicUsize, Lock, Ordering, Rank};

/// Places of one sheaf.
pub const PLACES: usize = 262;
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

const _: () = assert!(size_of::<Places>() == 2112);
const HEAD: usize = core::mem::offset_of!(Places, objects);

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

struct Free {
    head: u32,
    /// Sheaves ever made.
    made: u32,
}

/// All places of a yard.
pub struct SheafPool {
    table: Table<Places>,
    free: Lock<Free>,
}

impl SheafPool {
    pub(super) const fn new() -> Self {
        SheafPool {
            table: Table::new(),
            free: Lock::new(Rank::Pool, Free { head: NO_SHEAF, made: 0 }),
        }
    }

    pub(super) fn init<P: Platform>(&self, p: &P, granules: usize) -> bool {
        // 1.6 % of the reserve at most, and never more than 64 Ki sheaves.
        self.table.reserve(p, (granules / 32).clamp(1024, 1 << 16))
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

    fn places(&self, index: u32) -> &Places {
        self.table.get(index as usize)
    }

    /// Adds an object; the caller has seen that there is room.
    #[inline]
    pub fn push(&self, sheaf: &mut Sheaf, object: usize) {
        self.places(sheaf.index).objects[sheaf.count as usize].store(object, Ordering::Relaxed);
        sheaf.count += 1;
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

    /// Moves the `n` oldest objects out, into `to`, and closes the gap.
    pub fn take_oldest(&self, sheaf: &mut Sheaf, to: &mut [usize]) {
        let places = &self.places(sheaf.index).objects;
        for (place, to) in places.iter().zip(to.iter_mut()) {
            *to = place.load(Ordering::Relaxed);
        }
        for i in to.len()..sheaf.count as usize {
            places[i - to.len()].store(places[i].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        sheaf.count -= to.len() as u32;
    }

    /// What an entry holds when this sheaf is its stack.
    pub fn publish(&self, sheaf: Sheaf, capacity: u32) -> Stack {
        let objects = self.table.base() + sheaf.index as usize * size_of::<Places>() + HEAD;
        let stack = Stack { count: sheaf.count, capacity, objects };
        core::mem::forget(sheaf);
        stack
    }

    /// The sheaf of a stack that was taken out of its entry.
    pub fn adopt(&self, stack: Stack) -> Option<Sheaf> {
        let index = self.index_of(stack.objects)?;
        Some(Sheaf { index, count: stack.count })
    }

    fn index_of(&self, objects: usize) -> Option<u32> {
        (objects != 0).then(|| ((objects - HEAD - self.table.base()) / size_of::<Places>()) as u32)
    }

    /// Objects of a stack that its owner cannot touch (stopped, or its owner asks).
    pub fn objects_of(&self, objects: usize, count: u32) -> impl Iterator<Item = usize> + '_ {
        let places = self.index_of(objects).map(|i| self.places(i));
        (0..count as usize)
            .filter_map(move |i| places.map(|p| p.objects[i].load(Ordering::Relaxed)))
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
