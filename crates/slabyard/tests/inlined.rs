//! The instructions of an uninterrupted call of a typed cache, from a function's entry to its
//! `ret`: no call, no locked instruction, only the stores of the sequence, and the numbers that
//! are written here. A program of its own, which `ci/unit` runs without assertions.
#![cfg(all(target_arch = "x86_64", not(debug_assertions)))]

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpAccess, OpKind};
use iced_x86::{InstructionInfoFactory, Register};
use slabyard::{CacheBox, Global, ObjectCache, ProcessYard};
use std::alloc::{GlobalAlloc, Layout};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

type Object = [u64; 8];

/// A value of which one word is written.
struct Partly {
    word: u64,
    _rest: MaybeUninit<[u64; 7]>,
}

static YARD: ProcessYard = ProcessYard::new();

/// Instructions at most, the functions' own begins and ends and the writes to the object included.
const ALLOC: usize = 24;
const FREE: usize = 16;
const PAIR: usize = 40;

// What is pinned. Each gives a pointer to something by which nothing is optimised away.

extern "C" fn alloc(cache: &ObjectCache<Object>) -> *mut Object {
    match cache.try_alloc([7; 8]) {
        Ok(object) => CacheBox::into_raw(object),
        Err(_) => null_mut(),
    }
}

fn free(object: CacheBox<Object>) {
    drop(object);
}

extern "C" fn pair(cache: &ObjectCache<u64>, value: u64) {
    if let Ok(object) = cache.try_alloc(value) {
        std::hint::black_box(&*object);
    }
}

extern "C" fn alloc_partly(cache: &ObjectCache<Partly>, word: u64) -> *mut Partly {
    CacheBox::into_raw(cache.alloc(Partly { word, _rest: MaybeUninit::uninit() }))
}

/// Planted: it calls.
extern "C" fn calls(global: &Global) -> *mut u8 {
    // SAFETY: never called.
    unsafe { global.alloc(Layout::new::<Object>()) }
}

/// What the way of a call has.
#[derive(Debug, Default, PartialEq, Eq)]
struct Way {
    instructions: usize,
    /// Stores, but those into the object and onto the stack.
    stores: usize,
    announcements: usize,
    calls: usize,
    locked: usize,
}

/// Walks from the entry to `ret`, and takes no conditional jump: those lead to slow paths.
fn way(entry: usize, object: &[Register]) -> Way {
    // SAFETY: code of this program; no function here is longer, and the text goes on behind.
    let text = unsafe { std::slice::from_raw_parts(entry as *const u8, 4096) };
    let mut decoder = Decoder::with_ip(64, text, entry as u64, DecoderOptions::NONE);
    let (mut factory, mut way) = (InstructionInfoFactory::new(), Way::default());
    for instruction in &mut decoder {
        way.instructions += 1;
        assert_ne!(instruction.mnemonic(), Mnemonic::INVALID);
        way.locked += usize::from(is_locked(&instruction));
        match instruction.flow_control() {
            FlowControl::Return => break,
            FlowControl::Call | FlowControl::IndirectCall => way.calls += 1,
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => {
                // A jump ahead in the same function would be followed; there is none.
                way.calls += 1;
            }
            _ => {}
        }
        for memory in factory.info(&instruction).used_memory() {
            let writes = matches!(memory.access(), OpAccess::Write | OpAccess::ReadWrite);
            if !writes || memory.base() == Register::RSP || object.contains(&memory.base()) {
                continue;
            }
            way.stores += 1;
            way.announcements += usize::from(memory.segment() == Register::FS);
        }
    }
    way
}

fn is_locked(instruction: &Instruction) -> bool {
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg
        && (0..instruction.op_count()).any(|nth| instruction.op_kind(nth) == OpKind::Memory);
    instruction.has_lock_prefix() || exchanges
}

#[test]
fn the_fast_paths_are_short_and_call_nothing() {
    // What is inlined here would not be if it were never used.
    let cache = ObjectCache::<Object>::new("objects", &YARD).expect("a cache");
    let numbers = ObjectCache::<u64>::new("numbers", &YARD).expect("a cache");
    let object = alloc(&cache);
    // SAFETY: of this cache, and nobody else's.
    free(unsafe { CacheBox::from_raw(&cache, object) });
    pair(&numbers, 7);
    let pinned = [
        ("alloc", way(alloc as *const () as usize, &[Register::RAX]), ALLOC, 2),
        ("free", way(free as *const () as usize, &[]), FREE, 4),
        ("pair", way(pair as *const () as usize, &[Register::RAX]), PAIR, 6),
    ];
    for (name, way, most, stores) in pinned {
        println!("{name}: {way:?}");
        // The committing store is the last: the announcement, the countdown and the object's
        // element come before it.
        let announcements = if name == "pair" { 2 } else { 1 };
        let expected =
            Way { stores, announcements, instructions: way.instructions, ..Way::default() };
        assert_eq!(way, expected, "{name}");
        assert!(way.instructions <= most, "{name}: more than {most} instructions");
    }
}

#[test]
fn bytes_that_a_value_has_not_written_are_not_stored() {
    let cache = ObjectCache::<Partly>::new("partly", &YARD).expect("a cache");
    let object = alloc_partly(&cache, 7);
    // SAFETY: a live object of this cache, which is nobody else's.
    let object = unsafe { CacheBox::from_raw(&cache, object) };
    assert_eq!(object.word, 7);
    // Those of the sequence, and the word.
    assert_eq!(way(alloc_partly as *const () as usize, &[]).stores, 3);
    // Planted: a value that is whole is stored whole.
    assert!(way(alloc as *const () as usize, &[]).stores > 3);
}

#[test]
fn a_call_is_detected() {
    assert!(way(calls as *const () as usize, &[]).calls > 0);
}
