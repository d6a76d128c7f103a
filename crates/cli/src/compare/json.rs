//! The comparison as JSON.
//!
//! `{"load", "machine", "contenders": [...], "findings", "notes"}`; a contender has `name`, `set`,
//! `counters`, and every key of [`MEASURES`] with `{"median", "spread", "ratio", "samples"}`.
//! Invariants: an unknown value is `null`; seconds are fractions, bytes and counts are whole
//! numbers; keys are added, never renamed.

use super::figures::{Figures, LoadComparison, MEASURES, MeasureKey, Unit};
use serde_json::{Map, Value, json};

/// The whole, indented, with a line feed at the end.
pub fn text(
    load: Value,
    machine: Value,
    sets: &[Vec<String>],
    compared: &LoadComparison,
) -> anyhow::Result<String> {
    let contenders: Vec<Value> = compared
        .figures
        .iter()
        .zip(sets)
        .map(|(figures, set)| contender(figures, &compared.figures[0], set))
        .collect();
    let root = json!({
        "load": load,
        "machine": machine,
        "contenders": contenders,
        "findings": compared.findings,
        "notes": compared.notes,
    });
    Ok(serde_json::to_string_pretty(&root)? + "\n")
}

fn contender(figures: &Figures, base: &Figures, set: &[String]) -> Value {
    let mut object = Map::new();
    object.insert("name".into(), json!(figures.name));
    object.insert("set".into(), json!(set));
    for (what, measure) in MeasureKey::ALL.iter().zip(MEASURES) {
        let number = |value: Option<f64>| match measure.unit {
            Unit::Seconds => json!(value),
            Unit::Bytes | Unit::Count => json!(value.map(|value| value.round() as u64)),
        };
        let value = figures.median(*what).map(|median| {
            let samples: Vec<Value> =
                figures.samples(*what).iter().map(|sample| number(*sample)).collect();
            json!({
                "median": number(Some(median)),
                "spread": figures.spread(*what),
                "ratio": figures.to(base, *what),
                "samples": samples,
            })
        });
        object.insert(measure.key.into(), json!(value));
    }
    object.insert("counters".into(), json!(figures.counters));
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_null_and_what_is_known_has_its_unit() {
        let mut figures = Figures::new("one");
        figures.add(MeasureKey::Time, Some(0.25));
        figures.count(MeasureKey::Peak, Some(4096));
        figures.counted(None);
        let compared = LoadComparison { figures: vec![figures], findings: vec![], notes: vec![] };
        let text = text(json!(null), json!(null), &[vec!["a=b".into()]], &compared).unwrap();
        let root: Value = serde_json::from_str(&text).unwrap();
        let one = &root["contenders"][0];
        assert_eq!(
            one["time_s"],
            json!({"median": 0.25, "spread": null, "ratio": 1.0, "samples": [0.25]})
        );
        assert_eq!(one["peak_bytes"]["median"], json!(4096));
        for key in ["waste_bytes", "slow_paths", "list_locks", "counters"] {
            assert!(one.as_object().unwrap().contains_key(key) && one[key].is_null(), "{key}");
        }
    }
}
