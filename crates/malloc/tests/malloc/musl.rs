//! Programs of another C library under the same preload library: musl has its own loader and
//! threads, and registers no rseq area. The programs are those of `process.rs`, except some that
//! fail on musl without our library too.

use crate::process_runner::{LIMIT, Mode, Program};

macro_rules! programs {
    ($($name:ident: $source:literal in $($mode:ident)+;)*) => {
        $(mod $name {
            $(#[test]
            fn $mode() {
                super::passes($source, super::Mode::named(stringify!($mode)));
            })+
        })*
    };
}

// A handler may allocate in the first of these modes only.
programs! {
    exports: "c/exports.c" in own_rseq slots;
    forks: "c/forks.c" in own_rseq slots;
    signals: "c/signals.c" in own_rseq;
    decay: "c/decay.c" in own_rseq slots;
    trim: "c/trim.c" in own_rseq slots;
    boundary: "c/boundary.c" in own_rseq slots;
    cores: "c/cores.c" in own_rseq slots;
    faults: "c/faults.c" in own_rseq slots;
    limited: "c/limited.c" in own_rseq slots;
    unloaded: "c/unloaded.c" in own_rseq slots;
    sparse: "c/sparse.c" in own_rseq slots;
    locked: "c/locked.c" in own_rseq slots;
}

fn passes(source: &str, mode: Mode) {
    let Some(program) = Program::compile_for_musl(source) else {
        return;
    };
    let outcome = program.run(mode, &[], LIMIT);
    assert!(outcome.succeeded(), "{source} in mode {mode:?}: {outcome:#?}");
    assert_eq!(outcome.messages().count(), 0, "{source} in mode {mode:?}: {outcome:#?}");
}
