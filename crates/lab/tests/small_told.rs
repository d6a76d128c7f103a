//! Runs the allocators from a kernel's first recorded moment on, and compares their slabs, cache by
//! cache, their free pages and their lists of free blocks at each moment with the kernel's.
//!
//! `traces/small_*.slabtrace` are the events of boots, with 16 MiB unless the name ends in another
//! number; `small_*.state.zst` are what these kernels reported of their memory (`SAVE=DIRECTORY
//! ci/small-kernels` makes both). `cargo test --release -p slabyard-lab --test lab small_told:: --
//! --nocapture` prints all numbers.

use slabyard_lab::slob::Machine;
use slabyard_lab::small::contender::{Empties, Lists};
use slabyard_lab::small::state::{self, KernelReport, ReapPart, State};
use slabyard_lab::small::{Contender, Load, MachineSample, Step, run_from, text};
use slabyard_lab::trace;
use std::collections::BTreeMap;
use std::path::Path;

const fn slub(max_order: u8) -> Contender {
    Contender::Slub { max_order, empties: Empties::Kept, lists: Lists::Off }
}

const SLAB: Contender = Contender::Slab { max_order: 0 };

const fn on_cpus(max_order: u8) -> Contender {
    Contender::Slub { max_order, empties: Empties::Kept, lists: Lists::OnCpus }
}

/// A boot.
struct Boot {
    name: &'static str,
    /// The engine that represents its allocator.
    contender: Contender,
    release: &'static str,
    /// The one with timers rests at its end.
    moments: usize,
    /// Whether it counts pages for all CPUs at once; else each CPU has some that it did not tell.
    counts: Counts,
    /// Pages that may be on the CPU instead of free: an interrupt came between the event of a
    /// page's free and the free.
    interrupted: u32,
    /// Looks whose lists have other blocks, with as many pages: some of the pages that the CPU
    /// keeps differ.
    other_lists: u32,
}

#[derive(PartialEq, Eq)]
enum Counts {
    AtOnce,
    ByCpu,
}

const fn of(name: &'static str, contender: Contender, moments: usize) -> Boot {
    Boot {
        name,
        contender,
        release: "6.1",
        moments,
        counts: Counts::AtOnce,
        interrupted: 0,
        other_lists: 0,
    }
}

/// One that nobody tuned to.
const fn other(name: &'static str, max_order: u8) -> Boot {
    Boot { counts: Counts::ByCpu, ..of(name, on_cpus(max_order), 4) }
}

/// SLUB_TINY of 6.12.
const fn tiny(name: &'static str, max_order: u8) -> Boot {
    Boot { release: "6.12", ..of(name, Contender::Tiny { max_order }, 4) }
}

const BOOTS: [Boot; 16] = [
    of("slob", Contender::Slob, 4),
    of("slab", SLAB, 5),
    of("slub-o0", slub(0), 4),
    of("slub-o1", slub(1), 4),
    of("slub-o2", slub(2), 4),
    of("slub-o3", slub(3), 4),
    other("other-o0-24", 0),
    other("other-o1-24", 1),
    Boot { interrupted: 1, ..other("other-o2-24", 2) },
    other("other-o3-24", 3),
    // So large that pages are grouped by mobility.
    other("other-o0-32", 0),
    other("other-o3-32", 3),
    Boot { other_lists: 2, ..tiny("tiny12-o0", 0) },
    tiny("tiny12-o1", 1),
    Boot { other_lists: 2, ..tiny("tiny12-o2", 2) },
    Boot { other_lists: 2, ..tiny("tiny12-o3", 3) },
];

/// Those of one config and memory.
fn tuned() -> &'static [Boot] {
    &BOOTS[..6]
}

impl Boot {
    /// The engine's samples, and what the kernel reported.
    fn looks(&self) -> Vec<(MachineSample, State)> {
        let (load, told) = boot(self.name);
        assert_eq!(load.moments.len(), self.moments, "{}", self.name);
        let looks = looks_of(self.release, self.contender, &load, &told);
        looks.into_iter().zip(told.states.into_iter().skip(1)).collect()
    }

    /// Pages of slabs that the kernel has.
    fn slabs(&self, state: &State) -> u32 {
        let walked = state.slabs.iter().map(|slab| 1 << slab.block.1).sum();
        self.of(state.slab, walked)
    }

    /// Its free pages.
    fn free(&self, state: &State) -> u32 {
        let walked = (0..).zip(state.counts()).map(|(order, count)| count << order).sum();
        self.of(state.free, walked)
    }

    fn of(&self, counted: u32, walked: u32) -> u32 {
        match self.counts {
            Counts::AtOnce => counted,
            Counts::ByCpu => {
                assert!(counted.abs_diff(walked) <= 8, "{counted} counted, {walked} walked");
                walked
            }
        }
    }
}

fn boot(name: &str) -> (Load, KernelReport) {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let told = state::open(&traces.join(format!("small_{name}.state.zst"))).expect("states");
    let trace = trace::open(&traces.join(format!("small_{name}.slabtrace"))).expect("a trace");
    let cut = Load::of_kernel(&trace, &text::moments(&trace), &told, Machine::X86_64);
    (cut.load, told)
}

fn looks(contender: Contender, load: &Load, told: &KernelReport) -> Vec<MachineSample> {
    looks_of("6.1", contender, load, told)
}

fn looks_of(
    release: &str,
    contender: Contender,
    load: &Load,
    told: &KernelReport,
) -> Vec<MachineSample> {
    let looks = run_from(&told.states[0], release, contender, load).expect("slabs").looks;
    assert_eq!(looks.len() + 1, told.states.len(), "the begin, and moments");
    looks
}

/// Caches whose pages differ: theirs, and ours.
fn differing(look: &MachineSample, state: &State) -> BTreeMap<String, [u32; 2]> {
    let mut pages: BTreeMap<String, [u32; 2]> = BTreeMap::new();
    for slab in &state.slabs {
        pages.entry(slab.name.clone()).or_default()[0] += 1 << slab.block.1;
    }
    for (name, order, count) in &look.slabs {
        pages.entry(name.clone()).or_default()[1] += count << order;
    }
    pages.retain(|_, [theirs, ours]| theirs != ours);
    pages
}

/// Free blocks that one has and the other has not, of all orders.
fn blocks_off(look: &MachineSample, state: &State) -> u32 {
    look.free_blocks.iter().zip(state.counts()).map(|(ours, theirs)| ours.abs_diff(theirs)).sum()
}

/// Slabs of every cache are the kernel's own number, page by page.
#[test]
fn engines_have_the_slabs_of_the_kernels_cache_by_cache() {
    for boot in &BOOTS {
        let (name, looks) = (boot.name, boot.looks());
        for (look, state) in &looks {
            let (ours, theirs) = (look.slab_pages(), boot.slabs(state));
            println!("{name} {}: slab pages theirs {theirs}, ours {ours}", look.moment);
            assert_eq!(look.moment, state.moment);
            assert_eq!(ours, theirs, "{name} {}", look.moment);
            if boot.contender == Contender::Slob {
                continue; // Its pages are of no cache.
            }
            assert!(differing(look, state).is_empty(), "{name} {:?}", differing(look, state));
        }
    }
}

/// Free pages, those that the CPU keeps, and the lists of free blocks.
#[test]
fn free_pages_and_lists_are_those_of_the_kernels() {
    for boot in &BOOTS {
        let (name, mut interrupted, mut other_lists) = (boot.name, 0, 0);
        for (look, state) in &boot.looks() {
            let (ours, theirs) = (look.free_pages, boot.free(state));
            println!(
                "{name} {}: free theirs {theirs}, ours {ours}; kept {}, {}; lists {:?}, {:?}",
                look.moment,
                state.kept,
                look.kept,
                state.counts(),
                look.free_blocks
            );
            if (ours, look.kept) != (theirs, state.kept) {
                interrupted += theirs.abs_diff(ours);
                assert_eq!(ours + look.kept, theirs + state.kept, "{name} {}", look.moment);
                continue;
            }
            other_lists += u32::from(blocks_off(look, state) > 0);
            assert!(blocks_off(look, state) <= 10, "{name} {}", look.moment);
        }
        assert_eq!((interrupted, other_lists), (boot.interrupted, boot.other_lists), "{name}");
    }
}

/// Rules that are not the kernel's are found out: another largest order, no lists of pages on the
/// CPU, and larger objects.
#[test]
fn wrong_rules_are_found_out() {
    let (load, told) = boot("slub-o1");
    let off = pages_off(slub(2), &load, &told);
    assert!(off.iter().all(|off| *off >= 4), "{off:?}");

    let mut without = load.clone();
    without.steps.retain(|step| !matches!(step, Step::Limit(_)));
    let ours = looks(slub(1), &without, &told);
    assert_eq!(ours[0].kept, 0);
    assert!(ours[0].free_pages >= told.states[1].free + 50, "pages on the CPU are not free");
    assert!(blocks_off(&ours[2], &told.states[3]) > 4, "{:?}", ours[2].free_blocks);

    let mut larger = load;
    for cache in larger.caches.iter_mut().filter(|cache| cache.object_size < 2048) {
        cache.object_size += 16;
    }
    let off = pages_off(slub(1), &larger, &told);
    assert!(off.iter().all(|off| *off >= 4), "{off:?}");
}

/// Pages of slabs that are off at each moment.
fn pages_off(contender: Contender, load: &Load, told: &KernelReport) -> Vec<u32> {
    let looks = looks(contender, load, told);
    let pairs = looks.iter().zip(&told.states[1..]);
    pairs.map(|(look, state)| look.slab_pages().abs_diff(state.slab)).collect()
}

/// While nothing is requested, SLAB's timer frees a third of its pages. It does not without either
/// of its parts, nor would arrays of one object, or slabs of two pages.
#[test]
fn slab_gives_pages_back_by_its_timer_alone() {
    let (load, told) = boot("slab");
    let [dropped, rested] = [4, 5].map(|nth| &told.states[nth]);
    println!("slab: {} pages before the rest, {} behind it", dropped.slab, rested.slab);
    assert!(rested.slab + 50 < dropped.slab);
    let wrong = |is_left_out: &dyn Fn(&Step) -> bool| {
        let mut wrong = load.clone();
        wrong.steps.retain(|step| !is_left_out(step));
        pages_off(SLAB, &wrong, &told)
    };
    for part in [ReapPart::Cpu, ReapPart::Node] {
        let off = wrong(&|step| matches!(step, Step::Reap(_, of) if *of == part));
        println!("without {part:?}: {off:?}");
        assert!(off[4] >= 10, "{part:?}: {off:?}");
    }
    let mut small = load.clone();
    small.steps.retain(|step| *step != Step::WholeArrays);
    small.steps.push(Step::WholeArrays);
    let off = pages_off(SLAB, &small, &told);
    println!("arrays of one: {off:?}");
    assert!(off[1] >= 4, "{off:?}");
    let off = pages_off(Contender::Slab { max_order: 1 }, &load, &told);
    println!("order 1: {off:?}");
    assert!(off.iter().all(|off| *off >= 4), "{off:?}");
}

/// What each kernel leaves, and what its engine does: the most first.
#[test]
fn allocators_leave_pages_in_the_kernels_order() {
    let of_boot = |boot: &Boot| {
        let looks = boot.looks();
        let pages = |(ours, theirs): &(MachineSample, State)| {
            [theirs.free + theirs.kept, ours.free_pages + ours.kept]
        };
        (boot.name, looks.iter().map(pages).collect())
    };
    let left: Vec<(&str, Vec<[u32; 2]>)> = tuned().iter().map(of_boot).collect();
    for (moment, name) in ["booted", "held", "released", "dropped"].iter().enumerate() {
        let [theirs, ours] = [0, 1].map(|whose| {
            let mut order: Vec<(u32, &str)> =
                left.iter().map(|(name, of)| (of[moment][whose], *name)).collect();
            order.sort_by_key(|(pages, _)| std::cmp::Reverse(*pages));
            order
        });
        println!("{name}: {theirs:?}");
        assert_eq!(theirs, ours, "{name}");
        assert!(theirs[0].1 == "slob" && theirs[5].1 == "slub-o3", "{theirs:?}");
    }
}

/// By the same events, SLOB's, it takes the fewest pages of slabs, and SLUB_TINY nearly as few:
/// the order of the thread of 2022.
#[test]
fn by_the_same_events_slob_takes_least_and_tiny_nearly_as_little() {
    let (load, told) = boot("slob");
    let pages = |contender| -> Vec<u32> {
        looks(contender, &load, &told).iter().map(MachineSample::slab_pages).collect()
    };
    let slob = pages(Contender::Slob);
    for contender in Contender::all().into_iter().skip(1) {
        let pages = pages(contender);
        println!("{}: {pages:?}, SLOB {slob:?}", contender.name());
        assert!(pages.iter().zip(&slob).all(|(it, least)| it > least), "{}", contender.name());
        if let Contender::Tiny { .. } = contender {
            assert!(pages.iter().zip(&slob).all(|(it, least)| it - least < 25));
        }
    }
}

/// SLOB without the footers of objects that readers may access, without what was registered before
/// the first event, and with larger objects.
#[test]
fn wrong_objects_of_slob_are_found_out() {
    let (load, told) = boot("slob");
    let mut without = load.clone();
    without.caches.iter_mut().for_each(|cache| cache.has_readers = false);
    let off = pages_off(Contender::Slob, &without, &told);
    println!("without footers: {off:?}");
    assert!(off.iter().any(|off| *off > 0), "{off:?}");
    let mut larger = load;
    for cache in larger.caches.iter_mut().filter(|cache| cache.object_size < 2048) {
        cache.object_size += 16;
    }
    let off = pages_off(Contender::Slob, &larger, &told);
    println!("16 bytes more: {off:?}");
    assert!(off.iter().all(|off| *off >= 3), "{off:?}");
}

/// Grouping by mobility counts on the larger machine, and lists of partial slabs on the CPU on both.
#[test]
fn wrong_rules_of_the_other_kernel_are_found_out() {
    let (load, told) = boot("other-o3-32");
    assert!(told.states.iter().all(|state| state.is_grouped));
    let mut ungrouped = told.clone();
    ungrouped.states.iter_mut().for_each(|state| state.is_grouped = false);
    let ours = looks(on_cpus(3), &load, &ungrouped);
    let off: Vec<u32> =
        ours.iter().zip(&told.states[1..]).map(|(look, state)| blocks_off(look, state)).collect();
    println!("without groups: {off:?} blocks off");
    assert!(off.iter().any(|off| *off > 4), "{off:?}");
    let off = pages_off(slub(3), &load, &told);
    println!("without lists on CPUs: {off:?} pages off");
    assert!(off.iter().any(|off| *off >= 8), "{off:?}");
}

/// The CPU's lists of 6.12 are not those of 6.1.
#[test]
fn wrong_rules_of_6_12_are_found_out() {
    for (name, max_order) in [("tiny12-o0", 0), ("tiny12-o1", 1)] {
        let (load, told) = boot(name);
        let ours = looks(Contender::Tiny { max_order }, &load, &told);
        let off: Vec<u32> = ours
            .iter()
            .zip(&told.states[1..])
            .map(|(it, state)| it.kept.abs_diff(state.kept))
            .collect();
        println!("{name} by 6.1's lists: {off:?} pages on the CPU");
        assert!(off.iter().any(|off| *off >= 50), "{off:?}");
        let slub = slub(max_order);
        let ours = looks_of("6.12", slub, &load, &told);
        assert!(ours[3].slab_pages() > told.states[4].slab + 20, "SLUB keeps more");
    }
}
