//! What answers about a trace are worth: how much of the load the trace shows, how the start is known,
//! and what the check of the traced kernel's own run says.
//!
//! Neighbours: `slabyard_lab::check` compares a replay with what the kernel did. Invariant: the check
//! runs by the traced kernel's rules on the traced machine, whatever is asked.

use crate::load::{Loaded, TraceFile};
use crate::{Error, Listener, Wanted, prepare};
use anyhow::Context as _;
use serde::Serialize;
use slabyard_kernels::engines::EngineName;
use slabyard_lab::case::{self, Case};
use slabyard_lab::check::goals::{Context, Goal, TraceOrigin, goals};
use slabyard_lab::check::{self, shown};
use slabyard_lab::replay::Start;
use slabyard_lab::trace::LISTS;

/// What answers about a trace are worth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trust {
    /// The share of frees in judged caches whose objects were allocated without an event.
    pub untraced: Option<f64>,
    /// The share of the slabs that the kernel made which are of caches that cannot be judged.
    pub left_out: f64,
    /// True if the recorder read the kernel's lists of slabs; else the replay guesses them.
    pub has_lists: bool,
    /// Mean error of the curve of slabs, as a share of its range; `None` if no kernel had the slabs.
    pub curve: Option<f64>,
    /// Goals that count on this trace.
    pub goals: usize,
    /// Those of them that the check missed.
    pub missed: Vec<&'static str>,
    /// True if all figures are uncertain.
    pub doubtful: bool,
}

impl Trust {
    /// Checks the own run of a trace that is prepared in the order of its events.
    ///
    /// # Errors
    /// Where the traced kernel's rules are not known, or the model fails.
    pub fn of(
        file: &TraceFile,
        loaded: &Loaded,
        mut case: Case,
        listener: &dyn Listener,
    ) -> Result<Trust, Error> {
        listener.stage("checking the trace's own run");
        let doubtful = prepare::doubts(file, loaded, &case, listener);
        let has_lists = loaded.trace.attachment(LISTS).is_some();
        if loaded.is_without_slabs {
            listener.clear();
            let (curve, left_out) = (None, case.left_out_share);
            let missed = Vec::new();
            return Ok(Trust {
                untraced: None,
                left_out,
                has_lists,
                curve,
                goals: 0,
                missed,
                doubtful,
            });
        }
        let own = Wanted::default().of_trace(&loaded.trace, &loaded.snapshot, &crate::Silent)?.0;
        prepare::rule(&mut case, EngineName::Slub, loaded, &own).map_err(Error::usage)?;
        let start = Start::LookAhead;
        let report = check::check(&case.plan(start)).context("the replay failed")?;
        let traced = match case::order_of(&loaded.snapshot).pause_ns {
            Some(_) => TraceOrigin::Guest,
            None => TraceOrigin::Hardware,
        };
        let goals: Vec<Goal> = goals(&report, &Context { prepared: &case.prepared, start, traced });
        let caches = &case.prepared.caches;
        let judged = (0..caches.len()).filter(|nth| caches[*nth].left_out.is_none());
        let shown = shown::share(&case.prepared, &report.one_step, judged);
        listener.clear();
        Ok(Trust {
            untraced: shown.map(|share| 1.0 - share),
            left_out: case.left_out_share,
            has_lists,
            curve: Some(report.total.relative()),
            goals: goals.iter().filter(|goal| goal.met.is_some()).count(),
            missed: goals.iter().filter(|g| g.met == Some(false)).map(|g| g.name).collect(),
            doubtful,
        })
    }

    /// The same in a line.
    #[must_use]
    pub fn line(&self) -> String {
        let percent = |share: f64| format!("{:.2} %", share * 100.0);
        let lists = if self.has_lists { "read from the kernel" } else { "guessed from the trace" };
        let Some(curve) = self.curve else {
            return "trust: no kernel had these slabs, so nothing is checked; counts are exact by the \
                    rules"
                .into();
        };
        let met = self.goals - self.missed.len();
        let missed = match self.missed.is_empty() {
            true => String::new(),
            false => format!(" (missed: {})", self.missed.join("; ")),
        };
        let untraced = self.untraced.map_or_else(|| "an unknown share".into(), percent);
        let doubt =
            if self.doubtful { "; EVENTS ARE MISSING, all figures are uncertain" } else { "" };
        format!(
            "trust: the base's own run is {} off in the mean, and meets {met} of {} goals{missed}; \
             untraced calls {untraced}, caches left out {}, lists {lists}{doubt}",
            percent(curve),
            self.goals,
            percent(self.left_out),
        )
    }
}
