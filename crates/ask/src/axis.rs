//! What a question varies: a key and the values that it takes, such as `max_order=0..3`.
//!
//! Neighbours: [`crate::question`] knows the keys; [`product`] makes the points of a sweep. Invariant:
//! an axis has at least one value, and none twice.

use crate::Error;

/// Points that one question may have: each is a replay.
pub const MOST_POINTS: usize = 100_000;

/// Values of one range: nobody reads more.
const MOST_OF_RANGE: u64 = 10_000;

/// A key and what it takes in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// As [`Question::set`](crate::question::Question::set) takes it.
    pub key: String,
    /// In their order.
    pub values: Vec<String>,
}

/// What is changed together: key and value, in the order of the axes.
pub type Changes = Vec<(String, String)>;

impl Axis {
    /// Reads `KEY=VALUES`: values apart by commas, each a word, a number or a range `0..3` that
    /// includes both ends. Values that have commas themselves (`SIZE:NUMBER,...`) are apart by `/`.
    ///
    /// # Errors
    /// [`Error::Usage`] says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Axis, Error> {
        let wrong = |why: &str| Error::Usage(format!("{text}: {why}"));
        let (key, values) = text.split_once('=').ok_or_else(|| {
            wrong("expected KEY=VALUES, such as max_order=0..3 or release=6.12,7.3")
        })?;
        let apart = if values.contains(':') { '/' } else { ',' };
        let mut axis = Axis { key: key.trim().to_owned(), values: Vec::new() };
        for value in values.split(apart).map(str::trim) {
            match value.split_once("..") {
                None if value.is_empty() => return Err(wrong("a value is empty")),
                None => axis.values.push(value.to_owned()),
                Some((first, last)) => {
                    let number = |text: &str| text.trim_start_matches('=').parse::<u64>().ok();
                    let (Some(first), Some(last)) = (number(first), number(last)) else {
                        return Err(wrong("a range has a number at each end, such as 0..3"));
                    };
                    if last < first {
                        return Err(wrong("the range is empty: its end is below its begin"));
                    }
                    if last - first >= MOST_OF_RANGE {
                        return Err(wrong("the range has more than 10000 values; take fewer"));
                    }
                    axis.values.extend((first..=last).map(|value| value.to_string()));
                    if axis.values.len() > MOST_POINTS {
                        return Err(too_many());
                    }
                }
            }
        }
        let mut seen = axis.values.clone();
        seen.sort();
        match seen.windows(2).find(|two| two[0] == two[1]) {
            None => Ok(axis),
            Some(two) => Err(wrong(&format!("{} stands twice", two[0]))),
        }
    }
}

fn too_many() -> Error {
    let text = format!("that would be more than {MOST_POINTS} points, each a replay; vary less");
    Error::Usage(text)
}

/// Every combination of the axes' values, the last axis fastest.
///
/// # Errors
/// [`Error::Usage`] if they are too many, or two axes have one key.
pub fn product(axes: &[Axis]) -> Result<Vec<Changes>, Error> {
    for (nth, axis) in axes.iter().enumerate() {
        if axes[..nth].iter().any(|before| before.key == axis.key) {
            return Err(Error::Usage(format!(
                "{} is varied twice: give all its values once",
                axis.key
            )));
        }
    }
    let points = axes.iter().try_fold(1usize, |all, axis| {
        all.checked_mul(axis.values.len()).filter(|points| *points <= MOST_POINTS)
    });
    if points.is_none() {
        return Err(too_many());
    }
    let mut all: Vec<Changes> = vec![Vec::new()];
    for axis in axes {
        let with = |changes: &Changes| {
            let changes = changes.clone();
            axis.values.iter().map(move |value| {
                let mut changes = changes.clone();
                changes.push((axis.key.clone(), value.clone()));
                changes
            })
        };
        all = all.iter().flat_map(with).collect();
    }
    Ok(all)
}

/// Reads variants as `ask` takes them: each text is an axis, or several joined by `+` that are
/// combined; each value of it is a variant of its own.
///
/// # Errors
/// As [`Axis::parse`] and [`product`].
pub fn variants(texts: &[String]) -> Result<Vec<Changes>, Error> {
    let mut all = Vec::new();
    for text in texts {
        let axes: Result<Vec<Axis>, Error> = text.split('+').map(Axis::parse).collect();
        all.extend(product(&axes?)?);
        if all.len() > MOST_POINTS {
            return Err(Error::Usage(format!("more than {MOST_POINTS} variants; ask for fewer")));
        }
    }
    Ok(all)
}

/// The name of changes: `max_order=1+cpus=16`; `base` without any.
#[must_use]
pub fn name(changes: &[(String, String)]) -> String {
    if changes.is_empty() {
        return "base".into();
    }
    changes.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        Axis::parse(text).unwrap_or_else(|error| panic!("{error}")).values
    }

    #[test]
    fn lists_ranges_and_tables_are_read() {
        assert_eq!(values("max_order=0..3"), ["0", "1", "2", "3"]);
        assert_eq!(values("cpus = 2, 16..17"), ["2", "16", "17"]);
        assert_eq!(values("release=6.12,7.3"), ["6.12", "7.3"]);
        assert_eq!(values("cpu_partial=8192:1,4096:2/0"), ["8192:1,4096:2", "0"]);
        assert_eq!(Axis::parse("a=1").expect("an axis").key, "a");
    }

    #[test]
    fn what_is_no_axis_says_why() {
        for (text, why) in [
            ("max_order", "expected KEY=VALUES"),
            ("max_order=", "empty"),
            ("max_order=0,,1", "empty"),
            ("max_order=3..0", "its end is below its begin"),
            ("max_order=a..b", "a number at each end"),
            ("cpus=0..99999999", "more than 10000"),
            ("cpus=1,2,1", "1 stands twice"),
            (&format!("cpus={}", "0..9999,".repeat(11)), "more than 100000 points"),
        ] {
            let error = Axis::parse(text).expect_err(text).to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn combinations_come_in_order_and_are_limited() {
        let axes = ["a=1,2", "b=x,y"].map(|text| Axis::parse(text).expect(text));
        let names: Vec<String> =
            product(&axes).expect("four").iter().map(|changes| name(changes)).collect();
        assert_eq!(names, ["a=1+b=x", "a=1+b=y", "a=2+b=x", "a=2+b=y"]);
        let many = ["a=0..999", "b=0..999"].map(|text| Axis::parse(text).expect(text));
        assert!(product(&many).expect_err("10^6").to_string().contains("vary less"));
        let twice = ["a=1", "a=2"].map(|text| Axis::parse(text).expect(text));
        assert!(product(&twice).expect_err("twice").to_string().contains("varied twice"));
        assert_eq!(name(&[]), "base");
    }

    #[test]
    fn variants_stand_alone_unless_they_are_joined() {
        let texts = ["max_order=0..1".to_owned(), "max_order=1+cpus=2,4".to_owned()];
        let names: Vec<String> =
            variants(&texts).expect("four").iter().map(|changes| name(changes)).collect();
        assert_eq!(
            names,
            ["max_order=0", "max_order=1", "max_order=1+cpus=2", "max_order=1+cpus=4"]
        );
    }
}
