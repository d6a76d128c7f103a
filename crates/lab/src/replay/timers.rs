//! When a modelled kernel with SLAB reaps its caches: by timers, or when memory is short.
//!
//! In recent kernels all caches are reaped together every 2 s, and node lists every second time.
//! Linux 2.5 has timers that fire at [different times](reap); Linux 2.4 has the [clock] algorithm,
//! which runs at an interval that users set. [`super::replay`] asks for due reaps before each step;
//! the engine implements reaping. Invariant: the number of reaps is bounded by the trace's steps
//! and objects, not by its duration: once reaps find nothing left, those until the next step are
//! skipped.

use crate::rules::Slab;
use slabyard::engine::array_cache::policy::Taken;
use slabyard::engine::array_cache::{self, clock, reap};
use slabyard::sync::AtomicU32;
use slabyard_model::cache::KernelCache;
use slabyard_model::cache::arrays::Ring;
use slabyard_model::counters::Counter;

const MS: u64 = 1_000_000;
/// Rounds in which reaps take nothing, after which they never will until the next call: the first
/// forgets what was touched.
const QUIET_ROUNDS: u64 = 3;
/// The distance between caches in memory.
const CACHE_BYTES: u64 = 448;

/// When what is reaped next, in milliseconds since the trace began.
pub struct Timers {
    slab: Slab,
    /// By CPU, and by cache.
    cpus: Vec<u64>,
    caches: Vec<u64>,
    /// Of all at once: how often until now.
    turns: u64,
    hand: AtomicU32,
    /// The earliest of all.
    next_ms: u64,
    nodes: u64,
}

impl Timers {
    /// Those of a kernel of so many CPUs, caches and nodes that starts now.
    pub fn new(slab: Slab, cpus: usize, caches: usize, nodes: u16) -> Timers {
        let mut timers = Timers {
            slab,
            cpus: (0..cpus as u64).map(reap::first_ms).collect(),
            caches: (0..caches as u64).map(|nth| reap::node_first_ms(nth * CACHE_BYTES)).collect(),
            turns: 0,
            hand: AtomicU32::new(0),
            next_ms: 0,
            nodes: nodes.into(),
        };
        timers.next_ms = timers.next();
        timers
    }

    fn next(&self) -> u64 {
        let policy = self.slab.choice.reclaim;
        match policy.policy().taken {
            Taken::ByNothing => u64::MAX,
            Taken::ByClock => match self.slab.pressure_ms {
                0 => u64::MAX,
                every => (self.turns + 1) * every,
            },
            Taken::ByTimers if policy == array_cache::Reclaim::Today => {
                (self.turns + 1) * reap::PERIOD_MS
            }
            Taken::ByTimers => {
                self.cpus.iter().chain(&self.caches).copied().min().unwrap_or(u64::MAX)
            }
        }
    }

    /// Reaps all that is due at a time; memory is wanted on `cpu`. False if nothing is.
    pub fn reap(&mut self, caches: &[KernelCache], orders: &[u8], cpu: usize, ns: u64) -> bool {
        let (before, now_ms) = (self.turns, ns / MS);
        let round_ms = self.round_ms();
        // Since when reaps took nothing, and what had been taken by then.
        let mut quiet: Option<(u64, u64)> = None;
        while self.next_ms <= now_ms {
            if now_ms - self.next_ms > QUIET_ROUNDS * round_ms {
                let taken = taken(caches);
                let (since_ms, known) = *quiet.get_or_insert((self.next_ms, taken));
                if known != taken {
                    quiet = Some((self.next_ms, taken));
                } else if self.next_ms - since_ms >= QUIET_ROUNDS * round_ms {
                    self.skip((now_ms - self.next_ms) / round_ms * round_ms);
                    continue;
                }
            }
            self.turn(caches, orders, cpu);
        }
        self.turns > before
    }

    /// After this time every timer has run, for each node, and the clock's hand is where it was.
    fn round_ms(&self) -> u64 {
        match self.slab.choice.reclaim.policy().taken {
            Taken::ByClock => self.slab.pressure_ms * self.caches.len().max(1) as u64,
            Taken::ByTimers | Taken::ByNothing => reap::NODE_PERIOD_MS * self.nodes,
        }
    }

    /// Lets so much time pass without a reap: whole rounds.
    fn skip(&mut self, ms: u64) {
        self.turns += match self.slab.choice.reclaim.policy().taken {
            Taken::ByClock => ms / self.slab.pressure_ms,
            Taken::ByTimers | Taken::ByNothing => ms / reap::PERIOD_MS,
        };
        self.cpus.iter_mut().chain(&mut self.caches).for_each(|at| *at += ms);
        self.next_ms = self.next();
    }

    /// Makes the reap that is due next.
    fn turn(&mut self, caches: &[KernelCache], orders: &[u8], cpu: usize) {
        let due = self.next_ms;
        let policy = self.slab.choice.reclaim;
        self.turns += 1;
        if policy.policy().taken == Taken::ByClock {
            clock::reap(&self.hand, &Ring { caches, orders, cpu });
        } else if policy == array_cache::Reclaim::Today {
            let nodes = self.turns.is_multiple_of(reap::NODE_PERIOD_MS / reap::PERIOD_MS);
            caches.iter().for_each(|cache| cache.reap(nodes));
        } else {
            self.reap_due(caches, due);
        }
        self.next_ms = self.next();
    }

    fn reap_due(&mut self, caches: &[KernelCache], due: u64) {
        for (cpu, at) in self.cpus.iter_mut().enumerate().filter(|(_, at)| **at <= due) {
            *at += reap::PERIOD_MS;
            caches.iter().for_each(|cache| cache.reap_cpu(cpu));
        }
        for (cache, at) in caches.iter().zip(&mut self.caches).filter(|(_, at)| **at <= due) {
            *at += reap::NODE_PERIOD_MS;
            cache.reap_nodes();
        }
    }
}

/// What reaps took from all caches, and what calls did: reaps that take nothing count locks alone.
fn taken(caches: &[KernelCache]) -> u64 {
    let of = |cache: &KernelCache| {
        let counters = cache.counters();
        counters.get(Counter::SheafFlush) + counters.get(Counter::FreeSlab)
    };
    caches.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard::engine::array_cache::Choice;

    fn due(reclaim: array_cache::Reclaim, pressure_ms: u64, until: u64) -> Vec<u64> {
        let choice = Choice { reclaim, ..Choice::default() };
        let mut timers = Timers::new(Slab { choice, pressure_ms, ..Slab::default() }, 2, 0, 1);
        let mut due = Vec::new();
        while timers.next_ms <= until {
            due.push(timers.next_ms);
            timers.reap(&[], &[], 0, timers.next_ms * MS);
        }
        due
    }

    #[test]
    fn each_policy_has_its_times() {
        use array_cache::Reclaim::{Today, V2_4, V2_5_39, V2_5_45};
        assert!(due(V2_4, 0, 10_000).is_empty());
        assert_eq!(due(V2_4, 3000, 10_000), [3000, 6000, 9000]);
        assert!(due(V2_5_39, 3000, 10_000).is_empty());
        assert_eq!(due(V2_5_45, 0, 6000), [1000, 1003, 3000, 3003, 5000, 5003]);
        assert_eq!(due(Today, 0, 6000), [2000, 4000, 6000]);
    }
}
