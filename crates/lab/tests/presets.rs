//! Which features each preset has and lacks: a trace replayed by its rules, and the counters that
//! stay 0.
//!
//! `cargo test --profile checked -p slabyard-lab --test lab presets:: -- --nocapture` prints the
//! numbers.

use super::recorded::recorded;
use slabyard_lab::case::{self, Case};
use slabyard_lab::prepare::{StepKind, Via};
use slabyard_lab::replay::{Plan, Replayed, Start, replay};
use slabyard_lab::rules::{Settings, find_release};
use slabyard_model::cache::KernelCache;
use slabyard_model::counters::Counter::{self, *};

/// What a replay by a release's rules did.
struct Run {
    case: Case,
    done: Replayed,
}

fn run(release: &str, set: &[&str]) -> Run {
    let (trace, snapshot) = recorded("forkexec");
    let machine = snapshot.settings().expect("a known kernel").0.machine;
    let mut settings = Settings::new(find_release(release).expect("a release").0, machine);
    set.iter().for_each(|text| settings.set(text).expect("a setting"));
    settings.validate().expect("a possible kernel");
    let case = Case::new(trace, snapshot, &settings, case::order_of(snapshot)).expect("a case");
    let done = replay(&Plan { audit_every: 20_000, ..case.plan(Start::LookAhead) }).expect("books");
    Run { case, done }
}

impl Run {
    fn sum(&self, counter: Counter) -> u64 {
        self.done.caches.iter().map(|cache| cache.counters().get(counter)).sum()
    }

    fn nothing_of(&self, counters: &[Counter]) {
        counters.iter().for_each(|counter| assert_eq!(self.sum(*counter), 0, "{counter:?}"));
    }

    fn something_of(&self, counters: &[Counter]) {
        counters.iter().for_each(|counter| assert!(self.sum(*counter) > 0, "{counter:?}"));
    }

    fn caches(&self) -> impl Iterator<Item = (&str, &KernelCache)> {
        self.case.ids.iter().map(String::as_str).zip(&self.done.caches)
    }

    /// CPU slabs, and slabs on CPU partial lists, at the start and at the end.
    fn on_cpus(&self) -> [u32; 2] {
        let moments = self.done.before.caches.iter().chain(&self.done.after.caches);
        moments.fold([0; 2], |[slabs, lists], at| {
            [slabs + at.places.cpu_slabs, lists + at.places.cpu_partial]
        })
    }
}

const SHEAVES: [Counter; 6] =
    [AllocCpuSheaf, FreeCpuSheaf, SheafRefill, SheafFlush, BarnGet, BarnPut];
const CPU_SLABS: [Counter; 5] =
    [AllocFastpath, FreeFastpath, AllocRefill, AllocFromPartial, DeactivateBypass];
const CPU_LISTS: [Counter; 3] = [CpuPartialAlloc, CpuPartialFree, CpuPartialNode];

#[test]
fn kernels_to_6_17_have_cpu_slabs_and_lists_and_no_sheaves() {
    for (release, is_eager) in [("5.9", true), ("5.16", true), ("6.1", true), ("6.8", false)] {
        let run = run(release, &[]);
        run.something_of(&CPU_SLABS);
        run.something_of(&CPU_LISTS);
        run.nothing_of(&SHEAVES);
        // Delayed freezing leaves the exchanges under the lock to frees.
        let by_frees = run.sum(FreeAddPartial) + run.sum(FreeRemovePartial) + run.sum(ListLockVain);
        assert_eq!(run.sum(CmpxchgUnderLock) > by_frees, is_eager, "{release}");
    }
}

#[test]
fn a_kernel_6_18_has_sheaves_where_caches_ask_for_them() {
    let run = run("6.18", &[]);
    run.something_of(&CPU_SLABS);
    run.something_of(&CPU_LISTS);
    let with = run.caches().filter(|(_, cache)| cache.counters().get(AllocCpuSheaf) > 0);
    assert_eq!(with.map(|(id, _)| id).collect::<Vec<_>>(), ["maple_node", "vm_area_struct"]);
}

#[test]
fn a_kernel_7_1_has_nothing_on_cpus_but_sheaves() {
    let run = run("7.1", &[]);
    run.nothing_of(&CPU_SLABS[2..]);
    run.nothing_of(&CPU_LISTS);
    run.nothing_of(&[FreeFrozen, CpuslabFlush, CpuPartialDrain, DeactivateToHead]);
    // The fast paths are those of sheaves.
    run.nothing_of(&SHEAVES[..2]);
    run.something_of(&SHEAVES[2..]);
    run.something_of(&CPU_SLABS[..2]);
    assert_eq!(run.on_cpus(), [0; 2]);
    for (id, cache) in run.caches() {
        let boot = ["kmem_cache", "kmem_cache_node"].contains(&id);
        assert_eq!(cache.rules().sheaf_capacity == 0, boot, "{id}");
    }
    // A flush takes the objects of one slab together, and is no free of a caller.
    let (exchanges, moved) = (run.sum(CmpxchgSlab), run.sum(SheafFlush) + run.sum(SheafRefill));
    assert!(exchanges < moved, "{exchanges} for {moved} objects");
    run.nothing_of(&[FreeSlowpath]);
    // `kfree_rcu()` frees to a sheaf of its own: such a cache counts fewer frees than objects that
    // came back.
    let of = |nth: usize| run.case.prepared.caches[nth];
    let loses = |nth: &usize| of(*nth).left_out.is_some() || of(*nth).frees_placed;
    let lost = (0..run.case.ids.len()).find(loses).expect("a cache whose frees leave no event");
    let steps = run.case.prepared.steps.iter().filter(|step| step.cache as usize == lost);
    let (plain, by_rcu) =
        steps.filter(|step| step.op == StepKind::Free).fold((0, 0), |(plain, by_rcu), step| {
            if step.via == Via::Plain { (plain + 1, by_rcu) } else { (plain, by_rcu + 1) }
        });
    let counted = run.done.caches[lost].counters().get(FreeFastpath);
    println!("{}: {plain} frees, {by_rcu} by RCU, {counted} to sheaves", run.case.ids[lost]);
    assert!(by_rcu > 0 && counted <= plain);
}

#[test]
fn kernels_7_differ_in_what_a_refill_puts_back_and_barns_in_their_limits() {
    let added = |release: &str, set: &[&str]| {
        let run = run(release, set);
        let of_sheaves =
            [SheafRefill, SheafFlush, BarnGet, BarnPut, AllocSlab, FreeSlab].map(|of| run.sum(of));
        (run.sum(FreeAddPartial), of_sheaves)
    };
    let (freed, first) = added("7.0", &[]);
    assert_eq!(added("7.1", &[]), (freed, first));
    let (returned, last) = added("7.2", &[]);
    assert_eq!((added("7.3", &[]), last), ((returned, last), first));
    assert!(returned < freed, "{returned}, {freed}");
    let (_, [_, flushed, _, puts, ..]) = added("7.3", &["max_full_sheaves=1"]);
    assert!(flushed > last[1] && puts < last[3]);
    let none = run("7.3", &["max_full_sheaves=0"]);
    none.nothing_of(&[BarnGet, BarnPut]);
}

#[test]
fn slub_tiny_has_its_nodes_list_and_takes_its_lock_at_each_call() {
    for release in ["6.8", "6.18", "7.1"] {
        let run = run(release, &["tiny=1"]);
        run.nothing_of(&SHEAVES);
        run.nothing_of(&CPU_SLABS);
        run.nothing_of(&CPU_LISTS);
        run.nothing_of(&[EmptyKept, CmpxchgSlab]);
        assert_eq!(run.on_cpus(), [0; 2]);
        let calls = run.sum(AllocSlowpath) + run.sum(FreeSlowpath);
        assert_eq!(run.sum(ListLock), calls, "{release}");
        assert!(run.done.caches.iter().all(|cache| cache.rules().min_partial == 0));
        // Empty slabs end at once, but for those that there were before.
        let empty = run.done.after.caches.iter().map(|at| at.places.node_empty).sum::<u32>();
        let before = run.done.before.caches.iter().map(|at| at.places.node_empty).sum::<u32>();
        assert!(empty <= before, "{release}: {before} to {empty}");
    }
}

/// Hackbench, traced on a kernel with CPU slabs, by rules with sheaves: what a CPU's slab had free is
/// in its sheaf.
#[test]
fn what_cpus_held_in_their_slabs_they_hold_in_sheaves_of_another_release() {
    let (trace, snapshot) = recorded("hackbench");
    let machine = snapshot.settings().expect("a known kernel").0.machine;
    let settings = Settings::new(find_release("7.3").expect("a release").0, machine);
    let case = Case::new(trace, snapshot, &settings, case::order_of(snapshot)).expect("a case");
    assert!(case.traced_sheaves.contains(&0));
    let plan = Plan { steps: Some(0), ..case.plan(Start::LookAhead) };
    let done = replay(&plan).expect("sound books");
    let cpus = case.node_of.len();
    let held = done.caches.iter().zip(&case.traced_sheaves).filter(|(_, traced)| **traced == 0);
    let held: Vec<(usize, usize)> = held
        .map(|(cache, _)| (cache.in_sheaves().0, cache.rules().sheaf_capacity as usize * cpus))
        .collect();
    assert!(held.iter().map(|(held, _)| held).sum::<usize>() > 0);
    assert!(held.iter().all(|(held, most)| held <= most));
}
