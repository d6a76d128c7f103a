//! What SLAB's policies of free slabs cost, on this machine: `cycles` of small loops, and the
//! `semaphore` under which 2.4 reaped.
//!
//! ```text
//! cargo run --release -p slabyard-page-lists --example reclaim -- cycles [--json] [page_lists=KIND]
//! cargo run --release -p slabyard-page-lists --example reclaim -- semaphore [--json] [threads=1,2,4] [ms=500]
//! ```
//!
//! Each row of a table is measured in a process of its own, because a yard cannot be destroyed. It
//! is no part of `slabyard-bench`, which starts programs and is linked with no allocator: here
//! caches are called as a kernel calls them, without the library's `malloc` before them.
//! `docs/reclaim.md` has the results.

mod cycles;
mod semaphore;
mod table;

use slabyard::cache::{CacheId, CacheSettings};
use slabyard::engine::ArrayCaches;
use slabyard::engine::array_cache::Choice;
use slabyard::platform::linux::CountingLinux;
use slabyard::yard::{Settings, Yard};
use slabyard_kernels::PageLists;
use std::process::{Command, ExitCode, Stdio};

/// A yard of SLAB on real CPUs.
pub type Slab = Yard<CountingLinux, ArrayCaches>;

/// Bytes of the zone that page lists are made for.
const ZONE: u64 = 4 << 30;

/// Bytes of an object of the thread's loop.
pub const OBJECT: u32 = 4096;

/// What was typed.
pub struct Options {
    /// For programs.
    pub json: bool,
    /// Threads at a time, one table row each.
    pub threads: Vec<usize>,
    /// Milliseconds for each row.
    pub ms: u64,
    /// The lists of pages below the slabs.
    pub page_lists: PageLists,
    /// In a process of one row: its number.
    pub row: Option<usize>,
}

impl Options {
    /// The table's rows from a process that measures those of a number.
    pub fn rows_of(&self, what: &str, row: usize) -> Result<Vec<Vec<String>>, String> {
        let threads: Vec<String> = self.threads.iter().map(usize::to_string).collect();
        let words = [
            what.to_owned(),
            format!("row={row}"),
            format!("threads={}", threads.join(",")),
            format!("ms={}", self.ms),
            format!("page_lists={}", self.page_lists.name()),
        ];
        let program = std::env::current_exe().map_err(|why| why.to_string())?;
        let done = Command::new(program).args(words).stderr(Stdio::inherit()).output();
        let done = done.map_err(|why| why.to_string())?;
        if !done.status.success() {
            return Err(format!("row {row}: {}", done.status));
        }
        let text = String::from_utf8_lossy(&done.stdout);
        Ok(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_default();
    let done = options(words).and_then(|options| match &*what {
        "cycles" => cycles::run(&options),
        "semaphore" => semaphore::run(&options),
        _ => Err(format!("`{what}`: there are cycles and semaphore")),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("reclaim: {why}");
            ExitCode::from(2)
        }
    }
}

fn options(words: impl Iterator<Item = String>) -> Result<Options, String> {
    let threads = vec![1, 2, 4, 8, 16, 32, 64];
    let page_lists = PageLists::Slabyard;
    let mut options = Options { json: false, threads, ms: 500, page_lists, row: None };
    for word in words {
        let refused = || format!("`{word}`: not understood");
        match word.split_once('=') {
            None if word == "--json" => options.json = true,
            Some(("threads", list)) => {
                let number = |text: &str| text.parse().ok().filter(|n| (1..=256).contains(n));
                let numbers: Option<Vec<usize>> = list.split(',').map(number).collect();
                options.threads = numbers.ok_or_else(refused)?;
            }
            Some(("ms", ms)) => options.ms = ms.parse().map_err(|_| refused())?,
            Some(("row", row)) => options.row = row.parse().ok(),
            Some(("page_lists", kind)) => {
                options.page_lists = PageLists::find(kind).ok_or_else(refused)?;
            }
            _ => return Err(refused()),
        }
    }
    Ok(options)
}

/// A yard that follows a policy, for as long as the process lives. `counts`: its waits and fences
/// are counted, which takes time.
pub fn yard_of(choice: Choice, lists: PageLists, counts: bool) -> Result<&'static Slab, String> {
    let yard: &'static Slab = Box::leak(Box::new(Slab::new(CountingLinux::new())));
    yard.caches().classes().iter().for_each(|cache| cache.engine.follow(choice));
    let ready = yard.platform().init(None)
        && slabyard_page_lists::choose(&yard.heap, lists, ZONE)
        && (!counts || yard.platform().count_slow_paths())
        && yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 3_600_000 });
    if ready { Ok(yard) } else { Err("no memory for a yard".into()) }
}

/// A cache of objects of so many bytes, in slabs of whole pages.
pub fn cache_of(yard: &Slab, name: &str, bytes: u32) -> Result<CacheId, String> {
    let settings = CacheSettings { align: bytes.min(4096), ..CacheSettings::of(bytes) };
    yard.create_cache(name, &settings).map_err(|why| format!("no cache: {why:?}"))
}
