//! `slabyard replay FILE --check`: compares the model with what the traced kernel did.
//!
//! Neighbours: [`slabyard_lab::check`] measures the errors and defines the goals; this module
//! prints both and sets the exit code accordingly. Invariant: the machine is the traced one,
//! because the trace shows only what happened on that machine; any rules may be chosen, so that a
//! user can see wrong rules fail.

use super::args::ReplayArgs;
use super::heading::heading;
use super::json::{ContradictionsJson, SettingsJson, Source, pretty};
use super::table::WhichRows;
use crate::failure::Failure;
use crate::stdout;
use crate::terminal::{Colour, Grid, Progress, percent};
use anyhow::Context as _;
use serde::Serialize;
use slabyard_ask::Listener as _;
use slabyard_ask::load::Loaded;
use slabyard_ask::prepare;
use slabyard_lab::case::Case;
use slabyard_lab::check::goals::{Context, Goal, Limit, TraceOrigin, goals};
use slabyard_lab::check::one_step::HitRate;
use slabyard_lab::check::{self, Line, Report, Spread, shown};
use slabyard_lab::prepare::Order;
use slabyard_lab::prepare::doubts::Contradictions;
use slabyard_lab::replay::Start;
use std::cmp::Reverse;
use std::fmt::Write;
use std::process::ExitCode;

/// Caches whose slabs change by less are not shown.
const SHOWN_RANGE: u32 = 10;
/// Orders of events that are tried for the spread.
const SEEDS: u64 = 4;

pub fn run(args: &ReplayArgs, loaded: &Loaded, progress: &Progress) -> Result<ExitCode, Failure> {
    same_machine(loaded)?;
    let start = args.start_state();
    let order = slabyard_lab::case::order_of(&loaded.snapshot);
    let case = prepare::case(args.rules.engine.of_kernels(), loaded, order, progress)?;
    progress.stage("replaying");
    let report = check::check(&case.plan(start)).context("the replay failed")?;
    let spread = spread(args, loaded, start, order, progress)?;
    progress.clear();
    let left_out_share = case.left_out_share;
    let traced = if order.pause_ns.is_some() { TraceOrigin::Guest } else { TraceOrigin::Hardware };
    let context = Context { prepared: &case.prepared, start, traced };
    let found =
        CheckFigures { case: &case, report: &report, spread, goals: goals(&report, &context) };
    let text = if args.json {
        json(args, loaded, start, &found)?
    } else {
        text(args, loaded, start, &found, left_out_share)
    };
    stdout::print(text.as_bytes())?;
    let doubtful = prepare::doubts(&args.trace.file(), loaded, &case, progress);
    Ok(ExitCode::from(u8::from(doubtful || !found.all_met())))
}

/// What there is to show.
struct CheckFigures<'a> {
    case: &'a Case,
    report: &'a Report,
    spread: Option<Spread>,
    goals: Vec<Goal>,
}

impl CheckFigures<'_> {
    fn all_met(&self) -> bool {
        self.goals.iter().all(|goal| goal.met != Some(false))
    }

    /// The caches with a range of at least so many slabs, largest first.
    fn caches(&self, range: u32) -> Vec<usize> {
        let lines = &self.report.caches;
        let mut caches: Vec<usize> =
            (0..lines.len()).filter(|nth| lines[*nth].real.range() >= range).collect();
        caches.sort_by_key(|nth| (Reverse(lines[*nth].real.range()), &self.case.ids[*nth]));
        caches
    }

    /// Of the caches that are judged, the share of calls that the trace shows.
    fn seen(&self) -> Option<f64> {
        let caches = &self.case.prepared.caches;
        let judged = (0..caches.len()).filter(|nth| caches[*nth].left_out.is_none());
        shown::share(&self.case.prepared, &self.report.one_step, judged)
    }

    /// The same of one cache.
    fn seen_of(&self, cache: usize) -> Option<f64> {
        shown::share(&self.case.prepared, &self.report.one_step, std::iter::once(cache))
    }

    fn left_out(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let caches = self.case.ids.iter().zip(&self.case.prepared.caches);
        caches.filter_map(|(id, cache)| Some((id.as_str(), cache.left_out?)))
    }
}

fn same_machine(loaded: &Loaded) -> Result<(), Failure> {
    let (ours, theirs) = (&loaded.settings.machine, &loaded.traced);
    let pairs = [
        ("bytes of a page", ours.page_size, theirs.page_size),
        ("CPUs online", ours.online_cpus, theirs.online_cpus),
        ("CPUs present", ours.present_cpus, theirs.present_cpus),
        ("possible CPUs", ours.possible_cpus, theirs.possible_cpus),
        ("nodes", ours.nodes, theirs.nodes),
    ];
    if ours.memoryless != theirs.memoryless {
        let text = "--check knows the truth of the traced machine alone; leave out --memoryless";
        return Err(Failure::Usage(text.into()));
    }
    match pairs.into_iter().find(|(_, ours, theirs)| ours != theirs) {
        None => Ok(()),
        Some((what, ours, theirs)) => Err(Failure::Usage(format!(
            "--check knows the truth of the traced machine alone, and {what} are {ours} here and \
             {theirs} there; leave out --page-size, --cpus, --possible-cpus and --nodes"
        ))),
    }
}

/// The figures of other orders of events, one preparation at a time in memory.
fn spread(
    args: &ReplayArgs,
    loaded: &Loaded,
    start: Start,
    order: Order,
    progress: &Progress,
) -> Result<Option<Spread>, Failure> {
    let mut all: Option<Spread> = None;
    for seed in 1..=SEEDS {
        progress.stage(&format!("shaking the order of events, {seed} of {SEEDS}"));
        let case =
            prepare::case(args.rules.engine.of_kernels(), loaded, order.shaken(seed), progress)?;
        let one = Spread::of(&case.plan(start)).context("the replay failed")?;
        all = Some(all.map_or(one, |all| all.with(one)));
    }
    Ok(all)
}

fn text(
    args: &ReplayArgs,
    loaded: &Loaded,
    start: Start,
    found: &CheckFigures<'_>,
    left_out_share: f64,
) -> String {
    let colour = Colour::of_stdout();
    let mut text = heading(args, loaded, start);
    text.push_str("slabs, as change since the start; a/b is the kernel's and the model's\n\n");
    lines(&mut text, found, if args.all { WhichRows::All } else { WhichRows::Some }, colour);
    if let Some(Spread { allocated, freed, peak, relative }) = found.spread {
        let _ = writeln!(
            text,
            "\nspread of the total with events moved by up to 0.5 µs, {SEEDS} times: error {} to \
             {}, peak {} to {}, allocated {} to {}, freed {} to {}",
            percent(Some(relative.0)),
            percent(Some(relative.1)),
            peak.0,
            peak.1,
            allocated.0,
            allocated.1,
            freed.0,
            freed.1
        );
    }
    for (id, reason) in found.left_out() {
        let _ = writeln!(text, "* {id} is left out of the total: {reason}");
    }
    missing(&mut text, found);
    told(&mut text, found.report);
    let _ = writeln!(
        text,
        "left out are {} of the slabs that the kernel made\n",
        percent(Some(left_out_share))
    );
    verdicts(&mut text, &found.goals, colour);
    text
}

/// What the trace does not show.
fn missing(text: &mut String, found: &CheckFigures<'_>) {
    let contradictions = Contradictions::of(&found.case.prepared);
    if contradictions.any() {
        let _ = writeln!(
            text,
            "{contradictions}; a cache is judged by what the trace shows of it (`seen`)"
        );
    }
    let caches = found.report.one_step.caches.iter().zip(&found.case.prepared.caches);
    let judged = caches.filter(|(_, cache)| cache.left_out.is_none());
    let unseen: u64 = judged.map(|(score, _)| score.unseen).sum();
    if unseen > 0 {
        let _ = writeln!(
            text,
            "{unseen} more allocations left no event, as the order of free objects shows: tasks \
             that are not traced hold objects"
        );
    }
}

/// What of the one-step test is bound by what no event tells.
fn told(text: &mut String, report: &Report) {
    let of = |told: u64, all: u64, rate: f64| match (told, all) {
        (_, 0) => "none".to_owned(),
        (0, all) => format!("0 of {all}"),
        (told, all) => format!("{told} of {all}, {} of them foretold", percent(Some(rate))),
    };
    let HitRate { switches, discards, certain: told, .. } = report.one_step.total;
    let _ = writeln!(
        text,
        "where events tell what is on CPUs' lists: switches {}; discards {}",
        of(told.switches, switches, told.hit_rate()),
        of(told.discards, discards, told.discard_rate()),
    );
    let Line { real, error, .. } = &report.known;
    let _ = writeln!(
        text,
        "caches of which events show 99.9 % or more: mean error {error:.2} slabs, {} of a range of \
         {}",
        percent((real.range() > 0).then(|| report.known.relative())),
        real.range()
    );
}

fn lines(text: &mut String, found: &CheckFigures<'_>, shown: WhichRows, colour: Colour) {
    let mut grid = Grid::new(&[
        "cache",
        "range",
        "error",
        "of range",
        "trivial",
        "peak",
        "allocated",
        "freed",
        "end",
        "one-step",
        "same slab",
        "discards",
        "wrong",
        "seen",
    ]);
    let caches = found.caches(if shown == WhichRows::All { 0 } else { SHOWN_RANGE });
    for nth in &caches {
        let mark = if found.case.prepared.caches[*nth].left_out.is_some() { "*" } else { "" };
        let name = format!("{}{mark}", found.case.ids[*nth]);
        let score = &found.report.one_step.caches[*nth];
        let seen = found.seen_of(*nth);
        grid.push(line(name, &found.report.caches[*nth], score, seen));
    }
    let (total, one_step) = (&found.report.total, &found.report.one_step.total);
    grid.push(line("total".into(), total, one_step, found.seen()));
    grid.write(text, colour);
    let hidden = found.report.caches.len() - caches.len();
    if hidden > 0 {
        let _ = writeln!(
            text,
            "{hidden} caches with a range below {SHOWN_RANGE} slabs are not shown: --all"
        );
    }
}

fn line(name: String, line: &Line, score: &HitRate, seen: Option<f64>) -> Vec<String> {
    let Line { real, model, .. } = line;
    let rate = |of: u64, rate: f64| percent((of > 0).then_some(rate));
    let both =
        |real: &dyn std::fmt::Display, model: &dyn std::fmt::Display| format!("{real}/{model}");
    vec![
        name,
        real.range().to_string(),
        format!("{:.2}", line.error),
        percent((real.range() > 0).then(|| line.relative())),
        format!("{:.2}", line.trivial_error),
        both(&real.peak, &model.peak),
        both(&real.allocated, &model.allocated),
        both(&real.freed, &model.freed),
        both(&real.end, &model.end),
        rate(score.switches, score.hit_rate()),
        rate(score.allocs, score.same_rate()),
        rate(score.discards, score.discard_rate()),
        score.discards_wrong.to_string(),
        percent(seen),
    ]
}

fn verdicts(text: &mut String, goals: &[Goal], colour: Colour) {
    let mut grid = Grid::new(&["goal", "measured", "limit"]);
    for goal in goals {
        let limit = match goal.limit {
            Limit::AtMost(most) => format!("at most {}", percent(Some(most))),
            Limit::AtLeast(least) => format!("at least {}", percent(Some(least))),
        };
        grid.push(vec![goal.name.into(), percent(goal.measured), limit]);
    }
    let mut table = String::new();
    grid.write(&mut table, colour);
    // Behind the columns, as colours would be counted into their widths.
    let verdicts = goals.iter().map(|goal| match goal.met {
        Some(true) => colour.green("met"),
        Some(false) => colour.red("missed"),
        None => "n/a".into(),
    });
    for (row, verdict) in table.lines().zip(std::iter::once(String::new()).chain(verdicts)) {
        let _ = writeln!(text, "{}", format!("{row}  {verdict}").trim_end());
    }
    let missed = goals.iter().filter(|goal| goal.met == Some(false)).count();
    let _ = match missed {
        0 => writeln!(text, "\n{}", colour.green("all goals are met")),
        1 => writeln!(text, "\n{}", colour.red("1 goal is missed")),
        n => writeln!(text, "\n{}", colour.red(&format!("{n} goals are missed"))),
    };
}

#[derive(Serialize)]
struct CurveJson {
    allocated: u32,
    freed: u32,
    peak: i32,
    end: i32,
}

#[derive(Serialize)]
struct ScoreJson {
    switches: u64,
    hits: u64,
    allocs: u64,
    same: u64,
    discards: u64,
    discards_made: u64,
    discards_wrong: u64,
    told: ToldJson,
}

/// Where events tell what is on CPUs' lists.
#[derive(Serialize)]
struct ToldJson {
    switches: u64,
    hits: u64,
    discards: u64,
    discards_made: u64,
}

#[derive(Serialize)]
struct LineJson<'a> {
    name: &'a str,
    left_out: Option<&'static str>,
    range: u32,
    error: f64,
    relative: Option<f64>,
    trivial_error: f64,
    real: CurveJson,
    model: CurveJson,
    one_step: ScoreJson,
    /// The share of its calls that the trace shows.
    seen: Option<f64>,
}

impl<'a> LineJson<'a> {
    fn of(
        name: &'a str,
        left_out: Option<&'static str>,
        line: &Line,
        score: &HitRate,
        seen: Option<f64>,
    ) -> Self {
        let curve = |c: &slabyard_lab::prepare::truth::Curve| CurveJson {
            allocated: c.allocated,
            freed: c.freed,
            peak: c.peak,
            end: c.end,
        };
        let HitRate {
            switches,
            hits,
            allocs,
            same,
            discards,
            discards_made,
            discards_wrong,
            unseen: _,
            certain,
        } = *score;
        let told = ToldJson {
            switches: certain.switches,
            hits: certain.hits,
            discards: certain.discards,
            discards_made: certain.discards_made,
        };
        LineJson {
            name,
            left_out,
            range: line.real.range(),
            error: line.error,
            relative: (line.real.range() > 0).then(|| line.relative()),
            trivial_error: line.trivial_error,
            real: curve(&line.real),
            model: curve(&line.model),
            one_step: ScoreJson {
                switches,
                hits,
                allocs,
                same,
                discards,
                discards_made,
                discards_wrong,
                told,
            },
            seen,
        }
    }
}

/// All slabs of the caches of which the trace shows enough.
#[derive(Serialize)]
struct KnownJson {
    range: u32,
    error: f64,
    relative: Option<f64>,
}

#[derive(Serialize)]
struct SpreadJson {
    jitter_ns: u64,
    relative: (f64, f64),
    peak: (i32, i32),
    allocated: (u32, u32),
    freed: (u32, u32),
}

#[derive(Serialize)]
struct GoalJson {
    name: &'static str,
    measured: Option<f64>,
    at_most: Option<f64>,
    at_least: Option<f64>,
    met: Option<bool>,
}

#[derive(Serialize)]
struct CheckJson<'a> {
    source: Source,
    settings: SettingsJson,
    caches: Vec<LineJson<'a>>,
    totals: LineJson<'a>,
    known: KnownJson,
    contradictions: ContradictionsJson,
    spread: Option<SpreadJson>,
    goals: Vec<GoalJson>,
    met: bool,
}

fn json(
    args: &ReplayArgs,
    loaded: &Loaded,
    start: Start,
    found: &CheckFigures<'_>,
) -> anyhow::Result<String> {
    let CheckFigures { case, report, .. } = found;
    let caches = found.caches(0).into_iter().map(|nth| {
        let left_out = case.prepared.caches[nth].left_out;
        let (line, score) = (&report.caches[nth], &report.one_step.caches[nth]);
        LineJson::of(&case.ids[nth], left_out, line, score, found.seen_of(nth))
    });
    let goals = found.goals.iter().map(|goal| {
        let (at_most, at_least) = match goal.limit {
            Limit::AtMost(most) => (Some(most), None),
            Limit::AtLeast(least) => (None, Some(least)),
        };
        GoalJson { name: goal.name, measured: goal.measured, at_most, at_least, met: goal.met }
    });
    pretty(&CheckJson {
        source: Source::of(args, loaded),
        settings: SettingsJson::of(args, loaded, start),
        caches: caches.collect(),
        totals: LineJson::of("total", None, &report.total, &report.one_step.total, found.seen()),
        known: KnownJson {
            range: report.known.real.range(),
            error: report.known.error,
            relative: (report.known.real.range() > 0).then(|| report.known.relative()),
        },
        contradictions: ContradictionsJson::of(&Contradictions::of(&case.prepared)),
        spread: found.spread.map(|s| SpreadJson {
            jitter_ns: Order::HOST.shaken(0).jitter_ns,
            relative: s.relative,
            peak: s.peak,
            allocated: s.allocated,
            freed: s.freed,
        }),
        goals: goals.collect(),
        met: found.all_met(),
    })
}
