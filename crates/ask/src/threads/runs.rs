//! What rows ask for, done once each: geometry, guests' snapshots, populations, replays, contention
//! and small machines. [`Runs`] notes what a row used, which is how a row that lost its basis is
//! found.
//!
//! Neighbours: `slabyard-lab` does the work; [`super::recordings`] holds the data. Invariant: each
//! method that returns a number's source notes it, whether it was computed now or before.

use super::basis::{Basis, RowError};
use super::recordings::{Content, Guest, Recording, SmallBoot};
use super::replayed::{Allocator, ReplayOutcome, Variant};
use slabyard_lab::case::{self, Case};
use slabyard_lab::geometry::{self, Geometry};
use slabyard_lab::load;
use slabyard_lab::paths::{self, Cost, PATHS};
use slabyard_lab::population::Population;
use slabyard_lab::replay::contend::{COSTS, Contended, Costs, contend};
use slabyard_lab::replay::events::{Event, MachineEvent};
use slabyard_lab::replay::{Limit, Start, replay};
use slabyard_lab::rules::{Freezing, Machine, NodeSet, Settings, find_release};
use slabyard_lab::slob;
use slabyard_lab::small::state::{self, KernelReport};
use slabyard_lab::small::{Contender, Load, Outcome, board, run_from, text};
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_lab::trace::{self, START, Trace};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::rc::Rc;

/// A recording that was read, and put together with its caches.
struct Loaded {
    trace: Trace,
    snapshot: KernelSnapshot,
    case: RefCell<Case>,
}

/// A column of a measured table.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// By its head, in the first line.
    Head(&'a str),
    /// By its number, from 0.
    Number(usize),
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
pub struct Runs<'a> {
    real: Option<&'a dyn RealLoop>,
    used: RefCell<BTreeSet<Basis>>,
    loaded: RefCell<BTreeMap<&'static str, Rc<Loaded>>>,
    guests: RefCell<BTreeMap<&'static str, Rc<Vec<KernelSnapshot>>>>,
    replays: RefCell<BTreeMap<String, Rc<ReplayOutcome>>>,
    contended: RefCell<BTreeMap<String, Rc<Contended>>>,
    small: RefCell<BTreeMap<String, Rc<Outcome>>>,
    boots: RefCell<BTreeMap<&'static str, Rc<(Load, KernelReport)>>>,
    real_runs: RefCell<BTreeMap<(String, u32, bool), f64>>,
}

fn broken(error: impl Display) -> RowError {
    RowError::Broken(error.to_string())
}

impl<'a> Runs<'a> {
    /// Nothing was run so far. Without a real loop, rows that need one say so.
    #[must_use]
    pub fn new(real: Option<&'a dyn RealLoop>) -> Runs<'a> {
        Runs {
            real,
            used: RefCell::default(),
            loaded: RefCell::default(),
            guests: RefCell::default(),
            replays: RefCell::default(),
            contended: RefCell::default(),
            small: RefCell::default(),
            boots: RefCell::default(),
            real_runs: RefCell::default(),
        }
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
    pub fn dump(&self, guest: &Guest, dump: &str) -> Result<KernelSnapshot, RowError> {
        self.uses(Basis::Guest(guest.name));
        self.dump_of(guest, dump)
    }

    fn dump_of(&self, guest: &Guest, dump: &str) -> Result<KernelSnapshot, RowError> {
        let known = self.guests.borrow().get(guest.name).cloned();
        let all = match known {
            Some(all) => all,
            None => {
                let all = Rc::new(KernelSnapshot::parse(guest.bytes).map_err(broken)?);
                self.guests.borrow_mut().insert(guest.name, all.clone());
                all
            }
        };
        let is_it = |one: &&KernelSnapshot| one.dump.as_deref().unwrap_or_default() == dump;
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
        let [boot, shrunk] = ["boot", "boot_shrunk"].map(|dump| self.dump_of(guest, dump));
        let (boot, shrunk) = (boot?, shrunk?);
        let own = boot.settings().map_err(broken)?.0;
        let population = Population::from_snapshots(&boot, &shrunk, &own).map_err(broken)?;
        let mut other = own.machine;
        machine(&mut other);
        let outcome = population.on(&settings(release, other, set)?).map_err(broken)?;
        Ok(outcome.slab_kb as f64)
    }

    fn loaded(&self, recording: &Recording) -> Result<Rc<Loaded>, RowError> {
        if let Some(loaded) = self.loaded.borrow().get(recording.name) {
            return Ok(loaded.clone());
        }
        let trace = match recording.content {
            Content::Trace(bytes) | Content::TraceFrom(bytes, _) => {
                trace::read(bytes).map_err(broken)?
            }
            Content::Load(text) => load::read(text, std::path::Path::new("")).map_err(broken)?,
        };
        let start = match recording.content {
            Content::TraceFrom(_, start) => start,
            _ => &trace.attachment(START).ok_or_else(|| broken("no snapshot"))?.bytes,
        };
        let snapshot = KernelSnapshot::parse(start).map_err(broken)?.remove(0);
        let own = snapshot.settings().map_err(broken)?.0;
        let order = case::order_of(&snapshot);
        let case = RefCell::new(Case::new(&trace, &snapshot, &own, order).map_err(broken)?);
        let loaded = Rc::new(Loaded { trace, snapshot, case });
        self.loaded.borrow_mut().insert(recording.name, loaded.clone());
        Ok(loaded)
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
        let key = variant.key(recording);
        if let Some(known) = self.replays.borrow().get(&key) {
            return Ok(known.clone());
        }
        let loaded = self.loaded(recording)?;
        self.rule(&loaded, variant)?;
        let case = loaded.case.borrow();
        let mut plan = case.plan(Start::LookAhead);
        plan.tasks = variant.tasks;
        plan.memory = variant.memory.map(|(bytes, relief)| Limit { bytes, relief });
        let replayed = replay(&plan).map_err(broken)?;
        let outcome = Rc::new(ReplayOutcome::of(&case, replayed));
        self.replays.borrow_mut().insert(key, outcome.clone());
        Ok(outcome)
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
        if let Some(known) = self.contended.borrow().get(&key) {
            return Ok(known.clone());
        }
        let loaded = self.loaded(recording)?;
        self.rule(&loaded, variant)?;
        let case = loaded.case.borrow();
        let mut plan = case.plan(Start::LookAhead);
        plan.tasks = variant.tasks;
        let done = Rc::new(contend(&plan, costs));
        self.contended.borrow_mut().insert(key, done.clone());
        Ok(done)
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
        let key = format!("{contender:?} {left:?} {scattered} {seed}");
        if let Some(known) = self.small.borrow().get(&key) {
            return Ok(known.clone());
        }
        let outcome = match left {
            Some(left) => board::boot_that_leaves(contender, left, scattered, seed),
            None => board::boot(contender, board::BOARD.reserved, scattered, seed),
        };
        let outcome = Rc::new(outcome.map_err(broken)?);
        self.small.borrow_mut().insert(key, outcome.clone());
        Ok(outcome)
    }

    fn booted(&self, boot: &SmallBoot) -> Result<Rc<(Load, KernelReport)>, RowError> {
        if let Some(known) = self.boots.borrow().get(boot.name) {
            return Ok(known.clone());
        }
        let trace = trace::read(boot.trace).map_err(broken)?;
        let told = state::parse(boot.state).map_err(broken)?;
        let moments = text::moments(&trace);
        let load = Load::of_kernel(&trace, &moments, &told, slob::Machine::X86_64).load;
        let both = Rc::new((load, told));
        self.boots.borrow_mut().insert(boot.name, both.clone());
        Ok(both)
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
        let key = format!("{} {release} {contender:?}", boot.name);
        if let Some(known) = self.small.borrow().get(&key) {
            return Ok(known.clone());
        }
        let both = self.booted(boot)?;
        let begin = both.1.states.first().ok_or_else(|| broken("no begin"))?;
        let outcome = run_from(begin, release, contender, &both.0).map_err(broken)?;
        let outcome = Rc::new(outcome);
        self.small.borrow_mut().insert(key, outcome.clone());
        Ok(outcome)
    }

    /// A number of a table that CI measures: a row is found by its first words, a column by its
    /// head or its number. Cells of a table of a document are between bars.
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
        let cells = |line: &str| -> Vec<String> {
            let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
            match line.starts_with('|') {
                true => cells.collect(),
                false => line.split_whitespace().map(str::to_owned).collect(),
            }
        };
        let mut lines = text.lines().map(cells);
        let at = match column {
            Column::Number(at) => Some(at),
            Column::Head(head) => {
                let heads = lines.next().unwrap_or_default();
                heads.iter().position(|cell| cell == head)
            }
        };
        let found = lines.find(|cells| cells.first().is_some_and(|cell| cell == row));
        let number = found.and_then(|cells| cells.get(at?)?.parse().ok());
        number.ok_or_else(|| broken(format!("{table} has no number for {row}, {column:?}")))
    }

    /// Nanoseconds of a turn of a loop on this machine's CPUs.
    ///
    /// # Errors
    /// It cannot be run here.
    pub fn real(&self, reclaim: &str, slabs: u32, touched: bool) -> Result<f64, RowError> {
        let key = (reclaim.to_owned(), slabs, touched);
        if let Some(known) = self.real_runs.borrow().get(&key) {
            self.uses(Basis::RealRun("a loop on SLAB"));
            return Ok(*known);
        }
        let missing =
            || RowError::NotHere("a real run is the command's: slabyard reproduce".into());
        let real = self.real.ok_or_else(missing)?;
        let found = real.nanoseconds(reclaim, slabs, touched).map_err(RowError::NotHere)?;
        self.uses(Basis::RealRun("a loop on SLAB"));
        self.real_runs.borrow_mut().insert(key, found);
        Ok(found)
    }
}

fn settings(release: &'static str, machine: Machine, set: &[&str]) -> Result<Settings, RowError> {
    let mut settings = Settings::new(find_release(release).map_err(broken)?.0, machine);
    for text in set {
        settings.set(text).map_err(broken)?;
    }
    Ok(settings)
}
