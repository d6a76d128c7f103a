//! The real sequences under breakpoints: at every instruction, every kind of interference, and no
//! object may be lost or doubled.
//!
//! A breakpoint is planted in this process's own text, so no other test is in this program. Its signal handler takes it out
//! again, changes the stack that the interrupted sequence works on, or moves the thread to another
//! CPU, and returns. Inside of the section that the descriptor names the kernel must have moved
//! the thread to the abort address first; outside it must not.
//!
//! `planted.rs` of each architecture's folder has copies of sequences with a bug each, which the
//! same check must find.
#![cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64"), not(miri)))]

#[cfg(target_arch = "aarch64")]
#[path = "sequences/aarch64/mod.rs"]
mod aarch64;
#[path = "sequences/scene.rs"]
mod scene;
#[cfg(target_arch = "x86_64")]
#[path = "sequences/x86_64/mod.rs"]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as arch;
use arch::planted;
use scene::{ACTIONS, CAPACITY, Scene};
use slabyard_platform::linux::{Linux, Mode};
use slabyard_platform::{Memory, PerCpu, Slot, Stack, rseq};
use std::sync::{Mutex, MutexGuard, PoisonError};
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

/// The slot that all cases use.
const SLOT: Slot = Slot(5);

static LINUX: Linux = Linux::new();

/// A sequence to break in.
struct Sequence {
    name: &'static str,
    code: usize,
    /// Numbers of objects with which the stack takes the fast path.
    counts: std::ops::Range<u32>,
    /// Makes the call and books what it did.
    call: fn(&Scene),
    /// Stacks take objects of their tag alone.
    is_tagged: bool,
}

/// `struct rseq_cs`, as the kernel reads it.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Descriptor {
    version: u32,
    flags: u32,
    start: u64,
    post_commit_offset: u64,
    abort: u64,
}

/// Text that breakpoints can be planted in.
struct Text {
    instructions: Vec<usize>,
    section: std::ops::Range<usize>,
    abort: usize,
}

impl Text {
    /// Decodes a sequence's function up to its first return, and makes it
    /// writable.
    fn of(code: usize) -> Text {
        const LENGTH: usize = 256;
        // SAFETY: code is followed by more of this program's text: the function
        // itself, its slow end, other functions.
        let bytes = unsafe { std::slice::from_raw_parts(code as *const u8, LENGTH) };
        let (instructions, descriptor) = arch::decode(code, bytes);
        let descriptor = descriptor.expect("an instruction that loads the descriptor");
        // SAFETY: the sequence passes this address to the kernel.
        let found = unsafe { *descriptor };
        assert_eq!((found.version, found.flags), (0, 0));
        // SAFETY: the kernel reads the same word, which lies in our text.
        let signature = unsafe { ((found.abort - 4) as *const u32).read_unaligned() };
        assert_eq!(signature, rseq::SIGNATURE);
        let start = found.start as usize;
        let section = start..start + found.post_commit_offset as usize;
        assert!(instructions.contains(&section.start) && instructions.contains(&section.end));
        make_writable(code, LENGTH);
        Text { instructions, section, abort: found.abort as usize }
    }
}

fn make_writable(code: usize, bytes: usize) {
    let page = LINUX.page_bytes();
    let first = code & !(page - 1);
    let length = (code + bytes).next_multiple_of(page) - first;
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: the pages stay readable and executable.
    let done = unsafe { libc::mprotect(first as *mut libc::c_void, length, all) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Runs every case of a sequence; reports the first that went wrong.
fn check(sequence: &Sequence) -> Result<usize, String> {
    let text = Text::of(sequence.code);
    let mut nr_cases = 0;
    for (n, address) in text.instructions.iter().enumerate() {
        let mut is_reached = false;
        for action in ACTIONS {
            for count in sequence.counts.clone() {
                let case = format!("{} at {n}, {action:?}, {count} objects", sequence.name);
                let Some(scene) = Scene::new(action, count, sequence.is_tagged) else {
                    continue;
                };
                let stops = scene.play(*address, sequence.call);
                let after = address + arch::BREAKPOINT;
                let expected = if text.section.contains(address) { text.abort } else { after };
                // Not each number of objects leads to each instruction.
                is_reached |= !stops.is_empty();
                if !stops.is_empty() && stops != [expected] {
                    return Err(format!("{case}: interrupted at {stops:x?}, not {expected:#x}"));
                }
                scene.verify().map_err(|what| format!("{case}: {what}"))?;
                nr_cases += 1;
            }
        }
        if !is_reached {
            return Err(format!("{} at {n}: no case leads there", sequence.name));
        }
    }
    Ok(nr_cases)
}

/// One test at a time: breakpoints are everybody's. `None` where there are no
/// sequences.
fn begin() -> Option<MutexGuard<'static, ()>> {
    static ONE: Mutex<bool> = Mutex::new(false);
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ready = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !*ready {
        assert!(LINUX.init(None));
        *ready = true;
    }
    if LINUX.mode() == Mode::Slots {
        eprintln!("not run: there are no restartable sequences");
        return None;
    }
    LINUX.enter();
    assert!(LINUX.can_stop());
    scene::commit_arrays();
    scene::catch_breakpoints();
    Some(turn)
}

#[test]
fn every_instruction_can_be_interrupted() {
    let Some(_turn) = begin() else { return };
    let kinds = [
        ("pop", 1..CAPACITY + 1, scene::pop as fn(&Scene)),
        ("push", 0..CAPACITY, scene::push),
        ("push-if", 0..CAPACITY, scene::push_if),
        ("exchange", 0..CAPACITY + 1, scene::exchange),
        ("pop-many", 1..CAPACITY + 1, scene::pop_many),
        ("push-many", 0..CAPACITY, scene::push_many),
        ("push-many-if", 0..CAPACITY, scene::push_many_if),
    ];
    let code = rseq::code();
    assert_eq!(code.map(|(name, _)| name), kinds.clone().map(|(name, ..)| name));
    for ((name, counts, call), (_, code)) in kinds.into_iter().zip(code) {
        let is_tagged = name == "push-if";
        let done = check(&Sequence { name, code, counts, call, is_tagged });
        match done {
            Ok(nr_cases) => println!("{name}: {nr_cases} cases"),
            Err(what) => panic!("{what}"),
        }
    }
}

/// As few rows as one are fenced by the CPU's name, where there are four or more.
#[test]
fn a_fence_of_one_cpu_ends_its_sequences() {
    let Some(_turn) = begin() else { return };
    assert!(scene::stays_stopped(50_000), "a sequence changed a stopped stack");
}

/// Walks look at rows in use alone.
#[test]
fn an_exchange_begins_the_use_of_its_row() {
    static OTHER: Linux = Linux::new();
    let Some(_turn) = begin() else { return };
    let rows = OTHER.rows();
    assert!(OTHER.init(None) && rows.nr_used() == 0 && rows.used().next().is_none());
    let here = OTHER.row_hint().expect("a row");
    scene::go_to(here);
    for _ in 0..3 {
        assert!((0..100).any(|_| OTHER.exchange(Slot(300), Stack::NONE).is_ok()));
        assert!(rows.used().eq([here]) && rows.nr_used() == 1);
    }
}

/// A sequence with a planted bug must be found out.
fn is_found(name: &'static str, code: usize, counts: std::ops::Range<u32>, call: fn(&Scene)) {
    is_found_as("lost or doubled", Sequence { name, code, counts, call, is_tagged: false });
}

fn is_found_as(expected: &str, sequence: Sequence) {
    let Some(_turn) = begin() else { return };
    let found = check(&sequence);
    let what = found.expect_err("the planted bug was not found");
    assert!(what.contains(expected), "{what}");
    println!("found: {what}");
}

#[test]
fn pop_that_commits_too_late_is_found() {
    is_found("late pop", planted::pop_late as *const () as usize, 1..CAPACITY, |scene| {
        scene::pop_by(scene, planted::pop_late);
    });
}

#[test]
fn a_pop_of_several_that_commits_too_late_is_found() {
    let code = planted::pop_many_late as *const () as usize;
    is_found("late pop of several", code, 1..CAPACITY, |scene| {
        scene::pop_many_with(scene, planted::pop_many_late);
    });
}

#[test]
fn a_push_of_several_that_stores_an_object_too_late_is_found() {
    let code = planted::push_many_late as *const () as usize;
    is_found("late push of several", code, 0..CAPACITY, |scene| {
        scene::push_many_with(scene, planted::push_many_late);
    });
}

#[test]
fn push_that_commits_too_late_is_found() {
    is_found("late push", planted::push_late as *const () as usize, 0..CAPACITY, |scene| {
        scene::push_by(scene, planted::push_late);
    });
}

#[test]
fn push_that_stores_the_object_too_late_is_found() {
    is_found("early push", planted::push_early as *const () as usize, 0..CAPACITY, |scene| {
        scene::push_by(scene, planted::push_early);
    });
}

#[test]
fn push_if_that_reads_the_tag_too_early_is_found() {
    let sequence = Sequence {
        name: "push-if with an early tag",
        code: planted::push_if_early as *const () as usize,
        counts: 0..CAPACITY,
        call: |scene| scene::push_by(scene, planted::push_if_early),
        is_tagged: true,
    };
    is_found_as("of another slab", sequence);
}
