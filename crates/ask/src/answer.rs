//! Answers: what a load takes of memory and of work under one question, from one replay.
//!
//! Neighbours: [`crate::question`] says what is asked, [`crate::load`] and [`crate::prepare`] make a
//! trace ready, `slabyard-lab` replays it. Invariants: the same trace and question give the same
//! answer on every machine; in bytes, `slabs = live + parked + free_partial + padding` at each moment.
//! The mean of slabs counts each slab that is made or given back, the means of their parts samples.

use crate::axis::{self, Changes};
use crate::figures::{self, Figures};
use crate::listener::Notes;
use crate::load::Loaded;
use crate::question::Question;
use crate::waits::Waits;
use crate::{Error, Listener, Silent, prepare};
use anyhow::Context as _;
use serde::Serialize;
use slabyard_kernels::engines::EngineName;
use slabyard_lab::accuracy::{self, Change};
use slabyard_lab::case::{self, Case};
use slabyard_lab::counters::{Counter, Counters};
use slabyard_lab::replay::contend::Costs;
use slabyard_lab::replay::report::{CacheUse, Sample};
use slabyard_lab::replay::{Limit, Plan, Relief, Replayed, Start, replay};
use slabyard_lab::rules::Settings;
use std::collections::BTreeMap;

/// Moments at which memory is looked at.
pub(crate) const SAMPLES: usize = 200;
/// Samples that one replay may give: each holds a number for every cache.
pub const MOST_SAMPLES: usize = 100_000;

/// What a load takes under one question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The changes as [`axis::name`] puts them.
    pub name: String,
    /// Key and value of each change.
    pub changes: BTreeMap<String, String>,
    /// Whose rules hold.
    pub rules: String,
    /// What it takes of memory.
    pub memory: Memory,
    /// What it takes of work, for a million calls.
    pub work: Work,
    /// Allocations and frees of the replay.
    pub calls: u64,
    /// When the machine's memory did not suffice, in nanoseconds since the trace began.
    pub out_of_memory_ns: Option<u64>,
    /// Why the run does not compare with one on the traced machine.
    pub unlike: Option<String>,
    /// Which caches the release does not have.
    pub gone: Option<String>,
    /// The error to expect of the slabs at the peak above those of the start: the lowest and the
    /// highest share by which measured pairs of machines were off; `None` if nothing was measured, or
    /// nothing is changed.
    pub error: Option<(f64, f64)>,
    /// In what the machine is another one.
    pub changed: Vec<&'static str>,
    /// What people should know of the rules.
    pub notes: Vec<String>,
    /// What calls wait for, if that is asked for.
    pub waits: Option<Waits>,
}

/// Bytes over a run; means are over the time of the trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Memory {
    /// Most of slabs at a time, of those that events touch.
    pub peak: u64,
    /// Of these slabs in the mean.
    pub mean: f64,
    /// Of these slabs at the end.
    pub end: u64,
    /// Of slabs that no event touches; `None` where the snapshot does not count all slabs.
    pub untouched: Option<u64>,
    /// Of objects that are handed out, in the mean.
    pub live: f64,
    /// The same at the end.
    pub live_end: Option<u64>,
    /// Of free objects in slabs on nodes' lists, in the mean.
    pub free_partial: f64,
    /// Of free objects that CPUs and barns hold, in the mean.
    pub parked: f64,
    /// These in CPU slabs, CPU partial lists, sheaves and barns.
    pub parked_by_place: Parked,
    /// How many stand on nodes' lists at the end.
    pub partial_slabs: u64,
}

/// Bytes of free objects on no node's list, in the mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Parked {
    /// In the slabs that CPUs allocate from.
    pub cpu_slabs: f64,
    /// In slabs on CPU partial lists.
    pub cpu_partial: f64,
    /// In CPUs' sheaves.
    pub sheaves: f64,
    /// In full sheaves of nodes.
    pub barns: f64,
}

/// Counts for a million calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Work {
    /// Calls that did not find what they need on their CPU.
    pub slow_calls: f64,
    /// Acquisitions of nodes' list locks.
    pub list_locks: f64,
    /// Compare-exchanges of slabs.
    pub exchanges: f64,
    /// Sheaves exchanged at barns, or CPU slabs taken from lists.
    pub refills: f64,
    /// Objects that went between sheaves and slabs.
    pub moved: f64,
    /// Slabs made and given back: calls to the page allocator.
    pub page_calls: f64,
    /// Nanoseconds of a call by the costs, in the mean.
    pub ns: f64,
}

impl Work {
    /// Nanoseconds of all that a million calls do beyond the fast path. Other than in [`Work::ns`] list
    /// locks count as taken by another CPU before, so that no setting wins by more of them, and barns'
    /// locks and the links of slabs do not count.
    #[must_use]
    pub fn slow_path_ns(&self, costs: Costs) -> f64 {
        self.slow_calls * f64::from(costs.slow)
            + self.exchanges * f64::from(costs.exchange)
            + self.list_locks * f64::from(costs.lock_moved)
            + self.moved * f64::from(costs.fast)
            + self.page_calls * f64::from(costs.pages)
    }
}

impl Memory {
    /// Most of all slabs at a time, as far as they are known.
    #[must_use]
    pub fn whole_peak(&self) -> u64 {
        self.peak + self.untouched.unwrap_or(0)
    }
}

/// A trace that is ready for questions; copies share its steps.
#[derive(Clone)]
pub struct Answerer<'a> {
    pub(crate) loaded: &'a Loaded,
    pub(crate) case: Case,
    costs: Costs,
    knows_others: bool,
}

impl<'a> Answerer<'a> {
    /// Prepares the trace; `costs` are what [`Work::ns`] counts with.
    ///
    /// # Errors
    /// As [`prepare::case`].
    pub fn new(
        loaded: &'a Loaded,
        costs: Costs,
        listener: &dyn Listener,
    ) -> Result<Answerer<'a>, Error> {
        let order = case::order_of(&loaded.snapshot);
        let case = prepare::case(EngineName::Slub, loaded, order, listener)?;
        Ok(Answerer { loaded, case, costs, knows_others: false })
    }

    /// Of a trace that was prepared before, as [`Answerer::case`] has it then.
    #[must_use]
    pub fn of_case(loaded: &'a Loaded, case: Case, costs: Costs) -> Answerer<'a> {
        Answerer { loaded, case, costs, knows_others: false }
    }

    /// The trace as it is prepared, by the rules of the last question.
    #[must_use]
    pub fn case(&self) -> &Case {
        &self.case
    }

    /// Finds out whether a question can be asked, without a replay.
    ///
    /// # Errors
    /// [`Error::Usage`]: settings or a machine that cannot be.
    pub fn settings(
        &self,
        question: &Question,
        listener: &dyn Listener,
    ) -> Result<Settings, Error> {
        let Loaded { trace, snapshot, .. } = self.loaded;
        let (settings, _) = question.wanted.of_trace(trace, snapshot, listener)?;
        prepare::fits(&self.case, question.tasks())?;
        Ok(settings)
    }

    /// Finds out whether a question can be answered: as [`Answerer::settings`], and whether each cache
    /// has a geometry.
    ///
    /// # Errors
    /// [`Error::Usage`]: what is asked for cannot be.
    pub fn check(&mut self, base: &Question, changes: &Changes) -> Result<(), Error> {
        let question = base.with(changes)?;
        let settings = self.settings(&question, &Silent)?;
        self.rule(question.wanted.engine, &settings)
    }

    /// Runs the trace on so many CPUs that overlap in time, each with as many tasks as a traced one.
    ///
    /// # Errors
    /// [`Error::Usage`] for what has no lists of slabs, and for a machine that cannot be.
    pub fn waits(&mut self, question: &Question, cpus: u32) -> Result<Waits, Error> {
        let engine = question.wanted.engine;
        if engine == EngineName::Slab || question.memory.is_some() {
            let text = "--contention is of SLUB, and of machines with enough memory";
            return Err(Error::Usage(text.into()));
        }
        let mut question = question.clone();
        let possible = question.wanted.possible_cpus.unwrap_or(0).max(cpus);
        (question.wanted.cpus, question.wanted.possible_cpus) = (Some(cpus), Some(possible));
        question.more_tasks =
            question.tasks() * (cpus / self.loaded.traced.online_cpus.max(1)).max(1) - 1;
        let settings = self.settings(&question, &Silent)?;
        if settings.page_lists.is_some() {
            let text = "page_lists changes nothing with --contention, which has no pages";
            return Err(Error::Usage(text.into()));
        }
        self.rule(engine, &settings)?;
        Waits::of(&self.case, cpus, question.tasks(), self.costs)
    }

    /// Puts other rules in place.
    pub(crate) fn rule(&mut self, engine: EngineName, settings: &Settings) -> Result<(), Error> {
        prepare::rule(&mut self.case, engine, self.loaded, settings).map_err(Error::usage)
    }

    /// As [`Answerer::answer`], with what calls wait for on so many CPUs.
    ///
    /// # Errors
    /// As [`Answerer::answer`] and [`Answerer::waits`].
    pub fn answer_with(
        &mut self,
        base: &Question,
        changes: &Changes,
        contention: Option<u32>,
    ) -> Result<Answer, Error> {
        let mut answer = self.answer(base, changes)?;
        if let Some(cpus) = contention {
            answer.waits = Some(self.waits(&base.with(changes)?, cpus)?);
        }
        Ok(answer)
    }

    /// Replays the trace under a question.
    ///
    /// # Errors
    /// As [`Answerer::settings`]; and where a cache has no geometry, or the model fails.
    pub fn answer(&mut self, base: &Question, changes: &Changes) -> Result<Answer, Error> {
        let name = axis::name(changes);
        let of_it = |error: Error| match error {
            Error::Usage(text) => Error::Usage(format!("{name}: {text}")),
            other => other,
        };
        let question = base.with(changes).map_err(of_it)?;
        let notes = Notes::default();
        let settings = self.settings(&question, &notes).map_err(of_it)?;
        let replayed = self.replay(&question, &settings, SAMPLES).map_err(of_it)?;
        let (case, differs) = (&self.case, self.changes(&question));
        let snapshot = &self.loaded.snapshot;
        let figures = figures::without_series(snapshot, case, Start::LookAhead, differs, &replayed);
        let calls = calls(&figures.counters);
        Ok(Answer {
            name,
            changes: changes.iter().cloned().collect(),
            rules: match question.wanted.engine {
                EngineName::Slab => "SLAB".into(),
                EngineName::Tiny => format!("{}, SLUB_TINY", settings.rules_name()),
                EngineName::Slub | EngineName::Slob => settings.rules_name(),
            },
            memory: self.memory(&figures, &replayed),
            work: work(&figures.counters, calls, self.costs),
            calls,
            out_of_memory_ns: replayed
                .memory
                .as_ref()
                .and_then(|told| Some(told.failed.as_ref()?.time_ns)),
            unlike: figures.unlike.clone(),
            gone: figures.gone.clone(),
            error: accuracy::range(&figures.changes),
            changed: figures.changes.iter().map(|change| change.name()).collect(),
            notes: notes.into_texts(),
            waits: None,
        })
    }

    /// All figures of one replay under a question, with about so many samples over time.
    ///
    /// # Errors
    /// As [`Answerer::answer`], and [`Error::Usage`] for too many samples.
    pub fn figures(&mut self, question: &Question, samples: usize) -> Result<Figures, Error> {
        if samples > MOST_SAMPLES {
            let text = format!("{samples} samples: at most {MOST_SAMPLES} are kept");
            return Err(Error::Usage(text));
        }
        let settings = self.settings(question, &Silent)?;
        let replayed = self.replay(question, &settings, samples)?;
        let (start, changes) = (Start::LookAhead, self.changes(question));
        Ok(figures::of(&self.loaded.snapshot, &self.case, start, changes, &replayed))
    }

    fn replay(
        &mut self,
        question: &Question,
        settings: &Settings,
        samples: usize,
    ) -> Result<Replayed, Error> {
        self.rule(question.wanted.engine, settings)?;
        self.replay_ruled(question, samples, None)
    }

    /// Replays the trace by the rules that are in place; of all caches, or of some.
    pub(crate) fn replay_ruled(
        &mut self,
        question: &Question,
        samples: usize,
        called: Option<&[bool]>,
    ) -> Result<Replayed, Error> {
        if question.memory.is_some() && !self.knows_others {
            let events = self.loaded.trace.events();
            self.case.tell_others(events).context("cannot read the trace")?;
            self.knows_others = true;
        }
        let mut plan = Plan { called, ..self.case.plan(Start::LookAhead) };
        if samples > 0 {
            plan.sample_every = self.case.prepared.steps.len().div_ceil(samples).max(1);
        }
        plan.tasks = question.tasks();
        plan.memory = question.memory.map(|bytes| Limit { bytes, relief: Relief::None });
        Ok(replay(&plan).context("the replay failed")?)
    }

    /// In what the machine of the last question is another one than the traced.
    fn changes(&self, question: &Question) -> Vec<Change> {
        let mut changes = self.case.changes.clone();
        changes.extend((question.tasks() > 1).then_some(Change::Tasks));
        changes.sort();
        changes
    }

    fn memory(&self, figures: &Figures, replayed: &Replayed) -> Memory {
        let totals = &figures.totals;
        let shares = shares(self.case.prepared.span.clone().into_inner(), &replayed.samples);
        let mean = |of: fn(&CacheUse) -> u64| -> f64 {
            let bytes = |sample: &Sample| -> f64 {
                let each = sample.caches.iter().zip(&self.case.sizes);
                each.map(|(cache, size)| of(cache) as f64 * f64::from(*size)).sum()
            };
            shares.iter().zip(&replayed.samples).map(|(share, sample)| share * bytes(sample)).sum()
        };
        Memory {
            peak: totals.peak_bytes,
            mean: figures::mean_bytes(&self.case, replayed, totals.before.bytes).unwrap_or(0.0),
            end: totals.after.bytes.unwrap_or(0),
            untouched: totals.untouched_bytes,
            live: mean(CacheUse::live),
            live_end: totals.after.live,
            free_partial: mean(|cache| cache.free.node_partial),
            parked: mean(|cache| cache.free.parked()),
            parked_by_place: Parked {
                cpu_slabs: mean(|cache| cache.free.cpu_slab),
                cpu_partial: mean(|cache| cache.free.cpu_partial),
                sheaves: mean(|cache| cache.free.sheaves),
                barns: mean(|cache| cache.free.barns),
            },
            partial_slabs: replayed
                .after
                .caches
                .iter()
                .map(|c| u64::from(c.places.node_partial))
                .sum(),
        }
    }
}

/// The share of a trace's time for which each sample stands: until the next one.
pub(crate) fn shares(span: (u64, u64), samples: &[Sample]) -> Vec<f64> {
    let length = span.1.saturating_sub(span.0).max(1);
    let ends = samples.iter().skip(1).map(|sample| sample.time_ns).chain([length]);
    let lengths = samples.iter().zip(ends).map(|(sample, end)| end.saturating_sub(sample.time_ns));
    let lengths: Vec<u64> = lengths.collect();
    let all = lengths.iter().sum::<u64>().max(1);
    lengths.into_iter().map(|of_it| of_it as f64 / all as f64).collect()
}

pub(crate) fn calls(counters: &Counters) -> u64 {
    use Counter::{
        AllocCpuSheaf, AllocFastpath, AllocSlowpath, FreeCpuSheaf, FreeFastpath, FreeSlowpath,
    };
    let of_calls =
        [AllocFastpath, AllocSlowpath, FreeFastpath, FreeSlowpath, AllocCpuSheaf, FreeCpuSheaf];
    of_calls.map(|counter| counters.get(counter)).iter().sum()
}

/// Counts for a million of so many calls.
pub(crate) fn work(counters: &Counters, calls: u64, costs: Costs) -> Work {
    use Counter::{
        AllocFromPartial, AllocSlab, AllocSlowpath, BarnGet, BarnGetFail, BarnPut, BarnPutFail,
        CmpxchgSlab, CpuPartialAlloc, FreeSlab, FreeSlowpath, ListLock, ListLockSlabs, SheafFlush,
        SheafRefill,
    };
    let million = |of: &[Counter]| {
        let count: u64 = of.iter().map(|counter| counters.get(*counter)).sum();
        count as f64 * 1e6 / (calls.max(1) as f64)
    };
    let barns = million(&[BarnGet, BarnGetFail, BarnPut, BarnPutFail]);
    let refills = [CpuPartialAlloc, AllocFromPartial, AllocSlab, BarnGet, BarnGetFail];
    let work = Work {
        slow_calls: million(&[AllocSlowpath, FreeSlowpath]) + barns,
        list_locks: million(&[ListLock]),
        exchanges: million(&[CmpxchgSlab]),
        refills: million(&refills),
        // An object that goes between a sheaf and a slab is touched as a call's is.
        moved: million(&[SheafRefill, SheafFlush]),
        page_calls: million(&[AllocSlab, FreeSlab]),
        ns: 0.0,
    };
    let unmoved = Costs { lock_moved: costs.lock, ..costs };
    let slow = work.slow_path_ns(unmoved)
        + barns * f64::from(costs.lock)
        + million(&[ListLockSlabs]) * f64::from(costs.link);
    let fast = if calls > 0 { costs.fast } else { 0 };
    Work { ns: f64::from(fast) + slow / 1e6, ..work }
}
