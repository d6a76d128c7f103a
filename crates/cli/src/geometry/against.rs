//! Compares every cache of a kernel, or of a kernel's snapshot, with the geometry rules.

use super::args::GeometryArgs;
use super::json::json;
use super::table::bytes;
use crate::failure::Failure;
use crate::stderr::say;
use crate::stdout;
use anyhow::Context;
use serde::Serialize;
use slabyard_ask::{files, geometry};
use slabyard_lab::rules::Machine;
use slabyard_lab::snapshot::{Difference, KernelSnapshot};
use slabyard_observe::file;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// A dump of a snapshot, held against the rules.
#[derive(Serialize)]
struct DumpComparison {
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

/// Prints the differences; exit code 1 if there is one.
pub(super) fn run(args: &GeometryArgs, source: &Path) -> Result<ExitCode, Failure> {
    let snapshots = if source == Path::new("kernel") {
        vec![KernelSnapshot::live().context("the running kernel")?]
    } else {
        let (file, dump) = file::dump_of(source);
        let all = files::snapshots(&file)?;
        match &dump {
            None => all,
            Some(_) => vec![files::one_of(all, &files::shown(&file), dump.as_deref(), "")?],
        }
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
) -> Result<(DumpComparison, Option<String>), Failure> {
    // Where the snapshot is silent, the options or else one CPU must do.
    if snapshot.machine().is_none() && args.rules.machine.cpus.is_none() {
        let text = "the snapshot does not tell the number of CPUs; give --cpus";
        return Err(Failure::Usage(text.into()));
    }
    let machine = snapshot.machine().unwrap_or(Machine::new(snapshot.page_size, 1));
    let version = args.rules.release.as_deref().or(snapshot.kernel.as_deref());
    let wanted = args.rules.wanted();
    let machine = wanted.on(machine);
    let (settings, note) =
        geometry::settings(&wanted, version, machine, |settings| snapshot.boot(settings))?;
    let differences = snapshot.differences(&settings).map_err(|e| Failure::Usage(e.to_string()))?;
    let compared = DumpComparison {
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

fn report(compared: &[DumpComparison]) -> String {
    let mut text = String::new();
    for DumpComparison { dump, kernel, release, caches, differences } in compared {
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
