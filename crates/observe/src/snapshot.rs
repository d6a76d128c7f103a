//! The raw numbers that one source reported at one moment: every source fills a [`Snapshot`], and
//! every view is made from it through [`crate::fields`].
//!
//! Neighbour: [`crate::value`] defines a number's value. Invariants: a number that a source does
//! not report is absent from the maps, and never 0; names in the maps are defined in
//! [`crate::fields`], or are kernel attributes that this version does not know; no two caches have
//! the same name.

use crate::incident::Incident;
use crate::value::{Reading, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of a saved snapshot.
pub const FORMAT: u32 = 1;

/// One allocator at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Version of the form that it is saved in.
    pub format: u32,
    /// Where it comes from.
    pub source: Source,
    /// When it was taken: milliseconds since 1970.
    pub taken_at_ms: u64,
    /// How long that took, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<u64>,
    /// What is known of the machine.
    pub machine: Machine,
    /// The caches, in the order of the source.
    pub caches: Vec<Cache>,
    /// The whole yard, or the kernel's memory: names of [`crate::fields::TOTALS`].
    #[serde(default)]
    pub totals: BTreeMap<String, Value>,
    /// Free blocks of pages, where a kernel reports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub free_blocks: Vec<FreeBlocks>,
    /// What went wrong in the kernel, where its log was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incidents: Vec<Incident>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
}

/// Where numbers can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// A Linux kernel.
    Kernel,
    /// A process that runs on Slabyard.
    Process,
    /// The core file of one.
    Core,
    /// What a process left at its end.
    Report,
    /// A model of a kernel that replayed a trace.
    Lab,
    /// A process on another allocator, by that allocator's statistics or by its mappings.
    Heap,
}

impl SourceKind {
    /// True for a Slabyard allocator, whose memory is more than slabs.
    #[must_use]
    pub fn is_yard(self) -> bool {
        match self {
            SourceKind::Process | SourceKind::Core | SourceKind::Report => true,
            SourceKind::Kernel | SourceKind::Lab | SourceKind::Heap => false,
        }
    }
}

/// Where a snapshot comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Decides which of the other fields are present, and how views name the source.
    pub kind: SourceKind,
    /// Id of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The program's name; of a lab run that of the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The kernel's release, as `uname -r` prints it; of a lab run that of the rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Of a lab run the moment in the trace, in nanoseconds from its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_ns: Option<u64>,
    /// Path of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Of a kernel the parameters of its slabs that it was booted with, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// Names of the formats, such as `slabtop`, if it was read from a text that somebody pasted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub formats: Vec<String>,
}

/// The machine, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The size of a page, 4096 on most machines.
    pub page_bytes: Option<u64>,
    /// As the kernel was booted for; an upper bound of all others.
    pub possible_cpus: Option<u32>,
    /// Of these, CPUs that run.
    pub online_cpus: Option<u32>,
    /// How many memory nodes there are.
    pub nodes: Option<u32>,
}

/// Free blocks of pages in one zone of a kernel's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeBlocks {
    /// The zone's node.
    pub node: u32,
    /// The zone's name.
    pub zone: String,
    /// Blocks of 1, 2, 4, ... pages.
    pub blocks: Vec<u64>,
}

/// One cache at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Its name: for a merged kernel cache that of its first alias.
    pub name: String,
    /// The kernel's own name of it, such as `:0000064`, where that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Other names of the same cache.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// What the source reported, by name.
    #[serde(default)]
    pub readings: BTreeMap<String, Reading>,
    /// Slabs that are not full, one by one, where they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slabs: Option<Vec<Slab>>,
    /// How full the slabs on partial lists are: objects in use, and how many such slabs, ascending;
    /// where the source reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fullness: Option<Vec<(u32, u64)>>,
}

/// A slab that is not full, by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slab {
    /// Address of its first page; in a model one that no other slab of the run has.
    pub page: u64,
    /// A slab is 2^order pages.
    pub order: u32,
    /// How many it has room for.
    pub objects: u32,
    /// Of these, objects that are not free in it.
    pub inuse: u32,
    /// The list that it is on.
    pub place: SlabPlace,
    /// Slabs on the CPU partial list from this one to its end, as the list counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_pages: Option<u32>,
    /// Free objects in these, as the list counts them: kernels to 5.15 count a slab when
    /// it joins, and not what is freed to it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_objects: Option<u32>,
}

/// The list that a slab is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlabPlace {
    /// On the partial list of a CPU.
    Cpu(u32),
    /// On the partial list of a memory node.
    Node(u32),
}

impl Default for SlabPlace {
    fn default() -> SlabPlace {
        SlabPlace::Node(0)
    }
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Name of a file, a column or a cache.
    pub what: String,
    /// Why it could not be read, in words for people.
    pub why: String,
}

/// A time as RFC 3339 has it, in UTC.
#[must_use]
pub fn time(ms_since_1970: u64) -> String {
    let ms = i64::try_from(ms_since_1970).unwrap_or(i64::MAX);
    // Beyond the year 9999 there is no such text; the last one is as wrong as any.
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX).to_string()
}

impl Snapshot {
    /// A snapshot of now, without caches.
    #[must_use]
    pub fn new(source: Source) -> Snapshot {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Snapshot {
            format: FORMAT,
            source,
            taken_at_ms: now.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
            took_ns: None,
            machine: Machine::default(),
            caches: Vec::new(),
            totals: BTreeMap::new(),
            free_blocks: Vec::new(),
            incidents: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// The cache with this name, id or alias.
    #[must_use]
    pub fn cache(&self, name: &str) -> Option<&Cache> {
        let by_name = self.caches.iter().find(|c| c.name == name);
        by_name.or_else(|| self.caches.iter().find(|c| c.names().any(|n| n == name)))
    }

    /// A total, where it is known.
    #[must_use]
    pub fn total(&self, name: &str) -> Option<&Value> {
        self.totals.get(name)
    }
}

impl Source {
    /// A source of a kind, with nothing else known.
    #[must_use]
    pub fn of(kind: SourceKind) -> Source {
        Source {
            kind,
            pid: None,
            program: None,
            release: None,
            trace_ns: None,
            path: None,
            boot: None,
            formats: Vec::new(),
        }
    }
}

impl Cache {
    /// A cache about which nothing is known.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Cache {
        Cache { name: name.into(), ..Cache::default() }
    }

    /// Its name, its id and its aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let id = self.id.as_deref();
        std::iter::once(self.name.as_str()).chain(id).chain(self.aliases.iter().map(String::as_str))
    }

    /// What the source reported under a name.
    #[must_use]
    pub fn reading(&self, name: &str) -> Option<&Reading> {
        self.readings.get(name)
    }

    /// The value that the source reported under a name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.readings.get(name).map(|r| &r.value)
    }

    /// The number that the source reported exactly.
    #[must_use]
    pub fn exact(&self, name: &str) -> Option<u64> {
        self.value(name)?.exact()
    }

    /// Stores what the source reported.
    pub fn set(&mut self, name: impl Into<String>, reading: impl Into<Reading>) {
        self.readings.insert(name.into(), reading.into());
    }
}

impl Slab {
    /// Objects free in it.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.objects.saturating_sub(self.inuse)
    }
}
