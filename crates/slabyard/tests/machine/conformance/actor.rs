//! The body of all conformance runs: an actor makes seeded calls to a yard and records them in the
//! oracle.
//!
//! Alone on the machine, it compares the whole yard with the oracle after every
//! call. With others, an allocation leaves the oracle before the call that
//! frees it and enters it after the call that made it: what two threads get at
//! the same time is found.

use super::books;
use super::oracle::{Allocation, BlockKind, Oracle};
use slabyard::cache::classes;
use slabyard::calls::trim;
use slabyard::debugging;
use slabyard::engine::Engine;
use slabyard::platform::stack::SLOTS;
use slabyard::platform::{GRANULE, PerCpu, Slot, Threads, stop};
use slabyard::sync::Ordering;
use slabyard::yard::{AddressKind, LARGEST_RUN, Yard};
use slabyard_abi::region::row;
use slabyard_testkit::Random;
use slabyard_testkit::machine::Machine;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub bytes: usize,
    pub align: usize,
}

/// By which way a call comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The fast path first, as `malloc` and `free` do.
    Fast,
    /// The slow path at once.
    Slow,
    /// From a handler that interrupted a slow path of this thread.
    Nested,
}

/// Who else uses the yard.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Company {
    Alone,
    Others,
}

pub struct Actor<'a, E> {
    pub yard: &'a Yard<Machine, E>,
    pub oracle: &'a Mutex<Oracle>,
    pub random: Random,
    pub company: Company,
    /// Requests that come again and again, so that sheaves fill and slabs empty.
    favourites: [Request; 3],
    /// Percent of the calls that allocate: the tide turns now and then.
    tide: usize,
    /// Allocations that got nothing.
    pub refused: u32,
}

/// A request of any size and alignment.
pub fn any_request(random: &mut Random) -> Request {
    let bytes = match random.below(100) {
        0..2 => random.below(2),
        2..55 => random.below(513),
        55..85 => random.below(classes::LARGEST + 1),
        85..95 => classes::LARGEST + 1 + random.below(128 << 10),
        95..98 => classes::LARGEST + 1 + random.below(LARGEST_RUN - classes::LARGEST),
        _ => LARGEST_RUN + 1 + random.below(2 << 20),
    };
    let align = if random.chance(12) { 1 << random.below(32) } else { 16 };
    Request { bytes, align }
}

/// Calls `f` as a handler would that interrupted a slow path of this thread.
pub fn nested<R>(machine: &Machine, f: impl FnOnce() -> R) -> R {
    let depth = &machine.thread().depth;
    // Bit 0 says so; the others count.
    assert_eq!(depth.fetch_or(1, Ordering::Relaxed) & 1, 0);
    let result = f();
    assert_eq!(depth.fetch_and(!1, Ordering::Relaxed) & 1, 1);
    result
}

impl<'a, E: Engine> Actor<'a, E> {
    pub fn new(
        yard: &'a Yard<Machine, E>,
        oracle: &'a Mutex<Oracle>,
        seed: u64,
        company: Company,
    ) -> Self {
        let mut random = Random::new(seed);
        // Thousands of blocks so far apart do not fit: of a few the alignment may be large.
        let favourites = std::array::from_fn(|_| {
            let Request { bytes, align } = any_request(&mut random);
            Request { bytes, align: align.min(256 << 10) }
        });
        Actor { yard, oracle, random, company, favourites, tide: 60, refused: 0 }
    }

    pub fn books(&self) -> MutexGuard<'a, Oracle> {
        self.oracle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_alone(&self) -> bool {
        self.company == Company::Alone
    }

    fn request(&mut self) -> Request {
        if self.random.chance(80) {
            return self.favourites[self.random.below(self.favourites.len())];
        }
        any_request(&mut self.random)
    }

    fn way(&mut self) -> Way {
        match self.random.below(20) {
            0 => Way::Nested,
            1..5 => Way::Slow,
            // While frees are deferred, the test must know which call does them.
            _ if !self.books().deferred.is_empty() => Way::Slow,
            _ => Way::Fast,
        }
    }

    /// One call, or a change of the machine.
    pub fn step(&mut self) {
        if self.random.chance(2) {
            self.tide = [15, 40, 60, 85][self.random.below(4)];
        }
        match self.random.below(100) {
            0..86 => {
                let way = self.way();
                if self.random.chance(self.tide) {
                    let request = self.request();
                    let many = if self.random.chance(10) { 40 } else { 1 };
                    for _ in 0..many {
                        self.alloc(request, way);
                    }
                } else {
                    let many = if self.random.chance(10) { 40 } else { 1 };
                    for _ in 0..many {
                        self.free(way);
                    }
                }
            }
            86..91 => self.resize(),
            91..93 => self.free_wrongly(),
            93..96 => self.yard.platform().advance(self.random.next() % 120),
            96 => self.trim(),
            97 if self.is_alone() => self.with_stopped_stacks(),
            _ if self.is_alone() => {
                let cpus = self.yard.platform().config().cpus;
                self.yard.platform().set_cpu(self.random.below(cpus));
            }
            _ => {}
        }
    }

    /// Allocates: the address must be free, aligned, and large enough.
    pub fn alloc(&mut self, request: Request, way: Way) -> Option<usize> {
        let (yard, Request { bytes, align }) = (self.yard, request);
        let got = match way {
            Way::Fast => yard.alloc_fast(bytes, align),
            Way::Slow => yard.alloc(bytes, align),
            Way::Nested => nested(yard.platform(), || yard.alloc(bytes, align)),
        };
        match got {
            Some(address) => {
                assert!(address.is_multiple_of(align.max(16)), "{address:#x} for {request:?}");
                let held = self.look(address);
                assert!(held.bytes >= bytes, "{held:x?} for {request:?}");
                assert!(way != Way::Nested || held.kind == BlockKind::Mapping, "{held:x?}");
                self.books().give(held);
            }
            None => self.refused += 1,
        }
        if way == Way::Slow {
            self.deferred_are_done();
        }
        got
    }

    /// What the yard says of a live allocation.
    fn look(&self, address: usize) -> Allocation {
        let yard = self.yard;
        let (kind, bytes) = match yard.place_of(address) {
            AddressKind::Object { begin: true, bytes, .. } => (BlockKind::Slab, bytes),
            AddressKind::Large(bytes) if yard.heap.mappings.bytes_of(address).is_some() => {
                (BlockKind::Mapping, bytes)
            }
            AddressKind::Large(bytes) => (BlockKind::Run, bytes),
            other => panic!("{address:#x} is live, and the yard says {other:?}"),
        };
        assert_eq!(yard.usable(address), Some(bytes));
        Allocation { address, bytes, kind }
    }

    /// Frees any allocation. False if there is none.
    pub fn free(&mut self, way: Way) -> bool {
        let Some(held) = self.oracle.lock().unwrap().take(&mut self.random) else {
            return false;
        };
        let yard = self.yard;
        assert_eq!(self.look(held.address), held, "it changed while it was held");
        let freed = match way {
            Way::Fast => yard.free_fast(held.address),
            Way::Slow => yard.free(held.address),
            Way::Nested => nested(yard.platform(), || yard.free(held.address)),
        };
        assert_eq!(freed, Ok(()), "{held:x?}");
        // With others, the deferred free may be done already.
        if way == Way::Nested && held.kind != BlockKind::Mapping && self.is_alone() {
            self.books().deferred.push(held);
        }
        if way == Way::Slow {
            self.deferred_are_done();
        }
        true
    }

    /// The call that just returned made a slow path, and did what was deferred.
    fn deferred_are_done(&self) {
        self.books().deferred.clear();
    }

    fn resize(&mut self) {
        let Some(held) = self.oracle.lock().unwrap().take(&mut self.random) else {
            return;
        };
        let (yard, wish) = (self.yard, any_request(&mut self.random).bytes);
        let bytes = if self.random.chance(50) { held.bytes - held.bytes / 3 } else { wish };
        let way = if self.random.chance(5) { Way::Nested } else { Way::Slow };
        if way == Way::Slow && !self.books().deferred.is_empty() {
            // Whether a resize makes a slow path is its own affair.
            trim::drain_thread(yard);
            self.deferred_are_done();
        }
        let resized = match way {
            Way::Nested => nested(yard.platform(), || yard.resize(held.address, bytes)),
            _ => yard.resize(held.address, bytes),
        };
        let now = self.look(resized.unwrap_or(held.address));
        match resized {
            None => assert_eq!(now, held, "refused, and yet it changed"),
            Some(address) => {
                // A large run that has no room moves its pages out.
                let may_be_mapping = held.kind == BlockKind::Run && held.bytes > LARGEST_RUN;
                let is_kept = now.kind == held.kind;
                assert!(
                    now.bytes >= bytes
                        && (is_kept || may_be_mapping && now.kind == BlockKind::Mapping),
                    "{held:x?} is {now:x?}"
                );
                assert!(address == held.address || now.kind == BlockKind::Mapping);
            }
        }
        self.books().give(now);
    }

    /// Frees what is no live allocation: the yard must say what it is instead.
    fn free_wrongly(&mut self) {
        assert_eq!(self.yard.free(0x1000), Err(AddressKind::Foreign));
        self.deferred_are_done();
        let Some(held) = self.oracle.lock().unwrap().take(&mut self.random) else {
            return;
        };
        let findings = self.yard.findings();
        let inside = self.yard.free(held.address + 8);
        match held.kind {
            BlockKind::Slab if debugging::is_debugged(self.yard, held.address) => {
                assert!(inside.is_ok() && self.yard.findings() > findings, "{held:x?}");
            }
            BlockKind::Slab => {
                let found = matches!(inside, Err(AddressKind::Object { begin: false, .. }));
                assert!(found, "{inside:?} for the middle of {held:x?}");
            }
            BlockKind::Run | BlockKind::Mapping => {
                assert_eq!(inside, Err(AddressKind::Inside), "{held:x?}");
                let last = held.address + held.bytes - GRANULE;
                if last != held.address {
                    assert_eq!(self.yard.free(last), Err(AddressKind::Inside), "{held:x?}");
                }
            }
        }
        if held.kind == BlockKind::Slab || !self.is_alone() {
            return self.books().give(held);
        }
        assert_eq!(self.yard.free(held.address), Ok(()));
        let again = self.yard.free(held.address);
        let gone =
            if held.kind == BlockKind::Run { AddressKind::Free } else { AddressKind::Foreign };
        assert_eq!(again, Err(gone), "freed twice: {held:x?}");
    }

    fn trim(&mut self) {
        let before = self.yard.platform().given_back_bytes();
        let went = self.yard.trim();
        self.deferred_are_done();
        if self.is_alone() {
            let gave = self.yard.platform().given_back_bytes() > before;
            assert!(gave || !went, "trim says that memory went back");
        }
    }

    /// Some stacks of this CPU are stopped, as they are while another thread
    /// drains them: calls are served past them.
    fn with_stopped_stacks(&mut self) {
        let machine = self.yard.platform();
        let Some(row) = machine.row_hint().filter(|_| machine.can_stop()) else {
            return;
        };
        // A fast call that turns out slow does what was deferred, and the next one may get such an
        // object at once: a CPU slab below stopped sheaves is last in, first out.
        trim::drain_thread(self.yard);
        self.deferred_are_done();
        let percent = [20, 100][self.random.below(2)];
        let mut stops: Vec<_> = (row::FIRST_RUNS as u16..SLOTS as u16)
            .filter(|_| self.random.chance(percent))
            .filter(|slot| !machine.rows().entry(row, Slot(*slot)).is_none())
            .map(|slot| (row, Slot(slot), 0))
            .collect();
        assert!(stop(machine, &mut stops, &|_, _, _| ()));
        for _ in 0..20 {
            let request = self.request();
            match self.random.below(4) {
                0 => drop(self.alloc(request, Way::Fast)),
                1 => drop(self.alloc(request, Way::Slow)),
                2 => drop(self.free(Way::Fast)),
                _ => drop(self.free(Way::Slow)),
            }
        }
        for (row, slot, top) in stops {
            let entry = machine.rows().entry(row, slot);
            assert!(entry.is_stopped(), "{slot:?} was started by another");
            entry.start(top);
        }
    }

    /// The whole yard against the oracle.
    pub fn check(&self) {
        let sums = self.books().sums();
        books::inspect(self.yard, &sums).unwrap();
        books::audit(self.yard, &sums).unwrap();
    }

    /// Frees everything, and finds the yard empty.
    pub fn finish(&mut self) {
        while self.books().len() > 0 {
            let way = if self.random.chance(30) { Way::Slow } else { Way::Fast };
            self.free(way);
        }
        self.yard.trim();
        self.deferred_are_done();
        books::empty(self.yard).unwrap();
    }
}
