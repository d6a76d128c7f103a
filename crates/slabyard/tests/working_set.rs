//! Barns follow use: a program that goes up and down by more than sheaves hold comes to
//! exchange them whole; one that frees for good parks no more than it did.

use slabyard::cache::classes;
use slabyard::platform::machine::{Config, Machine};
use slabyard::yard::{Settings, Yard};

const BYTES: usize = 448;
/// So many sheaves go up and down: more than stacks and a new barn hold.
const SHEAVES: usize = 12;
const TICK_MS: u64 = 10;

struct Scene {
    yard: Yard<Machine>,
    class: usize,
    live: Vec<usize>,
}

impl Scene {
    fn new(bytes: usize) -> Self {
        let yard = Yard::new(Machine::new(Config::default()));
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
        self.yard.cache(self.class).nr_full(&self.yard.heap)
    }

    /// Another class goes on, and so do the rounds.
    fn rounds(&self) {
        for _ in 0..40 {
            self.yard.platform().advance(TICK_MS);
            for _ in 0..200 {
                let run = self.yard.alloc(100_000, 16).expect("memory");
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
fn what_goes_up_and_down_is_exchanged_whole() {
    let mut scene = Scene::new(BYTES);
    let many = objects(SHEAVES, &scene);
    let first = scene.operations(many);
    scene.go_up_and_down();
    let last = scene.operations(many);
    assert_eq!(last, 0, "slab operations, where the first time had {first}");
    assert!((8..=14).contains(&scene.limit()), "a limit of {} for 12 sheaves", scene.limit());
}

#[test]
fn what_is_freed_for_good_raises_nothing() {
    let mut scene = Scene::new(BYTES);
    let before = scene.limit();
    scene.operations(objects(50, &scene));
    assert_eq!((scene.limit(), scene.full()), (before, before));
}

#[test]
fn the_limit_falls_with_the_need() {
    let mut scene = Scene::new(BYTES);
    let before = scene.limit();
    scene.go_up_and_down();
    assert!(scene.limit() > before && scene.full() > before);
    scene.rounds();
    assert_eq!((scene.limit(), scene.full()), (before, 0));
}

#[test]
fn the_limit_falls_while_all_is_in_use() {
    let mut scene = Scene::new(BYTES);
    let before = scene.limit();
    scene.go_up_and_down();
    scene.up(objects(40, &scene));
    assert!(scene.limit() > before && scene.full() == 0);
    scene.rounds();
    assert_eq!(scene.limit(), before);
}

#[test]
fn a_limit_that_was_set_stays() {
    let mut scene = Scene::new(BYTES);
    scene.yard.cache(scene.class).set_barn_full_limit(&scene.yard.heap, 3);
    scene.go_up_and_down();
    assert_eq!((scene.limit(), scene.full()), (3, 3));
}

#[test]
fn barns_of_small_objects_follow_up_to_a_share_of_what_is_out() {
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
