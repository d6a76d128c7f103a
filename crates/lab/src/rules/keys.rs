//! `--set KEY=VALUE` for modelled kernels: what each row of the table of settings does.
//!
//! `slabyard_kernels::settings` holds the table, from which help and errors are generated;
//! [`super::settings`] holds the values that keys change, and decides which keys can be combined.

use super::settings::SizeRule;
use super::{Accounting, CountedCpus, Freezing, Front, OrderFormula, PageLists};
use super::{SettingError, Settings};
use slabyard_kernels::settings::{Changes, REPLAYED, ReplayKey, ReplayRow, switch};
use slabyard_kernels::words::is_same;
use slabyard_kernels::{OrderRule, Reclaim as SlabReclaim};

/// Words of the libraries' `freezing` whose replay would be that of another word, and why.
const UNCOUNTED: [(&str, &str, &str); 3] = [
    ("patch-1", "eager", "patches 1 and 2 of the series prepare, and change no exchange"),
    ("patch-2", "eager", "patches 1 and 2 of the series prepare, and change no exchange"),
    ("patch-4", "patch-5", "patch 5 moves an exchange, and makes none more or fewer"),
];

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
        let is_key = |row: &&ReplayRow| is_same(row.name.as_bytes(), bare.as_bytes());
        let row = REPLAYED.iter().find(is_key).ok_or_else(unknown)?;
        if let Some((typed, same, why)) = uncounted(row, value) {
            let text =
                format!("freezing={typed} would count as freezing={same} does: {why}; set that");
            return Err(SettingError::Impossible(text));
        }
        self.put(row, value).ok_or_else(|| SettingError::Refused {
            key: row.name,
            value: value.into(),
            takes: row.values.to_string(),
        })?;
        self.typed.push(row.name);
        Ok(())
    }

    /// Puts a value in its place, if the setting takes it.
    fn put(&mut self, row: &ReplayRow, value: &str) -> Option<()> {
        let by_size = SizeRule::parse(value, self.machine.page_size);
        match row.key {
            ReplayKey::MinOrder => self.min_order = row.number(value)? as u8,
            ReplayKey::MaxOrder => self.max_order = Some(row.number(value)? as u8),
            ReplayKey::OrderRule => self.order_rule = OrderRule::find(value)?,
            // The kernel's 0 is `auto` as well.
            ReplayKey::MinObjects if ["auto", "0"].contains(&value) => self.min_objects = None,
            ReplayKey::MinObjects => self.min_objects = Some(row.number(value)?),
            ReplayKey::Multiplier => self.multiplier = row.number(value)?,
            ReplayKey::CpuPartial => self.cpu_partial = by_size?,
            ReplayKey::MinPartial => self.min_partial = by_size?,
            ReplayKey::SheafCapacity => self.sheaf_capacity = by_size?,
            ReplayKey::MaxFullSheaves => self.max_full_sheaves = by_size?,
            ReplayKey::MaxEmptySheaves => self.max_empty_sheaves = by_size?,
            ReplayKey::NowaitRefills => self.nowait_refills = switch(value)?,
            ReplayKey::CpuPartialLists => self.cpu_partial_lists = switch(value)?,
            ReplayKey::Tiny => self.tiny = switch(value)?,
            ReplayKey::OrderFormula => self.formula = Some(OrderFormula::find(value)?),
            ReplayKey::CountedCpus => self.counted = Some(CountedCpus::find(value)?),
            ReplayKey::Accounting => self.accounting = Some(Accounting::find(value)?),
            ReplayKey::Freezing => self.freezing = Some(Freezing::find(value)?),
            ReplayKey::Front => self.front = Some(Front::find(value)?),
            ReplayKey::PageLists => self.page_lists = Some(PageLists::find(value)?),
            ReplayKey::Reclaim => self.slab.choice.reclaim = SlabReclaim::find(value)?,
            ReplayKey::Arrays => self.slab.choice.has_arrays = switch(value)?,
            ReplayKey::PressureMs => self.slab.pressure_ms = row.number(value)?.into(),
            ReplayKey::AlienCache => self.slab.has_aliens = switch(value)?,
        }
        Some(())
    }

    /// The rows of the keys that users set, in their order.
    pub(super) fn typed_rows(&self) -> impl Iterator<Item = &'static ReplayRow> {
        self.typed.iter().filter_map(|key| REPLAYED.iter().find(|row| row.name == *key))
    }

    /// A key that a user set and that changes calls alone, and no cache's geometry.
    #[must_use]
    pub fn typed_of_calls(&self) -> Option<&'static str> {
        self.typed_rows().find(|row| row.changes == Changes::Calls).map(|row| row.name)
    }

    /// From now on, what was set so far is not a user's.
    pub(crate) fn forget_typed(&mut self) {
        self.typed.clear();
    }
}

fn uncounted(row: &ReplayRow, value: &str) -> Option<(&'static str, &'static str, &'static str)> {
    let is_it = |(word, ..): &&(&str, &str, &str)| is_same(word.as_bytes(), value.as_bytes());
    UNCOUNTED.iter().find(is_it).copied().filter(|_| row.key == ReplayKey::Freezing)
}

fn key_names() -> String {
    REPLAYED.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
}

fn did_you_mean(typed: &str) -> String {
    let near = REPLAYED.iter().map(|row| (distance(typed, row.name), row.name)).min();
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
    use slabyard_kernels::settings::ReplayValues;

    #[test]
    fn words_may_be_typed_as_a_run_has_them() {
        let mut settings = Settings::new(&RELEASES[5], Machine::new(4096, 2));
        for text in ["front=cpu-slabs", "order-formula=fewer-objects", "page_lists=hot_cold"] {
            settings.set(text).unwrap_or_else(|error| panic!("{error}"));
        }
        assert_eq!(settings.front(), Front::CpuSlabs);
        assert_eq!(settings.formula(), OrderFormula::FewerObjects);
        assert_eq!(settings.page_lists, Some(PageLists::HotCold));
    }

    /// A setting is one row and its use: each row is taken by its name, in any of its spellings, and
    /// each word that it shows.
    #[test]
    fn each_row_is_taken_by_its_name_and_shows_what_it_takes() {
        let takes = |text: &str| {
            let mut settings = Settings::new(&RELEASES[4], Machine::new(4096, 2));
            settings.set(text).unwrap_or_else(|error| panic!("{error}"));
            settings
        };
        for row in REPLAYED {
            let values: Vec<String> = match &row.values {
                ReplayValues::Number(_, bounds) => {
                    vec![bounds.start().to_string(), bounds.end().to_string()]
                }
                ReplayValues::AutoOr(bounds) => vec!["auto".into(), bounds.end().to_string()],
                ReplayValues::Switch => vec!["0".into(), "1".into()],
                ReplayValues::BySize => vec!["kernel".into(), "7".into(), "0:1,page:2".into()],
                ReplayValues::Words(words) => {
                    words.split('`').skip(1).step_by(2).map(str::to_owned).collect()
                }
            };
            assert!(values.len() > 1, "{}", row.name);
            for value in values {
                let one = takes(&format!("{}={value}", row.name));
                let spelt = takes(&format!("{}={value}", row.name).replace('_', "-"));
                assert_eq!(one, spelt, "{}={value}", row.name);
                assert_eq!(one.typed, [row.name]);
            }
            let error = takes("min_order=0").set(&format!("{}=?", row.name)).unwrap_err();
            assert!(error.to_string().ends_with(&row.values.to_string()), "{error}");
        }
    }
}
