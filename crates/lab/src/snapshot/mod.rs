//! What a real kernel reports about its caches: the attributes in `/sys/kernel/slab`, the aliases,
//! and the machine.
//!
//! Sources: saved JSON (plain or zstd, recognised by its first bytes; one file may hold several
//! dumps), files of `slabyard snapshot kernel`, pasted texts, copied folders and archives, and the
//! [running kernel](KernelSnapshot::live).
//! Tests compare [`crate::rules`] and [`crate::geometry`] with snapshots; `replay` starts from a
//! snapshot. Invariants: caches are in order of their ids; each has a size, an order and objects
//! per slab; other values are `None` if the source lacks them.

mod live;
mod numbers;
mod parse;
mod saved;
mod written;

pub use live::{COUNTS, SIZES};

use crate::geometry::{self, Geometry, Request, SizeError};
use crate::rules::{Front, Machine, NodeSet, SettingError, Settings, VersionError};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// What caches are made from: they are never merged, so these are their ids.
const BOOT_CACHES: [&str; 2] = ["kmem_cache", "kmem_cache_node"];

/// One cache of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Its directory: a name, or for merged caches such as `:A-0000192`.
    pub id: String,
    /// Bytes that users see.
    pub object_size: Option<u32>,
    /// Bytes from one object to the next.
    pub slab_size: u32,
    /// Objects begin at multiples of it.
    pub align: Option<u32>,
    /// Objects in a slab of the order wanted.
    pub objs_per_slab: u32,
    /// The order wanted.
    pub order: u8,
    /// Free objects wanted on a CPU's partial list.
    pub cpu_partial: Option<u32>,
    /// Partial slabs below which a node keeps an empty one.
    pub min_partial: Option<u32>,
    /// Counted as reclaimable.
    pub reclaim_account: Option<bool>,
    /// Its slabs go back after a grace period.
    pub destroy_by_rcu: Option<bool>,
    /// In memory for DMA.
    pub cache_dma: Option<bool>,
    /// Checked, poisoned, traced or with red zones.
    pub debug: Option<bool>,
    /// Those of nodes' lists, of CPUs, and full ones.
    pub slabs: Option<u64>,
    /// All objects but those that are free on node partial lists.
    pub objects: Option<u64>,
    /// As many as the slabs have room for.
    pub total_objects: Option<u64>,
    /// Slabs on node partial lists.
    pub partial: Option<u64>,
    /// Objects in use on these.
    pub objects_partial: Option<u64>,
    /// Slabs that CPUs hold, those on their partial lists included.
    pub cpu_slabs: Option<u64>,
    /// Slabs on CPUs' partial lists.
    pub slabs_cpu_partial: Option<CpuPartial>,
    /// Objects in a sheaf.
    pub sheaf_capacity: Option<u32>,
}

/// Slabs on CPUs' partial lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuPartial {
    /// Of all CPUs together.
    pub slabs: u64,
    /// CPU and its slabs, for CPUs that have any; `None` where only the sum is known.
    pub per_cpu: Option<Vec<(u32, u64)>>,
}

/// A kernel's caches at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSnapshot {
    /// The name of this dump, where its file holds several.
    pub dump: Option<String>,
    /// As `uname -r` prints it.
    pub kernel: Option<String>,
    /// Bytes of a page.
    pub page_size: u32,
    /// CPUs that may ever be there (`nr_cpu_ids`).
    pub possible_cpus: Option<u32>,
    /// CPUs that are plugged in.
    pub present_cpus: Option<u32>,
    /// CPUs that run.
    pub online_cpus: Option<u32>,
    /// Memory nodes.
    pub nodes: Option<u32>,
    /// Those of them that have CPUs but no memory.
    pub memoryless: NodeSet,
    /// What the kernel was booted with.
    pub cmdline: Option<String>,
    /// `Slab:` of `/proc/meminfo`, in kB.
    pub slab_kb: Option<u64>,
    /// `Slab:` at named moments of this boot, in kB; empty where only the one is known.
    pub slab_kb_at: Vec<(String, u64)>,
    /// `MemTotal:`, in kB.
    pub memory_kb: Option<u64>,
    /// In order of their ids.
    pub caches: Vec<Cache>,
    /// Names that are not ids, with the id behind each.
    pub aliases: BTreeMap<String, String>,
    /// What a pasted text does not tell, and what is taken for it.
    pub assumed: Vec<String>,
}

impl KernelSnapshot {
    /// True if it comes from a kernel with SLAB: no cache has an attribute that only SLUB has.
    #[must_use]
    pub fn is_of_slab(&self) -> bool {
        self.caches.iter().all(|cache| cache.min_partial.is_none() && cache.cpu_partial.is_none())
    }
}

/// Why there is no snapshot.
#[derive(Debug, Error)]
pub enum Error {
    /// A file of the OS or of the user.
    #[error("cannot read {path}: {error}")]
    Read {
        /// As the user or the OS names it.
        path: PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
    /// The kernel's attributes are for root alone.
    #[error("cannot read {path}: {error}; the kernel shows its caches to root only")]
    NotRoot {
        /// The attribute that could not be read.
        path: PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
    /// No caches to be seen.
    #[error("{path} is not there: this kernel has no SLUB, or no sysfs is mounted")]
    NoSlub {
        /// Where SLUB's attributes would be.
        path: PathBuf,
    },
    /// A bad compressed file.
    #[error("the zstd stream is damaged or cut off: {0}")]
    Zstd(io::Error),
    /// More than any kernel has to say.
    #[error("unpacked, it is larger than {0} MiB")]
    TooLarge(u64),
    /// No JSON.
    #[error("it is no JSON: {0}")]
    Json(serde_json::Error),
    /// Other JSON.
    #[error("it is no snapshot of a kernel: {0}")]
    Shape(String),
    /// A saved snapshot that this version does not read.
    #[error(transparent)]
    Saved(#[from] slabyard_observe::file::Error),
}

/// Why a snapshot does not tell which rules its kernel follows.
#[derive(Debug, Error)]
pub enum UnknownRules {
    /// Rules go by the kernel's release.
    #[error("the snapshot does not name its kernel; say which with --release")]
    NoVersion,
    /// Orders and limits depend on their number.
    #[error("the snapshot does not tell the number of CPUs; give --cpus and --possible-cpus")]
    NoCpus,
    /// An old kernel.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// A boot parameter that cannot be.
    #[error("boot parameter {0}")]
    Boot(SettingError),
}

/// A number that the rules and a kernel do not agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The cache.
    pub id: String,
    /// Its stride.
    pub slab_size: u32,
    /// The kernel's name of the number.
    pub field: &'static str,
    /// As our rules of the kernel's release compute it.
    pub rule: u32,
    /// The value of the file in sysfs.
    pub kernel: u32,
}

impl KernelSnapshot {
    /// The cache with this id or name.
    #[must_use]
    pub fn cache(&self, name: &str) -> Option<&Cache> {
        let id = self.aliases.get(name).map_or(name, String::as_str);
        let at = self.caches.binary_search_by(|c| c.id.as_str().cmp(id)).ok()?;
        self.caches.get(at)
    }

    /// The machine, where the number of its CPUs is known.
    #[must_use]
    pub fn machine(&self) -> Option<Machine> {
        let possible = self.possible_cpus.or(self.present_cpus).or(self.online_cpus)?;
        let present = self.present_cpus.or(self.online_cpus).unwrap_or(possible);
        Some(Machine {
            page_size: self.page_size,
            possible_cpus: possible,
            present_cpus: present,
            online_cpus: self.online_cpus.unwrap_or(present),
            nodes: self.nodes.unwrap_or(1),
            memoryless: self.memoryless,
            memory_bytes: self.memory_kb.unwrap_or(0).saturating_mul(1024),
        })
    }

    /// The rules that this kernel follows, and what to tell people about them.
    ///
    /// # Errors
    /// What the snapshot does not tell.
    pub fn settings(&self) -> Result<(Settings, Option<String>), UnknownRules> {
        let version = self.kernel.as_deref().ok_or(UnknownRules::NoVersion)?;
        let machine = self.machine().ok_or(UnknownRules::NoCpus)?;
        let (mut settings, note) = Settings::of_version(version, machine)?;
        self.boot(&mut settings)?;
        Ok((settings, note))
    }

    /// Takes what the kernel was booted with over into `settings`.
    ///
    /// # Errors
    /// A value that no kernel takes.
    pub fn boot(&self, settings: &mut Settings) -> Result<(), UnknownRules> {
        for word in self.cmdline.as_deref().unwrap_or("").split_whitespace() {
            let ours = ["slab_", "slub_"].iter().find_map(|prefix| word.strip_prefix(prefix));
            let Some(parameter) = ours else { continue };
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let set = match key {
                // The kernel takes more, as the highest there is; and the later of the
                // two moves the other one.
                "max_order" | "min_order" => match value.parse::<u32>() {
                    Ok(order) => {
                        let set = settings.set(&format!("{key}={}", order.min(10)));
                        match key {
                            "max_order" => {
                                settings.min_order = settings.min_order.min(settings.max_order());
                            }
                            _ if settings.min_order > settings.max_order() => {
                                settings.max_order = Some(settings.min_order);
                            }
                            _ => {}
                        }
                        set
                    }
                    Err(_) => settings.set(parameter),
                },
                "min_objects" => settings.set(parameter),
                // `debug` and `nomerge` show in the caches themselves.
                _ => Ok(()),
            };
            set.map_err(UnknownRules::Boot)?;
        }
        settings.forget_typed();
        Ok(())
    }

    /// What each cache brings with it, to a kernel of these settings. If that one has sheaves on
    /// request and this one has them in all caches or in none, what this one's own rules give a cache
    /// is no request: the release knows who requests sheaves.
    #[must_use]
    pub fn requests(&self, settings: &Settings) -> Vec<Request> {
        let mut requests: Vec<Request> = self.caches.iter().map(Cache::request).collect();
        let on_request = |front| front == Front::SheavesOnRequest;
        let own = self.settings().ok().filter(|(own, _)| !on_request(own.front()));
        let Some((own, _)) = own.filter(|_| on_request(settings.front())) else { return requests };
        for (cache, request) in self.caches.iter().zip(&mut requests) {
            let plain = Request { sheaf_capacity: 0, ..*request };
            let by_rule = geometry::of_cache(&plain, &own).map(|geometry| geometry.sheaf_capacity);
            if by_rule == Ok(request.sheaf_capacity) {
                let mut known = settings.release.on_request.iter();
                let known = known.find(|(name, _)| self.is_only(cache, name));
                request.sheaf_capacity = known.map_or(0, |(_, capacity)| *capacity);
            }
        }
        requests
    }

    /// True if a cache has this name, and no other one but its id.
    fn is_only(&self, cache: &Cache, name: &str) -> bool {
        let mut others =
            self.aliases.iter().filter(|(_, id)| **id == cache.id).map(|(name, _)| name);
        match others.next() {
            Some(other) if cache.id.starts_with(':') => other == name && others.next().is_none(),
            _ => cache.id == name,
        }
    }

    /// Every number that the rules do not give as the kernel does.
    ///
    /// # Errors
    /// A cache whose size has no geometry.
    pub fn differences(&self, settings: &Settings) -> Result<Vec<Difference>, SizeError> {
        let mut found = Vec::new();
        for (cache, request) in self.caches.iter().zip(self.requests(settings)) {
            let geometry = geometry::of_cache(&request, settings)?;
            let pairs = [
                ("order", geometry.order.into(), Some(cache.order.into())),
                ("objs_per_slab", geometry.objects, Some(cache.objs_per_slab)),
                ("cpu_partial", geometry.cpu_partial, cache.cpu_partial),
                ("min_partial", geometry.min_partial, cache.min_partial),
            ];
            for (field, rule, kernel) in pairs {
                let Some(kernel) = kernel.filter(|kernel| *kernel != rule) else { continue };
                let (id, slab_size) = (cache.id.clone(), cache.slab_size);
                found.push(Difference { id, slab_size, field, rule, kernel });
            }
        }
        Ok(found)
    }
}

impl Cache {
    /// What the rules say of this cache.
    ///
    /// # Errors
    /// A size that has no geometry.
    pub fn geometry(&self, settings: &Settings) -> Result<Geometry, SizeError> {
        geometry::of_cache(&self.request(), settings)
    }

    /// What it brings with it, to a kernel as the snapshot's.
    #[must_use]
    pub fn request(&self) -> Request {
        Request {
            size: self.slab_size,
            sheaf_capacity: self.sheaf_capacity.unwrap_or(0),
            debug: self.debug.unwrap_or(false),
            boot: BOOT_CACHES.contains(&self.id.as_str()),
        }
    }
}
