//! Threads that allocate, hand objects to each other, free what they got, drain and trim, on each
//! engine; then the yard's own checker, and the end of all objects.

use crate::owned::{Hand, Owned};
use crate::{THREADS, begun, new_yard};
use slabyard::calls::trim;
use slabyard::engine::cpu_slabs::{OnCpus, Rules};
use slabyard::engine::{ArrayCaches, Debug, Engine, Sheaves, Slob, Tiny};
use slabyard::platform::PerCpu;
use slabyard::yard::Yard;
use slabyard_testkit::Random;
use slabyard_testkit::parallel::{Body, Owner, Parallel};

/// Calls of each thread.
const CALLS: usize = 30;
/// A small class, one that empties its slabs soon, a run.
const SIZES: [usize; 3] = [64, 8000, 40_000];

struct Scene<E> {
    yard: Yard<Parallel, E>,
    hands: [Hand; THREADS],
}

impl<E: Engine> Scene<E> {
    fn act(&self, machine: &Parallel, me: usize) {
        // Miri's seed decides the order of the threads; their calls are the same.
        let mut random = Random::new(me as u64);
        let mut mine = Vec::new();
        for nth in 0..CALLS {
            match random.below(10) {
                0..5 => {
                    let bytes = SIZES[[0, 0, 0, 1, 2][random.below(5)]];
                    let token = (me << 32 | nth) as u64;
                    mine.extend(Owned::alloc(&self.yard, bytes, token).map(Box::new));
                }
                5..7 if !mine.is_empty() => {
                    let object = mine.swap_remove(random.below(mine.len()));
                    let to = &self.hands[(me + 1 + random.below(THREADS - 1)) % THREADS];
                    if let Err(object) = to.give(object) {
                        object.free(&self.yard);
                    }
                }
                7 => machine.move_to(random.below(2)),
                8 if me == 1 => drop(self.yard.trim()),
                8 => machine.advance(30),
                _ => {
                    let handed = self.hands[me].take();
                    if let Some(object) = handed.or_else(|| mine.pop()) {
                        object.free(&self.yard);
                    }
                }
            }
        }
        mine.into_iter().for_each(|object| object.free(&self.yard));
        if me == 0 {
            trim::drain_thread(&self.yard);
        }
    }
}

fn run<E: Engine>(yard: Yard<Parallel, E>) {
    let scene = Scene { yard: begun(yard), hands: Default::default() };
    let body = |me: usize| -> Body<'_> {
        let scene = &scene;
        Box::new(move |machine| scene.act(machine, me))
    };
    scene.yard.platform().run((0..THREADS).map(body).collect());
    scene.hands.iter().filter_map(Hand::take).for_each(|object| object.free(&scene.yard));
    trim::adopt_rows(&scene.yard, 0..scene.yard.platform().rows().len());
    scene.yard.trim();
    let sound = scene.yard.verify().expect("no slow path").expect("a sound yard");
    assert_eq!((sound.live, sound.runs), (0, 0), "{sound:?}");
}

macro_rules! engines {
    ($($name:ident: $engine:ty, $begin:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn on_cpus() {
                run::<$engine>($begin(new_yard(Owner::Cpus(2))));
            }

            #[test]
            fn on_private_rows() {
                run::<$engine>($begin(new_yard(Owner::Threads)));
            }
        }
    )*};
}

/// An engine as it is if nothing is chosen.
fn as_it_begins<E>(yard: Yard<Parallel, E>) -> Yard<Parallel, E> {
    yard
}

/// CPU slabs by the first rules of their kinds.
fn first_rules(yard: Yard<Parallel, OnCpus>) -> Yard<Parallel, OnCpus> {
    let rules = Rules::kinds().next().expect("rules");
    yard.caches().classes().iter().for_each(|cache| cache.engine.follow(&rules));
    yard
}

engines! {
    slub: Sheaves, as_it_begins;
    cpu_slabs: OnCpus, first_rules;
    slab: ArrayCaches, as_it_begins;
    tiny: Tiny, as_it_begins;
    slob: Slob, as_it_begins;
    debug: Debug, as_it_begins;
}
