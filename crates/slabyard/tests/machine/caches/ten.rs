//! What a slow path costs a program that uses 10 of 4,000 caches, beside one that has only 10: two
//! yards in one process, in turns, so that disturbances of the machine affect both.

use slabyard::cache::{CacheId, CacheSettings};
use slabyard::platform::linux::Linux;
use slabyard::yard::{Settings, Yard};
use std::time::{Duration, Instant};

static FEW: Yard<Linux> = Yard::new(Linux::new());
static MANY: Yard<Linux> = Yard::new(Linux::new());

const USED: usize = 10;
const CACHES: usize = 4000;
/// Turns of each yard, and slow paths of a turn.
const TURNS: usize = 1200;
const OBJECTS: usize = 64;
const ROUNDS: usize = 40;
/// What was used once is idle after so long.
const SETTLES: Duration = Duration::from_secs(4);
/// The most that the medians may differ, in percent.
const MOST_PERCENT: f64 = 3.0;

/// A yard with so many caches: their ids.
fn begin(yard: &'static Yard<Linux>, caches: usize) -> Vec<CacheId> {
    assert!(yard.platform().init(None));
    assert!(yard.init(Settings::default()));
    yard.platform().prepare_fence();
    let create = |n| yard.create_cache(n, &CacheSettings::of(64 + n as u32 % 10 * 32));
    (0..caches).map(|n| create(n).expect("a cache")).collect()
}

/// One turn: each call takes the slow path.
fn turn(yard: &'static Yard<Linux>, ids: &[CacheId]) -> Duration {
    let mut objects = [0; OBJECTS];
    let began = Instant::now();
    for round in 0..ROUNDS {
        let id = ids[round % ids.len()];
        for object in &mut objects {
            *object = yard.alloc_from_slow(id).expect("memory");
        }
        for object in objects {
            assert_eq!(yard.free(object), Ok(()));
        }
    }
    began.elapsed()
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

#[test]
#[ignore = "measures time: `ci/caches-by-hand` runs it"]
fn ten_of_thousands_cost_as_much_as_ten() {
    let (few, many) = (begin(&FEW, USED), begin(&MANY, CACHES));
    let ten_of_many = many.iter().step_by(CACHES / USED).copied().collect();
    let yards: [(&'static Yard<Linux>, Vec<CacheId>); 2] = [(&FEW, few), (&MANY, ten_of_many)];
    let compare = |when: &str| {
        let mut times = [const { Vec::new() }; 2];
        for nth in 0..2 * TURNS {
            // ABBA, so that neither always comes first.
            let which = (nth + nth / 2) % 2;
            let (yard, ids) = &yards[which];
            times[which].push(turn(yard, ids));
        }
        let [few, many] = times.each_mut().map(|times| median(times));
        let ns = |turn: f64| turn * 1e9 / (2 * OBJECTS * ROUNDS) as f64;
        let percent = (many / few - 1.0) * 100.0;
        println!(
            "{when}: {:.2} ns a slow path with {USED} caches, {:.2} with {CACHES}: {percent:+.2} %",
            ns(few),
            ns(many)
        );
        percent
    };
    compare("to begin with");
    let unused = compare("the others were never used");
    for id in &many {
        let object = MANY.alloc_from(*id).expect("memory");
        assert_eq!(MANY.free_to(*id, object), Ok(()));
    }
    // Their slabs end and their pages go back first: that is work of its own.
    let ten_of_many = &yards[1].1;
    let began = Instant::now();
    while began.elapsed() < SETTLES {
        turn(&MANY, ten_of_many);
    }
    let slabs = |id: &&CacheId| MANY.cache(id.number()).nr_slabs() > 0;
    let left = many.iter().filter(slabs).count();
    println!("{left} of {CACHES} caches have slabs {SETTLES:?} after all were used");
    let idle = compare("the others were used once");
    assert!(unused < MOST_PERCENT && idle < MOST_PERCENT, "{unused:.2} % and {idle:.2} %");
}
