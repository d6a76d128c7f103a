//! A machine whose threads run at once, on real memory: for tools that judge orderings, such as
//! Miri.
//!
//! [`crate::machine`] switches threads under one lock, which orders everything that they do: no
//! tool finds a missing Acquire or Release there. Here the only orders between threads are those
//! of the allocator, of a CPU, and of a fence.
//!
//! Neighbours: `slabyard_platform::stack` has the rows; tests of `slabyard` run yards on this.
//!
//! Invariants:
//! * memory is real and stays until the machine is dropped; a mapping until it is unmapped: a late
//!   access to it is one to freed memory;
//! * a commit writes the zeros that are there, so that who uses the memory without knowing of the
//!   commit has a race; it orders nothing, as no system call does; time passes unordered;
//! * threads that share a row hold its CPU during a sequence: one CPU runs one thread at a time, and
//!   a switch of threads orders what they do; a fence takes each CPU once, so that each sequence is
//!   before or after it, as `membarrier` ensures;
//! * threads of private rows share nothing, and nothing of theirs is stopped;
//! * no sequence is aborted: this is what the modelled machine is for.

use slabyard_platform::birth::WHOLE;
use slabyard_platform::reader::ReaderSlot;
use slabyard_platform::stack::{
    FIRST_ROW_BYTES, ROW_STRIDE, Rows, STOPPED, Slot, Stack, Stopped, Tag,
};
use slabyard_platform::sync::lock::may_call;
use slabyard_platform::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use slabyard_platform::{
    Counts, Entry, GRANULE, Memory, ObjectMemory, Park, PerCpu, Platform, Stretch, Takes,
    ThreadWords, Threads, Time, Use,
};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes for the elements of stacks.
const ELEMENTS: usize = 4 << 20;

/// Whose the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// So many CPUs': threads take turns on them, and their stacks can be stopped.
    Cpus(usize),
    /// Private: no other thread can stop its stacks.
    Threads,
}

/// Zeroed memory.
struct Block {
    memory: *mut u8,
    layout: Layout,
}

// SAFETY: the pointer is only used to free the memory, by its one owner.
unsafe impl Send for Block {}

impl Block {
    fn new(bytes: usize, align: usize) -> Option<Block> {
        let layout = Layout::from_size_align(bytes, align).ok().filter(|of| of.size() > 0)?;
        // SAFETY: the size is not 0.
        let memory = unsafe { alloc_zeroed(layout) };
        (!memory.is_null()).then_some(Block { memory, layout })
    }

    /// Others turn it back into a pointer.
    fn address(&self) -> usize {
        self.memory.expose_provenance()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.memory, self.layout) };
    }
}

/// What a thread has; thread 0 is the caller of [`Parallel::run`].
#[derive(Default)]
struct Own {
    words: ThreadWords,
    cpu: AtomicUsize,
}

/// A machine whose threads run at once.
pub struct Parallel {
    owner: Owner,
    rows: Rows,
    threads: Box<[Own]>,
    /// Held by the thread that a CPU runs.
    cpus: Box<[Mutex<()>]>,
    /// Reservations, which stay.
    reserved: Mutex<Vec<Block>>,
    mapped: Mutex<Vec<Block>>,
    now_ms: AtomicU64,
    birth: AtomicU32,
}

/// What a thread does.
pub type Body<'a> = Box<dyn FnOnce(&Parallel) + Send + 'a>;

thread_local! {
    /// The number of this thread in its run.
    static ME: Cell<usize> = const { Cell::new(0) };
}

impl Parallel {
    /// A machine for so many threads beside the caller, with no memory in use.
    ///
    /// # Panics
    /// Without memory.
    #[must_use]
    pub fn new(owner: Owner, threads: usize) -> Self {
        let nr_rows = match owner {
            Owner::Cpus(cpus) => cpus,
            Owner::Threads => threads + 1,
        };
        let row_bytes = nr_rows * ROW_STRIDE;
        // The header; then the rows; then the elements.
        let block = Block::new(GRANULE + row_bytes + ELEMENTS, GRANULE).expect("memory for rows");
        let base = block.address() + GRANULE;
        let rows = Rows::new();
        // SAFETY: zeroed memory that stays until the machine is dropped.
        unsafe { rows.set(block.address(), base, nr_rows, (base + row_bytes, ELEMENTS)) };
        // SAFETY: no sequence of a CPU runs on them.
        unsafe { rows.set_owner(0, owner == Owner::Threads) };
        rows.set_row_bytes(FIRST_ROW_BYTES);
        Parallel {
            owner,
            rows,
            threads: (0..=threads).map(|_| Own::default()).collect(),
            cpus: (0..nr_rows).map(|_| Mutex::default()).collect(),
            reserved: Mutex::new(vec![block]),
            mapped: Mutex::default(),
            now_ms: AtomicU64::new(0),
            birth: AtomicU32::new(WHOLE),
        }
    }

    /// Runs threads at once, until all have ended; where CPUs have rows, each begins on the next.
    ///
    /// # Panics
    /// If a thread does, or there are more than the machine is for.
    pub fn run(&self, threads: Vec<Body<'_>>) {
        assert!(threads.len() < self.threads.len(), "{} threads", threads.len());
        std::thread::scope(|scope| {
            for (n, body) in threads.into_iter().enumerate() {
                scope.spawn(move || {
                    ME.set(n + 1);
                    self.move_to(n);
                    body(self);
                });
            }
        });
    }

    /// Moves the calling thread to a CPU, counted round.
    pub fn move_to(&self, cpu: usize) {
        self.here().cpu.store(cpu % self.cpus.len(), Ordering::Relaxed);
    }

    /// Lets time pass.
    pub fn advance(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }

    fn here(&self) -> &Own {
        &self.threads[ME.get()]
    }

    fn row(&self) -> usize {
        match self.owner {
            Owner::Cpus(_) => self.here().cpu.load(Ordering::Relaxed),
            Owner::Threads => ME.get(),
        }
    }

    fn block(&self, bytes: usize, align: usize, among: &Mutex<Vec<Block>>) -> Option<usize> {
        let block = Block::new(bytes.next_multiple_of(GRANULE), align.max(GRANULE))?;
        let address = block.address();
        locked(among).push(block);
        Some(address)
    }

    /// Makes a sequence on this thread's row, on its CPU.
    fn sequence<R>(&self, slot: Slot, f: impl FnOnce(&Entry, u32) -> R) -> R {
        let row = self.row();
        let _cpu = (self.owner != Owner::Threads).then(|| locked(&self.cpus[row]));
        let entry = self.rows.entry(row, slot);
        let top = entry.top();
        // A sequence's loads of elements depend on the top by their address, which orders them.
        fence(Ordering::Acquire);
        f(entry, top)
    }

    fn element(&self, number: u32) -> usize {
        self.rows.element(number).load(Ordering::Relaxed)
    }

    fn push_all(&self, slot: Slot, objects: &[usize], takes: Takes) -> usize {
        self.sequence(slot, |entry, top| {
            let end = entry.end();
            // The top of a stopped stack is above every end.
            if top >= end || objects.first().is_none_or(|first| self.element(top) == *first) {
                return 0;
            }
            let Tag { base, mask } = match takes {
                Takes::Each => Tag::ANY,
                Takes::Tagged => Tag::of(end, |number| self.element(number)),
            };
            let room = objects.len().min((end - top) as usize);
            let taken = |object: &&usize| (**object ^ base) & mask == 0;
            let taken = objects[..room].iter().take_while(taken).count() as u32;
            for (nth, object) in (1..=taken).zip(objects) {
                self.rows.element(top + nth).store(*object, Ordering::Relaxed);
            }
            if taken > 0 {
                entry.commit(top + taken);
            }
            taken as usize
        })
    }

    fn fence_cpus(&self, mut rows: impl Iterator<Item = usize>) -> bool {
        may_call(self);
        assert!(self.owner != Owner::Threads, "a fence where nothing can be stopped");
        fence(Ordering::SeqCst);
        rows.by_ref().for_each(|row| drop(locked(&self.cpus[row])));
        fence(Ordering::SeqCst);
        true
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What panicked with it fails the test.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Park for Parallel {
    /// A look now and then: no sleep, which would order what the waker did.
    fn wait(&self, word: &AtomicU32, value: u32) {
        if word.load(Ordering::Relaxed) == value {
            std::thread::yield_now();
        }
    }

    fn wait_at_most(&self, word: &AtomicU32, value: u32, ms: u64) {
        self.wait(word, value);
        self.advance(ms);
    }

    fn wake(&self, _: &AtomicU32) {}

    fn held(&self) -> &AtomicU32 {
        &self.here().words.held
    }
}

impl Memory for Parallel {
    fn page_bytes(&self) -> usize {
        GRANULE
    }

    fn reserve(&self, bytes: usize, align: usize, _: Use) -> Option<usize> {
        self.block(bytes, align, &self.reserved)
    }

    fn commit(&self, address: usize, bytes: usize) -> bool {
        may_call(self);
        // SAFETY: reserved memory of ours that nobody uses yet, whose provenance is exposed.
        unsafe { (address as *mut u8).write_bytes(0, bytes) };
        true
    }

    fn give_back(&self, stretches: &mut [Stretch]) {
        may_call(self);
        for Stretch { address, bytes } in stretches {
            // SAFETY: committed pages, whose provenance is exposed; the caller gave up their
            // contents. Who still used them would race with these stores.
            unsafe { (*address as *mut u8).write_bytes(0, *bytes) };
        }
    }

    fn map(&self, bytes: usize, align: usize) -> Option<usize> {
        may_call(self);
        self.block(bytes, align, &self.mapped)
    }

    fn unmap(&self, address: usize, bytes: usize) {
        may_call(self);
        let mut mapped = locked(&self.mapped);
        let nth = mapped.iter().position(|block| block.memory.addr() == address);
        let block = mapped.swap_remove(nth.expect("a mapping"));
        assert_eq!(block.layout.size(), bytes.next_multiple_of(GRANULE));
    }

    /// Always moves.
    fn remap(&self, address: usize, old_bytes: usize, new_bytes: usize) -> Option<usize> {
        let to = self.map(new_bytes, GRANULE)?;
        // SAFETY: two mappings of ours, of at least so many bytes.
        unsafe { (to as *mut u8).copy_from(address as *const u8, old_bytes.min(new_bytes)) };
        self.unmap(address, old_bytes);
        Some(to)
    }
}

impl ObjectMemory for Parallel {
    unsafe fn word(&self, address: usize) -> &AtomicU64 {
        // SAFETY: the caller's promise.
        unsafe { &*(address as *const AtomicU64) }
    }

    unsafe fn fill(&self, address: usize, bytes: usize, value: u8) {
        // SAFETY: the caller's promise.
        unsafe { (address as *mut u8).write_bytes(value, bytes) };
    }

    unsafe fn first_other(&self, address: usize, bytes: usize, value: u8) -> Option<(usize, u8)> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, bytes) };
        let nth = bytes.iter().position(|byte| *byte != value)?;
        Some((address + nth, bytes[nth]))
    }
}

impl PerCpu for Parallel {
    fn rows(&self) -> &Rows {
        &self.rows
    }

    fn commit_rows(&self, bytes: usize) -> bool {
        self.rows.set_row_bytes(bytes.clamp(self.rows.row_bytes(), ROW_STRIDE));
        true
    }

    fn enter(&self) {}

    fn row_hint(&self) -> Option<usize> {
        Some(self.row())
    }

    fn can_stop(&self) -> bool {
        self.owner != Owner::Threads
    }

    fn fence(&self) -> bool {
        self.fence_cpus(0..self.cpus.len())
    }

    fn fence_rows(&self, rows: impl Iterator<Item = usize> + Clone) -> bool {
        self.fence_cpus(rows)
    }

    fn pop(&self, slot: Slot) -> Option<usize> {
        let mut object = [0];
        (self.pop_many(slot, &mut object) == 1).then_some(object[0])
    }

    fn push(&self, slot: Slot, object: usize, takes: Takes) -> bool {
        self.push_all(slot, &[object], takes) == 1
    }

    fn pop_many(&self, slot: Slot, out: &mut [usize]) -> usize {
        self.sequence(slot, |entry, top| {
            let mut taken = 0;
            if top != STOPPED {
                for object in out {
                    *object = self.element(top - taken);
                    if *object == 0 {
                        break;
                    }
                    taken += 1;
                }
            }
            if taken > 0 {
                entry.commit(top - taken);
            }
            taken as usize
        })
    }

    fn push_many(&self, slot: Slot, objects: &[usize], takes: Takes) -> usize {
        self.push_all(slot, objects, takes)
    }

    fn exchange(&self, slot: Slot, new: Stack) -> Result<Stack, Stopped> {
        let row = self.row();
        self.rows.begin_use(row);
        self.sequence(slot, |entry, _| entry.replace(new))
    }
}

impl Threads for Parallel {
    fn thread(&self) -> &ThreadWords {
        &self.here().words
    }

    fn birth(&self) -> &AtomicU32 {
        &self.birth
    }

    fn on_thread_end(&self, _: &ReaderSlot) -> bool {
        true
    }

    /// The fence that `fence_readers` would make in each thread.
    fn announce(&self, word: &AtomicU64, value: u64) {
        word.store(value, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    fn fence_readers(&self) -> bool {
        fence(Ordering::SeqCst);
        true
    }
}

impl Time for Parallel {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }
}

impl Counts for Parallel {}

impl Platform for Parallel {}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Slot = Slot(18);

    /// Threads of CPUs pop what was pushed once, while a stack is stopped and started.
    #[test]
    fn what_is_pushed_is_popped_once() {
        for owner in [Owner::Cpus(1), Owner::Cpus(2), Owner::Threads] {
            let machine = Parallel::new(owner, 2);
            let (at, _) = machine.rows().elements();
            let first = machine.rows().element_number(at);
            for (row, first) in (0..machine.rows().len()).zip((first..).step_by(100)) {
                machine.rows().entry(row, SLOT).start(first);
                assert_eq!(
                    machine.rows().entry(row, SLOT).replace(Stack { top: first, end: first + 50 }),
                    Ok(Stack { top: first, end: 0 })
                );
            }
            let popped = Mutex::new(Vec::new());
            let body = |n: usize| -> Body<'_> {
                let popped = &popped;
                Box::new(move |machine| {
                    for nth in 0..20 {
                        assert!(machine.push(SLOT, 1000 * n + nth, Takes::Each));
                        let popped_now = machine.pop(SLOT).expect("one at least");
                        locked(popped).push(popped_now);
                    }
                })
            };
            machine.run(vec![body(1), body(2)]);
            let mut popped = popped.into_inner().unwrap();
            popped.sort_unstable();
            let pushed: Vec<_> = [1000, 2000].into_iter().flat_map(|of| of..of + 20).collect();
            assert_eq!(popped, pushed, "{owner:?}");
        }
    }
}
