//! The rule that makes allocations from caches with the debug flag A fail, like the kernel's
//! `failslab`.
//!
//! One of every `interval` allocations may fail, at random, and at most `times` fail in all.
//! Neighbours: [`crate::debug`] defines the flag; the library counts the allocations.

/// Which allocations of caches that have the flag fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Of 100 allocations that may fail, this many do.
    pub probability: u32,
    /// Every `interval`th may fail.
    pub interval: u32,
    /// So many fail; `u32::MAX`: no limit.
    pub times: u32,
    /// So many allocations succeed first.
    pub after: u32,
}

impl Rule {
    /// None fails.
    pub const NONE: Rule = Rule { probability: 0, interval: 1, times: u32::MAX, after: 0 };
}

/// Reads `probability=P,interval=N,times=N,after=N`, each of which may be left out; `times=-1` is
/// no limit, and so is none. `None` for other text.
///
/// ```
/// use slabyard_abi::failslab::{Rule, parse};
/// let rule = parse(b"probability=50,interval=10,times=3");
/// assert_eq!(rule, Some(Rule { probability: 50, interval: 10, times: 3, after: 0 }));
/// assert_eq!(parse(b"probability=101"), None);
/// ```
#[must_use]
pub fn parse(text: &[u8]) -> Option<Rule> {
    // Who writes a rule wants failures.
    let mut rule = Rule { probability: 100, ..Rule::NONE };
    for part in text.split(|byte| *byte == b',') {
        let equals = part.iter().position(|byte| *byte == b'=')?;
        let (key, value) = (&part[..equals], &part[equals + 1..]);
        let value = if key == b"times" && value == b"-1" { u32::MAX } else { number(value)? };
        match key {
            b"probability" if value <= 100 => rule.probability = value,
            b"interval" if value > 0 => rule.interval = value,
            b"times" => rule.times = value,
            b"after" => rule.after = value,
            _ => return None,
        }
    }
    Some(rule)
}

fn number(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u32, |n, digit| match digit {
        b'0'..=b'9' => n.checked_mul(10)?.checked_add(u32::from(digit - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in
            ["", "times", "times=", "times=x", "times=-2", "interval=0", "chance=1", "after=1,"]
        {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(
            parse(b"times=-1").map(|rule| (rule.times, rule.probability)),
            Some((u32::MAX, 100))
        );
    }
}
