//! The function of `slabyard-fuzz` that the variable FUZZ_TARGET names, for libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slabyard_fuzz::TARGETS;
use std::sync::LazyLock;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let wanted = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let names = || TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET is one of {}", names())).1
});

fuzz_target!(|bytes: &[u8]| TARGET(bytes));
