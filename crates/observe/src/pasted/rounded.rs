//! Numbers as tools print them for people, such as `0.19K` or `3.1 GiB`: what is known of such a
//! number are its bounds.

use crate::value::Value;

/// A number with a unit, in one word (`0.19K`) or in two (`3.1`, `GiB`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rounded {
    number: f64,
    /// How far the true number may be from it.
    within: f64,
}

/// Factors of units: powers of 1024, as these tools have them.
const UNITS: [(&str, u32); 5] = [("K", 10), ("M", 20), ("G", 30), ("T", 40), ("P", 50)];

impl Rounded {
    /// A word of a number and a unit, which may be absent.
    pub(super) fn parse(word: &str) -> Option<Rounded> {
        let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let (digits, unit) = word.split_at_checked(end)?;
        Rounded::with_unit(digits, unit)
    }

    /// A number, and its unit or nothing.
    pub(super) fn with_unit(digits: &str, unit: &str) -> Option<Rounded> {
        let factor = factor(unit)?;
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let number: f64 = digits.parse().ok()?;
        let decimals = digits.split_once('.').map_or(0, |(_, behind)| behind.len());
        let step = 10f64.powi(-i32::try_from(decimals).ok()?);
        let is_whole = decimals == 0;
        Some(Rounded {
            number: number * factor,
            within: if is_whole { 0.0 } else { step / 2.0 * factor },
        })
    }

    /// The least and the most that it may be.
    pub(super) fn bounds(self) -> (u64, u64) {
        // A float beyond the range is the range's end.
        let low = (self.number - self.within).ceil().max(0.0) as u64;
        ((low), ((self.number + self.within).floor() as u64).max(low))
    }

    pub(super) fn value(self) -> Value {
        let (low, high) = self.bounds();
        Value::between(low, high)
    }
}

/// True for a word that is a unit alone.
pub(super) fn is_unit(word: &str) -> bool {
    !word.is_empty() && factor(word).is_some()
}

fn factor(unit: &str) -> Option<f64> {
    let bare = unit.strip_suffix('B').unwrap_or(unit);
    let bare = bare.strip_suffix('i').unwrap_or(bare);
    if bare.is_empty() {
        return Some(1.0);
    }
    let (_, shift) = UNITS.iter().find(|(name, _)| *name == bare)?;
    Some((1u64 << shift) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rounded_number_is_a_range_and_a_whole_one_exact() {
        let of = |word: &str| Rounded::parse(word).map(Rounded::bounds);
        assert_eq!(of("0.19K"), Some((190, 199)));
        assert_eq!(of("695936K"), Some((695_936 << 10, 695_936 << 10)));
        assert_eq!(of("17"), Some((17, 17)));
        assert_eq!(of("1.5MiB"), Some((1_520_436, 1_625_292)));
        for wrong in ["", "K", ".5K", "1.2.3K", "1X", "-3", "nan", "inf"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(of(&"9".repeat(40)), Some((u64::MAX, u64::MAX)));
    }
}
