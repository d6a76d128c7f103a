//! The child of a fork, wherever its parent's other threads were: they are gone at any step of any
//! slow path, with what they held, and the remaining thread repairs the yard and goes on.

use slabyard::calls::trim;
use slabyard::engine::cpu_slabs::OnCpus;
use slabyard::engine::sheaves::SheavesOnNodes;
use slabyard::engine::{ArrayCaches, Engine, Sheaves, Slob, Tiny};
use slabyard::observe::count;
use slabyard::platform::{Park, PerCpu, Planted, Repair, Slot};
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Body, Config, Machine};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use slabyard_testkit::Random;

/// Live blocks: address and bytes. One that a thread is about to free, or about to get, is not there.
type Live = Mutex<BTreeMap<usize, usize>>;

const WORKERS: u64 = 3;
/// Most objects that a thread has in its hands: two sheaves.
const IN_HANDS: u64 = 2 * 1022;

fn yard_on<E: Engine>(config: Config) -> Yard<Machine, E> {
    let yard = Yard::new(Machine::new(config));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    yard
}

fn size(random: &mut Random) -> usize {
    const SIZES: [usize; 12] =
        [16, 48, 64, 200, 700, 3000, 6000, 12_000, 30_000, 40_000, 150_000, 2 << 20];
    SIZES[random.below(SIZES.len())]
}

fn take_any(live: &Live, random: &mut Random) -> Option<usize> {
    let mut live = live.lock().unwrap();
    let nth = random.below(live.len().max(1));
    let address = *live.keys().nth(nth)?;
    live.remove(&address);
    Some(address)
}

fn work<E: Engine>(yard: &Yard<Machine, E>, machine: &Machine, live: &Live, random: &mut Random) {
    match random.below(100) {
        0 => drop(yard.trim()),
        1 => drop(yard.verify().map(|found| found.expect("a sound yard"))),
        2 => machine.advance(40),
        3 => trim::drain_thread(yard),
        4..55 => {
            for _ in 0..1 + random.below(12) {
                let bytes = size(random);
                let address = yard.alloc_fast(bytes, 16).expect("memory");
                assert_eq!(live.lock().unwrap().insert(address, bytes), None);
            }
        }
        55..60 => {
            let Some(address) = take_any(live, random) else { return };
            let bytes = size(random);
            if let Some(moved) = yard.resize(address, bytes) {
                live.lock().unwrap().insert(moved, bytes);
            } else {
                yard.free_fast(address).expect("a live block");
            }
        }
        _ => {
            for _ in 0..1 + random.below(12) {
                let Some(address) = take_any(live, random) else { return };
                yard.free_fast(address).expect("a live block");
            }
        }
    }
}

/// What the child does: it checks the yard, uses it, frees what its parent had, and checks again.
fn live_as_child<E: Engine>(yard: &Yard<Machine, E>, live: &Live, random: &mut Random) {
    if !yard.platform().config().can_stop {
        // The private rows of threads that are gone, as a handler does on Linux.
        let own = yard.platform().row_hint();
        trim::adopt_rows(yard, (1..=WORKERS as usize + 1).filter(|row| Some(*row) != own));
    }
    let first = yard.verify().expect("outside of a slow path");
    first.unwrap_or_else(|fault| panic!("repaired: {fault}"));
    let rows = yard.platform().rows();
    for (row, slot) in (0..rows.len()).flat_map(|row| (2..130).map(move |slot| (row, slot))) {
        assert!(!rows.entry(row, Slot(slot)).is_stopped(), "row {row}, slot {slot} is stopped");
    }
    let mut all = live.lock().unwrap().clone();
    let mut own = Vec::new();
    for _ in 0..300 {
        let bytes = size(random);
        let address = yard.alloc(bytes, 16).expect("memory");
        let before = all.range(..address + bytes).next_back();
        if let Some((at, n)) = before {
            assert!(at + n <= address, "{bytes} at {address:#x} within {n} live at {at:#x}");
        }
        all.insert(address, bytes);
        own.push(address);
    }
    yard.verify().expect("outside").unwrap_or_else(|fault| panic!("used: {fault}"));
    for address in all.into_keys() {
        yard.free(address).unwrap_or_else(|place| panic!("a live block is {place:?}"));
    }
    yard.trim();
    let sound = yard.verify().expect("outside");
    let sound = sound.unwrap_or_else(|fault| panic!("freed: {fault}"));
    assert_eq!(count::set_aside(&yard.heap), 0, "no object was freed twice");
    assert!(sound.live <= WORKERS * IN_HANDS, "{} objects are lost", sound.live);
    // A thread that moves a block has two.
    assert!(sound.runs <= 2 * WORKERS, "{} runs are lost", sound.runs);
}

/// A machine of more nodes than most engines ask for.
fn config(seed: u64, can_stop: bool) -> Config {
    Config { seed, can_stop, preemption: 300, nodes: 2, ..Config::default() }
}

fn fork_once<E: Engine>(config: Config, plant: impl Fn(&Yard<Machine, E>)) {
    let seed = config.seed;
    let yard = yard_on::<E>(config);
    plant(&yard);
    let live = Live::default();
    let mut bodies: Vec<Body<'_>> = (0..WORKERS)
        .map(|n| -> Body<'_> {
            let (yard, live) = (&yard, &live);
            Box::new(move |machine| {
                let mut random = Random::new(seed << 8 ^ n);
                loop {
                    work(yard, machine, live, &mut random);
                    // The end of the run ends it.
                    machine.step();
                }
            })
        })
        .collect();
    bodies.push(Box::new(|machine| {
        let mut random = Random::new(!seed);
        for _ in 0..random.below(60) {
            work(&yard, machine, &live, &mut random);
        }
        for _ in 0..random.below(3000) {
            machine.step();
        }
        machine.begin_child();
        live_as_child(&yard, &live, &mut random);
    }));
    yard.platform().run(bodies);
}

fn fork_often<E: Engine>() {
    fork_often_on::<E>(2);
}

fn fork_often_on<E: Engine>(nodes: usize) {
    // More of them by hand.
    let seeds =
        std::env::var("SLABYARD_FORKS").map_or(30, |seeds| seeds.parse().expect("a number"));
    for seed in 0..seeds {
        for can_stop in [true, false] {
            let forked = || fork_once::<E>(Config { nodes, ..config(seed, can_stop) }, |_| ());
            if let Err(panic) = catch_unwind(AssertUnwindSafe(forked)) {
                eprintln!("seed {seed}, rows of CPUs: {can_stop}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Caches of which the child of a fork lost objects, where one thread drains many stacks at once.
fn caches_lost_in_a_drain(seed: u64, planted: Option<Planted>) -> usize {
    let yard = yard_on::<Sheaves>(Config { nodes: 1, ..config(seed, true) });
    planted.into_iter().for_each(|bug| yard.platform().plant(bug));
    let lost = Mutex::new(0);
    let drainer: Body<'_> = Box::new(|machine| {
        loop {
            for bytes in (16..400).step_by(16) {
                let object = yard.alloc_fast(bytes, 16).expect("memory");
                yard.free_fast(object).expect("a live object");
            }
            yard.trim();
            machine.step();
        }
    });
    let forker: Body<'_> = Box::new(|machine| {
        // Then it has been through a slow path before, and the drainer's time is known.
        yard.alloc_fast(16, 16).expect("memory");
        for _ in 0..seed % 2000 {
            machine.step();
        }
        machine.begin_child();
        yard.trim();
        let all = yard.caches().numbers().filter(|number| yard.caches().get(*number).out() > 0);
        *lost.lock().unwrap() = all.count();
    });
    yard.platform().run(vec![drainer, forker]);
    lost.into_inner().unwrap()
}

/// A thread that stops many stacks with one fence has one of them in its hands.
#[test]
fn a_drain_loses_one_stack_to_a_fork() {
    for seed in 0..if cfg!(debug_assertions) { 300 } else { 1000 } {
        let lost = caches_lost_in_a_drain(seed, None);
        // And the object that the child holds.
        assert!(lost <= 2, "seed {seed}: objects of {lost} caches are lost");
    }
    let bug = Some(Planted::Unrepaired(Repair::Stopped));
    assert!((0..1000).any(|seed| caches_lost_in_a_drain(seed, bug) > 2));
}

#[test]
fn a_child_repairs_sheaves() {
    fork_often_on::<Sheaves>(1);
}

#[test]
fn a_child_repairs_tiny() {
    fork_often::<Tiny>();
}

#[test]
fn a_child_repairs_slob() {
    fork_often::<Slob>();
}

#[test]
fn a_child_repairs_cpu_slabs() {
    fork_often::<OnCpus>();
}

#[test]
fn a_child_repairs_array_caches() {
    fork_often_on::<ArrayCaches>(1);
}

#[test]
fn a_child_repairs_nodes() {
    fork_often::<ArrayCaches>();
    fork_often::<SheavesOnNodes>();
}

/// Without the repair, and with each part of it left out, some child finds the yard unsound or
/// waits for a thread that does not exist.
#[test]
fn what_is_not_repaired_is_found() {
    for part in [Repair::All, Repair::Caches, Repair::Stopped, Repair::Slabs] {
        let planted = Planted::Unrepaired(part);
        let found = (0..400).any(|seed| {
            let forked =
                || fork_once::<Sheaves>(config(seed, true), |yard| yard.platform().plant(planted));
            catch_unwind(AssertUnwindSafe(forked)).is_err()
        });
        assert!(found, "the part {part:?} of the repair is not needed");
    }
}
