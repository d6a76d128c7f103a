//! One question with its variants: the base beside each, and what the answers are worth.
//!
//! Neighbours: [`crate::answers`] runs them, [`crate::trust`] checks the trace. Invariant: the first
//! answer is the base's.

use crate::answer::{Answer, Answerer};
use crate::answers::{self, Task};
use crate::axis::Changes;
use crate::costs;
use crate::load::{Loaded, TraceFile};
use crate::question::Question;
use crate::trust::Trust;
use crate::{Error, Listener};
use serde::Serialize;
use slabyard_lab::replay::contend::Costs;
use std::collections::BTreeMap;
use std::thread;

/// What is asked about a trace.
pub struct Asking<'a> {
    /// The name that it was loaded by, for what is missing in it.
    pub file: &'a TraceFile,
    /// The trace.
    pub loaded: &'a Loaded,
    /// What holds where a variant says nothing.
    pub base: &'a Question,
    /// What each row beside the base changes.
    pub variants: &'a [Changes],
    /// What a call's time counts with.
    pub costs: Costs,
    /// CPUs that overlap in time, if waits are asked for.
    pub contention: Option<u32>,
    /// Whether the trace's own run is checked.
    pub is_checked: bool,
}

/// The answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    /// The base, then each variant.
    pub answers: Vec<Row>,
    /// What they are worth; `None` if that was not asked for.
    pub trust: Option<Trust>,
    /// Nanoseconds of each operation.
    pub costs: BTreeMap<&'static str, u32>,
    /// What people should know of the rules.
    pub notes: Vec<String>,
}

/// An answer beside the base's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What the variant takes.
    #[serde(flatten)]
    pub answer: Answer,
    /// True of a variant that takes what the base takes.
    pub is_base: bool,
    /// Bytes at the peak less the base's, slabs that no event touches among them.
    pub saved: i64,
    /// Bytes at the peak, nanoseconds of a call and list locks beside the base's, in words.
    pub verdict: String,
    /// Why other objects are live at the end than in the base; `None` if the same are.
    pub live_differs: Option<String>,
}

/// Asks.
///
/// # Errors
/// As [`Answerer::new`], [`answers::each`] and [`Trust::of`].
pub fn ask(asking: &Asking<'_>, listener: &dyn Listener) -> Result<Asked, Error> {
    let &Asking { file, loaded, base, variants, costs, contention, is_checked } = asking;
    let mut points = vec![Changes::new()];
    points.extend_from_slice(variants);
    let task = Task { base, points: &points, contention };
    let mut answerer = Answerer::new(loaded, costs, listener)?;
    let own = is_checked.then(|| answerer.case().clone());
    let (answers, trust) = thread::scope(|scope| {
        let checks = own.map(|case| scope.spawn(move || Trust::of(file, loaded, case, listener)));
        let answers = answers::all(&mut answerer, &task, listener);
        (
            answers,
            checks.map(|checks| {
                checks.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }),
        )
    });
    let (answers, trust) = (answers?, trust.transpose()?);
    let base = answers[0].clone();
    let told = answers.iter().flat_map(|answer| answer.notes.iter().chain(&answer.gone));
    // Those of the base were told when the trace was loaded.
    let mut notes: Vec<String> = told.filter(|note| !base.notes.contains(note)).cloned().collect();
    notes.sort();
    notes.dedup();
    let answers = answers.into_iter().map(|answer| row(answer, &base)).collect();
    Ok(Asked { answers, trust, costs: costs::named(costs), notes })
}

fn row(answer: Answer, base: &Answer) -> Row {
    let same = |a: &Answer, b: &Answer| {
        (a.memory == b.memory) && (a.work == b.work) && (a.waits == b.waits)
    };
    let peak = |answer: &Answer| answer.memory.whole_peak() as i64;
    let live_differs =
        (answer.memory.live_end != base.memory.live_end).then(|| why_live(&answer, base));
    let saved = peak(base) - peak(&answer);
    let verdict = verdict(&answer, base, saved);
    Row { is_base: same(&answer, base), saved, verdict, live_differs, answer }
}

/// What a variant saves and costs.
fn verdict(answer: &Answer, base: &Answer, saved: i64) -> String {
    let kib = saved.unsigned_abs() >> 10;
    let share = saved.unsigned_abs() as f64 / (base.memory.whole_peak().max(1) as f64) * 100.0;
    let memory = match saved {
        0 => "takes as much at the peak".into(),
        1.. => format!("saves {kib} KiB at the peak ({share:.1} %)"),
        _ => format!("takes {kib} KiB more at the peak ({share:.1} %)"),
    };
    // `few` is what less of it is called.
    let more = |few: &str, what: &str, ours: f64, theirs: f64| match (ours / theirs.max(1e-9) - 1.0)
        * 100.0
    {
        _ if theirs == 0.0 && ours == 0.0 => format!("no {what}"),
        change if change.abs() < 0.05 => format!("the same {what}"),
        change if change > 300.0 => format!("{:.1} times the {what}", change / 100.0 + 1.0),
        change if change > 0.0 => format!("{change:.1} % more {what}"),
        change => format!("{:.1} % {few} {what}", -change),
    };
    let (ours, theirs) = (&answer.work, &base.work);
    let waiting = answer.waits.as_ref().zip(base.waits.as_ref()).map_or_else(String::new, |(w, b)| {
        let percent = |share: f64| format!("{:.2} %", share * 100.0);
        format!(
            "; with {} CPUs {} of the calls' time is waiting for locks ({} in the base), and {:.0} \
             exchanges a million calls are under a list lock ({:.0})",
            w.cpus,
            percent(w.waiting),
            percent(b.waiting),
            w.exchanges_under_list_lock,
            b.exchanges_under_list_lock,
        )
    });
    format!(
        "{}: {memory}, {} and {}{waiting}",
        answer.name,
        more("less", "time in calls", ours.ns, theirs.ns),
        more("fewer", "list locks", ours.list_locks, theirs.list_locks),
    )
}

/// Why other objects are live.
fn why_live(answer: &Answer, base: &Answer) -> String {
    if let Some(gone) = answer.gone.as_ref().filter(|gone| base.gone.as_ref() != Some(*gone)) {
        return gone.clone();
    }
    if answer.out_of_memory_ns.is_some() {
        return "the run ended when memory was out".into();
    }
    if answer.changes.contains_key("tasks") {
        return "there are more tasks".into();
    }
    if answer.changes.contains_key("release") || answer.changes.contains_key("engine") {
        return "objects have other sizes there, or kfree_rcu() frees wait in sheaves".into();
    }
    "objects have other sizes there".into()
}
