//! Floor 1: what an engine needs from the machine below it.
//!
//! Two implementations, one contract (`tests/platform_contract.rs`):
//! [`linux::Linux`] runs on real CPUs, by restartable sequences or private
//! slots; `Machine` of the crate `slabyard-testkit` models N CPUs and any page
//! size, with seeded preemption between any two steps.
//!
//! Both keep the same rows of stacks ([`stack::Rows`]). "I am a malloc(64)
//! call" passes here at `pop`, "I am a freed object" at `push`.

pub mod birth;
pub mod fast;
#[cfg(target_os = "linux")]
pub mod linux;
pub(crate) mod mark;
mod planted;
pub mod reader;
#[cfg(target_os = "linux")]
pub mod rseq;
pub mod stack;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod weak;

pub use crate::sync::lock::Park;
pub use fast::FastPath;
pub use planted::{Planted, Repair};
pub use stack::{Entry, Rows, Slot, Stack, Stopped};

use crate::sync::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Bytes of the unit in which pages are counted, whatever the machine's page.
pub const GRANULE: usize = 4096;

/// What a reservation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Memory for objects: inaccessible until it is committed.
    Arena,
    /// The allocator's own tables: inaccessible until they are committed.
    Table,
}

/// Something that policy counts about one cache.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// So much, by the number of its counter in `abi::stats`.
    Counted(usize, u32),
    /// A slow free that drained a CPU partial list of so many slabs, maybe of none, and what it
    /// cost.
    Drained {
        /// How many were on the list.
        slabs: u32,
        /// Nanoseconds.
        ns: u64,
    },
}

/// A stretch of whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Stretch {
    /// Its first address.
    pub address: usize,
    /// A multiple of the page size; 0 for no page.
    pub bytes: usize,
}

impl Stretch {
    /// No page.
    pub const NONE: Stretch = Stretch { address: 0, bytes: 0 };
}

/// A machine: memory, CPUs with rows of stacks, time, sleep.
///
/// Memory of objects is named by address only: the modelled machine has none
/// behind its addresses. Tables are real memory on every platform.
pub trait Platform: Park + Sync {
    /// True if yards of it may have page lists of other kinds than their own
    /// (`pages::lists`): else they have no code for them.
    #[inline(always)]
    fn has_page_lists(&self) -> bool {
        false
    }

    /// True where a thread that unwinds does nothing more: the modelled machine unwinds threads that
    /// are gone, and all when one of them fails.
    const UNWINDS: bool = false;

    /// Memory nodes that it may have: 1 where nobody needs to look at nodes.
    const MOST_NODES: usize = 1;

    /// Memory nodes: a power of two, at most [`Platform::MOST_NODES`]. It does not change once the
    /// yard is made.
    fn nodes(&self) -> usize {
        1
    }

    /// The node of a row's CPU.
    fn node_of_row(&self, _row: usize) -> usize {
        0
    }

    /// The node of the running CPU. A hint: the thread may move at once.
    #[inline]
    fn node(&self) -> usize {
        match Self::MOST_NODES {
            1 => 0,
            _ => self.row_hint().map_or(0, |row| self.node_of_row(row)),
        }
    }

    /// Asks the system to take the pages of a part of a reservation from a node, where it can.
    fn bind(&self, _address: usize, _bytes: usize, _node: usize) {}

    /// Page size in bytes: a power of two, at least [`GRANULE`].
    fn page_bytes(&self) -> usize;

    /// Reserves addresses, aligned to `align` (a power of two). Nothing is charged, and nothing may
    /// count against a limit of address space. `None` where there are none.
    fn reserve(&self, bytes: usize, align: usize, what: Use) -> Option<usize>;

    /// Makes a part of a reservation usable, of which nothing is yet; it reads as zero. False if
    /// the system refuses, or something of others lies there; nothing has changed then.
    fn commit(&self, address: usize, bytes: usize) -> bool;

    /// In the child of a fork, where a thread that is gone may have been about to make a part of a
    /// reservation usable that begins at an address, of so many bytes at most: it is not usable.
    fn forget_commit(&self, _address: usize, _most: usize) {}

    /// Asks for the pages of a committed part, which will be written soon, by one call.
    fn touch_ahead(&self, _address: usize, _bytes: usize) {}

    /// Gives the contents of committed pages back to the system: they read as
    /// zero afterwards and stay usable. One call, where the system has it.
    ///
    /// A stretch that the system refuses (locked pages, a filter) becomes
    /// [`Stretch::NONE`]: each of its pages holds what it held, or zeros.
    fn give_back(&self, stretches: &mut [Stretch]);

    /// True if the system puts huge pages under memory that did not ask for them, at a page
    /// fault or a while later.
    fn has_huge_pages(&self) -> bool {
        false
    }

    /// Asks the system not to put huge pages under a part of a reservation.
    fn keep_small_pages(&self, _address: usize, _bytes: usize) {}

    /// Takes [`Platform::keep_small_pages`] back for a committed part.
    fn allow_huge_pages(&self, _address: usize, _bytes: usize) {}

    /// Bytes of a committed part that are in memory; 0 where the system does not report it.
    fn resident(&self, _address: usize, _bytes: usize) -> usize {
        0
    }

    /// A mapping of its own, zeroed, aligned to `align`.
    fn map(&self, bytes: usize, align: usize) -> Option<usize>;

    /// Makes whole pages of a mapping fault when they are used, until it ends: their contents are
    /// lost. Where the system refuses, they stay usable.
    fn make_fault(&self, _address: usize, _bytes: usize) {}

    /// Ends a mapping made by [`Platform::map`].
    fn unmap(&self, address: usize, bytes: usize);

    /// Grows or shrinks a mapping, moving it if need be, contents kept.
    fn remap(&self, address: usize, old_bytes: usize, new_bytes: usize) -> Option<usize>;

    /// Moves the contents of committed pages to a mapping of its own, of at least as many bytes;
    /// the pages read as zero afterwards and stay usable. `None` where the system cannot or
    /// does not; nothing has changed then.
    fn move_out(&self, _address: usize, _bytes: usize, _new_bytes: usize) -> Option<usize> {
        None
    }

    /// Milliseconds of a clock that never goes back; coarse and cheap.
    fn now_ms(&self) -> u64;

    /// Nanoseconds of that clock, as fine as the machine has it.
    fn now_ns(&self) -> u64 {
        self.now_ms() * 1_000_000
    }

    /// The rows of stacks.
    fn rows(&self) -> &Rows;

    /// Makes so many bytes of each row usable, whole pages, which read as zero. False if the
    /// system refuses: then no more are usable than before. One caller at a time.
    fn commit_rows(&self, bytes: usize) -> bool;

    /// Called at the start of every slow path: gives this thread its row, where
    /// the platform hands rows to threads.
    fn enter(&self);

    /// True if another CPU's sequence can be fenced, as far as is known: the system may refuse
    /// [`Platform::stop`] all the same, and then this is false from then on.
    fn can_stop(&self) -> bool;

    /// When it returns true, no sequence that began before is still able to commit. False
    /// if the system refuses: nothing is known of them then.
    fn fence(&self) -> bool;

    /// This CPU's row, if it has one now. A hint: the thread may move at once.
    fn row_hint(&self) -> Option<usize>;

    /// True if each row belongs to one thread, and not to all that run on a CPU.
    fn has_private_rows(&self) -> bool;

    /// No thread can have used a row from this number on: of private slots, few are given out.
    fn rows_used(&self) -> usize {
        self.rows().len()
    }

    /// Takes the top object of this CPU's stack; `None` if it is empty or stopped.
    fn pop(&self, slot: Slot) -> Option<usize>;

    /// The words of a slot for [`Platform::pop_inlined`] and [`Platform::push_inlined`]. `pops` holds
    /// the offset of the slot for pops, or 0 while each is slow.
    fn fast_path(&self, slot: Slot, pops: &'static AtomicU16) -> FastPath {
        FastPath::new(self.rows().base(), 0, slot, pops)
    }

    /// As [`Platform::pop`], where the platform has a sequence that needs no call. A thread that
    /// has left its row must not come here.
    #[inline(always)]
    fn pop_inlined(&self, words: &FastPath) -> Option<usize> {
        self.pop(words.slot_of_pop())
    }

    /// As [`Platform::pop_inlined`]: counts the row's countdown down, and then does what
    /// [`Platform::push`] does; false, too, if the countdown is over. Whether the object is on top
    /// already it may not notice: a box is dropped once.
    #[inline(always)]
    fn push_inlined(&self, words: &FastPath, object: usize) -> bool {
        self.count_down() && self.push(words.slot(), object)
    }

    /// Counts one free of this CPU's row; false if the countdown ran out. The sequences of
    /// `free` do the same themselves.
    #[inline]
    fn count_down(&self) -> bool {
        self.row_hint().is_some_and(|row| {
            let word = self.rows().countdown(row);
            let after = word.load(Ordering::Relaxed).cast_signed().wrapping_sub(1);
            word.store(after as u32, Ordering::Relaxed);
            after >= 0
        })
    }

    /// Puts an object on this CPU's stack; false if it is full or stopped, or if
    /// the object is on its top already.
    fn push(&self, slot: Slot, object: usize) -> bool;

    /// As [`Platform::push`], for stacks with a [`stack::Tag`]: false, too, if the object does not
    /// have it.
    fn push_if(&self, slot: Slot, object: usize) -> bool;

    /// Takes the top objects of this CPU's stack, the top first, as many as it has and `out` has room
    /// for; returns how many.
    fn pop_many(&self, slot: Slot, out: &mut [usize]) -> usize;

    /// Puts objects on this CPU's stack, the last one on top; returns how many of the first found
    /// room. None if the first of them is on its top already.
    fn push_many(&self, slot: Slot, objects: &[usize]) -> usize;

    /// As [`Platform::push_many`], for stacks with a [`stack::Tag`]: one that takes the objects of
    /// one slab alone may take none.
    fn push_many_if(&self, slot: Slot, objects: &[usize]) -> usize;

    /// Replaces this CPU's stack as a whole and returns the one that was there.
    ///
    /// # Errors
    /// [`Stopped`] if the stack is stopped, this thread has no row, or it was preempted in the midst;
    /// nothing has changed then.
    fn exchange(&self, slot: Slot, new: Stack) -> Result<Stack, Stopped>;

    /// This thread's word about slow paths: bit 0 is set inside of one, so that a
    /// signal handler that interrupts it sees it; the rest counts them.
    fn depth(&self) -> &AtomicU32;

    /// The address of the mark of this thread's slow path, and 0 outside of one; `None` where
    /// there are no marks ([`crate::jumped`]).
    #[inline(always)]
    fn frame(&self) -> Option<&AtomicUsize> {
        None
    }

    /// True if a word of this process, which may not be there any more, is there and not `value`.
    fn is_other(&self, _at: usize, _value: u32) -> bool {
        false
    }

    /// True if the process is known to have one thread.
    fn is_only_thread(&self) -> bool {
        false
    }

    /// Runs `f` while no signal handler of this thread does. `None` if signals cannot be held back.
    fn without_handlers<R>(&self, _f: impl FnOnce() -> R) -> Option<R> {
        None
    }

    /// True if a test planted this bug, for a check to find: the modelled machine alone has any.
    #[inline(always)]
    fn has_planted(&self, _bug: Planted) -> bool {
        false
    }

    /// The word by which the child of a fork is told from its parent ([`birth`]).
    fn birth(&self) -> &AtomicU32;

    /// In a handler that the C library calls before a fork: from here on the thread may be the
    /// child's before a handler says so.
    fn begin_fork(&self) {}

    /// In a handler after a fork, of either process.
    fn end_fork(&self) {}

    /// In a handler that the C library calls in the child of a fork: says so where the system has
    /// not, and no slow path has seen it since.
    fn mark_child(&self) {
        self.birth().store(birth::CHILD, Ordering::Relaxed);
    }

    /// In the child of a fork, before its first slow path: what the system does not keep for it is
    /// made anew when it is needed.
    fn begin_child(&self) {}

    /// Reads a word of a live or freed object (0 on the modelled machine).
    ///
    /// # Safety
    /// `address` lies in committed memory of this platform, aligned to 8.
    unsafe fn read_word(&self, address: usize) -> usize;

    /// Writes a word of a freed object (nothing on the modelled machine).
    ///
    /// # Safety
    /// As [`Platform::read_word`], and nobody else uses the object.
    unsafe fn write_word(&self, address: usize, word: usize);

    /// A word of memory for objects that holds none, for several threads at once. It reads as
    /// zero where the memory does.
    ///
    /// # Safety
    /// `address` lies in a committed part of a [`Use::Arena`] of this platform, aligned to 8, and
    /// nobody uses the word but by this function while the reference lives.
    unsafe fn word_in_slab(&self, address: usize) -> &AtomicU64;

    /// Writes a value to so many bytes.
    ///
    /// # Safety
    /// They lie in a committed part of a [`Use::Arena`] of this platform, or in a mapping of it,
    /// and no owner uses them.
    unsafe fn fill(&self, address: usize, bytes: usize, value: u8);

    /// The address of the first of so many bytes that has another value, and what it has.
    ///
    /// # Safety
    /// They lie in a committed part of a [`Use::Arena`] of this platform, or in a mapping of it.
    unsafe fn first_other(&self, address: usize, bytes: usize, value: u8) -> Option<(usize, u8)>;

    /// Stops stacks: when it returns true, their owners find them neither poppable
    /// nor pushable, and the caller owns what they hold. `stops` gives row and
    /// slot of each; its third part receives the top that each had. False if the
    /// system refuses a fence: no stack is stopped then.
    ///
    /// The caller makes sure that no other thread stops or starts these stacks, and
    /// that [`Platform::can_stop`] was true. A stack in use may take several fences.
    fn stop(&self, stops: &mut [(usize, Slot, u32)]) -> bool {
        for (row, slot, top) in stops.iter_mut() {
            *top = self.rows().entry(*row, *slot).mark_stopped();
        }
        // An owner that had read its top before the mark may still overwrite
        // it by its committing store. After the fence no such store is on its
        // way; a mark that got lost is made again.
        loop {
            if !self.fence() {
                self.unmark(stops);
                return false;
            }
            let mut lost = false;
            for (row, slot, top) in stops.iter_mut() {
                let entry = self.rows().entry(*row, *slot);
                if !entry.is_stopped() {
                    *top = entry.mark_stopped();
                    lost = true;
                }
            }
            if !lost {
                return true;
            }
        }
    }

    /// As [`Platform::stop`], by one fence: a stack whose owner used it meanwhile is
    /// not stopped, and its third part says [`stack::STOPPED`]; so does that of each if
    /// the system refuses the fence.
    fn stop_idle(&self, stops: &mut [(usize, Slot, u32)]) {
        for (row, slot, top) in stops.iter_mut() {
            *top = self.rows().entry(*row, *slot).mark_stopped();
        }
        if !self.fence() {
            self.unmark(stops);
            stops.iter_mut().for_each(|(.., top)| *top = stack::STOPPED);
        }
        for (row, slot, top) in stops.iter_mut() {
            if !self.rows().entry(*row, *slot).is_stopped() {
                *top = stack::STOPPED;
            }
        }
    }

    /// Takes marks back after a refused fence.
    fn unmark(&self, stops: &[(usize, Slot, u32)]) {
        for (row, slot, top) in stops {
            self.rows().entry(*row, *slot).unmark(*top);
        }
    }

    /// This thread's two words as a reader ([`crate::rcu`]), 0 at first: the address of its
    /// place, and its sections without one.
    fn reader(&self) -> &[AtomicUsize; 2];

    /// Has a place taken back when this thread ends. False if the platform cannot: then the
    /// thread must not have the place.
    fn on_thread_end(&self, place: &reader::ReaderSlot) -> bool;

    /// Stores to a word that this thread alone changes. The store may reach other CPUs after loads
    /// that follow, unless a fence lies between.
    #[inline(always)]
    fn announce(&self, word: &AtomicU64, value: u64) {
        // Release pairs with the Acquire of who waits for readers.
        word.store(value, Ordering::Release);
    }

    /// What this thread announced last.
    #[inline(always)]
    fn announced(&self, word: &AtomicU64) -> u64 {
        word.load(Ordering::Relaxed)
    }

    /// When it returns, what this thread announced has reached the other CPUs.
    #[inline(always)]
    fn fence_reader(&self) {
        crate::sync::fence(Ordering::SeqCst);
    }

    /// When it returns true, each thread of the process has made a full fence since the call.
    /// False if the system refuses, now and from now on.
    fn fence_readers(&self) -> bool;

    /// Called at each slab operation (objects put into one slab, or taken out of it), for
    /// platforms that count them.
    #[inline]
    fn slab_operation(&self) {}

    /// True if the platform keeps what [`Platform::count`] tells it, and so if waiting and drains
    /// are to be timed.
    #[inline]
    fn counts(&self) -> bool {
        false
    }

    /// Called where the system refused a page, before the drain that follows, for platforms that
    /// keep the counts.
    #[inline]
    fn page_refused(&self) {}

    /// Called at the end of a drain of everything, with the bytes that went back to the system, for
    /// platforms that keep the counts.
    #[inline]
    fn drained_all(&self, _bytes: usize) {}

    /// Address of the counts, as `abi::stats` lays them out; 0 where nothing is counted.
    fn counts_at(&self) -> usize {
        0
    }

    /// Called where policy counts something about the cache of a slot, for platforms that keep the
    /// counts.
    #[inline]
    fn count(&self, _slot: Slot, _event: Event) {}
}
