//! A barn's limit follows use: a program whose number of objects goes up and down by more than
//! sheaves hold comes to exchange whole sheaves; one that frees for good parks no more than
//! before.
//!
//! All tests are about sheaves, because the engine `tiny` has no barn.

use slabyard::cache::classes;
use slabyard::engine::SlowPaths;
use slabyard::engine::node_set::NodeSet;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};

const BYTES: usize = 448;
/// The program allocates and frees so many sheaves' worth: more than stacks and a new barn
/// hold.
const SHEAVES: usize = 12;
const TICK_MS: u64 = 10;

struct Scene {
    yard: Yard<Machine>,
    class: usize,
    live: Vec<usize>,
}

impl Scene {
    fn new(bytes: usize) -> Self {
        let yard = <Yard<_>>::new(Machine::new(Config::default()));
        assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 8 * TICK_MS as u32 }));
        Scene { yard, class: classes::class_for(bytes).expect("a class"), live: Vec::new() }
    }

    fn up(&mut self, objects: usize) {
        let bytes = classes::ROWS[self.class].0 as usize;
        let more = (0..objects).map(|_| self.yard.alloc_fast(bytes, 16).expect("memory"));
        self.live.extend(more);
    }

    fn down(&mut self) {
        for object in self.live.drain(..).rev() {
            self.yard.free_fast(object).expect("a live object");
        }
    }

    fn limit(&self) -> u32 {
        self.yard.cache(self.class).barn_limits().0
    }

    fn full(&self) -> u32 {
        let cache = self.yard.cache(self.class);
        let (sheaves, here) = cache.engine.0.here(cache.on(&self.yard.heap));
        sheaves.nr_full(here)
    }

    /// The program goes on with another class, so that reclaim passes go on.
    fn run_passes(&self) {
        for _ in 0..40 {
            self.yard.platform().advance(TICK_MS);
            for _ in 0..200 {
                // Larger than what a bank serves.
                let run = self.yard.alloc(600_000, 16).expect("memory");
                self.yard.free(run).expect("a live run");
            }
        }
    }

    /// Slab operations of going up and down by so many objects.
    fn operations(&mut self, objects: usize) -> u64 {
        let before = self.yard.platform().tally().slab_operations;
        self.up(objects);
        self.down();
        self.yard.platform().tally().slab_operations - before
    }

    fn go_up_and_down(&mut self) {
        for _ in 0..20 {
            self.operations(objects(SHEAVES, self));
        }
    }
}

fn objects(sheaves: usize, scene: &Scene) -> usize {
    sheaves * scene.yard.cache(scene.class).sheaf_capacity() as usize
}

#[test]
fn a_program_that_goes_up_and_down_exchanges_whole_sheaves() {
    let mut scene = Scene::new(BYTES);
    let many = objects(SHEAVES, &scene);
    let first = scene.operations(many);
    scene.go_up_and_down();
    let last = scene.operations(many);
    assert_eq!(last, 0, "slab operations, where the first time had {first}");
    assert!((8..=14).contains(&scene.limit()), "a limit of {} for 12 sheaves", scene.limit());
}

#[test]
fn frees_for_good_do_not_raise_the_limit() {
    let mut scene = Scene::new(BYTES);
    let before = scene.limit();
    scene.operations(objects(50, &scene));
    assert_eq!((scene.limit(), scene.full()), (before, before));
}

#[test]
fn the_limit_falls_when_sheaves_are_unused() {
    let mut scene = Scene::new(BYTES);
    let before = scene.limit();
    scene.go_up_and_down();
    assert!(scene.limit() > before && scene.full() > before);
    scene.run_passes();
    assert_eq!((scene.limit(), scene.full()), (before, 0));
}

#[test]
fn the_limit_falls_while_all_objects_are_live() {
    let mut scene = Scene::new(BYTES);
    let before = scene.limit();
    scene.go_up_and_down();
    scene.up(objects(40, &scene));
    assert!(scene.limit() > before && scene.full() == 0);
    scene.run_passes();
    assert_eq!(scene.limit(), before);
}

#[test]
fn a_limit_that_was_set_stays() {
    let mut scene = Scene::new(BYTES);
    let cache = scene.yard.cache(scene.class);
    cache.engine.set(cache.on(&scene.yard.heap), "barn_full", 3).expect("a tunable");
    scene.go_up_and_down();
    assert_eq!((scene.limit(), scene.full()), (3, 3));
}

#[test]
fn barns_of_small_objects_rise_to_a_share_of_what_is_out() {
    let mut scene = Scene::new(48);
    let before = scene.limit();
    scene.go_up_and_down();
    assert_eq!(scene.limit(), before, "an eighth of 12 sheaves is less");

    let staying = objects(100, &scene);
    scene.up(staying);
    let stays = std::mem::take(&mut scene.live);
    scene.go_up_and_down();
    let beside = scene.limit();
    assert!((8..=14).contains(&beside), "a limit of {beside} for 12 sheaves beside 100");
    assert_eq!(scene.operations(objects(SHEAVES, &scene)), 0);
    for object in stays {
        scene.yard.free_fast(object).expect("a live object");
    }
}
