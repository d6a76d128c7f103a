//! Misuse of the library, one program per case: `misuse/NN-name.c`.
//!
//! There is one test per program and mode. A program's first lines state when it must be stopped
//! and with which message ([`Expectation`]), and [`judge`] compares that with what happened. The
//! engine `tiny` parks nothing, so it must detect at once what sheaves reveal at a flush or at the
//! end. The table of `misuse/README.md` is generated from the same lines. Neighbour:
//! `process_runner`.
//!
//! With `SLABYARD_BLESS=1` the table is rewritten instead of compared.

use crate::process_runner::expectation::{Expectation, When, judge};
use crate::process_runner::{LIMIT, Mode, Outcome, Program, library, shared_library, tests};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

/// The names of all programs, in order.
fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(tests().join("misuse"))
        .expect("the programs")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name in UTF-8"))
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    names.sort_by_key(|name| {
        let number = name.split_once('-').expect("a number").0;
        number.parse::<u32>().expect("a number")
    });
    names
}

fn expectation(name: &str) -> Expectation {
    let text = fs::read_to_string(tests().join("misuse").join(name)).expect("the program");
    Expectation::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// What SLOB says instead, and ends the program: it frees an empty page at once, hands memory out
/// again at once, and finds writes over the header in front of an object.
const SLOB_SAYS: &[(&str, &str)] = &[
    ("double-free-thread", "double free of an object of cache slob"),
    ("realloc-freed-between", INTERIOR),
    ("realloc-freed-in-place", INTERIOR),
    ("realloc-freed-late", INTERIOR),
    ("realloc-freed-small", INTERIOR),
    ("reallocarray-freed", INTERIOR),
    ("usable-size-freed", INTERIOR),
    ("usable-size-freed-between", INTERIOR),
    ("write-after-free-links", OVERWRITTEN),
    ("write-past-end", OVERWRITTEN),
    ("write-past-end-neighbour", OVERWRITTEN),
];
/// What the engine `tiny` says instead, which keeps no record of what was freed last.
const TINY_SAYS: &[(&str, &str)] = &[("realloc-freed-late", "double free of an object")];
/// Of Linux.
const SIGABRT: i32 = 6;
const INTERIOR: &str = "interior pointer, not the begin of an object of cache slob";
const OVERWRITTEN: &str = "write to free memory or in front of an object, of cache slob";

/// Runs the program with this name, or with the name's suffix left out.
fn meets_its_expectation(stem: &str, mode: Mode) {
    let stem = stem.replace('_', "-");
    let name = names()
        .into_iter()
        .find(|name| {
            name.split_once('-')
                .and_then(|(_, n)| n.rsplit_once('.'))
                .is_some_and(|(n, _)| n == stem)
        })
        .unwrap_or_else(|| panic!("there is no program {stem}"));
    let mut expected = expectation(&name);
    if mode.parks_nothing() {
        expected.when = expected.when.where_nothing_is_parked();
    }
    let Some(program) = Program::compile(&format!("misuse/{name}"), &[]) else {
        return;
    };
    let says = match mode {
        Mode::SlobRseq => SLOB_SAYS,
        _ if mode.parks_nothing() => TINY_SAYS,
        _ => &[],
    };
    let said = says.iter().find(|(of, _)| *of == stem);
    let variables: Vec<(&str, &str)> =
        expected.variable.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let outcome = program.run(mode, &variables, LIMIT);
    if let Some((_, said)) = said {
        let is_stopped = outcome.status.is_some_and(|status| status.signal() == Some(SIGABRT));
        return assert!(is_stopped && outcome.stderr.contains(said), "{name}: {outcome:#?}");
    }
    if let Err(wrong) = judge(&expected, &outcome) {
        panic!("{name} in mode {mode:?}: {wrong}\nexpected {expected:#?}\ngot {outcome:#?}");
    }
}

macro_rules! bad_uses {
    ($($name:ident)*) => {
        $(mod $name {
            #[test]
            fn rseq() {
                super::meets_its_expectation(stringify!($name), super::Mode::Rseq);
            }
            #[test]
            fn own_rseq() {
                super::meets_its_expectation(stringify!($name), super::Mode::OwnRseq);
            }
            #[test]
            fn slots() {
                super::meets_its_expectation(stringify!($name), super::Mode::Slots);
            }
            #[test]
            fn tiny_rseq() {
                super::meets_its_expectation(stringify!($name), super::Mode::TinyRseq);
            }
            #[test]
            fn tiny_slots() {
                super::meets_its_expectation(stringify!($name), super::Mode::TinySlots);
            }
            #[test]
            fn slab_rseq() {
                super::meets_its_expectation(stringify!($name), super::Mode::SlabRseq);
            }
            #[test]
            fn slab_slots() {
                super::meets_its_expectation(stringify!($name), super::Mode::SlabSlots);
            }
            #[test]
            fn slob_rseq() {
                super::meets_its_expectation(stringify!($name), super::Mode::SlobRseq);
            }
        })*

        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

bad_uses! {
    double_free_small
    double_free_run
    double_free_mapping
    double_free_largest_class
    double_free_zero_size
    double_free_between
    double_free_many_between
    double_free_after_flush
    double_free_slab_gone
    double_free_run_between
    double_free_after_reuse
    double_free_thread
    double_free_fork
    double_free_handler
    double_free_aligned
    double_free_aligned_run
    double_free_aligned_mapping
    double_free_realloc_zero
    stale_after_realloc_small
    stale_after_realloc_run
    stale_after_realloc_mapping
    free_stack
    free_static
    free_thread_storage
    free_code
    free_foreign_mapping
    free_null_page
    free_minus_16
    free_not_canonical
    free_never_allocated
    free_unmapped_by_hand
    interior_small
    interior_run
    interior_run_page
    interior_mapping
    interior_aligned
    past_end_run
    misaligned_by_1
    misaligned_by_8
    misaligned_run
    realloc_stack
    realloc_freed_small
    realloc_freed_run
    realloc_interior_small
    realloc_interior_run
    realloc_misaligned
    usable_size_stack
    usable_size_freed
    free_sized_wrong
    free_sized_wrong_run
    sized_delete_wrong
    delete_interior
    delete_twice
    delete_of_malloc
    write_after_free
    write_past_end
    option_unknown
    option_word
    option_number
    option_range
    option_good
    report_only
    free_null
    no_bad_use
    delete_derived_as_base
    delete_derived_often
    delete_derived_large
    delete_derived_mapping
    delete_derived_abort
    aligned_delete_wrong_size
    double_free_exit
    double_free_nine_between
    double_free_hundreds_between
    double_free_late
    double_free_late_all_checked
    double_free_unchecked
    double_free_late_report
    double_free_flushed_unchecked
    double_free_late_large_class
    double_free_other_size_between
    double_free_handed_out_twice
    double_free_list
    double_free_smallest_class
    double_free_one_kib
    double_free_largest_between
    double_free_calloc
    double_free_strdup
    double_free_thread_between
    double_free_two_threads
    double_free_fork_between
    double_free_at_exit_handler
    double_free_realloc_zero_between
    double_free_realloc_between
    double_free_aligned_between
    double_free_mapping_between
    double_free_after_trim
    double_free_line_buffer
    double_delete_between
    double_delete_array_between
    double_free_owner_copied
    interior_by_16
    interior_by_32
    interior_of_smallest_two
    interior_half
    interior_last
    interior_late
    interior_advanced
    interior_before
    past_end_small
    misaligned_delete
    misaligned_realloc_run
    delete_second_base
    free_literal
    free_argument
    free_environment
    free_stdout
    free_thread_stack
    free_pattern
    free_kernel_address
    free_one
    free_brk
    free_file_mapping
    free_truncated
    delete_stack
    free_relative
    realloc_freed_between
    realloc_freed_in_place
    realloc_freed_late
    realloc_freed_mapping
    realloc_static
    reallocarray_freed
    usable_size_freed_between
    usable_size_interior
    sized_delete_twice
    sized_delete_wrong_interior
    read_after_free_run
    read_after_free_small
    write_after_free_links
    read_after_realloc
    write_past_end_by_1
    write_past_end_by_8
    write_past_end_neighbour
    write_past_end_then_malloc
    write_past_end_run
    write_before
    write_before_by_1
    malloc_minus_one
    calloc_overflows
    realloc_too_much
    alignment_not_a_power
    free_in_turns
    exit_while_threads_run
    read_after_free_large
    write_after_free_large
    read_after_free_mapping
    stale_after_realloc_grows
    free_of_new
    delete_of_new_array
    delete_array_of_new
    free_of_new_large
    realloc_of_new
    aligned_delete_of_memalign
    write_after_trim
    write_past_end_quick_exit
    read_of_nothing
    write_to_nothing
}

#[test]
fn each_program_has_its_tests() {
    let programs: Vec<String> = names()
        .iter()
        .map(|name| {
            let stem = name.rsplit_once('.').expect("a suffix").0;
            stem.split_once('-').expect("a number").1.replace('-', "_")
        })
        .collect();
    assert_eq!(programs, TESTED);
    for (i, name) in names().iter().enumerate() {
        assert!(name.starts_with(&format!("{:02}-", i + 1)), "{name} is out of order");
    }
}

/// What is noticed in a young process alone: the free itself must be looked at.
const IN_YOUNG_PROCESSES: &[&str] = &[
    "81-double-free-handed-out-twice.c",
    // The child ends by `_exit`.
    "90-double-free-fork-between.c",
    // It depends on what its neighbour is.
    "109-past-end-small.c",
];
/// Where large blocks came and went within the last milliseconds, a further one is no mapping.
const WHERE_LARGE_BLOCKS_REST: &[&str] = &[
    "153-read-after-free-large.c",
    "154-write-after-free-large.c",
    "155-read-after-free-mapping.c",
    "156-stale-after-realloc-grows.c",
];

/// After 20,000 allocations of mixed sizes, with and without large blocks among them: by the same
/// end, or by another way to notice it.
#[test]
fn what_is_noticed_in_a_young_process_is_noticed_in_an_old_one() {
    let Some(shim) = shared_library("shims/old_process.c", "old_process.so", &["-pthread"]) else {
        return;
    };
    let preload = format!("{} {}", shim.display(), library().display());
    let mut of_old = 0;
    for largest in ["4000000", "100000"] {
        let noticed = noticed_with(&[("LD_PRELOAD", &preload), ("OLD_PROCESS_LARGEST", largest)]);
        let lost: Vec<_> = noticed.iter().filter(|(_, is_noticed)| !is_noticed).collect();
        let is_known = |name: &str| {
            IN_YOUNG_PROCESSES.contains(&name)
                || largest == "4000000" && WHERE_LARGE_BLOCKS_REST.contains(&name)
        };
        let unknown: Vec<_> = lost.iter().filter(|(name, _)| !is_known(name)).collect();
        assert!(unknown.is_empty(), "with blocks of up to {largest} bytes before: {unknown:?}");
        // Those in C++ are skipped where there is no compiler for them.
        of_old = noticed.iter().filter(|(name, is)| *is && name.ends_with(".c")).count();
    }
    assert!(of_old >= 105, "{of_old}");
}

/// The programs that expect to be noticed, and whether they are, where these variables are set.
fn noticed_with(variables: &[(&str, &str)]) -> Vec<(String, bool)> {
    let is_noticed = |name: &str, expected: &Expectation| {
        let program = Program::compile(&format!("misuse/{name}"), &[])?;
        let mut all = variables.to_vec();
        all.extend(expected.variable.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        // A thread that the system moves to another CPU between the free and the misuse may not
        // be noticed: on a busy machine a few of a thousand runs.
        Some((0..3).any(|_| {
            let outcome = program.run(Mode::Rseq, &all, LIMIT);
            let is_said = outcome.messages().next().is_some();
            match expected.when {
                When::Warned => is_said && outcome.ended(),
                _ => outcome.faulted() || is_said && outcome.aborted(),
            }
        }))
    };
    let names: Vec<(String, Expectation)> = names()
        .into_iter()
        .map(|name| (expectation(&name), name))
        .filter(|(expected, _)| {
            !matches!(expected.when, When::NotCaught | When::Fine) && expected.cause != "option"
        })
        .map(|(expected, name)| (name, expected))
        .collect();
    let look = |part: &[(String, Expectation)]| -> Vec<(String, bool)> {
        let looks = part.iter().map(|(name, e)| (name.clone(), is_noticed(name, e)));
        looks.filter_map(|(name, is_noticed)| Some((name, is_noticed?))).collect()
    };
    let look = &look;
    std::thread::scope(|scope| {
        let parts: Vec<_> = names
            .chunks(names.len().div_ceil(4))
            .map(|part| scope.spawn(move || look(part)))
            .collect();
        parts.into_iter().flat_map(|part| part.join().expect("a look")).collect()
    })
}

const TABLE_BEGINS: &str = "<!-- table: made from the programs -->\n";
const TABLE_ENDS: &str = "<!-- end of the table -->\n";

fn table() -> String {
    let mut table = "| Program | What it does | Noticed | Cause |\n|---|---|---|---|\n".to_owned();
    for name in names() {
        let e = expectation(&name);
        let when = match e.when {
            When::AtOnce => "at once",
            When::AtFlush => "at flush",
            When::AtExit => "at exit",
            When::Faults => "faults",
            When::NotCaught => "not at all",
            When::Warned => "warned, goes on",
            When::Fine => "nothing to notice",
        };
        let cause = if e.must_be_said() { e.words().expect("checked at parsing") } else { "" };
        table += &format!("| `{name}` | {} | {when} | {cause} |\n", e.deed);
    }
    table
}

#[test]
fn the_readme_has_the_table_of_the_programs() {
    let path: PathBuf = tests().join("misuse/README.md");
    let text = fs::read_to_string(&path).expect("the README");
    let (before, rest) = text.split_once(TABLE_BEGINS).expect("the table's begin");
    let (found, after) = rest.split_once(TABLE_ENDS).expect("the table's end");
    if std::env::var_os("SLABYARD_BLESS").is_some() {
        let text = format!("{before}{TABLE_BEGINS}{}{TABLE_ENDS}{after}", table());
        fs::write(&path, text).expect("the README is written");
    } else {
        assert_eq!(found, table(), "run this test with SLABYARD_BLESS=1");
    }
}

/// The judge itself: each of these must be refused.
mod planted {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    const REPORT: &str = "slabyard: free(0x7f12a0): double free of an object of cache malloc-64\n";

    fn outcome(signal: i32, stdout: &str, stderr: &str) -> Outcome {
        let status = Some(ExitStatus::from_raw(signal));
        Outcome { status, stdout: stdout.into(), stderr: stderr.into() }
    }

    fn expect(line: &str) -> Expectation {
        Expectation::parse(&format!("/* expect: {line} */\n/* A deed. */\n")).expect("a good head")
    }

    #[test]
    fn a_right_report_is_taken() {
        assert_eq!(judge(&expect("at-once double-free"), &outcome(6, "", REPORT)), Ok(()));
        assert_eq!(judge(&expect("at-flush double-free"), &outcome(6, "after\n", REPORT)), Ok(()));
        assert_eq!(judge(&expect("not-caught write"), &outcome(0, "after\n", "")), Ok(()));
    }

    #[test]
    fn a_wrong_end_is_refused() {
        let at_once = expect("at-once double-free");
        assert!(judge(&at_once, &outcome(0, "after\n", "")).is_err(), "not stopped");
        assert!(judge(&at_once, &outcome(0, "", REPORT)).is_err(), "not aborted");
        assert!(judge(&at_once, &outcome(11, "", REPORT)).is_err(), "a crash");
        assert!(judge(&at_once, &outcome(6, "after\n", REPORT)).is_err(), "too late");
        assert!(judge(&expect("faults none"), &outcome(0, "after\n", "")).is_err(), "no fault");
        assert!(judge(&expect("faults none"), &outcome(11, "after\n", "")).is_err(), "a late one");
        assert!(
            judge(&expect("at-flush double-free"), &outcome(6, "", REPORT)).is_err(),
            "too early"
        );
        assert!(
            judge(&expect("fine none"), &outcome(0, "after\n", REPORT)).is_err(),
            "a false alarm"
        );
    }

    #[test]
    fn a_wrong_message_is_refused() {
        for stderr in [
            "",
            "free(): double free detected in tcache 2\n",
            "slabyard: double free\n",
            "slabyard: free(0x): double free of an object\n",
            "slabyard: (0x10): double free of an object\n",
            "slabyard: free(0x10): invalid pointer, not a double free\n",
            &REPORT.repeat(2),
        ] {
            let taken = judge(&expect("at-once double-free"), &outcome(6, "", stderr));
            assert!(taken.is_err(), "taken: {stderr:?}");
        }
    }

    #[test]
    fn a_wrong_head_is_refused() {
        for head in [
            "/* A deed. */\n/* expect: at-once double-free */\n",
            "/* expect: soon double-free */\n/* A deed. */\n",
            "/* expect: at-once bad-luck */\n/* A deed. */\n",
            "/* expect: warned option */\n/* No variable. */\n",
            "/* expect: at-once double-free */\n#include \"misuse.h\"\n",
        ] {
            assert!(Expectation::parse(head).is_err(), "taken: {head}");
        }
    }

    /// An allocator that takes each free for good does not pass.
    #[test]
    fn an_allocator_that_never_frees() {
        let Some(shim) = shared_library("shims/no_free.c", "no_free.so", &[]) else {
            return;
        };
        let preload = [("LD_PRELOAD", shim.to_str().expect("a path in UTF-8"))];
        let mut nr_refused = 0;
        for name in names().iter().filter(|name| name.contains("double-free-")) {
            let expected = expectation(name);
            if expected.when == When::NotCaught {
                continue;
            }
            let Some(program) = Program::compile(&format!("misuse/{name}"), &[]) else {
                return;
            };
            let outcome = program.run(Mode::Libc, &preload, LIMIT);
            assert!(judge(&expected, &outcome).is_err(), "{name} passes: {outcome:#?}");
            nr_refused += 1;
        }
        assert!(nr_refused > 10, "only {nr_refused} were tried");
    }
}
