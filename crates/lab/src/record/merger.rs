//! The merger: takes the readers' batches, drops what concerns no slab, and writes the file.
//!
//! Invariant: what stands before the first event is complete when the first event is written.

use super::error::Error;
use super::merge::Merge;
use super::progress::Progress;
use super::reader::Batch;
use super::sieve::{RecorderObjects, Sieve};
use crate::event::Event;
use crate::trace::{Attached, Frames, Header, Names, Writer};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// Events that the page frames' base is found from, before the file begins.
const FIRST: usize = 1 << 17;
/// So long the file waits for these, and events for their chunk to become full.
const PATIENCE: Duration = Duration::from_secs(1);
/// zstd's level: the recorder must keep up with the machine that it runs on. Levels above cost
/// more time than the kernel's own part of a recording.
const LEVEL: i32 = 1;

/// What the file is to hold beside the events.
pub(super) enum BesideEvents {
    Attached(Attached),
    /// All that is to stand before the first event has come.
    Begin,
}

/// What it works with.
pub(super) struct Merger {
    merge: Merge,
    sieve: Sieve,
    own: RecorderObjects,
    names: Names,
    start: u64,
    most_bytes: u64,
    progress: Arc<Progress>,
}

impl Merger {
    /// Of a trace that begins at `start`, and whose file may have `most_bytes`.
    pub(super) fn new(
        merge: Merge,
        sieve: Sieve,
        start: u64,
        most_bytes: u64,
        progress: Arc<Progress>,
    ) -> Merger {
        let (own, names) = (RecorderObjects::default(), Names::new());
        Merger { merge, sieve, own, names, start, most_bytes, progress }
    }

    /// The writer, and true if the file became as large as it may.
    pub(super) fn run<W: Write>(
        mut self,
        from: &Receiver<Batch>,
        out: W,
        header: Header,
        mut attached: Vec<Attached>,
        beside: &Receiver<BesideEvents>,
    ) -> Result<(Writer<W>, bool), Error> {
        let mut ordered = Vec::new();
        let mut lost = 0;
        let mut ended = self.until_begun(from, beside, &mut attached, (&mut ordered, &mut lost));
        let frames = Frames::detect(&ordered);
        let header = Header { page_offset: frames.map(|f| f.page_offset), ..header };
        let mut writer = Writer::new(out, &header)?.with_level(LEVEL);
        for attached in &attached {
            writer.attach(attached)?;
        }
        let mut written = Instant::now();
        loop {
            writer.lost(std::mem::take(&mut lost));
            std::mem::swap(writer.names(), &mut self.names);
            for event in ordered.drain(..) {
                writer.push(&event)?;
            }
            if written.elapsed() >= PATIENCE {
                writer.flush()?;
                written = Instant::now();
            }
            while let Ok(BesideEvents::Attached(attached)) = beside.try_recv() {
                writer.attach(&attached)?;
            }
            std::mem::swap(writer.names(), &mut self.names);
            self.progress.bytes.store(writer.bytes(), Ordering::Relaxed);
            let full = writer.bytes() >= self.most_bytes;
            if ended || full {
                *writer.names() = self.names;
                return Ok((writer, full));
            }
            ended = !self.next(from, &mut ordered, &mut lost);
        }
    }

    /// Collects the first events, in which the base of the page frames shows, which stands in the
    /// header; and what is attached before them. True if there are no more events.
    fn until_begun(
        &mut self,
        from: &Receiver<Batch>,
        beside: &Receiver<BesideEvents>,
        attached: &mut Vec<Attached>,
        (ordered, lost): (&mut Vec<Event>, &mut u64),
    ) -> bool {
        let mut ended = false;
        let mut begun: Option<Instant> = None;
        loop {
            match beside.try_recv() {
                Ok(BesideEvents::Attached(one)) => attached.push(one),
                Ok(BesideEvents::Begin) | Err(TryRecvError::Disconnected) => {
                    begun.get_or_insert_with(Instant::now);
                }
                Err(TryRecvError::Empty) => {}
            }
            let has_waited = begun.is_some_and(|begun| begun.elapsed() >= PATIENCE);
            if begun.is_some() && (ended || has_waited || ordered.len() >= FIRST) {
                return ended;
            }
            if ended || ordered.len() >= FIRST {
                // It is to begin with what is still to come.
                match beside.recv() {
                    Ok(BesideEvents::Attached(one)) => attached.push(one),
                    Ok(BesideEvents::Begin) | Err(_) => begun = Some(Instant::now()),
                }
                continue;
            }
            ended = !self.next(from, ordered, lost);
        }
    }

    /// Takes the next batch, and gives what is complete with it; false at the end.
    fn next(&mut self, from: &Receiver<Batch>, ordered: &mut Vec<Event>, lost: &mut u64) -> bool {
        let Ok(batch) = from.recv() else { return false };
        *lost += batch.lost;
        self.progress.lost.fetch_add(batch.lost, Ordering::Relaxed);
        self.merge.add(batch, &mut self.names);
        let before = ordered.len();
        let mut complete = Vec::new();
        self.merge.complete(&mut complete);
        let own = self.progress.own();
        for event in complete {
            if self.own.takes(&event, own) {
                self.progress.left_out.fetch_add(1, Ordering::Relaxed);
            } else if self.sieve.passes(&event, &self.names) {
                ordered.push(Event { time: event.time.saturating_sub(self.start), ..event });
            }
        }
        self.progress.events.fetch_add((ordered.len() - before) as u64, Ordering::Relaxed);
        true
    }
}
