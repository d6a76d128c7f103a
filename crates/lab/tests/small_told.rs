//! Engines from a kernel's first moment on: their slabs, cache by cache, the free pages and the
//! lists of free blocks at each moment, beside what the kernel had.
//!
//! `traces/small_*.slabtrace` are the events of boots of 16 MiB, `small_*.state.zst` what these
//! kernels told of their memory (`ci/small-kernels` makes both).
//! `cargo test --release -p slabyard-lab --test small_told -- --nocapture` prints all figures.

use slabyard_lab::slob::Machine;
use slabyard_lab::small::contender::{Empties, Lists};
use slabyard_lab::small::state::{self, State, Told};
use slabyard_lab::small::{Contender, Load, Look, Step, run_from, text};
use slabyard_lab::trace;
use std::collections::BTreeMap;
use std::path::Path;

const fn slub(max_order: u8) -> Contender {
    Contender::Slub { max_order, empties: Empties::Kept, lists: Lists::Off }
}

const BOOTS: [(&str, Contender); 4] =
    [("slub-o0", slub(0)), ("slub-o1", slub(1)), ("slub-o2", slub(2)), ("slub-o3", slub(3))];

fn boot(name: &str) -> (Load, Told) {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let told = state::open(&traces.join(format!("small_{name}.state.zst"))).expect("states");
    let trace = trace::open(&traces.join(format!("small_{name}.slabtrace"))).expect("a trace");
    let cut = Load::of_kernel(&trace, &text::moments(&trace), &told, Machine::X86_64);
    assert_eq!(told.states.len(), 5, "{name}: the begin, and four moments");
    (cut.load, told)
}

fn looks(contender: Contender, load: &Load, told: &Told) -> Vec<Look> {
    let looks = run_from(&told.states[0], "6.1", contender, load).expect("slabs").looks;
    assert_eq!(looks.len(), 4);
    looks
}

/// Caches whose pages differ: theirs, and ours.
fn differing(look: &Look, state: &State) -> BTreeMap<String, [u32; 2]> {
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
fn blocks_off(look: &Look, state: &State) -> u32 {
    look.free_blocks.iter().zip(state.counts()).map(|(ours, theirs)| ours.abs_diff(theirs)).sum()
}

/// Slabs of every cache are the kernel's own number, page by page.
#[test]
fn engines_have_the_slabs_of_the_kernels_cache_by_cache() {
    for (name, contender) in BOOTS {
        let (load, told) = boot(name);
        for (look, state) in looks(contender, &load, &told).iter().zip(&told.states[1..]) {
            let (ours, theirs) = (look.slab_pages(), state.slab);
            println!("{name} {}: slab pages theirs {theirs}, ours {ours}", look.moment);
            assert_eq!(look.moment, state.moment);
            assert_eq!(ours, theirs, "{name} {}", look.moment);
            assert!(differing(look, state).is_empty(), "{name} {:?}", differing(look, state));
        }
    }
}

/// Free pages, those that the CPU keeps, and the lists of free blocks.
#[test]
fn free_pages_and_lists_are_those_of_the_kernels() {
    for (name, contender) in BOOTS {
        let (load, told) = boot(name);
        for (look, state) in looks(contender, &load, &told).iter().zip(&told.states[1..]) {
            let (ours, theirs) = (look.free_pages, state.free);
            println!(
                "{name} {}: free theirs {theirs}, ours {ours}; kept {}, {}; lists {:?}, {:?}",
                look.moment,
                state.kept,
                look.kept,
                state.counts(),
                look.free_blocks
            );
            assert_eq!((ours, look.kept), (theirs, state.kept), "{name} {}", look.moment);
            assert_eq!(look.free_blocks, state.counts(), "{name} {}", look.moment);
        }
    }
}

/// Rules that are not the kernel's are found out: another largest order, no lists of pages on the
/// CPU, and larger objects.
#[test]
fn wrong_rules_are_found_out() {
    let (load, told) = boot("slub-o1");
    let off = |looks: &[Look]| -> Vec<u32> {
        let pairs = looks.iter().zip(&told.states[1..]);
        pairs.map(|(look, state)| look.slab_pages().abs_diff(state.slab)).collect()
    };
    let other = looks(slub(2), &load, &told);
    assert!(off(&other).iter().all(|off| *off >= 4), "{:?}", off(&other));

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
    let ours = looks(slub(1), &larger, &told);
    assert!(off(&ours).iter().all(|off| *off >= 4), "{:?}", off(&ours));
}
