//! The pool of sheaves: it makes arrays of elements in three sizes ([`super::elements`]), for CPUs'
//! stacks and for barns, and keeps the unused ones.
//!
//! Neighbours: engines take sheaves here, as handles ([`super::sheaf`]); a reclaim pass purges the
//! pages of unused arrays.

use super::elements::{LARGE, LINES, Line, ROOM, SIZES, size_for};
use super::sheaf::{NO_SHEAF, Sheaf};
use crate::platform::stack::ELEMENT_BYTES;
use crate::platform::{Platform, Stretch};
use crate::sync::{AtomicU32, AtomicUsize, Lock, Ordering, Rank};
use crate::table::Table;

/// Reclaim passes of a window: the reclaim ticker runs for two windows after the last pass
/// that found work.
/// With one, a quarter of a load's system calls gave back single sheaves that were used soon after
/// (0262752).
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
    /// Sheaves whose pages are to be given back: this many were unused in the last window.
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

/// All sheaves of a yard.
pub struct SheafPool {
    /// The memory of the sheaves of each size.
    lines: [Table<Line>; SIZES],
    /// Address of the element 0.
    pub(super) origin: AtomicUsize,
    /// Number of each size's first element.
    pub(super) begins: [AtomicU32; SIZES],
    /// Sheaves of each size that there is room for.
    pub(super) most: AtomicU32,
    free: Lock<[Free; SIZES]>,
}

impl SheafPool {
    pub(super) const fn new() -> Self {
        SheafPool {
            lines: [const { Table::new() }; SIZES],
            origin: AtomicUsize::new(0),
            begins: [const { AtomicU32::new(0) }; SIZES],
            most: AtomicU32::new(0),
            free: Lock::new(Rank::Pool, [Free::NEW; SIZES]),
        }
    }

    pub(super) fn init<P: Platform>(&self, p: &P) {
        let (mut base, bytes) = p.rows().elements();
        // Whole lines, so that each part is of whole pages.
        let step = p.page_bytes() / size_of::<Line>();
        let most = bytes / size_of::<Line>() / LINES.iter().sum::<usize>() / step * step;
        self.most.store(most as u32, Ordering::Relaxed);
        self.origin.store(p.rows().base(), Ordering::Relaxed);
        for (size, lines) in self.lines.iter().enumerate() {
            self.begins[size].store(p.rows().element_number(base), Ordering::Relaxed);
            let bytes = most * LINES[size] * size_of::<Line>();
            lines.set(base, bytes);
            base += bytes;
        }
    }

    /// Address of the first sheaf, and how many of each size there is room for.
    pub(super) fn begin(&self) -> (usize, usize) {
        (self.lines[0].base(), self.most.load(Ordering::Relaxed) as usize)
    }

    /// Sheaves that there is memory for.
    pub(super) fn nr_usable(&self) -> usize {
        self.lines.iter().zip(LINES).map(|(lines, of_one)| lines.len() / of_one).sum()
    }

    /// Addresses of the numbers of bytes committed for sheaves of each size.
    pub(super) fn words_at(&self) -> [usize; SIZES] {
        self.lines.each_ref().map(Table::committed_at)
    }

    /// In the child of a fork: nobody uses the lists, which one store changes each, and which are
    /// counted anew.
    pub(super) fn abandon<P: Platform>(&self, p: &P) {
        if self.free.abandon() {
            self.lines.iter().for_each(|lines| lines.forget_commit(p));
        }
        let mut sizes = self.free.lock(p);
        for free in sizes.iter_mut() {
            free.nr = self.count_listed(free.head).0;
            free.least = free.least.min(free.nr);
            free.unused = free.unused.min(free.nr);
        }
    }

    /// Bytes of the elements.
    pub fn metadata_bytes(&self) -> usize {
        self.lines.iter().map(Table::committed_bytes).sum()
    }

    /// An empty sheaf with room for this many objects, or for as many as any has; `None` if
    /// there is no memory for one.
    pub fn take<P: Platform>(&self, p: &P, objects: u32) -> Option<Sheaf> {
        let mut sizes = self.free.lock(p);
        (size_for(objects)..SIZES).find_map(|size| {
            let free = &mut sizes[size];
            let first = size as u32 * self.most.load(Ordering::Relaxed);
            let index = if free.head != NO_SHEAF {
                let index = free.head;
                free.head = self.listed(index).next.load(Ordering::Relaxed);
                free.leaves();
                index
            } else if free.released != NO_SHEAF {
                let index = free.released;
                free.released = self.listed(index).next.load(Ordering::Relaxed);
                index
            } else {
                if !self.lines[size].ensure(p, (free.made as usize + 1) * LINES[size]) {
                    return None;
                }
                free.made += 1;
                first + free.made - 1
            };
            Some(self.at(index, 0))
        })
    }

    /// Takes an empty sheaf back.
    pub fn give<P: Platform>(&self, p: &P, sheaf: Sheaf) {
        debug_assert!(sheaf.is_empty());
        let size = sheaf.size();
        let free = &mut self.free.lock(p)[size];
        self.link(&mut free.head, sheaf);
        free.nr += 1;
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
        free.head = self.listed(index).next.load(Ordering::Relaxed);
        free.leaves();
        drop(sizes);
        // The sheaf is in transit, and no lock is held. Pages that hold elements for objects
        // alone, not the links.
        let objects = self.listed(index).objects.as_ptr() as usize;
        let begin = objects.next_multiple_of(page);
        let end = (objects + ROOM[LARGE] * ELEMENT_BYTES) / page * page;
        let mut inner = [Stretch { address: begin, bytes: end.saturating_sub(begin) }];
        if inner[0].bytes > 0 {
            p.give_back(&mut inner);
        }
        let [Stretch { bytes: given, .. }] = inner;
        let free = &mut self.free.lock(p)[LARGE];
        self.listed(index).next.store(free.released, Ordering::Relaxed);
        free.released = index;
        Some(given)
    }
}
