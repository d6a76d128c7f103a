//! The sheaf pool's operations on a handle: push and pop elements, publish it as a stack, take it
//! back, list it.
//!
//! Neighbours: [`super::sheaf`] is the handle; [`super::sheaf_pool`] owns the arrays.

use super::elements::LARGE;
use crate::pages::Sheaf;
use crate::pages::elements::{GUARD, ROOM, STRIDES, View};
use crate::pages::sheaf::{Filling, NO_SHEAF};
use crate::pages::sheaf_pool::SheafPool;
use crate::platform::stack::{ELEMENT_BYTES, STOPPED, Tag};
use crate::platform::{Entry, Stack};
use crate::sync::{AtomicU32, AtomicUsize, Ordering, compiler_fence};

impl SheafPool {
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

    /// The handle of the sheaf with an index, which holds this many objects.
    #[inline]
    pub(super) fn at(&self, index: u32, count: u32) -> Sheaf {
        let (size, nr) = self.spot(index);
        let guard = self.begin_of(size) + nr * STRIDES[size] + GUARD;
        Sheaf { guard, room: ROOM[size] as u32, count }
    }

    /// The index of a sheaf, by which lists name it.
    fn index_of(&self, sheaf: &Sheaf) -> u32 {
        let size = sheaf.size();
        let element = sheaf.guard - self.begin_of(size);
        // Divided by constants.
        let nr = match size {
            0 => element / STRIDES[0],
            1 => element / STRIDES[1],
            _ => element / STRIDES[2],
        };
        size as u32 * self.most.load(Ordering::Relaxed) + nr
    }

    #[inline]
    fn elements(&self, sheaf: &Sheaf) -> View<'_> {
        self.elements_at(sheaf.guard, sheaf.room)
    }

    #[inline]
    fn elements_at(&self, guard: u32, room: u32) -> View<'_> {
        let guard = self.origin.load(Ordering::Relaxed) + guard as usize * ELEMENT_BYTES;
        // SAFETY: the guard is one of a sheaf with this room that was made: its memory stays for
        // ever, and is changed as atomic numbers only.
        unsafe { View::at(guard, room as usize) }
    }

    /// As [`SheafPool::elements`], of a sheaf on a list.
    #[inline(never)]
    pub(super) fn listed(&self, index: u32) -> View<'_> {
        let (size, nr) = self.spot(index);
        self.elements_at(self.begin_of(size) + nr * STRIDES[size] + GUARD, ROOM[size] as u32)
    }

    /// Objects that this sheaf has room for.
    #[inline]
    pub fn room(&self, sheaf: &Sheaf) -> u32 {
        sheaf.room
    }

    /// Pushes an object; the caller has checked that there is room.
    #[inline]
    pub fn push(&self, sheaf: &mut Sheaf, object: usize) {
        self.elements(sheaf).objects[sheaf.count as usize].store(object, Ordering::Relaxed);
        sheaf.count += 1;
    }

    /// Pushes objects, the last of them on top; the caller has checked that there is room.
    pub fn append(&self, sheaf: &mut Sheaf, objects: &[AtomicUsize]) {
        let room = &self.elements(sheaf).objects[sheaf.count as usize..][..objects.len()];
        for (to, from) in room.iter().zip(objects) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        sheaf.count += objects.len() as u32;
    }

    /// Begins to add many objects; the caller has checked that there is room.
    pub fn filling<'a>(&'a self, sheaf: &'a mut Sheaf) -> Filling<'a> {
        Filling { objects: self.elements(sheaf).objects, sheaf }
    }

    /// The objects, the top one last.
    pub fn objects(&self, sheaf: &Sheaf) -> &[AtomicUsize] {
        &self.elements(sheaf).objects[..sheaf.count as usize]
    }

    /// Takes this many objects off the top, which the caller has.
    pub fn shorten(&self, sheaf: &mut Sheaf, objects: u32) {
        sheaf.count -= objects;
    }

    /// Takes the top object.
    #[inline]
    pub fn pop(&self, sheaf: &mut Sheaf) -> Option<usize> {
        sheaf.count = sheaf.count.checked_sub(1)?;
        Some(self.elements(sheaf).objects[sheaf.count as usize].load(Ordering::Relaxed))
    }

    /// Takes the object with a number, counted from the bottom, out; those above it move down.
    ///
    /// # Panics
    /// If the sheaf does not have this many.
    pub fn remove(&self, sheaf: &mut Sheaf, nth: usize) -> usize {
        let objects = self.objects(sheaf);
        let removed = objects[nth].load(Ordering::Relaxed);
        for pair in objects[nth..].windows(2) {
            pair[0].store(pair[1].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        sheaf.count -= 1;
        removed
    }

    /// Takes this many objects off the bottom, which the caller has; the others move down.
    pub fn drop_oldest(&self, sheaf: &mut Sheaf, objects: u32) {
        let all = self.objects(sheaf);
        let left = &all[objects as usize..];
        for (to, from) in all.iter().zip(left) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        sheaf.count -= objects;
    }

    /// Moves this many objects from the top to the bottom, the first of them to above the others.
    ///
    /// # Panics
    /// If the sheaf does not have this many.
    pub fn turn_under(&self, sheaf: &mut Sheaf, objects: u32) {
        let all = self.objects(sheaf);
        let reverse = |part: &[AtomicUsize]| {
            for nth in 0..part.len() / 2 {
                let (low, high) = (&part[nth], &part[part.len() - 1 - nth]);
                let moved = low.swap(high.load(Ordering::Relaxed), Ordering::Relaxed);
                high.store(moved, Ordering::Relaxed);
            }
        };
        reverse(all);
        reverse(&all[objects as usize..]);
    }

    /// The top object.
    pub fn top(&self, sheaf: &Sheaf) -> Option<usize> {
        let top = sheaf.count.checked_sub(1)?;
        Some(self.elements(sheaf).objects[top as usize].load(Ordering::Relaxed))
    }

    /// What an entry holds when this sheaf is its stack, with room for pushes up to
    /// `capacity` objects.
    pub fn publish(&self, sheaf: Sheaf, capacity: u32) -> Stack {
        let end = sheaf.guard + capacity.min(self.room(&sheaf));
        let stack = Stack { top: sheaf.guard + sheaf.count, end };
        core::mem::forget(sheaf);
        stack
    }

    /// As [`SheafPool::publish`], with a tag, which is behind all objects that there are: those
    /// of a sheaf from before the capacity was lowered, too.
    pub fn publish_tagged(&self, sheaf: Sheaf, capacity: u32, tag: Tag) -> Stack {
        let capacity = capacity.max(sheaf.count);
        let stack = self.publish(sheaf, capacity);
        let behind = self.origin.load(Ordering::Relaxed) + (stack.end as usize + 1) * ELEMENT_BYTES;
        // SAFETY: behind the end of a stack there are two elements of its sheaf, in memory that
        // stays for ever and is changed as atomic numbers only.
        let words = unsafe { &*(behind as *const [AtomicUsize; Tag::ELEMENTS as usize]) };
        words[0].store(tag.base, Ordering::Relaxed);
        words[1].store(tag.mask, Ordering::Relaxed);
        stack
    }

    /// Number of the first element of the sheaves of a size.
    #[inline]
    fn begin_of(&self, size: usize) -> u32 {
        self.begins[size].load(Ordering::Relaxed)
    }

    /// Room of the sheaf that is the stack with this top, number of its guard's element, and
    /// number of its objects; `None` if there is none, or the stack is stopped, so that the
    /// entry does not hold its top.
    #[inline]
    fn locate(&self, top: u32) -> Option<(u32, u32, u32)> {
        if top == 0 || top == STOPPED {
            return None;
        }
        let is_of = |size| top >= self.begin_of(size);
        // Not a loop, which is not unrolled where code is compiled for size.
        let size = match (is_of(2), is_of(1)) {
            (true, _) => 2,
            (_, true) => 1,
            _ => 0,
        };
        let word = top - self.begin_of(size);
        // Divided by constants.
        let (element, room) = match size {
            0 => (word % STRIDES[0], ROOM[0]),
            1 => (word % STRIDES[1], ROOM[1]),
            _ => (word % STRIDES[2], ROOM[2]),
        };
        let count = element - GUARD;
        Some((room as u32, top - count, count))
    }

    /// The sheaf of a stack that was exchanged out of its entry.
    #[inline]
    pub fn adopt(&self, stack: Stack) -> Option<Sheaf> {
        self.locate(stack.top).map(|(room, guard, count)| Sheaf { guard, room, count })
    }

    /// Calls `f` with the sheaf of a stack that its owner cannot touch, from its top.
    pub fn look_at<T>(&self, top: u32, f: impl FnOnce(&Sheaf) -> T) -> Option<T> {
        let sheaf = self.sheaf_at(top)?;
        let found = f(&sheaf);
        core::mem::forget(sheaf);
        Some(found)
    }

    #[inline(never)]
    fn sheaf_at(&self, top: u32) -> Option<Sheaf> {
        self.adopt(Stack { top, end: 0 })
    }

    /// Number of objects of a stack, from its top; `None` without a stack.
    pub fn count_of(&self, top: u32) -> Option<u32> {
        self.look_at(top, Sheaf::len)
    }

    /// Objects of a stack that its owner cannot touch (stopped, or its owner
    /// asks), from the number of its top.
    #[inline(never)]
    pub fn objects_of(&self, top: u32) -> &[AtomicUsize] {
        self.locate(top).map_or(&[], |(room, guard, count)| {
            &self.elements_at(guard, room).objects[..count as usize]
        })
    }

    /// The object on top of an entry's stack, as of a moment ago.
    #[inline]
    pub fn top_object(&self, entry: &Entry) -> Option<usize> {
        let top = entry.top();
        if top == 0 || top == STOPPED {
            return None;
        }
        let element = self.origin.load(Ordering::Relaxed) + top as usize * ELEMENT_BYTES;
        // SAFETY: an entry's top is an element of a sheaf that was made: its memory stays for
        // ever, and is changed as atomic numbers only.
        let element = unsafe { &*(element as *const AtomicUsize) };
        Some(element.load(Ordering::Relaxed)).filter(|object| *object != 0)
    }

    /// True if an object is one of this many on top of an entry's stack, as of a moment ago.
    #[inline]
    pub fn is_near_top(&self, entry: &Entry, object: usize, most: usize) -> bool {
        let top = entry.top();
        if top == STOPPED {
            return false;
        }
        let element = self.origin.load(Ordering::Relaxed) + top as usize * ELEMENT_BYTES;
        for below in 0..most {
            // SAFETY: as in `top_object`. Below the first object lies the guard, which holds 0, as
            // element 0 does, the top of an entry without a stack.
            let element = unsafe { &*((element - below * ELEMENT_BYTES) as *const AtomicUsize) };
            let found = element.load(Ordering::Relaxed);
            if found == object {
                core::hint::cold_path();
                return true;
            }
            if found == 0 {
                return false;
            }
        }
        false
    }

    /// Two words of a sheaf that is no item of a list, which its holder may use, and who finds it
    /// in its entry reads.
    pub fn notes(&self, sheaf: &Sheaf) -> [&AtomicU32; 2] {
        let View { next, count, .. } = self.elements(sheaf);
        [next, count]
    }

    /// Puts a sheaf into a list whose head is `head` (under the list's lock).
    pub fn link(&self, head: &mut u32, sheaf: Sheaf) {
        let elements = self.elements(&sheaf);
        elements.next.store(*head, Ordering::Relaxed);
        elements.count.store(sheaf.count, Ordering::Relaxed);
        // One store puts it there, and what it leads to comes before: the list of a child of a
        // fork in between is whole.
        compiler_fence(Ordering::Release);
        *head = self.index_of(&sheaf);
        core::mem::forget(sheaf);
    }

    /// Takes the first sheaf of a list (under the list's lock).
    pub fn unlink(&self, head: &mut u32) -> Option<Sheaf> {
        if *head == NO_SHEAF {
            return None;
        }
        let elements = self.listed(*head);
        let sheaf = self.at(*head, elements.count.load(Ordering::Relaxed));
        *head = elements.next.load(Ordering::Relaxed);
        // As in `link`: what its holder changes in it comes after.
        compiler_fence(Ordering::Release);
        Some(sheaf)
    }

    /// Sheaves of a list, and the objects in them (under the list's lock). At most as many as there
    /// is memory for: a corrupt list may be a circle.
    pub fn count_listed(&self, mut head: u32) -> (u32, u64) {
        let (mut sheaves, mut objects) = (0, 0);
        while head != NO_SHEAF && (sheaves as usize) < self.nr_usable() {
            let elements = self.listed(head);
            sheaves += 1;
            objects += u64::from(elements.count.load(Ordering::Relaxed));
            head = elements.next.load(Ordering::Relaxed);
        }
        (sheaves, objects)
    }

    /// Calls `f` with each object in the sheaves of a list (under the list's lock), of at most as
    /// many sheaves as [`SheafPool::count_listed`].
    #[inline(never)]
    pub fn each_listed(&self, mut head: u32, f: &mut dyn FnMut(usize)) {
        for _ in 0..self.count_listed(head).0 {
            let elements = self.listed(head);
            for element in &elements.objects[..elements.count.load(Ordering::Relaxed) as usize] {
                f(element.load(Ordering::Relaxed));
            }
            head = elements.next.load(Ordering::Relaxed);
        }
    }
}
