//! What people may change: the kernel's boot parameters and sysfs files, its
//! build options, and rules that no kernel has.
//!
//! [`KEYS`] is the one table of them: parser, help and errors are made from it.
//! Invariant: the order in which different keys are set does not matter; what does not
//! go together, or would change nothing, is refused by [`Settings::validate`].

use super::{
    Accounting, CountedCpus, Freezing, Front, Machine, OrderFormula, PageLists, Release,
    VersionError, earlies, version_of,
};
use slabyard::engine::array_cache::{Choice, Reclaim as SlabReclaim};
use std::ops::RangeInclusive;
use thiserror::Error;

const ORDERS: RangeInclusive<u32> = 0..=10;
const PAGES: RangeInclusive<u32> = 4096..=65536;
const CPUS: RangeInclusive<u32> = 1..=8192;
const NODES: RangeInclusive<u32> = 1..=1024;
/// The kernel counts a slab's objects in 15 bits.
const OBJECTS: RangeInclusive<u32> = 1..=32767;
const MULTIPLIERS: RangeInclusive<u32> = 1..=64;
/// Objects or slabs in a rule by size.
const COUNTS: RangeInclusive<u32> = 0..=65535;

/// A number for each cache by its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeRule {
    /// The kernel's.
    Kernel,
    /// The same for all caches.
    One(u32),
    /// Pairs of a size and the number from that size on; the kernel's below all.
    Table(Vec<(u32, u32)>),
}

impl SizeRule {
    /// The number for a size, `None` where the kernel's rule holds.
    #[must_use]
    pub fn of(&self, size: u32) -> Option<u32> {
        match self {
            SizeRule::Kernel => None,
            SizeRule::One(number) => Some(*number),
            SizeRule::Table(rows) => {
                rows.iter().filter(|(from, _)| *from <= size).max_by_key(|r| r.0).map(|r| r.1)
            }
        }
    }

    fn parse(text: &str, page_size: u32) -> Option<SizeRule> {
        if text == "kernel" {
            return Some(SizeRule::Kernel);
        }
        if !text.contains(':') {
            return number(text, COUNTS).map(SizeRule::One);
        }
        let mut rows = Vec::new();
        for row in text.split(',') {
            let (from, count) = row.split_once(':')?;
            let from = if from == "page" { page_size } else { from.parse().ok()? };
            if rows.iter().any(|(known, _)| *known == from) {
                return None;
            }
            rows.push((from, number(count, COUNTS)?));
        }
        Some(SizeRule::Table(rows))
    }
}

/// What becomes of SLAB's free slabs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slab {
    /// The policy.
    pub choice: Choice,
    /// Memory is wanted so often, for the policy that has a clock; 0: never. A trace does not
    /// tell.
    pub pressure_ms: u64,
}

/// A release, a machine, and what was changed by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What was not changed.
    pub release: &'static Release,
    /// The version that was asked for: the release's own, or a later one.
    pub version: (u32, u32),
    /// The machine.
    pub machine: Machine,
    /// `slab_min_order`.
    pub min_order: u8,
    /// `slab_max_order`; `None` is the release's, or SLUB_TINY's.
    pub max_order: Option<u8>,
    /// `slab_min_objects`; `None` counts CPUs.
    pub min_objects: Option<u32>,
    /// Objects for each doubling of the CPUs; the kernel's is 4.
    pub multiplier: u32,
    /// Free objects wanted on a CPU's partial list.
    pub cpu_partial: SizeRule,
    /// Slabs that a node keeps though one is empty.
    pub min_partial: SizeRule,
    /// Objects in a sheaf.
    pub sheaf_capacity: SizeRule,
    /// `CONFIG_SLUB_CPU_PARTIAL`.
    pub cpu_partial_lists: bool,
    /// `CONFIG_SLUB_TINY`.
    pub tiny: bool,
    /// In place of the release's.
    pub formula: Option<OrderFormula>,
    /// In place of the release's.
    pub counted: Option<CountedCpus>,
    /// In place of the release's.
    pub accounting: Option<Accounting>,
    /// In place of the release's.
    pub freezing: Option<Freezing>,
    /// In place of the release's.
    pub front: Option<Front>,
    /// The lists of pages between slabs and a buddy; `None`: they are not modelled.
    pub page_lists: Option<PageLists>,
    /// What SLAB does, where it is the engine.
    pub slab: Slab,
    /// Keys that were set, but by the version itself.
    typed: Vec<&'static str>,
}

/// Why a setting is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// No equals sign.
    #[error("`{0}`: expected KEY=VALUE")]
    NoValue(String),
    /// No such key.
    #[error("unknown key `{key}`{}; keys: {}", did_you_mean(key), key_names())]
    UnknownKey {
        /// What was typed.
        key: String,
    },
    /// The kernel's, and without a meaning here.
    #[error("{key} changes nothing: which caches share slabs is as in the snapshot; leave it out")]
    Merging {
        /// What was typed.
        key: String,
    },
    /// The key does not take that.
    #[error("`{key}={value}`: {key} takes {takes}")]
    Refused {
        /// The key.
        key: &'static str,
        /// What was typed.
        value: String,
        /// What it takes.
        takes: &'static str,
    },
    /// No such machine or kernel.
    #[error("{0}")]
    Impossible(String),
}

/// One key of `--set`.
pub struct Key {
    /// As typed.
    pub name: &'static str,
    /// What it takes.
    pub takes: &'static str,
    /// What it does.
    pub help: &'static str,
    set: fn(&mut Settings, &str) -> Option<()>,
}

const BY_SIZE: &str =
    "`kernel`, a number for all caches, or pairs SIZE:NUMBER (from that size on; `page` is a size)";
const SWITCH: &str = "0 or 1";
const ORDER: &str = "an order from 0 to 10";

const KEYS: [Key; 18] = [
    Key {
        name: "min_order",
        takes: ORDER,
        help: "the lowest order that is tried (boot: slab_min_order)",
        set: |s, v| put(&mut s.min_order, number(v, ORDERS).map(|order| order as u8)),
    },
    Key {
        name: "max_order",
        takes: ORDER,
        help: "the highest order that is tried first (boot: slab_max_order)",
        set: |s, v| put(&mut s.max_order, number(v, ORDERS).map(|order| Some(order as u8))),
    },
    Key {
        name: "min_objects",
        takes: "`auto`, or a number from 1 to 32767",
        help: "objects that a slab should hold (boot: slab_min_objects)",
        set: |s, v| {
            // The kernel's 0 is `auto` as well.
            s.min_objects =
                if ["auto", "0"].contains(&v) { None } else { Some(number(v, OBJECTS)?) };
            Some(())
        },
    },
    Key {
        name: "multiplier",
        takes: "a number from 1 to 64",
        help: "objects for each doubling of the CPUs, where min_objects is `auto`; 4 in the kernel",
        set: |s, v| put(&mut s.multiplier, number(v, MULTIPLIERS)),
    },
    Key {
        name: "cpu_partial",
        takes: BY_SIZE,
        help: "free objects wanted on a CPU's partial list",
        set: |s, v| put(&mut s.cpu_partial, SizeRule::parse(v, s.machine.page_size)),
    },
    Key {
        name: "min_partial",
        takes: BY_SIZE,
        help: "partial slabs below which a node keeps an empty one",
        set: |s, v| put(&mut s.min_partial, SizeRule::parse(v, s.machine.page_size)),
    },
    Key {
        name: "sheaf_capacity",
        takes: BY_SIZE,
        help: "objects in a sheaf, in caches that have sheaves",
        set: |s, v| put(&mut s.sheaf_capacity, SizeRule::parse(v, s.machine.page_size)),
    },
    Key {
        name: "cpu_partial_lists",
        takes: SWITCH,
        help: "CPUs have partial lists (build: SLUB_CPU_PARTIAL)",
        set: |s, v| put(&mut s.cpu_partial_lists, switch(v)),
    },
    Key {
        name: "tiny",
        takes: SWITCH,
        help: "no memory is kept for speed (build: SLUB_TINY, from 6.2 on)",
        set: |s, v| put(&mut s.tiny, switch(v)),
    },
    Key {
        name: "order_formula",
        takes: "`fewer_objects` (to 6.6) or `half_wasted` (from 6.7)",
        help: "how the order is chosen",
        set: |s, v| {
            let words = [
                ("fewer_objects", OrderFormula::FewerObjects),
                ("half_wasted", OrderFormula::HalfWasted),
            ];
            put(&mut s.formula, word(v, &words).map(Some))
        },
    },
    Key {
        name: "counted_cpus",
        takes: "`possible` (to 5.10) or `present` (from 5.11)",
        help: "the CPUs that count for min_objects",
        set: |s, v| {
            let words = [("possible", CountedCpus::Possible), ("present", CountedCpus::Present)];
            put(&mut s.counted, word(v, &words).map(Some))
        },
    },
    Key {
        name: "accounting",
        takes: "`objects` (to 5.15), `slabs` (from 5.16) or `exact` (in no kernel)",
        help: "how the length of a CPU's partial list is counted",
        set: |s, v| {
            let words = [
                ("objects", Accounting::Objects),
                ("slabs", Accounting::Slabs),
                ("exact", Accounting::Exact),
            ];
            put(&mut s.accounting, word(v, &words).map(Some))
        },
    },
    Key {
        name: "freezing",
        takes: "`eager` (to 6.7), `patch-1` to `patch-5` (of the series of 2023) or `delayed` (from 6.8)",
        help: "when a slab on a CPU's partial list is frozen",
        set: |s, v| put(&mut s.freezing, word(v, Freezing::WORDS).map(Some)),
    },
    Key {
        name: "front",
        takes: "`cpu_slabs` (to 6.17), `sheaves_on_request` (6.18, 6.19) or `sheaves` (from 7.0)",
        help: "what a CPU allocates from",
        set: |s, v| {
            let words = [
                ("cpu_slabs", Front::CpuSlabs),
                ("sheaves_on_request", Front::SheavesOnRequest),
                ("sheaves", Front::Sheaves),
            ];
            put(&mut s.front, word(v, &words).map(Some))
        },
    },
    Key {
        name: "page_lists",
        takes: "`slabyard`, `hot-cold` (2.5.45), `merged` (2.6.25), `today` (6.18) or `none`",
        help: "pages of slabs pass through CPUs' lists of this kind, which are counted with the buddy behind them",
        set: |s, v| put(&mut s.page_lists, PageLists::of(v).map(Some)),
    },
    Key {
        name: "reclaim",
        takes: "`2.4`, `2.5.39`, `2.5.45` or `today`",
        help: "what becomes of SLAB's free slabs: they stay until a clock comes, one stays, they stay within a limit, or that with shared arrays (engine slab)",
        set: |s, v| put(&mut s.slab.choice.reclaim, SlabReclaim::find(v)),
    },
    Key {
        name: "arrays",
        takes: SWITCH,
        help: "CPUs have arrays; 0: as a kernel for one CPU (engine slab)",
        set: |s, v| put(&mut s.slab.choice.has_arrays, switch(v)),
    },
    Key {
        name: "pressure_ms",
        takes: "a number from 0 to 3600000",
        help: "memory is wanted so often, and the clock of reclaim=2.4 turns; 0: never (engine slab)",
        set: |s, v| put(&mut s.slab.pressure_ms, number(v, 0..=3_600_000).map(u64::from)),
    },
];

/// The keys that are SLAB's alone.
const OF_SLAB: [&str; 3] = ["reclaim", "arrays", "pressure_ms"];

/// The keys that [`Settings::set`] takes.
#[must_use]
pub fn keys() -> &'static [Key] {
    &KEYS
}

impl Settings {
    /// A release as it is.
    #[must_use]
    pub fn new(release: &'static Release, machine: Machine) -> Settings {
        Settings {
            release,
            version: release.version,
            machine,
            min_order: 0,
            max_order: None,
            min_objects: None,
            multiplier: 4,
            cpu_partial: SizeRule::Kernel,
            min_partial: SizeRule::Kernel,
            sheaf_capacity: SizeRule::Kernel,
            cpu_partial_lists: true,
            tiny: false,
            formula: None,
            counted: None,
            accounting: None,
            freezing: None,
            front: None,
            page_lists: None,
            slab: Slab::default(),
            typed: Vec::new(),
        }
    }

    /// The kernel whose rules hold, as people are told: "6.1", or "6.4 (by the preset
    /// 6.1)".
    #[must_use]
    pub fn rules_name(&self) -> String {
        let (major, minor) = self.version;
        if self.version == self.release.version {
            return self.release.name.into();
        }
        format!("{major}.{minor} (by the preset {})", self.release.name)
    }

    /// The rules of any kernel version, and what to tell people where it has no
    /// preset of its own.
    ///
    /// # Errors
    /// What is no version, or is older than all presets.
    pub fn of_version(
        version: &str,
        machine: Machine,
    ) -> Result<(Settings, Option<String>), VersionError> {
        let (release, note) = Release::find(version)?;
        let mut settings = Settings::new(release, machine);
        for early in version_of(version).into_iter().flat_map(earlies) {
            let set = settings.set(early.setting);
            debug_assert_eq!(set, Ok(()));
        }
        settings.version = version_of(version).unwrap_or(release.version);
        settings.typed.clear();
        Ok((settings, note))
    }

    /// Takes one `KEY=VALUE`; the kernel's `slab_` or `slub_` may stand before a key.
    ///
    /// # Errors
    /// [`SettingError`] says what would be taken.
    pub fn set(&mut self, text: &str) -> Result<(), SettingError> {
        let no_value = || SettingError::NoValue(text.into());
        let (typed, value) = text.split_once('=').ok_or_else(no_value)?;
        let (typed, value) = (typed.trim(), value.trim());
        let bare = ["slab_", "slub_"].iter().find_map(|p| typed.strip_prefix(p)).unwrap_or(typed);
        let unknown = || match bare {
            "merge" | "nomerge" => SettingError::Merging { key: bare.into() },
            _ => SettingError::UnknownKey { key: typed.into() },
        };
        let key = KEYS.iter().find(|k| k.name == bare).ok_or_else(unknown)?;
        (key.set)(self, value).ok_or_else(|| SettingError::Refused {
            key: key.name,
            value: value.into(),
            takes: key.takes,
        })?;
        self.typed.push(key.name);
        Ok(())
    }

    /// Is there such a machine, and such a kernel on it?
    ///
    /// # Errors
    /// [`SettingError::Impossible`] with what to change.
    pub fn validate(&self) -> Result<(), SettingError> {
        let m = &self.machine;
        let within = |what: &str, number: u32, range: &RangeInclusive<u32>| {
            let (low, high) = (range.start(), range.end());
            let text = || format!("{what} is {number}; it must be from {low} to {high}");
            require(range.contains(&number), text)
        };
        require(m.page_size.is_power_of_two() && PAGES.contains(&m.page_size), || {
            let page = m.page_size;
            format!(
                "a page has {page} bytes; it must be 4096, 8192, 16384, 32768 or 65536 (4k to 64k)"
            )
        })?;
        within("the number of possible CPUs", m.possible_cpus, &CPUS)?;
        within("the number of CPUs present", m.present_cpus, &CPUS)?;
        within("the number of CPUs online", m.online_cpus, &CPUS)?;
        require(m.online_cpus <= m.present_cpus && m.present_cpus <= m.possible_cpus, || {
            let (online, present, possible) = (m.online_cpus, m.present_cpus, m.possible_cpus);
            format!(
                "{online} CPUs online of {present} present of {possible} possible: each must hold the one before"
            )
        })?;
        within("the number of nodes", m.nodes, &NODES)?;
        within("min_order", self.min_order.into(), &ORDERS)?;
        within("max_order", self.max_order().into(), &ORDERS)?;
        require(self.min_order <= self.max_order(), || {
            let (min, max) = (self.min_order, self.max_order());
            format!("min_order {min} is above max_order {max}; change one of them")
        })?;
        within("multiplier", self.multiplier, &MULTIPLIERS)?;
        if let Some(objects) = self.min_objects {
            within("min_objects", objects, &OBJECTS)?;
            require(!self.typed.contains(&"multiplier"), || {
                format!(
                    "multiplier counts where min_objects is auto, and it is {objects}; leave \
                     multiplier out, or set min_objects=auto"
                )
            })?;
        }
        let rules = [
            ("cpu_partial", &self.cpu_partial),
            ("min_partial", &self.min_partial),
            ("sheaf_capacity", &self.sheaf_capacity),
        ];
        for (what, rule) in rules {
            match rule {
                SizeRule::Kernel => {}
                SizeRule::One(count) => within(what, *count, &COUNTS)?,
                SizeRule::Table(rows) => {
                    rows.iter().try_for_each(|row| within(what, row.1, &COUNTS))?;
                }
            }
        }
        require(!self.tiny || self.version >= (6, 2), || {
            format!("tiny came with 6.2; take release 6.2 or newer, not {}", self.rules_name())
        })?;
        require(
            self.slab.pressure_ms == 0 || self.slab.choice.reclaim == SlabReclaim::V2_4,
            || {
                "pressure_ms turns the clock of reclaim=2.4; leave it out, or set reclaim=2.4"
                    .into()
            },
        )?;
        self.typed.iter().try_for_each(|key| {
            let needs = self.lacks(key);
            require(needs.is_none(), || {
                let (needs, release) = (needs.unwrap_or(""), self.rules_name());
                format!(
                    "{key} needs {needs}, which release {release} with these settings has not; \
                     leave it out, or take another release"
                )
            })
        })
    }

    /// What a key would need to change anything, if that is not there.
    fn lacks(&self, key: &str) -> Option<&'static str> {
        let cpu_slabs = self.front() != Front::Sheaves && !self.tiny;
        let lists = self.has_cpu_partial_lists();
        let sheaves = self.front() != Front::CpuSlabs && !self.tiny;
        let wants = match &self.cpu_partial {
            SizeRule::Kernel => false,
            SizeRule::One(count) => *count > 0,
            SizeRule::Table(rows) => rows.iter().any(|row| row.1 > 0),
        };
        let without = |is_there: bool, what| (!is_there).then_some(what);
        match key {
            "cpu_partial" if wants => without(lists, "CPU partial lists"),
            // Switched on, and not there.
            "cpu_partial_lists" if self.cpu_partial_lists => without(lists, "CPU partial lists"),
            "accounting" => without(lists, "CPU partial lists"),
            "freezing" => without(cpu_slabs, "CPU slabs"),
            "sheaf_capacity" => without(sheaves, "sheaves"),
            "front" => without(!self.tiny, "a front, and not tiny=1"),
            _ => None,
        }
    }

    /// A key that was set, and that another engine than SLAB does not have.
    #[must_use]
    pub fn typed_of_slab(&self) -> Option<&'static str> {
        self.typed.iter().copied().find(|key| OF_SLAB.contains(key))
    }

    /// True if CPUs have lists of partial slabs.
    #[must_use]
    pub fn has_cpu_partial_lists(&self) -> bool {
        let cpu_slabs = self.front() != Front::Sheaves && !self.tiny;
        cpu_slabs && self.cpu_partial_lists && self.release.cpu_partial.is_some()
    }

    /// The highest order that is tried first.
    #[must_use]
    pub fn max_order(&self) -> u8 {
        // SLUB_TINY: order 1 leaves more pages free than 0, 2 or 3.
        let kernel = if self.tiny { 1 } else { self.release.max_order };
        self.max_order.unwrap_or_else(|| kernel.max(self.min_order))
    }

    /// How the order is chosen.
    #[must_use]
    pub fn formula(&self) -> OrderFormula {
        self.formula.unwrap_or(self.release.formula)
    }

    /// How a CPU's partial list is counted.
    #[must_use]
    pub fn accounting(&self) -> Accounting {
        self.accounting.unwrap_or(self.release.accounting)
    }

    /// When its slabs are frozen.
    #[must_use]
    pub fn freezing(&self) -> Freezing {
        self.freezing.unwrap_or(self.release.freezing)
    }

    /// What a CPU allocates from.
    #[must_use]
    pub fn front(&self) -> Front {
        self.front.unwrap_or(self.release.front)
    }

    /// Objects that a slab should hold, before its largest order limits them
    /// (9b2cd506e5f2).
    #[must_use]
    pub fn wanted_objects(&self) -> u32 {
        let machine = &self.machine;
        let cpus = match self.counted.unwrap_or(self.release.counted) {
            // Early in the boot of some machines, one CPU is present.
            CountedCpus::Present if machine.present_cpus > 1 => machine.present_cpus,
            CountedCpus::Present | CountedCpus::Possible => machine.possible_cpus,
        };
        let doublings = u32::BITS - cpus.leading_zeros() + 1;
        self.min_objects.unwrap_or(self.multiplier * doublings)
    }
}

fn require(holds: bool, text: impl FnOnce() -> String) -> Result<(), SettingError> {
    if holds { Ok(()) } else { Err(SettingError::Impossible(text())) }
}

fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn number(text: &str, range: RangeInclusive<u32>) -> Option<u32> {
    text.parse().ok().filter(|n| range.contains(n))
}

fn switch(text: &str) -> Option<bool> {
    word(text, &[("0", false), ("1", true)])
}

fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Option<T> {
    words.iter().find(|w| w.0 == text).map(|w| w.1)
}

fn key_names() -> String {
    KEYS.iter().map(|k| k.name).collect::<Vec<_>>().join(", ")
}

fn did_you_mean(typed: &str) -> String {
    let near = KEYS.iter().map(|k| (distance(typed, k.name), k.name)).min();
    match near {
        Some((far, name)) if far <= 1 + typed.len() / 3 => format!(" (did you mean `{name}`?)"),
        _ => String::new(),
    }
}

/// Letters to put in, take out or change (Levenshtein 1966).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
