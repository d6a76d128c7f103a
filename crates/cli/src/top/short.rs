//! Numbers that fit a narrow column: three digits and a unit.
//!
//! Neighbours: the screen's columns and lines use these numbers. Invariants: `-` means unknown; a
//! range is `low..high`, or `~` and its middle where that does not fit or both ends print alike; a
//! range never looks like one exact number.

use slabyard_observe::Value;
use slabyard_observe::fields::Unit;

/// What is not known.
pub const UNKNOWN: &str = "-";

/// A change since the last look, for each second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// In the number's own unit.
    pub a_second: f64,
    /// True if a look was a range: then the middles were compared.
    pub about: bool,
}

/// A value by its unit.
pub fn value(value: Option<&Value>, unit: Unit) -> String {
    match value {
        None => UNKNOWN.into(),
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Exact(n)) => exact(*n, unit),
        Some(Value::Range(low, high)) => range(*low, *high, unit),
    }
}

/// The same in so much room: the middle of a range that does not fit, and `~`.
pub fn value_within(value: Option<&Value>, unit: Unit, room: usize) -> String {
    let text = self::value(value, unit);
    match value {
        Some(Value::Range(low, high)) if text.len() > room => {
            format!("~{}", exact(low.midpoint(*high), unit))
        }
        _ => text,
    }
}

/// Bytes, by the binary units' first letters.
pub fn bytes(value: Option<&Value>) -> String {
    self::value(value, Unit::Bytes)
}

/// How much a second: `bytes` or counts.
pub fn a_second(size: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => scaled(size, 1024.0, BYTES),
        // Below that a rounded number would hide that something moves.
        _ if size > 0.0 && size < 9.95 => format!("{:.1}", size.max(0.1)),
        _ => scaled(size, 1000.0, COUNTS),
    }
}

/// A change with its sign; `bytes` or counts.
pub fn rate(rate: Option<Rate>, unit: Unit) -> String {
    let Some(Rate { a_second, about }) = rate else { return UNKNOWN.into() };
    let text = self::a_second(a_second.abs(), unit);
    let sign = match a_second {
        x if x > 0.0 => "+",
        x if x < 0.0 => "-",
        _ => "",
    };
    format!("{}{sign}{text}", if about { "~" } else { "" })
}

const COUNTS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
const BYTES: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];

/// Counts up to here are written in full: seven figures.
const IN_FULL: u64 = 9_999_999;
/// Ends of ranges up to here.
const END_IN_FULL: u64 = 9_999;

fn exact(n: u64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => scaled(n as f64, 1024.0, BYTES),
        Unit::Hundredths => format!("{}.{:02}", n / 100, n % 100),
        Unit::Share if n.is_multiple_of(10_000) => format!("{}%", n / 100),
        Unit::Share => format!("{}.{}%", n / 100, n % 100 / 10),
        _ if n <= IN_FULL => n.to_string(),
        _ => scaled(n as f64, 1000.0, COUNTS),
    }
}

fn range(low: u64, high: u64, unit: Unit) -> String {
    let end = |n: u64| match unit {
        Unit::Bytes => scaled(n as f64, 1024.0, BYTES),
        _ if n <= END_IN_FULL => n.to_string(),
        _ => scaled(n as f64, 1000.0, COUNTS),
    };
    let (low, high) = match unit {
        // Outwards, so that the truth stays inside.
        Unit::Share => ((low / 100).to_string(), format!("{}%", high.div_ceil(100))),
        _ => (end(low), end(high)),
    };
    // Closer together than the figures tell.
    if low == high { format!("~{low}") } else { format!("{low}..{high}") }
}

/// Three figures at least, and a unit that is a power of `step`.
fn scaled(n: f64, step: f64, units: [&str; 7]) -> String {
    let mut size = n;
    let mut rest = units.iter();
    let mut unit = rest.next().unwrap_or(&"");
    // What rounds to the step itself is of the next unit.
    while size >= step - 0.5 {
        let Some(next) = rest.next() else { break };
        size /= step;
        unit = next;
    }
    let decimals = match size {
        _ if unit.is_empty() => 0,
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{size:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_full_as_long_as_they_fit() {
        let count = |n| exact(n, Unit::Objects);
        assert_eq!(count(0), "0");
        assert_eq!(count(9_999_999), "9999999");
        assert_eq!(count(12_345_678), "12.3M");
        assert_eq!(count(u64::MAX), "18.4E");
    }

    #[test]
    fn bytes_have_three_figures() {
        let bytes = |n| exact(n, Unit::Bytes);
        for (n, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.00K"),
            (4096, "4.00K"),
            (12_700, "12.4K"),
            (1023 << 10, "1023K"),
            ((1 << 20) - 1, "1.00M"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(bytes(n), text, "{n}");
        }
    }

    #[test]
    fn shares_are_rounded_so_that_the_truth_stays_inside() {
        assert_eq!(exact(9834, Unit::Share), "98.3%");
        assert_eq!(exact(10_000, Unit::Share), "100%");
        assert_eq!(exact(0, Unit::Share), "0%");
        assert_eq!(exact(9_999, Unit::Share), "99.9%");
        assert_eq!(range(8_699, 9_901, Unit::Share), "86..100%");
    }

    #[test]
    fn ranges_never_look_exact() {
        let count = |a, b| value(Some(&Value::between(a, b)), Unit::Objects);
        assert_eq!(count(0, 123), "0..123");
        assert_eq!(count(181_234, 182_930), "181k..183k");
        assert_eq!(count(1_812_341, 1_812_342), "~1.81M");
        assert_eq!(count(7, 7), "7");
        assert_eq!(value(None, Unit::Objects), "-");
        let within = |room| value_within(Some(&Value::Range(598, 606)), Unit::Slabs, room);
        assert_eq!((within(8), within(7)), ("598..606".into(), "~602".into()));
        assert_eq!(value(Some(&Value::Text("0-3".into())), Unit::Text), "0-3");
    }

    #[test]
    fn rates_have_signs_and_small_ones_do_not_vanish() {
        let exact = |a_second| Some(Rate { a_second, about: false });
        assert_eq!(rate(None, Unit::Objects), "-");
        assert_eq!(rate(exact(0.0), Unit::Objects), "0");
        assert_eq!(rate(exact(0.01), Unit::Objects), "+0.1");
        assert_eq!(rate(exact(-12_345.0), Unit::Objects), "-12.3k");
        assert_eq!(rate(exact(4096.0), Unit::Bytes), "+4.00K");
        assert_eq!(rate(Some(Rate { a_second: 9.0, about: true }), Unit::Objects), "~+9.0");
    }
}
