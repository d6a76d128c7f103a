//! A part of a sweep, for one machine of several.

use crate::Error;

/// Every `of`-th point; together the shards `1/of` to `of/of` have each point once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub nth: usize,
    /// As many as there are.
    pub of: usize,
}

impl Shard {
    /// All points.
    pub const WHOLE: Shard = Shard { nth: 1, of: 1 };

    /// Reads `I/N`.
    ///
    /// # Errors
    /// [`Error::Usage`], unless it is one of `1/N` to `N/N`.
    pub fn parse(text: &str) -> Result<Shard, Error> {
        let numbers = text.split_once('/').and_then(|(nth, of)| {
            Some(Shard { nth: nth.trim().parse().ok()?, of: of.trim().parse().ok()? })
        });
        numbers.filter(|shard| (1..=shard.of).contains(&shard.nth)).ok_or_else(|| {
            Error::Usage(format!(
                "shard {text}: shards are numbered from 1, so that three are 1/3, 2/3 and 3/3"
            ))
        })
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.nth, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_counted_from_1() {
        assert_eq!(Shard::parse("2/3").ok(), Some(Shard { nth: 2, of: 3 }));
        for text in ["0/3", "4/3", "1/0", "0/0", "1", "a/b", "-1/3", ""] {
            let error = Shard::parse(text).expect_err(text).to_string();
            assert!(error.contains("numbered from 1"), "{error}");
        }
    }
}
