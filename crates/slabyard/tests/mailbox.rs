//! The mailbox on the modelled machine: the next slow path serves another process's request,
//! once, and the yard stays sound.

use slabyard::cache::classes;
use slabyard::platform::Platform;
use slabyard::platform::machine::{Config, Machine};
use slabyard::sync::Ordering;
use slabyard::yard::{Settings, Yard};
use slabyard_abi::region::{
    CacheWord, MAGIC, Mail, Outcome, Request, TUNABLES, VERSION, WHOLE_YARD, Word, check,
};

const CLASS: usize = 3;

fn yard_on(config: Config) -> Yard<Machine> {
    let yard = <Yard<_>>::new(Machine::new(config));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 1000 }));
    yard
}

fn word(yard: &Yard<Machine>, word: Mail) -> u64 {
    yard.platform().rows().header()[word.index()].load(Ordering::Relaxed)
}

fn put(yard: &Yard<Machine>, word: Mail, value: u64) {
    yard.platform().rows().header()[word.index()].store(value, Ordering::Relaxed);
}

/// Writes a request, as another process would.
fn ask(yard: &Yard<Machine>, token: u64, what: u64, cache: u64, key: u64, value: u64) {
    put(yard, Mail::What, what);
    put(yard, Mail::Cache, cache);
    put(yard, Mail::Key, key);
    put(yard, Mail::Value, value);
    put(yard, Mail::Check, check([token, what, cache, key, value]));
    put(yard, Mail::Asked, token);
}

/// Any slow path.
fn slow_path(yard: &Yard<Machine>) {
    let large = yard.alloc(100_000, 16).expect("memory");
    yard.free(large).expect("a live run");
}

fn answer(yard: &Yard<Machine>, token: u64) -> Option<Outcome> {
    (word(yard, Mail::Answered) == token).then(|| Outcome::of(word(yard, Mail::Result))).flatten()
}

fn verify(yard: &Yard<Machine>) {
    yard.verify().expect("no slow path is under way").expect("a sound yard");
}

fn key(name: &str) -> u64 {
    TUNABLES.iter().find(|row| row.name == name).expect("a tunable").number
}

/// Objects taken and freed, so that stacks, barn and slabs hold some.
fn use_some(yard: &Yard<Machine>) {
    let bytes = classes::ROWS[CLASS].0 as usize;
    let objects: Vec<_> = (0..5000).map(|_| yard.alloc_fast(bytes, 16).expect("memory")).collect();
    for object in objects {
        yard.free_fast(object).expect("a live object");
    }
}

#[test]
fn the_header_holds_every_address() {
    let yard: &'static Yard<Machine> = Box::leak(Box::new(yard_on(Config::default())));
    yard.publish(1);
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
    // No address is missing.
    for (word, name, _) in slabyard_abi::region::WORDS {
        assert!(published(*word) != 0, "{name}");
    }
}

#[test]
fn a_shrink_of_one_cache_and_of_all_is_done_once() {
    let yard = yard_on(Config::default());
    use_some(&yard);
    let slabs = yard.cache(CLASS).nr_slabs();
    assert!(slabs > 0);
    ask(&yard, 7, Request::Shrink as u64, CLASS as u64, 0, 0);
    assert_eq!(answer(&yard, 7), None, "no slow path came yet");
    slow_path(&yard);
    assert_eq!(answer(&yard, 7), Some(Outcome::Done));
    assert_eq!(word(&yard, Mail::Old), u64::from(slabs));
    assert_eq!(word(&yard, Mail::New), 0);
    assert!(word(&yard, Mail::Bytes) >= u64::from(slabs) << 15);
    assert_eq!(yard.cache(CLASS).nr_slabs(), 0);
    verify(&yard);
    use_some(&yard);
    slow_path(&yard);
    assert!(yard.cache(CLASS).nr_slabs() > 0, "a request is served once");
    ask(&yard, 8, Request::Shrink as u64, WHOLE_YARD, 0, 0);
    slow_path(&yard);
    assert_eq!(answer(&yard, 8), Some(Outcome::Done));
    assert_eq!(yard.cache(CLASS).nr_slabs(), 0);
    verify(&yard);
}

#[test]
fn where_no_cpu_can_be_stopped_a_shrink_is_requested_of_threads() {
    let yard = yard_on(Config { can_stop: false, ..Config::default() });
    use_some(&yard);
    ask(&yard, 9, Request::Shrink as u64, WHOLE_YARD, 0, 0);
    slow_path(&yard);
    assert_eq!(answer(&yard, 9), Some(Outcome::Asked));
    assert_eq!(yard.cache(CLASS).nr_slabs(), 0, "the row of the thread that serves is drained");
}

#[test]
fn every_tunable_is_set_and_holds() {
    let yard = yard_on(Config::default());
    use_some(&yard);
    let cache = yard.cache(CLASS);
    for (token, row) in (1u64..).zip(TUNABLES) {
        let scope = if row.of_yard { WHOLE_YARD } else { CLASS as u64 };
        let value = row.least + 3;
        ask(&yard, token, Request::Set as u64, scope, row.number, value);
        slow_path(&yard);
        assert_eq!(answer(&yard, token), Some(Outcome::Done), "{}", row.name);
        assert_eq!(word(&yard, Mail::New), value, "{}", row.name);
        assert_ne!(word(&yard, Mail::Old), value, "{}", row.name);
        verify(&yard);
    }
    assert_eq!(cache.sheaf_capacity(), 4);
    assert_eq!(cache.min_partial(), 3);
    assert_eq!(cache.barn_limits(), (3, 3));
    assert_eq!(yard.decay_ms(), 3);
    assert_eq!(yard.heap.node_limit(), 3);
    // With sheaves of 4 and nothing for barns, a CPU parks 8 objects and no more.
    use_some(&yard);
    verify(&yard);
    let counters =
        yard.quiesce(|quiesced| Yard::count_cache(quiesced, CLASS)).expect("no slow path");
    assert!(counters.parked_cpu <= 8 && counters.parked_node == 0, "{counters:?}");
    // And as many as there can be, with objects parked already.
    ask(&yard, 99, Request::Set as u64, CLASS as u64, key("sheaf_capacity"), 1022);
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

#[test]
fn an_impossible_request_is_refused_and_changes_nothing() {
    let yard = yard_on(Config::default());
    use_some(&yard);
    let capacity = yard.cache(CLASS).sheaf_capacity();
    let (set, class) = (Request::Set as u64, CLASS as u64);
    let refused = [
        (set, class, key("sheaf_capacity"), 0, Outcome::OutOfRange),
        (set, class, key("sheaf_capacity"), 1 << 32 | 5, Outcome::OutOfRange),
        (set, class, key("decay_ms"), 5, Outcome::Unknown),
        (set, WHOLE_YARD, key("sheaf_capacity"), 5, Outcome::Unknown),
        (set, classes::CLASSES as u64, key("sheaf_capacity"), 5, Outcome::Unknown),
        (set, class, 77, 5, Outcome::Unknown),
        (77, class, key("sheaf_capacity"), 5, Outcome::Unknown),
    ];
    for (token, (what, cache, key, value, outcome)) in (1u64..).zip(refused) {
        ask(&yard, token, what, cache, key, value);
        slow_path(&yard);
        assert_eq!(answer(&yard, token), Some(outcome), "request {token}");
    }
    assert_eq!(yard.cache(CLASS).sheaf_capacity(), capacity);
    verify(&yard);
}

#[test]
fn a_torn_request_is_not_served() {
    let yard = yard_on(Config::default());
    ask(&yard, 5, Request::Set as u64, CLASS as u64, key("sheaf_capacity"), 100);
    put(&yard, Mail::Value, 101);
    slow_path(&yard);
    assert_eq!(answer(&yard, 5), None);
    assert!(yard.cache(CLASS).sheaf_capacity() > 101);
    yard.forget_mail();
    assert_eq!(word(&yard, Mail::Answered), 5, "the child of a fork begins without mail");
}
