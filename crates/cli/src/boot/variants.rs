//! The rules and machines that one call of `slabyard boot` asks for, and what the boot takes there.
//!
//! Neighbours: [`super::args`] has what was typed, `slabyard-ask` reads lists and ranges,
//! `slabyard-lab`'s population lays the objects out. Invariants: every combination of the values that
//! were typed is one variant; one that cannot be is refused by its name.

use super::args::BootArgs;
use crate::failure::Failure;
use crate::machine::Engine;
use crate::stderr::say;
use slabyard_ask::axis::{self, Axis, Changes};
use slabyard_ask::question::Question;
use slabyard_ask::{Error, Wanted};
use slabyard_lab::population::measured::{self, Measured};
use slabyard_lab::population::{Outcome, Population};
use slabyard_lab::rules::Settings;
use slabyard_lab::snapshot::{KernelSnapshot, UnknownRules};
use std::collections::BTreeSet;

/// Variants in one call: nobody reads more.
const MOST: usize = 1000;

/// A boot under some rules and on some machine.
pub(super) struct Variant {
    /// What differs from the snapshot, such as `cpus=16+max_order=1`; `base` if nothing does.
    pub(super) name: String,
    pub(super) settings: Settings,
    pub(super) outcome: Outcome,
    /// What is known of the error, for each kind of change.
    pub(super) errors: Vec<Measured>,
}

/// The boot as the snapshot has it, and as it is asked for: at least once.
pub(super) fn of(
    snapshot: &KernelSnapshot,
    shrunk: Option<&KernelSnapshot>,
    args: &BootArgs,
) -> Result<(Variant, Vec<Variant>), Failure> {
    if !args.engine.iter().all(|engine| matches!(engine, Engine::Slub | Engine::Tiny)) {
        let text = "boot knows the slabs of SLUB and SLUB_TINY; for SLAB and SLOB, replay a trace";
        return Err(Failure::Usage(text.into()));
    }
    let options = options(args)?;
    let mut set: Vec<Axis> = Vec::new();
    for text in &args.set {
        let axis = Axis::parse(text)?;
        // Of a key, the last one counts.
        set.retain(|before| before.key != axis.key);
        set.push(axis);
    }
    let axes = [&options[..], &set].concat();
    if axes.iter().try_fold(1usize, |all, axis| all.checked_mul(axis.values.len())) > Some(MOST) {
        return Err(Failure::Usage(format!("these are more than {MOST} rows; vary less")));
    }
    let machine = snapshot.machine().ok_or_else(|| Error::usage(UnknownRules::NoCpus))?;
    let release = options.iter().find(|axis| axis.key == RELEASE).map(|axis| &*axis.values[0]);
    let kernel = snapshot.kernel.as_deref().or(release);
    let kernel = kernel.ok_or_else(|| Error::usage(UnknownRules::NoVersion))?;
    let booted = |settings: &mut Settings| snapshot.boot(settings);
    let (own, _) = Wanted::default().settings(kernel, machine, booted)?;
    let population = match shrunk {
        None => Population::from_snapshot(snapshot, &own),
        Some(shrunk) => Population::from_snapshots(snapshot, shrunk, &own),
    };
    let population = population.map_err(Error::usage)?;
    let laid_out = |name: String, settings: Settings| {
        let outcome = population.on(&settings).map_err(Error::usage)?;
        let errors = measured::of(&own, &settings);
        Ok::<_, Error>(Variant { name, settings, outcome, errors })
    };
    let mut notes = BTreeSet::new();
    let mut variant = |changes: &Changes| {
        let wanted = wanted(changes, options.len())?;
        let version = wanted.release.as_deref().unwrap_or(kernel);
        let (settings, note) = wanted.settings(version, wanted.on(machine), booted)?;
        notes.extend(note);
        match settings.typed_of_calls() {
            None => laid_out(axis::name(changes), settings),
            Some(key) => Err(Error::Usage(format!(
                "{key} changes what calls do, which no snapshot shows; it is for `slabyard replay \
                 --set`"
            ))),
        }
    };
    let all_changes = axis::product(&axes)?;
    let mut all = Vec::new();
    for changes in &all_changes {
        let named = |error| match error {
            Error::Usage(why) if all_changes.len() > 1 => {
                Error::Usage(format!("{}: {why}", axis::name(changes)))
            }
            other => other,
        };
        all.push(variant(changes).map_err(named)?);
    }
    notes.iter().for_each(|note| say(note));
    Ok((laid_out(axis::name(&[]), own.clone())?, all))
}

const RELEASE: &str = "release";

/// The options that name values, as axes.
fn options(args: &BootArgs) -> Result<Vec<Axis>, Error> {
    let typed = [
        (RELEASE, &args.release),
        ("page_size", &args.page_size),
        ("cpus", &args.cpus),
        ("possible_cpus", &args.possible_cpus),
    ];
    let mut axes = Vec::new();
    if args.engine != [Engine::Slub] {
        let values = args.engine.iter().map(|engine| engine.name()).collect::<Vec<_>>().join(",");
        axes.push(Axis::parse(&format!("engine={values}"))?);
    }
    for (key, values) in typed {
        if let Some(values) = values {
            axes.push(Axis::parse(&format!("{key}={values}"))?);
        }
    }
    Ok(axes)
}

/// Changes as the lab is asked: the first `options` of them are of options, the others of `--set`.
fn wanted(changes: &Changes, options: usize) -> Result<Wanted, Error> {
    let (options, set) = changes.split_at(options);
    let mut wanted = Question::default().with(&options.to_vec())?.wanted;
    wanted.set = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Ok(wanted)
}
