//! Created caches of a live yard, read from outside as another process's are.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use slabyard::cache::{CacheId, CacheSettings};
use slabyard::platform::linux::Linux;
use slabyard::yard::{Settings, Yard};
use slabyard_observe::identity;
use slabyard_observe::process::{self, Ask};
use slabyard_observe::snapshot::Snapshot;
use slabyard_observe::value::Value;
use slabyard_observe::want::Want;
use std::time::Duration;

/// A request is served sooner.
const PATIENCE: Duration = Duration::from_secs(30);

static YARD: Yard<Linux> = Yard::new(Linux::new());

fn look() -> Snapshot {
    let snapshot = process::sample(std::process::id(), Want::default()).expect("this process");
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
    YARD.publish(YARD.platform().mode() as u64);
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
    let request = Ask::Shrink { cache: Some("again".to_owned()) };
    let asking = std::thread::spawn(move || process::ask(std::process::id(), &request, PATIENCE));
    while !asking.is_finished() {
        let object = YARD.alloc(100_000, 16).expect("memory");
        YARD.free(object).expect("a live run");
        std::thread::sleep(Duration::from_millis(1));
    }
    asking.join().expect("no panic").expect("it is served");
}
