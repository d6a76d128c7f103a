//! `slabyard geometry`: what a cache's slabs are like by a kernel's rules, and
//! whether a real kernel's are.
//!
//! Neighbours: the lab has the rules and reads the snapshots; this says what was
//! meant and shows what came out.
//! Invariants: standard output holds the table or JSON alone, notes go to standard
//! error; a difference is exit code 1, a setting that cannot be is 2.

mod slab;
mod table;

use crate::failure::Failure;
use crate::machine::{Engine, MachineArgs, size};
use crate::{say, stdin, stdout};
use anyhow::Context;
use clap::ValueHint;
use serde::Serialize;
use slabyard_lab::geometry::{self, Geometry};
use slabyard_lab::rules::{self, Machine, Settings, running_kernel};
use slabyard_lab::snapshot::{Difference, KernelSnapshot};
use slabyard_observe::file;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use table::{Slabs, bytes, grid};

const EXAMPLES: &str = "\
Examples:
  slabyard geometry 192 4k                      as on this machine
  slabyard geometry --release 5.9 --page-size 64k --cpus 64 9856
  slabyard geometry --set max_order=1 --set cpu_partial=8192:1,4096:2 --json 1k 8k
  slabyard geometry --against kernel            every cache of the running kernel (root)
  slabyard geometry --against boot.json.zst --release 6.12
  slabyard geometry --against dumps.json#boot   one of the dumps of a file
  slabyard geometry --engine slab 192 2k        by the rules of mm/slab.c, to 6.7

What is not given of the machine is this one's, or with --against the snapshot's.";

/// `slabyard geometry`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help())]
pub struct GeometryArgs {
    /// The kernel whose rules hold: a version such as 6.12 [default: the running one]
    #[arg(long, value_name = "R")]
    release: Option<String>,
    #[command(flatten)]
    machine: MachineArgs,
    /// Change a rule; may be repeated, the last one counts
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// The kernel's allocator whose rules hold
    #[arg(long, value_enum, default_value = "slub")]
    engine: Engine,
    /// For programs
    #[arg(long)]
    json: bool,
    /// Compare each cache of a snapshot's file (`-` is standard input), or of the running
    /// `kernel`, with the rules
    #[arg(
        long,
        value_name = "SNAPSHOT|kernel",
        conflicts_with = "sizes",
        value_hint = ValueHint::FilePath
    )]
    against: Option<std::path::PathBuf>,
    /// Bytes of an object, such as 192 or 4k [default: the kmalloc size classes]
    #[arg(value_name = "SIZE", value_parser = size)]
    sizes: Vec<u32>,
}

/// Prints a table of sizes, or the differences from a kernel.
pub fn run(args: &GeometryArgs) -> Result<ExitCode, Failure> {
    match (args.engine, &args.against) {
        (Engine::Slab, _) => slab::run(args),
        (Engine::Slob, _) => Err(Failure::Usage(
            "SLOB has no slabs of one size: any page holds blocks of all sizes".into(),
        )),
        (Engine::Slub | Engine::Tiny, None) => sizes(args),
        (Engine::Slub | Engine::Tiny, Some(source)) => against(args, source),
    }
}

/// One size, under the names that the kernel has for its numbers.
#[derive(Serialize)]
struct Row {
    size: u32,
    slab_size: u32,
    order: u8,
    objs_per_slab: u32,
    waste: u32,
    cpu_partial: u32,
    cpu_partial_slabs: Option<u32>,
    min_partial: u32,
    sheaf_capacity: u32,
}

fn sizes(args: &GeometryArgs) -> Result<ExitCode, Failure> {
    let version = args.release.clone().or_else(running_kernel);
    let machine = args.machine.on(Machine::here());
    let (settings, note) = args.settings(version.as_deref(), machine, |_| Ok(()))?;
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
        size,
        slab_size,
        order,
        objs_per_slab: objects,
        waste,
        cpu_partial,
        cpu_partial_slabs,
        min_partial,
        sheaf_capacity,
    })
}

/// A dump of a snapshot, held against the rules.
#[derive(Serialize)]
struct Compared {
    dump: Option<String>,
    kernel: Option<String>,
    release: &'static str,
    caches: usize,
    differences: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    cache: String,
    slab_size: u32,
    field: &'static str,
    rule: u32,
    kernel: u32,
}

fn against(args: &GeometryArgs, source: &Path) -> Result<ExitCode, Failure> {
    let snapshots = if source == Path::new("kernel") {
        vec![KernelSnapshot::live().context("the running kernel")?]
    } else {
        let (file, dump) = file::dump_of(source);
        let mut all = stdin::snapshots(&file).with_context(|| stdin::shown(&file))?;
        if let Some(dump) = dump {
            let told: Vec<&str> = all.iter().filter_map(|s| s.dump.as_deref()).collect();
            let told = told.join(", ");
            all.retain(|snapshot| snapshot.dump.as_deref() == Some(&dump));
            if all.is_empty() {
                let file = file.display();
                let text = format!("{file} holds no dump `{dump}`; it holds: {told}");
                return Err(Failure::Usage(text));
            }
        }
        all
    };
    let (mut compared, mut told) = (Vec::new(), None);
    for snapshot in &snapshots {
        let (one, note) = compare(args, snapshot)?;
        // The dumps of a file are one kernel's.
        if note != told {
            note.iter().for_each(|note| say(note));
        }
        told = note;
        compared.push(one);
    }
    let text = if args.json { json(&compared)? } else { report(&compared) };
    stdout::print(text.as_bytes())?;
    let differ = compared.iter().any(|one| !one.differences.is_empty());
    Ok(ExitCode::from(u8::from(differ)))
}

fn compare(
    args: &GeometryArgs,
    snapshot: &KernelSnapshot,
) -> Result<(Compared, Option<String>), Failure> {
    // Where the snapshot is silent, the options or else one CPU must do.
    if snapshot.machine().is_none() && args.machine.cpus.is_none() {
        let text = "the snapshot does not tell the number of CPUs; give --cpus";
        return Err(Failure::Usage(text.into()));
    }
    let machine = snapshot.machine().unwrap_or(Machine::new(snapshot.page_size, 1));
    let version = args.release.as_deref().or(snapshot.kernel.as_deref());
    let (settings, note) = args.settings(version, args.machine.on(machine), |settings| {
        snapshot.boot(settings).map_err(|e| Failure::Usage(e.to_string()))
    })?;
    let differences = snapshot.differences(&settings).map_err(|e| Failure::Usage(e.to_string()))?;
    let compared = Compared {
        dump: snapshot.dump.clone(),
        kernel: snapshot.kernel.clone(),
        release: settings.release.name,
        caches: snapshot.caches.len(),
        differences: differences
            .into_iter()
            .map(|Difference { id, slab_size, field, rule, kernel }| Line {
                cache: id,
                slab_size,
                field,
                rule,
                kernel,
            })
            .collect(),
    };
    Ok((compared, note))
}

impl GeometryArgs {
    /// The rules of a version, then what the kernel was booted with, then `--set`; and
    /// what to tell people of the version.
    fn settings(
        &self,
        version: Option<&str>,
        machine: Machine,
        boot: impl FnOnce(&mut Settings) -> Result<(), Failure>,
    ) -> Result<(Settings, Option<String>), Failure> {
        let unknown = || Failure::Usage("the kernel's version is not known; give --release".into());
        let (mut settings, note) = Settings::of_version(version.ok_or_else(unknown)?, machine)
            .map_err(|e| Failure::Usage(e.to_string()))?;
        boot(&mut settings)?;
        for text in self.engine.setting().into_iter().chain(self.settings.iter().map(|s| &**s)) {
            settings.set(text).map_err(|e| Failure::Usage(e.to_string()))?;
        }
        settings.validate().map_err(|e| Failure::Usage(e.to_string()))?;
        Ok((settings, note))
    }
}

fn json(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value).context("JSON")?;
    Ok(text + "\n")
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
    let heads = [
        ("cpu_partial", "objects"),
        ("cpu_partial_slabs", "slabs"),
        ("min_partial", "slabs"),
        ("sheaf_capacity", "objects"),
    ];
    let cells = rows.iter().map(|row| {
        let slabs = Slabs {
            size: row.size,
            slab_size: row.slab_size,
            order: row.order,
            objects: row.objs_per_slab,
            waste: row.waste,
        };
        let limits = [
            row.cpu_partial.to_string(),
            row.cpu_partial_slabs.map_or("-".into(), |n| n.to_string()),
            row.min_partial.to_string(),
            row.sheaf_capacity.to_string(),
        ];
        (slabs, limits)
    });
    text.push_str(&grid(machine.page_size, heads, cells));
    text
}

fn report(compared: &[Compared]) -> String {
    let mut text = String::new();
    for Compared { dump, kernel, release, caches, differences } in compared {
        let name = dump.as_deref().map(|d| format!("{d}: ")).unwrap_or_default();
        let kernel = kernel.as_deref().unwrap_or("unknown");
        for line in differences {
            let Line { cache, slab_size, field, rule, kernel } = line;
            let size = bytes((*slab_size).into());
            let _ = writeln!(
                text,
                "{name}{cache} ({size}): {field} is {rule} by the rules, {kernel} in the kernel"
            );
        }
        let _ = writeln!(
            text,
            "{name}kernel {kernel}, rules of {release}: {caches} caches, {}",
            match differences.len() {
                1 => "1 difference".into(),
                n => format!("{n} differences"),
            }
        );
    }
    text
}

fn long_help() -> String {
    let mut text = format!(
        "{EXAMPLES}\n\nEvery kernel from 5.9 on follows the newest of these presets that is not \
         above it: {}.\n\nKeys of --set (the kernel's names with slab_ or slub_ in front are taken \
         as well):\n",
        rules::RELEASES.iter().map(|r| r.name).collect::<Vec<_>>().join(", ")
    );
    for key in rules::keys() {
        let _ = writeln!(text, "  {}: {}\n      {}", key.name, key.takes, key.help);
    }
    text.push_str(
        "\nWaste is what is behind the last object of each slab; `-` and null are unknown: to \
         5.15 a CPU's partial list is limited in objects, not in slabs.\n\nExit codes: 0 done, 1 \
         differences from a kernel, 2 usage or a setting that cannot be, 3 cannot read the \
         snapshot.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_key() {
        let help = long_help();
        for key in rules::keys() {
            assert!(help.contains(&format!("  {}: ", key.name)), "{}", key.name);
        }
    }
}
