//! Prints the slab geometry of object sizes by SLUB's rules.
//!
//! Neighbour: [`super::slab`] makes the same table by SLAB's rules.

use super::args::GeometryArgs;
use super::json::json;
use super::table::{Slabs, bytes, grid};
use crate::failure::Failure;
use crate::stderr::say;
use crate::stdout;
use serde::Serialize;
use slabyard_kernels::OrderRule;
use slabyard_kernels::orders::AUTO_SLAB_BYTES;
use slabyard_lab::geometry::{self, Geometry};
use slabyard_lab::rules::{Front, Machine, Settings, running_kernel};
use std::fmt::Write;
use std::process::ExitCode;

/// One size, under the names that the kernel has for its numbers.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    slabs: Slabs,
    cpu_partial: u32,
    cpu_partial_slabs: Option<u32>,
    min_partial: u32,
    sheaf_capacity: u32,
    obj_ext: u32,
}

/// Prints the slabs of each size.
pub(super) fn run(args: &GeometryArgs) -> Result<ExitCode, Failure> {
    let version = args.rules.release.clone().or_else(running_kernel);
    let machine = args.rules.wanted().on(Machine::here());
    let (settings, note) = args.settings(version.as_deref(), machine, |_| Ok(()))?;
    if settings.is_typed("sheaf_capacity") && settings.front() == Front::SheavesOnRequest {
        let text = "sheaf_capacity changes nothing here: only caches that request sheaves have them \
                    before 7.0, and a size requests nothing; name a snapshot with --against, or a \
                    release from 7.0 on";
        return Err(Failure::Usage(text.into()));
    }
    note.iter().for_each(|note| say(note));
    let classes = geometry::kmalloc_sizes(settings.machine.page_size);
    let sizes = if args.sizes.is_empty() { &classes } else { &args.sizes };
    let rows = sizes.iter().map(|size| row(*size, &settings)).collect::<Result<Vec<_>, _>>()?;
    let text = if args.json { json(&rows)? } else { table(&rows, &settings) };
    stdout::print(text.as_bytes())
}

fn row(size: u32, settings: &Settings) -> Result<Row, Failure> {
    // Objects begin at multiples of a word.
    let slab_size = size.checked_next_multiple_of(8).unwrap_or(size);
    let found = geometry::of(slab_size, settings).map_err(|e| Failure::Usage(e.to_string()))?;
    let Geometry { order, objects, waste, cpu_partial, cpu_partial_slabs, .. } = found;
    let Geometry { min_partial, sheaf_capacity, .. } = found;
    Ok(Row {
        slabs: Slabs { size, slab_size, order, objs_per_slab: objects, waste },
        cpu_partial,
        cpu_partial_slabs,
        min_partial,
        sheaf_capacity,
        obj_ext: found.obj_ext(settings),
    })
}

fn table(rows: &[Row], settings: &Settings) -> String {
    let machine = &settings.machine;
    let mut text = format!(
        "release {}, pages of {}, {} CPUs of {} possible; a slab should hold {} objects\n",
        settings.rules_name(),
        bytes(machine.page_size.into()),
        machine.present_cpus,
        machine.possible_cpus,
        settings.wanted_objects(),
    );
    if settings.order_rule == OrderRule::Auto {
        let _ = writeln!(
            text,
            "order_rule auto: order {} at most, the one of {} or of a page, whichever is larger",
            settings.max_order(),
            bytes(AUTO_SLAB_BYTES.into()),
        );
    }
    let heads = [
        ("cpu_partial", "objects"),
        ("cpu_partial_slabs", "slabs"),
        ("min_partial", "slabs"),
        ("sheaf_capacity", "objects"),
        ("obj_ext", "a slab"),
    ];
    let cells = rows.iter().map(|row| {
        let limits = [
            row.cpu_partial.to_string(),
            row.cpu_partial_slabs.map_or("-".into(), |n| n.to_string()),
            row.min_partial.to_string(),
            row.sheaf_capacity.to_string(),
            bytes(row.obj_ext.into()),
        ];
        (row.slabs, limits)
    });
    text.push_str(&grid(machine.page_size, heads, cells));
    text
}
