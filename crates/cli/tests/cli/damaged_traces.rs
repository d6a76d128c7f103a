//! `slabyard replay` of traces that are truncated, damaged, or not traces at all.

use crate::stage::text;
use crate::traces::{OBJECTS, csv_of, ends, load, slabyard, tiny, zstd_of};
use slabyard_lab::trace::Writer;
use std::fs::{self, File};

#[test]
fn a_wrong_file_a_newer_one_and_a_cut_one_cannot_be_read() {
    let files = tiny();
    let whole = fs::read(files.trace()).unwrap();
    let mut newer = whole.clone();
    newer[8] = 99;
    let heading = "t_us,cpu,pid,ev,cache_or_site,ptr,req,alloc,gfp,node,acct\n";
    for (bytes, words) in [
        (&b"ELF, say"[..], "not a trace"),
        (b"", "the file is empty"),
        (&newer, "version 99; this slabyard reads versions up to"),
        (&whole[..20], "cut off"),
        (&whole[..whole.len() - 5], "--partial"),
        (&whole[..whole.len() / 2], "copy it again"),
        (format!("{heading}0.1,0,1,A,filp,zz,1,1,1,0,0\n").as_bytes(), "line 2"),
        (&zstd_of(heading.as_bytes())[..20], "line 1"),
    ] {
        files.put("load.slabtrace", bytes);
        ends(&files.replay(&[]), 3, words);
    }
    ends(
        &slabyard(&["/no/such.slabtrace", "--start", &files.path("load.before.json")]),
        3,
        "No such",
    );
    files.put("load.slabtrace", &whole);
    for (bytes, words) in [
        (&b"t_us,cpu"[..], "no JSON"),
        (b"{}", "no caches"),
        (
            br#"{"page_size": 65536, "kernel": "6.12", "online_cpus": "0", "slab": {}}"#,
            "different machines: bytes of a page, 4096 in the trace and 65536",
        ),
    ] {
        files.put("load.before.json", bytes);
        ends(&files.replay(&[]), 3, words);
    }
}

#[test]
fn what_is_left_of_a_cut_trace_is_replayed_when_asked_for() {
    let files = tiny();
    let whole = fs::read(files.trace()).unwrap();
    files.put("load.slabtrace", &whole[..whole.len() - 5]);
    let output = files.replay(&["--partial"]);
    ends(&output, 0, "the file ends without its index");
    assert!(text(&output.stdout).starts_with("129 events"), "{}", text(&output.stdout));
}

/// Whatever is wrong with a trace, of ours or a CSV: refused with the same words and
/// code, taken with --partial; and only where events are missing it is said that they are.
#[test]
fn every_damage_ends_alike() {
    let files = tiny();
    let events = load(60, OBJECTS);
    let mut writer = Writer::new(Vec::new(), &events.header).unwrap();
    *writer.names() = events.names.clone();
    for (nth, event) in events.events.iter().enumerate() {
        writer.push(event).unwrap();
        if nth % 400 == 399 {
            writer.flush().unwrap();
        }
    }
    let ours = writer.finish().unwrap();
    let csv = csv_of(&events);
    let folded = zstd_of(csv.as_bytes());
    let flipped = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        bytes
    };
    let third = csv.match_indices('\n').nth(2).unwrap().0 + 3;
    for (what, bytes, is_missing) in [
        ("a chunk", flipped(&ours, ours.len() / 2), true),
        ("cut off", ours[..ours.len() / 2].to_vec(), true),
        ("without the footer", ours[..ours.len() - 5].to_vec(), false),
        ("the index", flipped(&ours, ours.len() - 30), false),
        ("a row", csv.replacen(&csv[third..third + 2], "x", 1).into_bytes(), true),
        ("cut within a row", csv.as_bytes()[..csv.len() / 2 - 3].to_vec(), true),
        ("cut in the compressed stream", folded[..folded.len() / 2].to_vec(), true),
    ] {
        let path = files.put("load.slabtrace", &bytes);
        let output = files.replay(&[]);
        ends(&output, 3, &format!("{path} is damaged: "));
        for words in ["copy it again from where it was recorded", "add --partial to take the "] {
            assert!(text(&output.stderr).contains(words), "{what}: {}", text(&output.stderr));
        }
        ends(&files.replay(&["--check"]), 3, "is damaged");
        ends(&files.replay(&["--convert", &files.path("x")]), 3, "is damaged");
        let output = files.replay(&["--partial"]);
        ends(&output, 0, &format!("{path} is damaged: "));
        let says = text(&output.stderr).contains("events are missing, so that");
        assert_eq!(says, is_missing, "{what}: {}", text(&output.stderr));
        ends(&files.replay(&["--partial", "--convert", &files.path("x")]), 0, "is damaged");
    }
}

#[test]
fn damage_and_lost_events_are_told() {
    let files = tiny();
    let load = load(3, OBJECTS);
    let file = File::create(files.trace()).unwrap();
    let mut writer = Writer::new(file, &load.header).unwrap().with_names(load.names.clone());
    writer.lost(7);
    load.events.iter().for_each(|event| writer.push(event).unwrap());
    writer.finish().unwrap();
    let output = files.replay(&["--check"]);
    ends(&output, 1, "7 events were lost");
    assert!(text(&output.stdout).contains("all goals are met"));
    assert!(text(&output.stderr).contains("events are missing, so that all figures are uncertain"));
    let mut bytes = fs::read(files.trace()).unwrap();
    let chunk = bytes.windows(4).position(|w| w == b"CHNK").unwrap();
    bytes[chunk + 60] ^= 1;
    files.put("load.slabtrace", &bytes);
    let output = files.replay(&[]);
    let message = text(&output.stderr);
    assert!(message.contains("its checksum is wrong; 129 events are missing"), "{message}");
}

/// A damaged time stamp: the row is named, and without it the rest is replayed. Where the checksum of
/// our format vouches for it, the replay takes no longer for the years.
#[test]
fn a_row_of_another_age_is_named_and_years_cost_nothing() {
    let files = tiny();
    let load = load(3, OBJECTS);
    let csv = csv_of(&load);
    let row = csv.lines().nth(40).unwrap();
    let wrong = format!("9{}", "0".repeat(15)) + &row[row.find(',').unwrap()..];
    let path = files.put("load.csv", csv.replace(row, &wrong).as_bytes());
    let start = ["--start", &files.path("load.before.json")];
    let output = slabyard(&[&[&*path], &start[..]].concat());
    ends(&output, 3, "line 41: its time is more than a year from that of the row before");
    let output = slabyard(&[&[&*path, "--partial"], &start[..]].concat());
    ends(&output, 0, "line 41: its time is more than a year");

    let mut years = load;
    let from = years.events.len() / 2;
    years.events[from..].iter_mut().for_each(|event| event.time += 40 * 365 * 86_400_000_000_000);
    let files = crate::traces::Files::new(&years);
    for args in [&[][..], &["--engine=slab"], &["--engine=slab", "--set=reclaim=2.5.45"]] {
        let begun = std::time::Instant::now();
        ends(&files.replay(args), 0, "");
        assert!(begun.elapsed().as_secs() < 20, "{args:?} took {:?}", begun.elapsed());
    }
    let clock = ["--engine=slab", "--set=reclaim=2.4", "--set=pressure_ms=1"];
    ends(&files.replay(&clock), 0, "");
}
