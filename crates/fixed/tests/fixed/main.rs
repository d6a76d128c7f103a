//! Yards on a fixed memory, in one program: each program would compile their engines anew. What kills
//! the users of shared memory is `robust.rs`, which steps through a process of its own.

mod holes;
mod yards;
