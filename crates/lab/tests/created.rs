//! Caches created by programs, observed from outside: in this process's yard, in another process's,
//! and in a core file.

use slabyard::cache::{CacheId, CacheSettings};
use slabyard::engine::{Engine, Sheaves, Tiny};
use slabyard::mail::header;
use slabyard::platform::linux::Linux;
use slabyard::yard::{Settings, Yard};
use slabyard_observe::process::{self, RequestKind};
use slabyard_observe::snapshot::Snapshot;
use slabyard_observe::value::Value;
use slabyard_observe::want::ReadScope;
use slabyard_observe::{corefile, identity};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A request is served sooner.
const PATIENCE: Duration = Duration::from_secs(120);

static YARD: Yard<Linux> = Yard::new(Linux::new());

fn look() -> Snapshot {
    let snapshot = process::sample(std::process::id(), ReadScope::default()).expect("this process");
    assert_eq!(identity::check(&snapshot), []);
    assert_eq!(snapshot.total("in_transit"), Some(&Value::Exact(0)), "nothing moves");
    snapshot
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    let created = snapshot.caches.iter().filter(|cache| !cache.name.starts_with("malloc-"));
    created.map(|cache| cache.name.clone()).collect()
}

#[test]
fn created_caches_are_read_by_name_and_to_the_object() {
    assert!(YARD.platform().init(None));
    assert!(YARD.init(Settings::default()));
    header::publish(&YARD, YARD.platform().mode() as u64);
    assert_eq!(names(&look()), [] as [&str; 0]);

    // So many that rows have a second page.
    let create = |n: u32| {
        let settings = CacheSettings { first: 64, ..CacheSettings::of(40 + n % 9 * 8) };
        YARD.create_cache(format_args!("created-{n}"), &settings).expect("a cache")
    };
    let before = look().total("metadata").and_then(|value| value.bounds()).expect("metadata");
    let ids: Vec<CacheId> = (0..600).map(create).collect();
    let snapshot = look();
    assert!(names(&snapshot).into_iter().eq((0..600).map(|n| format!("created-{n}"))));
    let after = snapshot.total("metadata").and_then(|value| value.bounds()).expect("metadata");
    assert!(after.0 >= before.1 + 4096, "rows have a second page: {before:?}, {after:?}");

    let objects: Vec<usize> =
        (0..100).map(|_| YARD.alloc_from(ids[599]).expect("memory")).collect();
    let snapshot = look();
    let value = |name: &str| snapshot.cache("created-599").and_then(|cache| cache.value(name));
    assert_eq!(value("live"), Some(&Value::Exact(100)));
    assert_eq!(value("object_size"), Some(&Value::Exact(40 + 599 % 9 * 8)));
    for object in objects {
        assert_eq!(YARD.free_to(ids[599], object), Ok(()));
    }
    for id in &ids[1..] {
        // SAFETY: no other thread makes a call on it.
        assert_eq!(unsafe { YARD.destroy_cache(*id) }, Ok(()));
    }
    assert_eq!(names(&look()), ["created-0"]);
    let again = YARD.create_cache("again", &CacheSettings::of(64)).expect("a cache");
    assert_eq!(again.number(), ids[1].number());
    assert_eq!(names(&look()), ["created-0", "again"]);

    // A request names the cache that is there now, not the one that had its number.
    let request = RequestKind::Shrink { cache: Some("again".to_owned()) };
    let asking = std::thread::spawn(move || process::ask(std::process::id(), &request, PATIENCE));
    while !asking.is_finished() {
        let object = YARD.alloc(100_000, 16).expect("memory");
        YARD.free(object).expect("a live run");
        std::thread::sleep(Duration::from_millis(1));
    }
    asking.join().expect("no panic").expect("it is served");
}

const CHILD: &str = "SLABYARD_CREATED_CHILD";
const SMALL: &str = "created::small_objects_are_counted_in_a_process_and_in_its_core_file";
/// Objects that the child allocates, and every how many it frees one.
const SMALL_OBJECTS: usize = 20_000;
const FREED_EVERY: usize = 3;

/// In a process of its own: a cache of objects of 8 bytes, two thirds of them live. It waits to
/// be looked at until its input ends.
fn hold_small_objects<E: Engine>(yard: &'static Yard<Linux, E>) {
    assert!(yard.platform().init(None));
    assert!(yard.init(Settings::default()));
    header::publish(yard, yard.platform().mode() as u64);
    let id = yard.create_cache("small", &CacheSettings::of(5)).expect("a cache");
    let objects: Vec<usize> =
        (0..SMALL_OBJECTS).map(|_| yard.alloc_from(id).expect("memory")).collect();
    for object in &objects {
        // SAFETY: 5 bytes of an object that is live.
        unsafe { std::ptr::write_bytes(*object as *mut u8, 0xff, 5) };
    }
    for object in objects.iter().step_by(FREED_EVERY) {
        assert_eq!(yard.free_to(id, *object), Ok(()));
    }
    assert!(yard.verify().expect("outside of a slow path").is_ok());
    println!("\nready");
    let _ = std::io::stdin().read(&mut [0]);
}

fn check_small_objects(snapshot: &Snapshot) {
    assert_eq!(identity::check(snapshot), []);
    let cache = snapshot.cache("small").expect("the cache");
    let value = |name: &str| cache.value(name).and_then(|value| value.bounds()).expect("a number");
    let live = (SMALL_OBJECTS - SMALL_OBJECTS.div_ceil(FREED_EVERY)) as u64;
    assert_eq!(value("live"), (live, live));
    let shape = ["object_size", "slab_size", "objs_per_slab"].map(|name| value(name).0);
    assert_eq!(shape, [5, 8, 4064]);
    let total = value("total_objects").0;
    assert_eq!(total % 4064, 0);
    let free = ["parked_cpu", "parked_node", "free_partial"].map(|name| value(name).0);
    assert_eq!(live + free.iter().sum::<u64>(), total, "{free:?}");
    let partial = cache.fullness.as_ref().expect("slabs one by one");
    assert!(partial.iter().all(|(used, _)| *used <= 4064), "{partial:?}");
}

#[test]
fn small_objects_are_counted_in_a_process_and_in_its_core_file() {
    static OF_SHEAVES: Yard<Linux, Sheaves> = Yard::new(Linux::new());
    static OF_SLABS: Yard<Linux, Tiny> = Yard::new(Linux::new());
    match std::env::var(CHILD).as_deref() {
        Ok("slub") => return hold_small_objects(&OF_SHEAVES),
        Ok(_) => return hold_small_objects(&OF_SLABS),
        Err(_) => {}
    }
    for engine in ["slub", "tiny"] {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", SMALL, "--nocapture"]).env(CHILD, engine);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a child");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let is_ready = lines.by_ref().map_while(Result::ok).any(|line| line == "ready");
        let want = ReadScope { all: true, slabs: true };
        let live = process::sample(child.id(), want);
        let (id, prefix) =
            (child.id().to_string(), format!("{}/small", env!("CARGO_TARGET_TMPDIR")));
        let dumped = Command::new("gcore").args(["-o", &prefix, &id]).stdin(Stdio::null()).output();
        let path = PathBuf::from(format!("{prefix}.{id}"));
        let core = corefile::sample(&path, want);
        let _ = std::fs::remove_file(&path);
        drop(child.stdin.take());
        assert!(child.wait().expect("its end").success() && is_ready);
        let live = live.expect("a look");
        assert_eq!(live.total("engine"), Some(&Value::Text(engine.into())));
        check_small_objects(&live);
        match dumped {
            Err(_) => println!("skipped: gcore is not installed"),
            Ok(dumped) => {
                assert!(dumped.status.success(), "{dumped:?}");
                let core = core.expect("a core file");
                check_small_objects(&core);
                assert_eq!(core.caches, live.caches);
            }
        }
    }
}
