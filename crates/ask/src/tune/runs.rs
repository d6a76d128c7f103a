//! What the caches of a load take by the rules that settings give them: each cache is replayed once for
//! each set of rules, and what a setting takes is the sum over the caches.
//!
//! This is exact, and no estimate: tasks are placed by the trace and the number of CPUs alone
//! (`slabyard_lab::replay`), so no cache of a replay changes what another one does. Many settings give
//! most caches the same rules: a higher order changes large objects alone, the capacity of sheaves
//! nothing where there are none. Caches do share a machine's memory, page lists, and the timers of SLAB;
//! where a question asks for these each setting is replayed whole.
//!
//! Neighbours: [`Answerer`] replays, [`super::Search`] asks for settings. Invariant: the numbers are
//! those of [`Answerer::answer`], whichever settings were replayed before.

use super::front::Score;
use crate::answer::{self, Answerer};
use crate::answers::on_all_cpus;
use crate::axis::{self, Changes};
use crate::figures;
use crate::question::Question;
use crate::{Error, Listener, Silent};
use slabyard_kernels::engines::EngineName;
use slabyard_lab::cache_rules::CacheRules;
use slabyard_lab::replay::contend::COSTS;
use slabyard_lab::replay::report::Sample;
use slabyard_lab::replay::{Replayed, Start};
use std::collections::BTreeMap;

/// What a cache took in a replay.
struct CacheRun {
    /// Bytes of its slabs at the start.
    before: u64,
    /// In the mean over time.
    mean: f64,
    /// Of slabs that no event touches.
    untouched: Option<u64>,
    /// Of free objects that CPUs and barns hold, in the mean.
    parked: f64,
    slow_ns: f64,
    calls: u64,
    /// Bytes that came or went, and when.
    changes: Vec<(u64, i64)>,
}

/// One cache: sets of rules that act differently, and what they took, if that is known.
#[derive(Default)]
struct CacheSets {
    rules: Vec<CacheRules>,
    runs: Vec<Option<CacheRun>>,
}

/// For each cache the number of its set of rules.
pub(super) type Sets = Vec<usize>;

/// A load, and what its caches took so far.
pub(super) struct Runs<'a> {
    answerer: Answerer<'a>,
    base: &'a Question,
    /// Caches change what others do.
    are_coupled: bool,
    caches: Vec<CacheSets>,
    points: BTreeMap<String, Sets>,
    replays: usize,
}

impl<'a> Runs<'a> {
    pub(super) fn new(answerer: Answerer<'a>, base: &'a Question) -> Result<Runs<'a>, Error> {
        let settings = answerer.settings(base, &Silent)?;
        let has_limit = base.memory.is_some() || settings.page_lists.is_some();
        let is_slab = base.wanted.engine == EngineName::Slab;
        let nr_caches = answerer.case.ids.len();
        Ok(Runs {
            answerer,
            base,
            are_coupled: has_limit || is_slab,
            caches: (0..nr_caches).map(|_| CacheSets::default()).collect(),
            points: BTreeMap::new(),
            replays: 0,
        })
    }

    /// Replays made.
    pub(super) fn replays(&self) -> usize {
        self.replays
    }

    /// Settings whose rules are known.
    pub(super) fn points(&self) -> usize {
        self.points.len()
    }

    /// The sets of a point whose rules are known.
    pub(super) fn sets(&self, changes: &Changes) -> Option<&Sets> {
        self.points.get(&axis::name(changes))
    }

    /// The number of a cache.
    pub(super) fn number_of(&self, name: &str) -> Option<usize> {
        self.names().iter().position(|it| it == name)
    }

    /// Names of the caches, by number.
    pub(super) fn names(&self) -> &[String] {
        &self.answerer.case.ids
    }

    /// Finds the rules of points, and replays those that are new; of caches with these names alone, if
    /// any are given and caches can be replayed alone.
    pub(super) fn replay(
        &mut self,
        points: &[Changes],
        names: Option<&[String]>,
        listener: &dyn Listener,
    ) -> Result<(), Error> {
        for changes in points {
            let name = axis::name(changes);
            if !self.points.contains_key(&name) {
                let sets = self.find(changes).map_err(|error| match error {
                    Error::Usage(text) if !changes.is_empty() => {
                        Error::Usage(format!("{name}: {text}"))
                    }
                    other => other,
                })?;
                self.points.insert(name, sets);
            }
        }
        let passes = self.passes(points, names.filter(|_| !self.are_coupled));
        self.replay_passes(&passes, listener)
    }

    /// The rules of a point.
    fn find(&mut self, changes: &Changes) -> Result<Sets, Error> {
        let question = self.base.with(changes)?;
        let settings = self.answerer.settings(&question, &Silent)?;
        self.answerer.rule(question.wanted.engine, &settings)?;
        let rules = self.answerer.case.cache_rules();
        let find = |(sets, rules): (&mut CacheSets, CacheRules)| {
            let known = sets.rules.iter().position(|it| !self.are_coupled && it.acts_as(&rules));
            known.unwrap_or_else(|| {
                sets.rules.push(rules);
                sets.runs.push(None);
                sets.rules.len() - 1
            })
        };
        Ok(self.caches.iter_mut().zip(rules).map(find).collect())
    }

    /// Replays in which each cache runs by one of the sets that these points need and that it did not
    /// run by yet.
    fn passes(&self, points: &[Changes], names: Option<&[String]>) -> Vec<Vec<Option<usize>>> {
        let mut passes: Vec<Vec<Option<usize>>> = Vec::new();
        let sets: Vec<&Sets> = points.iter().filter_map(|it| self.sets(it)).collect();
        for (nth, cache) in self.caches.iter().enumerate() {
            if names.is_some_and(|names| !names.contains(&self.names()[nth])) {
                continue;
            }
            let mut wanted: Vec<usize> = sets.iter().map(|sets| sets[nth]).collect();
            wanted.sort_unstable();
            wanted.dedup();
            wanted.retain(|set| cache.runs[*set].is_none());
            for (pass, set) in wanted.into_iter().enumerate() {
                if pass == passes.len() {
                    passes.push(vec![None; self.caches.len()]);
                }
                passes[pass][nth] = Some(set);
            }
        }
        passes
    }

    fn replay_passes(
        &mut self,
        passes: &[Vec<Option<usize>>],
        listener: &dyn Listener,
    ) -> Result<(), Error> {
        let (base, all, mut done) = (self.base, passes.len(), 0);
        let rules = |pass: &[Option<usize>]| -> Vec<CacheRules> {
            let sets = self.caches.iter().zip(pass);
            sets.map(|(cache, set)| cache.rules[set.unwrap_or(0)]).collect()
        };
        let rules: Vec<Vec<CacheRules>> = passes.iter().map(|pass| rules(pass)).collect();
        let make = |answerer: &mut Answerer<'a>, nth: usize| {
            let called: Vec<bool> = passes[nth].iter().map(Option::is_some).collect();
            answerer.case.follow(&rules[nth]);
            let replayed = answerer.replay_ruled(base, answer::SAMPLES, Some(&called))?;
            Ok(runs_of(answerer, &called, &replayed))
        };
        let caches = &mut self.caches;
        let mut take = |nth: usize, runs: Vec<(usize, CacheRun)>| {
            for (cache, run) in runs {
                if let Some(set) = passes[nth][cache] {
                    caches[cache].runs[set] = Some(run);
                }
            }
            done += 1;
            listener.done(done, all);
            Ok(())
        };
        if all > 0 {
            listener.done(0, all);
            on_all_cpus(&mut self.answerer, all, &make, listener, &mut take)?;
            listener.clear();
        }
        self.replays += all;
        Ok(())
    }

    fn each<'s>(&'s self, sets: &'s Sets) -> impl Iterator<Item = &'s CacheRun> {
        self.caches.iter().zip(sets).filter_map(|(cache, set)| cache.runs[*set].as_ref())
    }

    /// Bytes in the mean over time, and nanoseconds of work for a call.
    pub(super) fn memory_and_work(&self, sets: &Sets) -> (f64, f64) {
        let (mut memory, mut slow_ns, mut calls) = (0.0, 0.0, 0);
        for run in self.each(sets) {
            memory += run.mean;
            slow_ns += run.slow_ns;
            calls += run.calls;
        }
        (memory + self.untouched(sets) as f64, slow_ns / calls.max(1) as f64)
    }

    /// Bytes of slabs that no event touches; 0 where the snapshot does not count all slabs.
    fn untouched(&self, sets: &Sets) -> u64 {
        self.each(sets).map(|run| run.untouched).sum::<Option<u64>>().unwrap_or(0)
    }

    /// Most bytes of slabs at a time.
    fn peak(&self, sets: &Sets) -> u64 {
        let mut changes: Vec<(u64, i64)> =
            self.each(sets).flat_map(|run| run.changes.iter().copied()).collect();
        changes.sort_by_key(|(time_ns, _)| *time_ns);
        let mut bytes: u64 = self.each(sets).map(|run| run.before).sum();
        let mut peak = bytes;
        for (_, by) in changes {
            bytes = bytes.saturating_add_signed(by);
            peak = peak.max(bytes);
        }
        peak + self.untouched(sets)
    }

    /// What a cache takes by one of its sets, as parts of what all take by default.
    pub(super) fn part_of(&self, default: &Sets, cache: usize, set: usize) -> Option<(f64, f64)> {
        let run = self.caches[cache].runs[set].as_ref()?;
        let (memory, work) = self.memory_and_work(default);
        let calls: u64 = self.each(default).map(|run| run.calls).sum();
        let of_all = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
        let bytes = run.mean + run.untouched.unwrap_or(0) as f64;
        Some((of_all(bytes, memory), of_all(run.slow_ns / calls.max(1) as f64, work)))
    }

    /// What a point takes, as parts of what the default takes.
    pub(super) fn score(&self, default: &Sets, sets: &Sets) -> Score {
        let part = |of: f64, from: f64| if from > 0.0 { of / from } else { 1.0 };
        let (memory, work) = self.memory_and_work(sets);
        let (all_memory, all_work) = self.memory_and_work(default);
        let parked = |sets| self.each(sets).map(|run| run.parked).sum::<f64>();
        Score {
            memory: part(memory, all_memory),
            peak: part(self.peak(sets) as f64, self.peak(default) as f64),
            parked: part(parked(sets), parked(default)),
            work: part(work, all_work),
        }
    }
}

/// What the caches that were called took.
fn runs_of(
    answerer: &Answerer<'_>,
    called: &[bool],
    replayed: &Replayed,
) -> Vec<(usize, CacheRun)> {
    let Answerer { loaded, case, .. } = answerer;
    let differs = Vec::new();
    let all =
        figures::without_series(&loaded.snapshot, case, Start::LookAhead, differs, replayed).caches;
    let span = case.prepared.span.clone().into_inner();
    let shares = answer::shares(span, &replayed.samples);
    let mut changes: Vec<Vec<(u64, i64)>> = vec![Vec::new(); all.len()];
    let page = i64::from(case.page_size);
    for change in &replayed.changes {
        let cache = usize::from(change.cache);
        let bytes = i64::from(change.by) * (page << case.orders[cache]);
        changes[cache].push((change.time_ns, bytes));
    }
    let run = |(nth, figures): (usize, figures::CacheFigures)| {
        let before = figures.before.bytes.unwrap_or(0);
        let parked = |(share, sample): (&f64, &Sample)| {
            share * sample.caches[nth].free.parked() as f64 * f64::from(case.sizes[nth])
        };
        let counters = replayed.caches[nth].counters();
        let calls = answer::calls(counters);
        let work = answer::work(counters, calls, COSTS);
        let run = CacheRun {
            before,
            mean: figures::mean_of(span, before, changes[nth].iter().copied()),
            untouched: figures.untouched.map(|slabs| slabs * ((page as u64) << figures.order)),
            parked: shares.iter().zip(&replayed.samples).map(parked).sum(),
            slow_ns: work.slow_path_ns(COSTS) * calls.max(1) as f64 / 1e6,
            calls,
            changes: std::mem::take(&mut changes[nth]),
        };
        (nth, run)
    };
    all.into_iter().enumerate().filter(|(nth, _)| called[*nth]).map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{self, TraceFile};
    use crate::question;
    use std::path::PathBuf;

    /// The sums over caches that ran by different settings are what a replay of the whole setting gives,
    /// with each front, on other machines, and where caches share a memory.
    #[test]
    fn what_caches_take_alone_is_what_they_take_together() {
        for (trace, machine, varied) in [
            ("tr64k_hb_smp4", "cpus=16", ["max_order=1", "cpu_partial=8", "min_partial=0"]),
            ("guest_4", "", ["max_order=0", "cpu_partial=0", "max_order=0+cpu_partial=30"]),
            ("forkexec", "", ["sheaf_capacity=4", "max_full_sheaves=1", "cpu_partial=8"]),
            ("forkexec", "release=7.1", ["sheaf_capacity=8", "max_order=1", "min_partial=20"]),
            ("guest_4", "memory=64M", ["max_order=0", "cpu_partial=0", "min_partial=0"]),
        ] {
            let traces = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../lab/traces");
            let file = traces.join(format!("{trace}.slabtrace"));
            let base = question::machine(machine).and_then(|it| Question::default().with(&it));
            let base = base.expect("a machine");
            let loaded =
                load::load(&TraceFile { file, ..TraceFile::default() }, &base.wanted, &Silent);
            let loaded = loaded.unwrap_or_else(|error| panic!("{trace}: {error}"));
            let mut answerer = Answerer::new(&loaded, COSTS, &Silent).expect("a case");
            let mut runs = Runs::new(answerer.clone(), &base).expect("a machine");
            let points: Vec<Changes> = [""].into_iter().chain(varied).map(changes).collect();
            runs.replay(&points, None, &Silent).expect("replays");
            for point in &points {
                let sets = runs.sets(point).expect("it was replayed");
                let answer = answerer.answer(&base, point).expect("an answer");
                let untouched = answer.memory.untouched.unwrap_or(0) as f64;
                let parked: f64 = runs.each(sets).map(|run| run.parked).sum();
                let (memory, work) = runs.memory_and_work(sets);
                for (ours, whole) in [
                    (memory, answer.memory.mean + untouched),
                    (work, answer.work.slow_path_ns(COSTS) / 1e6),
                    (parked, answer.memory.parked),
                    (runs.peak(sets) as f64, answer.memory.whole_peak() as f64),
                ] {
                    let name = &answer.name;
                    let off = (ours - whole).abs();
                    assert!(off <= whole * 1e-9, "{trace} {machine} {name}: {ours}, {whole}");
                }
            }
            if runs.are_coupled {
                continue;
            }
            // Caches of one replay may follow different settings.
            let of = |nth: usize| runs.sets(&points[nth % points.len()]).expect("replayed")[nth];
            let mixed: Sets = (0..runs.caches.len()).map(of).collect();
            let rules = mixed.iter().zip(&runs.caches).map(|(set, cache)| cache.rules[*set]);
            answerer.case.follow(&rules.collect::<Vec<_>>());
            let replayed = answerer.replay_ruled(&base, 0, None).expect("a replay");
            let Answerer { loaded, case, .. } = &answerer;
            let figures = figures::without_series(
                &loaded.snapshot,
                case,
                Start::LookAhead,
                Vec::new(),
                &replayed,
            );
            let mean = figures::mean_bytes(case, &replayed, figures.totals.before.bytes);
            let whole = mean.expect("time") + figures.totals.untouched_bytes.unwrap_or(0) as f64;
            let (memory, _) = runs.memory_and_work(&mixed);
            assert!((memory - whole).abs() <= whole * 1e-9, "{trace} {machine}: {memory}, {whole}");
        }
    }

    fn changes(text: &str) -> Changes {
        let pairs = text.split('+').filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}
