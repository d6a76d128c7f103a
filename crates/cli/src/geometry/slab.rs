//! `slabyard geometry --engine slab`: prints the slab geometry of a SLAB kernel.
//!
//! Neighbours: [`slabyard_lab::slab`] defines the rules, [`super::sizes`] does the same for SLUB.

use super::args::GeometryArgs;
use super::json::json;
use super::table::{Slabs, bytes, grid};
use crate::failure::Failure;
use crate::stdout;
use serde::Serialize;
use slabyard_lab::rules::{Machine, SLAB_REMOVED, version_of};
use slabyard_lab::slab::{self, Geometry, Request, Rules};
use std::process::ExitCode;

/// One size, under the names that the kernel has for its numbers.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    slabs: Slabs,
    index: &'static str,
    colours: u32,
    colour_offset: u32,
    limit: u32,
    batchcount: u32,
    sharedfactor: u32,
    free_limit: u32,
}

/// Prints a table of sizes.
pub(super) fn run(args: &GeometryArgs) -> Result<ExitCode, Failure> {
    if args.against.is_some() {
        return Err(Failure::Usage("--against holds snapshots against SLUB's rules alone".into()));
    }
    let release = args.rules.release.as_deref().unwrap_or(slab::last_release().name);
    match version_of(release) {
        None => return Err(Failure::Usage(format!("{release} is no version; such as 6.1"))),
        Some(version) if version >= SLAB_REMOVED => {
            return Err(Failure::Usage(format!(
                "SLAB was removed in 6.8; {release} has SLUB alone"
            )));
        }
        Some(_) => {}
    }
    let machine = args.rules.wanted().on(Machine::here());
    let mut rules = Rules::of(&machine);
    for setting in &args.rules.set {
        let order = setting.strip_prefix("max_order=").and_then(|n| n.parse().ok());
        let order = order.filter(|order| *order <= 10).ok_or_else(|| {
            Failure::Usage(format!("`{setting}`: of SLAB, --set takes max_order, from 0 to 10"))
        })?;
        rules.max_order = order;
    }
    let classes: Vec<u32> = slab::kmalloc_sizes(machine.page_size);
    let sizes = if args.sizes.is_empty() { &classes } else { &args.sizes };
    let rows = sizes.iter().map(|size| row(*size, &rules)).collect::<Result<Vec<_>, _>>()?;
    let text = if args.json { json(&rows)? } else { table(&rows, &rules, release) };
    stdout::print(text.as_bytes())
}

fn row(size: u32, rules: &Rules) -> Result<Row, Failure> {
    let found = slab::of(&Request::of(size), rules).map_err(|e| Failure::Usage(e.to_string()))?;
    let Geometry { order, objects, waste, index, colours, colour_offset, free_limit, .. } = found;
    Ok(Row {
        slabs: Slabs { size, slab_size: found.size, order, objs_per_slab: objects, waste },
        index: index.name(),
        colours,
        colour_offset,
        limit: found.limits.limit,
        batchcount: found.limits.batchcount,
        sharedfactor: found.limits.sharedfactor,
        free_limit,
    })
}

fn table(rows: &[Row], rules: &Rules, release: &str) -> String {
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
