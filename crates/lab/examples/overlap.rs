//! Two CPUs compete in the slow paths of one cache: prints what the CPU slabs of a real yard
//! counted on this machine, next to what the contention model counts for the same calls at the same
//! times.
//!
//! `cargo run --release -p slabyard-lab --example overlap [-- turns=40]`
//!
//! Each row is measured in a process of its own, because a yard cannot be destroyed. Two threads,
//! each pinned to a CPU, record the time before each call; counting begins after the first half of
//! a load, which allocates the slabs. The model replays the recorded calls, each at its recorded
//! time, with the durations of [`COSTS`]. The row `no lengths` is a deliberately wrong model, in
//! which the same calls at the same times take no time: it shows that the comparison finds errors.
//!
//! The example needs two CPUs for itself. The result is in `docs/replay.md`.

use slabyard::cache::{CacheId, CacheSettings};
use slabyard::engine::Counter;
use slabyard::engine::cpu_slabs::{OnCpus, Rules};
use slabyard::platform::PerCpu;
use slabyard::platform::linux::CountingLinux;
use slabyard::yard::{Settings, Yard};
use slabyard_abi::ticks;
use slabyard_kernels::Release;
use slabyard_lab::replay::contend::COSTS;
use slabyard_model::cache::KernelCache;
use slabyard_model::cache::contention::{Costs, Counts};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::thread;
use std::time::Instant;

type OnBoth = Yard<CountingLinux, OnCpus>;

const CPUS: usize = 2;
/// Bytes of an object.
const BYTES: u32 = 256;
/// Objects that go from CPU to CPU before the other one may free the first: some lists full.
const BATCH: usize = 400;

/// What is done: who frees what a CPU allocated.
#[derive(Clone, Copy, PartialEq)]
enum Load {
    /// The second CPU frees what the first one allocates.
    Packets,
    /// Each frees what the other one allocated.
    Exchange,
    /// Each frees its own, which leaves full slabs for the node's list.
    Own,
}

const LOADS: [(&str, Load); 3] =
    [("packets", Load::Packets), ("exchange", Load::Exchange), ("own", Load::Own)];
static RELEASES: [(&str, Release); 2] = [("eager", Release::V6_1), ("delayed", Release::V6_8)];

/// What is compared: a name, the yard's counter, and the model's.
type Compared = (&'static str, Counter, fn(&Counts) -> u64);
const COMPARED: [Compared; 4] = [
    ("exchanges", Counter::CmpxchgSlab, |counts| counts.exchanges - counts.failed),
    ("failed", Counter::CmpxchgFail, |counts| counts.failed),
    ("locks", Counter::ListLock, |counts| counts.locks),
    ("waited", Counter::ListLockWaited, |counts| counts.waited),
];

/// A call, with its times on the CPUs' clocks.
#[derive(Clone, Copy)]
struct Call {
    cpu: usize,
    begun: u64,
    /// The CPU that allocated the object, and which of its objects this is.
    object: (usize, usize),
    frees: bool,
}

/// Slots for objects on their way from one CPU to the other; 0: empty.
struct Way(Vec<AtomicUsize>);

impl Way {
    fn new() -> Way {
        Way((0..2 * BATCH).map(|_| AtomicUsize::new(0)).collect())
    }

    fn put(&self, nth: usize, address: usize) {
        let slot = &self.0[nth % self.0.len()];
        while slot.load(Acquire) != 0 {
            thread::yield_now();
        }
        slot.store(address, Release);
    }

    fn take(&self, nth: usize) -> usize {
        let slot = &self.0[nth % self.0.len()];
        loop {
            match slot.swap(0, AcqRel) {
                0 => thread::yield_now(),
                address => return address,
            }
        }
    }
}

/// A thread of the load.
struct Caller<'a> {
    yard: &'a OnBoth,
    id: CacheId,
    cpu: usize,
    calls: Vec<Call>,
}

impl Caller<'_> {
    fn alloc(&mut self, nth: usize) -> usize {
        self.note(self.cpu, nth, false);
        self.yard.alloc_from(self.id).expect("memory for an object")
    }

    fn free(&mut self, (cpu, nth): (usize, usize), address: usize) {
        self.note(cpu, nth, true);
        self.yard.free_to(self.id, address).expect("an object of ours");
    }

    fn note(&mut self, cpu: usize, nth: usize, frees: bool) {
        self.calls.push(Call { cpu: self.cpu, begun: ticks!(), object: (cpu, nth), frees });
    }

    /// A batch; `ways` lead to the other CPU and from it.
    fn turn(&mut self, load: Load, nth: usize, ways: (&Way, &Way)) {
        let (numbers, other) = (nth * BATCH..(nth + 1) * BATCH, 1 - self.cpu);
        match (load, self.cpu) {
            (Load::Packets, 0) => numbers.for_each(|n| ways.0.put(n, self.alloc(n))),
            (Load::Packets, _) => numbers.for_each(|n| self.free((other, n), ways.1.take(n))),
            (Load::Exchange, _) => {
                numbers.clone().for_each(|n| ways.0.put(n, self.alloc(n)));
                numbers.for_each(|n| self.free((other, n), ways.1.take(n)));
            }
            (Load::Own, _) => {
                let held: Vec<usize> = numbers.clone().map(|n| self.alloc(n)).collect();
                numbers.zip(held).for_each(|(n, address)| self.free((self.cpu, n), address));
            }
        }
    }
}

fn pin(cpu: usize) -> Result<(), String> {
    // SAFETY: a zeroed set is an empty one; the call reads it only.
    let moved = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    if moved == 0 { Ok(()) } else { Err(format!("CPU {cpu}: {}", std::io::Error::last_os_error())) }
}

fn yard_of(release: &Release) -> Result<(&'static OnBoth, CacheId), String> {
    let yard: &'static OnBoth = Box::leak(Box::new(OnBoth::new(CountingLinux::new())));
    yard.caches().classes().iter().for_each(|cache| {
        cache.engine.follow(&Rules::of_kind(release.freezing, release.accounting, true))
    });
    let ready = yard.platform().init(None)
        && yard.platform().count_slow_paths()
        && yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 3_600_000 });
    if !ready {
        return Err("no memory for a yard".into());
    }
    let settings = CacheSettings::of(BYTES);
    let id = yard.create_cache("overlap", &settings).map_err(|why| format!("{why:?}"))?;
    Ok((yard, id))
}

/// The yard's counts of the second half, and all calls with the time at which that began.
struct OverlapRun {
    rules: Rules,
    counts: Vec<u64>,
    calls: Vec<Call>,
    half: u64,
    ns_of_tick: f64,
}

fn measure(load: Load, release: &Release, turns: usize) -> Result<OverlapRun, String> {
    let (yard, id) = yard_of(release)?;
    let cache = yard.find_cache(id).ok_or("no cache")?;
    let rules = Rules { min_partial: cache.min_partial(), ..cache.engine.rules(cache) };
    let counted = || {
        let all = yard.platform().counted(id.number()).expect("it counts");
        COMPARED.map(|(_, counter, _)| all[counter as usize])
    };
    let (ways, gate) = ([Way::new(), Way::new()], Barrier::new(CPUS));
    let (clock, tick) = (Instant::now(), ticks!());
    let one = |cpu: usize| {
        pin(cpu)?;
        yard.platform().enter();
        let calls = Vec::with_capacity(4 * turns * BATCH);
        let mut caller = Caller { yard, id, cpu, calls };
        // The pages of the notes are there before the first call.
        let nobody = Call { cpu, begun: 0, object: (0, 0), frees: false };
        caller.calls.resize(caller.calls.capacity(), nobody);
        caller.calls.clear();
        let ways = (&ways[cpu], &ways[1 - cpu]);
        gate.wait();
        (0..turns).for_each(|nth| caller.turn(load, nth, ways));
        gate.wait();
        let (before, half) = (counted(), ticks!());
        gate.wait();
        (turns..2 * turns).for_each(|nth| caller.turn(load, nth, ways));
        Ok::<_, String>((caller.calls, before, half))
    };
    let (mut calls, mut before, mut half) = (Vec::new(), [0; COMPARED.len()], 0);
    thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (0..CPUS).map(|cpu| scope.spawn(move || one(cpu))).collect();
        for thread in threads {
            let (mut of_one, counts, at) = thread.join().expect("a thread of ours")?;
            calls.append(&mut of_one);
            (before, half) = (counts, half.max(at));
        }
        Ok::<_, String>(())
    })?;
    let after = counted();
    let ns_of_tick = clock.elapsed().as_nanos() as f64 / (ticks!() - tick) as f64;
    yard.verify().ok_or("a slow path is under way")?.map_err(|what| format!("{what:?}"))?;
    let counts = after.iter().zip(before).map(|(after, before)| after - before).collect();
    Ok(OverlapRun { rules, counts, calls, half, ns_of_tick })
}

/// The model's counts of the second half.
fn model(seen: &OverlapRun, costs: Costs) -> Vec<u64> {
    let mut calls = seen.calls.clone();
    // The CPUs' clocks may differ by a little: an object is freed after its allocation.
    let mut made = [vec![0; calls.len()], vec![0; calls.len()]];
    for call in calls.iter().filter(|call| !call.frees) {
        made[call.object.0][call.object.1] = call.begun;
    }
    for call in calls.iter_mut().filter(|call| call.frees) {
        call.begun = call.begun.max(made[call.object.0][call.object.1] + 1);
    }
    calls.sort_by_key(|call| call.begun);
    let first = calls.first().map_or(0, |call| call.begun);
    let mut cache = KernelCache::new(seen.rules, &[0; CPUS]);
    cache.contend(costs);
    let mut slab_of = [vec![u32::MAX; calls.len()], vec![u32::MAX; calls.len()]];
    let mut free_at = [0; CPUS];
    let mut warm = Counts::default();
    for call in &calls {
        let time = ((call.begun - first) as f64 * seen.ns_of_tick) as u64;
        let at = time.max(free_at[call.cpu]);
        let slab = &mut slab_of[call.object.0][call.object.1];
        if call.begun < seen.half {
            warm = cache.contended();
        }
        free_at[call.cpu] = if call.frees {
            cache.call_at(call.cpu, at, time, |cache| cache.free(call.cpu, *slab)).1
        } else {
            let (of, end) = cache.call_at(call.cpu, at, time, |cache| cache.alloc(call.cpu, None));
            *slab = of;
            end
        };
        cache.take_pages();
    }
    let all = cache.contended();
    COMPARED.iter().map(|(_, _, of)| of(&all) - of(&warm)).collect()
}

/// In a process of one row.
fn row(nth: usize, turns: usize) -> Result<(), String> {
    let (load, release) = (LOADS[nth / RELEASES.len()], &RELEASES[nth % RELEASES.len()]);
    let seen = measure(load.1, &release.1, turns)?;
    let calls = seen.calls.iter().filter(|call| call.begun >= seen.half).count();
    let (by_model, no_time) = (model(&seen, COSTS), model(&seen, Costs::NONE));
    for (nth, (name, _, _)) in COMPARED.iter().enumerate() {
        let thousands = |count: u64| count as f64 * 1000.0 / calls as f64;
        let [real, by_model, no_time] =
            [seen.counts[nth], by_model[nth], no_time[nth]].map(thousands);
        println!(
            "| {} | {} | {name} | {real:.3} | {by_model:.3} | {no_time:.3} |",
            load.0, release.0
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    let (mut turns, mut only) = (40, None);
    for word in std::env::args().skip(1) {
        match word.split_once('=').map(|(name, value)| (name.to_owned(), value.parse::<usize>())) {
            Some((name, Ok(value))) if name == "turns" && value > 0 => turns = value,
            Some((name, Ok(value))) if name == "row" => only = Some(value),
            _ => {
                eprintln!("overlap: `{word}`: there is turns=N");
                return ExitCode::from(2);
            }
        }
    }
    if let Some(nth) = only {
        return match row(nth, turns) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("overlap: {why}");
                ExitCode::FAILURE
            }
        };
    }
    println!("for each thousand calls of the second half:");
    println!("| load | freezing | | yard | model | no lengths |");
    println!("|---|---|---|---:|---:|---:|");
    for nth in 0..LOADS.len() * RELEASES.len() {
        let program = std::env::current_exe().expect("this program");
        let words = [format!("row={nth}"), format!("turns={turns}")];
        match Command::new(program).args(words).stderr(Stdio::inherit()).status() {
            Ok(status) if status.success() => {}
            what => {
                eprintln!("overlap: row {nth}: {what:?}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
