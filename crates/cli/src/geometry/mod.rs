//! `slabyard geometry`: what a cache's slabs are like by a kernel's rules, and
//! whether a real kernel's are.
//!
//! Neighbours: the lab has the rules and reads the snapshots; this module reads the arguments and
//! prints the result.
//! Invariants: standard output holds the table or JSON alone, notes go to standard error; a
//! difference is exit code 1, an impossible setting is 2.

mod against;
pub mod args;
mod json;
mod sizes;
mod slab;
mod table;

use crate::failure::Failure;
use crate::machine::Engine;
use args::GeometryArgs;
use std::process::ExitCode;

/// Prints a table of sizes, or the differences from a kernel.
pub fn run(args: &GeometryArgs) -> Result<ExitCode, Failure> {
    match (args.engine, &args.against) {
        (Engine::Slab, _) => slab::run(args),
        (Engine::Slob, _) => Err(Failure::Usage(
            "SLOB has no slabs of one size: any page holds blocks of all sizes".into(),
        )),
        (Engine::Slub | Engine::Tiny, None) => sizes::run(args),
        (Engine::Slub | Engine::Tiny, Some(source)) => against::run(args, source),
    }
}
