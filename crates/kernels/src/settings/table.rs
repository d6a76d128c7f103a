//! The table of settings: one row each, from which all interfaces are generated: the libraries'
//! environment variables with `run --set` and `compare`, the keys of `replay` and `geometry`, and
//! the tunables of `set`.
//!
//! A row has a column for each interface that accepts the setting. Texts that a library never shows
//! (help, names, requirements) are in separate tables, which are not linked into it. Neighbour:
//! [`super::kinds`] defines the types of rows, and parses their values. Invariant: a key's number
//! is the index of its row, since both are generated from the row.

use super::choices::{CpuMode, NodeCount, OnMisuse, PlantedBug, PressureDrain, SlubFront};
use super::kinds::{
    Changes, Needs, OF_ENGINE, Opt, OptionHelp, ReplayRow, ReplayValues, TunableRow, ValueKind,
};
use super::kinds::{MULTIPLIERS, OBJECTS, ORDERS, SHEAF_OBJECTS};
use crate::engines::{self, EngineName};
use crate::{Accounting, CPU_SLAB_RELEASES, Freezing, OrderRule, PageLists, Reclaim, Release};

const PREFIX: &str = "SLABYARD_";

/// The variable of a setting: the prefix, and the name in capitals.
const fn variable<const N: usize>(name: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let mut at = 0;
    while at < N {
        bytes[at] = match at.checked_sub(PREFIX.len()) {
            None => PREFIX.as_bytes()[at],
            Some(letter) => name.as_bytes()[letter].to_ascii_uppercase(),
        };
        at += 1;
    }
    bytes
}

macro_rules! variable {
    ($name:literal) => {{
        const BYTES: [u8; PREFIX.len() + $name.len()] = variable($name);
        match core::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => unreachable!(),
        }
    }};
}

/// Tunables by their numbers.
const fn in_order<const N: usize>(rows: &[TunableRow]) -> [TunableRow; N] {
    let mut all = [rows[0]; N];
    let mut nr = 0;
    while nr < N {
        let mut at = nr;
        while at > 0 && all[at - 1].number > rows[nr].number {
            all[at] = all[at - 1];
            at -= 1;
        }
        all[at] = rows[nr];
        nr += 1;
    }
    all
}

macro_rules! settings {
    ($(
        #[doc = $doc:literal]
        $item:ident $name:literal {
            needs: $needs:ident,
            $(library: $kind:expr, default $default:expr, $help:literal,)?
            $(engines: $e_kind:expr, default $e_default:expr, $e_help:literal,)?
            $(replay: $values:expr, $changes:ident of $of_engines:ident, $does:literal,)?
            $(live: $number:literal, of $of:ident, $least:literal to $most:expr, $sets:literal,)?
        }
    )*) => {
        /// Index of each option in [`OPTIONS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Key { $($(#[doc = concat!($doc, "\n\n", $help)] $item,)?)* }

        /// Index of each option in [`ENGINE_OPTIONS`].
        // Help is text of a terminal, whose brackets are no links.
        #[allow(rustdoc::broken_intra_doc_links)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum EngineKey { $($(#[doc = concat!($doc, "\n\n", $e_help)] $item,)?)* }

        /// A setting of modelled kernels.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum ReplayKey { $($(#[doc = $does] $item,)?)* }

        /// The options of each library.
        pub static OPTIONS: &[Opt] = &[$($(
            Opt { env: variable!($name), kind: $kind, default: $default },
        )?)*];

        /// The options of the library that holds all engines.
        pub static ENGINE_OPTIONS: &[Opt] = &[$($(
            Opt { env: variable!($name), kind: $e_kind, default: $e_default },
        )?)*];

        /// The settings of modelled kernels: those of `replay --set` and `geometry --set`.
        pub static REPLAYED: &[ReplayRow<ReplayKey>] = &[$($(ReplayRow {
            key: ReplayKey::$item, name: $name, values: $values, help: $does,
            engines: $of_engines, changes: Changes::$changes,
        },)?)*];

        const LIVE: &[TunableRow] = &[$($(TunableRow {
            number: $number, name: $name, least: $least, most: $most,
            of_yard: matches!(TunableScope::$of, TunableScope::Yard),
        },)?)*];

        /// What is shown of an option.
        pub(super) static SHOWN: &[OptionHelp] = &[$(
            $(OptionHelp { env: variable!($name), name: $name, help: $help, needs: Needs::$needs },)?
            $(OptionHelp { env: variable!($name), name: $name, help: $e_help, needs: Needs::$needs },)?
        )*];

        /// The line of help of a tunable.
        pub(super) const fn help_of(number: u64) -> &'static str {
            match number {
                $($($number => $sets,)?)*
                _ => "",
            }
        }
    };
}

/// What a request for a tunable names beside it.
enum TunableScope {
    Cache,
    Yard,
}

// The kernel's allocators that have a setting of modelled kernels.
const SLUB: &[EngineName] = &[EngineName::Slub];
const SLUB_AND_TINY: &[EngineName] = &[EngineName::Slub, EngineName::Tiny];
const SLAB: &[EngineName] = &[EngineName::Slab];
const SLABS: &[EngineName] = &[EngineName::Slub, EngineName::Tiny, EngineName::Slab];

/// The tunables of live caches and yards, by their numbers.
pub static TUNABLES: &[TunableRow] = &in_order::<{ LIVE.len() }>(LIVE);

settings! {
    /// How CPUs are told apart.
    Mode "mode" {
        needs: Nothing,
        library: ValueKind::Word(CpuMode::NAMES), default 0,
            "how a thread finds its row: by the C library's rseq, our own, or a private slot",
    }
    /// Time until free pages go back.
    DecayMs "decay_ms" {
        needs: Nothing,
        library: ValueKind::Number(0, 3_600_000), default 250,
            "milliseconds after which free pages are returned to the OS",
        live: 5, of Yard, 0 to 3_600_000,
            "milliseconds after which free pages are returned",
    }
    /// Addresses of the region.
    Reserve "reserve" {
        needs: Nothing,
        library: ValueKind::Bytes(16 << 20, 1 << 44), default 1 << 40,
            "address space for small objects; no memory is reserved",
    }
    /// What happens after misuse was reported.
    OnError "on_error" {
        needs: Nothing,
        library: ValueKind::Word(OnMisuse::NAMES), default 0,
            "after a report of misuse: abort, or continue as if the call had not been made; auto continues only after a wrong size",
    }
    /// So many frees are checked closely.
    CheckFrees "check_frees" {
        needs: Nothing,
        library: ValueKind::Number(0, u32::MAX as u64), default 32,
            "check this many of the first frees immediately for double frees and interior pointers; 4294967295: all",
    }
    /// Check the whole yard at exit.
    VerifyAtExit "verify_at_exit" {
        needs: Nothing,
        library: ValueKind::Switch, default 0,
            "check the whole yard when the process ends",
    }
    /// Others may look at the process.
    Observable "observable" {
        needs: Nothing,
        library: ValueKind::Switch, default 0,
            "let any process of the same user read this one, even if Yama forbids it",
    }
    /// A thread gives pages back while the program makes no calls.
    Helper "helper" {
        needs: Nothing,
        library: ValueKind::Switch, default 0,
            "a thread of the library returns free pages while the program makes no calls",
    }
    /// Allocations are sampled from the start on.
    Profile "profile" {
        needs: Nothing,
        library: ValueKind::Bytes(0, 1 << 30), default 0,
            "mean bytes from one sampled allocation to the next, 0 for none (set by `slabyard run --profile`)",
    }
    /// Which engine serves the process.
    Engine "engine" {
        needs: Nothing,
        library: ValueKind::Word(engines::NAMES), default 0,
            "the engine, in the library that holds all of them (set by `slabyard run --engine`)",
    }
    /// Equal object caches share slabs.
    Merge "merge" {
        needs: Nothing,
        library: ValueKind::Switch, default 0,
            "equal object caches of a program share slabs, as in the kernel",
    }
    /// Where the report goes.
    Report "report" {
        needs: Nothing,
        library: ValueKind::Text, default 0,
            "file for the report at the end (set by `slabyard run`)",
    }
    /// The lowest order that is tried.
    MinOrder "min_order" {
        needs: Nothing,
        replay: ReplayValues::Number("an order", ORDERS), Geometry of SLUB_AND_TINY,
            "the lowest order that is tried (boot: slab_min_order)",
    }
    /// The highest order that is tried first.
    MaxOrder "max_order" {
        needs: Nothing,
        replay: ReplayValues::Number("an order", ORDERS), Geometry of SLABS,
            "the highest order that is tried first (boot: slab_max_order)",
    }
    /// Where the highest order comes from.
    OrderRule "order_rule" {
        needs: Slub,
        engines: ValueKind::Word(OrderRule::NAMES), default 0,
            "slabs of malloc's size classes (engine slub): by their own table, or by the kernel's formula with slabs of 32 KiB at most",
        replay: ReplayValues::Words(
            "`default` (max_order, in pages) or `auto` (32 KiB, or a page if that is larger; in no kernel)",
        ), Geometry of SLUB_AND_TINY,
            "where the highest order that is tried first comes from",
    }
    /// Objects that a slab should hold.
    MinObjects "min_objects" {
        needs: Nothing,
        replay: ReplayValues::AutoOr(OBJECTS), Geometry of SLUB_AND_TINY,
            "objects that a slab should hold (boot: slab_min_objects)",
    }
    /// Objects for each doubling of the CPUs.
    Multiplier "multiplier" {
        needs: Nothing,
        replay: ReplayValues::Number("a number", MULTIPLIERS), Geometry of SLUB_AND_TINY,
            "objects for each doubling of the CPUs, where min_objects is `auto`; 4 in the kernel",
    }
    /// Free objects on a CPU's partial list.
    CpuPartial "cpu_partial" {
        needs: Nothing,
        replay: ReplayValues::BySize, Geometry of SLUB,
            "free objects wanted on a CPU's partial list",
        live: 7, of Cache, 0 to SHEAF_OBJECTS,
            "free objects that a CPU partial list may hold",
    }
    /// Empty slabs that a node keeps.
    MinPartial "min_partial" {
        needs: Nothing,
        replay: ReplayValues::BySize, Geometry of SLUB_AND_TINY,
            "partial slabs below which a node keeps an empty one",
        live: 2, of Cache, 0 to 1 << 20,
            "empty slabs kept on the partial list",
    }
    /// Objects in a sheaf.
    SheafCapacity "sheaf_capacity" {
        needs: Nothing,
        replay: ReplayValues::BySize, Geometry of SLUB,
            "objects in a sheaf, in caches that have sheaves",
        live: 1, of Cache, 1 to SHEAF_OBJECTS,
            "objects in a full sheaf",
    }
    /// Full sheaves in a node's barn.
    MaxFullSheaves "max_full_sheaves" {
        needs: Nothing,
        replay: ReplayValues::BySize, Calls of SLUB,
            "most full sheaves in a node's barn, in caches that have sheaves; 10 in the kernel",
    }
    /// Empty sheaves in a node's barn.
    MaxEmptySheaves "max_empty_sheaves" {
        needs: Nothing,
        replay: ReplayValues::BySize, Calls of SLUB,
            "most empty sheaves in a node's barn, in caches that have sheaves; 10 in the kernel",
    }
    /// Refills for callers that may not wait.
    NowaitRefills "nowait_refills" {
        needs: Nothing,
        replay: ReplayValues::Switch, Calls of SLUB,
            "allocations that may not wait for memory refill sheaves; 0: as 7.0-rc1 and 7.0-rc2",
    }
    /// SLUB_TINY.
    Tiny "tiny" {
        needs: Nothing,
        replay: ReplayValues::Switch, Geometry of SLUB_AND_TINY,
            "no memory is kept for speed (build: SLUB_TINY, from 6.2 on)",
    }
    /// How the order is chosen.
    OrderFormula "order_formula" {
        needs: Nothing,
        replay: ReplayValues::Words(
            "`fewer_objects` (to 6.6) or `half_wasted` (from 6.7)",
        ), Geometry of SLUB_AND_TINY,
            "how the order is chosen",
    }
    /// The CPUs that count for it.
    CountedCpus "counted_cpus" {
        needs: Nothing,
        replay: ReplayValues::Words(
            "`possible` (to 5.10) or `present` (from 5.11)",
        ), Geometry of SLUB_AND_TINY,
            "the CPUs that count for min_objects",
    }
    /// How often memory is wanted.
    PressureMs "pressure_ms" {
        needs: Slab,
        replay: ReplayValues::Number("a number", 0..=3_600_000), Calls of SLAB,
            "memory is wanted so often, and the clock of reclaim=2.4 turns; 0: never (engine slab)",
    }
    /// Full sheaves in a barn.
    BarnFull "barn_full" {
        needs: Nothing,
        live: 3, of Cache, 0 to 1024,
            "most full sheaves in the barn",
    }
    /// Empty sheaves in a barn.
    BarnEmpty "barn_empty" {
        needs: Nothing,
        live: 4, of Cache, 0 to 1024,
            "most empty sheaves in the barn",
    }
    /// Bytes in all barns.
    NodeLimit "node_limit" {
        needs: Nothing,
        live: 6, of Yard, 0 to 1 << 40,
            "most bytes that all barns hold together",
    }
    /// Objects in a CPU's array.
    Limit "limit" {
        needs: Nothing,
        live: 8, of Cache, 1 to SHEAF_OBJECTS,
            "objects that a CPU's array may hold (engine slab)",
    }
    /// Objects that move at once.
    Batchcount "batchcount" {
        needs: Nothing,
        live: 9, of Cache, 1 to SHEAF_OBJECTS,
            "objects moved into an array, or out of it, at once",
    }
    /// Batches in the shared array.
    Sharedfactor "sharedfactor" {
        needs: Nothing,
        live: 10, of Cache, 0 to SHEAF_OBJECTS,
            "batches that the shared array may hold",
    }
    /// What a CPU allocates from.
    Front "front" {
        needs: Slub,
        engines: ValueKind::Word(SlubFront::NAMES), default 0,
            "what a CPU allocates from (engine slub): its sheaves, its CPU slab, or sheaves over a CPU slab",
        replay: ReplayValues::Words(
            "`cpu_slabs` (to 6.17), `sheaves_on_request` (6.18, 6.19) or `sheaves` (from 7.0)",
        ), Geometry of SLUB,
            "what a CPU allocates from",
    }
    /// The kernel whose CPU slabs they are.
    Release "release" {
        needs: CpuSlabs,
        engines: ValueKind::Release(&CPU_SLAB_RELEASES, Release::number_with_cpu_slabs),
            default CPU_SLAB_RELEASES.len() as u64 - 1,
            "the kernel release whose CPU slab rules apply",
    }
    /// When slabs are frozen.
    Freezing "freezing" {
        needs: CpuSlabs,
        engines: ValueKind::Word(Freezing::OR_RELEASE), default 0,
            "when slabs are frozen: as in the release, eagerly, as after that many patches of the 2023 series, or delayed",
        replay: ReplayValues::Words(
            "`eager` (to 6.7), `patch-3`, `patch-5` (of the series of 2023) or `delayed` (from 6.8)",
        ), Calls of SLUB,
            "when a slab on a CPU's partial list is frozen",
    }
    /// What CPU partial lists count.
    Accounting "accounting" {
        needs: CpuSlabs,
        engines: ValueKind::Word(Accounting::OR_RELEASE), default 0,
            "what CPU partial lists count: as in the release, free objects when a slab joins, slabs, or free objects exactly",
        replay: ReplayValues::Words(
            "`objects` (to 5.15), `slabs` (from 5.16) or `exact` (in no kernel)",
        ), Geometry of SLUB,
            "how the length of a CPU's partial list is counted",
    }
    /// Whether there are CPU partial lists.
    CpuPartialLists "cpu_partial_lists" {
        needs: CpuSlabs,
        engines: ValueKind::Switch, default 1,
            "whether there are CPU partial lists (CONFIG_SLUB_CPU_PARTIAL)",
        replay: ReplayValues::Switch, Geometry of SLUB,
            "CPUs have partial lists (build: SLUB_CPU_PARTIAL)",
    }
    /// A bug that checkers must find.
    Planted "planted" {
        needs: CpuSlabs,
        engines: ValueKind::Word(PlantedBug::NAMES), default 0,
            "a bug for checkers to find: the first version of the 2023 series lost slabs without CPU partial lists",
    }
    /// What becomes of free slabs.
    Reclaim "reclaim" {
        needs: Slab,
        engines: ValueKind::Word(Reclaim::NAMES), default Reclaim::Today as u64,
            "which free slabs are kept (engine slab): all until the clock runs, one, those within a limit, or the same with shared arrays",
        replay: ReplayValues::Words(
            "`2.4`, `2.5.39`, `2.5.45` or `today`",
        ), Calls of SLAB,
            "what becomes of SLAB's free slabs: they stay until a clock comes, one stays, they stay within a limit, or that with shared arrays (engine slab)",
    }
    /// Whether CPUs have arrays.
    Arrays "arrays" {
        needs: Slab,
        engines: ValueKind::Switch, default 1,
            "whether CPUs have arrays (engine slab); 0: as in a kernel for one CPU, each call takes the list lock",
        replay: ReplayValues::Switch, Calls of SLAB,
            "CPUs have arrays; 0: as a kernel for one CPU (engine slab)",
    }
    /// Slow paths are counted.
    Count "count" {
        needs: Nothing,
        engines: ValueKind::Switch, default 0,
            "count slow paths, compare-exchanges and list locks of each cache, and time waits and drains",
    }
    /// Which page lists CPUs have.
    PageLists "page_lists" {
        needs: Nothing,
        engines: ValueKind::Word(PageLists::NAMES), default 0,
            "lists of free pages that each CPU has in front of the buddy: the yard's own, those of 2.5.45, of 2.6.25, of 6.18, or none",
        replay: ReplayValues::Words(
            "`slabyard`, `hot-cold` (2.5.45), `merged` (2.6.25), `today` (6.18) or `none`",
        ), Calls of SLABS,
            "pages of slabs pass through CPUs' lists of this kind, which are counted with the buddy behind them",
    }
    /// As much memory as these lists are made for.
    Zone "zone" {
        needs: PageLists,
        engines: ValueKind::Bytes(1 << 20, 1 << 44), default 4 << 30,
            "size of the memory zone that determines the length of a kernel's page lists",
    }
    /// What is watched to learn that memory is short.
    Pressure "pressure" {
        needs: Nothing,
        engines: ValueKind::Text, default 0,
            "drain when memory is short: psi[:some STALL_US WINDOW_US], cgroup[:BYTES or PERCENT%], or both, separated by a comma",
    }
    /// What a drain under memory pressure gives back.
    PressureDrain "pressure_drain" {
        needs: Pressure,
        engines: ValueKind::Word(PressureDrain::NAMES), default 0,
            "what to return then: everything parked and free, or only empty slabs and free pages",
    }
    /// Memory nodes, by their logarithm.
    Nodes "nodes" {
        needs: Nodes,
        engines: ValueKind::Word(NodeCount::NAMES), default 0,
            "memory nodes (engine slab, and slub with sheaves): the machine's own if it has several, else CPUs are assigned in turn",
    }
    /// How often a node without free objects looks at others.
    RemoteNodeDefragRatio "remote_node_defrag_ratio" {
        needs: Nodes,
        engines: ValueKind::Number(0, 100), default OF_ENGINE,
            "with nodes, how often in 100 times a node without free objects takes another node's (default 100 in slub, 0 in slab)",
    }
    /// Frees of other nodes' objects wait in arrays.
    AlienCache "alien_cache" {
        needs: Slab,
        engines: ValueKind::Switch, default 1,
            "with nodes (engine slab), freed objects of other nodes wait until there are a dozen (0: the kernel's noaliencache)",
        replay: ReplayValues::Switch, Calls of SLAB,
            "frees of other nodes' objects wait for a dozen; 0: each goes to its slab (boot: noaliencache; engine slab)",
    }
    /// Which caches have debugging.
    Debug "debug" {
        needs: Nothing,
        engines: ValueKind::Text, default 0,
            "debugging of caches, FLAGS[,NAME...][;...] in the kernel's syntax (set by `slabyard run --slab-debug`)",
    }
    /// Which allocations fail.
    Failslab "failslab" {
        needs: Nothing,
        engines: ValueKind::Text, default 0,
            "which allocations fail in caches with the debug flag A: probability=P,interval=N,times=N,after=N",
    }
}
