use super::*;
use crate::snapshot::{Cache, Source, SourceKind};
use proptest::prelude::*;
use std::fs;
use tempfile::TempDir;

/// The nth look at a kernel of some caches, of which one changes.
fn look(n: u64) -> Snapshot {
    let mut snapshot = Snapshot::new(Source::of(SourceKind::Kernel));
    snapshot.taken_at_ms = 1_700_000_000_000 + n * 60_000;
    for name in ["dentry", "inode_cache", "kmalloc-64"] {
        let mut cache = Cache::new(name);
        cache.set("total_objects", if name == "dentry" { 1000 + n } else { 7 });
        snapshot.caches.push(cache);
    }
    snapshot
}

fn written(looks: u64, most: u64) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("day.timeline");
    let mut writer = Writer::open(&path, most, &look(0).source).unwrap();
    (0..looks).for_each(|n| writer.push(&look(n)).unwrap());
    (directory, path)
}

const NO_LIMIT: u64 = u64::MAX;

#[test]
fn looks_are_read_as_they_were_written() {
    let (_kept, path) = written(150, NO_LIMIT);
    let timeline = Timeline::open(&path).unwrap();
    assert_eq!((timeline.len(), timeline.incomplete_bytes()), (150, 0));
    for (n, taken) in timeline.looks().enumerate() {
        assert_eq!(taken.unwrap(), look(n as u64));
    }
    for n in [0, 1, 63, 64, 65, 149] {
        assert_eq!(timeline.look(n).unwrap(), look(n as u64), "{n}");
    }
}

#[test]
fn what_did_not_change_takes_next_to_nothing() {
    let (_kept, path) = written(128, NO_LIMIT);
    let timeline = Timeline::open(&path).unwrap();
    let [whole, follows] = [0, 1].map(|n| timeline.frames[n].header);
    assert_eq!((whole.kind, follows.kind), (FrameKind::Whole, FrameKind::Follows));
    assert!(follows.packed * 2 < whole.packed, "{whole:?} {follows:?}");
}

#[test]
fn a_look_is_named_by_its_number_or_a_time() {
    let (_kept, path) = written(10, NO_LIMIT);
    let named = |name: &str| sample(Path::new(&format!("{}{name}", path.display())));
    assert_eq!(named("").unwrap(), look(9));
    assert_eq!(named("#1").unwrap(), look(0));
    assert_eq!(named("#10").unwrap(), look(9));
    // 1,700,000,000 s is 22:13:20; the fifth look is four minutes later.
    for time in ["2023-11-14T22:17:20Z", "2023-11-14T22:18:19", "2023-11-14T23:17:21+01:00"] {
        assert_eq!(named(&format!("#{time}")).unwrap(), look(4), "{time}");
    }
    for wrong in ["#0", "#11", "#-1", "#noon", "#2023-11-14T22:13:19Z"] {
        let said = named(wrong).unwrap_err().to_string();
        assert!(said.contains(&format!("has no look {}:", &wrong[1..])), "{said}");
        assert!(said.contains("looks 1 to 10, from 2023-11-14T22:13:20Z"), "{said}");
    }
}

#[test]
fn an_incomplete_end_is_left_out_and_written_over() {
    let (_kept, path) = written(5, NO_LIMIT);
    let whole = fs::read(&path).unwrap();
    let end_of_4 = {
        let timeline = Timeline::open(&path).unwrap();
        timeline.frames[4].at - HEADER
    };
    for cut in end_of_4..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let timeline = Timeline::open(&path).unwrap();
        assert_eq!((timeline.len(), timeline.incomplete_bytes()), (4, cut - end_of_4));
        let mut writer = Writer::open(&path, NO_LIMIT, &look(0).source).unwrap();
        writer.push(&look(4)).unwrap();
        let read: Vec<_> = Timeline::open(&path).unwrap().looks().map(Result::unwrap).collect();
        assert_eq!(read, (0..5).map(look).collect::<Vec<_>>(), "{cut}");
    }
}

#[test]
fn damage_costs_the_looks_to_the_next_whole_one() {
    let (_kept, path) = written(2 * WHOLE_EVERY as u64, NO_LIMIT);
    let mut bytes = fs::read(&path).unwrap();
    let at = Timeline::open(&path).unwrap().frames[3].at;
    bytes[at + 9] ^= 0x40;
    fs::write(&path, &bytes).unwrap();
    let timeline = Timeline::open(&path).unwrap();
    let fine: Vec<bool> = timeline.looks().map(|look| look.is_ok()).collect();
    assert_eq!(fine.iter().filter(|fine| !**fine).count(), WHOLE_EVERY - 3);
    assert!(fine[2] && !fine[3] && !fine[WHOLE_EVERY - 1] && fine[WHOLE_EVERY]);
    assert!(timeline.look(4).unwrap_err().to_string().contains("look 5 of 128"));
    assert_eq!(timeline.look(127).unwrap(), look(127));
    // A header is known to be damaged, and not taken for the end.
    bytes[at - HEADER + 4] ^= 0x40;
    fs::write(&path, &bytes).unwrap();
    let said = Timeline::open(&path).unwrap_err().to_string();
    assert!(said.contains("damaged: behind look 3"), "{said}");
    let before = fs::read(&path).unwrap();
    assert!(Writer::open(&path, NO_LIMIT, &look(0).source).is_err());
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn a_timeline_stays_below_its_limit_and_older_looks_are_rarer() {
    const MOST: u64 = 8 << 10;
    let (_kept, path) = written(3000, MOST);
    assert!(fs::metadata(&path).unwrap().len() <= MOST);
    let timeline = Timeline::open(&path).unwrap();
    assert!(timeline.looks().all(|look| look.is_ok()));
    let times: Vec<u64> = timeline.times().collect();
    assert_eq!((times[0], times[times.len() - 1]), (look(0).taken_at_ms, look(2999).taken_at_ms));
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.windows(2).all(|pair| pair[0] >= pair[1]), "{gaps:?}");
    assert!(gaps[0] > 8 * 60_000 && gaps[gaps.len() - 1] == 60_000, "{gaps:?}");
}

#[test]
fn one_writer_at_a_time_and_one_source() {
    let (_kept, path) = written(2, NO_LIMIT);
    let writer = Writer::open(&path, NO_LIMIT, &look(0).source).unwrap();
    let second = Writer::open(&path, NO_LIMIT, &look(0).source);
    assert!(matches!(second, Err(WriteError::Busy { .. })));
    drop(writer);
    let mut program = Source::of(SourceKind::Process);
    program.program = Some("redis-server".into());
    let other = Writer::open(&path, NO_LIMIT, &program);
    assert!(matches!(other, Err(WriteError::OfAnother { .. })));
    fs::write(&path, "something else that is long enough").unwrap();
    assert!(matches!(Writer::open(&path, NO_LIMIT, &program), Err(WriteError::File(_))));
    assert_eq!(fs::read(&path).unwrap(), b"something else that is long enough");
}

#[test]
fn a_full_disk_takes_nothing_of_what_is_written() {
    let path = Path::new("/dev/full");
    if path.exists() {
        assert!(Writer::open(path, NO_LIMIT, &look(0).source).is_err());
    }
}

proptest! {
    #[test]
    fn no_bytes_of_a_file_make_a_reader_panic(
        at in 0_usize..2000, with in any::<u8>(), cut in 0_usize..2000
    ) {
        let (_kept, path) = written(3, NO_LIMIT);
        let mut bytes = fs::read(&path).unwrap();
        if let Some(byte) = bytes.get_mut(at) {
            *byte = with;
        }
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        fs::write(&path, bytes).unwrap();
        if let Ok(timeline) = Timeline::open(&path) {
            let looks = timeline.looks().filter_map(Result::ok);
            for taken in looks {
                prop_assert!((0..3).any(|n| taken == look(n)));
            }
        }
    }
}
