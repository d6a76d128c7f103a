//! One test body for each engine: of CPU slabs for each kind of rules, and with
//! [`each_engine_and_policy`] of SLAB for each policy.
//!
//! The kind belongs to the thread: [`new_yard`] follows it. A short body runs once for each kind,
//! whatever else it walks over. A long one asks for the [next] before each of its runs, so that
//! kinds are dealt over seeds and machines; with `SLABYARD_ALL_KINDS=1`, minutes by hand, each of
//! its runs is made by each kind.
//!
//! [next]: next_kind

use slabyard::engine::array_cache::Choice;
use slabyard::engine::cpu_slabs::{Front, OnCpus, Rules};
use slabyard::engine::{ArrayCaches, Engine};
use slabyard::platform::Platform;
use slabyard::yard::Yard;
use std::any::Any;
use std::cell::Cell;

/// Tests of each engine: a module of the test's name, with one test an engine. SLAB is that of
/// today.
macro_rules! each_engine {
    ($($tests:tt)*) => { tests_of_engines! { as_it_begins: $($tests)* } };
}

/// As [`each_engine`], and SLAB by each policy of its free slabs, with arrays and without: for
/// what holds whatever the arrays hold.
macro_rules! each_engine_and_policy {
    ($($tests:tt)*) => { tests_of_engines! { each_policy: $($tests)* } };
}

macro_rules! tests_of_engines {
    ($slab:ident: $($(#[$meta:meta])* fn $name:ident<$engine:ident>() $body:block)*) => {$(
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
                use slabyard::engine::cpu_slabs::{Front, OnCpus};
                crate::each_engine::each_kind(Front::SheavesOverCpuSlabs, body::<OnCpus>);
            }

            #[test]
            fn tiny() {
                body::<slabyard::engine::Tiny>();
            }

            #[test]
            fn slab() {
                crate::each_engine::$slab(body::<slabyard::engine::ArrayCaches>);
            }

            #[test]
            fn slab_on_nodes() {
                crate::each_engine::on_nodes(body::<slabyard::engine::ArrayCaches>);
            }

            #[test]
            fn slub_on_nodes() {
                crate::each_engine::on_nodes(body::<slabyard::engine::sheaves::SheavesOnNodes>);
            }

            #[test]
            fn debug() {
                body::<slabyard::engine::Debug>();
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

/// What a body is run for each kind of.
#[derive(Clone, Copy)]
enum Kinds {
    Of(Front),
    /// SLAB's.
    Policies,
}

/// A kind of an engine.
#[derive(Debug)]
enum EngineKind {
    Rules(Rules),
    Policy(Choice),
}

/// A kind's turn.
#[derive(Clone, Copy)]
struct Turn {
    kinds: Kinds,
    nth: usize,
    /// The body asked for it.
    is_dealt: bool,
}

thread_local! {
    static TURN: Cell<Option<Turn>> = const { Cell::new(None) };
    static NODES: Cell<usize> = const { Cell::new(1) };
}

impl Kinds {
    fn all(self) -> Vec<EngineKind> {
        match self {
            Kinds::Of(front) => {
                Rules::kinds().filter(|kind| kind.front == front).map(EngineKind::Rules).collect()
            }
            Kinds::Policies => Choice::all().map(EngineKind::Policy).collect(),
        }
    }
}

impl Turn {
    fn kind(self) -> EngineKind {
        let mut all = self.kinds.all();
        let nr_kinds = all.len();
        all.swap_remove(self.nth * STRIDE % nr_kinds)
    }
}

/// Runs a body until each kind had its turn.
fn each_of(kinds: Kinds, body: fn()) {
    struct Says;
    impl Drop for Says {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("it failed with {:?}", TURN.get().map(Turn::kind));
            }
        }
    }
    let _says = Says;
    let has_all = std::env::var_os("SLABYARD_ALL_KINDS").is_some();
    let mut nth = 0;
    while nth < kinds.all().len() {
        TURN.set(Some(Turn { kinds, nth, is_dealt: false }));
        body();
        let last = TURN.get().expect("a turn");
        nth = if has_all { nth + 1 } else { last.nth + 1 };
        // Under Miri a body takes minutes.
        if cfg!(miri) {
            break;
        }
    }
    TURN.set(None);
}

/// Runs a body until each kind of a front had its turn.
pub fn each_kind(front: Front, body: fn()) {
    each_of(Kinds::Of(front), body);
}

/// Runs a body until each policy of SLAB had its turn.
pub fn each_policy(body: fn()) {
    each_of(Kinds::Policies, body);
}

/// Runs a body on machines of two memory nodes.
pub fn on_nodes(body: fn()) {
    NODES.set(2);
    body();
    NODES.set(1);
}

/// How many memory nodes the machines of the body have.
pub fn nodes() -> usize {
    NODES.get()
}

/// Runs a body on an engine as it is if nothing is chosen.
pub fn as_it_begins(body: fn()) {
    body();
}

/// The turn of the next kind, where there are kinds.
pub fn next_kind() {
    let next =
        |turn: Turn| Turn { nth: turn.nth + usize::from(turn.is_dealt), is_dealt: true, ..turn };
    TURN.set(TURN.get().map(next));
}

/// A yard before it begins; its engine is of the kind whose turn it is.
pub fn new_yard<P: Platform, E: Engine>(platform: P) -> Yard<P, E> {
    let yard: Yard<P, E> = Yard::new(platform);
    let Some(turn) = TURN.get() else {
        return yard;
    };
    let kind = turn.kind();
    for cache in yard.caches().classes() {
        let engine: &dyn Any = &cache.engine;
        match &kind {
            EngineKind::Rules(rules) => {
                let engine = engine.downcast_ref::<OnCpus>();
                engine.expect("an engine that has kinds").follow(rules);
            }
            EngineKind::Policy(choice) => {
                engine.downcast_ref::<ArrayCaches>().expect("SLAB").follow(*choice);
            }
        }
    }
    yard
}
