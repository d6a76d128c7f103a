//! The allocation sites of a cache's live objects, as in the kernel's `alloc_traces` and
//! `free_traces`: each site's call stack, its number of objects, and the slabs that only these
//! objects pin.
//!
//! Neighbours: [`crate::kernel`], [`crate::process`] and [`crate::corefile`] read them,
//! [`crate::symbols`] names their stack frames, [`crate::view::show::traces`] prints them.

use serde::Serialize;

/// The sites of one cache.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Traces {
    /// Name of the cache.
    pub cache: String,
    /// Its live objects: handed out, and not parked anywhere.
    pub objects: u64,
    /// How many slabs have each number of live objects: number of objects, number of slabs.
    pub slabs_by_live: Vec<(u32, u64)>,
    /// Where they were allocated, most objects first.
    pub alloc: Vec<Site>,
    /// Where they were freed before they were allocated again.
    pub free: Vec<Site>,
}

/// A call site: one stack of return addresses, and what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Site {
    /// Live objects of it.
    pub objects: u64,
    /// Bytes that were requested, of all of them; 0 of a kernel, which does not tell.
    pub bytes: u64,
    /// Slabs that have at least one of them.
    pub slabs: u64,
    /// Slabs whose live objects all belong to this site: they would be empty without it.
    pub slabs_alone: u64,
    /// Nanoseconds since it happened: least, sum, most. `None` where now is not known.
    #[serde(rename = "age_ns")]
    pub age: Option<(u64, u128, u64)>,
    /// The same of a kernel in its jiffies, with the mean in place of the sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_jiffies: Option<(u64, u64, u64)>,
    /// Lowest and highest thread.
    pub threads: Option<(u32, u32)>,
    /// Lowest and highest CPU, or private slot.
    pub cpus: Option<(u32, u32)>,
    /// Return addresses, the innermost first; none where it is not known who did it.
    pub stack: Vec<u64>,
    /// The frames of the stack, with what is known of each.
    pub frames: Vec<Frame>,
}

/// A return address, named as far as files tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// Where the call returns to in the process.
    pub address: u64,
    /// The function around it.
    pub function: Option<String>,
    /// Bytes from its start, else from that of the file's memory.
    pub offset: u64,
    /// The file that was loaded there.
    pub file: Option<String>,
}

impl Site {
    /// A site about which nothing is known yet.
    #[must_use]
    pub fn at(stack: &[u64]) -> Site {
        Site { stack: stack.to_vec(), ..Site::default() }
    }

    pub(crate) fn ran(&mut self, thread: u32, cpu: Option<u32>) {
        let hull = |known: Option<(u32, u32)>, n: u32| match known {
            Some((low, high)) => Some((low.min(n), high.max(n))),
            None => Some((n, n)),
        };
        self.threads = hull(self.threads, thread);
        if let Some(cpu) = cpu {
            self.cpus = hull(self.cpus, cpu);
        }
    }

    pub(crate) fn aged(&mut self, ns: u64) {
        self.age = Some(match self.age {
            Some((low, sum, high)) => (low.min(ns), sum + u128::from(ns), high.max(ns)),
            None => (ns, u128::from(ns), ns),
        });
    }
}
