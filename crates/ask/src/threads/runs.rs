//! What rows ask for: geometry, paths and measured tables, and, done once each, guests' snapshots,
//! populations, replays, contention and small machines. [`Runs`] notes what a row used, which is how a
//! row that lost its basis is found.
//!
//! Neighbours: `slabyard-lab` does the work; `recordings` holds the data, `once` what was
//! done. Invariant: each method that returns a number's source notes it, whether it was
//! computed now or before.

use super::basis::{Basis, RowError};
use super::measured::{self, Column};
use super::once::Once;
use super::recordings::{Content, Guest, Recording, SmallBoot};
use super::replayed::{Allocator, ReplayOutcome, Variant};
use slabyard_lab::case::{self, Case};
use slabyard_lab::geometry::{self, Geometry};
use slabyard_lab::load;
use slabyard_lab::paths::{self, Cost, PATHS};
use slabyard_lab::population::Population;
use slabyard_lab::replay::contend::{COSTS, Contended, Costs, contend};
use slabyard_lab::replay::events::{Event, MachineEvent};
use slabyard_lab::replay::{Limit, Plan, Start, replay};
use slabyard_lab::rules::{Freezing, Machine, NodeSet, Settings, find_release};
use slabyard_lab::slob;
use slabyard_lab::small::state::{self, KernelReport};
use slabyard_lab::small::{Contender, Load, Outcome, board, run_from, text};
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_lab::trace::{self, START, Trace};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::rc::Rc;

/// A recording that was read, and put together with its caches.
struct Loaded {
    trace: Trace,
    snapshot: KernelSnapshot,
    case: RefCell<Case>,
}

/// A program that allocates and frees in a loop on this machine's CPUs.
pub trait RealLoop {
    /// Nanoseconds of a turn of the loop on SLAB with this policy for free slabs: so many slabs'
    /// worth of 4 KiB objects are allocated and freed, and written to if they are touched.
    ///
    /// # Errors
    /// What is missing here, and what would do.
    fn nanoseconds(&self, reclaim: &str, slabs: u32, touched: bool) -> Result<f64, String>;
}

/// See the [module](self).
#[derive(Default)]
pub struct Runs<'a> {
    real: Option<&'a dyn RealLoop>,
    used: RefCell<BTreeSet<Basis>>,
    loaded: Once<&'static str, Loaded>,
    guests: Once<&'static str, Vec<Rc<KernelSnapshot>>>,
    populations: Once<&'static str, Population>,
    replays: Once<String, ReplayOutcome>,
    contended: Once<String, Contended>,
    small: Once<String, Outcome>,
    boots: Once<&'static str, (Load, KernelReport)>,
    real_runs: Once<(String, u32, bool), f64>,
}

fn broken(error: impl Display) -> RowError {
    RowError::Broken(error.to_string())
}

impl<'a> Runs<'a> {
    /// Nothing was run so far. Without a real loop, rows that need one say so.
    #[must_use]
    pub fn new(real: Option<&'a dyn RealLoop>) -> Runs<'a> {
        Runs { real, ..Runs::default() }
    }

    /// A row begins.
    pub fn forget_used(&self) {
        self.used.borrow_mut().clear();
    }

    /// True if this was used since a row began.
    #[must_use]
    pub fn has_used(&self, basis: Basis) -> bool {
        self.used.borrow().contains(&basis)
    }

    fn uses(&self, basis: Basis) {
        self.used.borrow_mut().insert(basis);
    }

    /// The slabs of a cache whose objects have this size, by the formula of a release.
    ///
    /// # Errors
    /// An impossible size or setting.
    pub fn geometry(
        &self,
        size: u32,
        release: &'static str,
        machine: Machine,
        set: &[&str],
    ) -> Result<Geometry, RowError> {
        geometry::of(size, &self.settings(release, machine, set)?).map_err(broken)
    }

    /// Rules by which something is computed.
    ///
    /// # Errors
    /// An unknown release or setting.
    pub fn settings(
        &self,
        release: &'static str,
        machine: Machine,
        set: &[&str],
    ) -> Result<Settings, RowError> {
        self.uses(Basis::Formula(release));
        settings(release, machine, set)
    }

    /// A dump of a guest; one that has a single snapshot has a dump without a name.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn dump(&self, guest: &Guest, dump: &str) -> Result<Rc<KernelSnapshot>, RowError> {
        self.uses(Basis::Guest(guest.name));
        self.dump_of(guest, dump)
    }

    /// KiB of all slabs of a dump.
    ///
    /// # Errors
    /// There is none of this name, or it does not count all slabs.
    pub fn slabs_kb(&self, guest: &Guest, dump: &str) -> Result<f64, RowError> {
        let snapshot = self.dump(guest, dump)?;
        let page_kb = u64::from(snapshot.page_size) / 1024;
        let kb = snapshot.caches.iter().map(|cache| Some(cache.slabs? * (page_kb << cache.order)));
        let uncounted = || broken(format!("{} {dump} does not count all slabs", guest.name));
        Ok(kb.sum::<Option<u64>>().ok_or_else(uncounted)? as f64)
    }

    fn dump_of(&self, guest: &Guest, dump: &str) -> Result<Rc<KernelSnapshot>, RowError> {
        let all = self.guests.get(guest.name, || {
            let all = KernelSnapshot::parse(guest.bytes).map_err(broken)?;
            Ok(all.into_iter().map(Rc::new).collect())
        })?;
        let is_it = |one: &&Rc<KernelSnapshot>| one.dump.as_deref().unwrap_or_default() == dump;
        let found = all.iter().find(is_it).cloned();
        found.ok_or_else(|| broken(format!("{} has no dump {dump}", guest.name)))
    }

    /// KiB that a guest's objects take, as booted, by the rules of a release: `machine` changes the
    /// guest's.
    ///
    /// # Errors
    /// A dump that is not there, or rules that do not fit.
    pub fn boot_kb(
        &self,
        guest: &Guest,
        release: &'static str,
        machine: fn(&mut Machine),
        set: &[&str],
    ) -> Result<f64, RowError> {
        self.uses(Basis::Foretold(guest.name));
        let population = self.populations.get(guest.name, || {
            let [boot, shrunk] = ["boot", "boot_shrunk"].map(|dump| self.dump_of(guest, dump));
            let (boot, shrunk) = (boot?, shrunk?);
            let own = boot.settings().map_err(broken)?.0;
            Population::from_snapshots(&boot, &shrunk, &own).map_err(broken)
        })?;
        let mut other = population.own.machine;
        machine(&mut other);
        let outcome = population.on(&settings(release, other, set)?).map_err(broken)?;
        Ok(outcome.slab_kb as f64)
    }

    fn loaded(&self, recording: &Recording) -> Result<Rc<Loaded>, RowError> {
        self.loaded.get(recording.name, || {
            let trace = match recording.content {
                Content::Trace(bytes) | Content::TraceFrom(bytes, _) => {
                    trace::read(bytes).map_err(broken)?
                }
                Content::Load(text) => {
                    load::read(text, std::path::Path::new("")).map_err(broken)?
                }
            };
            let start = match recording.content {
                Content::TraceFrom(_, start) => start,
                _ => &trace.attachment(START).ok_or_else(|| broken("no snapshot"))?.bytes,
            };
            let snapshot = KernelSnapshot::parse(start).map_err(broken)?.remove(0);
            let own = snapshot.settings().map_err(broken)?.0;
            let order = case::order_of(&snapshot);
            let case = RefCell::new(Case::new(&trace, &snapshot, &own, order).map_err(broken)?);
            Ok(Loaded { trace, snapshot, case })
        })
    }

    /// Puts a variant's rules into a recording's case.
    fn rule(&self, loaded: &Loaded, variant: &Variant) -> Result<(), RowError> {
        let mut machine = loaded.snapshot.machine().ok_or_else(|| broken("no CPUs"))?;
        if let Some(cpus) = variant.cpus {
            (machine.possible_cpus, machine.present_cpus, machine.online_cpus) = (cpus, cpus, cpus);
        }
        if let Some(nodes) = variant.nodes {
            (machine.nodes, machine.memoryless) = (nodes, NodeSet::NONE);
        }
        let settings = settings(variant.release, machine, variant.set)?;
        let mut case = loaded.case.borrow_mut();
        let (trace, snapshot) = (&loaded.trace, &loaded.snapshot);
        case.rule(&trace.header, snapshot, &settings).map_err(broken)?;
        if variant.allocator == Allocator::Slab {
            case.follow_slab_of(snapshot, &settings).map_err(broken)?;
        }
        let end_ns = case.prepared.span.end() - case.prepared.span.start();
        let shrink = Event { at_ns: end_ns, what: MachineEvent::Shrink };
        case.happens(if variant.shrunk { vec![shrink] } else { Vec::new() }).map_err(broken)?;
        if variant.memory.is_some() {
            case.tell_others(trace::Events::Held(&trace.events)).map_err(broken)?;
        }
        Ok(())
    }

    /// What comes of a recording by a variant's rules.
    fn ruled<T>(
        &self,
        recording: &Recording,
        variant: &Variant,
        run: impl FnOnce(&KernelSnapshot, &Case, Plan<'_>) -> Result<T, RowError>,
    ) -> Result<T, RowError> {
        let loaded = self.loaded(recording)?;
        self.rule(&loaded, variant)?;
        let case = loaded.case.borrow();
        let plan = Plan { tasks: variant.tasks, ..case.plan(Start::LookAhead) };
        run(&loaded.snapshot, &case, plan)
    }

    /// Replays a recording.
    ///
    /// # Errors
    /// Rules that do not fit.
    pub fn replay(
        &self,
        recording: &Recording,
        variant: &Variant,
    ) -> Result<Rc<ReplayOutcome>, RowError> {
        self.uses(Basis::Replay(recording.name));
        let memory = variant.memory.map(|(bytes, relief)| Limit { bytes, relief });
        self.replays.get(variant.key(recording), || {
            self.ruled(recording, variant, |snapshot, case, plan| {
                let replayed = replay(&Plan { memory, ..plan }).map_err(broken)?;
                Ok(ReplayOutcome::of(snapshot, case, replayed))
            })
        })
    }

    /// Replays a recording with calls that overlap in time.
    ///
    /// # Errors
    /// Rules that do not fit.
    pub fn contend(
        &self,
        recording: &Recording,
        variant: &Variant,
    ) -> Result<Rc<Contended>, RowError> {
        self.contend_at(recording, variant, COSTS)
    }

    /// The same, where operations take other times.
    ///
    /// # Errors
    /// Rules that do not fit.
    pub fn contend_at(
        &self,
        recording: &Recording,
        variant: &Variant,
        costs: Costs,
    ) -> Result<Rc<Contended>, RowError> {
        self.uses(Basis::Contention(recording.name));
        let key = format!("{} {costs:?}", variant.key(recording));
        self.contended
            .get(key, || self.ruled(recording, variant, |_, _, plan| Ok(contend(&plan, costs))))
    }

    /// What a path of CPU slabs costs the model.
    ///
    /// # Errors
    /// There is no such path.
    pub fn path(&self, name: &'static str, freezing: Freezing) -> Result<Cost, RowError> {
        self.uses(Basis::Path(name));
        let path = PATHS.iter().find(|path| path.name == name);
        path.map(|path| paths::of_model(path, freezing))
            .ok_or_else(|| broken(format!("no path {name}")))
    }

    /// What a model of a cache does that the closure drives.
    pub fn driven<T>(&self, name: &'static str, drive: impl FnOnce() -> T) -> Result<T, RowError> {
        self.uses(Basis::Path(name));
        Ok(drive())
    }

    /// A formula of a name.
    pub fn formula<T>(&self, name: &'static str, of: impl FnOnce() -> T) -> Result<T, RowError> {
        self.uses(Basis::Formula(name));
        Ok(of())
    }

    /// Serves a generated boot on the board of 8 MiB; `left`: with so much memory that so many pages
    /// are free after it.
    ///
    /// # Errors
    /// A cache of the load has objects that no slab holds.
    pub fn board(
        &self,
        contender: Contender,
        left: Option<u32>,
        scattered: u32,
        seed: u64,
    ) -> Result<Rc<Outcome>, RowError> {
        self.uses(Basis::SmallMachine("generated boots"));
        self.small.get(format!("{contender:?} {left:?} {scattered} {seed}"), || {
            let outcome = match left {
                Some(left) => board::boot_that_leaves(contender, left, scattered, seed),
                None => board::boot(contender, board::BOARD.reserved, scattered, seed),
            };
            outcome.map_err(broken)
        })
    }

    fn booted(&self, boot: &SmallBoot) -> Result<Rc<(Load, KernelReport)>, RowError> {
        self.boots.get(boot.name, || {
            let trace = trace::read(boot.trace).map_err(broken)?;
            let told = state::parse(boot.state).map_err(broken)?;
            let moments = text::moments(&trace);
            let load = Load::of_kernel(&trace, &moments, &told, slob::Machine::X86_64).load;
            Ok((load, told))
        })
    }

    /// What a real kernel on a small machine told at a moment, by its number: the begin is 0.
    ///
    /// # Errors
    /// There is no such moment.
    pub fn told(&self, boot: &SmallBoot, moment: usize) -> Result<state::State, RowError> {
        self.uses(Basis::Guest(boot.name));
        let both = self.booted(boot)?;
        both.1.states.get(moment).cloned().ok_or_else(|| broken("no such moment"))
    }

    /// Serves a real kernel's events, from its own free blocks, by another allocator.
    ///
    /// # Errors
    /// A cache of the load has objects that no slab holds.
    pub fn small_events(
        &self,
        boot: &SmallBoot,
        release: &'static str,
        contender: Contender,
    ) -> Result<Rc<Outcome>, RowError> {
        self.uses(Basis::SmallMachine(boot.name));
        self.small.get(format!("{} {release} {contender:?}", boot.name), || {
            let both = self.booted(boot)?;
            let begin = both.1.states.first().ok_or_else(|| broken("no begin"))?;
            run_from(begin, release, contender, &both.0).map_err(broken)
        })
    }

    /// A number of a table that CI measures.
    ///
    /// # Errors
    /// There is no such number.
    pub fn measured(
        &self,
        table: &'static str,
        text: &str,
        row: &str,
        column: Column<'_>,
    ) -> Result<f64, RowError> {
        self.uses(Basis::Measured(table));
        measured::number(text, row, column)
            .ok_or_else(|| broken(format!("{table} has no number for {row}, {column:?}")))
    }

    /// Nanoseconds of a turn of a loop on this machine's CPUs.
    ///
    /// # Errors
    /// It cannot be run here.
    pub fn real(&self, reclaim: &str, slabs: u32, touched: bool) -> Result<f64, RowError> {
        let found = self.real_runs.get((reclaim.to_owned(), slabs, touched), || {
            let missing = "a real run is the command's: slabyard reproduce";
            let real = self.real.ok_or_else(|| RowError::NotHere(missing.into()))?;
            real.nanoseconds(reclaim, slabs, touched).map_err(RowError::NotHere)
        })?;
        self.uses(Basis::RealRun("a loop on SLAB"));
        Ok(*found)
    }
}

fn settings(release: &'static str, machine: Machine, set: &[&str]) -> Result<Settings, RowError> {
    let mut settings = Settings::new(find_release(release).map_err(broken)?.0, machine);
    for text in set {
        settings.set(text).map_err(broken)?;
    }
    Ok(settings)
}
