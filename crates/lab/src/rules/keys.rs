//! The keys of `--set`: one table, from which parser, help and errors are made.
//!
//! Neighbour: [`super::settings`] has what they change, and decides which go together.

use super::settings::{MULTIPLIERS, OBJECTS, ORDERS, number};
use super::{
    Accounting, CountedCpus, Freezing, Front, OrderFormula, PageLists, SettingError, Settings,
    SizeRule,
};
use slabyard_kernels::Reclaim as SlabReclaim;

/// One key of `--set`.
pub struct Key {
    /// As typed.
    pub name: &'static str,
    /// Its values, in words, for messages and help.
    pub takes: &'static str,
    /// One line of help.
    pub help: &'static str,
    set: fn(&mut Settings, &str) -> Option<()>,
}

const BY_SIZE: &str =
    "`kernel`, a number for all caches, or pairs SIZE:NUMBER (from that size on; `page` is a size)";
const SWITCH: &str = "0 or 1";
const ORDER: &str = "an order from 0 to 10";

const KEYS: [Key; 19] = [
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
        set: |s, v| put(&mut s.formula, OrderFormula::find(v).map(Some)),
    },
    Key {
        name: "counted_cpus",
        takes: "`possible` (to 5.10) or `present` (from 5.11)",
        help: "the CPUs that count for min_objects",
        set: |s, v| put(&mut s.counted, CountedCpus::find(v).map(Some)),
    },
    Key {
        name: "accounting",
        takes: "`objects` (to 5.15), `slabs` (from 5.16) or `exact` (in no kernel)",
        help: "how the length of a CPU's partial list is counted",
        set: |s, v| put(&mut s.accounting, Accounting::find(v).map(Some)),
    },
    Key {
        name: "freezing",
        takes: "`eager` (to 6.7), `patch-1` to `patch-5` (of the series of 2023) or `delayed` (from 6.8)",
        help: "when a slab on a CPU's partial list is frozen",
        set: |s, v| put(&mut s.freezing, Freezing::find(v).map(Some)),
    },
    Key {
        name: "front",
        takes: "`cpu_slabs` (to 6.17), `sheaves_on_request` (6.18, 6.19) or `sheaves` (from 7.0)",
        help: "what a CPU allocates from",
        set: |s, v| put(&mut s.front, Front::find(v).map(Some)),
    },
    Key {
        name: "page_lists",
        takes: "`slabyard`, `hot-cold` (2.5.45), `merged` (2.6.25), `today` (6.18) or `none`",
        help: "pages of slabs pass through CPUs' lists of this kind, which are counted with the buddy behind them",
        set: |s, v| put(&mut s.page_lists, PageLists::find(v).map(Some)),
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
    Key {
        name: "alien_cache",
        takes: SWITCH,
        help: "frees of other nodes' objects wait for a dozen; 0: each goes to its slab (boot: noaliencache; engine slab)",
        set: |s, v| put(&mut s.slab.has_aliens, switch(v)),
    },
];

/// The keys that are SLAB's alone.
const OF_SLAB: [&str; 4] = ["reclaim", "arrays", "pressure_ms", "alien_cache"];

/// The keys that [`Settings::set`] takes.
#[must_use]
pub fn keys() -> &'static [Key] {
    &KEYS
}

impl Settings {
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
            _ => SettingError::UnknownKey {
                key: typed.into(),
                near: did_you_mean(typed),
                keys: key_names(),
            },
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

    /// A key that was set, and that another engine than SLAB does not have.
    #[must_use]
    pub fn typed_of_slab(&self) -> Option<&'static str> {
        self.typed.iter().copied().find(|key| OF_SLAB.contains(key))
    }
}

fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Machine, RELEASES};

    #[test]
    fn words_may_be_typed_as_a_run_has_them() {
        let mut settings = Settings::new(&RELEASES[5], Machine::new(4096, 2));
        for text in ["front=cpu-slabs", "order_formula=fewer-objects", "page_lists=hot_cold"] {
            settings.set(text).unwrap_or_else(|error| panic!("{error}"));
        }
        assert_eq!(settings.front(), Front::CpuSlabs);
        assert_eq!(settings.formula(), OrderFormula::FewerObjects);
        assert_eq!(settings.page_lists, Some(PageLists::HotCold));
    }
}
