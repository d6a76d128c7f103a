//! Real processes under the preload library, in each mode: `c/*.c` and `*.cc`.
//!
//! There is one test per program and mode; a program checks itself, prints what failed and exits
//! with 0 if nothing did. The mode `libc` runs a program without the library, to show that the
//! program relies only on what every malloc guarantees. The tests of `planted` run the programs on
//! broken allocators, on which they must fail.

use crate::process_runner::{LIMIT, Mode, Outcome, Program, shared_library};
use std::time::Duration;

macro_rules! programs {
    ($($name:ident: $source:literal in $($mode:ident)+;)*) => {
        $(mod $name {
            $(#[test]
            fn $mode() {
                super::passes($source, super::Mode::named(stringify!($mode)));
            })+
        })*

        const SOURCES: &[&str] = &[$($source),*];
    };
}

// A handler may allocate in the first two modes only. With nodes a program commits more than it
// uses, by stripes of the other nodes: those that count it to the MiB have no mode with nodes.
programs! {
    exports: "c/exports.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes;
    api: "c/api.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes libc;
    aligned: "c/aligned.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes libc;
    cxx: "c/cxx.cc" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes libc;
    threads: "c/threads.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes libc;
    forks: "c/forks.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes libc;
    nested_forks: "c/nested_forks.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes libc;
    deepbind: "c/deepbind.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes libc;
    signals: "c/signals.c" in rseq own_rseq tiny_rseq slob_rseq slab_rseq slab_nodes slub_nodes;
    jumped: "c/jumped.c" in rseq own_rseq tiny_rseq slob_rseq slab_rseq slab_nodes slub_nodes;
    early: "c/early.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes libc;
    nomem: "c/nomem.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots libc;
    decay: "c/decay.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes;
    trim: "c/trim.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes libc;
    // With nodes the multiple is one node's, and perhaps not that of the CPU.
    boundary: "c/boundary.c" in rseq own_rseq slots tiny_rseq slab_rseq slab_slots;
    exit: "c/exit.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes libc;
    cores: "c/cores.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots libc;
    faults: "c/faults.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes;
    helper: "c/helper.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes libc;
    limited: "c/limited.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes libc;
    unloaded: "c/unloaded.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes libc;
    sparse: "c/sparse.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes libc;
    buffers: "c/buffers.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq libc;
    cpus: "c/cpus.c" in rseq own_rseq slots slab_rseq libc;
    strict: "c/strict.c" in rseq own_rseq slots tiny_rseq slab_rseq libc;
    late: "c/late.c" in rseq own_rseq slots slab_rseq libc;
    rest: "c/rest.c" in rseq own_rseq slots;
    locked: "c/locked.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots libc;
    // SLOB has no classes: what it moves is its own affair.
    growth: "c/growth.c" in rseq own_rseq slots tiny_rseq slab_rseq slab_slots;
    sized: "c/sized.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots libc;
    steps: "c/steps.c" in rseq own_rseq slots slob_rseq slab_rseq libc;
    fifo: "c/fifo.c" in rseq own_rseq slots slab_rseq libc;
    killed: "c/killed.c" in rseq own_rseq slots slab_rseq;
    stack: "c/stack.c" in rseq own_rseq slots tiny_rseq slob_rseq slab_rseq slab_slots slab_nodes slub_nodes;
}

fn program(source: &str) -> Option<Program> {
    let mut arguments = Vec::new();
    if source == "c/early.c" {
        let linked = shared_library("c/early_lib.c", "libearly_lib.so", &[])?;
        shared_library("c/early_lib.c", "early_plugin.so", &["-DPLUGIN"])?;
        arguments.push(linked.display().to_string());
        arguments.push("-Wl,-rpath,$ORIGIN".to_owned());
    }
    if source == "c/deepbind.c" {
        shared_library(source, "deepbind_plugin.so", &["-DPLUGIN"])?;
    }
    if source == "c/stack.c" {
        // The loader's part in a function's first call is large.
        arguments.push("-Wl,-z,now".to_owned());
    }
    Program::compile(source, &arguments)
}

fn passes(source: &str, mode: Mode) {
    let Some(program) = program(source) else {
        return;
    };
    // SLOB looks at one page after the other.
    let few: &[(&str, &str)] = &[("DECAY_PART", "6")];
    let settings = match source {
        "c/stack.c" => STACK,
        "c/steps.c" => &[("SLABYARD_DECAY_MS", "1000000")],
        _ if mode == Mode::SlobRseq => few,
        _ => &[],
    };
    let outcome = program.run(mode, settings, LIMIT);
    assert!(outcome.succeeded(), "{source} in mode {mode:?}: {outcome:#?}");
    // Good use is never reported.
    assert_eq!(outcome.messages().count(), 0, "{source} in mode {mode:?}: {outcome:#?}");
}

/// Reclaim is quick, so that each slow path meets it, and a report is written.
const STACK: &[(&str, &str)] = &[
    ("SLABYARD_DECAY_MS", "2"),
    ("STACK_REPORT", concat!(env!("CARGO_TARGET_TMPDIR"), "/stack.report")),
];

/// CPU slabs need as little stack as other fronts; both fronts, one above the other, 3.5 KiB.
#[test]
fn fronts_with_cpu_slabs_need_little_stack() {
    let Some(program) = program("c/stack.c") else {
        return;
    };
    let modes = [
        (Mode::CpuSlabs("6.12", "release"), "3072"),
        (Mode::CpuSlabsSlots("5.15"), "3072"),
        (Mode::Mixed("release"), "3584"),
    ];
    for (mode, most) in modes {
        let outcome = program.run(mode, &[STACK, &[("STACK_SLOW", most)]].concat(), LIMIT);
        assert!(outcome.succeeded(), "mode {mode:?}: {outcome:#?}");
        // A release that the library does not know it would name, and have another one's slabs.
        assert_eq!(outcome.messages().count(), 0, "mode {mode:?}: {outcome:#?}");
    }
}

#[test]
fn each_source_has_its_tests() {
    for entry in std::fs::read_dir(crate::process_runner::tests().join("c")).expect("the programs")
    {
        let name = format!("c/{}", entry.expect("an entry").file_name().display());
        let alone = ["c/early_lib.c", "c/own_area.c"];
        let helps = name.ends_with(".h") || alone.contains(&name.as_str());
        assert!(helps || SOURCES.contains(&name.as_str()), "{name} is in no test");
    }
}

/// As `sized`, with CPU slabs, and where each object and large block knows its size.
#[test]
fn a_size_asked_for_last_is_right_on_each_front_and_with_debugging() {
    let Some(program) = program("c/sized.c") else {
        return;
    };
    let fronts = [Mode::CpuSlabs("6.1", "slabs"), Mode::Mixed("exact")];
    for mode in fronts {
        let outcome = program.run(mode, &[], LIMIT);
        assert!(outcome.succeeded(), "{mode:?}: {outcome:#?}");
        assert_eq!(outcome.messages().count(), 0, "{mode:?}: {outcome:#?}");
    }
    for mode in [Mode::TinyRseq, Mode::SlabRseq, fronts[0]] {
        let outcome = program.run(mode, &[("SLABYARD_DEBUG", "FZPU")], LIMIT);
        assert!(outcome.succeeded(), "{mode:?}, debugging: {outcome:#?}");
        assert_eq!(outcome.messages().count(), 0, "{mode:?}, debugging: {outcome:#?}");
    }
}

/// A program that is not on it opens the library, uses it and closes it.
#[test]
fn a_closed_library_stays() {
    let Some(program) = program("c/unloaded.c") else {
        return;
    };
    let library = crate::process_runner::library().to_str().expect("a path in UTF-8");
    for mode in ["auto", "slots"] {
        let settings = [("UNLOADED_LIBRARY", library), ("SLABYARD_MODE", mode)];
        let outcome = program.run(Mode::Libc, &settings, LIMIT);
        assert!(outcome.succeeded(), "mode {mode}: {outcome:#?}");
        assert_eq!(outcome.messages().count(), 0, "mode {mode}: {outcome:#?}");
    }
}

/// Under `ulimit -v` small objects reach nine tenths of what the C library's malloc
/// reaches, or more: what an allocator reserves, a program cannot have.
#[test]
fn a_limit_of_address_space_is_the_programs() {
    let Some(program) = program("c/limited.c") else {
        return;
    };
    for kib in ["30720", "204800", "1048576"] {
        for form in ["mixed", "16", "100", "512"] {
            // Each of these fills a GiB four times.
            if kib == "1048576" && form != "mixed" {
                continue;
            }
            let peer = reached(&program, Mode::Libc, kib, form, &[]);
            for mode in [Mode::Rseq, Mode::OwnRseq, Mode::Slots] {
                let ours = reached(&program, mode, kib, form, &[]);
                assert!(10 * ours >= 9 * peer, "{form} under {kib}, {mode:?}: {ours} of {peer}");
            }
        }
    }
}

/// KiB that `limited.c` reached.
fn reached(program: &Program, mode: Mode, kib: &str, form: &str, more: &[(&str, &str)]) -> u64 {
    let settings = [&[("LIMITED_KIB", kib), ("LIMITED_FORM", form)], more].concat();
    let outcome = program.run(mode, &settings, LIMIT);
    assert!(outcome.succeeded(), "{kib} KiB of {form}, {mode:?}: {outcome:#?}");
    if outcome.stdout.starts_with("skipped") {
        print!("{}", outcome.stdout);
        return 0;
    }
    outcome.stdout.trim().parse().expect("a number of KiB")
}

/// The same where the program limits itself: the reserve does not count.
#[test]
fn a_late_limit_is_the_programs() {
    let Some(program) = program("c/limited.c") else {
        return;
    };
    for kib in ["65536", "204800"] {
        let late = [("LIMITED_LATE", "1")];
        let peer = reached(&program, Mode::Libc, kib, "mixed", &late);
        for mode in [Mode::Rseq, Mode::OwnRseq, Mode::Slots] {
            let ours = reached(&program, mode, kib, "mixed", &late);
            assert!(10 * ours >= 9 * peer && ours < 2 * peer, "{mode:?}: {ours} of {peer}");
        }
    }
}

/// The same where the kernel does not report how many CPUs there may be: a chroot without /sys.
#[test]
fn a_limit_is_the_programs_without_sysfs() {
    let Some(program) = program("c/limited.c") else {
        return;
    };
    let hidden = [("LIMITED_WITHOUT_SYS", "1")];
    let peer = reached(&program, Mode::Libc, "30720", "mixed", &hidden);
    for mode in [Mode::Rseq, Mode::OwnRseq, Mode::Slots] {
        let ours = reached(&program, mode, "30720", "mixed", &hidden);
        assert!(10 * ours >= 9 * peer, "{mode:?}: {ours} of {peer}");
    }
}

/// Each further library that a process loads takes a tenth of the process's start-up time.
#[test]
fn it_needs_the_c_library_alone() {
    let library = crate::process_runner::library();
    let Ok(output) = std::process::Command::new("readelf").arg("-dW").arg(library).output() else {
        println!("skipped: no readelf");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let needed: Vec<_> = text.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(!needed.is_empty(), "{text}");
    let loader = |line: &str| line.contains("[ld-linux");
    assert!(needed.iter().all(|line| line.contains("[libc.") || loader(line)), "{needed:#?}");
}

/// Asking to be observable, at the start and in each child, has no visible effect: not in the
/// output and not in `errno`, where the kernel does not know the request.
#[test]
fn being_observable_changes_nothing() {
    let Some(program) = program("c/forks.c") else {
        return;
    };
    let outcome = program.run(Mode::Rseq, &[("SLABYARD_OBSERVABLE", "1")], LIMIT);
    assert!(outcome.succeeded(), "{outcome:#?}");
    assert_eq!(outcome.messages().count(), 0, "{outcome:#?}");
}

fn gives_pages_back(source: &str, mode: Mode) {
    let Some(program) = program(source) else {
        return;
    };
    let outcome = program.run(mode, &[("SLABYARD_HELPER", "1")], LIMIT);
    assert!(outcome.succeeded(), "mode {mode:?}: {outcome:#?}");
    assert_eq!(outcome.messages().count(), 0, "mode {mode:?}: {outcome:#?}");
}

#[test]
fn a_helper_gives_pages_back() {
    gives_pages_back("c/helper.c", Mode::Rseq);
}

#[test]
fn a_helper_gives_pages_back_on_our_rseq() {
    gives_pages_back("c/helper.c", Mode::OwnRseq);
}

#[test]
fn a_helper_gives_pages_back_beside_slots() {
    gives_pages_back("c/helper.c", Mode::Slots);
}

/// Also what no page waits for: what queues left in barns.
#[test]
fn a_helper_gives_back_what_each_shape_leaves() {
    gives_pages_back("c/rest.c", Mode::Rseq);
}

/// Programs that rely on nothing of it run as before: fork, threads, handlers.
#[test]
fn a_helper_changes_nothing() {
    for source in ["c/forks.c", "c/threads.c", "c/signals.c", "c/exit.c", "c/early.c"] {
        let Some(program) = program(source) else {
            return;
        };
        let settings = [("SLABYARD_HELPER", "1"), ("SLABYARD_DECAY_MS", "10")];
        let outcome = program.run(Mode::Rseq, &settings, LIMIT);
        assert!(outcome.succeeded(), "{source}: {outcome:#?}");
        assert_eq!(outcome.messages().count(), 0, "{source}: {outcome:#?}");
    }
}

/// The report at the end states the mode: none falls back to another silently.
#[test]
fn each_mode_is_the_one_asked_for() {
    let Some(program) = program("c/exports.c") else {
        return;
    };
    let path = format!("{}/mode.report", env!("CARGO_TARGET_TMPDIR"));
    for (mode, number) in [(Mode::Rseq, 1), (Mode::OwnRseq, 2), (Mode::Slots, 3)] {
        let _ = std::fs::remove_file(&path);
        let outcome = program.run(mode, &[("SLABYARD_REPORT", &path)], LIMIT);
        let report = std::fs::read_to_string(&path).unwrap_or_default();
        let yard = report.lines().find(|line| line.starts_with("yard "));
        let said =
            yard.and_then(|line| line.split(' ').find_map(|word| word.strip_prefix("mode=")));
        assert_eq!(
            said.and_then(|n| n.parse().ok()),
            Some(number),
            "mode {mode:?}: report {report:?} of {outcome:#?}"
        );
    }
}

/// A program that registers rseq areas itself has them, whether the library may choose or was told
/// to use its own.
#[test]
fn a_program_has_its_own_restartable_sequences() {
    let Some(program) = program("c/own_area.c") else {
        return;
    };
    let off = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    let outcome = program.run(Mode::Libc, &[off], LIMIT);
    assert!(outcome.succeeded(), "{outcome:#?}");
    let library = crate::process_runner::library().to_str().expect("a path in UTF-8");
    for mode in ["auto", "own-rseq", "slots"] {
        let settings = [off, ("LD_PRELOAD", library), ("SLABYARD_MODE", mode)];
        let outcome = program.run(Mode::Libc, &settings, LIMIT);
        assert!(outcome.succeeded(), "mode {mode}: {outcome:#?}");
        assert_eq!(outcome.messages().count(), 0, "mode {mode}: {outcome:#?}");
    }
}

/// Broken allocators: each breaks one promise, and a program must say so.
mod planted {
    use super::*;

    fn run_on(shim: &str, source: &str) -> Option<Outcome> {
        let library = shared_library(&format!("shims/{shim}.c"), &format!("{shim}.so"), &[])?;
        let library = library.to_str().expect("a path in UTF-8");
        // What hangs there hangs at once.
        let settings = [("LD_PRELOAD", library), ("FORKS_PATIENCE", "3")];
        Some(program(source)?.run(Mode::Libc, &settings, LIMIT))
    }

    /// The C library may notice what threads did to its blocks before the program does.
    const TRIES: u32 = 4;

    macro_rules! planted {
        ($($test:ident: $shim:literal is seen by $source:literal, $saying:literal;)*) => {
            $(#[test]
            fn $test() {
                let mut outcomes = Vec::new();
                for _ in 0..TRIES {
                    let Some(outcome) = run_on($shim, $source) else { return };
                    assert!(!outcome.succeeded(), "{} passes on {}", $source, $shim);
                    if outcome.stderr.contains($saying) {
                        return;
                    }
                    outcomes.push(outcome);
                }
                panic!("not the expected failure: {outcomes:#?}");
            })*
        };
    }

    planted! {
        dirty_calloc: "dirty_calloc" is seen by "c/api.c", "calloc of";
        free_that_writes_errno: "free_errno" is seen by "c/api.c", "set errno to";
        lost_alignment: "misaligned" is seen by "c/api.c", "aligned_to";
        lost_alignment_of_new: "misaligned" is seen by "c/cxx.cc", "aligned_to";
        overlap: "overlap" is seen by "c/api.c", "intact";
        overlap_in_threads: "overlap" is seen by "c/threads.c", "intact";
        overlap_over_fork: "overlap" is seen by "c/forks.c", "intact";
        overlap_at_exit: "overlap" is seen by "c/exit.c", "status";
        lost_memory_of_threads: "no_free" is seen by "c/threads.c", "left";
        lost_memory: "no_free" is seen by "c/nomem.c", "at first, then 0";
        memory_that_stays: "no_free" is seen by "c/trim.c", "after trim";
        lock_held_over_fork: "no_fork" is seen by "c/forks.c", "a forked child: status 0xe";
        another_malloc: "no_free" is seen by "c/exports.c", "the library is not loaded";
        late_start: "late_start" is seen by "c/early.c", "the block of before all";
    }

    #[test]
    fn a_deep_frame() {
        let Some(program) = program("c/stack.c") else {
            return;
        };
        let outcome = program.run(Mode::Rseq, &[("STACK_PLANTED", "1")], LIMIT);
        assert!(!outcome.succeeded(), "a frame of 8 KiB passes");
        assert!(outcome.stderr.contains("planted: 8"), "not the expected failure: {outcome:#?}");
    }

    /// Without a helper an idle program keeps its pages, and the program sees that.
    #[test]
    fn nobody_who_helps() {
        let Some(program) = program("c/helper.c") else {
            return;
        };
        // A burst that comes long after another leaves nothing that waits.
        let settings =
            [("HELPER_JUDGES", "1"), ("SLABYARD_DECAY_MS", "600000"), ("TESTS_SLOWER", "1")];
        let outcome = program.run(Mode::Rseq, &settings, LIMIT);
        assert!(!outcome.succeeded(), "pages went back by themselves");
        assert!(outcome.stderr.contains("pages, "), "not the expected failure: {outcome:#?}");
    }

    /// The C library's own malloc is not for handlers: it crashes or hangs.
    #[test]
    fn handlers_on_the_c_librarys_malloc() {
        let Some(program) = program("c/signals.c") else {
            return;
        };
        let outcome = program.run(Mode::Libc, &[], Duration::from_secs(5));
        assert!(!outcome.succeeded(), "signals.c does not interrupt malloc");
    }

    /// With signals blocked it is: then the program must find nothing.
    #[test]
    fn handlers_on_a_masked_malloc() {
        let Some(outcome) = run_on("masked", "c/signals.c") else {
            return;
        };
        assert!(outcome.succeeded(), "{outcome:#?}");
    }
}
