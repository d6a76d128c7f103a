//! The pool of sheaves: arrays of elements, of three sizes ([`super::elements`]), for the
//! stacks of rows and for barns; and the private handle to one.
//!
//! A [`Sheaf`] is in transit: its holder alone owns it and the objects in it.
//!
//! Neighbours: engines take sheaves here and publish them as stacks; a reclaim pass asks for
//! the pages of the unused ones.

use super::elements::{BYTES, Elements, GUARD, LARGE, ROOM, SIZES, STRIDES, View, size_for};
use super::table::Table;
use crate::platform::stack::{ELEMENT_BYTES, STOPPED, Stack};
use crate::platform::{Platform, Stretch};
use crate::sync::{AtomicU32, AtomicUsize, Guard, Lock, Ordering, Rank};

/// No sheaf.
pub const NO_SHEAF: u32 = u32::MAX;

const _: () = assert!(NO_SHEAF == slabyard_abi::region::sheaf::NONE);

/// An array of elements that no other thread can reach, with `count` objects.
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
    objects: &'a [AtomicUsize],
    sheaf: &'a mut Sheaf,
}

impl Filling<'_> {
    /// Adds the objects of the bits of a mask, the one of the highest bit first: they are
    /// `stride` bytes from each other, and that of bit 0 is at `begin`. The caller has seen
    /// that there is room.
    #[inline]
    pub fn push_each(&mut self, begin: usize, stride: usize, mask: u64) {
        let count = self.sheaf.count as usize;
        let elements = &self.objects[count..count + mask.count_ones() as usize];
        self.sheaf.count += elements.len() as u32;
        // Reversed: to find the highest bit is microcode on some processors.
        let mut rest = mask.reverse_bits();
        let is_run = mask.leading_zeros() + mask.count_ones() + mask.trailing_zeros() == 64;
        if is_run {
            // As in a new slab, or where all objects of a word are free: no need to search
            // for bits.
            let mut object = begin + (63 - rest.trailing_zeros() as usize) * stride;
            for element in elements {
                element.store(object, Ordering::Relaxed);
                object = object.wrapping_sub(stride);
            }
            return;
        }
        for element in elements {
            let bit = 63 - rest.trailing_zeros() as usize;
            element.store(begin + bit * stride, Ordering::Relaxed);
            rest &= rest - 1;
        }
    }
}

/// Reclaim passes of a window: the reclaim ticker runs for two windows after the last pass
/// that found work.
const WINDOW: u32 = 4;

/// Sheaves of one size.
#[derive(Clone, Copy)]
pub(super) struct Free {
    /// Sheaves whose pages may be in use, the last one used first.
    head: u32,
    /// Sheaves whose inner pages were given back.
    released: u32,
    /// Sheaves ever made.
    made: u32,
    /// Sheaves on the list of `head`, the fewest of them in this window, and the passes of
    /// this window so far.
    nr: u32,
    least: u32,
    looks: u32,
    /// Sheaves whose pages are to be given back: so many were unused in the last window.
    unused: u32,
}

impl Free {
    const NEW: Free =
        Free { head: NO_SHEAF, released: NO_SHEAF, made: 0, nr: 0, least: 0, looks: 0, unused: 0 };

    /// Counts that a sheaf leaves the list.
    fn leaves(&mut self) {
        self.nr -= 1;
        self.least = self.least.min(self.nr);
        self.unused = self.unused.min(self.nr);
    }

    /// Marks all of them as unused.
    fn rest_all(&mut self) {
        self.unused = self.nr;
    }
}

/// Held by the one thread that may make sheaves.
pub(super) type Making<'a, P> = Guard<'a, [Free; SIZES], P>;

/// All sheaves of a yard.
pub struct SheafPool {
    small: Table<Elements<{ ROOM[0] }>>,
    middle: Table<Elements<{ ROOM[1] }>>,
    large: Table<Elements<{ ROOM[2] }>>,
    /// Number of each size's first element.
    begins: [AtomicU32; SIZES],
    /// Sheaves of each size that there is room for.
    most: AtomicU32,
    free: Lock<[Free; SIZES]>,
}

impl SheafPool {
    pub(super) const fn new() -> Self {
        SheafPool {
            small: Table::new(),
            middle: Table::new(),
            large: Table::new(),
            begins: [const { AtomicU32::new(0) }; SIZES],
            most: AtomicU32::new(0),
            free: Lock::new(Rank::Pool, [Free::NEW; SIZES]),
        }
    }

    pub(super) fn init<P: Platform>(&self, p: &P) {
        let (base, bytes) = p.rows().elements();
        // Whole lines, so that each part is of whole pages.
        let step = p.page_bytes() / 64;
        let most = bytes / BYTES.iter().sum::<usize>() / step * step;
        self.small.set(base, most * BYTES[0]);
        self.middle.set(base + most * BYTES[0], most * BYTES[1]);
        self.large.set(base + most * (BYTES[0] + BYTES[1]), most * BYTES[2]);
        self.most.store(most as u32, Ordering::Relaxed);
        let mut begin = p.rows().element_number(base);
        for (word, stride) in self.begins.iter().zip(STRIDES) {
            word.store(begin, Ordering::Relaxed);
            begin += most as u32 * stride;
        }
    }

    /// Address of the first sheaf, and how many of each size there is room for.
    pub(super) fn begin(&self) -> (usize, usize) {
        (self.small.base(), self.most.load(Ordering::Relaxed) as usize)
    }

    /// Addresses of the numbers of bytes committed for sheaves of each size.
    pub(super) fn words_at(&self) -> [usize; SIZES] {
        [self.small.committed_at(), self.middle.committed_at(), self.large.committed_at()]
    }

    /// Locks the making of sheaves. Taken before the lock of the region's growth.
    pub(super) fn making<'a, P: Platform>(&'a self, p: &'a P) -> Making<'a, P> {
        self.free.lock(p)
    }

    /// Gives up the address space for sheaves that do not exist yet.
    pub(super) fn unreserve<P: Platform>(&self, p: &P, _held: &Making<'_, P>) {
        self.small.unreserve(p);
        self.middle.unreserve(p);
        self.large.unreserve(p);
        let (base, bytes) = p.rows().elements();
        let used = self.begin().1 * BYTES.iter().sum::<usize>();
        p.unreserve(base + used, bytes - used);
    }

    /// Bytes of the elements.
    pub fn metadata_bytes(&self) -> usize {
        self.small.committed_bytes() + self.middle.committed_bytes() + self.large.committed_bytes()
    }

    /// An empty sheaf with room for so many objects, or for as many as any has; `None` if
    /// there is no memory for one.
    pub fn take<P: Platform>(&self, p: &P, objects: u32) -> Option<Sheaf> {
        let mut sizes = self.free.lock(p);
        (size_for(objects)..SIZES).find_map(|size| {
            let free = &mut sizes[size];
            let first = size as u32 * self.most.load(Ordering::Relaxed);
            let index = if free.head != NO_SHEAF {
                let index = free.head;
                free.head = self.elements(index).next.load(Ordering::Relaxed);
                free.leaves();
                index
            } else if free.released != NO_SHEAF {
                let index = free.released;
                free.released = self.elements(index).next.load(Ordering::Relaxed);
                index
            } else {
                let items = free.made as usize + 1;
                let is_there = match size {
                    0 => self.small.ensure(p, items),
                    1 => self.middle.ensure(p, items),
                    _ => self.large.ensure(p, items),
                };
                if !is_there {
                    return None;
                }
                free.made += 1;
                first + free.made - 1
            };
            Some(Sheaf { index, count: 0 })
        })
    }

    /// Takes an empty sheaf back.
    pub fn give<P: Platform>(&self, p: &P, sheaf: Sheaf) {
        debug_assert!(sheaf.is_empty());
        let (size, _) = self.spot(sheaf.index);
        let free = &mut self.free.lock(p)[size];
        self.elements(sheaf.index).next.store(free.head, Ordering::Relaxed);
        free.head = sheaf.index;
        free.nr += 1;
        core::mem::forget(sheaf);
    }

    /// Called at each reclaim pass. At the end of a window of `WINDOW` passes, it marks as
    /// unused as many large sheaves as were free all that time. The program takes and gives
    /// the others, and would fault their pages in again (the working set of a depot: Bonwick
    /// and Adams, "Magazines and vmem", USENIX 2001).
    pub fn look<P: Platform>(&self, p: &P) {
        let free = &mut self.free.lock(p)[LARGE];
        free.looks += 1;
        if free.looks >= WINDOW {
            free.unused = free.least;
            free.least = free.nr;
            free.looks = 0;
        }
    }

    /// Gives the inner pages of all free large sheaves back; returns how many bytes.
    pub fn rest<P: Platform>(&self, p: &P) -> usize {
        self.free.lock(p)[LARGE].rest_all();
        core::iter::from_fn(|| self.rest_one(p)).sum()
    }

    /// Gives the inner pages of one [unused](SheafPool::look) large sheaf back; returns how
    /// many bytes, or `None` if there is no such sheaf.
    pub fn rest_one<P: Platform>(&self, p: &P) -> Option<usize> {
        let page = p.page_bytes();
        // Smaller sheaves share their pages.
        let mut sizes = self.free.lock(p);
        let free = &mut sizes[LARGE];
        free.unused = free.unused.checked_sub(1)?;
        let index = free.head;
        free.head = self.elements(index).next.load(Ordering::Relaxed);
        free.leaves();
        drop(sizes);
        // The sheaf is in transit, and no lock is held. Pages that hold elements for objects
        // alone, not the links.
        let objects = self.elements(index).objects.as_ptr() as usize;
        let begin = objects.next_multiple_of(page);
        let end = (objects + ROOM[LARGE] * ELEMENT_BYTES) / page * page;
        let mut inner = [Stretch { address: begin, bytes: end.saturating_sub(begin) }];
        if inner[0].bytes > 0 {
            p.give_back(&mut inner);
        }
        let [Stretch { bytes: given, .. }] = inner;
        let free = &mut self.free.lock(p)[LARGE];
        self.elements(index).next.store(free.released, Ordering::Relaxed);
        free.released = index;
        Some(given)
    }

    /// Size of the sheaf with an index, and its number among those of its size.
    #[inline]
    fn spot(&self, index: u32) -> (usize, u32) {
        let most = self.most.load(Ordering::Relaxed);
        match index {
            small if small < most => (0, small),
            middle if middle < 2 * most => (1, middle - most),
            large => (LARGE, large - 2 * most),
        }
    }

    #[inline]
    fn elements(&self, index: u32) -> View<'_> {
        match self.spot(index) {
            (0, nr) => self.small.get(nr as usize).into(),
            (1, nr) => self.middle.get(nr as usize).into(),
            (_, nr) => self.large.get(nr as usize).into(),
        }
    }

    /// Objects that this sheaf has room for.
    #[inline]
    pub fn room(&self, sheaf: &Sheaf) -> u32 {
        ROOM[self.spot(sheaf.index).0] as u32
    }

    /// Pushes an object; the caller has checked that there is room.
    #[inline]
    pub fn push(&self, sheaf: &mut Sheaf, object: usize) {
        self.elements(sheaf.index).objects[sheaf.count as usize].store(object, Ordering::Relaxed);
        sheaf.count += 1;
    }

    /// Begins to add many objects; the caller has checked that there is room.
    pub fn filling<'a>(&'a self, sheaf: &'a mut Sheaf) -> Filling<'a> {
        Filling { objects: self.elements(sheaf.index).objects, sheaf }
    }

    /// The objects, the top one last.
    pub fn objects(&self, sheaf: &Sheaf) -> &[AtomicUsize] {
        &self.elements(sheaf.index).objects[..sheaf.count as usize]
    }

    /// Takes so many objects off the top, which the caller has.
    pub fn shorten(&self, sheaf: &mut Sheaf, objects: u32) {
        sheaf.count -= objects;
    }

    /// Takes the top object.
    #[inline]
    pub fn pop(&self, sheaf: &mut Sheaf) -> Option<usize> {
        sheaf.count = sheaf.count.checked_sub(1)?;
        Some(self.elements(sheaf.index).objects[sheaf.count as usize].load(Ordering::Relaxed))
    }

    /// The top object.
    pub fn top(&self, sheaf: &Sheaf) -> Option<usize> {
        let top = sheaf.count.checked_sub(1)?;
        Some(self.elements(sheaf.index).objects[top as usize].load(Ordering::Relaxed))
    }

    /// What an entry holds when this sheaf is its stack, with room for pushes up to
    /// `capacity` objects.
    pub fn publish(&self, sheaf: Sheaf, capacity: u32) -> Stack {
        let (size, nr) = self.spot(sheaf.index);
        let guard = self.begin_of(size) + nr * STRIDES[size] + GUARD;
        let end = guard + capacity.min(ROOM[size] as u32);
        let stack = Stack { top: guard + sheaf.count, end };
        core::mem::forget(sheaf);
        stack
    }

    /// Number of the first element of the sheaves of a size.
    #[inline]
    fn begin_of(&self, size: usize) -> u32 {
        self.begins[size].load(Ordering::Relaxed)
    }

    /// Index and number of objects of the sheaf that is the stack with this top; `None` if
    /// there is none, or the stack is stopped, so that the entry does not hold its top.
    #[inline]
    fn locate(&self, top: u32) -> Option<(u32, u32)> {
        if top == 0 || top == STOPPED {
            return None;
        }
        let size = (1..SIZES).rev().find(|size| top >= self.begin_of(*size)).unwrap_or(0);
        let word = top - self.begin_of(size);
        // Divided by constants.
        let (nr, element) = match size {
            0 => (word / STRIDES[0], word % STRIDES[0]),
            1 => (word / STRIDES[1], word % STRIDES[1]),
            _ => (word / STRIDES[2], word % STRIDES[2]),
        };
        Some((size as u32 * self.most.load(Ordering::Relaxed) + nr, element - GUARD))
    }

    /// The sheaf of a stack that was exchanged out of its entry.
    pub fn adopt(&self, stack: Stack) -> Option<Sheaf> {
        self.locate(stack.top).map(|(index, count)| Sheaf { index, count })
    }

    /// Number of objects of a stack, from its top; `None` without a stack.
    pub fn count_of(&self, top: u32) -> Option<u32> {
        self.locate(top).map(|(_, count)| count)
    }

    /// Takes the sheaf of a stopped stack with this top back into the pool. The caller has
    /// taken the stack out of its entry and returned its objects.
    pub fn give_stopped<P: Platform>(&self, p: &P, top: u32) {
        if let Some((index, _)) = self.locate(top) {
            self.give(p, Sheaf { index, count: 0 });
        }
    }

    /// Objects of a stack that its owner cannot touch (stopped, or its owner
    /// asks), from the number of its top.
    pub fn objects_of(&self, top: u32) -> &[AtomicUsize] {
        self.locate(top)
            .map_or(&[], |(index, count)| &self.elements(index).objects[..count as usize])
    }

    /// Puts a sheaf into a list whose head is `head` (under the list's lock).
    pub fn link(&self, head: &mut u32, sheaf: Sheaf) {
        let elements = self.elements(sheaf.index);
        elements.next.store(*head, Ordering::Relaxed);
        elements.count.store(sheaf.count, Ordering::Relaxed);
        *head = sheaf.index;
        core::mem::forget(sheaf);
    }

    /// Takes the first sheaf of a list (under the list's lock).
    pub fn unlink(&self, head: &mut u32) -> Option<Sheaf> {
        if *head == NO_SHEAF {
            return None;
        }
        let elements = self.elements(*head);
        let sheaf = Sheaf { index: *head, count: elements.count.load(Ordering::Relaxed) };
        *head = elements.next.load(Ordering::Relaxed);
        Some(sheaf)
    }

    /// Calls `f` with each object in the sheaves of a list (under the list's lock).
    pub fn each_listed(&self, mut head: u32, mut f: impl FnMut(usize)) {
        while head != NO_SHEAF {
            let elements = self.elements(head);
            for element in &elements.objects[..elements.count.load(Ordering::Relaxed) as usize] {
                f(element.load(Ordering::Relaxed));
            }
            head = elements.next.load(Ordering::Relaxed);
        }
    }
}
