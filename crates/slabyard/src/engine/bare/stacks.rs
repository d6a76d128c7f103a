//! Sheaves and arrays of a bare yard: a place of words, `{next, objects, object 0, ...}`.
//!
//! ```text
//! a CPU's words of a cache     | main | spare |        places, 0: none
//! a sheaf                      | next | len | object | object | ...
//! ```
//!
//! Neighbours: [`crate::engine::sheaves`] and [`crate::engine::array_cache`] are the policy.

use super::kinds::Slab;
use super::{Kind, Object, On};
use crate::engine::Shape;
use crate::engine::array_cache::{ArrayCaches, Arrays};
use crate::engine::slabs::{Held, Slabs, Stacks};
use crate::pages::bare::meta::Place;
use crate::platform::stack::Tag;
use crate::platform::{Slot, Stopped};
use crate::sync::AtomicUsize;
use core::cell::Cell;

const NEXT: usize = 0;
const LEN: usize = 1;
const OBJECTS: usize = 2;

/// The word of a CPU that says that its array was touched, in place of a spare sheaf.
pub(super) const TOUCHED: usize = 1;

/// A sheaf out of its stack.
pub struct Sheaf {
    at: Place,
    len: u32,
}

impl Held for Sheaf {
    #[inline]
    fn len(&self) -> u32 {
        self.len
    }
}

/// Bytes of a sheaf with room for so many objects.
pub(super) const fn sheaf_bytes(objects: u32) -> u32 {
    (OBJECTS as u32 + objects) * 4
}

impl<K: Kind> On<'_, K> {
    fn room_of_all(&self) -> u32 {
        self.cache.header.shape().stack_objects
    }

    fn sheaf(&self, at: Place) -> &[Cell<u32>] {
        self.pages.words(at, OBJECTS as u32 + self.room_of_all())
    }

    /// Objects in this CPU's main sheaf.
    pub(super) fn main_len(self) -> u32 {
        match Place::of(self.words()[0].get()) {
            Place::NONE => 0,
            at => self.sheaf(at)[LEN].get(),
        }
    }

    /// Takes the object on top of this CPU's main sheaf.
    #[inline]
    pub(super) fn pop_main(self) -> Option<Object> {
        let at = Place::of(self.words()[0].get());
        if at == Place::NONE {
            return None;
        }
        let sheaf = self.sheaf(at);
        let len = sheaf[LEN].get().checked_sub(1)?;
        sheaf[LEN].set(len);
        Some(Object(sheaf[OBJECTS + len as usize].get()))
    }

    /// Puts an object on this CPU's main sheaf; false without one that has room.
    #[inline]
    pub(super) fn push_main(self, object: Object) -> bool {
        let at = Place::of(self.words()[0].get());
        if at == Place::NONE {
            return false;
        }
        let sheaf = self.sheaf(at);
        let len = sheaf[LEN].get();
        let has_room = len < self.room_of_all();
        if has_room {
            sheaf[OBJECTS + len as usize].set(object.0);
            sheaf[LEN].set(len + 1);
        }
        has_room
    }
}

impl<K: Kind> Stacks for On<'_, K> {
    type Sheaf = Sheaf;
    type Chain = u32;

    fn new_sheaf(self, _objects: u32) -> Option<Sheaf> {
        let at = self.pages.take_place(sheaf_bytes(self.room_of_all()))?;
        Some(Sheaf { at, len: 0 })
    }

    fn give_sheaf(self, sheaf: Sheaf) {
        self.pages.give_place(sheaf.at, sheaf_bytes(self.room_of_all()));
    }

    #[inline]
    fn room(self, _: &Sheaf) -> u32 {
        self.room_of_all()
    }

    #[inline]
    fn push(self, sheaf: &mut Sheaf, object: Object) {
        self.sheaf(sheaf.at)[OBJECTS + sheaf.len as usize].set(object.0);
        sheaf.len += 1;
    }

    #[inline]
    fn pop(self, sheaf: &mut Sheaf) -> Option<Object> {
        sheaf.len = sheaf.len.checked_sub(1)?;
        Some(Object(self.sheaf(sheaf.at)[OBJECTS + sheaf.len as usize].get()))
    }

    fn is_top(self, sheaf: &Sheaf, object: Object) -> bool {
        self.elements(sheaf).last().is_some_and(|top| top.get() == object.0)
    }

    fn report_double_free(self, _: Object) {}

    fn filling<'s>(&'s self, sheaf: &'s mut Sheaf) -> impl FnMut(Object) + 's {
        |object| self.push(sheaf, object)
    }

    fn elements<'s>(&'s self, sheaf: &'s Sheaf) -> &'s [Cell<u32>] {
        &self.sheaf(sheaf.at)[OBJECTS..][..sheaf.len as usize]
    }

    fn shorten(self, sheaf: &mut Sheaf, objects: u32) {
        sheaf.len -= objects;
    }

    fn link(self, chain: &mut u32, sheaf: Sheaf) {
        let words = self.sheaf(sheaf.at);
        words[NEXT].set(*chain);
        words[LEN].set(sheaf.len);
        *chain = sheaf.at.number();
    }

    fn unlink(self, chain: &mut u32) -> Option<Sheaf> {
        let at = Place::of(*chain);
        if at == Place::NONE {
            return None;
        }
        let words = self.sheaf(at);
        *chain = words[NEXT].get();
        Some(Sheaf { at, len: words[LEN].get() })
    }

    fn head(chain: &u32) -> u32 {
        *chain
    }

    fn each_linked(self, chain: &u32, mut f: impl FnMut(Object)) {
        let mut at = Place::of(*chain);
        while at != Place::NONE {
            let words = self.sheaf(at);
            let objects = &words[OBJECTS..][..words[LEN].get() as usize];
            objects.iter().for_each(|object| f(Object(object.get())));
            at = Place::of(words[NEXT].get());
        }
    }

    fn node_bytes(&self) -> &AtomicUsize {
        &self.cache.node_bytes
    }

    fn node_limit(self) -> usize {
        usize::MAX
    }

    fn check_out(self, slot: Slot) -> Result<Option<Sheaf>, Stopped> {
        let at = Place::of(self.words()[slot.0 as usize].take());
        let len = |at| self.sheaf(at)[LEN].get();
        Ok((at != Place::NONE).then(|| Sheaf { at, len: len(at) }))
    }

    fn check_in(self, slot: Slot, sheaf: Sheaf, _capacity: u32, _: Option<Tag>) -> Option<Sheaf> {
        self.sheaf(sheaf.at)[LEN].set(sheaf.len);
        let found = Place::of(self.words()[slot.0 as usize].replace(sheaf.at.number()));
        (found != Place::NONE).then(|| Sheaf { at: found, len: self.sheaf(found)[LEN].get() })
    }

    fn spare_len(self) -> Option<u32> {
        let at = Place::of(self.words()[1].get());
        (at != Place::NONE).then(|| self.sheaf(at)[LEN].get())
    }

    fn is_full(self, _: &Shape, capacity: u32, _: Object) -> bool {
        let main = Place::of(self.words()[0].get());
        self.spare_len() >= Some(capacity)
            && main != Place::NONE
            && self.sheaf(main)[LEN].get() >= capacity
    }
}

impl Arrays for On<'_, Slab> {
    fn node(&self) -> &ArrayCaches<u32> {
        &self.cache.state
    }

    fn nr_cpus(self) -> u32 {
        self.cpu.1
    }

    fn touch(self, _: Option<&Sheaf>) -> bool {
        self.words()[TOUCHED].replace(1) != 0
    }

    fn append(self, array: &mut Sheaf, objects: &[Cell<u32>]) {
        objects.iter().for_each(|object| self.push(array, Self::load(object)));
    }

    fn drop_oldest(self, array: &mut Sheaf, objects: u32) {
        let elements = self.elements(array);
        for (nth, later) in elements[objects as usize..].iter().enumerate() {
            elements[nth].set(later.get());
        }
        array.len -= objects;
    }
}
