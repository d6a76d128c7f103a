//! What a source reports for one number: an exact value, bounds, or text; as a sum and, if the
//! source reports them, per memory node and CPU.
//!
//! Invariants: the low end of a range is not above its high end; a range with a single value is
//! exact.

use serde::{Deserialize, Serialize};
use slabyard_abi::engines::EngineName;

/// One value. In JSON a number, `[low, high]`, or a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number that is known exactly.
    Exact(u64),
    /// Known within bounds, both included.
    Range(u64, u64),
    /// Text, such as a name.
    Text(String),
}

impl Value {
    /// A value within bounds, in either order.
    #[must_use]
    pub fn between(a: u64, b: u64) -> Value {
        if a == b { Value::Exact(a) } else { Value::Range(a.min(b), a.max(b)) }
    }

    /// The name of the engine that has this number; of a later version's the number.
    #[must_use]
    pub fn engine(number: u64) -> Value {
        let name = EngineName::of(number).map(|engine| engine.row().name);
        name.map_or(Value::Exact(number), |name| Value::Text(name.into()))
    }

    /// Both ends; `None` for words.
    #[must_use]
    pub fn bounds(&self) -> Option<(u64, u64)> {
        match self {
            Value::Exact(n) => Some((*n, *n)),
            Value::Range(low, high) => Some((*low, *high)),
            Value::Text(_) => None,
        }
    }

    /// The low end of a range; of an exact number, itself.
    #[must_use]
    pub fn low(&self) -> Option<u64> {
        self.bounds().map(|(low, _)| low)
    }

    /// The high end of a range; of an exact number, itself.
    #[must_use]
    pub fn high(&self) -> Option<u64> {
        self.bounds().map(|(_, high)| high)
    }

    /// The number; `None` for a range or text.
    #[must_use]
    pub fn exact(&self) -> Option<u64> {
        match self {
            Value::Exact(n) => Some(*n),
            _ => None,
        }
    }

    /// The sum of two values; `None` for words and beyond 64 bits.
    #[must_use]
    pub fn plus(&self, other: &Value) -> Option<Value> {
        let ((a, b), (c, d)) = (self.bounds()?, other.bounds()?);
        Some(Value::between(a.checked_add(c)?, b.checked_add(d)?))
    }

    /// The value times a number.
    #[must_use]
    pub fn times(&self, factor: u64) -> Option<Value> {
        let (low, high) = self.bounds()?;
        Some(Value::between(low.checked_mul(factor)?, high.checked_mul(factor)?))
    }
}

impl From<u64> for Value {
    fn from(n: u64) -> Value {
        Value::Exact(n)
    }
}

/// A value, and its parts where the source reports them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The sum over all nodes and CPUs.
    pub value: Value,
    /// Node and its part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<(u32, Value)>,
    /// CPU (or private slot) and its part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<(u32, Value)>,
}

impl<V: Into<Value>> From<V> for Reading {
    fn from(value: V) -> Reading {
        Reading { value: value.into(), nodes: Vec::new(), cpus: Vec::new() }
    }
}

/// So many of something, whose name takes an `s`.
#[must_use]
pub fn plural(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_one_value_is_exact() {
        assert_eq!(Value::between(3, 3), Value::Exact(3));
        assert_eq!(Value::between(5, 3), Value::Range(3, 5));
    }

    #[test]
    fn sums_keep_their_bounds() {
        let sum = Value::Range(1, 2).plus(&Value::Exact(10));
        assert_eq!(sum, Some(Value::Range(11, 12)));
        assert_eq!(Value::Exact(u64::MAX).plus(&Value::Exact(1)), None);
        assert_eq!(Value::Text("x".into()).plus(&Value::Exact(1)), None);
        assert_eq!(Value::Range(1, 2).times(3), Some(Value::Range(3, 6)));
    }

    #[test]
    fn json_is_a_number_a_pair_or_words() {
        let texts = ["7", "[1,2]", "\"0-3\""];
        let values = [Value::Exact(7), Value::Range(1, 2), Value::Text("0-3".into())];
        for (text, value) in texts.iter().zip(values) {
            assert_eq!(serde_json::to_string(&value).unwrap(), *text);
            assert_eq!(serde_json::from_str::<Value>(text).unwrap(), value);
        }
    }
}
