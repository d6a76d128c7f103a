//! A number that is known within bounds, and its arithmetic.
//!
//! Neighbour: a [`crate::value::Value`] is made from a span. Invariants: low <= high; no operation
//! overflows, whatever numbers a target has.

use crate::value::Value;

/// A number that is at least `low` and at most `high`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl Span {
    pub(crate) fn exact(n: u64) -> Span {
        Span { low: n, high: n }
    }

    pub(crate) fn between(a: u64, b: u64) -> Span {
        Span { low: a.min(b), high: a.max(b) }
    }

    /// Both spans and what is between them.
    pub(crate) fn hull(self, other: Span) -> Span {
        Span { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    pub(crate) fn plus(self, other: Span) -> Span {
        Span { low: self.low.saturating_add(other.low), high: self.high.saturating_add(other.high) }
    }

    pub(crate) fn minus(self, other: Span) -> Span {
        Span { low: self.low.saturating_sub(other.high), high: self.high.saturating_sub(other.low) }
    }

    pub(crate) fn times(self, factor: u64) -> Span {
        Span { low: self.low.saturating_mul(factor), high: self.high.saturating_mul(factor) }
    }

    /// Wider by so much at both ends.
    pub(crate) fn widened(self, by: u64) -> Span {
        Span { low: self.low.saturating_sub(by), high: self.high.saturating_add(by) }
    }

    pub(crate) fn at_most(self, most: u64) -> Span {
        Span { low: self.low.min(most), high: self.high.min(most) }
    }

    pub(crate) fn sum(spans: impl IntoIterator<Item = Span>) -> Span {
        spans.into_iter().fold(Span::default(), Span::plus)
    }
}

impl From<Span> for Value {
    fn from(span: Span) -> Value {
        Value::between(span.low, span.high)
    }
}
