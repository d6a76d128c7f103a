//! Run-time options: one row each, from which the parser, the warnings, the
//! command's `--set` and the manual are made.

use crate::engines;
use slabyard_kernels::{
    Accounting, CPU_SLAB_RELEASES, Freezing, PageLists, Reclaim, words::is_same,
};

/// How the text of a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A decimal number between the two bounds, both included.
    Number(u64, u64),
    /// Bytes: a number with an optional suffix K, M or G (powers of 1024).
    Bytes(u64, u64),
    /// `0` or `1`.
    Switch,
    /// A word of this list, in which `-` and `_` are the same; the option's number is its index.
    Word(&'static [&'static str]),
    /// Any text; the option is for the library's own use.
    Text,
}

/// A row of [`OPTIONS`] or [`ENGINE_OPTIONS`].
pub struct Opt {
    /// Variable: `SLABYARD_` and the key in capitals.
    pub env: &'static str,
    /// What it takes.
    pub kind: ValueKind,
    /// Value when it is not set (an index for words).
    pub default: u64,
}

/// A table of options, and apart from it the lines of help, which a library that does not show
/// them need not carry.
macro_rules! options {
    ($(#[$meta:meta])* $table:ident, $helps:ident: $(Opt {
        env: $env:literal, kind: $kind:expr, default: $default:expr, help: $help:literal,
    },)*) => {
        $(#[$meta])*
        pub static $table: &[Opt] = &[$(Opt { env: $env, kind: $kind, default: $default },)*];
        static $helps: &[(&str, &str)] = &[$(($env, $help),)*];
    };
}

impl Opt {
    /// One line of help.
    #[must_use]
    pub fn help(&self) -> &'static str {
        let all = HELPS.iter().chain(ENGINE_HELPS);
        all.filter(|(env, _)| *env == self.env).map(|(_, help)| *help).next().unwrap_or_default()
    }
}

/// Index of each option in [`OPTIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Key {
    /// How CPUs are told apart.
    Mode,
    /// Time until free pages go back.
    DecayMs,
    /// Addresses of the region.
    Reserve,
    /// What happens after misuse was reported.
    OnError,
    /// So many frees are checked closely.
    CheckFrees,
    /// Check the whole yard at exit.
    VerifyAtExit,
    /// Others may look at the process.
    Observable,
    /// A thread gives pages back while the program makes no calls.
    Helper,
    /// Which engine serves the process.
    Engine,
    /// Equal object caches share slabs.
    Merge,
    /// Where the report goes.
    Report,
}

options! {
    /// All options, of each library.
    OPTIONS, HELPS:
    Opt {
        env: "SLABYARD_MODE",
        kind: ValueKind::Word(&["auto", "rseq", "own-rseq", "slots"]),
        default: 0,
        help: "how CPUs are told apart: the C library's rseq, our own, or a private slot for each thread",
    },
    Opt {
        env: "SLABYARD_DECAY_MS",
        kind: ValueKind::Number(0, 3_600_000),
        default: 250,
        help: "milliseconds after which free pages go back to the system",
    },
    Opt {
        env: "SLABYARD_RESERVE",
        kind: ValueKind::Bytes(16 << 20, 1 << 44),
        default: 1 << 40,
        help: "addresses that small objects may take; nothing of them is reserved",
    },
    Opt {
        env: "SLABYARD_ON_ERROR",
        kind: ValueKind::Word(&["auto", "abort", "report"]),
        default: 0,
        help: "after misuse was reported: abort, or go on as if the call was not made; auto goes on after a wrong size only",
    },
    Opt {
        env: "SLABYARD_CHECK_FREES",
        kind: ValueKind::Number(0, u32::MAX as u64),
        default: 32,
        help: "the first so many frees are checked for double frees and interior pointers at once; 4294967295: all",
    },
    Opt {
        env: "SLABYARD_VERIFY_AT_EXIT",
        kind: ValueKind::Switch,
        default: 0,
        help: "check the whole yard when the process ends",
    },
    Opt {
        env: "SLABYARD_OBSERVABLE",
        kind: ValueKind::Switch,
        default: 0,
        help: "let any process of the same user look at this one, where Yama forbids it",
    },
    Opt {
        env: "SLABYARD_HELPER",
        kind: ValueKind::Switch,
        default: 0,
        help: "a thread of ours gives free pages back while the program makes no calls",
    },
    Opt {
        env: "SLABYARD_ENGINE",
        kind: ValueKind::Word(engines::NAMES),
        default: 0,
        help: "the engine, in the library that holds all of them (set by `slabyard run --engine`)",
    },
    Opt {
        env: "SLABYARD_MERGE",
        kind: ValueKind::Switch,
        default: 0,
        help: "equal object caches of a program share slabs, as in the kernel",
    },
    Opt {
        env: "SLABYARD_REPORT",
        kind: ValueKind::Text,
        default: 0,
        help: "file for the report at the end (set by `slabyard run`)",
    },
}

/// The default of a number that the engine chooses.
pub const OF_ENGINE: u64 = u64::MAX;

/// Index of each option in [`ENGINE_OPTIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum EngineKey {
    /// What a CPU allocates from.
    Front,
    /// The kernel whose CPU slabs they are.
    Release,
    /// When slabs are frozen.
    Freezing,
    /// What CPU partial lists count.
    Accounting,
    /// Whether there are CPU partial lists.
    CpuPartialLists,
    /// A bug that checkers must find.
    Planted,
    /// What becomes of free slabs.
    Reclaim,
    /// Whether CPUs have arrays.
    Arrays,
    /// Slow paths are counted.
    Count,
    /// Which page lists CPUs have.
    PageLists,
    /// As much memory as these lists are made for.
    Zone,
    /// What is watched to learn that memory is short.
    Pressure,
    /// What a drain under memory pressure gives back.
    PressureDrain,
    /// Memory nodes, by their logarithm.
    Nodes,
    /// How often a node without free objects looks at others.
    RemoteNodeDefragRatio,
    /// Frees of other nodes' objects wait in arrays.
    AlienCache,
    /// Which caches have debugging.
    Debug,
    /// Which allocations fail.
    Failslab,
}

options! {
    /// Options of the library that holds all engines.
    ENGINE_OPTIONS, ENGINE_HELPS:
    Opt {
        env: "SLABYARD_FRONT",
        kind: ValueKind::Word(&["sheaves", "cpu-slabs", "mixed"]),
        default: 0,
        help: "what a CPU allocates from, by the engine slub: its sheaves, its CPU slab, or sheaves over a CPU slab",
    },
    Opt {
        env: "SLABYARD_RELEASE",
        kind: ValueKind::Word(&CPU_SLAB_RELEASES),
        default: CPU_SLAB_RELEASES.len() as u64 - 1,
        help: "the kernel whose CPU slabs they are",
    },
    Opt {
        env: "SLABYARD_FREEZING",
        kind: ValueKind::Word(Freezing::OR_RELEASE),
        default: 0,
        help: "when slabs are frozen: as the release, eagerly, after so many patches of the series of 2023, or late",
    },
    Opt {
        env: "SLABYARD_ACCOUNTING",
        kind: ValueKind::Word(Accounting::OR_RELEASE),
        default: 0,
        help: "what CPU partial lists count: as the release, free objects as a slab joins, slabs, or free objects exactly",
    },
    Opt {
        env: "SLABYARD_CPU_PARTIAL_LISTS",
        kind: ValueKind::Switch,
        default: 1,
        help: "whether there are CPU partial lists (CONFIG_SLUB_CPU_PARTIAL)",
    },
    Opt {
        env: "SLABYARD_PLANTED",
        kind: ValueKind::Word(&["none", "lost-slabs"]),
        default: 0,
        help: "a bug for checkers to find: the slabs that the series of 2023 lost at first, without CPU partial lists",
    },
    Opt {
        env: "SLABYARD_RECLAIM",
        kind: ValueKind::Word(Reclaim::NAMES),
        default: Reclaim::Today as u64,
        help: "what becomes of free slabs, by the engine slab: they stay until a clock comes, one stays, they stay within a limit, or that with shared arrays",
    },
    Opt {
        env: "SLABYARD_ARRAYS",
        kind: ValueKind::Switch,
        default: 1,
        help: "whether CPUs have arrays, by the engine slab; 0: as a kernel for one CPU, each call is under the list's lock",
    },
    Opt {
        env: "SLABYARD_COUNT",
        kind: ValueKind::Switch,
        default: 0,
        help: "count slow paths, exchanges and list locks of each cache, and time waiting and drains",
    },
    Opt {
        env: "SLABYARD_PAGE_LISTS",
        kind: ValueKind::Word(PageLists::NAMES),
        default: 0,
        help: "lists of free pages that each CPU has in front of the buddy: the yard's own, those of 2.5.45, of 2.6.25, of 6.18, or none",
    },
    Opt {
        env: "SLABYARD_ZONE",
        kind: ValueKind::Bytes(1 << 20, 1 << 44),
        default: 4 << 30,
        help: "bytes of the zone of memory by which the length of a kernel's page lists follows",
    },
    Opt {
        env: "SLABYARD_PRESSURE",
        kind: ValueKind::Text,
        default: 0,
        help: "drain when memory is short: psi[:some STALL_US WINDOW_US], cgroup[:BYTES or PERCENT%], or both, with a comma between",
    },
    Opt {
        env: "SLABYARD_PRESSURE_DRAIN",
        kind: ValueKind::Word(&["full", "empties"]),
        default: 0,
        help: "what is given back then: all that is parked and free, or empty slabs and free pages alone",
    },
    Opt {
        env: "SLABYARD_NODES",
        kind: ValueKind::Word(&["1", "2", "4"]),
        default: 0,
        help: "memory nodes, by the engine slab and by slub with sheaves: the machine's own if it has several, else CPUs take turns",
    },
    Opt {
        env: "SLABYARD_REMOTE_NODE_DEFRAG_RATIO",
        kind: ValueKind::Number(0, 100),
        default: OF_ENGINE,
        help: "with nodes, how often in 100 times a node without free objects takes one of another (else 100 by slub, 0 by slab)",
    },
    Opt {
        env: "SLABYARD_ALIEN_CACHE",
        kind: ValueKind::Switch,
        default: 1,
        help: "with nodes, by the engine slab, frees of other nodes' objects wait for a dozen (0: the kernel's noaliencache)",
    },
    Opt {
        env: "SLABYARD_DEBUG",
        kind: ValueKind::Text,
        default: 0,
        help: "debugging of caches, FLAGS[,NAME...][;...] in the kernel's syntax (set by `slabyard run --slab-debug`)",
    },
    Opt {
        env: "SLABYARD_FAILSLAB",
        kind: ValueKind::Text,
        default: 0,
        help: "allocations that fail, of caches with the debug flag A: probability=P,interval=N,times=N,after=N",
    },
}

/// The row of an option of the library that holds all engines.
#[must_use]
pub fn engine_row(key: EngineKey) -> &'static Opt {
    &ENGINE_OPTIONS[key as usize]
}

/// The row of an option that each library has.
#[must_use]
pub fn row(key: Key) -> &'static Opt {
    &OPTIONS[key as usize]
}

/// Why a value was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueError {
    /// Not of the option's kind.
    Malformed,
    /// Outside of the option's bounds.
    OutOfRange,
}

/// Parses a value for an option: a number, or the index of a word.
///
/// # Errors
/// [`ValueError`] says why the text does not fit.
///
/// ```
/// use slabyard_abi::options::{Key, parse, row};
/// assert_eq!(parse(row(Key::Reserve), b"64M"), Ok(64 << 20));
/// assert!(parse(row(Key::DecayMs), b"soon").is_err());
/// ```
pub fn parse(opt: &Opt, text: &[u8]) -> Result<u64, ValueError> {
    match opt.kind {
        ValueKind::Number(low, high) => within(number(text)?, low, high),
        ValueKind::Bytes(low, high) => {
            let (digits, shift) = match text.last() {
                Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
                Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
                Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
                _ => (text, 0),
            };
            let n = number(digits)?.checked_mul(1 << shift).ok_or(ValueError::OutOfRange)?;
            within(n, low, high)
        }
        ValueKind::Switch => within(number(text)?, 0, 1),
        ValueKind::Word(words) => words
            .iter()
            .position(|w| is_same(w.as_bytes(), text))
            .map(|i| i as u64)
            .ok_or(ValueError::Malformed),
        ValueKind::Text => Ok(0),
    }
}

fn within(n: u64, low: u64, high: u64) -> Result<u64, ValueError> {
    if (low..=high).contains(&n) { Ok(n) } else { Err(ValueError::OutOfRange) }
}

fn number(text: &[u8]) -> Result<u64, ValueError> {
    if text.is_empty() {
        return Err(ValueError::Malformed);
    }
    text.iter().try_fold(0u64, |n, c| match c {
        b'0'..=b'9' => n
            .checked_mul(10)
            .and_then(|n| n.checked_add(u64::from(c - b'0')))
            .ok_or(ValueError::OutOfRange),
        _ => Err(ValueError::Malformed),
    })
}
