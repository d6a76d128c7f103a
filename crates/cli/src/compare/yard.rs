//! How much memory one of our allocators needs beyond the live objects: the most bytes that it held
//! (committed and not returned to the kernel) minus the maximum of live bytes. Berger and others
//! call this fragmentation, as a ratio ("Hoard: a scalable memory allocator for multithreaded
//! applications", 2000); here it is a difference. The two maxima may come from different moments:
//! the bytes not live at the allocator's own maximum vary from run to run.
//!
//! The yard is sampled from outside while the program runs, and the report at the program's end is
//! one more sample. That report alone would say little about a program that frees everything before
//! it ends. Invariant: a sample of a changing yard whose bounds are far apart is not used.

use slabyard_observe::value::Value;
use slabyard_observe::{ReadScope, Snapshot, process};
use std::time::{Duration, Instant};

/// Between two looks. Each costs the looker about a millisecond and the program nothing.
const INTERVAL: Duration = Duration::from_millis(20);

/// The most that was seen.
#[derive(Default)]
pub struct Yard {
    next: Option<Instant>,
    /// Bytes held and bytes live; `None` until somebody looked.
    most: Option<(u64, u64)>,
}

impl Yard {
    /// Looks if it is time to.
    pub fn look(&mut self, pid: i32) {
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        // At the start there is none yet, at the end none any more.
        if let Ok(snapshot) = process::sample(pid.cast_unsigned(), ReadScope::default()) {
            self.add(&snapshot);
        }
        self.next = Some(Instant::now() + INTERVAL);
    }

    /// Adds a look, or the report.
    pub fn add(&mut self, snapshot: &Snapshot) {
        if let Some((bytes, live)) = held(snapshot) {
            let most = self.most.unwrap_or_default();
            self.most = Some((most.0.max(bytes), most.1.max(live)));
        }
    }

    /// Bytes; `None` if nobody looked.
    pub fn waste(&self) -> Option<u64> {
        self.most.map(|(bytes, live)| bytes.saturating_sub(live))
    }
}

/// What the system lent and has not got back, and what of it is live objects, runs and mappings.
fn held(snapshot: &Snapshot) -> Option<(u64, u64)> {
    let total = |name| snapshot.total(name).and_then(Value::bounds);
    let (committed, most_committed) = total("committed")?;
    let parts = [total("live")?, total("runs")?, total("mapped")?];
    let low: u64 = parts.iter().map(|(low, _)| low).sum();
    let high: u64 = parts.iter().map(|(_, high)| high).sum();
    let is_still = committed == most_committed;
    let exact_enough = is_still && (high - low) <= committed / 16;
    exact_enough.then(|| (committed, u64::midpoint(low, high)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_abi::counters::YardCounters;
    use slabyard_abi::report::Writer;
    use slabyard_observe::report;

    /// Beside which 100 bytes went back.
    fn report(live: u64, committed: u64) -> Snapshot {
        let yard = YardCounters {
            live,
            runs: 10,
            mapped: 5,
            committed,
            returned: 100,
            ..YardCounters::default()
        };
        let mut text = String::new();
        let mut writer = Writer::new(&mut text).unwrap();
        writer.yard(&yard).unwrap();
        writer.end().unwrap();
        report::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_most_that_was_held_less_the_most_that_was_live() {
        let mut yard = Yard::default();
        assert_eq!(yard.waste(), None);
        yard.add(&report(1600, 1900));
        yard.add(&report(700, 2000));
        yard.add(&report(0, 1800));
        assert_eq!(yard.waste(), Some(2000 - 1600 - 15));
    }

    #[test]
    fn what_a_yard_does_not_tell_exactly_enough_is_unknown() {
        let mut vague = report(0, 1600);
        let live = |high| Value::between(0, high);
        for (high, waste) in [(100, Some(1600 - 15 - 50)), (101, None)] {
            vague.totals.insert("live".into(), live(high));
            let mut yard = Yard::default();
            yard.add(&vague);
            assert_eq!(yard.waste(), waste, "{high}");
        }
        vague.totals.remove("committed");
        assert_eq!(held(&vague), None);
    }
}
