//! The whole answer about some loads: the front, the point to take, what to write for single caches, and
//! what loads said of these that took no part in the search.
//!
//! Neighbours: [`super::Search`] searches, [`super::judge`] holds against other loads. Invariant: what did
//! not hold on each judging load is never recommended, nor is said how to apply it.

use super::judge::{self, HeldOut, Verdict, held_out};
use super::single::{Goal, Singles};
use super::{Point, Search, best, knobs};
use crate::files::shown;
use crate::load::{self, Loaded, TraceFile};
use crate::question::Question;
use crate::{Error, Listener};
use serde::Serialize;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// All that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Tuned {
    /// The front, smallest first, and the default.
    pub front: Vec<Point>,
    /// The smallest that takes no more work than the default, if it held.
    pub recommended: Option<String>,
    /// How a kernel is given it.
    pub apply: Vec<String>,
    /// The same, where it did not hold.
    pub refused: Option<String>,
    /// What each judging load said; null: without it nothing was better than the default.
    pub judges: Vec<Option<Verdict>>,
    /// The range of what they said; null where fewer than two recordings judged.
    pub held_out: Option<HeldOut>,
    /// What is worth writing for single caches, by what it makes little.
    pub single_caches: Vec<JudgedSingles>,
    /// The files of single caches that this kernel lets be written.
    pub writable: Vec<&'static str>,
    /// How many settings for all caches were compared.
    pub settings: usize,
    /// Replays made.
    pub replays: usize,
    /// One load was cut: its first half was searched, and its second judged.
    #[serde(skip)]
    pub is_halved: bool,
}

/// What was found for single caches, beside what is recommended or the default.
#[derive(Clone, Debug, Serialize)]
pub struct JudgedSingles {
    /// What to write.
    #[serde(flatten)]
    pub singles: Singles,
    /// As for the front.
    pub judges: Vec<Option<Verdict>>,
    /// How a kernel is given it; nothing where it did not hold.
    pub apply: Vec<String>,
}

impl JudgedSingles {
    /// With what each judging load said.
    #[must_use]
    pub fn new(singles: Singles, judges: Vec<Option<Verdict>>) -> JudgedSingles {
        let apply = if hold(&judges) { singles.apply() } else { Vec::new() };
        JudgedSingles { singles, judges, apply }
    }
}

fn hold(judges: &[Option<Verdict>]) -> bool {
    judges.iter().all(|it| it.as_ref().is_some_and(|it| it.holds))
}

impl Tuned {
    /// A front with what was said of its best point, and nothing for single caches yet.
    #[must_use]
    pub fn of_front(
        front: Vec<Point>,
        judges: Vec<Option<Verdict>>,
        writable: Vec<&'static str>,
    ) -> Tuned {
        let best = best(&front);
        let recommended = best.filter(|_| hold(&judges));
        let name = |point: &Point| point.name.clone();
        Tuned {
            recommended: recommended.map(name),
            apply: recommended.map(|it| knobs::apply(&it.changes)).unwrap_or_default(),
            refused: best.filter(|_| recommended.is_none()).map(name),
            held_out: held_out(&judges),
            judges,
            single_caches: Vec::new(),
            writable,
            settings: 0,
            replays: 0,
            is_halved: false,
            front,
        }
    }

    /// True if there is something to apply.
    #[must_use]
    pub fn is_recommended(&self) -> bool {
        self.recommended.is_some() || self.single_caches.iter().any(|it| !it.apply.is_empty())
    }
}

/// Tunes for the loads of traces. With several each judges what is best for the others; one is cut into
/// halves by time.
///
/// # Errors
/// Where there is no trace, or one cannot be read or cut; as [`Search::new`] and [`Search::front`].
pub fn tune(files: &[PathBuf], base: &Question, listener: &dyn Listener) -> Result<Tuned, Error> {
    if files.is_empty() {
        return Err(Error::Usage("tune needs the files of one trace or more".into()));
    }
    let (names, loads) = loads(files, base, listener)?;
    let mut search = Search::new(&loads, base, listener)?;
    let is_halved = files.len() == 1;
    let judging = if is_halved { 1..2 } else { 0..loads.len() };
    let mut judges = Vec::new();
    for nth in judging.clone() {
        judges.push(judge::without(&mut search, nth, &names[nth], listener)?);
    }
    // Of a load that was cut the second half only judges.
    let on: Vec<usize> = if is_halved { vec![0] } else { (0..loads.len()).collect() };
    let front = search.front(&on, listener)?;
    let found = Tuned::of_front(front, judges, search.writable());
    let single_caches = singles(&mut search, &found, &on, (&judging, &names), listener)?;
    let (settings, replays) = search.effort();
    Ok(Tuned { single_caches, settings, replays, is_halved, ..found })
}

/// What to write for single caches beside what is recommended for all, or beside the default.
fn singles(
    search: &mut Search<'_>,
    found: &Tuned,
    on: &[usize],
    (judging, names): (&Range<usize>, &[String]),
    listener: &dyn Listener,
) -> Result<Vec<JudgedSingles>, Error> {
    let recommended = best(&found.front).filter(|_| found.recommended.is_some());
    let beside = recommended.map(|point| point.changes.clone()).unwrap_or_default();
    let mut all = Vec::new();
    for goal in Goal::ALL {
        let Some(singles) = search.singles(on, &beside, goal, listener)? else { continue };
        let mut verdicts = Vec::new();
        for nth in judging.clone() {
            let how = (goal, recommended.is_some());
            verdicts.push(judge::singles_without(search, nth, &names[nth], how, listener)?);
        }
        all.push(JudgedSingles::new(singles, verdicts));
    }
    Ok(all)
}

/// The loads, and what to call them: one alone as its two halves.
fn loads(
    files: &[PathBuf],
    base: &Question,
    listener: &dyn Listener,
) -> Result<(Vec<String>, Vec<Loaded>), Error> {
    let load = |file: &Path| -> Result<Loaded, Error> {
        let file = TraceFile { file: file.to_owned(), ..TraceFile::default() };
        load::load(&file, &base.wanted, listener)
    };
    if let [file] = files {
        let halves = judge::halves(load(file)?)?;
        let names = ["first", "second"].map(|half| format!("{}, {half} half", shown(file)));
        return Ok((names.into(), halves.into()));
    }
    let loads = files.iter().map(|file| load(file)).collect::<Result<_, _>>()?;
    Ok((files.iter().map(|file| shown(file)).collect(), loads))
}
