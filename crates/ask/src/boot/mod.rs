//! What a kernel's slabs would use after boot under other rules and on other machines, foretold from a
//! snapshot alone.
//!
//! Neighbours: `slabyard-lab`'s population lays the snapshot's objects out anew, and knows by how much
//! guests' boots were missed; [`crate::axis`] reads lists and ranges; [`side`] has what is said of a boot.
//! Invariants: every combination of the values that were asked for is one variant; one that cannot be is
//! refused by its name.

pub mod side;

use crate::axis::{self, Axis, Changes};
use crate::question::{self, Question};
use crate::{Error, Listener, Wanted, files};
use anyhow::Context;
use slabyard_lab::population::measured::{self, Measured};
use slabyard_lab::population::{Outcome, Population};
use slabyard_lab::rules::Settings;
use slabyard_lab::snapshot::{KernelSnapshot, UnknownRules};
use slabyard_observe::file;
use std::collections::BTreeSet;
use std::path::Path;

/// Variants in one call: nobody reads more.
const MOST: usize = 1000;
/// The allocators whose boots are known.
const ENGINES: [&str; 2] = ["slub", "tiny"];
const RELEASE: &str = "release";
/// Keys of a machine that a boot depends on.
const OF_BOOTS: [&str; 5] = ["engine", RELEASE, "page", "cpus", "possible"];

/// What is asked for; all combinations are variants.
#[derive(Clone, Debug, Default)]
pub struct BootRequest {
    /// Keys of the machine: `release`, `engine`, `page`, `cpus`, `possible`, or other names of theirs.
    pub options: Vec<Axis>,
    /// Settings of the rules, as `slabyard replay --set` takes them; of a key, the last one counts.
    pub set: Vec<Axis>,
}

/// A boot under some rules and on some machine.
pub struct Variant {
    /// What differs from the snapshot, such as `cpus=16+max_order=1`; `base` if nothing does.
    pub name: String,
    /// The same by keys.
    pub changes: Changes,
    /// The rules and the machine.
    pub settings: Settings,
    /// What its caches use.
    pub outcome: Outcome,
    /// What is known of the error, for each kind of change.
    pub errors: Vec<Measured>,
}

/// The boot of a snapshot, and what was asked for.
pub struct Boots {
    /// As the snapshot has it.
    pub base: Variant,
    /// At least one.
    pub variants: Vec<Variant>,
}

impl BootRequest {
    /// Of keys of both kinds.
    ///
    /// # Errors
    /// [`Error::Usage`] for keys of a machine on which no boot depends.
    pub fn of_axes(axes: impl IntoIterator<Item = Axis>) -> Result<BootRequest, Error> {
        let mut asked = BootRequest::default();
        for axis in axes {
            let name = question::canonical(&axis.key).to_owned();
            if OF_BOOTS.contains(&&*name) {
                asked.options.push(Axis { key: name, ..axis });
            } else if question::MACHINE_KEYS.iter().any(|key| key.name == name) {
                let text = format!("{name} changes no boot; take one of {}", OF_BOOTS.join(", "));
                return Err(Error::Usage(text));
            } else {
                asked.set.push(axis);
            }
        }
        Ok(asked)
    }

    /// All keys, those of the machine first.
    fn axes(&self) -> Result<Vec<Axis>, Error> {
        let engines = self.options.iter().filter(|axis| axis.key == "engine");
        if !engines.flat_map(|axis| &axis.values).all(|name| ENGINES.contains(&name.as_str())) {
            let text =
                "boot knows the slabs of SLUB and SLUB_TINY; for SLAB and SLOB, replay a trace";
            return Err(Error::Usage(text.into()));
        }
        let mut set: Vec<Axis> = Vec::new();
        for axis in &self.set {
            set.retain(|before| before.key != axis.key);
            set.push(axis.clone());
        }
        let axes = [&self.options[..], &set].concat();
        if axes.iter().try_fold(1usize, |all, axis| all.checked_mul(axis.values.len())) > Some(MOST)
        {
            return Err(Error::Usage(format!("these are more than {MOST} rows; vary less")));
        }
        Ok(axes)
    }
}

/// The snapshot of the running `kernel`, of a file, or of one of its dumps (`FILE#DUMP`).
///
/// # Errors
/// [`Error::Cannot`]: it cannot be read; [`Error::Usage`]: the file holds several, or not this one.
pub fn open(source: &Path) -> Result<KernelSnapshot, Error> {
    if source == Path::new("kernel") {
        return Ok(KernelSnapshot::live().context("the running kernel")?);
    }
    let (path, dump) = file::dump_of(source);
    let shown = files::shown(&path);
    let all = files::snapshots(&path)?;
    files::one_of(all, &shown, dump.as_deref(), &format!("as {shown}#DUMP"))
}

/// A snapshot that does not tell its machine's CPUs, with those that are asked for.
fn with_cpus(snapshot: &KernelSnapshot, asked: &BootRequest) -> KernelSnapshot {
    let first = |key: &str| {
        let axis = asked.options.iter().find(|axis| axis.key == key);
        axis.and_then(|axis| axis.values[0].parse().ok())
    };
    let cpus = first("cpus");
    KernelSnapshot {
        online_cpus: cpus,
        possible_cpus: first("possible_cpus").or(cpus),
        ..snapshot.clone()
    }
}

/// Foretells the boot as the snapshot has it, and as it is asked for. `shrunk` is another snapshot of the
/// same boot, taken just after a shrink, which counts live objects exactly.
///
/// # Errors
/// [`Error::Usage`]: what cannot be, or what the snapshot does not tell.
pub fn foretell(
    snapshot: &KernelSnapshot,
    shrunk: Option<&KernelSnapshot>,
    asked: &BootRequest,
    listener: &dyn Listener,
) -> Result<Boots, Error> {
    let axes = asked.axes()?;
    let options = asked.options.len();
    let on_its_machine;
    let snapshot = if snapshot.machine().is_none() {
        on_its_machine = with_cpus(snapshot, asked);
        &on_its_machine
    } else {
        snapshot
    };
    let machine = snapshot.machine().ok_or_else(|| Error::usage(UnknownRules::NoCpus))?;
    let release =
        asked.options.iter().find(|axis| axis.key == RELEASE).map(|axis| &*axis.values[0]);
    let kernel = snapshot.kernel.as_deref().or(release);
    let kernel = kernel.ok_or_else(|| Error::usage(UnknownRules::NoVersion))?;
    let booted = |settings: &mut Settings| snapshot.boot(settings);
    let (own, _) = Wanted::default().settings(kernel, machine, booted)?;
    let population = match shrunk {
        None => Population::from_snapshot(snapshot, &own),
        Some(shrunk) => Population::from_snapshots(snapshot, shrunk, &own),
    };
    let population = population.map_err(Error::usage)?;
    let laid_out = |changes: &[(String, String)], settings: Settings| {
        let outcome = population.on(&settings).map_err(Error::usage)?;
        let errors = measured::of(&own, &settings);
        let name = axis::name(changes);
        Ok::<_, Error>(Variant { name, changes: changes.to_vec(), settings, outcome, errors })
    };
    let mut notes = BTreeSet::new();
    let mut variant = |changes: &Changes| {
        let wanted = wanted(changes, options)?;
        let version = wanted.release.as_deref().unwrap_or(kernel);
        let (settings, note) = wanted.settings(version, wanted.on(machine), booted)?;
        notes.extend(note);
        match settings.typed_of_calls() {
            None => laid_out(changes, settings),
            Some(key) => Err(Error::Usage(format!(
                "{key} changes what calls do, which no snapshot shows; it is for `slabyard replay \
                 --set`"
            ))),
        }
    };
    let all_changes = axis::product(&axes)?;
    let mut variants = Vec::new();
    for changes in &all_changes {
        let named = |error| match error {
            Error::Usage(why) if all_changes.len() > 1 => {
                Error::Usage(format!("{}: {why}", axis::name(changes)))
            }
            other => other,
        };
        variants.push(variant(changes).map_err(named)?);
    }
    notes.iter().for_each(|note| listener.say(note));
    Ok(Boots { base: laid_out(&[], own.clone())?, variants })
}

/// Changes as the lab is asked: the first `options` of them are of the machine, the others of the rules.
fn wanted(changes: &Changes, options: usize) -> Result<Wanted, Error> {
    let (options, set) = changes.split_at(options);
    let mut wanted = Question::default().with(&options.to_vec())?.wanted;
    wanted.set = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Ok(wanted)
}
