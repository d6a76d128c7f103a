//! Unmodified programs whose caches have debugging: each kind of misuse is detected, and reported
//! with the cache and both stacks.
//!
//! There is one test per case of `debugged/cases.c`, each in modes 1 and 3. Neighbours:
//! `process_runner`; `misuse.rs` tests the same library without debugging.

use crate::process_runner::{LIMIT, Mode, Outcome, Program, tests};
use std::fs;
use std::os::unix::process::ExitStatusExt;

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

fn run_in(mode: Mode, case: &str, further: &[(&str, &str)]) -> Option<Outcome> {
    let program = Program::compile("debugged/cases.c", &[])?;
    let mut variables = vec![("CASE", case), ("SLABYARD_DEBUG", "FZPU")];
    variables.extend(further);
    Some(program.run(mode, &variables, LIMIT))
}

const PAGE: &str = "BUG malloc-large: Free page overwritten";

/// The engine `tiny`, because its mode is of the library that holds all engines.
const MODES: [Mode; 2] = [Mode::TinyRseq, Mode::TinySlots];

/// It aborts, and says all of these.
fn is_found(case: &str, words: &[&str]) {
    for mode in MODES {
        let Some(outcome) = run_in(mode, case, &[]) else { return };
        assert!(outcome.aborted(), "{case} in {mode:?}: {outcome:#?}");
        for word in words {
            assert!(outcome.stderr.contains(word), "{case} does not say {word}: {outcome:#?}");
        }
    }
}

/// The parts of a report, by its headings.
fn part<'a>(text: &'a str, heading: &str) -> &'a str {
    let begin = text.find(heading).unwrap_or_else(|| panic!("no {heading} in {text}"));
    let rest = &text[begin..];
    let lines: usize =
        1 + rest.lines().skip(1).take_while(|line| line.starts_with("slabyard:     ")).count();
    let end = rest.match_indices('\n').nth(lines - 1).map_or(rest.len(), |(at, _)| at);
    &rest[..end]
}

#[test]
fn a_sound_program_is_left_alone() {
    for mode in MODES {
        let Some(outcome) = run_in(mode, "sound", &[("SLABYARD_VERIFY_AT_EXIT", "1")]) else {
            return;
        };
        assert!(outcome.succeeded() && outcome.stderr.is_empty(), "{outcome:#?}");
    }
}

/// A filter of system calls that kills whoever asks for the thread's number.
#[test]
fn a_filter_of_system_calls_is_kept() {
    for mode in MODES {
        let Some(outcome) = run_in(mode, "filtered", &[]) else { return };
        assert!(outcome.succeeded() && outcome.stderr.is_empty(), "{mode:?}: {outcome:#?}");
    }
}

#[test]
fn threads_that_exchange_objects_and_fork_are_left_alone() {
    for mode in MODES {
        let Some(outcome) = run_in(mode, "threads", &[("SLABYARD_VERIFY_AT_EXIT", "1")]) else {
            return;
        };
        assert!(outcome.succeeded() && outcome.stderr.is_empty(), "{outcome:#?}");
    }
}

#[test]
fn a_write_past_the_requested_size_is_found_at_the_free() {
    const OVER: &str = "Right Redzone overwritten";
    for (case, cache) in [
        ("over-by-1", "malloc-32"),
        ("over-by-8", "malloc-32"),
        ("over-by-16", "malloc-32"),
        ("over-far", "malloc-32"),
        ("over-string", "malloc-32"),
        ("over-calloc", "malloc-32"),
        ("over-realloc", "malloc-48"),
        ("over-realloc-shrunk", "malloc-48"),
        ("over-aligned", "malloc-64"),
        ("over-aligned-page", "malloc-large"),
        ("over-large", "malloc-large"),
    ] {
        is_found(case, &[&format!("BUG {cache}: {OVER}"), "Called by"]);
    }
}

#[test]
fn a_write_in_front_of_an_object_is_found_at_the_free() {
    for case in ["under-by-1", "under-by-8"] {
        is_found(case, &["BUG malloc-32: Left Redzone overwritten", "instead of 0xcc"]);
    }
}

#[test]
fn what_nobody_frees_is_found_at_the_exit() {
    for (case, words) in [
        ("over-never-freed", "BUG malloc-32: Right Redzone overwritten"),
        ("over-underscore", "BUG malloc-32: Right Redzone overwritten"),
        ("over-underscore-child", "BUG malloc-32: Right Redzone overwritten"),
        ("over-large-never-freed", "BUG malloc-large: Right Redzone overwritten"),
        ("write-after-free", "BUG malloc-32: Poison overwritten"),
        ("write-zone-after-free", "BUG malloc-32: Left Redzone overwritten"),
        ("write-after-trim", PAGE),
        ("write-after-free-large-of-many", PAGE),
    ] {
        is_found(case, &[words]);
    }
}

/// Otherwise a fork whose child does little would cost its parent, which waits for it, as much time
/// as a check of the whole heap.
#[test]
fn a_forked_child_is_looked_at_if_it_made_calls_in_proportion() {
    for mode in MODES {
        let Some(outcome) = run_in(mode, "large-child-few", &[]) else { return };
        assert!(outcome.succeeded() && outcome.stderr.is_empty(), "{mode:?}: {outcome:#?}");
    }
    is_found("large-child-many", &["BUG malloc-32: Right Redzone overwritten"]);
}

/// Where a look cannot be relied on, the process ends as it would have.
#[test]
fn the_end_of_a_vforks_child_and_of_a_handler_on_its_own_stack_are_let_be() {
    for case in ["over-underscore-vfork", "over-underscore-handler"] {
        for mode in MODES {
            let Some(outcome) = run_in(mode, case, &[]) else { return };
            assert!(outcome.succeeded() && outcome.stderr.is_empty(), "{case}: {outcome:#?}");
        }
    }
}

/// Freed pages are checked when they are allocated again.
#[test]
fn a_write_to_freed_pages_is_found_when_they_are_taken() {
    for case in ["write-after-trim-reused", "write-after-free-large-of-many-reused"] {
        is_found(case, &[PAGE, "Called by", " make+0x"]);
    }
}

#[test]
fn both_stacks_are_named() {
    for (case, what) in [
        ("write-after-free-reused", "Poison overwritten"),
        ("twice", "Object already free"),
        ("twice-after-others", "Object already free"),
        ("twice-by-thread", "Object already free"),
    ] {
        for mode in MODES {
            let Some(outcome) = run_in(mode, case, &[]) else { return };
            let text = &outcome.stderr;
            assert!(outcome.aborted() && text.contains(what), "{case}: {outcome:#?}");
            assert!(part(text, "Allocated 24 bytes").contains(" make+0x"), "{case}: {text}");
            assert!(part(text, "Freed 24 bytes").contains(" give+0x"), "{case}: {text}");
            assert!(part(text, "Called by").contains("cases"), "{case}: {text}");
        }
    }
}

#[test]
fn a_free_of_a_wrong_address_is_named_with_its_caller() {
    for (case, words) in [
        ("inside", "BUG malloc-32: Invalid object pointer"),
        ("inside-odd", "BUG malloc-32: Invalid object pointer"),
        ("inside-large", "interior pointer into a live large block"),
        ("wild", "invalid pointer, not from this allocator"),
        ("stack", "invalid pointer, not from this allocator"),
        ("static", "invalid pointer, not from this allocator"),
        ("foreign", "invalid pointer, not from this allocator"),
        ("twice-large", "double free, the memory there is free already"),
        ("twice-large-after-others", "double free, the memory there is free already"),
        ("child", "Object already free"),
    ] {
        is_found(case, &[words, " give+0x"]);
    }
}

/// Its `delete` may get what its own `new` took from malloc.
#[test]
fn a_program_with_operators_of_its_own_is_left_alone() {
    for mode in MODES {
        let Some(program) = Program::compile("debugged/operators.cc", &[]) else { return };
        let outcome = program.run(mode, &[("SLABYARD_DEBUG", "FZP")], LIMIT);
        assert!(outcome.succeeded() && outcome.stderr.is_empty(), "{outcome:#?}");
    }
}

/// What no other allocator minds, and libraries do that run for years.
#[test]
fn a_free_by_another_function_of_the_family_is_reported_once_and_made() {
    let made = [
        ("157-free-of-new.cc", "free(0x"),
        ("158-delete-of-new-array.cc", "delete(0x"),
        ("159-delete-array-of-new.cc", "delete[](0x"),
        ("160-free-of-new-large.cc", "free(0x"),
        ("161-realloc-of-new.cc", "realloc(0x"),
        ("54-delete-of-malloc.cc", "delete(0x"),
        ("51-sized-delete-wrong.cc", "sized free(0x"),
        ("66-delete-derived-often.cc", "sized free(0x"),
    ];
    for (name, function) in made {
        let Some(program) = Program::compile(&format!("misuse/{name}"), &[]) else { return };
        let debug = ("SLABYARD_DEBUG", "FZP");
        let outcome = program.run(MODES[0], &[debug], LIMIT);
        let said = |outcome: &Outcome| outcome.stderr.matches(": wrong ").count();
        assert!(outcome.succeeded() && said(&outcome) == 1, "{name}: {outcome:#?}");
        assert!(outcome.stderr.contains(function), "{name}: {outcome:#?}");
        let outcome = program.run(MODES[0], &[debug, ("SLABYARD_ON_ERROR", "abort")], LIMIT);
        assert!(outcome.aborted() && said(&outcome) == 1, "{name}: {outcome:#?}");
    }
}

#[test]
fn other_calls_about_freed_objects_are_named_with_their_caller() {
    for (case, call) in [("realloc-freed", "realloc"), ("usable-freed", "malloc_usable_size")] {
        is_found(case, &[&format!("{call}(0x"), "use after free", "main+0x"]);
    }
}

#[test]
fn large_blocks_fault_behind_their_end_and_after_their_free() {
    for case in [
        "over-large-page",
        "write-after-free-large",
        "read-after-free-large",
        "over-nothing",
        "read-nothing",
    ] {
        for mode in MODES {
            let Some(outcome) = run_in(mode, case, &[]) else { return };
            let signal = outcome.status.and_then(|status| status.signal());
            assert_eq!(signal, Some(SIGSEGV), "{case}: {outcome:#?}");
        }
    }
}

#[test]
fn reads_of_free_and_of_new_objects_see_poison() {
    for case in ["read-after-free", "read-uninitialised"] {
        let Some(outcome) = run_in(MODES[0], case, &[]) else { return };
        assert!(outcome.succeeded(), "{case}: {outcome:#?}");
    }
}

#[test]
fn without_its_flag_nothing_of_it_is_found() {
    for (case, flags) in [
        ("over-by-1", "P"),
        ("over-by-1", "FZPU,malloc-64"),
        ("over-by-1", "FZPU;-,malloc-32"),
        ("write-after-free", "FZU"),
    ] {
        let Some(outcome) = run_in(MODES[0], case, &[("SLABYARD_DEBUG", flags)]) else { return };
        assert!(outcome.succeeded() && outcome.stderr.is_empty(), "{case} {flags}: {outcome:#?}");
    }
    for rules in ["FZP", "F,x;FZP", "FZP,malloc-32", "-;FZP,malloc-3*"] {
        let Some(outcome) = run_in(MODES[0], "over-by-1", &[("SLABYARD_DEBUG", rules)]) else {
            return;
        };
        let status = outcome.status.and_then(|status| status.signal());
        assert_eq!(status, Some(SIGABRT), "{rules}: {outcome:#?}");
        assert!(!outcome.stderr.contains("Allocated"), "{rules}: {outcome:#?}");
    }
}

#[test]
fn the_program_goes_on_if_it_is_told_to() {
    for case in ["over-by-1", "twice", "inside", "write-after-free-reused", "over-large"] {
        let further = [("SLABYARD_ON_ERROR", "report"), ("SLABYARD_VERIFY_AT_EXIT", "1")];
        let Some(outcome) = run_in(MODES[0], case, &further) else { return };
        assert!(outcome.succeeded(), "{case}: {outcome:#?}");
        assert_eq!(outcome.stderr.matches("slabyard: BUG ").count(), 1, "{case}: {outcome:#?}");
    }
}

#[test]
fn calls_are_traced_and_fail_by_rule() {
    let traced = [("SLABYARD_DEBUG", "T,malloc-208")];
    let Some(outcome) = run_in(MODES[0], "fails", &traced) else { return };
    for call in ["alloc", "free"] {
        let lines = outcome.stderr.matches(&format!("TRACE malloc-208 {call} 0x")).count();
        assert_eq!(lines, 100, "{outcome:#?}");
    }
    for (rule, failed) in [
        ("interval=10", "10\n"),
        ("interval=10,times=3", "3\n"),
        ("after=90", "10\n"),
        ("probability=0", "0\n"),
    ] {
        let further = [("SLABYARD_DEBUG", "A,malloc-208"), ("SLABYARD_FAILSLAB", rule)];
        let Some(outcome) = run_in(MODES[0], "fails", &further) else { return };
        assert!(outcome.succeeded(), "{rule}: {outcome:#?}");
        assert_eq!(outcome.stdout, failed, "{rule}: {outcome:#?}");
    }
}

#[test]
fn rules_that_are_none_are_told_and_ignored() {
    for (name, value) in [("SLABYARD_DEBUG", "FX"), ("SLABYARD_FAILSLAB", "often")] {
        let Some(outcome) = run_in(MODES[0], "read-uninitialised", &[(name, value)]) else {
            return;
        };
        assert!(outcome.stderr.contains(&format!("{name} is ignored: ")), "{outcome:#?}");
    }
}

/// What is reported, and no reason to stop.
const GOES_ON: [&str; 2] = [": wrong function for ", ": wrong size "];

/// What debugging does not notice of the programs of `misuse/`, and why.
const NOT_NOTICED: &[&str] = &[
    // A good free: its object came back by the same address.
    "11-double-free-after-reuse.c",
    // Reads leave no trace; they see poison.
    "136-read-after-free-run.c",
    "137-read-after-free-small.c",
    "139-read-after-realloc.c",
];

#[test]
fn all_but_these_programs_of_misuse_are_noticed() {
    let (mut noticed, mut missed) = (0, Vec::new());
    let mut names: Vec<String> = fs::read_dir(tests().join("misuse"))
        .expect("the programs")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name in UTF-8"))
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    names.sort();
    for name in names {
        let text = fs::read_to_string(tests().join("misuse").join(&name)).expect("the program");
        let head = text.lines().next().unwrap_or_default();
        if ["expect: fine", " option"].iter().any(|of_options| head.contains(of_options)) {
            continue;
        }
        let Some(program) = Program::compile(&format!("misuse/{name}"), &[]) else { return };
        let outcome = program.run(Mode::TinyRseq, &[("SLABYARD_DEBUG", "FZP")], LIMIT);
        // A report is notice, though the program goes on after it.
        let goes_on = GOES_ON.iter().any(|cause| outcome.stderr.contains(cause));
        let as_said = if goes_on { outcome.ended() } else { outcome.aborted() };
        if as_said && outcome.stderr.contains("slabyard: ") || outcome.faulted() {
            noticed += 1;
        } else {
            missed.push(name);
        }
    }
    missed.retain(|name| !NOT_NOTICED.contains(&name.as_str()));
    assert!(missed.is_empty(), "not noticed: {missed:?}");
    assert!(noticed > 120, "{noticed}");
}
