//! The steps of a replay: held in memory, or made again from the trace's file whenever they are
//! needed.
//!
//! For a trace that stays in its file, memory holds the live objects, a few words for each slab,
//! and some blocks of events. To put steps in order of time, the iterator holds back the steps of
//! some blocks. A few steps run long before their event, for example a slab's first allocation if
//! no event shows which allocation requested the pages. The first pass over the steps finds such
//! steps, and later passes emit them at the time when they run.
//!
//! [`super::prepare`] makes the first passes; a replay and its checks iterate over the steps.
//! Invariant: steps that are made again equal those in memory, in the same order; only the numbers
//! of objects may differ, and the missed frees of maple trees' nodes, which only in memory are moved
//! to where they [were](super::replaced).

use super::error::Error;
use super::frames::{self, KnownSlabs, Slab};
use super::input::{CacheFacts, Input};
use super::known::{self, Known};
use super::matching::{self, Step};
use super::naming::EventNamer;
use super::numbers::Numbering;
use super::oddities::Oddities;
use super::order::Order;
use crate::event::Event;
use crate::trace::{Frames, Pass, Stored};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The steps of a trace.
#[derive(Clone)]
pub enum Steps {
    /// In memory, made before the replay begins.
    Held(Arc<Vec<Step>>),
    /// Each is made when it is its turn.
    Streamed(Arc<Streamed>),
}

impl Steps {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Steps::Held(steps) => steps.len(),
            Steps::Streamed(streamed) => streamed.len,
        }
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All, in the order in which they run.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        match self {
            Steps::Held(steps) => Iter(StepSource::Held(steps.iter())),
            Steps::Streamed(streamed) => {
                Iter(StepSource::Streamed(Box::new(Running::new(streamed))))
            }
        }
    }

    /// Those that are in memory: all or none.
    #[must_use]
    pub fn held(&self) -> &[Step] {
        match self {
            Steps::Held(steps) => steps,
            Steps::Streamed(_) => &[],
        }
    }

    /// Why an iteration ended before the last step: the file is no longer what it was.
    ///
    /// # Errors
    /// If one did.
    pub fn sound(&self) -> Result<(), Error> {
        match self {
            Steps::Held(_) => Ok(()),
            Steps::Streamed(streamed) => streamed.fault.get().cloned().map_or(Ok(()), Err),
        }
    }
}

impl Default for Steps {
    fn default() -> Steps {
        Steps::Held(Arc::default())
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} steps", self.len())
    }
}

impl PartialEq for Steps {
    fn eq(&self, other: &Steps) -> bool {
        self.len() == other.len() && self.iter().eq(other)
    }
}

impl Eq for Steps {}

impl<'a> IntoIterator for &'a Steps {
    type Item = Step;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Steps, one after the other.
pub struct Iter<'a>(StepSource<'a>);

enum StepSource<'a> {
    Held(std::slice::Iter<'a, Step>),
    Streamed(Box<Running<'a>>),
}

impl Iterator for Iter<'_> {
    type Item = Step;

    #[inline]
    fn next(&mut self) -> Option<Step> {
        match &mut self.0 {
            StepSource::Held(steps) => steps.next().copied(),
            StepSource::Streamed(running) => running.next(),
        }
    }
}

/// All that a pass over the events needs to make steps of them.
pub(super) struct Maker {
    namer: EventNamer,
    caches: Arc<[CacheFacts]>,
    frames: Frames,
    order: Order,
    begins: frames::CacheStarts,
    found: Arc<KnownSlabs>,
    /// Objects that are live at the start, as far as no event shows it.
    live: Vec<bool>,
    pub(super) known: Known,
    numbering: Numbering,
}

impl Maker {
    /// Passes over the events once, to find the slabs.
    pub(super) fn new(
        input: &Input,
        numbering: Numbering,
        oddities: &mut Oddities,
    ) -> Result<Maker, Error> {
        let namer = EventNamer::new(input);
        let caches: Arc<[CacheFacts]> = input.caches.into();
        let begins = known::begins(input);
        let mut walk = frames::Walk::find(&caches, input.frames, &begins);
        let mut pass = input.events.pass()?;
        while let Some(events) = pass.next_block()? {
            for event in events {
                let cache = namer.name(event, oddities);
                walk.event(event, cache)?;
            }
        }
        let (found, of_frames) = walk.finish(numbering)?;
        oddities.add(&of_frames);
        let (frames, order) = (input.frames, input.order);
        let mut live = matching::initially_live(&found.slabs);
        let known = known::known(input, &found.slabs, &mut live);
        let found = Arc::new(found);
        Ok(Maker { namer, caches, frames, order, begins, found, live, known, numbering })
    }

    pub(super) fn slabs(&self) -> &Arc<Vec<Slab>> {
        &self.found.slabs
    }

    pub(super) fn begin(&self) -> StepMaker<'_> {
        let slabs = self.slabs();
        StepMaker {
            maker: self,
            placing: frames::Walk::place(&self.caches, self.frames, &self.begins, &self.found),
            matching: matching::Walk::new(
                &self.caches,
                self.frames,
                slabs,
                self.order,
                self.numbering,
                self.live.clone(),
            ),
            unknown: Oddities::default(),
        }
    }
}

/// A pass that makes steps.
pub(super) struct StepMaker<'a> {
    maker: &'a Maker,
    placing: frames::Walk,
    pub(super) matching: matching::Walk,
    /// Counted by the pass before.
    unknown: Oddities,
}

impl StepMaker<'_> {
    /// Adds the steps of some events to those of [`matching::Walk::steps`].
    pub(super) fn add(&mut self, events: &[Event]) -> Result<(), Error> {
        for event in events {
            let cache = self.maker.namer.name(event, &mut self.unknown);
            let slab = self.placing.event(event, cache)?;
            self.matching.event(event, slab, &self.placing.closed)?;
        }
        Ok(())
    }
}

/// From which time on the steps of a block of events wait for their turn: that of the earliest event
/// of the block before. Those that run before it are early.
#[derive(Clone, Copy, Default)]
pub(super) struct Turns {
    floor: u64,
    last: u64,
}

impl Turns {
    /// The next block.
    pub(super) fn block(&mut self, events: &[Event]) {
        self.floor = self.floor.max(self.last);
        self.last = events.iter().map(|event| event.time).min().unwrap_or(0);
    }

    /// True of a step of this block that is too late in the trace to wait for its turn.
    pub(super) fn is_early(&self, step: &Step) -> bool {
        step.time_ns < self.floor
    }
}

/// Steps that are made anew.
pub struct Streamed {
    stored: Stored,
    maker: Maker,
    /// In the order in which they run.
    early: Vec<Step>,
    len: usize,
    fault: OnceLock<Error>,
}

impl Streamed {
    pub(super) fn new(stored: Stored, maker: Maker, mut early: Vec<Step>, len: usize) -> Streamed {
        early.sort_by_key(|step| step.time_ns);
        early.shrink_to_fit();
        Streamed { stored, maker, early, len, fault: OnceLock::new() }
    }

    /// How many steps were put where they run by their time alone.
    #[must_use]
    pub fn early(&self) -> usize {
        self.early.len()
    }
}

struct Running<'a> {
    streamed: &'a Streamed,
    pass: Option<Pass<'static>>,
    making: StepMaker<'a>,
    turns: Turns,
    /// In order; those to `ready` are next.
    waiting: Vec<Step>,
    at: usize,
    ready: usize,
    early: &'a [Step],
    done: usize,
}

impl<'a> Running<'a> {
    fn new(streamed: &'a Streamed) -> Running<'a> {
        let mut running = Running {
            streamed,
            pass: None,
            making: streamed.maker.begin(),
            turns: Turns::default(),
            waiting: Vec::new(),
            at: 0,
            ready: 0,
            early: &streamed.early,
            done: 0,
        };
        match streamed.stored.pass() {
            Ok(pass) => running.pass = Some(pass),
            Err(error) => running.fail(error.into()),
        }
        running
    }

    fn fail(&mut self, error: Error) {
        self.pass = None;
        let _first = self.streamed.fault.set(error);
    }

    #[inline]
    fn next(&mut self) -> Option<Step> {
        loop {
            let next = self.waiting[..self.ready].get(self.at).copied();
            // Where times are equal a step that is early came later in the trace.
            if let Some((early, rest)) = self.early.split_first()
                && (next.is_some_and(|next| early.time_ns < next.time_ns)
                    || next.is_none() && self.pass.is_none())
            {
                self.early = rest;
                self.done += 1;
                return Some(*early);
            }
            if next.is_some() {
                self.at += 1;
                self.done += 1;
                return next;
            }
            if self.pass.is_none() {
                self.end();
                return None;
            }
            if let Err(error) = self.block() {
                self.fail(error);
                return None;
            }
        }
    }

    /// Makes the steps of the next block.
    fn block(&mut self) -> Result<(), Error> {
        self.waiting.drain(..self.at);
        (self.at, self.ready) = (0, self.waiting.len());
        let Some(pass) = &mut self.pass else { return Ok(()) };
        let Some(events) = pass.next_block()? else {
            self.pass = None;
            return Ok(());
        };
        self.turns.block(events);
        self.making.add(events)?;
        let turns = self.turns;
        let made = self.making.matching.steps.drain(..);
        self.waiting.extend(made.filter(|step| !turns.is_early(step)));
        // What is equal stays as it is, which keeps each object's own order.
        self.waiting.sort_by_key(|step| step.time_ns);
        // No step of a later block that is not early runs before this.
        let until = self.turns.floor.max(self.turns.last);
        self.ready = self.waiting.partition_point(|step| step.time_ns < until);
        Ok(())
    }

    fn end(&mut self) {
        if self.done != self.streamed.len {
            let text = "it is not what it was when it was read first; copy it and replay the copy";
            self.fail(Error::Read(text.into()));
        }
    }
}
