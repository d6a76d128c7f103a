//! Yards in shared memory whose users are killed: at each store of each kind of call, during a
//! repair, and at random. A survivor finds a consistent yard that has lost at most the block that
//! the call concerned.
//!
//! This is a separate program, because its children are forked and killed: no thread of another
//! test may hold a lock then. In the first test, the child that makes the calls is single-stepped
//! through them. After each step that changed memory, the parent sets the lock's word as the kernel
//! does at the owner's death, does what a survivor would do, and restores everything. At some of
//! the steps it really kills the child. With `SLABYARD_EACH_STORE=1` a death is tried at each
//! store, otherwise at some stores.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

#[path = "robust/scene.rs"]
mod scene;
#[path = "robust/stepper.rs"]
mod stepper;
#[path = "robust/workers.rs"]
mod workers;

use scene::{Block, Call, Done, Random, Scene, call};
use slabyard_fixed::planted::Planted;
use slabyard_fixed::{CpuSlab, FixedEngine, Settings, Slab, Slob, Slub, Tiny};
use stepper::{Step, Stepper, stay_on_this_cpu};

const SETTINGS: Settings = Settings { cpu_partial: 12, sheaf_objects: 6, ..Settings::DEFAULT };

/// What a walk through calls saw.
#[derive(Debug, Default)]
struct RepairTally {
    steps: u32,
    deaths: u32,
    repaired: u32,
    filled: u32,
}

/// What there is before each call, and after the last.
struct Course {
    /// Room for objects: what a survivor must find of it.
    rooms: Vec<u32>,
    /// Bytes that each call changes.
    changes: Vec<usize>,
}

/// Makes the calls without a death, and puts everything back.
fn course<E: FixedEngine>(scene: &Scene<E>, calls: &[Call]) -> Result<Course, String> {
    let begun = scene.memory().to_vec();
    let (mut rooms, mut changes, mut last) = (Vec::new(), Vec::new(), begun.clone());
    for nth in 0..=calls.len() {
        rooms.push(scene.room()?);
        scene.restore(&last);
        if let Some(what) = calls.get(nth) {
            call(scene.yard, *what);
            changes.push(scene.memory().iter().zip(&last).filter(|(new, old)| new != old).count());
            last.copy_from_slice(scene.memory());
        }
    }
    scene.restore(&begun);
    Ok(Course { rooms, changes })
}

fn is_thorough() -> bool {
    std::env::var_os("SLABYARD_EACH_STORE").is_some()
}

/// The calls to step through: the one that changes most.
fn chosen(changes: &[usize]) -> Vec<bool> {
    let mut order: Vec<_> = (0..changes.len()).collect();
    order.sort_by_key(|nth| std::cmp::Reverse(changes[*nth]));
    let place = |nth: usize| order.iter().position(|other| *other == nth).unwrap_or(0);
    (0..changes.len()).map(|nth| is_thorough() || place(nth) == 0).collect()
}

/// Steps a child through calls, and lets it die at each store, or at one in `of`. Blocks that the
/// calls free may be gone.
fn die_at_stores<E: FixedEngine>(
    scene: &Scene<E>,
    calls: &[Call],
    of: usize,
) -> Result<RepairTally, String> {
    let Course { rooms, changes } = course(scene, calls)?;
    let begun = scene.memory().to_vec();
    // To ask is a call, which repairs.
    let cut_before = scene.yard.cut_calls();
    scene.restore(&begun);
    let chosen = chosen(&changes);
    let Some(child) = Stepper::begin(|stop| {
        for what in calls {
            call(scene.yard, *what);
            stop();
        }
    }) else {
        eprintln!("skipped: ptrace is refused here");
        return Ok(RepairTally::default());
    };
    let (mut seen, mut last) = (RepairTally::default(), scene.memory().to_vec());
    let mut random = Random(calls.len() as u64 + 77);
    for (nth, is_chosen) in chosen.iter().enumerate() {
        if !is_chosen {
            child.go_on();
            last.copy_from_slice(scene.memory());
            continue;
        }
        let least = rooms[nth].min(rooms[nth + 1]);
        let gone = |block: &&Block| calls[..=nth].contains(&Call::Free(**block));
        let live: Vec<_> = scene.live.iter().filter(|block| !gone(block)).collect();
        while child.step() == Step::Stepped {
            seen.steps += 1;
            if scene.memory() == last {
                continue;
            }
            last.copy_from_slice(scene.memory());
            if random.below(of) > 0 {
                continue;
            }
            seen.deaths += 1;
            scene.owner_dies(child.pid);
            scene.look(&live)?;
            seen.repaired += scene.yard.cut_calls() - cut_before;
            if is_thorough() || calls.len() == 1 || random.below(10) == 0 {
                seen.filled += 1;
                let room = scene.room()?;
                if room < least {
                    return Err(format!(
                        "room for {room} objects in call {nth}, in place of {least}"
                    ));
                }
                scene.look(&live)?;
            }
            scene.restore(&last);
        }
    }
    Ok(seen)
}

/// What a child does, by name: calls from the scene as it is.
fn walks<E: FixedEngine>(scene: &mut Scene<E>) -> Vec<(&'static str, Vec<Call>)> {
    let of = |size: usize| scene.caches.iter().find(|cache| cache.1 == size).expect("one").0;
    let mut random = Random(5);
    let mut frees = |wanted: fn(&Block) -> bool, n: usize| {
        let mut all: Vec<_> = scene.live.iter().copied().filter(wanted).collect();
        let n = n.min(all.len());
        (0..n).map(|_| Call::Free(all.swap_remove(random.below(all.len())))).collect::<Vec<_>>()
    };
    let objects = |block: &Block| block.bytes == 48;
    let empty = scene.caches[2].0;
    vec![
        ("allocations", vec![Call::Alloc(of(48), 48); 14]),
        ("frees", frees(objects, 16)),
        ("large frees", frees(|block| block.bytes == 200, 10)),
        ("blocks", [8, 40, 300, 90, 500, 1, 200, 1000].map(Call::Malloc).to_vec()),
        ("frees of blocks", frees(|block| block.of == scene::BlockOwner::Malloc, 12)),
        ("pages", [1, 0, 2, 0, 1].map(Call::Pages).to_vec()),
        ("frees of pages", frees(|block| block.of == scene::BlockOwner::Pages, 8)),
        ("a shrink", [frees(objects, 10), vec![Call::Shrink]].concat()),
        ("new caches", [[Call::Create(64); 5].to_vec(), vec![Call::Destroy(empty)]].concat()),
    ]
}

/// The end of a cache, with the memory that it has for CPUs.
fn ends<E: FixedEngine>(scene: &mut Scene<E>) -> Vec<Call> {
    let Done::Cache(Some(id)) = call(scene.yard, Call::Create(72)) else { panic!("no room") };
    let Done::Block(Some(block)) = call(scene.yard, Call::Alloc(id, 72)) else { panic!("no room") };
    vec![Call::Free(block), Call::Destroy(id), Call::Create(40)]
}

/// Each walk of an engine, in a yard without blocks and in one that is nearly full.
fn each_walk<E: FixedEngine>(mut f: impl FnMut(&mut Scene<E>, &str, &[Call])) {
    stay_on_this_cpu();
    let mut scene = Scene::<E>::new(SETTINGS);
    let begun = scene.memory().to_vec();
    let fresh = [40, 100, 24, 600].map(Call::Malloc).to_vec();
    f(&mut scene, "first blocks", &fresh);
    scene.restore(&begun);
    (0..5).for_each(|_| _ = call(scene.yard, Call::Create(32)));
    f(&mut scene, "a table grows", &[Call::Create(64)]);
    for (seed, left) in [(1, 30), (2, 3)] {
        scene.restore(&begun);
        scene.live.clear();
        scene.stir(seed, left);
        let stirred = scene.memory().to_vec();
        for (name, calls) in walks(&mut scene) {
            // In a memory that is full, what allocates shrinks all caches first.
            let is_short = matches!(name, "allocations" | "frees");
            if left < 10 && !is_short && !is_thorough() {
                continue;
            }
            f(&mut scene, name, &calls);
            scene.restore(&stirred);
        }
        if left > 10 {
            let calls = ends(&mut scene);
            f(&mut scene, "a cache's end", &calls);
        }
    }
}

fn dies_anywhere<E: FixedEngine>() {
    let mut all = RepairTally::default();
    each_walk::<E>(|scene, name, calls| {
        let seen = die_at_stores(scene, calls, 1)
            .unwrap_or_else(|what| panic!("{}, {name}: {what}", E::NAME));
        if is_thorough() {
            println!("{} {name}: {seen:?}", E::NAME);
        }
        all.steps += seen.steps;
        all.deaths += seen.deaths;
        all.repaired += seen.repaired;
        all.filled += seen.filled;
    });
    println!("{}: {all:?}", E::NAME);
    assert!(all.steps == 0 || all.repaired > 100 && all.repaired < all.deaths, "{all:?}");
}

/// Steps a child into a call until it has changed so much, and kills it in truth.
fn kill_in<E: FixedEngine>(
    scene: &Scene<E>,
    calls: &[Call],
    nth: usize,
    changes: usize,
) -> Option<()> {
    let child = Stepper::begin(|stop| {
        for what in calls {
            call(scene.yard, *what);
            stop();
        }
    })?;
    (0..nth).for_each(|_| child.go_on());
    let mut last = scene.memory().to_vec();
    let mut left = changes;
    while left > 0 && child.step() == Step::Stepped {
        if scene.memory() != last {
            last.copy_from_slice(scene.memory());
            left -= 1;
        }
    }
    Some(())
}

fn killed_in_truth<E: FixedEngine>() {
    let (mut random, mut repaired) = (Random(11), 0);
    each_walk::<E>(|scene, name, calls| {
        let Course { rooms, changes } = course(scene, calls).expect("no death so far");
        let most = (0..changes.len()).max_by_key(|nth| changes[*nth]).unwrap_or(0);
        let begun = scene.memory().to_vec();
        let cut_before = scene.yard.cut_calls();
        for _ in 0..if calls.is_empty() { 0 } else { 2 } {
            if kill_in(scene, calls, most, 1 + random.below(12)).is_none() {
                return eprintln!("skipped: ptrace is refused here");
            }
            let gone = |block: &&Block| calls[..=most].contains(&Call::Free(**block));
            let live: Vec<_> = scene.live.iter().filter(|block| !gone(block)).collect();
            let looked = scene.look(&live).and_then(|()| {
                repaired += scene.yard.cut_calls() - cut_before;
                let (room, least) = (scene.room()?, rooms[most].min(rooms[most + 1]));
                scene.look(&live)?;
                if room < least { Err(format!("{room} of {least}")) } else { Ok(()) }
            });
            looked.unwrap_or_else(|what| panic!("{}, {name}: {what}", E::NAME));
            scene.restore(&begun);
        }
    });
    assert!(repaired > 10, "{repaired}");
}

#[test]
fn a_killed_owner_is_told_by_the_lock() {
    killed_in_truth::<Tiny>();
    killed_in_truth::<Slub>();
    killed_in_truth::<Slob>();
}

/// A call is cut, and whoever repairs dies at each store of the repair.
fn repairer_dies<E: FixedEngine>() -> Result<RepairTally, String> {
    stay_on_this_cpu();
    let mut scene = Scene::<E>::new(SETTINGS);
    scene.stir(3, 30);
    let frees =
        scene.live.iter().filter(|block| matches!(block.of, scene::BlockOwner::Cache(_))).take(9);
    let calls: Vec<_> = frees.map(|block| Call::Free(*block)).collect();
    assert!(!calls.is_empty(), "{:?}", scene.live);
    let Course { changes, .. } = course(&scene, &calls)?;
    let most = (0..changes.len()).max_by_key(|nth| changes[*nth]).unwrap_or(0);
    let begun = scene.memory().to_vec();
    for stores in (5..12).rev() {
        scene.restore(&begun);
        if kill_in(&scene, &calls, most, stores).is_none() {
            eprintln!("skipped: ptrace is refused here");
            return Ok(RepairTally::default());
        }
        let killed = scene.memory().to_vec();
        let is_cut = scene.yard.cut_calls() > 0;
        scene.restore(&killed);
        if is_cut {
            break;
        }
    }
    scene.live.retain(|block| !calls[..=most].contains(&Call::Free(*block)));
    die_at_stores(&scene, &[Call::Verify], if is_thorough() { 1 } else { 2 })
}

#[test]
fn a_repair_that_is_cut_short_is_made_again() {
    let seen = [repairer_dies::<Slob>(), repairer_dies::<Slub>(), repairer_dies::<Slab>()];
    for seen in seen {
        let seen = seen.expect("whole");
        println!("{seen:?}");
        assert!(seen.steps == 0 || seen.deaths > 20, "{seen:?}");
    }
}

/// In a process of its own: all walks of an engine, with a part left out.
#[test]
fn planted_child() {
    let Ok(planted) = std::env::var("SLABYARD_PLANTED") else { return };
    let what = *PLANTS.iter().find(|what| format!("{what:?}") == planted).expect("one");
    slabyard_fixed::planted::plant(what);
    match what {
        Planted::Lists => dies_anywhere::<Slob>(),
        Planted::Tables | Planted::Slabs => dies_anywhere::<Slub>(),
        Planted::Caches => dies_anywhere::<CpuSlab>(),
        _ => dies_anywhere::<Tiny>(),
    }
}

/// What is planted.
const PLANTS: [Planted; 8] = [
    Planted::Repair,
    Planted::Pages,
    Planted::Tables,
    Planted::Caches,
    Planted::Slabs,
    Planted::CacheNamedFirst,
    Planted::Lists,
    Planted::TableGivenFirst,
];

#[test]
fn each_part_of_the_repair_is_needed() {
    if repairer_dies::<Tiny>().is_ok_and(|seen| seen.steps == 0) {
        return;
    }
    for what in PLANTS {
        let child = std::process::Command::new(std::env::current_exe().expect("a program"))
            .args(["--exact", "planted_child", "--nocapture"])
            .env("SLABYARD_PLANTED", format!("{what:?}"))
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&child.stderr);
        let found = said.lines().find(|line| line.contains(", ")).unwrap_or("-");
        println!("{what:?}: {found}");
        assert!(!child.status.success(), "{what:?} is not found");
    }
}

#[test]
fn tiny_yards_outlive_a_death_at_each_store() {
    dies_anywhere::<Tiny>();
}

#[test]
fn slob_yards_outlive_a_death_at_each_store() {
    dies_anywhere::<Slob>();
}

#[test]
fn slub_yards_outlive_a_death_at_each_store() {
    dies_anywhere::<Slub>();
}

#[test]
fn cpu_slab_yards_outlive_a_death_at_each_store() {
    dies_anywhere::<CpuSlab>();
}

#[test]
fn slab_yards_outlive_a_death_at_each_store() {
    dies_anywhere::<Slab>();
}

#[test]
fn workers_that_are_killed_at_random_leave_a_whole_yard() {
    workers::killed_at_random::<Tiny>(1);
    workers::killed_at_random::<Slob>(2);
    workers::killed_at_random::<Slub>(3);
    workers::killed_at_random::<CpuSlab>(4);
    workers::killed_at_random::<Slab>(5);
}

#[test]
fn what_is_not_live_is_not_freed() {
    fn tries<E: FixedEngine>() {
        let scene = Scene::<E>::new(SETTINGS);
        let [(small, bytes), (other, _), _] = scene.caches;
        let mut blocks = Vec::new();
        for what in [Call::Alloc(small, bytes), Call::Malloc(60), Call::Pages(1)] {
            let Done::Block(Some(block)) = call(scene.yard, what) else { panic!("no room") };
            block.write(1);
            blocks.push(block);
        }
        if E::NAME != "slob" {
            // SLOB does not know whose a block is.
            // SAFETY: it is refused.
            assert!(!unsafe { scene.yard.free(other, blocks[0].at) }, "{}", E::NAME);
        }
        scene.look(&blocks.iter().collect::<Vec<_>>()).expect("whole");
        for block in &blocks {
            assert_eq!(call(scene.yard, Call::Free(*block)), Done::Said(true), "{}", E::NAME);
        }
        // Others were freed in between, so no chain shows it.
        for block in &blocks {
            assert_eq!(call(scene.yard, Call::Free(*block)), Done::Said(false), "{}", E::NAME);
        }
        let counts = scene.yard.verify().expect("sound");
        assert_eq!((counts.live, counts.run_pages), (0, 0));
        assert!(scene.yard.malloc(usize::MAX).is_none());
        assert_eq!(scene.yard.cut_calls(), 0);
    }
    tries::<Tiny>();
    tries::<Slob>();
    tries::<Slub>();
    tries::<CpuSlab>();
    tries::<Slab>();
}

#[test]
fn a_call_that_panics_is_repaired_by_the_next() {
    let mut scene = Scene::<Tiny>::new(SETTINGS);
    scene.stir(9, 20);
    let (id, bytes) = scene.caches[1];
    let (new, old): (Vec<&Block>, Vec<_>) =
        scene.live.iter().partition(|block| block.bytes == bytes);
    let (first, others) = new.split_first().expect("some");
    assert_eq!(call(scene.yard, Call::Free(**first)), Done::Said(true));
    // A link that leads out of the memory.
    // SAFETY: the yard's own bytes: what a broken program does.
    unsafe { first.at.as_ptr().cast::<u16>().write(0xfff0) };
    let yard = scene.yard;
    let calls = || (0..1000).for_each(|_| _ = yard.alloc(id));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(calls)).is_err());
    let live: Vec<_> = old.into_iter().chain(others.iter().copied()).collect();
    scene.look(&live).expect("repaired");
    assert_eq!(scene.yard.cut_calls(), 1);
}
