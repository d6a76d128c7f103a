//! The platform of the models: the memory of the modelled machine, with loom's threads on it, each
//! on a CPU of its own.
//!
//! A restartable sequence is aborted if a fence of all threads waits for its thread just before the
//! committing store; a store that is under way at that time comes before the fence, as on a CPU.
//! Its accesses are relaxed, as the processors' plain loads and stores are; what it loads by the number
//! of the top comes after the top.
//!
//! Neighbours: [`super::checker`] runs the threads; `slabyard_testkit::machine` has the memory.

use crate::checker::{Data, answer_fence, begin_sequence, fence_all, me};
use loom::thread::yield_now;
use slabyard_platform::birth::CHILD;
use slabyard_platform::reader::ReaderSlot;
use slabyard_platform::stack::{Entry, Rows, STOPPED, Slot, Stack, Stopped, Tag};
use slabyard_platform::sync::{AtomicU32, AtomicU64, Ordering, fence};
use slabyard_platform::{
    Advice, Counts, Memory, ObjectMemory, Park, PerCpu, Platform, Stretch, Takes, ThreadWords,
    Threads, Time, Use,
};
use slabyard_testkit::machine::{Config, Machine};
use std::cell::Cell;

/// Threads that a model has, at most.
const THREADS: usize = 5;

/// A machine whose threads are loom's.
pub struct Modelled {
    machine: Machine,
    threads: [ThreadWords; THREADS],
    /// Written where memory becomes usable, and read by who uses it.
    memory: Data,
    /// No write of it is recorded any more.
    is_written: Cell<bool>,
    /// Without it no stack of another thread's can be stopped.
    fences: Cell<bool>,
    /// Without it readers make fences of their own.
    fences_readers: Cell<bool>,
    /// Read by the calls about one mapping, and written as it ends.
    mapping: Data,
    mapping_at: Cell<usize>,
    /// Written by the repair of a child, and read by its slow paths.
    repaired: Data,
    is_child: Cell<bool>,
    /// Memory of the model's own, from its begin to its end.
    own: Cell<[usize; 2]>,
}

// SAFETY: loom runs one thread at a time.
unsafe impl Sync for Modelled {}

impl Modelled {
    /// A new one. Kept by the model, it goes with the execution.
    #[must_use]
    pub fn new() -> Self {
        let config = Config { cpus: THREADS, ..Config::default() };
        Modelled {
            machine: Machine::new(config),
            threads: Default::default(),
            memory: Data::new(),
            is_written: Cell::new(false),
            fences: Cell::new(true),
            fences_readers: Cell::new(true),
            mapping: Data::new(),
            mapping_at: Cell::new(0),
            repaired: Data::new(),
            is_child: Cell::new(false),
            own: Cell::new([0; 2]),
        }
    }

    /// Uses memory that some thread made usable: what it did must come before.
    #[track_caller]
    pub fn use_memory(&self) {
        self.memory.read();
    }

    /// The memory that is made usable from now on is what [`Modelled::use_memory`] uses: the first.
    pub fn await_memory(&self) {
        self.is_written.set(false);
    }

    fn write_memory(&self) {
        if !self.is_written.replace(true) {
            self.memory.write(1);
        }
    }

    /// The mapping at this address ends after all other calls about it.
    pub fn await_end(&self, address: usize) {
        self.mapping_at.set(address);
    }

    /// The kernel refuses memory from now on.
    pub fn refuse_memory(&self) {
        self.machine.refuse(Some(0));
    }

    /// Objects may be in these words.
    pub fn have(&self, words: &'static [AtomicU64]) {
        let begin = words.as_ptr().addr();
        self.own.set([begin, begin + size_of_val(words)]);
    }

    /// The words of the model's own at an address.
    fn own_words(&self, address: usize, bytes: usize) -> Option<&[AtomicU64]> {
        let [begin, end] = self.own.get();
        (begin..end).contains(&address).then(|| {
            assert!(address.is_multiple_of(8) && bytes.is_multiple_of(8), "whole words");
            // SAFETY: they are the model's as long as the execution lasts.
            unsafe { std::slice::from_raw_parts(address as *const AtomicU64, bytes / 8) }
        })
    }

    /// The kernel refuses fences of all threads from now on.
    pub fn refuse_fences(&self) {
        self.fences.set(false);
    }

    /// The kernel refuses fences of readers from now on.
    pub fn refuse_reader_fences(&self) {
        self.fences_readers.set(false);
    }

    fn entry(&self, slot: Slot) -> &Entry {
        self.machine.rows().entry(me() as usize, slot)
    }

    /// The committing store of a sequence, unless the thread was interrupted since its begin.
    fn commit(begin: u64, entry: &Entry, top: u32) -> bool {
        if begin_sequence() != begin {
            return false;
        }
        // SAFETY: an entry begins with its top.
        let word = unsafe { AtomicU32::from_ptr(std::ptr::from_ref(entry) as *mut u32) };
        word.store(top, Ordering::Relaxed);
        true
    }

    /// The top of a stack; what is loaded by its number comes after it, as on every processor whose
    /// loads follow the address that they need.
    fn top(entry: &Entry) -> u32 {
        let top = entry.top();
        fence(Ordering::Acquire);
        top
    }
}

impl Default for Modelled {
    fn default() -> Self {
        Self::new()
    }
}

impl Park for Modelled {
    fn wait(&self, word: &AtomicU32, value: u32) {
        answer_fence();
        if word.load(Ordering::Relaxed) == value {
            yield_now();
        }
    }

    fn wait_at_most(&self, word: &AtomicU32, value: u32, ms: u64) {
        self.machine.advance(ms);
        self.wait(word, value);
    }

    fn wake(&self, _: &AtomicU32) {}

    fn held(&self) -> &AtomicU32 {
        &self.thread().held
    }
}

impl Memory for Modelled {
    fn page_bytes(&self) -> usize {
        self.machine.page_bytes()
    }

    fn reserve(&self, bytes: usize, align: usize, what: Use) -> Option<usize> {
        self.machine.reserve(bytes, align, what)
    }

    fn commit(&self, address: usize, bytes: usize) -> bool {
        self.write_memory();
        self.machine.commit(address, bytes)
    }

    fn advise(&self, address: usize, bytes: usize, advice: Advice) {
        if address == self.mapping_at.get() {
            self.mapping.read();
        }
        self.machine.advise(address, bytes, advice);
    }

    fn give_back(&self, stretches: &mut [Stretch]) {
        self.machine.give_back(stretches);
    }

    fn map(&self, bytes: usize, align: usize) -> Option<usize> {
        self.write_memory();
        self.machine.map(bytes, align)
    }

    fn unmap(&self, address: usize, bytes: usize) {
        if address == self.mapping_at.get() {
            self.mapping.write(1);
        }
        self.machine.unmap(address, bytes);
    }

    fn remap(&self, address: usize, old_bytes: usize, new_bytes: usize) -> Option<usize> {
        self.machine.remap(address, old_bytes, new_bytes)
    }
}

impl ObjectMemory for Modelled {
    unsafe fn word(&self, address: usize) -> &AtomicU64 {
        // SAFETY: the caller's promise.
        let of_machine = || unsafe { self.machine.word(address) };
        self.own_words(address, 8).map_or_else(of_machine, |words| &words[0])
    }

    unsafe fn fill(&self, address: usize, bytes: usize, value: u8) {
        match self.own_words(address, bytes) {
            Some(words) => {
                let value = u64::from_ne_bytes([value; 8]);
                words.iter().for_each(|word| word.store(value, Ordering::Relaxed));
            }
            // SAFETY: the caller's promise.
            None => unsafe { self.machine.fill(address, bytes, value) },
        }
    }

    unsafe fn first_other(&self, address: usize, bytes: usize, value: u8) -> Option<(usize, u8)> {
        let before = address % 8;
        if let Some(words) = self.own_words(address - before, (before + bytes).next_multiple_of(8))
        {
            let all = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
            let mut these = all.skip(before).take(bytes).enumerate();
            let other = these.find(|(_, byte)| *byte != value);
            return other.map(|(nth, byte)| (address + nth, byte));
        }
        // SAFETY: the caller's promise.
        unsafe { self.machine.first_other(address, bytes, value) }
    }
}

impl PerCpu for Modelled {
    fn rows(&self) -> &Rows {
        self.machine.rows()
    }

    fn commit_rows(&self, bytes: usize) -> bool {
        self.machine.commit_rows(bytes)
    }

    fn enter(&self) {
        if self.is_child.get() {
            self.repaired.read();
        }
    }

    fn row_hint(&self) -> Option<usize> {
        Some(me() as usize)
    }

    fn can_stop(&self) -> bool {
        self.fences.get()
    }

    fn fence(&self) -> bool {
        let fences = self.fences.get();
        if fences {
            fence_all();
        }
        fences
    }

    fn fence_rows(&self, _: impl Iterator<Item = usize> + Clone) -> bool {
        self.fence()
    }

    fn pop(&self, slot: Slot) -> Option<usize> {
        let (begin, entry) = (begin_sequence(), self.entry(slot));
        let top = Self::top(entry);
        let object = match top {
            STOPPED => 0,
            top => self.rows().element(top).load(Ordering::Relaxed),
        };
        (object != 0 && Self::commit(begin, entry, top - 1)).then_some(object)
    }

    fn push(&self, slot: Slot, object: usize, takes: Takes) -> bool {
        let (begin, entry) = (begin_sequence(), self.entry(slot));
        let (top, end) = (Self::top(entry), entry.end());
        if top >= end {
            return false;
        }
        let word = |number| self.rows().element(number).load(Ordering::Relaxed);
        if takes == Takes::Tagged {
            let Tag { base, mask } = Tag::of(end, word);
            if (object ^ base) & mask != 0 {
                return false;
            }
        }
        if word(top) == object {
            return false;
        }
        self.rows().element(top + 1).store(object, Ordering::Relaxed);
        Self::commit(begin, entry, top + 1)
    }

    fn pop_many(&self, slot: Slot, out: &mut [usize]) -> usize {
        let taken = out.iter_mut().map_while(|to| self.pop(slot).map(|object| *to = object));
        taken.count()
    }

    fn push_many(&self, slot: Slot, objects: &[usize], takes: Takes) -> usize {
        objects.iter().take_while(|object| self.push(slot, **object, takes)).count()
    }

    fn exchange(&self, slot: Slot, new: Stack) -> Result<Stack, Stopped> {
        self.rows().begin_use(me() as usize);
        answer_fence();
        self.entry(slot).replace(new)
    }
}

impl Threads for Modelled {
    fn thread(&self) -> &ThreadWords {
        &self.threads[me() as usize]
    }

    fn birth(&self) -> &AtomicU32 {
        self.machine.birth()
    }

    fn mark_child(&self) {
        self.is_child.set(true);
        self.birth().store(CHILD, Ordering::Relaxed);
    }

    fn begin_child(&self) {
        self.repaired.write(1);
    }

    fn on_thread_end(&self, _: &ReaderSlot) -> bool {
        true
    }

    fn fence_readers(&self) -> bool {
        let fences = self.fences_readers.get();
        if fences {
            fence_all();
        }
        fences
    }
}

impl Time for Modelled {
    fn now_ms(&self) -> u64 {
        self.machine.now_ms()
    }
}

impl Counts for Modelled {}

impl Platform for Modelled {}
