//! Sheaves and arrays of a yard: each is an array of words, `{next, objects, object 0, ...}`.
//!
//! ```text
//! a CPU's words of a cache     | main | spare |        places, 0: none
//! a sheaf                      | next | len | object | object | ...
//! ```
//!
//! Neighbours: the engines [`super::sheaves`] and [`super::array_cache`] use them.

use super::slabs::{FixedSlabs, Object, SlabEngine};
use crate::pages::MetaRef;
use core::cell::Cell;
use slabyard::engine::Shape;
use slabyard::engine::slabs::{FlushTarget, Held, SheafAccess, Stacks};
use slabyard_platform::stack::Tag;
use slabyard_platform::sync::AtomicUsize;
use slabyard_platform::{Slot, Stopped};

const NEXT: usize = 0;
const LEN: usize = 1;
const OBJECTS: usize = 2;

/// A sheaf out of its stack.
pub struct Sheaf {
    at: MetaRef,
    pub(super) len: u32,
}

impl Held for Sheaf {
    #[inline]
    fn len(&self) -> u32 {
        self.len
    }
}

/// Bytes of a sheaf with room for this many objects.
pub const fn sheaf_bytes(objects: u32) -> u32 {
    (OBJECTS as u32 + objects) * 4
}

impl<K: SlabEngine> FixedSlabs<'_, K> {
    fn room_of_all(&self) -> u32 {
        self.cache.header.shape().stack_objects
    }

    fn sheaf(&self, at: MetaRef) -> &[Cell<u32>] {
        self.pages.table().words(at, OBJECTS as u32 + self.room_of_all())
    }

    /// Objects in this CPU's main sheaf.
    pub fn main_len(self) -> u32 {
        match MetaRef::of(self.words()[0].get()) {
            MetaRef::NONE => 0,
            at => self.sheaf(at)[LEN].get(),
        }
    }

    /// Takes the object on top of this CPU's main sheaf.
    #[inline]
    pub fn pop_main(self) -> Option<Object> {
        let at = MetaRef::of(self.words()[0].get());
        if at == MetaRef::NONE {
            return None;
        }
        let sheaf = self.sheaf(at);
        let len = sheaf[LEN].get().checked_sub(1)?;
        sheaf[LEN].set(len);
        Some(Object(sheaf[OBJECTS + len as usize].get()))
    }

    /// Puts an object on this CPU's main sheaf; false without one that has room.
    #[inline]
    pub fn push_main(self, object: Object) -> bool {
        let at = MetaRef::of(self.words()[0].get());
        if at == MetaRef::NONE {
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

    /// Calls `f` with each object in a CPU's stack.
    pub fn each_in_stack(self, slot: u16, f: &mut dyn FnMut(Object)) {
        let slot = Slot(slot);
        if let Ok(Some(sheaf)) = self.check_out(slot) {
            self.elements(&sheaf).iter().for_each(|element| f(Self::load(element)));
            let _none = self.check_in(slot, sheaf, 0, None);
        }
    }
}

impl<K: SlabEngine> SheafAccess for FixedSlabs<'_, K> {
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
        let at = MetaRef::of(*chain);
        if at == MetaRef::NONE {
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
        let mut at = MetaRef::of(*chain);
        while at != MetaRef::NONE {
            let words = self.sheaf(at);
            let objects = &words[OBJECTS..][..words[LEN].get() as usize];
            objects.iter().for_each(|object| f(Object(object.get())));
            at = MetaRef::of(words[NEXT].get());
        }
    }
}

impl<K: SlabEngine> Stacks for FixedSlabs<'_, K> {
    fn node_bytes(&self) -> &AtomicUsize {
        &self.cache.node_bytes
    }

    fn node_limit(self) -> usize {
        usize::MAX
    }

    fn check_out(self, slot: Slot) -> Result<Option<Sheaf>, Stopped> {
        let at = MetaRef::of(self.words()[slot.0 as usize].take());
        let len = |at| self.sheaf(at)[LEN].get();
        Ok((at != MetaRef::NONE).then(|| Sheaf { at, len: len(at) }))
    }

    fn check_in(self, slot: Slot, sheaf: Sheaf, _capacity: u32, _: Option<Tag>) -> Option<Sheaf> {
        self.sheaf(sheaf.at)[LEN].set(sheaf.len);
        let found = MetaRef::of(self.words()[slot.0 as usize].replace(sheaf.at.number()));
        (found != MetaRef::NONE).then(|| Sheaf { at: found, len: self.sheaf(found)[LEN].get() })
    }

    fn spare_len(self) -> Option<u32> {
        let at = MetaRef::of(self.words()[1].get());
        (at != MetaRef::NONE).then(|| self.sheaf(at)[LEN].get())
    }

    fn is_full(self, _: &Shape, capacity: u32, _: Object) -> bool {
        let main = MetaRef::of(self.words()[0].get());
        self.spare_len() >= Some(capacity)
            && main != MetaRef::NONE
            && self.sheaf(main)[LEN].get() >= capacity
    }
}
