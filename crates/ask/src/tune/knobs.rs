//! The settings that a search varies, and how a kernel is given them.

use crate::axis::Changes;

/// A setting.
pub struct Knob {
    /// As `--set` takes it.
    pub key: &'static str,
    /// Its values in their order; `None` is the kernel's own.
    pub values: &'static [Option<&'static str>],
    /// Those of the coarse grid.
    pub coarse: &'static [Option<&'static str>],
    /// How a kernel is given a value, in place of `VALUE`; `None` if none takes it.
    pub apply: Option<&'static str>,
}

/// Memory kept for speed is in slabs, on lists, in sheaves and barns: a setting for each.
pub static KNOBS: [Knob; 5] = [
    Knob {
        key: "max_order",
        values: &[Some("0"), Some("1"), Some("2"), None, Some("4")],
        coarse: &[Some("0"), Some("1"), Some("2"), None],
        apply: Some("boot parameter: slub_max_order=VALUE"),
    },
    Knob {
        key: "min_partial",
        values: &[Some("0"), Some("2"), None, Some("10"), Some("20"), Some("40")],
        coarse: &[Some("0"), None, Some("20")],
        apply: Some("as root: echo VALUE | tee /sys/kernel/slab/*/min_partial"),
    },
    Knob {
        key: "cpu_partial",
        values: &[
            Some("0"),
            Some("8"),
            Some("16"),
            Some("30"),
            Some("60"),
            None,
            Some("120"),
            Some("250"),
            Some("400"),
        ],
        coarse: &[Some("0"), Some("30"), None, Some("250")],
        apply: Some("as root: echo VALUE | tee /sys/kernel/slab/*/cpu_partial"),
    },
    Knob {
        key: "sheaf_capacity",
        values: &[Some("4"), Some("8"), Some("16"), None, Some("60"), Some("120")],
        coarse: &[Some("8"), None, Some("60")],
        apply: None,
    },
    Knob {
        key: "max_full_sheaves",
        values: &[Some("1"), Some("2"), Some("5"), None, Some("20")],
        coarse: &[Some("2"), None],
        apply: None,
    },
];

/// Each combination of the coarse values; the first has none.
pub(super) fn grid(knobs: &[&'static Knob]) -> Vec<Changes> {
    let mut all: Vec<Changes> = vec![Changes::new()];
    for knob in knobs {
        let with = |changes: &Changes| -> Vec<Changes> {
            knob.coarse.iter().map(|value| put(changes, knob.key, *value)).collect()
        };
        all = all.iter().flat_map(with).collect();
    }
    let base = all.iter().position(Vec::is_empty).unwrap_or(0);
    all.swap(0, base);
    all
}

/// A setting with each combination of values of these knobs in place of its own; what it sets is not
/// set back to the kernel's own, of which no write knows the number.
pub(super) fn combinations(knobs: &[&'static Knob], of: &Changes) -> Vec<Changes> {
    let mut all = vec![of.clone()];
    for knob in knobs {
        let with = |changes: &Changes| -> Vec<Changes> {
            let is_set = of.iter().any(|(key, _)| key == knob.key);
            let values = knob.values.iter().filter(|value| value.is_some() || !is_set);
            values.map(|value| put(changes, knob.key, *value)).collect()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

/// The changes with others in their place.
pub(super) fn with(of: &Changes, others: &Changes) -> Changes {
    others.iter().fold(of.clone(), |all, (key, value)| put(&all, key, Some(value)))
}

/// The points that differ in one setting, by one step.
pub(super) fn neighbours(knobs: &[&'static Knob], of: &Changes) -> Vec<Changes> {
    let mut near = Vec::new();
    for knob in knobs {
        let has = of.iter().find(|(key, _)| key == knob.key).map(|(_, value)| value.as_str());
        let Some(at) = knob.values.iter().position(|value| *value == has) else { continue };
        for next in [at.checked_sub(1), Some(at + 1)].into_iter().flatten() {
            near.extend(knob.values.get(next).map(|value| put(of, knob.key, *value)));
        }
    }
    near
}

/// The changes with another value of a key, in the order of the settings.
fn put(of: &Changes, key: &str, value: Option<&str>) -> Changes {
    let place = |key: &str| KNOBS.iter().position(|knob| knob.key == key);
    let mut changes: Changes = of.iter().filter(|(it, _)| it != key).cloned().collect();
    changes.extend(value.map(|value| (key.to_owned(), value.to_owned())));
    changes.sort_by_key(|(key, _)| place(key));
    changes
}

/// A line for each setting that says how a kernel is given it.
#[must_use]
pub fn apply(changes: &Changes) -> Vec<String> {
    let line = |(key, value): &(String, String)| {
        let knob = KNOBS.iter().find(|knob| knob.key == key)?;
        Some(match knob.apply {
            Some(text) => text.replace("VALUE", value),
            None => format!("{key}={value}: a constant of mm/slub.c, which no parameter changes"),
        })
    };
    changes.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_begins_with_the_default_and_steps_change_one_setting() {
        let knobs: Vec<&'static Knob> = KNOBS.iter().take(2).collect();
        let points = grid(&knobs);
        assert_eq!((points.len(), points[0].len()), (12, 0));
        let one = vec![("max_order".to_owned(), "0".to_owned())];
        let names: Vec<String> =
            neighbours(&knobs, &one).iter().map(|it| crate::axis::name(it)).collect();
        assert_eq!(
            names,
            ["max_order=1", "max_order=0+min_partial=2", "max_order=0+min_partial=10"]
        );
        assert_eq!(apply(&one), ["boot parameter: slub_max_order=0"]);
        for knob in &KNOBS {
            assert!(knob.coarse.iter().all(|value| knob.values.contains(value)), "{}", knob.key);
        }
    }
}
