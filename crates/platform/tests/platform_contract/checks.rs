//! What every platform promises to one thread.

use slabyard_platform::stack::{STOPPED, Tag};
use slabyard_platform::{GRANULE, Platform, Slot, Stack, Stopped, Stretch, Takes, Use, stop};
use slabyard_testkit::{read_word, write_word};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs a check while the system refuses memory.
pub type WhileRefused<'a> = &'a dyn Fn(&mut dyn FnMut());

/// What differs between platforms in how a check is made, not in what is checked.
pub struct Surroundings<'a> {
    /// A thread has no row before its first slow path.
    pub late_rows: bool,
    /// Runs a check in a thread that was not there before.
    pub in_a_fresh_thread: &'a (dyn Fn(&(dyn Fn() + Sync)) + Sync),
    /// None where the system refuses no memory, as an emulator of processes.
    pub while_refused: Option<WhileRefused<'a>>,
    /// Lets at least a millisecond pass.
    pub pass_time: &'a dyn Fn(),
}

/// Objects in a stack of these checks.
const CAPACITY: u32 = 4;
/// Objects are numbers here: nothing looks behind them.
const A: usize = 0x1000;
const B: usize = 0x2000;
const C: usize = 0x3000;

/// All checks. The calling thread must stay on one CPU.
pub fn contract<P: Platform>(p: &P, around: &Surroundings<'_>) {
    assert!(p.page_bytes().is_power_of_two() && p.page_bytes() >= GRANULE);
    rows_come_in_time(p, around);
    p.enter();
    let row = p.row_hint().expect("a row after the slow path");
    assert!(row < p.rows().len());
    zeros_are_empty_and_full(p, Slot(0));
    zeros_are_empty_and_full(p, Slot(7));
    last_in_first_out(p, Slot(8));
    top_is_refused(p, Slot(9));
    tag_decides(p, Slot(13));
    many_are_one_after_the_other(p, Slot(14));
    exchange_returns_what_was_there(p, Slot(10));
    asked_push_is_slow(p, row, Slot(11));
    if p.can_stop() {
        stopped_stack_is_ours(p, row, Slot(12));
    }
    tables_read_as_zero(p);
    arena_is_zero_after_give_back(p);
    words_in_slabs_are_words_of_the_arena(p);
    mappings_keep_their_contents(p);
    pages_move_out(p, around);
    refusal_changes_nothing(p, around);
    time_goes_on(p, around);
}

/// Elements for `n` stacks, each with a word of zero in front and a tag that takes every object
/// behind.
pub fn arrays<P: Platform>(p: &P, n: usize, capacity: usize) -> Vec<usize> {
    let (base, reserved) = p.rows().elements();
    // The first word counts the bytes in use; it reads as 0 at first.
    let begun = element(base, 0).load(Ordering::Relaxed);
    let used = begun.max(8);
    let words = capacity + 1 + Tag::ELEMENTS as usize;
    let end = used + n * words * 8;
    assert!(end <= reserved, "address space");
    let [done, all] = [begun, end].map(|bytes| bytes.next_multiple_of(p.page_bytes()));
    assert!(all == done || p.commit(base + done, all - done), "memory");
    element(base, 0).store(end, Ordering::Relaxed);
    (0..n).map(|i| base + used + (i * words + 1) * 8).collect()
}

/// The stack of the `count` objects in an array.
pub fn stack<P: Platform>(p: &P, objects: usize, count: u32, capacity: u32) -> Stack {
    let guard = p.rows().element_number(objects) - 1;
    Stack { top: guard + count, end: guard + capacity }
}

/// Array and number of objects of a stack, which has one.
pub fn array_of<P: Platform>(p: &P, top: u32, arrays: &[usize]) -> (usize, usize) {
    let below = |objects: &&usize| p.rows().element_number(**objects) <= top + 1;
    let objects = *arrays.iter().filter(below).max().expect("one of ours");
    (objects, (top + 1 - p.rows().element_number(objects)) as usize)
}

/// An element of a stack's array.
pub fn element(objects: usize, i: usize) -> &'static AtomicUsize {
    // SAFETY: callers pass arrays of `arrays`, which no thread frees while the
    // platform lives, and indices below their capacity.
    unsafe { &*((objects + i * 8) as *const AtomicUsize) }
}

/// An exchange of a stack that is not stopped. One that a preemption aborts says that it is.
fn exchange<P: Platform>(p: &P, slot: Slot, new: Stack) -> Result<Stack, Stopped> {
    const TRIES: usize = 100;
    (0..TRIES).find_map(|_| p.exchange(slot, new).ok()).ok_or(Stopped)
}

/// Gives this CPU an empty stack with elements of its own; returns their address.
fn new_stack<P: Platform>(p: &P, slot: Slot) -> usize {
    let objects = arrays(p, 1, CAPACITY as usize)[0];
    assert_eq!(exchange(p, slot, stack(p, objects, 0, CAPACITY)), Ok(Stack::NONE));
    let row = p.row_hint().expect("a row");
    assert!(p.rows().used().any(|used| used == row), "a row with a stack is in use");
    objects
}

fn rows_come_in_time<P: Platform>(p: &P, around: &Surroundings<'_>) {
    let late_rows = around.late_rows;
    (around.in_a_fresh_thread)(&|| {
        let slot = Slot(6);
        if late_rows {
            assert_eq!(p.row_hint(), None);
            assert_eq!(p.pop(slot), None);
            assert!(!p.push(slot, A, Takes::Each) && !p.push(slot, A, Takes::Tagged));
            assert_eq!(p.pop_many(slot, &mut [0; 2]) + p.push_many(slot, &[A, B], Takes::Each), 0);
            assert_eq!(p.exchange(slot, Stack::NONE), Err(Stopped));
        }
        p.enter();
        let row = p.row_hint().expect("a row after the slow path");
        assert!(row < p.rows().len());
        assert_eq!(exchange(p, slot, Stack::NONE), Ok(Stack::NONE));
        assert_eq!(p.thread().depth.load(Ordering::Relaxed), 0, "not in a slow path");
        assert_eq!(p.held().load(Ordering::Relaxed), 0, "no lock");
    });
}

fn zeros_are_empty_and_full<P: Platform>(p: &P, slot: Slot) {
    assert_eq!(p.pop(slot), None);
    assert!(!p.push(slot, A, Takes::Each));
    assert_eq!(p.pop(slot), None);
}

fn last_in_first_out<P: Platform>(p: &P, slot: Slot) {
    new_stack(p, slot);
    assert_eq!(p.pop(slot), None);
    for i in 1..=CAPACITY as usize {
        assert!(p.push(slot, i * GRANULE, Takes::Each), "room for {i}");
    }
    assert!(!p.push(slot, A, Takes::Each), "beyond the capacity");
    for i in (1..=CAPACITY as usize).rev() {
        assert_eq!(p.pop(slot), Some(i * GRANULE));
    }
    assert_eq!(p.pop(slot), None);
}

fn top_is_refused<P: Platform>(p: &P, slot: Slot) {
    new_stack(p, slot);
    assert!(p.push(slot, A, Takes::Each));
    assert!(!p.push(slot, A, Takes::Each), "freed twice in a row");
    assert!(p.push(slot, B, Takes::Each) && !p.push(slot, B, Takes::Each));
    assert_eq!((p.pop(slot), p.pop(slot), p.pop(slot)), (Some(B), Some(A), None));
    assert!(p.push(slot, A, Takes::Each), "what lies above the top is no object");
}

fn tag_decides<P: Platform>(p: &P, slot: Slot) {
    assert!(!p.push(slot, A, Takes::Tagged), "no stack");
    let first = new_stack(p, slot);
    assert!(p.push(slot, A, Takes::Tagged), "zeros take every object");
    let second = arrays(p, 1, CAPACITY as usize)[0];
    let mask = !(GRANULE - 1);
    for (i, word) in [A, mask].into_iter().enumerate() {
        element(second, CAPACITY as usize + i).store(word, Ordering::Relaxed);
    }
    let tagged = stack(p, second, 0, CAPACITY);
    assert_eq!(exchange(p, slot, tagged), Ok(stack(p, first, 1, CAPACITY)));
    assert!(
        !p.push(slot, A - 1, Takes::Tagged) && !p.push(slot, A + GRANULE, Takes::Tagged),
        "of other slabs"
    );
    assert!(
        p.push(slot, A, Takes::Tagged) && !p.push(slot, A, Takes::Tagged),
        "freed twice in a row"
    );
    for offset in [GRANULE - 1, 1, 16] {
        assert!(p.push(slot, A + offset, Takes::Tagged), "of the slab");
    }
    assert!(!p.push(slot, A + 2, Takes::Tagged), "beyond the capacity");
    assert_eq!(
        (p.pop(slot), p.pop(slot), p.pop(slot)),
        (Some(A + 16), Some(A + 1), Some(A + GRANULE - 1))
    );
    assert!(p.push(slot, C, Takes::Each), "a push asks for no tag");
    assert_eq!(p.pop(slot), Some(C));
    assert_eq!(exchange(p, slot, Stack::NONE), Ok(stack(p, second, 1, CAPACITY)));
    assert!(!p.push(slot, A, Takes::Tagged));
}

fn many_are_one_after_the_other<P: Platform>(p: &P, slot: Slot) {
    let mut out = [0; CAPACITY as usize + 2];
    assert_eq!(
        (p.pop_many(slot, &mut out), p.push_many(slot, &[A], Takes::Each)),
        (0, 0),
        "no stack"
    );
    assert_eq!(p.push_many(slot, &[A], Takes::Tagged), 0, "no stack");
    new_stack(p, slot);
    let all: Vec<usize> = (1..=CAPACITY as usize + 1).map(|i| i * GRANULE).collect();
    let (most, last) = (CAPACITY as usize, all[CAPACITY as usize]);
    assert_eq!((p.pop_many(slot, &mut out), p.push_many(slot, &[], Takes::Each)), (0, 0));
    assert_eq!(p.push_many(slot, &all, Takes::Each), most, "as many as there is room for");
    assert_eq!(
        (p.push_many(slot, &[last], Takes::Each), p.push_many(slot, &[last], Takes::Tagged)),
        (0, 0),
        "full"
    );
    assert_eq!((p.pop_many(slot, &mut out[..1]), out[0]), (1, all[most - 1]), "the top first");
    assert_eq!(p.push_many(slot, &[all[most - 2]], Takes::Each), 0, "freed twice in a row");
    assert_eq!((p.pop_many(slot, &mut []), p.pop_many(slot, &mut out)), (0, most - 1));
    assert!(out[..most - 1].iter().rev().eq(&all[..most - 1]));
    assert_eq!(p.pop(slot), None);
    assert_eq!(p.push_many(slot, &all[..2], Takes::Tagged), 2, "zeros take every object");
    assert_eq!((p.pop(slot), p.pop(slot)), (Some(all[1]), Some(all[0])));
    let tagged = arrays(p, 1, CAPACITY as usize)[0];
    for (i, word) in [A, !(GRANULE - 1)].into_iter().enumerate() {
        element(tagged, CAPACITY as usize + i).store(word, Ordering::Relaxed);
    }
    assert!(exchange(p, slot, stack(p, tagged, 0, CAPACITY)).is_ok());
    assert_eq!(p.push_many(slot, &all, Takes::Tagged), 0, "it may not take all of them");
    assert_eq!(exchange(p, slot, Stack::NONE), Ok(stack(p, tagged, 0, CAPACITY)));
}

fn exchange_returns_what_was_there<P: Platform>(p: &P, slot: Slot) {
    let first = new_stack(p, slot);
    assert!(p.push(slot, A, Takes::Each) && p.push(slot, B, Takes::Each));
    let second = arrays(p, 1, CAPACITY as usize)[0];
    element(second, 0).store(C, Ordering::Relaxed);
    let old = exchange(p, slot, stack(p, second, 1, 1));
    assert_eq!(old, Ok(stack(p, first, 2, CAPACITY)));
    let held = [0, 1].map(|i| element(first, i).load(Ordering::Relaxed));
    assert_eq!(held, [A, B]);
    assert!(!p.push(slot, A, Takes::Each), "the new capacity");
    assert_eq!(p.pop(slot), Some(C));
    assert_eq!(exchange(p, slot, Stack::NONE), Ok(stack(p, second, 0, 1)));
    zeros_are_empty_and_full(p, slot);
}

fn asked_push_is_slow<P: Platform>(p: &P, row: usize, slot: Slot) {
    let objects = new_stack(p, slot);
    assert!(p.push(slot, A, Takes::Each));
    p.rows().entry(row, slot).ask();
    assert!(!p.push(slot, B, Takes::Each) && !p.push(slot, B, Takes::Tagged), "the end is 0");
    assert_eq!(
        p.push_many(slot, &[B, C], Takes::Each) + p.push_many(slot, &[B, C], Takes::Tagged),
        0,
        "the end is 0"
    );
    let again = stack(p, objects, 1, CAPACITY);
    assert_eq!(exchange(p, slot, again), Ok(Stack { end: 0, ..again }));
    assert!(p.push(slot, B, Takes::Each));
    assert_eq!((p.pop(slot), p.pop(slot)), (Some(B), Some(A)));
}

fn stopped_stack_is_ours<P: Platform>(p: &P, row: usize, slot: Slot) {
    let objects = new_stack(p, slot);
    assert!(
        p.push(slot, A, Takes::Each)
            && p.push(slot, B, Takes::Each)
            && p.push(slot, C, Takes::Each)
    );
    // Stopped with the stacks of all other rows, which no thread uses.
    let mut stops: Vec<_> = (0..p.rows().len()).map(|r| (r, slot, 7)).collect();
    assert!(stop(p, &mut stops, &|_, _, _| ()));
    let three = stack(p, objects, 3, CAPACITY);
    for (r, _, top) in &stops {
        assert_eq!(*top, if *r == row { three.top } else { 0 });
    }
    let entry = p.rows().entry(row, slot);
    for _ in 0..2 {
        assert!(entry.is_stopped());
        assert_eq!(p.pop(slot), None);
        assert!(
            !p.push(slot, GRANULE * 9, Takes::Each) && !p.push(slot, GRANULE * 9, Takes::Tagged)
        );
        let many = [GRANULE * 9, GRANULE * 10];
        assert_eq!(
            (p.push_many(slot, &many, Takes::Each), p.push_many(slot, &many, Takes::Tagged)),
            (0, 0)
        );
        assert_eq!(p.pop_many(slot, &mut [0; 2]), 0);
        assert_eq!(p.exchange(slot, Stack::NONE), Err(Stopped));
    }
    assert_eq!((entry.top(), entry.end()), (STOPPED, three.end));
    let held = [0, 1, 2].map(|i| element(objects, i).load(Ordering::Relaxed));
    assert_eq!(held, [A, B, C]);
    // The stopper takes the topmost object and gives the others back.
    for (r, _, top) in stops {
        p.rows().entry(r, slot).start(if r == row { top - 1 } else { top });
    }
    assert_eq!((p.pop(slot), p.pop(slot), p.pop(slot)), (Some(B), Some(A), None));
}

fn tables_read_as_zero<P: Platform>(p: &P) {
    let page = p.page_bytes();
    let table = p.reserve(page * 4, page * 8, Use::Table).expect("address space");
    assert!(table.is_multiple_of(page * 8), "aligned");
    assert!(p.commit(table, page * 2));
    assert_eq!(element(table + page, 0).load(Ordering::Relaxed), 0, "fresh");
    element(table, 0).store(A, Ordering::Relaxed);
    element(table + page, 0).store(B, Ordering::Relaxed);
    assert!(p.commit(table + page * 2, page), "one page more");
    p.give_back(&mut [Stretch { address: table, bytes: page }]);
    assert_eq!(element(table, 0).load(Ordering::Relaxed), 0, "given back");
    assert_eq!(element(table + page, 0).load(Ordering::Relaxed), B, "kept");
    element(table, 0).store(C, Ordering::Relaxed);
    assert_eq!(element(table, 0).load(Ordering::Relaxed), C, "still usable");
}

fn arena_is_zero_after_give_back<P: Platform>(p: &P) {
    let page = p.page_bytes();
    let align = page * 16;
    let arena = p.reserve(page * 64, align, Use::Arena).expect("address space");
    assert!(arena.is_multiple_of(align), "aligned");
    assert!(p.commit(arena + page, page * 3));
    for i in 1..4 {
        let word = arena + page * i;
        assert_eq!(read(p, word), 0, "fresh");
        write(p, word, i);
    }
    assert!(p.commit(arena + page * 4, page), "one page more");
    let stretch = |i: usize| Stretch { address: arena + page * i, bytes: page };
    p.give_back(&mut [stretch(2)]);
    let words = || [1, 2, 3].map(|i| read(p, arena + page * i));
    assert_eq!(words(), [1, 0, 3]);
    write(p, arena + page * 2, 9);
    assert_eq!(read(p, arena + page * 2), 9, "still usable");
    p.give_back(&mut [stretch(3), stretch(1)]);
    assert_eq!(words(), [0, 9, 0], "several at once");
}

fn words_in_slabs_are_words_of_the_arena<P: Platform>(p: &P) {
    let page = p.page_bytes();
    let arena = p.reserve(page * 2, page, Use::Arena).expect("address space");
    assert!(p.commit(arena, page * 2));
    write(p, arena + 8, A);
    // SAFETY: committed words that nobody uses.
    let [first, second, last] = [0, 8, 2 * page - 8].map(|at| unsafe { p.word(arena + at) });
    assert_eq!((first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)), (0, A as u64));
    assert_eq!(first.fetch_or(6, Ordering::Relaxed), 0);
    last.store(7, Ordering::Relaxed);
    // SAFETY: as above.
    let again = unsafe { p.word(arena) };
    assert_eq!(again.fetch_and(!2, Ordering::Relaxed), 6);
    assert_eq!((read(p, arena), read(p, arena + 2 * page - 8)), (4, 7));
    write(p, arena, 9);
    assert_eq!(first.load(Ordering::Relaxed), 9);
    p.give_back(&mut [Stretch { address: arena, bytes: page }]);
    let words = [first, second, last].map(|word| word.load(Ordering::Relaxed));
    assert_eq!(words, [0, 0, 7], "given back");
}

fn mappings_keep_their_contents<P: Platform>(p: &P) {
    let page = p.page_bytes();
    let align = page * 32;
    let mut mapping = p.map(page * 2, align).expect("memory");
    assert!(mapping.is_multiple_of(align), "aligned");
    assert_eq!(read(p, mapping + page), 0);
    write(p, mapping, A);
    write(p, mapping + page, B);
    mapping = p.remap(mapping, page * 2, page * 5).expect("memory");
    assert_eq!((read(p, mapping), read(p, mapping + page)), (A, B));
    assert_eq!(read(p, mapping + page * 4), 0, "the grown part");
    mapping = p.remap(mapping, page * 5, page).expect("memory");
    assert_eq!(read(p, mapping), A);
    mapping = p.remap(mapping, page, page * 2).expect("memory");
    assert_eq!(read(p, mapping + page), 0, "cut off and grown again");
    p.unmap(mapping, page * 2);
}

fn pages_move_out<P: Platform>(p: &P, around: &Surroundings<'_>) {
    let page = p.page_bytes();
    let arena = p.reserve(page * 64, page, Use::Arena).expect("address space");
    assert!(p.commit(arena, page * 5));
    for i in 0..5 {
        write(p, arena + page * i, i + 1);
    }
    let part = arena + page;
    if let Some(while_refused) = around.while_refused {
        let mut refused = false;
        while_refused(&mut || refused = p.move_out(part, page * 3, page * 9).is_none());
        assert!(refused);
    }
    let words = || [0, 1, 2, 3, 4].map(|i| read(p, arena + page * i));
    assert_eq!(words(), [1, 2, 3, 4, 5]);
    let Some(moved) = p.move_out(part, page * 3, page * 9) else {
        eprintln!("not run: this system cannot move pages out");
        return assert_eq!(words(), [1, 2, 3, 4, 5]);
    };
    assert_eq!([0, 1, 2, 3, 8].map(|i| read(p, moved + page * i)), [2, 3, 4, 0, 0]);
    assert_eq!(words(), [1, 0, 0, 0, 5]);
    write(p, part, 7);
    assert_eq!((read(p, moved), words()), (2, [1, 7, 0, 0, 5]), "still usable");
    // It is a mapping as others are.
    let moved = p.remap(moved, page * 9, page * 20).expect("memory");
    assert_eq!(read(p, moved + page * 2), 4);
    p.unmap(moved, page * 20);
}

fn refusal_changes_nothing<P: Platform>(p: &P, around: &Surroundings<'_>) {
    let Some(while_refused) = around.while_refused else {
        return eprintln!("not run: this system refuses no memory");
    };
    let page = p.page_bytes();
    let arena = p.reserve(page * 64, page, Use::Arena).expect("address space");
    assert!(p.commit(arena, page));
    write(p, arena, A);
    let mapping = p.map(page, page).expect("memory");
    write(p, mapping, B);
    let mut refused = [false; 3];
    while_refused(&mut || refused[0] = !p.commit(arena + page, page * 63));
    while_refused(&mut || refused[1] = p.map(page * 64, page).is_none());
    while_refused(&mut || refused[2] = p.remap(mapping, page, page * 64).is_none());
    assert_eq!(refused, [true; 3]);
    assert_eq!((read(p, arena), read(p, mapping)), (A, B));
    assert!(p.commit(arena + page, page * 63), "succeeds now");
    assert_eq!((read(p, arena), read(p, arena + page * 63)), (A, 0));
    let mapping = p.remap(mapping, page, page * 64).expect("succeeds now");
    assert_eq!(read(p, mapping), B);
    p.unmap(mapping, page * 64);
}

fn time_goes_on<P: Platform>(p: &P, around: &Surroundings<'_>) {
    let first = p.now_ms();
    let mut last = first;
    for _ in 0..100 {
        let now = p.now_ms();
        assert!(now >= last, "{now} after {last}");
        last = now;
    }
    (around.pass_time)();
    assert!(p.now_ms() > first);
}

fn read<P: Platform>(p: &P, address: usize) -> usize {
    // SAFETY: the checks pass words of pages that they committed or mapped.
    unsafe { read_word(p, address) }
}

fn write<P: Platform>(p: &P, address: usize, word: usize) {
    // SAFETY: as above; no object lies there.
    unsafe { write_word(p, address, word) }
}
