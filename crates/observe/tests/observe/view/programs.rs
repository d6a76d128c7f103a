//! The list as JSON and CSV.

use super::scene::{is_as, kernel, known, process, text};
use serde_json::{Value as Json, json};
use slabyard_observe::fields::{FIELDS, TOTALS};
use slabyard_observe::view::list::{Columns, ListContext, Options};
use slabyard_observe::view::pick::CacheFilter;
use slabyard_observe::view::{csv as csv_view, json as json_view};
use slabyard_observe::{Cache, Snapshot, Value};

fn json_of(snapshot: &Snapshot) -> Json {
    let caches: Vec<&Cache> = snapshot.caches.iter().collect();
    let text = text(|out| json_view::write(out, snapshot, &caches));
    assert!(text.ends_with('\n'));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn json_of_a_kernel() {
    let snapshot = kernel();
    let caches = CacheFilter::by_bytes().caches(&snapshot).caches;
    is_as("list-kernel.json", &known(&text(|out| json_view::write(out, &snapshot, &caches))));
}

#[test]
fn json_has_every_name_of_the_tables_and_null_for_unknown() {
    let value = json_of(&kernel());
    assert_eq!(value["source"], json!({ "kind": "kernel", "release": "6.12.9" }));
    assert_eq!(value["taken_at"], "2025-10-09T08:53:20.123Z");
    assert_eq!(value["machine"]["page_bytes"], 4096);
    assert_eq!(value["missing"][0]["what"], "sheaf_capacity");
    let caches = value["caches"].as_array().unwrap();
    assert_eq!(caches.len(), 5);
    for cache in caches {
        assert!(FIELDS.iter().all(|f| cache.get(f.name).is_some()), "{cache}");
    }
    assert_eq!(caches[1]["aliases"], json!(["eventpoll_epi", "fsnotify_mark"]));
    assert_eq!((&caches[1]["id"], &caches[0]["id"]), (&json!(":0000064"), &Json::Null));
    assert_eq!(caches[0]["live"], json!([928, 1201]));
    assert_eq!(caches[0]["used"], json!([0.7131, 0.9228]));
    assert_eq!(caches[2]["used"], json!(0.8797));
    assert_eq!(caches[4]["slabs"], Json::Null);
    let totals = value["totals"].as_object().unwrap();
    assert_eq!(totals.len(), TOTALS.len());
    assert_eq!((&totals["slab"], &totals["committed"]), (&json!(67_636 << 10), &Json::Null));
}

#[test]
fn json_keeps_what_this_version_does_not_know_and_large_numbers() {
    let mut snapshot = process();
    snapshot.caches[0].set("novelty", Value::Text("x".into()));
    snapshot.caches[0].set("name", 7);
    snapshot.caches[0].set("bytes", u64::MAX);
    let value = json_of(&snapshot);
    assert_eq!(value["caches"][0]["novelty"], "x");
    assert_eq!(value["caches"][0]["name"], "malloc-64", "names come once");
    assert_eq!(value["caches"][0]["bytes"], u64::MAX);
}

#[test]
fn csv_reads_back() {
    let snapshot = {
        let mut snapshot = kernel();
        snapshot.caches[0].name = "a, \"b\"".into();
        snapshot
    };
    let options = Options { columns: Columns::All, ..Options::default() };
    let text = text(|out| csv_view::write(out, &snapshot, &options));
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heading = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), snapshot.caches.len());
    let cell = |row: usize, name: &str| {
        let column = heading.iter().position(|h| h == name).unwrap_or_else(|| panic!("{name}"));
        rows[row][column].to_owned()
    };
    assert_eq!(cell(0, "name"), "a, \"b\"");
    assert_eq!(cell(0, "live"), "928..1201");
    assert_eq!(cell(2, "bytes"), (40 * 8 * 4096).to_string());
    assert_eq!(cell(2, "used"), "0.8797");
    assert_eq!(cell(4, "slabs"), "");
    let columns = options.columns.fields(&snapshot, &snapshot.caches.iter().collect::<Vec<_>>());
    assert_eq!(heading.len(), columns.len() + 1);
}

#[test]
fn csv_of_the_plain_list_and_without_heading() {
    let mut options = Options { pick: CacheFilter::by_bytes(), ..Options::default() };
    let with = text(|out| csv_view::write(out, &process(), &options));
    is_as("list-process.csv", &with);
    options.around = ListContext::Hidden;
    let without = text(|out| csv_view::write(out, &process(), &options));
    assert_eq!(with.split_once('\n').unwrap().1, without);
}
