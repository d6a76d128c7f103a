//! How one value is printed.

use super::Units;
use crate::fields::Unit;
use crate::value::Value;

/// Stands in the place of a number that the source does not tell.
pub const UNKNOWN: &str = "-";

/// A value by its unit: `-` if it is unknown, `low..high` for a range.
#[must_use]
pub fn value(value: Option<&Value>, unit: Unit, units: Units) -> String {
    match value {
        None => UNKNOWN.into(),
        Some(Value::Text(text)) => clean(text),
        Some(Value::Exact(n)) => number(*n, unit, units),
        Some(Value::Range(low, high)) => {
            range(&number(*low, unit, units), &number(*high, unit, units))
        }
    }
}

/// A size, as [`value`] shows it.
#[must_use]
pub fn bytes(value_in_bytes: Option<&Value>, units: Units) -> String {
    value(value_in_bytes, Unit::Bytes, units)
}

/// A number by its unit.
#[must_use]
pub fn number(n: u64, unit: Unit, units: Units) -> String {
    match (unit, units) {
        (Unit::Bytes, Units::Human) => human(n),
        (Unit::Hundredths, _) => format!("{}.{:02}", n / 100, n % 100),
        (Unit::Share, Units::Human) => format!("{:.1}%", share(n) * 100.0),
        (Unit::Share, Units::Plain) => format!("{:.4}", share(n)),
        _ => n.to_string(),
    }
}

/// A share in hundredths of a percent, as a share of 1.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "four digits of a share")]
pub fn share(hundredths: u64) -> f64 {
    hundredths as f64 / 10_000.0
}

/// A number of bytes with one decimal and a binary unit.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "one decimal for the screen")]
pub fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        // What would round to 1024.0 belongs to the next unit.
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

/// Words from elsewhere without what could steer a terminal.
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Both ends; a unit that they share is said once.
fn range(low: &str, high: &str) -> String {
    let unit = |text: &str| text.find(|c: char| !c.is_ascii_digit() && c != '.');
    match (unit(low), unit(high)) {
        (Some(a), Some(b)) if low[a..] == high[b..] => format!("{}..{high}", &low[..a]),
        _ => format!("{low}..{high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_readable() {
        assert_eq!(human(0), "0 B");
        assert_eq!(human(1023), "1023 B");
        assert_eq!(human(1024), "1.0 KiB");
        assert_eq!(human(1536), "1.5 KiB");
        assert_eq!(human((1 << 20) - 1), "1.0 MiB");
        assert_eq!(human(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn a_range_says_its_unit_once() {
        let show = |low, high, unit| value(Some(&Value::Range(low, high)), unit, Units::Human);
        assert_eq!(show(19, 114, Unit::Objects), "19..114");
        assert_eq!(show(1 << 20, 3 << 20, Unit::Bytes), "1.0..3.0 MiB");
        assert_eq!(show(512, 3 << 20, Unit::Bytes), "512 B..3.0 MiB");
        assert_eq!(show(1250, 9000, Unit::Share), "12.5..90.0%");
        let plain = value(Some(&Value::Range(1250, 9000)), Unit::Share, Units::Plain);
        assert_eq!(plain, "0.1250..0.9000");
    }

    #[test]
    fn unknown_is_a_dash_and_words_cannot_steer_a_terminal() {
        assert_eq!(value(None, Unit::Bytes, Units::Human), "-");
        let words = Value::Text("a\x1b[31mb".into());
        assert_eq!(value(Some(&words), Unit::Text, Units::Plain), "a\u{fffd}[31mb");
    }
}
