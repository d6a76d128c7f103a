//! The settings that users may change: the kernel's boot parameters, sysfs files and build options,
//! and rules that no kernel has.
//!
//! [`mod@super::keys`] applies each key that users type. Invariant: the order in which different
//! keys are set does not matter; [`Settings::validate`] rejects keys that cannot be combined, or
//! that would change nothing.

use super::{
    Accounting, CountedCpus, Freezing, Front, Machine, OrderFormula, PageLists, Release,
    VersionError, find_release, version_of,
};
use slabyard::engine::array_cache::{Choice, Reclaim as SlabReclaim};
use slabyard_kernels::KernelSheaves;
use slabyard_kernels::OrderRule;
use slabyard_kernels::engines::EngineName;
use slabyard_kernels::orders::{Orders, wanted_objects};
use slabyard_kernels::settings::{MULTIPLIERS, OBJECTS, ORDERS};
use std::ops::RangeInclusive;
use thiserror::Error;

const PAGES: RangeInclusive<u32> = 4096..=65536;
const CPUS: RangeInclusive<u32> = 1..=8192;
const NODES: RangeInclusive<u32> = 1..=1024;

/// The release in which SLAB was no more.
pub const SLAB_REMOVED: (u32, u32) = (6, 8);

/// Objects or slabs in a rule by size.
const COUNTS: RangeInclusive<u32> = 0..=65535;

/// A number for each cache by its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeRule {
    /// By its own rule for the release.
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

    pub(super) fn parse(text: &str, page_size: u32) -> Option<SizeRule> {
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

/// What SLAB does, where it is the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// What becomes of free slabs.
    pub choice: Choice,
    /// Memory is wanted so often, for the policy that has a clock; 0: never. A trace does not
    /// tell.
    pub pressure_ms: u64,
    /// Frees of other nodes' objects wait in alien arrays.
    pub has_aliens: bool,
}

impl Default for Slab {
    fn default() -> Self {
        Slab { choice: Choice::default(), pressure_ms: 0, has_aliens: true }
    }
}

/// A release, a machine, and what was changed by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What was not changed.
    pub release: &'static Release,
    /// The requested version: the release's own, or a later one.
    pub version: (u32, u32),
    /// Pages, CPUs and nodes.
    pub machine: Machine,
    /// `slab_min_order`.
    pub min_order: u8,
    /// `slab_max_order`; `None` is the release's, or SLUB_TINY's.
    pub max_order: Option<u8>,
    /// Where the highest order comes from; if it is not the default, not from `max_order`.
    pub order_rule: OrderRule,
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
    /// Most full sheaves in a barn.
    pub max_full_sheaves: SizeRule,
    /// Most empty sheaves in a barn.
    pub max_empty_sheaves: SizeRule,
    /// Allocations that may not wait for memory refill sheaves.
    pub nowait_refills: bool,
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
    /// Keys that users set: neither the version itself nor the boot did.
    pub(super) typed: Vec<&'static str>,
}

/// Why a setting is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// No equals sign.
    #[error("`{0}`: expected KEY=VALUE")]
    NoValue(String),
    /// No such key.
    #[error("unknown key `{key}`{near}; keys: {keys}")]
    UnknownKey {
        /// What was typed.
        key: String,
        /// What may have been meant, in words.
        near: String,
        /// The names to choose from.
        keys: String,
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
        /// Its name in the table of keys.
        key: &'static str,
        /// What was typed.
        value: String,
        /// Values that it has.
        takes: String,
    },
    /// No such machine or kernel.
    #[error("{0}")]
    Impossible(String),
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
            order_rule: OrderRule::Default,
            min_objects: None,
            multiplier: 4,
            cpu_partial: SizeRule::Kernel,
            min_partial: SizeRule::Kernel,
            sheaf_capacity: SizeRule::Kernel,
            max_full_sheaves: SizeRule::Kernel,
            max_empty_sheaves: SizeRule::Kernel,
            nowait_refills: true,
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

    /// The kernel whose rules apply, as shown to people: "6.1", or "6.4 (by the preset 6.1)".
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
        let (release, note) = find_release(version)?;
        let mut settings = Settings::new(release, machine);
        for early in version_of(version).into_iter().flat_map(Release::earlies) {
            let set = settings.set(early.setting);
            debug_assert_eq!(set, Ok(()));
        }
        settings.version = version_of(version).unwrap_or(release.version);
        settings.typed.clear();
        Ok((settings, note))
    }

    /// Is there such a machine, and such a kernel with this allocator on it? A key that it does not
    /// have is refused.
    ///
    /// # Errors
    /// [`SettingError::Impossible`] with what to change.
    pub fn validate_on(&self, engine: EngineName) -> Result<(), SettingError> {
        let engine =
            if engine == EngineName::Slub && self.tiny { EngineName::Tiny } else { engine };
        let name = engine.row().name;
        require(engine != EngineName::Tiny || self.tiny, || {
            "tiny=0 is not for --engine tiny; leave it out, or take --engine slub".into()
        })?;
        if let Some(row) = self.typed_rows().find(|row| !row.engines.contains(&engine)) {
            let (key, have) = (row.name, row.engines.iter().map(|engine| engine.row().name));
            let have: Vec<&str> = have.collect();
            return Err(SettingError::Impossible(format!(
                "{key} would change nothing with the engine {name}, which has not got it; leave it \
                 out, or take --engine {}",
                have.join(" or ")
            )));
        }
        require(engine != EngineName::Slab || self.version < SLAB_REMOVED, || {
            format!(
                "SLAB was removed in 6.8; take a release to 6.7, not {}, or leave out --engine slab",
                self.rules_name()
            )
        })?;
        require(engine != EngineName::Slab || self.machine.memoryless.is_empty(), || {
            "nodes without memory are modelled for SLUB alone; leave out --engine slab".into()
        })?;
        self.validate()
    }

    /// Is there such a machine, and such a kernel on it?
    ///
    /// # Errors
    /// [`SettingError::Impossible`] with what to change.
    pub fn validate(&self) -> Result<(), SettingError> {
        self.validate_machine()?;
        self.validate_orders()?;
        self.validate_counts()?;
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
        require(!self.typed.contains(&"alien_cache") || self.machine.nodes > 1, || {
            "alien_cache is of machines with several nodes; leave it out, or give more with --nodes"
                .into()
        })?;
        self.typed.iter().try_for_each(|key| match self.lacks(key) {
            None => Ok(()),
            Some(needs) => Err(SettingError::Impossible(format!(
                "{key} needs {needs}, which release {} with these settings has not; leave it out, \
                 or take another release",
                self.rules_name()
            ))),
        })
    }

    fn validate_machine(&self) -> Result<(), SettingError> {
        let m = &self.machine;
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
        require((m.nodes..64).all(|node| !m.memoryless.has(node)), || {
            format!("nodes {} have no memory, but there are {} nodes alone", m.memoryless, m.nodes)
        })?;
        require(m.memoryless.memory_of(m.nodes).is_some(), || {
            format!("no node has memory: of {} nodes at least one must", m.nodes)
        })
    }

    fn validate_orders(&self) -> Result<(), SettingError> {
        within("min_order", self.min_order.into(), &ORDERS)?;
        within("max_order", self.max_order().into(), &ORDERS)?;
        require(self.min_order <= self.max_order(), || {
            let (min, max) = (self.min_order, self.max_order());
            format!("min_order {min} is above max_order {max}; change one of them")
        })?;
        require(self.order_rule == OrderRule::Default || !self.is_typed("max_order"), || {
            "max_order counts where order_rule is default; leave max_order out, or order_rule=auto"
                .into()
        })?;
        within("multiplier", self.multiplier, &MULTIPLIERS)?;
        if let Some(objects) = self.min_objects {
            within("min_objects", objects, &OBJECTS)?;
            for key in ["multiplier", "counted_cpus"] {
                require(!self.typed.contains(&key), || {
                    format!(
                        "{key} counts where min_objects is auto, and it is {objects}; leave {key} \
                         out, or set min_objects=auto"
                    )
                })?;
            }
        }
        Ok(())
    }

    fn validate_counts(&self) -> Result<(), SettingError> {
        let rules = [
            ("cpu_partial", &self.cpu_partial),
            ("min_partial", &self.min_partial),
            ("sheaf_capacity", &self.sheaf_capacity),
            ("max_full_sheaves", &self.max_full_sheaves),
            ("max_empty_sheaves", &self.max_empty_sheaves),
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
        Ok(())
    }

    /// What a key would need to change anything, if that is not there.
    fn lacks(&self, key: &str) -> Option<&'static str> {
        let cpu_slabs = self.front() != Front::Sheaves && !self.tiny;
        let lists = self.has_cpu_partial_lists();
        let sheaves = self.front() != Front::CpuSlabs && !self.tiny;
        let may_have_lists = cpu_slabs && self.release.cpu_partial.is_some();
        let without = |is_there: bool, what| (!is_there).then_some(what);
        match key {
            "cpu_partial" | "accounting" => without(lists, "CPU partial lists"),
            "cpu_partial_lists" => without(may_have_lists, "CPU partial lists"),
            "freezing" => without(cpu_slabs, "CPU slabs"),
            "sheaf_capacity" | "max_full_sheaves" | "max_empty_sheaves" => {
                without(sheaves, "sheaves")
            }
            "nowait_refills" => {
                without(self.front() == Front::Sheaves && !self.tiny, "sheaves in all caches")
            }
            "front" => without(!self.tiny, "a front, and not tiny=1"),
            _ => None,
        }
    }

    /// True of a key that a user set.
    #[must_use]
    pub fn is_typed(&self, key: &str) -> bool {
        self.typed.contains(&key)
    }

    /// `max_order`, where a user set it.
    #[must_use]
    pub fn typed_max_order(&self) -> Option<u8> {
        self.max_order.filter(|_| self.is_typed("max_order"))
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
        match self.order_rule {
            // The kernel was perhaps booted with another highest order.
            OrderRule::Auto => {
                let order = OrderRule::Auto.max_order(kernel, self.machine.page_size);
                order.max(self.min_order)
            }
            OrderRule::Default => self.max_order.unwrap_or_else(|| kernel.max(self.min_order)),
        }
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

    /// Barns and refills of a cache with objects of this size.
    #[must_use]
    pub fn sheaves(&self, size: u32) -> KernelSheaves {
        let kernel = self.release.sheaves;
        KernelSheaves {
            max_full: self.max_full_sheaves.of(size).unwrap_or(kernel.max_full),
            max_empty: self.max_empty_sheaves.of(size).unwrap_or(kernel.max_empty),
            nowait_refills: self.nowait_refills && kernel.nowait_refills,
            ..kernel
        }
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
        self.min_objects.unwrap_or_else(|| wanted_objects(cpus, self.multiplier))
    }

    /// What decides a cache's order beside its size.
    #[must_use]
    pub fn orders(&self) -> Orders {
        Orders {
            page_bytes: self.machine.page_size,
            min: self.min_order,
            max: self.max_order(),
            limit: self.release.order_limit,
            wanted: self.wanted_objects(),
        }
    }
}

fn number(text: &str, range: RangeInclusive<u32>) -> Option<u32> {
    text.parse().ok().filter(|n| range.contains(n))
}

fn within(what: &str, number: u32, range: &RangeInclusive<u32>) -> Result<(), SettingError> {
    let (low, high) = (range.start(), range.end());
    require(range.contains(&number), || {
        format!("{what} is {number}; it must be from {low} to {high}")
    })
}

fn require(holds: bool, text: impl FnOnce() -> String) -> Result<(), SettingError> {
    if holds { Ok(()) } else { Err(SettingError::Impossible(text())) }
}
