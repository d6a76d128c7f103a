//! Checks for misuse in slow paths and at the end (`verify/close.rs`): they report a second free
//! wherever the object is parked, and report nothing of a correct program.

use slabyard::engine::cpu_slabs::OnCpus;
use slabyard::engine::{ArrayCaches, Engine, Sheaves, Tiny};
use slabyard::pages::Cause;
use slabyard::verify::close;
use slabyard::yard::{AddressKind, Settings, Yard};
use slabyard_testkit::machine::{Body, Config, Machine};
use std::cell::RefCell;

const CPUS: usize = 3;
/// Of the small sizes a sheaf holds many, of the large ones few, and slabs end.
const SIZES: [usize; 5] = [16, 64, 240, 1000, 9000];

thread_local! {
    static REPORTED: RefCell<Vec<(usize, Cause)>> = const { RefCell::new(Vec::new()) };
}

fn yard(seed: u64) -> Yard<Machine> {
    yard_of(seed)
}

fn yard_of<E: Engine>(seed: u64) -> Yard<Machine, E> {
    let yard = Yard::new(Machine::new(Config { cpus: CPUS, seed, ..Config::default() }));
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 100 }));
    yard.on_misuse(|found| REPORTED.with_borrow_mut(|all| all.push((found.address, found.cause))));
    yard
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// A correct program: it allocates and frees on all CPUs, and trims now and then.
struct Program<'a, E> {
    yard: &'a Yard<Machine, E>,
    random: Random,
    live: Vec<(usize, usize)>,
    /// Freed, and not handed out since.
    freed: Vec<usize>,
}

impl<'a, E: Engine> Program<'a, E> {
    fn new(yard: &'a Yard<Machine, E>, seed: u64) -> Self {
        Program { yard, random: Random(seed), live: Vec::new(), freed: Vec::new() }
    }

    fn alloc(&mut self, bytes: usize) -> usize {
        let address = self.yard.alloc_fast(bytes, 16).expect("memory");
        self.live.push((address, bytes));
        self.freed.retain(|freed| *freed != address);
        address
    }

    fn free(&mut self) {
        if !self.live.is_empty() {
            let (address, _) = self.live.swap_remove(self.random.below(self.live.len()));
            assert_eq!(self.yard.free_fast(address), Ok(()));
            self.freed.push(address);
        }
    }

    fn step(&mut self) {
        match self.random.below(1000) {
            0 => {
                self.yard.trim();
            }
            1..30 => self.yard.platform().set_cpu(self.random.below(CPUS)),
            // In waves, so that sheaves fill and barns take them.
            n if n % 2 == usize::from(self.live.len() > 600) => self.free(),
            _ => {
                let bytes = SIZES[self.random.below(SIZES.len())];
                self.alloc(bytes);
            }
        }
    }
}

/// Whole slabs that are free end, and what comes after may have no object there.
fn is_in_a_slab<E: Engine>(yard: &Yard<Machine, E>, address: usize) -> bool {
    matches!(yard.place_of(address), AddressKind::Object { begin: true, .. })
}

#[test]
fn each_second_free_is_reported_at_once_while_all_are_checked() {
    each_second_free_is_reported_at_once::<Sheaves>(u32::MAX);
    each_second_free_is_reported_at_once::<OnCpus>(u32::MAX);
    each_second_free_is_reported_at_once::<ArrayCaches>(u32::MAX);
}

/// Without a check too: each free reaches its slab.
#[test]
fn each_second_free_is_reported_at_once_by_the_engine_tiny() {
    each_second_free_is_reported_at_once::<Tiny>(u32::MAX);
    each_second_free_is_reported_at_once::<Tiny>(0);
}

fn each_second_free_is_reported_at_once<E: Engine>(checked: u32) {
    for seed in 0..8 {
        let yard = yard_of::<E>(seed);
        close::check_frees(&yard, checked);
        let mut program = Program::new(&yard, seed);
        let mut tried = 0;
        for _ in 0..6000 {
            program.step();
            assert_eq!(REPORTED.take(), [], "a correct program, seed {seed}");
            let n = program.freed.len();
            if n > 0 && program.random.below(10) == 0 {
                let address = program.freed[program.random.below(n)];
                if is_in_a_slab(&yard, address) {
                    assert!(checked == 0 || close::looks_freed(&yard, address));
                    assert_eq!(yard.free_fast(address), Ok(()));
                    assert_eq!(REPORTED.take(), [(address, Cause::DoubleFree)], "seed {seed}");
                    tried += 1;
                }
            }
            if let Some((address, bytes)) = program.live.last()
                && *bytes > 16
                && checked > 0
            {
                let found = yard.free_fast(address + 16);
                assert!(
                    matches!(found, Err(AddressKind::Object { begin: false, .. })),
                    "{found:?}"
                );
                assert!(!close::looks_freed(&yard, *address));
            }
        }
        // With `tiny` most slabs end before a second free.
        assert!(tried > 50, "{tried}");
        yard.verify().expect("no handler").expect("a sound yard");
    }
}

#[test]
fn so_many_frees_are_checked() {
    let yard = yard(1);
    close::check_frees(&yard, 3);
    let [p, q, r, s] = [(); 4].map(|()| yard.alloc(64, 16).expect("memory"));
    for object in [p, q, p] {
        yard.free_fast(object).expect("a live object");
    }
    assert_eq!(REPORTED.take(), [(p, Cause::DoubleFree)]);
    for object in [r, s, q] {
        yard.free_fast(object).expect("a live object");
    }
    assert_eq!(REPORTED.take(), [], "from the fourth on frees are not checked closely");
    close::check_parked(&yard);
    assert_eq!(REPORTED.take(), [(q, Cause::DoubleFree)]);
}

#[test]
fn the_check_at_the_end_finds_what_is_parked_twice() {
    for seed in 0..20 {
        let yard = yard(seed);
        let mut program = Program::new(&yard, seed);
        (0..600).for_each(|_| program.step());
        close::check_parked(&yard);
        assert_eq!(REPORTED.take(), [], "a correct program, seed {seed}");

        let bytes = SIZES[seed as usize % SIZES.len()];
        let mut others: Vec<_> = (0..4).map(|_| yard.alloc(bytes, 16).expect("memory")).collect();
        let p = others.pop().expect("four");
        yard.free_fast(p).expect("a live object");
        match seed % 3 {
            // Free in its slab, and parked.
            0 => {
                yard.trim();
                for other in others {
                    yard.free_fast(other).expect("a live object");
                }
            }
            // Parked on two CPUs.
            1 => yard.platform().set_cpu((yard.platform().cpu() + 1) % CPUS),
            // Parked twice on one.
            _ => others.iter().for_each(|other| yard.free_fast(*other).expect("a live object")),
        }
        assert_eq!(REPORTED.take(), []);
        if !is_in_a_slab(&yard, p) {
            continue;
        }
        yard.free_fast(p).expect("at most it is reported");
        if REPORTED.with_borrow(Vec::is_empty) {
            close::check_parked(&yard);
        }
        assert_eq!(REPORTED.take(), [(p, Cause::DoubleFree)], "seed {seed}, {bytes} bytes");
    }
}

/// While the ticker runs, a slow path gives a row so long an interval that no free of it runs out.
#[test]
fn the_check_at_the_end_looks_at_a_row_whose_first_slow_path_was_an_allocation() {
    let yard = yard(1);
    let blocks: Vec<_> = (0..64).map(|_| yard.alloc(200_000, 16).expect("memory")).collect();
    for block in blocks {
        yard.free(block).expect("a live block");
    }
    assert!(yard.is_ticking());
    yard.platform().set_cpu(1);
    let [p, q] = [(); 2].map(|()| yard.alloc_fast(64, 16).expect("memory"));
    for object in [p, q, p] {
        yard.free_fast(object).expect("a live object");
    }
    close::check_parked(&yard);
    assert_eq!(REPORTED.take(), [(p, Cause::DoubleFree)]);
}

/// What is parked is spread over many slabs, and lies deep in a stack.
#[test]
fn the_check_at_the_end_finds_what_is_parked_twice_in_a_process_that_is_not_young() {
    let yard = yard(1);
    let mut random = Random(5);
    let mut live: Vec<_> = (0..6000).map(|_| yard.alloc(64, 16).expect("memory")).collect();
    for _ in 0..700 {
        let object = live.swap_remove(random.below(live.len()));
        yard.free_fast(object).expect("a live object");
    }
    close::check_parked(&yard);
    assert_eq!(REPORTED.take(), [], "a correct program");
    let twice = live.pop().expect("thousands");
    yard.free_fast(twice).expect("a live object");
    for _ in 0..100 {
        let object = live.swap_remove(random.below(live.len()));
        yard.free_fast(object).expect("a live object");
    }
    yard.free_fast(twice).expect("it is parked again");
    for _ in 0..100 {
        let object = live.swap_remove(random.below(live.len()));
        yard.free_fast(object).expect("a live object");
    }
    assert_eq!(REPORTED.take(), [], "no free is checked closely");
    close::check_parked(&yard);
    assert_eq!(REPORTED.take(), [(twice, Cause::DoubleFree)]);
}

#[test]
fn what_was_freed_just_now_looks_freed_as_long_as_the_process_lives() {
    let yard = yard(1);
    let [p, q, r] = [(); 3].map(|()| yard.alloc(64, 16).expect("memory"));
    yard.free_fast(p).expect("a live object");
    assert!(!close::looks_freed(&yard, p), "nothing is checked");
    close::check_frees(&yard, 1);
    yard.free_fast(q).expect("a live object");
    assert!(
        close::looks_freed(&yard, q)
            && close::looks_freed(&yard, p)
            && !close::looks_freed(&yard, r)
    );
}

#[test]
fn large_blocks_fault_after_their_free_as_many_as_the_time_allows() {
    let yard = yard(1);
    let block = |bytes| yard.alloc(bytes, 16).expect("memory");
    let is_run = |address: &usize| yard.heap.run_bytes(*address).is_some();
    assert!(is_run(&block(200_000)), "nothing is checked");
    close::check_frees(&yard, 32);
    let blocks: Vec<_> = (0..100).map(|_| block(200_000)).collect();
    let mapped = blocks.iter().filter(|block| !is_run(block)).count();
    assert!((8..=12).contains(&mapped), "{mapped} are mapped at once");
    assert!(!is_run(&blocks[0]));
    yard.free(blocks[0]).expect("a live block");
    assert_eq!(yard.place_of(blocks[0]), AddressKind::Foreign, "it is gone");
    assert!(is_run(&block(200_000)), "enough for now");
    yard.set_decay_ms(10_000);
    for bytes in [200_000, 400_000, 1 << 20] {
        yard.platform().advance(1000);
        let late = block(bytes);
        assert!(!is_run(&late), "{bytes} bytes, though such blocks come and go");
        yard.free(late).expect("a live block");
        assert_eq!(yard.place_of(late), AddressKind::Foreign, "it is gone");
    }
}

#[test]
fn nothing_is_reported_while_threads_move_parked_objects() {
    for seed in 0..20 {
        let preemption = 20;
        let machine = Machine::new(Config { cpus: CPUS, seed, preemption, ..Config::default() });
        let yard = <Yard<_>>::new(machine);
        assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 100 }));
        yard.on_misuse(|found| panic!("reported of a correct program: {found:?}"));
        close::check_frees(&yard, if seed % 2 == 0 { u32::MAX } else { 0 });
        let work = |thread: u64| {
            let mut random = Random(seed * 16 + thread);
            let mut live = Vec::new();
            for _ in 0..400 {
                if live.len() < 20 && random.below(2) == 0 {
                    let bytes = SIZES[random.below(SIZES.len())];
                    live.push(yard.alloc_fast(bytes, 16).expect("memory"));
                } else if !live.is_empty() {
                    let object = live.swap_remove(random.below(live.len()));
                    assert!(!close::looks_freed(&yard, object));
                    yard.free_fast(object).expect("a live object");
                }
            }
        };
        let look = || (0..20).for_each(|_| close::check_parked(&yard));
        let mut bodies: Vec<Body<'_>> = Vec::new();
        for thread in 0..3 {
            bodies.push(Box::new(move |_: &Machine| work(thread)));
        }
        bodies.push(Box::new(move |_: &Machine| look()));
        yard.platform().run(bodies);
    }
}
