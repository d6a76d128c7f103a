//! Stacks of CPUs against their stops: a thread marks a stack, fences all threads, changes its
//! elements, and starts it again.
#![cfg(loom)]

use slabyard_models::{Data, Modelled, keep, model, spawn, watch_range};
use slabyard_platform::stack::{STOPPED, Slot, Stack, Tag};
use slabyard_platform::sync::Ordering;
use slabyard_platform::{PerCpu, Takes, stop};

const SLOT: Slot = Slot(18);
/// The row of the first thread that a model starts.
const ROW: usize = 1;

/// A machine on which the second thread's row has a stack: the addresses of `objects` above the
/// guard, and room for `room`.
fn machine(objects: &[usize], room: u32) -> (&'static Modelled, u32) {
    let p = keep(Modelled::new());
    let rows = p.rows();
    let (elements, bytes) = rows.elements();
    assert!(slabyard_platform::Memory::commit(p, elements, 4096) && bytes > 4096);
    rows.begin_use(ROW);
    let guard = rows.element_number(elements);
    for (nth, object) in objects.iter().enumerate() {
        rows.element(guard + 1 + nth as u32).store(*object, Ordering::Relaxed);
    }
    let entry = rows.entry(ROW, SLOT);
    let top = guard + objects.len() as u32;
    let _ = entry.replace(Stack { top, end: guard + room }).expect("not stopped");
    watch_range(std::ptr::from_ref(entry).addr(), 2, 4);
    watch_range(elements, 1 + room as usize + Tag::ELEMENTS as usize, size_of::<usize>());
    (p, guard)
}

/// Stops the stack; its top.
fn stopped(p: &Modelled) -> u32 {
    let mut stops = [(ROW, SLOT, 0)];
    assert!(stop(p, &mut stops, &|_, _, _| {}));
    stops[0].2
}

/// An object is the owner's or the stopper's: no two threads have it.
#[test]
fn a_stop_takes_what_the_owner_did_not() {
    model(2, || {
        let objects: &[Data; 2] = keep([Data::new(), Data::new()]);
        let (p, guard) = machine(&[8, 16], 2);
        let owner = spawn(move || {
            if let Some(object) = p.pop(SLOT) {
                objects[object / 8 - 1].write(1);
                let _ = p.push(SLOT, object, Takes::Each);
            }
        });
        let top = stopped(p);
        for element in guard + 1..=top {
            let object = p.rows().element(element).load(Ordering::Relaxed);
            objects[object / 8 - 1].write(2);
        }
        owner.join().unwrap();
        assert_eq!(p.rows().entry(ROW, SLOT).top(), STOPPED);
    });
}

/// After a start the owner pops what the stopper put there.
#[test]
fn an_owner_pops_what_was_put_before_the_start() {
    model(2, || {
        let objects: &[Data; 2] = keep([Data::new(), Data::new()]);
        let (p, guard) = machine(&[], 2);
        let owner = spawn(move || {
            if let Some(object) = p.pop(SLOT) {
                assert_eq!(objects[object / 8 - 1].read(), 3);
            }
        });
        assert_eq!(stopped(p), guard);
        objects[1].write(3);
        p.rows().element(guard + 1).store(16, Ordering::Relaxed);
        p.rows().entry(ROW, SLOT).start(guard + 1);
        owner.join().unwrap();
    });
}

/// A stack that is taken away is full for who sees that it is gone.
#[test]
fn no_push_finds_room_where_no_stack_is() {
    model(2, || {
        let (p, guard) = machine(&[], 2);
        let owner = spawn(move || p.push(SLOT, 8, Takes::Each));
        let top = stopped(p);
        p.rows().entry(ROW, SLOT).start_without();
        let pushed = owner.join().unwrap();
        assert_eq!(pushed, top == guard + 1, "the top is that of the stack that was taken");
        assert_eq!(p.rows().entry(ROW, SLOT).top(), 0);
    });
}

/// A stack with a tag takes the objects of one slab alone, whichever stack an exchange put there.
#[test]
fn a_push_goes_by_the_tag_of_the_stack_that_it_finds() {
    model(2, || {
        let (p, guard) = machine(&[], 1);
        let word = |number: u32| p.rows().element(number);
        let mask = !0xfff_usize;
        word(guard + 2).store(0x1000, Ordering::Relaxed);
        word(guard + 3).store(mask, Ordering::Relaxed);
        let owner = spawn(move || p.push(SLOT, 0x1008, Takes::Tagged));
        let top = stopped(p);
        if top == guard {
            word(guard + 2).store(0x2000, Ordering::Relaxed);
        }
        p.rows().entry(ROW, SLOT).start(top);
        let pushed = owner.join().unwrap();
        let entry = p.rows().entry(ROW, SLOT);
        let held = entry.top() == guard + 1;
        assert_eq!(pushed, held);
        if held {
            assert_eq!(word(guard + 2).load(Ordering::Relaxed), 0x1000);
        }
    });
}

/// Who finds a stack's replacement by its owner finds its elements.
#[test]
fn a_replacement_comes_after_its_elements() {
    model(2, || {
        let (p, guard) = machine(&[], 2);
        let owner = spawn(move || {
            p.rows().element(guard + 1).store(8, Ordering::Relaxed);
            let _ = p.rows().entry(ROW, SLOT).replace(Stack { top: guard + 1, end: guard + 2 });
            p.rows().element(guard + 2).store(16, Ordering::Relaxed);
            p.rows().entry(ROW, SLOT).commit(guard + 2);
        });
        let top = p.rows().entry(ROW, SLOT).mark_stopped();
        for (nth, element) in (guard + 1..=top).enumerate() {
            assert_eq!(p.rows().element(element).load(Ordering::Relaxed), 8 * (nth + 1));
        }
        owner.join().unwrap();
    });
}
