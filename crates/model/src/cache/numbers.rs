//! A cache's slabs as numbers: 24 bytes each, in a table that grows under the hands of those
//! who read it.
//!
//! An object is the number of its slab: which object of the slab it is does not matter to
//! the kernel's rules. To ours it matters in which word of the bitmap it is: then it is the
//! number of its word, and each word's free objects are counted, too.
//!
//! Neighbours: [`super::slabs`] shows them to policy.

use super::supply::Order;
use super::{KernelCache, Page, State};
use slabyard::engine::Counter;
use slabyard::slab::Word;
use std::cell::{Cell, OnceCell, RefCell};
use std::iter::repeat_with;

/// A slab.
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

/// Slabs of the first chunk; each other one has twice as many as the one before.
const FIRST: u32 = 32;

/// A table that grows under the hands of those who read it.
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

    /// Numbers that slabs may have: up to this one, and not [`NONE`](super::NONE).
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
    /// An object's number, shifted by so many bits, is its slab's.
    pub(crate) shift: u32,
    /// Free objects by the number of their word, if slabs have several.
    pub(super) words: RefCell<Vec<u8>>,
}

impl Numbers {
    /// For slabs of so many words.
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
    fn next(&self) -> u32 {
        let given = self.given.borrow().last().copied();
        let number = given.or_else(|| self.gone.borrow().last().copied());
        number.unwrap_or(self.table.len().max(1))
    }

    /// Begins a slab that has the next number.
    fn begin(&self, objects: u32, node: u16) -> u32 {
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

    fn end(&self, number: u32) {
        self.table.get(number).state.set(State::Gone);
        self.gone.borrow_mut().push(number);
    }
}

impl KernelCache {
    #[inline]
    pub(crate) fn slab(&self, slab: u32) -> &Slab {
        self.numbers.table.get(slab)
    }

    /// Begins a slab whose objects are all free, in no list; `None` without pages.
    pub(crate) fn begin_slab(&self, node: u16) -> Option<u32> {
        let slab = self.new_slab(node)?;
        self.counters.add(Counter::AllocSlab, 1);
        Some(slab)
    }

    pub(super) fn new_slab(&self, node: u16) -> Option<u32> {
        let order = self.ask_for(self.numbers.next(), node)?;
        let is_small = order == Order::Least;
        let number = self.make(self.objects_if(is_small), node);
        self.slab(number).is_small.set(is_small);
        self.counters.add(Counter::OrderFallback, is_small.into());
        Some(number)
    }

    /// Puts a slab in place that was there before: whoever has the pages is told.
    pub(super) fn adopt_slab(&self, node: u16) -> u32 {
        self.counters.add(Counter::AllocSlab, 1);
        self.say_adopted(self.numbers.next(), node);
        self.make(self.rules.objects, node)
    }

    fn make(&self, objects: u32, node: u16) -> u32 {
        let number = self.numbers.begin(objects, node);
        self.nr_slabs.set(self.nr_slabs.get() + 1);
        self.pages.borrow_mut().push(Page::New(number));
        if let Some(contention) = &self.contention {
            contention.begin_slab(number);
        }
        number
    }

    /// Ends a slab that is empty and in no list.
    pub(crate) fn discard(&self, slab: u32) {
        self.counters.add(Counter::FreeSlab, 1);
        self.end_slab(slab);
    }

    pub(super) fn end_slab(&self, slab: u32) {
        debug_assert_eq!(self.slab(slab).free.get(), self.objects_of(slab));
        self.say_ended(slab);
        self.numbers.end(slab);
        self.nr_slabs.set(self.nr_slabs.get() - 1);
        self.pages.borrow_mut().push(Page::Freed(slab));
    }
}
