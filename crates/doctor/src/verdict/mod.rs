//! Where the memory is: parts that add up to the resident bytes of a process, or to the slab memory
//! of a kernel.
//!
//! Neighbours: [`process`], [`kernel`] and [`recorded`] work it out, [`crate::rules`] judges the same numbers.
//! Invariant: the parts, the remainder among them, add up to the total, whatever was read.

pub(crate) mod bounded;
pub mod kernel;
pub mod process;
pub mod recorded;

use serde::Serialize;

/// Where the memory is.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// What the parts add up to.
    pub of: Total,
    /// How large the whole is.
    pub bytes: u64,
    /// The parts; what no part explains is the last one.
    pub parts: Vec<MemoryPart>,
    /// What is no part of the total, and belongs beside it.
    pub beside: Vec<MemoryPart>,
}

/// What a verdict's parts add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Total {
    /// The resident memory of a process.
    Resident,
    /// What an allocator was lent and has not given back, resident or not: of a core file, say.
    Committed,
    /// The slab memory of a kernel.
    Slab,
    /// The objects that a recording saw allocated and not freed.
    Recorded,
}

impl Total {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Total::Resident => "resident memory",
            Total::Committed => "memory of the allocator, resident or not",
            Total::Slab => "slab memory",
            Total::Recorded => "memory that was allocated in the recording and not freed",
        }
    }
}

/// One use of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryPart {
    /// A stable name.
    pub name: &'static str,
    /// Negative only of a remainder, and of what others count although it is not in memory.
    pub bytes: i64,
    /// In words, for a line of the table.
    pub help: &'static str,
}

/// What no part explains.
pub(crate) const UNEXPLAINED: &str = "unexplained";

impl Verdict {
    /// With a remainder that makes the parts add up.
    pub(crate) fn new(
        of: Total,
        bytes: u64,
        mut parts: Vec<MemoryPart>,
        beside: Vec<MemoryPart>,
    ) -> Verdict {
        parts.retain(|part| part.bytes != 0);
        let sum: i64 = parts.iter().map(|part| part.bytes).sum();
        let help = "read at another moment, or counted nowhere";
        parts.push(MemoryPart { name: UNEXPLAINED, bytes: signed(bytes) - sum, help });
        Verdict { of, bytes, parts, beside }
    }

    /// The bytes of a part; 0 without one.
    #[must_use]
    pub fn part(&self, name: &str) -> i64 {
        self.parts.iter().filter(|part| part.name == name).map(|part| part.bytes).sum()
    }
}

pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

pub(crate) fn part(name: &'static str, bytes: u64, help: &'static str) -> MemoryPart {
    MemoryPart { name, bytes: signed(bytes), help }
}
