//! The owner-token stress: 64 threads on one yard, each engine and each way to tell CPUs
//! apart in a process of its own.
//!
//! Every object carries its owner's token ([`token`]); workers ([`worker`])
//! allocate, free and hand over; bystanders ([`bystanders`]) send signals whose
//! handlers allocate, trim, and check the whole yard meanwhile, and one ([`asker`])
//! shrinks caches and changes tunables through the mailbox. When all is
//! freed, nothing may be live. The first error ends the process.
//!
//! `ci/stress` runs it while nothing else runs, so it is a program of its own.
//!
//! The planted bug: all threads share one private slot, so nothing restarts a
//! sequence that another thread ran into. It must be found.
//!
//! * `STRESS_OPS`: allocations and frees of each mode, shared by the kinds of CPU slabs.
#![cfg(target_os = "linux")]

#[path = "stress/asker.rs"]
mod asker;
#[path = "stress/bystanders.rs"]
mod bystanders;
#[path = "stress/token.rs"]
mod token;
#[path = "stress/worker.rs"]
mod worker;

use slabyard::engine::Any;
use slabyard::engine::cpu_slabs::{Planted, Rules};
use slabyard::engine::nodes::NodeSettings;
use slabyard::pages::finding::Hooks;
use slabyard::platform::linux::{CountingLinux, Mode};
use slabyard::yard::{Settings, Yard};
use slabyard_abi::debug::DebugFlags;
use slabyard_abi::engines::EngineName;
use slabyard_kernels::PageLists;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;
use token::{FOUND, HUNG};
use worker::{Load, Sequence};

/// Marks the child.
const CHILD: &str = "SLABYARD_STRESS_CHILD";
const OPS: &str = "STRESS_OPS";
/// Allocations and frees of each mode in a tiny `cargo test`.
const FEW_OPS: u64 = 2_000_000;
/// Far more than the planted bug needs to show, on one CPU as well.
const PLANTED_OPS: u64 = 100_000_000;
/// Nothing but the child's word for it: it ran to its end.
const DONE: i32 = 17;
const NOT_THERE: i32 = 18;

/// What serves.
#[derive(Clone, Copy)]
enum Served {
    By(EngineName),
    ByCpuSlabs(Rules),
    /// SLUB, each cache and large blocks with debugging.
    Debugged(DebugFlags),
    /// SLAB on so many declared memory nodes.
    OnNodes(EngineName, usize, NodeSettings),
}

/// Which kind of CPU slabs the child has.
const KIND: &str = "SLABYARD_STRESS_KIND";
/// Which page lists the child has.
const LISTS: &str = "SLABYARD_STRESS_LISTS";

/// A yard of the engine that a test chooses.
type Stressed = Yard<CountingLinux, Any>;

static YARD: Stressed = Yard::new(CountingLinux::new());

#[test]
fn with_the_librarys_sequences() {
    sound("with_the_librarys_sequences", Mode::Library, Served::By(EngineName::Slub));
}

#[test]
fn with_own_sequences() {
    sound("with_own_sequences", Mode::Own, Served::By(EngineName::Slub));
}

#[test]
fn with_private_slots() {
    sound("with_private_slots", Mode::Slots, Served::By(EngineName::Slub));
}

#[test]
fn tiny_with_the_librarys_sequences() {
    sound("tiny_with_the_librarys_sequences", Mode::Library, Served::By(EngineName::Tiny));
}

#[test]
fn tiny_with_own_sequences() {
    sound("tiny_with_own_sequences", Mode::Own, Served::By(EngineName::Tiny));
}

#[test]
fn tiny_with_private_slots() {
    sound("tiny_with_private_slots", Mode::Slots, Served::By(EngineName::Tiny));
}

#[test]
fn slab_with_the_librarys_sequences() {
    sound("slab_with_the_librarys_sequences", Mode::Library, Served::By(EngineName::Slab));
}

#[test]
fn slab_with_own_sequences() {
    sound("slab_with_own_sequences", Mode::Own, Served::By(EngineName::Slab));
}

#[test]
fn slab_with_private_slots() {
    sound("slab_with_private_slots", Mode::Slots, Served::By(EngineName::Slab));
}

/// Two nodes, and objects of one for threads of the other, so often.
const SLAB_ON_NODES: Served =
    Served::OnNodes(EngineName::Slab, 2, NodeSettings { remote_percent: 50, has_aliens: true });
const SLUB_ON_NODES: Served = Served::OnNodes(EngineName::Slub, 2, NodeSettings::SLUB);

#[test]
fn slab_on_nodes_with_the_librarys_sequences() {
    sound("slab_on_nodes_with_the_librarys_sequences", Mode::Library, SLAB_ON_NODES);
}

#[test]
fn slab_on_nodes_with_own_sequences() {
    sound("slab_on_nodes_with_own_sequences", Mode::Own, SLAB_ON_NODES);
}

#[test]
fn slab_on_nodes_with_private_slots() {
    sound("slab_on_nodes_with_private_slots", Mode::Slots, SLAB_ON_NODES);
}

#[test]
fn slub_on_nodes_with_the_librarys_sequences() {
    sound("slub_on_nodes_with_the_librarys_sequences", Mode::Library, SLUB_ON_NODES);
}

#[test]
fn slub_on_nodes_with_own_sequences() {
    sound("slub_on_nodes_with_own_sequences", Mode::Own, SLUB_ON_NODES);
}

#[test]
fn slub_on_nodes_with_private_slots() {
    sound("slub_on_nodes_with_private_slots", Mode::Slots, SLUB_ON_NODES);
}

#[test]
fn slob_with_the_librarys_sequences() {
    sound("slob_with_the_librarys_sequences", Mode::Library, Served::By(EngineName::Slob));
}

#[test]
fn slob_with_private_slots() {
    sound("slob_with_private_slots", Mode::Slots, Served::By(EngineName::Slob));
}

#[test]
fn cpu_slabs_with_the_librarys_sequences() {
    sound_cpu_slabs("cpu_slabs_with_the_librarys_sequences", Mode::Library);
}

#[test]
fn cpu_slabs_with_own_sequences() {
    sound_cpu_slabs("cpu_slabs_with_own_sequences", Mode::Own);
}

#[test]
fn cpu_slabs_with_private_slots() {
    sound_cpu_slabs("cpu_slabs_with_private_slots", Mode::Slots);
}

#[test]
fn debugged_with_the_librarys_sequences() {
    sound_debugged("debugged_with_the_librarys_sequences", Mode::Library);
}

#[test]
fn debugged_with_own_sequences() {
    sound_debugged("debugged_with_own_sequences", Mode::Own);
}

#[test]
fn debugged_with_private_slots() {
    sound_debugged("debugged_with_private_slots", Mode::Slots);
}

/// Planted: in the middle of the load a byte behind an object is written to.
#[test]
fn a_byte_behind_an_object_is_found() {
    const NAME: &str = "a_byte_behind_an_object_is_found";
    if is_child() {
        begin(Mode::Library, Served::Debugged(DebugFlags::RED_ZONE));
        std::thread::spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            let object = YARD.alloc_fast(40, 16).expect("memory");
            // SAFETY: the red zone behind an object of ours.
            unsafe { ((object + 40) as *mut u8).write(0) };
            assert!(YARD.free_fast(object).is_ok());
        });
        run_load(Served::Debugged(DebugFlags::RED_ZONE), Sequence::Right, PLANTED_OPS);
    }
    let status = command(NAME).status().expect("a child");
    assert_eq!(status.code(), Some(FOUND), "the planted bug was not found");
}

/// Large blocks with debugging end, so that their pages fault, while others look at their red zones.
#[test]
fn freed_large_blocks_are_not_looked_at() {
    // Their zones are most of a page: a look takes long.
    look_beside_calls(
        "freed_large_blocks_are_not_looked_at",
        DebugFlags::RED_ZONE,
        9 << 12,
        10_000,
    );
}

/// Objects with debugging are filled while others look at what they are filled with.
#[test]
fn objects_that_a_call_fills_are_not_looked_at() {
    let flags = DebugFlags::CHECK.with(DebugFlags::RED_ZONE).with(DebugFlags::POISON);
    look_beside_calls("objects_that_a_call_fills_are_not_looked_at", flags, 2900, 100_000);
}

/// Two threads allocate and free blocks of about so many bytes, and two look at all that there is.
fn look_beside_calls(name: &str, flags: DebugFlags, bytes: usize, rounds: usize) {
    if is_child() {
        begin(Mode::Library, Served::Debugged(flags));
        std::thread::scope(|scope| {
            let blocks = (0..2).map(|_| {
                scope.spawn(|| {
                    for nth in 0..rounds {
                        let block = YARD.alloc_fast(bytes + nth % 64, 16).expect("memory");
                        assert!(YARD.free_fast(block).is_ok());
                    }
                })
            });
            let blocks: Vec<_> = blocks.collect();
            let look = || {
                let mut looks = 0u64;
                while !blocks.iter().all(|thread| thread.is_finished()) {
                    assert_eq!(YARD.validate(), Some(0));
                    looks += 1;
                }
                looks
            };
            std::thread::scope(|scope| {
                let other = scope.spawn(look);
                assert!(look() + other.join().expect("a look") > 0);
            });
        });
        token::end(DONE);
    }
    accept(name, command(name));
}

#[test]
fn page_lists_with_the_librarys_sequences() {
    sound_page_lists("page_lists_with_the_librarys_sequences", Mode::Library);
}

#[test]
fn page_lists_with_private_slots() {
    sound_page_lists("page_lists_with_private_slots", Mode::Slots);
}

#[test]
fn lost_slabs_are_found_with_the_librarys_sequences() {
    finds_lost_slabs("lost_slabs_are_found_with_the_librarys_sequences", Mode::Library);
}

#[test]
fn lost_slabs_are_found_with_own_sequences() {
    finds_lost_slabs("lost_slabs_are_found_with_own_sequences", Mode::Own);
}

#[test]
fn lost_slabs_are_found_with_private_slots() {
    finds_lost_slabs("lost_slabs_are_found_with_private_slots", Mode::Slots);
}

/// The first version of delayed freezing forgot slabs where there are no CPU partial lists: on
/// real CPUs one run finds it, wherever it exists, and nowhere else.
fn finds_lost_slabs(name: &str, mode: Mode) {
    if is_child() {
        let rules = Rules { planted: Planted::LoseExtraSlabs, ..kind_of_child() };
        run(mode, Served::ByCpuSlabs(rules), Sequence::Right, FEW_OPS / 4);
    }
    for (nth, kind) in Rules::kinds().enumerate() {
        let status = in_mode(command(name), mode).env(KIND, nth.to_string()).status();
        let status = status.expect("a child");
        match status.code() {
            Some(NOT_THERE) => return println!("not run: {name}: this mode is not there"),
            Some(FOUND) => assert!(!kind.cpu_partial_lists, "found where it is not: {kind:?}"),
            Some(DONE) => assert!(kind.cpu_partial_lists, "not found: {kind:?}"),
            _ => panic!("{kind:?}: {status}"),
        }
    }
}

#[test]
fn a_shared_slot_is_found() {
    const NAME: &str = "a_shared_slot_is_found";
    if is_child() {
        run(Mode::Slots, Served::By(EngineName::Slub), Sequence::Broken, PLANTED_OPS);
    }
    let started = Instant::now();
    let status = command(NAME).status().expect("a child");
    assert!(is_found(status), "the planted bug was not found in {PLANTED_OPS} calls: {status}");
    println!("found after {:?}: {status}", started.elapsed());
}

/// A handler that interrupts the thread that closes or opens the gate must not
/// wait for that thread.
#[test]
fn a_handler_allocates_while_its_thread_closes_the_gate() {
    const NAME: &str = "a_handler_allocates_while_its_thread_closes_the_gate";
    if is_child() {
        begin(Mode::Library, Served::By(EngineName::Slub));
        bystanders::interrupt_gate(&YARD);
        token::end(DONE);
    }
    accept(NAME, command(NAME));
}

/// An error of a token or of the checker, or death by the damage itself.
fn is_found(status: ExitStatus) -> bool {
    let damage = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGTRAP];
    status.code() == Some(FOUND) || status.signal().is_some_and(|n| damage.contains(&n))
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

fn command(test: &str) -> Command {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", test, "--nocapture"]).env(CHILD, "1");
    child.stdout(std::process::Stdio::null());
    child
}

/// A child that can have the mode.
fn in_mode(mut child: Command, mode: Mode) -> Command {
    if mode == Mode::Own {
        child.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    }
    child
}

/// Runs the test `name` in a child, which must find nothing.
fn sound(name: &str, mode: Mode, served: Served) {
    if is_child() {
        let ops = std::env::var(OPS).map_or(FEW_OPS, |n| n.parse().expect("a number"));
        run(mode, served, Sequence::Right, ops);
    }
    accept(name, in_mode(command(name), mode));
}

fn kind_of_child() -> Rules {
    let nth = std::env::var(KIND).expect("a kind");
    Rules::kinds().nth(nth.parse().expect("a number")).expect("one of the kinds")
}

/// As [`sound`], of every kind of CPU slabs.
fn sound_cpu_slabs(name: &str, mode: Mode) {
    if is_child() {
        let ops = std::env::var(OPS).map_or(FEW_OPS, |n| n.parse().expect("a number"));
        let ops = ops / Rules::kinds().count() as u64;
        run(mode, Served::ByCpuSlabs(kind_of_child()), Sequence::Right, ops);
    }
    for (nth, kind) in Rules::kinds().enumerate() {
        let mut child = in_mode(command(name), mode);
        child.env(KIND, nth.to_string());
        accept(&format!("{name}, {kind:?}"), child);
    }
}

/// Sets of flags that take different ways.
fn debug_kinds() -> [DebugFlags; 6] {
    let [f, z, p] = [DebugFlags::CHECK, DebugFlags::RED_ZONE, DebugFlags::POISON];
    let low = DebugFlags::DEFAULT.with(DebugFlags::LOW_ORDER);
    [f, z, f.with(p), f.with(z).with(p), DebugFlags::TRACK, low]
}

/// As [`sound`], with debugging, each of several sets of flags.
fn sound_debugged(name: &str, mode: Mode) {
    let kinds = debug_kinds();
    if is_child() {
        let ops = std::env::var(OPS).map_or(FEW_OPS / 4, |n| n.parse().expect("a number"));
        let nth: usize = std::env::var(KIND).expect("a kind").parse().expect("a number");
        run(mode, Served::Debugged(kinds[nth]), Sequence::Right, ops / kinds.len() as u64);
    }
    for (nth, flags) in kinds.iter().enumerate() {
        let mut child = in_mode(command(name), mode);
        child.env(KIND, nth.to_string());
        accept(&format!("{name}, {flags:?}"), child);
    }
}

/// What the child's debugging is, for its yard's rules.
static FLAGS: AtomicU8 = AtomicU8::new(0);

/// What debugging finds ends the run, but for what the load plans.
const HOOKS: Hooks = Hooks {
    report: |finding| {
        let found = finding.bytes.map_or(0, |bytes| bytes.found.into());
        let expected = finding.bytes.map_or(0, |bytes| bytes.expected.into());
        token::wrong(finding.what.text(), finding.object, found, expected);
    },
    track: |track| track.frames[0] = 1,
    trace: |_, _, _| {},
    fails: || false,
};

/// As [`sound`], of every kind of page lists, below an engine that ends a slab as it empties and
/// one that does not.
fn sound_page_lists(name: &str, mode: Mode) {
    let engines = [EngineName::Tiny, EngineName::Slab];
    if is_child() {
        let ops = std::env::var(OPS).map_or(FEW_OPS, |n| n.parse().expect("a number"));
        let nth: usize = std::env::var(KIND).expect("an engine").parse().expect("a number");
        run(mode, Served::By(engines[nth]), Sequence::Right, ops / PageLists::ALL.len() as u64);
    }
    for kind in PageLists::ALL {
        for (nth, engine) in engines.iter().enumerate() {
            let mut child = in_mode(command(name), mode);
            child.env(LISTS, kind.name()).env(KIND, nth.to_string());
            accept(&format!("{name}, {kind:?}, {engine:?}"), child);
        }
    }
}

/// Runs a child that must end well.
fn accept(name: &str, mut child: Command) {
    let status = child.status().expect("a child");
    match status.code() {
        Some(DONE) => {}
        Some(NOT_THERE) => println!("not run: {name}: this mode is not there"),
        Some(FOUND) => panic!("{name}: an error was found"),
        Some(HUNG) => panic!("{name}: no progress"),
        _ => panic!("{name}: {status}"),
    }
}

/// In the child: makes the yard ready.
fn begin(mode: Mode, served: Served) {
    let platform = YARD.platform();
    assert!(platform.init(Some(mode)));
    if platform.mode() != mode {
        // An old kernel or C library, another architecture, valgrind.
        std::process::exit(NOT_THERE);
    }
    if let Ok(name) = std::env::var(LISTS) {
        // A zone of which a batch is few pages: lists are full and empty often.
        let kind = PageLists::find(&name).expect("a kind of page lists");
        assert!(slabyard_page_lists::choose(&YARD.heap, kind, 64 << 20));
    }
    match served {
        Served::By(engine) => YARD.choose(engine),
        Served::Debugged(flags) => {
            FLAGS.store(flags.bits(), Ordering::Relaxed);
            YARD.on_findings(HOOKS);
            assert!(YARD.choose_debug(|_| DebugFlags::of(FLAGS.load(Ordering::Relaxed))));
            YARD.choose(EngineName::Slub);
        }
        Served::ByCpuSlabs(rules) => YARD.choose_cpu_slabs(&rules),
        Served::OnNodes(engine, nodes, settings) => {
            assert!(platform.set_nodes(nodes));
            YARD.caches().choose_on_nodes(engine, settings);
        }
    }
    // Short, so that decay, reclaim ticker and draining of idle stacks take part.
    assert!(YARD.init(Settings { reserve_bytes: 64 << 30, decay_ms: 20 }));
    YARD.on_misuse(|bad| token::wrong(bad.cause_text(), bad.address, 0, 0));
    // From here on a panic is the damage found.
    std::panic::set_hook(Box::new(|why| {
        eprintln!("{why}");
        token::end(FOUND);
    }));
}

/// The child: ends the process.
fn run(mode: Mode, served: Served, sequence: Sequence, ops: u64) -> ! {
    begin(mode, served);
    run_load(served, sequence, ops)
}

/// In the child, whose yard is ready: ends the process.
fn run_load(served: Served, sequence: Sequence, ops: u64) -> ! {
    let load = Load::new(&YARD, sequence, ops);
    load.run();
    if matches!(served, Served::Debugged(_)) {
        assert_eq!(YARD.validate(), Some(0));
    }
    // Twice: the first one's ended slabs are in this CPU's lists of runs.
    YARD.trim();
    YARD.trim();
    match YARD.verify() {
        Some(Ok(sound)) if sound.live == 0 && sound.runs == 0 => {}
        other => token::wrong_yard("at the end", &other),
    }
    let mapped = YARD.heap.mappings.live();
    // Freed blocks with debugging stay for a while.
    let waiting = if matches!(served, Served::Debugged(_)) { 64 } else { 0 };
    if mapped.0 > waiting {
        token::wrong("mappings are left", 0, mapped.0 as u64, 0);
    }
    token::end(DONE)
}

/// The words of a cause.
trait CauseText {
    fn cause_text(&self) -> &'static str;
}

impl CauseText for slabyard::pages::Misuse {
    fn cause_text(&self) -> &'static str {
        use slabyard::pages::Cause;
        match self.cause {
            Cause::DoubleFree => "the allocator reports a double free",
            Cause::Interior => "the allocator reports an address inside of an object",
            Cause::WrongSize => "the allocator reports a wrong size",
            Cause::Overwritten => "the allocator reports a write to free memory",
        }
    }
}
