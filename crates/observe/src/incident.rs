//! What went wrong in a kernel, as its log reports it: no memory, no pages for a slab, an object
//! found corrupt.
//!
//! Neighbours: `crate::pasted` reads incidents from logs; [`crate::snapshot`] keeps them.

use serde::{Deserialize, Serialize};

/// One report of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// What it reports.
    pub kind: IncidentKind,
    /// Its first line.
    pub text: String,
    /// The program in whose name the kernel worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The cache that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// Of an allocation that failed: 2^order pages were wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
    /// The least order of a slab of the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_order: Option<u32>,
    /// Where in the kernel it happened, and where the object was allocated and freed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<IncidentSite>,
}

/// What a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IncidentKind {
    /// The OOM killer was called.
    OutOfMemory,
    /// Pages could not be had, for a slab or for another use.
    AllocationFailure,
    /// SLUB found an object or a slab that is not as it left it.
    Corruption,
}

/// A place in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentSite {
    /// What was done there.
    pub role: SiteRole,
    /// The function, as `name+0x5c/0x1b0 [module]`.
    pub function: String,
    /// How long ago, in jiffies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_jiffies: Option<u64>,
    /// The processor that ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// By which process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its callers, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

/// What was done at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SiteRole {
    /// The object was allocated.
    Allocated,
    /// The object was given back.
    Freed,
    /// The kernel was here when it reported.
    Reported,
}

impl Incident {
    /// A report of which only the first line is known.
    #[must_use]
    pub fn new(kind: IncidentKind, text: impl Into<String>) -> Incident {
        Incident {
            kind,
            text: text.into(),
            program: None,
            cache: None,
            order: None,
            min_order: None,
            sites: Vec::new(),
        }
    }

    /// All its texts, for checks and views.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let named = [&self.program, &self.cache].into_iter().flatten();
        let sites = self.sites.iter().flat_map(|site| site.stack.iter().chain([&site.function]));
        std::iter::once(&self.text).chain(named).chain(sites).map(String::as_str)
    }
}

impl IncidentSite {
    /// Where the kernel was when it reported; `None` without a stack.
    #[must_use]
    pub fn reported(stack: Vec<String>) -> Option<IncidentSite> {
        let function = stack.first()?.clone();
        let role = SiteRole::Reported;
        Some(IncidentSite { role, function, age_jiffies: None, cpu: None, pid: None, stack })
    }
}
