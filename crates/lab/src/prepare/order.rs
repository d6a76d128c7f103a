//! The order in which a replay runs the events.
//!
//! The kernel traces an allocation after doing its work, and a free before doing it. The events of
//! one CPU are in order; events of two CPUs at nearly the same time may not be. So a replay runs
//! allocations a little before other CPUs' frees: this alone raised the right predictions of the
//! kernel's next slab from 65 % to 95 % on one trace. It runs a slab's first allocation when the
//! slab's pages were allocated.
//!
//! If a host preempts a virtual CPU between the work and the tracepoint, the event's time stamp is
//! after the preemption, but the replay runs the event before it.
//!
//! Whichever events are moved, the events of one object keep their order, and so do those of one
//! CPU, except for a slab's first allocation.

/// How events are shifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Allocations run this much before the time of their event: about the time between the work of
    /// the slow path and the tracepoint. Too much moves them before frees whose objects they found.
    pub lead_ns: u64,
    /// A slab's first allocation runs when the slab's pages were allocated.
    pub first_at_pages: bool,
    /// In a guest: a CPU that was silent for longer may have been stopped, and the
    /// allocation or the getting of pages that it shows first runs before the
    /// silence. `None` on a host, where silence is idleness.
    pub pause_ns: Option<u64>,
    /// Shakes each event by up to this much either way, for the spread that a figure
    /// has because the order is not known better.
    pub jitter_ns: u64,
    /// Of the jitter.
    pub seed: u64,
}

impl Order {
    /// The trace was taken on hardware.
    pub const HOST: Order =
        Order { lead_ns: 1000, first_at_pages: true, pause_ns: None, jitter_ns: 0, seed: 0 };

    /// The trace was taken in a virtual machine.
    pub const GUEST: Order = Order { pause_ns: Some(100_000), ..Order::HOST };

    /// The order of the trace, unchanged.
    pub const AS_TRACED: Order = Order { lead_ns: 0, first_at_pages: false, ..Order::HOST };

    /// The spread that figures are printed with: half a microsecond either way.
    #[must_use]
    pub fn shaken(self, seed: u64) -> Order {
        Order { jitter_ns: 500, seed, ..self }
    }
}

/// Follows the CPUs' clocks through the trace and computes when each event runs.
pub(super) struct Clocks {
    order: Order,
    cpus: Vec<Clock>,
    nth: u64,
}

#[derive(Clone, Copy, Default)]
struct Clock {
    /// Time of the last event, as traced, if there was one.
    traced: Option<u64>,
    ran: u64,
    /// The event now looked at is the first after a pause.
    paused: bool,
}

impl Clocks {
    pub(super) fn new(order: Order) -> Clocks {
        Clocks { order, cpus: Vec::new(), nth: 0 }
    }

    /// Next event. Returns its time, shaken.
    pub(super) fn event(&mut self, cpu: u16, time: u64) -> u64 {
        let cpu = cpu as usize;
        if cpu >= self.cpus.len() {
            self.cpus.resize(cpu + 1, Clock::default());
        }
        let clock = &mut self.cpus[cpu];
        clock.paused = match (self.order.pause_ns, clock.traced) {
            (Some(pause), Some(traced)) => time > traced.saturating_add(pause),
            _ => false,
        };
        clock.traced = Some(time);
        self.nth += 1;
        self.shake(time)
    }

    /// When work that was traced after it was done ran: not before `earliest`, nor
    /// before what its CPU did until then.
    pub(super) fn traced_after(&mut self, cpu: u16, time: u64, earliest: u64) -> u64 {
        let clock = &mut self.cpus[cpu as usize];
        let led = if clock.paused { 0 } else { time.saturating_sub(self.order.lead_ns) };
        clock.ran = led.max(clock.ran).max(earliest);
        clock.ran
    }

    /// When pages were allocated: no lead, as the order of pages and frees matters little.
    pub(super) fn pages_got(&mut self, cpu: u16, time: u64) -> u64 {
        let clock = &mut self.cpus[cpu as usize];
        clock.ran = if clock.paused { clock.ran } else { time.max(clock.ran) };
        clock.ran
    }

    /// When work that was traced before it began ran.
    pub(super) fn traced_before(&mut self, cpu: u16, time: u64, earliest: u64) -> u64 {
        let clock = &mut self.cpus[cpu as usize];
        clock.ran = time.max(clock.ran).max(earliest);
        clock.ran
    }

    /// When the first allocation of a slab ran, whose pages were allocated then.
    pub(super) fn first_of_slab(&mut self, cpu: u16, time: u64, pages_got: u64) -> u64 {
        if self.order.first_at_pages { pages_got } else { self.traced_after(cpu, time, pages_got) }
    }

    fn shake(&self, time: u64) -> u64 {
        let reach = self.order.jitter_ns;
        if reach == 0 {
            return time;
        }
        let random = scramble(self.order.seed.wrapping_add(scramble(self.nth)));
        time.saturating_add(random % (2 * reach + 1)).saturating_sub(reach)
    }
}

/// The finisher of SplitMix64 (Steele, Lea, Flood 2014): every bit of the number
/// changes half of the result's.
fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
