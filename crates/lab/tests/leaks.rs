//! Planted leaks are found and named, and what only looks like one is not called a leak.

use slabyard_lab::event::{Event, EventKind};
use slabyard_lab::leaks::{self, Leaks, Limits, Site, Verdict};
use slabyard_lab::trace::{Attached, END, Header, Names, START, Stream, Trace};

const SECOND: u64 = 1_000_000_000;

/// Events of a minute, in any order until they are read.
#[derive(Default)]
struct Minute {
    events: Vec<Event>,
    names: Names,
    objects: u64,
}

impl Minute {
    fn object(&mut self, cache: &str, site: &str, pid: u32, born: u64, died: Option<u64>) {
        self.objects += 1;
        let (name, site) = (self.names.intern(cache), self.names.intern(site));
        let address = 0x8880_0000_0000 + self.objects * 192;
        let alloc = Event { time: born, address, name, site, pid, allocated: 192, ..Event::BLANK };
        self.events.push(alloc);
        if let Some(time) = died {
            self.events.push(Event { time, kind: EventKind::CacheFree, site: 0, ..alloc });
        }
    }

    /// Objects that live for a millisecond, through the whole minute.
    fn churn(&mut self, cache: &str, site: &str, pid: u32, objects: u64) {
        for nth in 0..objects {
            let born = nth * 60 * SECOND / objects;
            self.object(cache, site, pid, born, Some(born + 1_000_000));
        }
    }

    fn trace(self) -> Trace {
        let Minute { mut events, names, .. } = self;
        events.sort_by_key(|event| event.time);
        Trace { events, names, header: Header::default(), ..Trace::default() }
    }

    fn found(self, limits: Limits) -> Leaks {
        find(self.trace(), limits)
    }
}

fn find(trace: Trace, limits: Limits) -> Leaks {
    leaks::find(&mut Stream::of(trace), limits).unwrap()
}

fn site<'a>(found: &'a Leaks, name: &str) -> &'a Site {
    found.sites.iter().find(|site| site.site.as_deref() == Some(name)).unwrap()
}

/// A site that leaks 500 of 50,000 objects beside one that leaks none.
fn planted() -> Minute {
    let mut minute = Minute::default();
    minute.churn("filp", "alloc_file", 7, 50_000);
    minute.churn("sem", "newary", 8, 50_000);
    for nth in 0..500 {
        minute.object("sem", "newary", 42, nth * 60 * SECOND / 500, None);
    }
    minute
}

#[test]
fn one_leaking_process_is_found_among_objects_that_are_freed() {
    let found = planted().found(Limits::default());
    let first = &found.sites[0];
    assert_eq!((first.verdict, first.site.as_deref()), (Verdict::Leak, Some("newary")));
    assert_eq!((&*first.cache, first.allocated), ("sem", 50_500));
    let (pid, of) = &first.processes[0];
    assert_eq!((*pid, of.objects, of.bytes), (42, 500, 500 * 192));
    assert!(of.born.iter().all(|born| (49..=51).contains(born)), "{:?}", of.born);
    assert!(of.oldest_ns > 59 * SECOND && of.median_ns > 29 * SECOND);
    assert_eq!(found.sites.iter().filter(|site| site.verdict == Verdict::Leak).count(), 1);
    assert!((found.one_in, found.without_sites, &found.hoards) == (1, false, &None));
}

#[test]
fn nothing_is_found_where_all_is_freed_soon() {
    let mut minute = Minute::default();
    minute.churn("filp", "alloc_file", 7, 50_000);
    minute.churn("sem", "newary", 8, 50_000);
    // What the last millisecond left.
    minute.object("filp", "alloc_file", 7, 60 * SECOND, None);
    let found = minute.found(Limits::default());
    assert_eq!(site(&found, "alloc_file").verdict, Verdict::Young);
    assert!(found.sites.iter().all(|site| site.verdict == Verdict::Young));
}

#[test]
fn what_is_allocated_once_and_what_replaces_older_objects_is_no_leak() {
    let mut minute = Minute::default();
    for nth in 0..5000 {
        minute.object("tables", "begin", 7, SECOND + nth, None);
    }
    for nth in 0..600 {
        let time = nth * 60 * SECOND / 600;
        minute.object("pages", "renew", 7, time, None);
        // An older one, from before the trace.
        let name = minute.names.intern("pages");
        let kind = EventKind::CacheFree;
        minute.events.push(Event { time, address: nth + 1, name, kind, ..Event::BLANK });
    }
    // What says when the recording ended.
    minute.churn("filp", "alloc_file", 7, 600);
    let found = minute.found(Limits::default());
    assert_eq!(site(&found, "begin").verdict, Verdict::Kept);
    assert_eq!(site(&found, "renew").verdict, Verdict::Replaced);
}

#[test]
fn a_sample_of_the_objects_finds_the_same_leak() {
    let found = planted().found(Limits { objects: 100 });
    let first = &found.sites[0];
    assert!(found.one_in >= 4, "{}", found.one_in);
    assert_eq!((first.verdict, first.processes[0].0), (Verdict::Leak, 42));
    assert!((350..650).contains(&first.survivors.objects), "{}", first.survivors.objects);
}

#[test]
fn a_trace_without_sites_tells_caches_and_processes() {
    let mut minute = Minute::default();
    for nth in 0..100 {
        minute.object("sem", "", 42, nth * 60 * SECOND / 100, None);
    }
    let found = minute.found(Limits::default());
    assert!(found.without_sites);
    let first = &found.sites[0];
    assert_eq!((first.verdict, first.site.as_deref(), &*first.cache), (Verdict::Leak, None, "sem"));
    assert_eq!(first.processes[0].0, 42);
}

/// A kernel with the cache `sem`, of which so many slabs of 21 objects are full and so many free.
fn snapshot(full: u64, free: u64) -> Vec<u8> {
    let sem = serde_json::json!({
        "object_size": 192, "slab_size": 192, "objs_per_slab": 21, "order": 0, "min_partial": 5,
        "slabs": full + free, "objects": full * 21, "total_objects": (full + free) * 21,
        "reclaim_account": 0,
    });
    let kernel = serde_json::json!({
        "kernel": "6.12.1", "page_size": 4096, "possible_cpus": "0", "present_cpus": "0",
        "online_cpus": "0", "nodes": "0", "aliases": {}, "slab": { "sem": sem },
    });
    kernel.to_string().into_bytes()
}

#[test]
fn free_memory_is_a_hoard_and_no_leak() {
    let mut trace = planted().trace();
    let attach = |name: &str, bytes| Attached { name: name.into(), time: 0, bytes };
    trace.attached = vec![attach(START, snapshot(10, 0)), attach(END, snapshot(110, 400))];
    let found = find(trace, Limits::default());
    assert_eq!(found.sites[0].verdict, Verdict::Leak);
    let hoards = found.hoards.unwrap();
    assert_eq!((&*hoards[0].cache, hoards[0].free_bytes), ("sem", 400 * 21 * 192));
    assert_eq!((hoards[0].grew_bytes, hoards[0].shrink_gave), (500 * 4096, None));
    // The same objects in a kernel whose cache did not grow: some free was not seen.
    let mut trace = planted().trace();
    trace.attached = vec![attach(START, snapshot(110, 0)), attach(END, snapshot(110, 0))];
    assert_eq!(find(trace, Limits::default()).sites[0].verdict, Verdict::Replaced);
}

#[test]
fn objects_that_may_have_been_freed_in_bulk_are_no_leak() {
    let mut minute = Minute::default();
    for nth in 0..100 {
        minute.object("maple_node", "mas_preallocate", 42, nth * 60 * SECOND / 100, None);
    }
    let mut trace = minute.trace();
    assert_eq!(find(trace.clone(), Limits::default()).sites[0].verdict, Verdict::Unseen);
    let name = trace.names.find("maple_node").unwrap();
    let bulk = Event { time: 60 * SECOND, kind: EventKind::FreeBulk, name, ..Event::BLANK };
    trace.events.push(Event { requested: 90, ..bulk });
    assert_eq!(find(trace.clone(), Limits::default()).sites[0].verdict, Verdict::Replaced);
    trace.events.pop();
    trace.events.push(Event { requested: 10, ..bulk });
    assert_eq!(find(trace, Limits::default()).sites[0].verdict, Verdict::Leak);
}
