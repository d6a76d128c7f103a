//! `slabyard trace info`: prints what is in a trace.

use super::output::progress;
use crate::failure::Failure;
use crate::terminal::{bytes, seconds};
use crate::{stdout, trace_file};
use clap::ValueHint;
use serde_json::{Value, json};
use slabyard_ask::Listener as _;
use slabyard_ask::files;
use slabyard_lab::event::{Event, EventKind};
use slabyard_lab::lists::{Lists, json as form};
use slabyard_lab::prepare::naming::kmalloc_cache;
use slabyard_lab::trace::{Attached, Damage, Header, LISTS, NO_NAME, Names, RECORDING};
use slabyard_lab::trace::{SHRINK, Stream};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// `slabyard trace info`.
#[derive(clap::Args)]
pub struct InfoArgs {
    /// The trace
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Names to show, those with most events first
    #[arg(long, value_name = "N", default_value = "10")]
    top: usize,
    /// For programs
    #[arg(long)]
    json: bool,
}

const KINDS: [(EventKind, &str); 11] = [
    (EventKind::CacheAlloc, "kmem_cache_alloc"),
    (EventKind::CacheFree, "kmem_cache_free"),
    (EventKind::Kmalloc, "kmalloc"),
    (EventKind::Kfree, "kfree"),
    (EventKind::PageAlloc, "mm_page_alloc"),
    (EventKind::PageFree, "mm_page_free"),
    (EventKind::KfreeRcu, "kfree_rcu"),
    (EventKind::PrefillSheaf, "kmem_cache_prefill_sheaf"),
    (EventKind::ReturnSheaf, "kmem_cache_return_sheaf"),
    (EventKind::AllocBulk, "kmem_cache_alloc_bulk"),
    (EventKind::FreeBulk, "kmem_cache_free_bulk"),
];

/// Who has a live object, and what it is: with the object's bytes.
#[derive(Clone, Copy)]
struct Owner {
    /// Of the cache, or of the call site of a `kmalloc`.
    name: u32,
    /// Of the call site, where the event of a cache tells it.
    site: u32,
    /// The cache of a `kmalloc` by size and flags, as an event that has them.
    kmalloc: Option<(u32, u32)>,
    pid: u32,
    bytes: u32,
}

/// Live objects of one call site, process and cache.
struct Holder {
    site: String,
    cache: String,
    pid: u32,
    objects: u64,
    bytes: u64,
}

#[derive(Default)]
struct Info {
    header: Header,
    attached: Vec<Attached>,
    kinds: [u64; KINDS.len()],
    cpus: Vec<u64>,
    pids: HashSet<u32>,
    caches: Vec<u64>,
    sites: Vec<u64>,
    /// Objects that were allocated in the trace and not freed, by address.
    live: HashMap<u64, Owner>,
    names: Names,
    times: Option<(u64, u64)>,
    lost: u64,
    bytes: Option<u64>,
    damaged: Vec<Damage>,
}

pub fn run(args: &InfoArgs) -> Result<ExitCode, Failure> {
    let progress = progress(&format!("reading {}", files::shown(&args.file)));
    let mut info = Info::read(trace_file::open(&args.file)?)?;
    progress.clear();
    info.bytes = fs::metadata(&args.file).ok().filter(|meta| meta.is_file()).map(|meta| meta.len());
    let text = if args.json { format!("{:#}\n", info.json(args.top)) } else { info.text(args.top) };
    stdout::print(text.as_bytes())?;
    Ok(ExitCode::from(u8::from(!info.damaged.is_empty())))
}

/// What lies on lists, in all.
struct ListedTotals {
    caches: usize,
    slabs: usize,
    free: u64,
    until_ns: u64,
}

/// The number of a site's or a cache's name, and that of a cache's site; the bytes and flags of a
/// kmalloc.
type Named = (u32, u32, Option<(u32, u32)>);

impl ListedTotals {
    fn of(lists: &Lists) -> ListedTotals {
        let slabs = || lists.caches.iter().flat_map(|cache| cache.each());
        ListedTotals {
            caches: lists.caches.len(),
            slabs: slabs().count(),
            free: slabs().map(|slab| u64::from(slab.nr_free())).sum(),
            until_ns: lists.caches.iter().map(|cache| cache.read_at).max().unwrap_or(0),
        }
    }

    fn json(&self) -> Value {
        let ListedTotals { caches, slabs, free, until_ns } = self;
        json!({"caches": caches, "slabs": slabs, "free_objects": free, "read_in_ns": until_ns})
    }
}

impl Info {
    fn read(mut stream: Stream) -> Result<Info, Failure> {
        let mut info = Info {
            header: stream.header().clone(),
            attached: stream.attached().to_vec(),
            ..Info::default()
        };
        let mut events = Vec::new();
        while let Some(lost) = stream.next(&mut events).map_err(trace_file::failed)? {
            info.lost += lost;
            events.iter().for_each(|event| info.count(event));
        }
        info.names = stream.names().clone();
        info.damaged = stream.damaged().to_vec();
        Ok(info)
    }

    fn count(&mut self, event: &Event) {
        self.kinds[event.kind as usize] += 1;
        add(&mut self.cpus, event.cpu.into());
        self.pids.insert(event.pid);
        match event.kind {
            kind if kind.names_cache() => add(&mut self.caches, event.name as usize),
            EventKind::Kmalloc => add(&mut self.sites, event.name as usize),
            _ => {}
        }
        let Event { name, site, pid, allocated: bytes, .. } = *event;
        let owner = |kmalloc| Owner { name, site, kmalloc, pid, bytes };
        match event.kind {
            EventKind::CacheAlloc => {
                self.live.insert(event.address, owner(None));
            }
            EventKind::Kmalloc => {
                self.live.insert(event.address, owner(Some((event.allocated, event.gfp))));
            }
            EventKind::CacheFree | EventKind::Kfree | EventKind::KfreeRcu => {
                self.live.remove(&event.address);
            }
            _ => {}
        }
        let (first, last) = self.times.unwrap_or((event.time, event.time));
        self.times = Some((first.min(event.time), last.max(event.time)));
    }

    fn events(&self) -> u64 {
        self.kinds.iter().sum()
    }

    fn took(&self) -> u64 {
        self.times.map_or(0, |(first, last)| last - first)
    }

    fn top(&self, counted: &[u64], top: usize) -> Vec<(String, u64)> {
        let mut counted: Vec<(u32, u64)> =
            (0u32..).zip(counted.iter().copied()).filter(|row| row.1 > 0).collect();
        counted.sort_by_key(|row| (std::cmp::Reverse(row.1), row.0));
        let name = |number: u32| match self.names.get(number) {
            _ if number == NO_NAME => "-".into(),
            "" => "-".into(),
            name => name.to_owned(),
        };
        counted.into_iter().take(top).map(|(number, n)| (name(number), n)).collect()
    }

    /// Who holds what is live at the end, those with most bytes first.
    fn holders(&self, top: usize) -> Vec<Holder> {
        let mut sums: HashMap<(String, String, u32), (u64, u64)> = HashMap::new();
        let mut names: HashMap<Named, (String, String)> = HashMap::new();
        for owner in self.live.values() {
            let of = (owner.name, owner.site, owner.kmalloc);
            let (site, cache) = names.entry(of).or_insert_with(|| {
                let name = |number| match self.names.get(number) {
                    "" => "-".to_owned(),
                    name => name.to_owned(),
                };
                match owner.kmalloc {
                    // Recordings before version 3 of the format have no sites of these.
                    None => (name(owner.site), name(owner.name)),
                    Some((allocated, gfp)) => {
                        let event = Event { allocated, gfp, ..Event::BLANK };
                        (name(owner.name), kmalloc_cache(&event))
                    }
                }
            });
            let sum = sums.entry((site.clone(), cache.clone(), owner.pid)).or_default();
            *sum = (sum.0 + 1, sum.1 + u64::from(owner.bytes));
        }
        let mut all: Vec<Holder> = sums
            .into_iter()
            .map(|((site, cache, pid), (objects, bytes))| Holder {
                site,
                cache,
                pid,
                objects,
                bytes,
            })
            .collect();
        all.sort_by(|a, b| {
            let key = |it: &Holder| (std::cmp::Reverse((it.bytes, it.objects)), it.pid);
            key(a).cmp(&key(b)).then_with(|| (&a.cache, &a.site).cmp(&(&b.cache, &b.site)))
        });
        all.truncate(top);
        all
    }

    fn recording(&self) -> Option<Value> {
        let recording = self.attached.iter().find(|attached| attached.name == RECORDING)?;
        serde_json::from_slice(&recording.bytes).ok()
    }

    /// What is attached, each name once in a row.
    fn held(&self) -> Vec<&str> {
        let mut held: Vec<&str> =
            self.attached.iter().map(|attached| attached.name.as_str()).collect();
        held.dedup();
        held
    }

    /// How often a cache was shrunk meanwhile.
    fn shrinks(&self) -> usize {
        self.attached.iter().filter(|attached| attached.name == SHRINK).count()
    }

    fn lists(&self) -> Option<Lists> {
        let lists = self.attached.iter().find(|attached| attached.name == LISTS)?;
        form::read(&lists.bytes)
    }

    fn text(&self, top: usize) -> String {
        let mut text = String::new();
        let mut row = |what: &str, value: String| {
            let _ = writeln!(text, "{what:<12}  {value}");
        };
        let known = |value: &str| if value.is_empty() { "-".into() } else { value.to_owned() };
        let header = &self.header;
        row("kernel", known(&header.release));
        row("source", known(&header.source));
        row("CPUs", header.cpus.map_or("-".into(), |n| n.to_string()));
        row("page", bytes(header.page_size.map(u64::from)));
        row("events", self.events().to_string());
        row("lost", self.lost.to_string());
        if let Some(own) = self.recording().and_then(|it| it["left_out"].as_u64()) {
            row("left out", format!("{own} events of the recorder itself"));
        }
        let took = self.took();
        row("time", seconds(took));
        if took > 0 {
            row("a second", format!("{:.0} events", self.events() as f64 * 1e9 / took as f64));
        }
        if let Some(size) = self.bytes {
            let each = size as f64 / self.events().max(1) as f64;
            row("size", format!("{}, {each:.2} bytes an event", bytes(Some(size))));
        }
        row("processes", self.pids.len().to_string());
        row("holds", known(&self.held().join(", ")));
        if self.shrinks() > 0 {
            row("shrinks", format!("{} of caches, by others than the recorder", self.shrinks()));
        }
        if let Some(lists) = self.lists() {
            let ListedTotals { caches, slabs, free, until_ns } = ListedTotals::of(&lists);
            let read = seconds(until_ns);
            row(
                "lists",
                format!("{slabs} slabs of {caches} caches, {free} objects free, read in {read}"),
            );
        }
        for damage in &self.damaged {
            row("damaged", damage.to_string());
        }
        let mut list = |head: &str, rows: Vec<(String, u64)>| {
            let _ = writeln!(text, "\n{head}");
            for (name, n) in rows {
                let _ = writeln!(text, "  {n:>10}  {name}");
            }
        };
        let kinds =
            KINDS.iter().map(|(kind, name)| ((*name).to_owned(), self.kinds[*kind as usize]));
        list("events by kind", kinds.collect());
        let cpus = self.cpus.iter().enumerate().map(|(cpu, n)| (format!("CPU {cpu}"), *n));
        list("by CPU", cpus.collect());
        list("by cache", self.top(&self.caches, top));
        list("kmalloc by call site", self.top(&self.sites, top));
        let _ = writeln!(text, "\nlive at the end, by cache, process and call site");
        let _ = writeln!(text, "  {:>10}  {:>10}  {:>8}", "objects", "bytes", "process");
        for Holder { site, cache, pid, objects, bytes } in self.holders(top) {
            let _ = writeln!(text, "  {objects:>10}  {bytes:>10}  {pid:>8}  {cache}  {site}");
        }
        text
    }

    fn json(&self, top: usize) -> Value {
        let rows = |rows: Vec<(String, u64)>| -> Vec<Value> {
            rows.into_iter().map(|(name, events)| json!({"name": name, "events": events})).collect()
        };
        let word = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
        let kinds =
            KINDS.iter().map(|(kind, name)| ((*name).into(), self.kinds[*kind as usize].into()));
        json!({
            "release": word(&self.header.release),
            "source": word(&self.header.source),
            "cpus": self.header.cpus,
            "page_bytes": self.header.page_size,
            "events": self.events(),
            "lost": self.lost,
            "took_ns": self.took(),
            "bytes": self.bytes,
            "processes": self.pids.len(),
            "holds": self.held(),
            "shrinks": self.shrinks(),
            "lists": self.lists().map(|lists| ListedTotals::of(&lists).json()),
            "recording": self.recording(),
            "damaged": self.damaged.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "kinds": kinds.collect::<serde_json::Map<String, Value>>(),
            "events_of_cpu": self.cpus,
            "caches": rows(self.top(&self.caches, top)),
            "kmalloc_sites": rows(self.top(&self.sites, top)),
            "live_at_end": self.holders(top).into_iter().map(|it| json!({
                "site": if it.site == "-" { Value::Null } else { it.site.into() },
                "cache": it.cache,
                "pid": it.pid,
                "objects": it.objects,
                "bytes": it.bytes,
            })).collect::<Vec<_>>(),
        })
    }
}

fn add(counted: &mut Vec<u64>, at: usize) {
    if counted.len() <= at {
        counted.resize(at + 1, 0);
    }
    counted[at] += 1;
}
