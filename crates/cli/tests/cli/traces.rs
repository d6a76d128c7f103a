//! Shared by the tests of `slabyard replay`: small traces, each with its snapshot, in our formats
//! and as CSV; and recorded traces of real kernels.

use crate::stage::{SLABYARD, text};
use serde_json::{Value, json};
use slabyard_lab::event::{ANY_NODE, Event, EventKind};
use slabyard_lab::trace::{Header, Names, Trace};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const PAGE_OFFSET: u64 = 0x8880_0000_0000;
pub const OBJECTS: u64 = 21;

pub fn slabyard(args: &[&str]) -> Output {
    Command::new(SLABYARD).arg("replay").args(args).output().unwrap()
}

/// What a command must end with, and say.
#[track_caller]
pub fn ends(output: &Output, code: i32, words: &str) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}{}", text(&output.stdout));
    assert!(message.contains(words), "no {words:?} in {message}");
    if code > 1 {
        assert!(output.stdout.is_empty());
    }
}

#[track_caller]
pub fn parsed(output: &Output, code: i32) -> Value {
    ends(output, code, "");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A directory with a trace and, beside it, the snapshot that it began with.
pub struct Files {
    directory: TempDir,
}

impl Files {
    pub fn new(trace: &Trace) -> Files {
        let files = Files { directory: TempDir::new().unwrap() };
        trace.save(Path::new(&files.path("load.slabtrace"))).unwrap();
        files.put("load.before.json", snapshot().to_string().as_bytes());
        files
    }

    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().into()
    }

    pub fn put(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    pub fn trace(&self) -> String {
        self.path("load.slabtrace")
    }

    pub fn replay(&self, args: &[&str]) -> Output {
        slabyard(&[&[&*self.trace()], args].concat())
    }
}

/// A kernel that had nothing in its one cache.
pub fn snapshot() -> Value {
    json!({
        "kernel": "6.12.1", "page_size": 4096, "possible_cpus": "0-1", "present_cpus": "0-1",
        "online_cpus": "0-1", "nodes": "0", "aliases": { "filp": ":0000192", "cred": ":0000192" },
        "slab": { ":0000192": { "object_size": 192, "slab_size": 192, "objs_per_slab": OBJECTS,
            "order": 0, "cpu_partial": 120, "min_partial": 5, "slabs": 0, "objects": 0,
            "partial": 0, "objects_partial": 0, "cpu_slabs": 0, "slabs_cpu_partial": "0(0)",
            "destroy_by_rcu": 0 } },
    })
}

/// Allocations of `objects` on each of `slabs` pages by one CPU, then all frees.
pub fn load(slabs: u64, objects: u64) -> Trace {
    let mut names = Names::new();
    let filp = names.intern("filp");
    let mut events: Vec<Event> = Vec::new();
    let mut push = |kind, address, name| {
        events.push(Event {
            time: (events.len() as u64 + 1) * 10_000,
            address,
            name,
            pid: 1,
            requested: 192,
            allocated: 192,
            gfp: 0xcc0,
            cpu: 0,
            node: ANY_NODE,
            order: 0,
            kind,
            accounted: false,
            site: 0,
        });
    };
    let address = |slab: u64, object: u64| PAGE_OFFSET + ((100 + slab) << 12) + object * 192;
    for slab in 0..slabs {
        push(EventKind::PageAlloc, 100 + slab, 0);
        (0..objects).for_each(|object| push(EventKind::CacheAlloc, address(slab, object), filp));
    }
    for slab in 0..slabs {
        (0..objects).for_each(|object| push(EventKind::CacheFree, address(slab, object), filp));
    }
    let header = Header {
        release: "6.12.1".into(),
        page_size: Some(4096),
        cpus: Some(1),
        page_offset: Some(PAGE_OFFSET),
        source: "a test".into(),
    };
    Trace { events, names, header, ..Trace::default() }
}

pub fn tiny() -> Files {
    Files::new(&load(3, OBJECTS))
}

pub fn real(name: &str, args: &[&str]) -> Output {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../lab/traces").join(name);
    slabyard(&[&[path.to_str().unwrap()], args].concat())
}

/// The rows of a trace.
pub fn csv_of(trace: &Trace) -> String {
    let row = |e: &Event| {
        let (time, cpu, address) = (e.time as f64 / 1000.0, e.cpu, e.address);
        let name = trace.names.get(e.name);
        match e.kind {
            EventKind::PageAlloc => format!("{time},{cpu},1,P,o0,{address:x},,,cc0,0,\n"),
            EventKind::CacheAlloc => {
                format!("{time},{cpu},1,A,{name},{address:x},192,192,cc0,-1,0\n")
            }
            _ => format!("{time},{cpu},1,F,{name},{address:x},,,,,\n"),
        }
    };
    let heading = "t_us,cpu,pid,ev,cache_or_site,ptr,req,alloc,gfp,node,acct\n";
    heading.to_owned() + &trace.events.iter().map(row).collect::<String>()
}

/// A frame of zstd with stored blocks: no library is needed for it.
pub fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend((bytes.len() as u32).to_le_bytes());
    let blocks = bytes.chunks(1 << 16);
    let last = blocks.len() - 1;
    for (nth, block) in blocks.enumerate() {
        let head = (block.len() as u32) << 3 | u32::from(nth == last);
        frame.extend(&head.to_le_bytes()[..3]);
        frame.extend(block);
    }
    frame
}
