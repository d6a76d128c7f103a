//! A table as JSON: an array of objects, one in each line, whose keys are in the order of the columns.

use super::cells::{Cells, Damage};
use super::columns::{Column, Value};
use super::row::{Row, Wrong};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value as Json;
use std::fmt;

/// The file's bytes.
pub fn write(columns: &[Column], rows: &[Row]) -> Vec<u8> {
    let quoted = |text: &str| Json::from(text).to_string();
    let names: Vec<String> = columns.iter().map(|column| quoted(&column.name)).collect();
    let mut text = String::from("[");
    for (nth, row) in rows.iter().enumerate() {
        text.push_str(if nth == 0 { "\n{" } else { ",\n{" });
        let cell = |(name, value): (&String, &Value)| match value {
            Value::Unknown => format!("{name}:null"),
            Value::Words(words) => format!("{name}:{}", quoted(words)),
            Value::Whole(_) | Value::Decimal(_) => format!("{name}:{}", value.text()),
        };
        let cells: Vec<String> = names.iter().zip(row.cells()).map(cell).collect();
        text.push_str(&cells.join(","));
        text.push('}');
    }
    text.push_str("\n]\n");
    text.into_bytes()
}

/// The file's cells; without rows there are no names.
pub fn read(bytes: &[u8]) -> Result<Cells, Damage> {
    if !bytes.ends_with(b"]\n") {
        return Err(Damage::at("its end", "it is cut off"));
    }
    let objects: Vec<Object> =
        serde_json::from_slice(bytes).map_err(|error| Damage::at("its JSON", error))?;
    let names_of = |object: &Object| object.0.iter().map(|(name, _)| name.clone()).collect();
    let names: Vec<String> = objects.first().map(names_of).unwrap_or_default();
    let mut rows = Vec::new();
    for (nth, object) in objects.iter().enumerate() {
        let is_same = names_of(object) == names;
        let texts: Option<Vec<String>> = object.0.iter().map(|(_, value)| text_of(value)).collect();
        rows.push(texts.filter(|_| is_same).ok_or_else(|| Damage::row(nth, Wrong::Shape))?);
    }
    Ok(Cells { names, rows })
}

/// As [`Value::text`] has it.
fn text_of(value: &Json) -> Option<String> {
    match value {
        Json::Null => Some(String::new()),
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => match number.as_u64() {
            Some(whole) => Some(whole.to_string()),
            None => number.as_f64().map(|n| n.to_string()),
        },
        Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    }
}

/// An object whose keys keep their order.
struct Object(Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object for each row")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Object, M::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Object(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}
