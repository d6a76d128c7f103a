//! What the fuzzers of Slabyard's readers do with their bytes.
//!
//! Each function of [`TARGETS`] takes what another program, another machine or an attacker may have
//! written, opens it as the command does, and uses what was read: a reader that accepts what a view
//! or a replay then stumbles over is as broken as one that stumbles itself. An error is an answer. A
//! panic, an overflow, memory without bound or no end is a finding, and so is what was written and
//! is not read again as it was, and what would steer the terminal that it is shown on.
//!
//! It uses the crates that read, up to floor 7, and nothing uses it. The program in `fuzz` gives the
//! functions to libFuzzer (`ci/fuzz-readers-by-hand`); the test here runs each on the files that are
//! kept in `fuzz/corpus`.

mod corefile;
mod file;
mod sealed;
mod settings;
mod source;
mod table;
mod tame;
mod trace;

pub use sealed::parts_of_trace;

/// A function that reads bytes, and its name: the fuzzer's, and its corpus's directory.
pub type Target = (&'static str, fn(&[u8]));

/// What fuzzers call, and what the kept corpora are run through.
pub const TARGETS: &[Target] = &[
    ("trace", trace::ours),
    ("trace_parts", trace::of_parts),
    ("foreign_trace", trace::foreign),
    ("load", trace::load),
    ("replay", trace::replay),
    ("source", source::any),
    ("timeline", source::timeline),
    ("timeline_parts", source::timeline_of_parts),
    ("corefile", corefile::patched),
    ("table", table::any),
    ("settings", settings::any),
];
