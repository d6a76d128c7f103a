//! Parked objects keep no slabs if next to nothing is live: of a heap that is freed in any order
//! little is left after its last free, and no call follows. A program that fills and empties its
//! heap again and again keeps what it parked.
//!
//! All tests are about sheaves.

use slabyard::cache::classes::{self, ROWS};
use slabyard::platform::GRANULE;
use slabyard::reclaim::surplus;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::Random;
use slabyard_testkit::machine::{Body, Config, Machine};

const KIB: usize = 1 << 10;

fn yard(config: Config) -> Yard<Machine> {
    let yard = <Yard<_>>::new(Machine::new(config));
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 250 }));
    surplus::give_surplus(&yard, true);
    yard
}

/// KiB of all slabs.
fn slabs(yard: &Yard<Machine>) -> usize {
    let of = |class: usize| {
        let cache = yard.cache(class);
        cache.nr_slabs() as usize * cache.shape().geometry.granules() as usize * GRANULE / KIB
    };
    (0..classes::CLASSES).map(of).sum()
}

/// Objects of these sizes, so many KiB.
fn fill(yard: &Yard<Machine>, random: &mut Random, sizes: &[usize], kib: usize) -> Vec<usize> {
    let (mut objects, mut bytes) = (Vec::new(), 0);
    while bytes < kib * KIB {
        let size = sizes[random.below(sizes.len())];
        objects.push(yard.alloc_fast(size, 16).expect("memory"));
        bytes += size;
    }
    objects
}

fn free_at_random(yard: &Yard<Machine>, random: &mut Random, mut objects: Vec<usize>) {
    while !objects.is_empty() {
        let object = objects.swap_remove(random.below(objects.len()));
        yard.free_fast(object).expect("a live object");
    }
}

// The machine's clock stands still, but for the second after the heap was filled.
#[test]
fn objects_that_go_at_random_leave_few_slabs() {
    let every: Vec<usize> =
        ROWS.iter().map(|row| row.0 as usize).filter(|size| *size <= 2048).collect();
    for sizes in [&[24][..], &[200], &[1000], &[16, 48, 160, 400], &every] {
        let yard = yard(Config::default());
        let mut random = Random::new(sizes[0] as u64);
        let objects = fill(&yard, &mut random, sizes, 16 * KIB);
        let filled = slabs(&yard);
        yard.platform().advance(1000);
        free_at_random(&yard, &mut random, objects);
        let left = slabs(&yard);
        assert!(left <= filled / 6, "{sizes:?}: {left} KiB of {filled} are left");
        yard.verify().expect("no slow path").expect("sound");
    }
}

/// One object stays in each slab, and then goes, too.
#[test]
fn the_last_object_of_each_slab_takes_it_along() {
    let yard = yard(Config::default());
    let mut random = Random::new(1);
    let objects = fill(&yard, &mut random, &[160], 16 * KIB);
    yard.platform().advance(1000);
    let mut last = None;
    let (stay, go): (Vec<_>, Vec<_>) = objects.into_iter().partition(|object| {
        let slab = object / (16 * KIB);
        last.replace(slab) != Some(slab)
    });
    free_at_random(&yard, &mut random, go);
    let pinned = slabs(&yard);
    assert!(pinned >= 12 * KIB, "{pinned} KiB have a live object");
    free_at_random(&yard, &mut random, stay);
    let left = slabs(&yard);
    assert!(left <= KIB, "{left} KiB are left");
}

/// What another CPU has parked is flushed as well.
#[test]
fn other_cpus_stacks_keep_no_slab() {
    let yard = yard(Config { cpus: 2, ..Config::default() });
    let objects = std::sync::Mutex::new(Vec::new());
    let bodies: Vec<Body<'_>> = (0..2)
        .map(|nth| -> Body<'_> {
            let (yard, objects) = (&yard, &objects);
            Box::new(move |_| {
                let mut random = Random::new(nth);
                let all = fill(yard, &mut random, &[320], 8 * KIB);
                let (mine, rest) = all.split_at(all.len() / 2);
                objects.lock().unwrap().extend_from_slice(rest);
                free_at_random(yard, &mut random, mine.to_vec());
            })
        })
        .collect();
    yard.platform().run(bodies);
    yard.platform().advance(1000);
    let rest = objects.into_inner().unwrap();
    free_at_random(&yard, &mut Random::new(7), rest);
    let left = slabs(&yard);
    assert!(left <= KIB, "{left} KiB are left");
    yard.verify().expect("no slow path").expect("sound");
}

/// The barn comes to hold the whole wave, which is flushed while there are tokens: the clock stands
/// still.
#[test]
fn equal_waves_keep_what_they_parked() {
    let yard = yard(Config::default());
    let mut random = Random::new(3);
    let mut wave = || {
        let objects = fill(&yard, &mut random, &[1000], 6 * KIB);
        free_at_random(&yard, &mut random, objects);
        slabs(&yard)
    };
    let left: Vec<_> = (0..60).map(|_| wave()).collect();
    assert!(left[0] <= KIB, "the first wave: {left:?}");
    assert!(left[30..].iter().all(|kib| *kib >= 4 * KIB), "{left:?}");
    yard.platform().advance(60_000);
    let left = wave();
    assert!(left <= KIB, "a wave in a minute: {left} KiB are left");
}
