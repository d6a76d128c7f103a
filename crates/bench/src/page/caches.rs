//! The table of the suite `caches`: nanoseconds an object, by load and contender.

use anyhow::Result;
use serde::Deserialize;

use crate::screen;
use crate::stats::median;

#[derive(Deserialize)]
struct Report {
    rounds: u32,
    loads: Vec<Load>,
}

#[derive(Deserialize)]
struct Load {
    name: String,
    took: Vec<Took>,
}

#[derive(Deserialize)]
struct Took {
    name: String,
    ns: Vec<f64>,
}

/// Nanoseconds an object: a row for each contender, a column for each load.
pub fn tables(report: &str) -> Result<String> {
    let Report { rounds, loads } = serde_json::from_str(report)?;
    let mut contenders: Vec<&str> = Vec::new();
    for took in loads.iter().flat_map(|load| &load.took) {
        if !contenders.contains(&took.name.as_str()) {
            contenders.push(&took.name);
        }
    }
    let rows = contenders.iter().map(|name| {
        let cell = |load: &Load| {
            let took = load.took.iter().find(|took| took.name == *name);
            took.map_or("-".to_owned(), |took| format!("{:.2}", median(&took.ns)))
        };
        std::iter::once((*name).to_owned()).chain(loads.iter().map(cell)).collect()
    });
    let rows = rows.collect();
    let heading =
        std::iter::once("ns an object").chain(loads.iter().map(|load| load.name.as_str()));
    Ok(format!(
        "Typed caches and the C library of object caches beside allocators and object pools, linked \
         into one process: the time to allocate and free a cache line, medians of {rounds} \
         rounds.\n\n{}\n",
        screen::table(&heading.collect::<Vec<_>>(), rows)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_have_a_row_and_loads_a_column() {
        let report = r#"{"rounds": 3, "loads": [
            {"name": "pair", "took": [{"name": "typed", "ns": [2.0, 1.0, 3.0]}, {"name": "slab", "ns": [4.0]}]},
            {"name": "held", "took": [{"name": "typed", "ns": [5.0]}]}]}"#;
        let text = tables(report).unwrap();
        assert!(text.contains("| typed        | 2.00 | 5.00 |"), "{text}");
        assert!(text.contains("| slab         | 4.00 |    - |"), "{text}");
    }
}
