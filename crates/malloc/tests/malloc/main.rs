//! Processes that run on the library, in one program: each program would compile what starts and
//! judges them anew. The sources of those processes lie beside this directory.

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
