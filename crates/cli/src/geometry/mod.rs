//! `slabyard geometry`: computes a cache's slab geometry by a kernel's rules, checks whether a real
//! kernel's caches follow them, and explains the geometry of one.
//!
//! Neighbours: `slabyard-lab` defines the rules and reads the snapshots; this module parses the
//! arguments and prints the result. Invariants: only the table or JSON goes to standard output,
//! notes to standard error; a difference gives exit code 1, an impossible setting 2.

mod against;
pub mod args;
mod explain;
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
    if let Some(cache) = &args.explain {
        return explain::run(args, cache);
    }
    match (args.rules.engine, &args.against) {
        (Engine::Slab, _) => slab::run(args),
        (Engine::Slob, _) => Err(Failure::Usage(
            "SLOB has no slabs of one size: any page holds blocks of all sizes".into(),
        )),
        (Engine::Slub | Engine::Tiny, None) => sizes::run(args),
        (Engine::Slub | Engine::Tiny, Some(source)) => against::run(args, source),
    }
}
