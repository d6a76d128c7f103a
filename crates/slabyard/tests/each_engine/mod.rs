//! One test body for each engine, and of CPU slabs for each kind.
//!
//! The kind is the thread's: [`new_yard`] follows it. A body runs until each of the kinds had its
//! turn: a short one once for each, whatever else it walks over. A long one asks for the [next]
//! before each of its runs, so that kinds are dealt over seeds and machines; with
//! `SLABYARD_ALL_KINDS=1`, minutes by hand, each of its runs is made by each kind.
//!
//! [next]: next_kind

use slabyard::engine::array_cache::Choice;
use slabyard::engine::cpu_slabs::{Front, Mixed, OnCpus, Rules};
use slabyard::engine::{ArrayCaches, Engine};
use slabyard::platform::Platform;
use slabyard::yard::Yard;
use std::any::Any;
use std::cell::Cell;

/// Tests of each engine: a module of the test's name, with one test an engine.
macro_rules! each_engine {
    ($($(#[$meta:meta])* fn $name:ident<$engine:ident>() $body:block)*) => {$(
        mod $name {
            use super::*;

            $(#[$meta])*
            fn body<$engine: slabyard::engine::Engine>() $body

            #[test]
            fn slub() {
                body::<slabyard::engine::Sheaves>();
            }

            #[test]
            fn cpu_slabs() {
                use slabyard::engine::cpu_slabs::{Front, OnCpus};
                crate::each_engine::each_kind(Front::CpuSlabs, body::<OnCpus>);
            }

            #[test]
            fn mixed() {
                use slabyard::engine::cpu_slabs::{Front, Mixed};
                crate::each_engine::each_kind(Front::SheavesOverCpuSlabs, body::<Mixed>);
            }

            #[test]
            fn tiny() {
                body::<slabyard::engine::Tiny>();
            }

            #[test]
            fn slab() {
                crate::each_engine::each_choice(body::<slabyard::engine::ArrayCaches>);
            }

            #[test]
            fn slab_on_nodes() {
                body::<slabyard::engine::array_cache::OnNodes>();
            }

            #[test]
            fn slub_on_nodes() {
                body::<slabyard::engine::sheaves::nodes::OnNodes>();
            }

            #[test]
            fn slob() {
                body::<slabyard::engine::Slob>();
            }
        }
    )*};
}

/// Prime to the numbers of kinds: neighbours differ in more than one rule.
const STRIDE: usize = 7;

/// A kind's turn.
#[derive(Clone, Copy)]
struct Turn {
    front: Front,
    nth: usize,
    /// The body asked for it.
    is_dealt: bool,
}

thread_local! {
    static TURN: Cell<Option<Turn>> = const { Cell::new(None) };
    /// SLAB's, and whether the body is a long one.
    static CHOICE: Cell<Option<(Choice, bool)>> = const { Cell::new(None) };
}

/// The kinds of a front.
fn kinds(front: Front) -> impl Iterator<Item = Rules> {
    Rules::kinds().filter(move |kind| kind.front == front)
}

fn kind_of(turn: Turn) -> Rules {
    let kinds: Vec<_> = kinds(turn.front).collect();
    kinds[turn.nth * STRIDE % kinds.len()]
}

/// Runs a body until each kind of a front had its turn.
pub fn each_kind(front: Front, body: fn()) {
    struct Says;
    impl Drop for Says {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("it failed with {:?}", TURN.get().map(kind_of));
            }
        }
    }
    let _says = Says;
    let has_all = std::env::var_os("SLABYARD_ALL_KINDS").is_some();
    let mut nth = 0;
    while nth < kinds(front).count() {
        TURN.set(Some(Turn { front, nth, is_dealt: false }));
        body();
        let last = TURN.get().expect("a turn");
        nth = if has_all { nth + 1 } else { last.nth + 1 };
        // Under Miri a body takes minutes, and with assertions a long one half a minute.
        if cfg!(miri) || cfg!(debug_assertions) && last.is_dealt {
            break;
        }
    }
    TURN.set(None);
}

/// Runs a body by each policy of SLAB's free slabs, with arrays and without; with assertions, which
/// take time, by those of today, of 2.4 without arrays and of 2.5.39 with them, and a long one by
/// the first alone. The other programs ask what arrays hold: theirs is that of today.
pub fn each_choice(body: fn()) {
    let others = Choice::all().filter(|choice| *choice != Choice::default());
    let is_conformance = env!("CARGO_CRATE_NAME") == "conformance";
    let (first, most) = match (is_conformance, cfg!(debug_assertions)) {
        (false, _) => (0, 0),
        (_, true) => (1, 2),
        (_, false) => (0, usize::MAX),
    };
    let others = others.skip(first).take(most);
    for choice in [Choice::default()].into_iter().chain(others) {
        CHOICE.set(Some((choice, false)));
        body();
        let (_, is_long) = CHOICE.get().expect("a choice");
        if cfg!(miri) || cfg!(debug_assertions) && is_long {
            break;
        }
    }
    CHOICE.set(None);
}

/// The turn of the next kind, where there are kinds.
#[allow(dead_code, reason = "some programs have short tests alone")]
pub fn next_kind() {
    let next =
        |turn: Turn| Turn { nth: turn.nth + usize::from(turn.is_dealt), is_dealt: true, ..turn };
    TURN.set(TURN.get().map(next));
    CHOICE.set(CHOICE.get().map(|(choice, _)| (choice, true)));
}

/// A yard before it begins; one of CPU slabs by the rules of the kind whose turn it is.
pub fn new_yard<P: Platform, E: Engine>(platform: P) -> Yard<P, E> {
    let yard: Yard<P, E> = Yard::new(platform);
    if let Some(turn) = TURN.get() {
        let kind = kind_of(turn);
        for cache in yard.caches().classes() {
            let engine: &dyn Any = &cache.engine;
            let alone = engine.downcast_ref().map(|engine: &OnCpus| engine.follow(&kind));
            let below = || engine.downcast_ref().map(|engine: &Mixed| engine.follow(&kind));
            alone.or_else(below).expect("an engine that has kinds");
        }
    }
    if let Some((choice, _)) = CHOICE.get() {
        for cache in yard.caches().classes() {
            let engine: &dyn Any = &cache.engine;
            engine.downcast_ref::<ArrayCaches>().expect("SLAB").follow(choice);
        }
    }
    yard
}
