//! The mailbox on the modelled machine: the next slow path serves another process's request,
//! once, and the yard stays sound.
//!
//! Tests of what is parked are about sheaves alone; the others run on each engine.

use crate::each_engine;
use slabyard::cache::{CacheId, CacheSettings, classes};
use slabyard::calls::help;
use slabyard::engine::{Engine, Header};
use slabyard::mail::header;
use slabyard::platform::{PerCpu, Threads};
use slabyard::slab::ObjectFn;
use slabyard::sync::{AtomicU64, Ordering};
use slabyard::yard::{Settings, Yard};
use slabyard::{debugging, mail};
use slabyard_abi::engines::EngineName;
use slabyard_abi::region::{
    CacheWord, FORGOTTEN, MAGIC, Mail, Outcome, Request, TUNABLES, VERSION, WHOLE_YARD, Word,
    check, front, outside,
};
use slabyard_testkit::machine::{Config, Machine};

const CLASS: usize = 3;
/// The bit of a thread's depth word that says that it is in a slow path.
const IN_SLOW_PATH: u32 = 1;

fn yard_of<E: Engine>(config: Config) -> Yard<Machine, E> {
    let yard = each_engine::new_yard(Machine::new(config));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 1000 }));
    yard
}

/// A yard of sheaves.
fn yard_on(config: Config) -> Yard<Machine> {
    yard_of(config)
}

fn word<E: Engine>(yard: &Yard<Machine, E>, word: Mail) -> u64 {
    yard.platform().rows().header()[word.index()].load(Ordering::Relaxed)
}

fn put<E: Engine>(yard: &Yard<Machine, E>, word: Mail, value: u64) {
    yard.platform().rows().header()[word.index()].store(value, Ordering::Relaxed);
}

/// Writes a request about a cache of malloc, or the whole yard, as another process would.
fn ask<E: Engine>(
    yard: &Yard<Machine, E>,
    token: u64,
    what: u64,
    cache: u64,
    key: u64,
    value: u64,
) {
    place(yard, [token, what, cache, 1, key, value]);
}

fn place<E: Engine>(yard: &Yard<Machine, E>, request: [u64; 6]) {
    let [token, what, cache, generation, key, value] = request;
    put(yard, Mail::What, what);
    put(yard, Mail::Cache, cache);
    put(yard, Mail::Generation, generation);
    put(yard, Mail::Key, key);
    put(yard, Mail::Value, value);
    put(yard, Mail::Check, check(request));
    put(yard, Mail::Asked, token);
}

/// Any slow path.
fn slow_path<E: Engine>(yard: &Yard<Machine, E>) {
    // Larger than what a bank serves.
    let large = yard.alloc(600_000, 16).expect("memory");
    yard.free(large).expect("a live run");
}

fn answer<E: Engine>(yard: &Yard<Machine, E>, token: u64) -> Option<Outcome> {
    (word(yard, Mail::Answered) == token).then(|| Outcome::of(word(yard, Mail::Result))).flatten()
}

fn verify<E: Engine>(yard: &Yard<Machine, E>) {
    yard.verify().expect("no slow path is under way").expect("a sound yard");
}

/// A tunable that the cache has, and its value.
fn a_tunable(cache: &Header) -> (u64, u32) {
    if cache.front() & front::ARRAYS != 0 {
        return (key("batchcount"), cache.cpu_partial().0);
    }
    (key("min_partial"), cache.min_partial())
}

fn key(name: &str) -> u64 {
    TUNABLES.iter().find(|row| row.name == name).expect("a tunable").number
}

/// Objects taken and freed, so that stacks, barn and slabs hold some.
fn use_some<E: Engine>(yard: &Yard<Machine, E>) {
    let bytes = classes::ROWS[CLASS].0 as usize;
    let objects: Vec<_> = (0..5000).map(|_| yard.alloc_fast(bytes, 16).expect("memory")).collect();
    for object in objects {
        yard.free_fast(object).expect("a live object");
    }
}

fn create<E: Engine>(yard: &Yard<Machine, E>, name: &str) -> CacheId {
    yard.create_cache(name, &CacheSettings::of(100)).expect("a cache")
}

/// The generation that a reader sees.
fn generation<E: Engine>(yard: &Yard<Machine, E>, id: CacheId) -> u64 {
    let shown = yard.find_cache(id).expect("it is there").shown_at();
    // SAFETY: a word of a cache, an atomic number.
    unsafe { &*((shown + CacheWord::Generation.index() * 8) as *const AtomicU64) }
        .load(Ordering::Relaxed)
}

each_engine! {
    fn the_header_holds_every_address<E>() {
        let yard: &'static Yard<Machine, E> = Box::leak(Box::new(yard_of(Config::default())));
        header::publish(yard, 1);
        let header = yard.platform().rows().header();
        let published = |word: Word| header[word.index()].load(Ordering::Relaxed);
        let magic: Vec<u8> =
            header[..2].iter().flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes()).collect();
        assert_eq!(magic, MAGIC);
        assert_eq!(published(Word::Version), VERSION);
        assert_eq!(published(Word::Region), yard.heap.region.base() as u64);
        assert_eq!(published(Word::NrCaches), classes::CLASSES as u64);
        let second = published(Word::Caches) + published(Word::CacheStride);
        assert_eq!(second, yard.cache(1).shown_at() as u64);
        // SAFETY: words of a cache, read as what they are.
        let name = unsafe { *((second as usize + CacheWord::Name0.index() * 8) as *const [u8; 16]) };
        assert_eq!(&name[..10], b"malloc-32\0");
        // No address is missing; here nothing counts, helps or watches, no list has cold pages, nobody
        // merges caches, and most engines have no words of nodes nor of debugging.
        let has_nodes = yard.cache(0).engine.node_words(yard.cache(0).on(&yard.heap)).is_some();
        let can_debug = yard.cache(0).engine.debugging_word().is_some();
        for (word, name, _) in slabyard_abi::region::WORDS {
            let of_nodes = matches!(word, Word::Nodes | Word::NodeWords | Word::NodeStride);
            let of_pressure = matches!(
                word,
                Word::Pressure | Word::NrPressure | Word::RefusedAt | Word::ReturnedAt
            );
            let of_names = matches!(word, Word::Aliases | Word::NrAliases);
            let is_off = of_pressure
                || of_names
                || matches!(word, Word::Counts | Word::ColdRuns | Word::Helper | Word::Outside)
                || matches!(word, Word::Profile);
            let no_debugging = matches!(word, Word::Debugging) && !can_debug;
            let may_miss = is_off || no_debugging || of_nodes && !has_nodes;
            assert!(published(*word) != 0 || may_miss, "{name}");
        }
    }

    fn a_shrink_of_one_cache_and_of_all_is_done_once<E>() {
        let yard: Yard<Machine, E> = yard_of(Config::default());
        use_some(&yard);
        let slabs = yard.cache(CLASS).nr_slabs();
        // Nothing that is empty is kept by SLOB, nor by SLUB_TINY.
        let parks_none = matches!(yard.engine(), EngineName::Slob | EngineName::Tiny);
        // With debugging, what was freed waits.
        let keeps = !parks_none || yard.cache(CLASS).engine.debug().is_some();
        assert_eq!(slabs > 0, keeps);
        ask(&yard, 7, Request::Shrink as u64, CLASS as u64, 0, 0);
        assert_eq!(answer(&yard, 7), None, "no slow path came yet");
        slow_path(&yard);
        assert_eq!(answer(&yard, 7), Some(Outcome::Done));
        assert_eq!(word(&yard, Mail::Old), u64::from(slabs));
        assert_eq!(word(&yard, Mail::New), 0);
        let slab_bytes = yard.cache(CLASS).shape().geometry.slab_bytes() as u64;
        assert!(word(&yard, Mail::Bytes) >= u64::from(slabs) * slab_bytes);
        assert_eq!(yard.cache(CLASS).nr_slabs(), 0);
        verify(&yard);
        use_some(&yard);
        slow_path(&yard);
        assert_eq!(yard.cache(CLASS).nr_slabs() > 0, keeps, "a request is served once");
        ask(&yard, 8, Request::Shrink as u64, WHOLE_YARD, 0, 0);
        slow_path(&yard);
        assert_eq!(answer(&yard, 8), Some(Outcome::Done));
        assert_eq!(yard.cache(CLASS).nr_slabs(), 0);
        verify(&yard);
    }

    fn a_shrink_of_empty_slabs_leaves_a_sound_yard<E>() {
        let yard: Yard<Machine, E> = yard_of(Config::default());
        for token in 1..4 {
            use_some(&yard);
            ask(&yard, token, Request::ShrinkEmpty as u64, CLASS as u64, 0, 0);
            slow_path(&yard);
            assert_eq!(answer(&yard, token), Some(Outcome::Done));
            verify(&yard);
        }
    }

    fn where_no_cpu_can_be_stopped_a_shrink_is_requested_of_threads<E>() {
        let yard: Yard<Machine, E> = yard_of(Config { can_stop: false, ..Config::default() });
        use_some(&yard);
        ask(&yard, 9, Request::Shrink as u64, WHOLE_YARD, 0, 0);
        slow_path(&yard);
        assert_eq!(answer(&yard, 9), Some(Outcome::Asked));
        assert_eq!(yard.cache(CLASS).nr_slabs(), 0, "the row of the thread that serves is drained");
    }

    fn every_tunable_is_set_and_holds<E>() {
        let yard: Yard<Machine, E> = yard_of(Config::default());
        use_some(&yard);
        let cache = yard.cache(CLASS);
        for (token, row) in (1u64..).zip(TUNABLES) {
            let scope = if row.of_yard { WHOLE_YARD } else { CLASS as u64 };
            let value = row.least + 3;
            ask(&yard, token, Request::Set as u64, scope, row.number, value);
            slow_path(&yard);
            // What an engine does not have is refused.
            let has_arrays = cache.front() & front::ARRAYS != 0;
            let has_it = match row.name {
                // Less than the batchcount.
                "limit" => false,
                "batchcount" | "sharedfactor" => has_arrays,
                "min_partial" => !has_arrays && yard.engine() != EngineName::Slob,
                "cpu_partial" => !has_arrays && cache.front() & !front::NODES != 0,
                _ => row.of_yard || !has_arrays && cache.sheaf_capacity() > 0,
            };
            if !has_it {
                assert_eq!(answer(&yard, token), Some(Outcome::Unknown), "{}", row.name);
                continue;
            }
            assert_eq!(answer(&yard, token), Some(Outcome::Done), "{}", row.name);
            assert_eq!(word(&yard, Mail::New), value, "{}", row.name);
            assert_ne!(word(&yard, Mail::Old), value, "{}", row.name);
            verify(&yard);
        }
        if cache.front() & front::ARRAYS != 0 {
            assert_eq!(cache.cpu_partial(), (4, 3));
        } else if cache.sheaf_capacity() > 0 {
            assert_eq!(cache.sheaf_capacity(), 4);
            assert_eq!(cache.barn_limits(), (3, 3));
        }
        if yard.engine() != EngineName::Slob {
            assert_eq!(a_tunable(cache).1, 3 + u32::from(cache.front() & front::ARRAYS != 0));
        }
        assert_eq!(yard.decay_ms(), 3);
        assert_eq!(yard.heap.barn_bytes.limit(), 3);
    }

    fn an_impossible_request_is_refused_and_changes_nothing<E>() {
        let yard: Yard<Machine, E> = yard_of(Config::default());
        use_some(&yard);
        let (key_of_it, before) = a_tunable(yard.cache(CLASS));
        let (set, class) = (Request::Set as u64, CLASS as u64);
        let refused = [
            (set, class, key("sheaf_capacity"), 0, Outcome::OutOfRange),
            (set, class, key_of_it, 1 << 32 | 5, Outcome::OutOfRange),
            (set, class, key("decay_ms"), 5, Outcome::Unknown),
            (set, WHOLE_YARD, key_of_it, 5, Outcome::Unknown),
            (set, classes::CLASSES as u64, key_of_it, 5, Outcome::Unknown),
            (set, class, 77, 5, Outcome::Unknown),
            (77, class, key_of_it, 5, Outcome::Unknown),
        ];
        for (token, (what, cache, key, value, outcome)) in (1u64..).zip(refused) {
            ask(&yard, token, what, cache, key, value);
            slow_path(&yard);
            assert_eq!(answer(&yard, token), Some(outcome), "request {token}");
        }
        assert_eq!(a_tunable(yard.cache(CLASS)).1, before);
        verify(&yard);
    }

    fn a_torn_request_is_not_served<E>() {
        let yard: Yard<Machine, E> = yard_of(Config::default());
        let tunable = || a_tunable(yard.cache(CLASS));
        ask(&yard, 5, Request::Set as u64, CLASS as u64, tunable().0, 100);
        put(&yard, Mail::Value, 101);
        slow_path(&yard);
        assert_eq!(answer(&yard, 5), None);
        assert!(tunable().1 < 100);
        mail::forget_mail(&yard);
        assert_eq!(word(&yard, Mail::Answered), 5, "the child of a fork begins without mail");
        assert_eq!(word(&yard, Mail::Result), FORGOTTEN, "who asked the child itself asks again");
    }

    /// A thread that another process stopped may stand anywhere: in a slow path, or where it has a
    /// lock that a destructor takes. Then it serves nothing, and the next slow path does.
    fn a_thread_that_was_stopped_serves_where_it_calls_nothing_of_the_program<E>() {
        let yard: Yard<Machine, E> = yard_of(Config::default());
        let shrink = |token| ask(&yard, token, Request::Shrink as u64, WHOLE_YARD, 0, 0);
        shrink(1);
        if debugging::has_debugging(&yard) {
            assert_eq!(help::answer_outside(&yard), outside::FOREIGN);
            return;
        }
        assert_eq!(help::answer_outside(&yard), outside::LOOKED);
        assert_eq!(answer(&yard, 1), Some(Outcome::Done));

        shrink(2);
        let depth = &yard.platform().thread().depth;
        depth.fetch_or(IN_SLOW_PATH, Ordering::Relaxed);
        assert_eq!(help::answer_outside(&yard), outside::BUSY);
        depth.fetch_and(!IN_SLOW_PATH, Ordering::Relaxed);
        assert_eq!(answer(&yard, 2), None);

        let destructor = ObjectFn { function: |_, _| {}, word: 0 };
        let settings = CacheSettings { destructor: Some(destructor), ..CacheSettings::of(100) };
        let id = yard.create_cache("ends", &settings).expect("a cache");
        let object = yard.alloc_from(id).expect("memory");
        assert_eq!(answer(&yard, 2), Some(Outcome::Done), "by a slow path");
        shrink(3);
        assert_eq!(help::answer_outside(&yard), outside::FOREIGN);
        assert_eq!(answer(&yard, 3), None);
        slow_path(&yard);
        assert_eq!(answer(&yard, 3), Some(Outcome::Done));
        yard.free(object).expect("a live object");
        // SAFETY: one thread, and no call names the cache afterwards.
        unsafe { yard.destroy_cache(id) }.expect("no object is live");
        shrink(4);
        assert_eq!(help::answer_outside(&yard), outside::LOOKED);
        verify(&yard);
    }

    /// The race of a reader with a program: the cache that it looked at is destroyed, and
    /// another one gets its number before the request arrives.
    fn a_request_about_a_cache_that_is_gone_is_refused<E>() {
        let yard: Yard<Machine, E> = yard_of(Config::default());
        let first = create(&yard, "first");
        let (number, seen) = (first.number() as u64, generation(&yard, first));
        // SAFETY: one thread, and no call names the cache afterwards.
        unsafe { yard.destroy_cache(first) }.expect("no object is live");
        let set = |token, generation, value| {
            let (set, key) = (Request::Set as u64, a_tunable(yard.cache(CLASS)).0);
            place(&yard, [token, set, number, generation, key, value]);
            slow_path(&yard);
            answer(&yard, token)
        };
        assert_eq!(set(1, seen, 77), Some(Outcome::Unknown), "no cache has the number");
        let second = create(&yard, "second");
        assert_eq!(second.number() as u64, number, "the number is used again");
        let shrink = [2, Request::Shrink as u64, number, seen, 0, 0];
        place(&yard, shrink);
        slow_path(&yard);
        assert_eq!(answer(&yard, 2), Some(Outcome::Unknown));
        assert_eq!(set(3, seen, 77), Some(Outcome::Unknown));
        let value = || a_tunable(yard.find_cache(second).expect("it is there")).1;
        assert_ne!(value(), 77);
        assert_eq!(set(4, generation(&yard, second), 77), Some(Outcome::Done));
        assert_eq!(value(), 77);
        verify(&yard);
    }
}

#[test]
fn a_sheafs_capacity_is_what_a_cpu_parks() {
    let yard = yard_on(Config::default());
    use_some(&yard);
    let (set, class) = (Request::Set as u64, CLASS as u64);
    for (token, key, value) in [(1, key("sheaf_capacity"), 4), (2, key("node_limit"), 3)] {
        let scope = if token == 1 { class } else { WHOLE_YARD };
        ask(&yard, token, set, scope, key, value);
        slow_path(&yard);
        assert_eq!(answer(&yard, token), Some(Outcome::Done));
    }
    // With sheaves of 4 and nothing for barns, a CPU parks 8 objects and no more.
    use_some(&yard);
    verify(&yard);
    let counters =
        yard.quiesce(|quiesced| Yard::count_cache(quiesced, CLASS)).expect("no slow path");
    assert!(counters.parked_cpu <= 8 && counters.parked_node == 0, "{counters:?}");
    // And as many as there can be, with objects parked already.
    ask(&yard, 3, set, class, key("sheaf_capacity"), 1022);
    slow_path(&yard);
    use_some(&yard);
    verify(&yard);
    let counters =
        yard.quiesce(|quiesced| Yard::count_cache(quiesced, CLASS)).expect("no slow path");
    assert!(counters.parked_cpu > 500, "{counters:?}");
}

#[test]
fn a_new_limit_flushes_what_the_old_one_allowed() {
    let yard = yard_on(Config::default());
    let parked = || {
        let c = yard.quiesce(|quiesced| Yard::count_cache(quiesced, CLASS)).expect("no slow path");
        (c.parked_cpu, c.parked_node)
    };
    use_some(&yard);
    let (cpu, node) = parked();
    assert!(cpu > 0 && node > 0, "CPUs hold {cpu} objects, the barn {node}");
    let (set, class) = (Request::Set as u64, CLASS as u64);
    ask(&yard, 1, set, class, key("sheaf_capacity"), 100);
    slow_path(&yard);
    assert_eq!(parked(), (0, node));
    ask(&yard, 2, set, class, key("barn_full"), 0);
    slow_path(&yard);
    assert_eq!(parked(), (0, 0));
    verify(&yard);
}
