//! Prints the slab geometry of object sizes by SLUB's rules.
//!
//! Neighbours: [`slabyard_ask::geometry`] computes the rows; [`super::slab`] prints those of SLAB.

use super::args::GeometryArgs;
use super::json::json;
use super::table::{bytes, grid};
use crate::failure::Failure;
use crate::stdout;
use crate::terminal::Progress;
use slabyard_ask::geometry::{self, SlubRow};
use slabyard_kernels::OrderRule;
use slabyard_kernels::orders::AUTO_SLAB_BYTES;
use slabyard_lab::rules::Settings;
use std::fmt::Write;
use std::process::ExitCode;

/// Prints the slabs of each size.
pub(super) fn run(args: &GeometryArgs) -> Result<ExitCode, Failure> {
    let (settings, rows) = geometry::slub(&args.rules.wanted(), &args.sizes, &Progress::new())?;
    let text = if args.json { json(&rows)? } else { table(&rows, &settings) };
    stdout::print(text.as_bytes())
}

fn table(rows: &[SlubRow], settings: &Settings) -> String {
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
