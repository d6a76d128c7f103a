//! Tests of yards on fixed memory, in one program, because each further program would compile their
//! engines again. The tests that kill users of shared memory are in `robust.rs`, which single-steps
//! a process of its own.

mod holes;
mod yards;
