//! Tests of processes that run on the library, in one program, because each further program would
//! compile the code that starts and judges them again. The sources of those processes are beside
//! this directory.

mod cgroup;
mod debugged;
mod emulated;
mod misuse;
mod musl;
mod observed;
mod process;
mod process_runner;
mod secure;
mod traces;
