//! A cache's slabs, addressed by number: 24 bytes each, in a table that may grow while its entries
//! are referenced.
//!
//! An object is represented by its slab's number, because the kernel's rules do not distinguish a
//! slab's objects. A yard's rules distinguish the words of the slab's bitmap: there, an object is
//! represented by its word's number, and free objects are also counted per word.
//!
//! Neighbours: [`super::begin`] allocates and frees slabs, [`super::slabs`] gives the policy access
//! to them.

use slabyard::engine::slabs::Links;
use slabyard::pages::descriptor::NIL;
use slabyard::slab::Word;
use std::cell::{Cell, OnceCell, RefCell};
use std::iter::repeat_with;

/// No slab.
pub const NONE: u32 = NIL;

/// Where a slab is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Of nobody: its number is free for the next slab.
    #[default]
    Gone,
    /// In no list: it has no free object.
    Full,
    /// On its node's list.
    NodePartial,
    /// On a CPU partial list.
    CpuPartial,
    /// Out of all lists: a CPU allocates from it.
    CpuSlab,
}

/// A slab as counts: which of its objects are free is not known.
#[derive(Debug, Default)]
pub struct Slab {
    /// Free objects that are not its CPU's.
    pub(crate) free: Cell<u32>,
    /// Free objects as its CPU partial list has counted them.
    pub(crate) counted: Cell<u32>,
    /// The slab behind it in its list.
    pub(crate) next: Cell<u32>,
    /// The slab in front of it.
    pub(crate) prev: Cell<u32>,
    /// CPU that has it, in its list or as its slab.
    pub(crate) cpu: Cell<u16>,
    pub(crate) node: Cell<u16>,
    /// CPU that last freed an object of it while another CPU had it.
    pub(crate) freed_by: Cell<u16>,
    pub(crate) state: Cell<State>,
    /// Its pages are of the least order: it has fewer objects.
    pub(crate) is_small: Cell<bool>,
}

const _: () = assert!(size_of::<Slab>() == 24);

impl Links for Slab {
    #[inline]
    fn next(&self) -> u32 {
        self.next.get()
    }

    #[inline]
    fn set_next(&self, next: u32) {
        self.next.set(next);
    }

    #[inline]
    fn prev(&self) -> u32 {
        self.prev.get()
    }

    #[inline]
    fn set_prev(&self, prev: u32) {
        self.prev.set(prev);
    }

    #[inline]
    fn is_listed(&self) -> bool {
        self.state.get() == State::NodePartial
    }

    #[inline]
    fn set_listed(&self, is_listed: bool) {
        self.state.set(if is_listed { State::NodePartial } else { State::Full });
    }

    #[inline]
    fn is_apart(&self) -> bool {
        self.counted.get() != 0
    }

    #[inline]
    fn set_apart(&self, is_apart: bool) {
        self.counted.set(is_apart.into());
    }
}

/// Slabs of the first chunk; each further one has twice as many as the one before.
const FIRST: u32 = 32;

/// A table that grows while others read it.
#[derive(Default)]
pub(crate) struct Table {
    chunks: [OnceCell<Box<[Slab]>>; 27],
    len: Cell<u32>,
}

impl Table {
    fn spot(number: u32) -> (usize, usize) {
        let at = number + FIRST;
        let chunk = (at / FIRST).ilog2();
        (chunk as usize, (at - (FIRST << chunk)) as usize)
    }

    /// Numbers that slabs may have: up to this one, and not [`NONE`].
    pub(crate) fn len(&self) -> u32 {
        self.len.get()
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> &Slab {
        let (chunk, nth) = Self::spot(number);
        &self.chunks[chunk].get().expect("a slab that there is")[nth]
    }

    fn ensure(&self, number: u32) {
        let (last, _) = Self::spot(number);
        for (chunk, slabs) in self.chunks[..=last].iter().enumerate() {
            slabs.get_or_init(|| {
                repeat_with(Slab::default).take((FIRST as usize) << chunk).collect()
            });
        }
        self.len.set(self.len.get().max(number + 1));
    }
}

/// Which numbers slabs get, and the free objects of their words.
#[derive(Default)]
pub(crate) struct Numbers {
    pub(crate) table: Table,
    /// Numbers of slabs that are gone, for the next ones.
    gone: RefCell<Vec<u32>>,
    /// Numbers for the next slabs, the first one last: those of a yard's slabs.
    given: RefCell<Vec<u32>>,
    /// An object's number, shifted by this many bits, is its slab's.
    pub(crate) shift: u32,
    /// Free objects by the number of their word, if slabs have several.
    pub(super) words: RefCell<Vec<u8>>,
}

impl Numbers {
    /// For slabs of this many words.
    pub(crate) fn of_words(words: u32) -> Self {
        Numbers { shift: words.next_power_of_two().ilog2(), ..Self::default() }
    }

    /// Says which numbers the next slabs get.
    pub(crate) fn give(&self, numbers: impl IntoIterator<Item = u32>) {
        let mut given: Vec<u32> = numbers.into_iter().collect();
        given.reverse();
        self.given.replace(given);
    }

    /// The number that the next slab gets.
    pub(super) fn next(&self) -> u32 {
        let given = self.given.borrow().last().copied();
        let number = given.or_else(|| self.gone.borrow().last().copied());
        number.unwrap_or(self.table.len().max(1))
    }

    /// Begins a slab that has the next number.
    pub(super) fn begin(&self, objects: u32, node: u16) -> u32 {
        let number = self.next();
        if self.given.borrow_mut().pop().is_none() {
            self.gone.borrow_mut().pop();
        }
        self.table.ensure(number);
        let slab = self.table.get(number);
        slab.is_small.set(false);
        slab.free.set(objects);
        slab.counted.set(0);
        slab.cpu.set(0);
        slab.node.set(node);
        slab.freed_by.set(0);
        slab.state.set(State::Full);
        if self.shift > 0 {
            let mut words = self.words.borrow_mut();
            let (first, most) = ((number << self.shift) as usize, 1usize << self.shift);
            let len = words.len().max(first + most);
            words.resize(len, 0);
            let mut left = objects;
            for word in &mut words[first..first + most] {
                let n = left.min(Word::OBJECTS);
                *word = n as u8;
                left -= n;
            }
        }
        number
    }

    pub(super) fn end(&self, number: u32) {
        self.table.get(number).state.set(State::Gone);
        self.gone.borrow_mut().push(number);
    }
}
