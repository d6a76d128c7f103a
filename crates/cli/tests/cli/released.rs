//! Files that released versions wrote are read by this one, and mean what they meant: `released` has a
//! folder for each version, in which `ci/keep` left files and what the version itself read in them.
//! Columns and keys are added, never renamed, so what was there must be there with its value.

use crate::stage::{SLABYARD, Stage, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Of this run of the command, or of where the file lies.
const PASSING: [&str; 2] = ["took_ns", "path"];

fn folders() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/released");
    let mut all: Vec<_> = fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

fn slabyard(args: &[&str], file: &Path) -> Output {
    let mut command = Command::new(SLABYARD);
    command.args(args).arg(file).env("LC_ALL", "C").output().unwrap()
}

/// What the kept table has and the table of today has not.
fn lost_of_table(kept: &str, now: &str) -> Vec<String> {
    let rows = |table: &str| -> Vec<Vec<(String, String)>> {
        let mut reader = csv::Reader::from_reader(table.as_bytes());
        let names = reader.headers().unwrap().clone();
        let row = |record: csv::StringRecord| {
            let owned = |(name, cell): (&str, &str)| (name.to_owned(), cell.to_owned());
            names.iter().zip(record.iter()).map(owned).collect()
        };
        reader.records().map(|record| row(record.unwrap())).collect()
    };
    let now = rows(now);
    let mut lost = Vec::new();
    for kept in rows(kept) {
        let name = &kept[0];
        let Some(row) = now.iter().find(|row| row.contains(name)) else {
            lost.push(format!("no row {}", name.1));
            continue;
        };
        let missing = kept.iter().filter(|cell| !row.contains(cell));
        lost.extend(missing.map(|(column, cell)| format!("{}: {column} is not {cell}", name.1)));
    }
    lost
}

/// What the kept JSON has and that of today has not.
fn lost_of_json(at: &str, kept: &serde_json::Value, now: &serde_json::Value) -> Vec<String> {
    use serde_json::Value::{Array, Object};
    match (kept, now) {
        (Object(kept), Object(now)) => {
            let lasting = kept.iter().filter(|(key, _)| !PASSING.contains(&key.as_str()));
            let nothing = serde_json::Value::Null;
            let lost = |(key, kept): (&String, &_)| {
                lost_of_json(&format!("{at}/{key}"), kept, now.get(key).unwrap_or(&nothing))
            };
            lasting.flat_map(lost).collect()
        }
        (Array(kept), Array(now)) if kept.len() == now.len() => {
            let both = kept.iter().zip(now).enumerate();
            both.flat_map(|(nth, (kept, now))| lost_of_json(&format!("{at}/{nth}"), kept, now))
                .collect()
        }
        _ if kept == now => Vec::new(),
        _ => vec![format!("{at}: {kept} is {now}")],
    }
}

#[test]
fn files_of_released_versions_are_read_as_they_were() {
    let scratch = tempfile::tempdir().unwrap();
    for folder in folders() {
        let core = scratch.path().join("core");
        let packed = fs::File::open(folder.join("coredump.zst")).unwrap();
        fs::write(&core, zstd::decode_all(packed).unwrap()).unwrap();
        let tables = [
            (core, "coredump.csv"),
            (folder.join("snapshot.json.zst"), "snapshot.csv"),
            (folder.join("timeline"), "timeline.csv"),
        ];
        for (file, table) in tables {
            let now = slabyard(&["list", "--csv", "--all"], &file);
            assert!(now.status.success(), "{}: {}", file.display(), text(&now.stderr));
            let kept = fs::read_to_string(folder.join(table)).unwrap();
            assert!(kept.lines().count() > 10, "{table}");
            let lost = lost_of_table(&kept, text(&now.stdout));
            assert!(lost.is_empty(), "{}: {lost:?}", file.display());
        }
        let recording = folder.join("recording.slabtrace");
        let now = slabyard(&["trace", "info", "--json"], &recording);
        assert!(now.status.success(), "{}: {}", recording.display(), text(&now.stderr));
        let kept = fs::read_to_string(folder.join("recording.json")).unwrap();
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let lost = lost_of_json("", &json(&kept), &json(text(&now.stdout)));
        assert!(lost.is_empty(), "{}: {lost:?}", recording.display());
    }
}

#[test]
fn reports_of_released_libraries_are_shown() {
    let Some(stage) = Stage::new() else { return };
    for folder in folders() {
        let report = fs::read(folder.join("report")).unwrap();
        stage.leave(&report);
        let output = stage.run(&["--report", "json"], "true");
        let shown = text(&output.stderr);
        let shown: serde_json::Value =
            serde_json::from_str(&shown[shown.find('{').unwrap()..]).unwrap();
        let caches = shown["caches"].as_array().unwrap();
        let mut nr_caches = 0;
        for line in text(&report).lines().filter_map(|line| line.strip_prefix("cache ")) {
            let (name, numbers) = line.split_once(' ').unwrap();
            let cache = caches.iter().find(|cache| cache["name"] == name).expect(name);
            for (key, number) in numbers.split(' ').filter_map(|word| word.split_once('=')) {
                if let ("live" | "slabs" | "bytes", Ok(number)) = (key, number.parse::<u64>()) {
                    assert_eq!(cache[key], number, "{name} {key}");
                    nr_caches += 1;
                }
            }
        }
        assert!(nr_caches > 30, "{nr_caches}");
    }
}

#[test]
fn what_a_version_loses_is_found() {
    let kept = "name,live,bytes\na,1,2\nb,3,4\n";
    assert!(lost_of_table(kept, "name,new,bytes,live\nb,0,4,3\na,0,2,1\nc,0,0,0\n").is_empty());
    assert_eq!(lost_of_table(kept, "name,bytes,alive\na,2,1\n"), ["a: live is not 1", "no row b"]);
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let kept = json(r#"{"events": 3, "took_ns": 1, "kinds": [{"name": "alloc", "events": 2}]}"#);
    let more =
        json(r#"{"new": 1, "events": 3, "took_ns": 2, "kinds": [{"name": "alloc", "events": 2}]}"#);
    assert!(lost_of_json("", &kept, &more).is_empty());
    let other = json(r#"{"events": 4, "kinds": [{"name": "alloc", "events": null}]}"#);
    assert_eq!(lost_of_json("", &kept, &other), ["/events: 3 is 4", "/kinds/0/events: 2 is null"]);
}
