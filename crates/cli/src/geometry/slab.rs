//! `slabyard geometry --engine slab`: prints the slab geometry of a SLAB kernel.
//!
//! Neighbours: [`slabyard_ask::geometry`] computes the rows; [`super::sizes`] prints those of SLUB.

use super::args::GeometryArgs;
use super::json::json;
use super::table::{bytes, grid};
use crate::failure::Failure;
use crate::stdout;
use slabyard_ask::geometry::{self, SlabRow};
use slabyard_lab::slab::{self, Rules};
use std::process::ExitCode;

/// Prints a table of sizes.
pub(super) fn run(args: &GeometryArgs) -> Result<ExitCode, Failure> {
    if args.against.is_some() {
        return Err(Failure::Usage("--against holds snapshots against SLUB's rules alone".into()));
    }
    let (rules, rows) = geometry::slab(&args.rules.wanted(), &args.sizes)?;
    let release = args.rules.release.as_deref().unwrap_or(slab::last_release().name);
    let text = if args.json { json(&rows)? } else { table(&rows, &rules, release) };
    stdout::print(text.as_bytes())
}

fn table(rows: &[SlabRow], rules: &Rules, release: &str) -> String {
    let head = format!(
        "SLAB of release {release}, pages of {}, {} CPUs of a node, {} possible; any waste from \
         order {} on\n",
        bytes(rules.page_size.into()),
        rules.node_cpus,
        rules.possible_cpus,
        rules.max_order,
    );
    let heads = [
        ("index", ""),
        ("colours", ""),
        ("limit", "objects"),
        ("batchcount", "objects"),
        ("sharedfactor", "batches"),
        ("free_limit", "objects"),
    ];
    let cells = rows.iter().map(|row| {
        let limits = [
            row.index.to_owned(),
            row.colours.to_string(),
            row.limit.to_string(),
            row.batchcount.to_string(),
            row.sharedfactor.to_string(),
            row.free_limit.to_string(),
        ];
        (row.slabs, limits)
    });
    head + &grid(rules.page_size, heads, cells)
}
