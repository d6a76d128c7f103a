//! The protocol alone: one reader and one writer, every order of their steps, on CPUs with store
//! buffers (Sewell, Sarkar, Owens, Zappa Nardelli and Myreen, "x86-TSO", CACM 2010).
//!
//! The reader announces its section and loads the pointer; the writer unlinks, raises the epoch,
//! fences, reads the reader's slot, and frees. A state in which the reader has an object that was
//! freed is a fault. Each part that the protocol needs is left out in turn, and must lead to a
//! fault.

use std::collections::HashSet;

/// What is left out.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Without {
    Nothing,
    /// The writer's fence of all threads.
    FenceOfAll,
    /// The writer's look at the place.
    Look,
    /// The reader's own fence, once it has seen that it must fence.
    OwnFence,
    /// The wait between a refused fence and the look.
    Waiting,
}

/// Whether the system fences all threads.
#[derive(Clone, Copy, PartialEq)]
enum System {
    Fences,
    RefusesFromNowOn,
    RefusedBefore,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct State {
    // Memory.
    epoch: u8,
    is_fenced: bool,
    place: u8,
    /// The place shows that its thread has seen FENCED.
    knows: bool,
    unlinked: u8,
    freed: u8,
    // The reader: its step, its store buffer (a place's word and what it knows), what it loaded.
    reader: u8,
    sections: u8,
    buffer: Option<(u8, bool)>,
    seen: (u8, bool),
    has: Option<u8>,
    // The writer.
    writer: u8,
    waits_for: u8,
    waits: bool,
}

const SECTIONS: u8 = 2;
const OBJECTS: u8 = 2;

fn deliver(mut s: State) -> State {
    if let Some((place, knows)) = s.buffer.take() {
        (s.place, s.knows) = (place, knows);
    }
    s
}

/// States after one step of the reader. Versions of the object are numbers: the pointer names
/// the one that `unlinked` says.
fn reader(s: State, without: Without) -> Vec<State> {
    let mut n = s;
    match s.reader {
        0 if s.sections < SECTIONS => {
            n.seen = (s.epoch, s.is_fenced);
            n.reader = 1;
        }
        1 => {
            n = deliver(n);
            n.buffer = Some((s.seen.0, s.seen.1));
            n.reader = 2;
        }
        2 => {
            if s.seen.1 && without != Without::OwnFence {
                n = deliver(n);
            }
            n.reader = 3;
        }
        3 => {
            n.has = Some(s.unlinked);
            n.reader = 4;
        }
        4 => {
            n.has = None;
            n = deliver(n);
            n.buffer = Some((0, s.seen.1));
            n.reader = 0;
            n.sections += 1;
        }
        _ => return Vec::new(),
    }
    vec![n]
}

fn writer(s: State, without: Without, system: System) -> Vec<State> {
    let mut n = s;
    match s.writer {
        0 if s.freed < OBJECTS => {
            n.unlinked += 1;
            n.writer = 1;
        }
        1 => {
            n.epoch += 1;
            n.waits_for = n.epoch;
            n.writer = 2;
        }
        2 if system == System::Fences => {
            if without != Without::FenceOfAll {
                n = deliver(n);
            }
            n.writer = 4;
        }
        2 => {
            n.is_fenced = true;
            n.waits = !s.knows && without != Without::Waiting;
            n.writer = 3;
        }
        // Time passes: what was on its way has arrived.
        3 => {
            if s.waits {
                n = deliver(n);
            }
            n.writer = 4;
        }
        4 => {
            if s.place != 0 && s.place < s.waits_for && without != Without::Look {
                return Vec::new();
            }
            n.freed = s.unlinked;
            n.writer = 0;
        }
        _ => return Vec::new(),
    }
    vec![n]
}

/// True if some order of the steps leads to a reader that has a freed object.
fn has_fault(without: Without, system: System) -> (bool, usize) {
    let refused = system == System::RefusedBefore;
    let begin = State { epoch: 1, is_fenced: refused, knows: refused, ..State::default() };
    let (mut todo, mut seen) = (vec![begin], HashSet::new());
    while let Some(s) = todo.pop() {
        if !seen.insert(s) {
            continue;
        }
        if s.has.is_some_and(|version| version < s.freed) {
            return (true, seen.len());
        }
        todo.extend(reader(s, without));
        todo.extend(writer(s, without, system));
        if s.buffer.is_some() {
            todo.push(deliver(s));
        }
    }
    (false, seen.len())
}

#[test]
fn no_order_of_steps_loses_a_reader() {
    for system in [System::Fences, System::RefusesFromNowOn, System::RefusedBefore] {
        let (fault, states) = has_fault(Without::Nothing, system);
        assert!(!fault && states > 100, "{states} states");
    }
}

#[test]
fn each_part_is_needed() {
    for (without, system) in [
        (Without::FenceOfAll, System::Fences),
        (Without::Look, System::Fences),
        (Without::Look, System::RefusedBefore),
        (Without::OwnFence, System::RefusedBefore),
        (Without::Waiting, System::RefusesFromNowOn),
    ] {
        assert!(has_fault(without, system).0, "{without:?} is not needed");
    }
}
