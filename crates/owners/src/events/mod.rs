//! Watches the kernel by a sample of its `kmem` events, as tracefs prints them: where it lets nobody
//! load programs.
//!
//! [`lines`] reads what it prints, [`follow`] follows objects from allocation to free; [`Tracing`]
//! has the instance of tracefs, which ends with it. A filter of the kernel's passes the events of
//! objects in some of the blocks of 64 KiB that addresses have, all events of an object or none:
//! nothing else is in both an allocation and its free. Invariant: the reader's cost stays within the
//! budget; what the kernel takes for events, nobody measures.

mod follow;
mod lines;

use crate::bpf::{Raw, thread_time};
use follow::Followed;
use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};
use slabyard_observe::kernel::Symbols;
use slabyard_observe::kernel::tracefs::{self, TraceInstance, Tracefs};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

const EVENTS: [&str; 4] = ["kmem_cache_free", "kfree", "kmem_cache_alloc", "kmalloc"];
/// Of each CPU.
const BUFFER_KIB: &str = "4096";
/// One block in so many at the start, as a power of two; and in the end at most.
const FIRST: u32 = 3;
const MOST: u32 = 10;
/// Where a block's number begins in an address: slabs are smaller.
const BLOCK: u32 = 16;
/// Read in one piece.
const PIECE: usize = 1 << 16;

/// An instance of tracefs that passes a sample.
pub(crate) struct Tracing {
    // Closed first: the kernel removes no instance whose files are open.
    pipe: File,
    instance: TraceInstance,
    // Behind the instance, which is in it.
    _tracefs: Tracefs,
    /// Text that ends within a line.
    rest: Vec<u8>,
    followed: Followed,
    bits: u32,
    budget: f64,
    at_start: Duration,
    last: (Instant, Duration, u64),
}

impl Tracing {
    /// Begins; why it cannot, in words.
    pub(crate) fn start(budget: f64) -> Result<Tracing, String> {
        let words = |error: tracefs::Error| error.to_string();
        let tracefs = Tracefs::open().map_err(words)?;
        tracefs::sweep(&tracefs).map_err(words)?;
        let instance = TraceInstance::create(&tracefs).map_err(words)?;
        let format = instance.read("events/kmem/kmem_cache_alloc/format").map_err(words)?;
        if !format.contains(" name;") {
            return Err("the event kmem_cache_alloc does not tell the cache".into());
        }
        for (file, value) in [
            ("trace_clock", "mono"),
            ("buffer_size_kb", BUFFER_KIB),
            ("options/hash-ptr", "0"),
            ("options/record-tgid", "1"),
        ] {
            instance.set(file, value).map_err(words)?;
        }
        let path = instance.join("trace_pipe");
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let pipe = options.open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut tracing = Tracing {
            pipe,
            instance,
            _tracefs: tracefs,
            rest: Vec::new(),
            followed: Followed::without(std::process::id()),
            bits: FIRST,
            budget,
            at_start: thread_time(),
            last: (Instant::now(), thread_time(), 0),
        };
        tracing.pass(FIRST).map_err(words)?;
        for event in EVENTS {
            let file = format!("events/kmem/{event}/enable");
            tracing.instance.set(&file, "1").map_err(words)?;
        }
        Ok(tracing)
    }

    /// Passes the events of one block in 2^bits, without those of this thread.
    fn pass(&mut self, bits: u32) -> Result<(), tracefs::Error> {
        let thread = rustix::thread::gettid().as_raw_nonzero();
        let blocks = match mask(bits) {
            0 => String::new(),
            mask => format!(" && !(ptr & {mask:#x})"),
        };
        for event in EVENTS {
            let file = format!("events/kmem/{event}/filter");
            self.instance.set(&file, &format!("common_pid != {thread} && ptr != 0{blocks}"))?;
        }
        self.bits = bits;
        Ok(())
    }

    /// Reads what there is, and passes fewer events if that took too long; to be called some times a
    /// second.
    pub(crate) fn adapt(&mut self) {
        self.read();
        let (at, took, lost) = self.last;
        let now = (Instant::now(), thread_time(), self.followed.lost);
        let share = (now.1 - took).as_secs_f64() / at.elapsed().as_secs_f64().max(1e-3);
        self.last = now;
        if (share > self.budget || now.2 > lost) && self.bits < MOST {
            let _ = self.pass(self.bits + 1);
            let mask = mask(self.bits);
            self.followed.keep(|address| address & mask == 0);
        }
    }

    fn read(&mut self) {
        let mut piece = vec![0; PIECE];
        loop {
            match self.pipe.read(&mut piece) {
                Ok(0) => break,
                Ok(bytes) => self.take(&piece[..bytes]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = self.rest.split_off(end + 1);
        let text = std::mem::replace(&mut self.rest, rest);
        for line in String::from_utf8_lossy(&text).lines() {
            match lines::parse(line) {
                Some(line) => self.followed.take(&line, self.bits, mask(self.bits)),
                None => self.followed.lost += lines::lost(line).unwrap_or(0),
            }
        }
    }

    /// The processes that allocated so far.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.followed.processes()
    }

    /// Ends, and returns what was followed, with the names of call sites. `cgroup` has the cgroup of a
    /// process.
    pub(crate) fn end(mut self, cgroup: impl Fn(u32) -> u64) -> (Raw, Symbols) {
        let _ = self.instance.set("tracing_on", "0");
        self.read();
        let time = clock_gettime(ClockId::Monotonic);
        let now = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let run_ns = (thread_time() - self.at_start).as_nanos() as u64;
        let (raw, symbols) = self.followed.raw(now, self.bits, cgroup);
        (Raw { run_ns, ..raw }, symbols)
    }
}

fn mask(bits: u32) -> u64 {
    ((1 << bits) - 1) << BLOCK
}
