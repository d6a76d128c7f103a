//! The trace file and the CSV form: what is written is read back; damage is reported and never
//! mistaken for valid content.

use proptest::prelude::*;
use slabyard_lab::event::{ANY_NODE, Event, EventKind};
use slabyard_lab::trace::csv;
use slabyard_lab::trace::{self, *};
use std::fs;
use std::io::Cursor;
use std::path::Path;

const KINDS: [EventKind; 11] = [
    EventKind::CacheAlloc,
    EventKind::CacheFree,
    EventKind::Kmalloc,
    EventKind::Kfree,
    EventKind::PageAlloc,
    EventKind::PageFree,
    EventKind::KfreeRcu,
    EventKind::PrefillSheaf,
    EventKind::ReturnSheaf,
    EventKind::AllocBulk,
    EventKind::FreeBulk,
];

fn header() -> Header {
    Header {
        release: "6.18.44".into(),
        page_size: Some(4096),
        cpus: Some(2),
        page_offset: Some(0x8880_0000_0000),
        source: "a test".into(),
    }
}

fn names() -> Names {
    let mut names = Names::new();
    for name in ["dentry", "filp", "alloc_pipe_info", "größe"] {
        names.intern(name);
    }
    names
}

/// Events of all tracepoints, each unlike the others.
fn sample(n: u64) -> Vec<Event> {
    let event = |i: u64| {
        let kind = KINDS[(i * 7 / 3 % 6) as usize];
        let page = matches!(kind, EventKind::PageAlloc | EventKind::PageFree);
        Event {
            time: i * 1700 + i % 3 * 100,
            address: if page { 0x1a000 + i } else { 0x8881_0000_0000 + i * 192 },
            name: if page { NO_NAME } else { 1 + (i % 4) as u32 },
            site: if kind == EventKind::CacheAlloc { (i % 3) as u32 } else { NO_NAME },
            pid: 100 + (i / 5) as u32,
            requested: (i % 11) as u32 * 8,
            allocated: 192,
            gfp: 0xcc0,
            cpu: (i % 2) as u16,
            node: if i.is_multiple_of(4) { ANY_NODE } else { 0 },
            order: if page { 3 } else { 0 },
            kind,
            accounted: i.is_multiple_of(5),
        }
    };
    (0..n).map(event).collect()
}

const CHUNK: usize = 8;

const CSV: &str = "\
t_us,cpu,pid,ev,cache_or_site,ptr,req,alloc,gfp,node,acct
0.0,1,8126,F,filp,888104d28d80,,,,,
56.1,1,8126,A,dentry,8881aad15cc0,190,192,cc0,-1,1
60.5,0,8126,M,alloc_pipe_info,888221c59c00,176,192,400dc0,0,0
438.25,1,8195,K,load_elf_binary,888100048a40,,,,,
2730.6,1,8196,P,o3,1a5e90,,,440dc0,2,
3944,0,676,Q,o0,1a5e88,,,,,
";

/// A file of four and a half chunks.
fn file() -> (Vec<Event>, Vec<u8>) {
    let events = sample(4 * CHUNK as u64 + 4);
    let bytes = write(&events, names(), CHUNK);
    (events, bytes)
}

fn write(events: &[Event], names: Names, chunk: usize) -> Vec<u8> {
    let writer = Writer::new(Vec::new(), &header()).unwrap();
    let mut writer = writer.with_names(names).with_chunk_events(chunk);
    events.iter().for_each(|e| writer.push(e).unwrap());
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<Trace, Error> {
    Reader::new(Cursor::new(bytes))?.read_all()
}

/// Where each chunk begins, and where the last one ends.
fn borders(bytes: &[u8]) -> Vec<usize> {
    let reader = Reader::new(Cursor::new(bytes)).unwrap();
    let mut at: Vec<_> = reader.chunks().iter().map(|c| c.at as usize).collect();
    let index = bytes.len() - 20;
    at.push(u64::from_le_bytes(bytes[index..index + 8].try_into().unwrap()) as usize);
    at
}

/// The numbers of the chunks that `trace` has, if it has whole chunks of `events`
/// and nothing else, under their right names.
fn chunks_of(trace: &Trace, events: &[Event]) -> Vec<usize> {
    let mut rest = &trace.events[..];
    let mut found = Vec::new();
    for (nth, chunk) in events.chunks(CHUNK).enumerate() {
        if let Some(after) = rest.strip_prefix(chunk) {
            rest = after;
            found.push(nth);
        }
    }
    assert!(rest.is_empty(), "events that were never written: {rest:?}");
    for event in &trace.events {
        assert_eq!(trace.names.get(event.name), names().get(event.name));
    }
    found
}

fn message(bytes: &[u8]) -> String {
    read(bytes).expect_err("it must not be read").to_string()
}

fn any_event() -> impl Strategy<Value = Event> {
    let small = (any::<u16>(), any::<i16>(), any::<u8>(), 0..6usize, any::<bool>());
    (any::<[u64; 2]>(), [0..5u32, 0..5], any::<[u32; 4]>(), small).prop_map(
        |([time, address], [name, site], [pid, requested, allocated, gfp], small)| {
            let (cpu, node, order, kind, accounted) = small;
            let kind = KINDS[kind];
            Event {
                time,
                address,
                name,
                site,
                pid,
                requested,
                allocated,
                gfp,
                cpu,
                node,
                order,
                kind,
                accounted,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_events_come_back(
        events in prop::collection::vec(any_event(), 0..300),
        chunk in 1..400usize,
        times in prop::option::of(1..u64::MAX),
    ) {
        let mut events = events;
        if let Some(unit) = times {
            events.iter_mut().for_each(|e| e.time = e.time / unit * unit);
        }
        let bytes = write(&events, names(), chunk);
        let trace = read(&bytes).unwrap();
        prop_assert_eq!(&trace.events, &events);
        prop_assert_eq!(&trace.names, &names());
        prop_assert_eq!(&trace.header, &header());
        prop_assert_eq!(trace.damaged, vec![]);
        let reader = Reader::new(Cursor::new(&bytes)).unwrap();
        prop_assert_eq!(reader.events(), events.len() as u64);
        prop_assert_eq!(reader.chunks().len(), events.len().div_ceil(chunk).max(1));
    }

    #[test]
    fn any_header_comes_back(
        release in r"\PC*", source in r"\PC*", page_size in any::<Option<u32>>(),
        cpus in any::<Option<u32>>(), page_offset in any::<Option<u64>>(),
    ) {
        let header = Header { release, source, page_size, cpus, page_offset };
        let bytes = Writer::new(Vec::new(), &header).unwrap().finish().unwrap();
        prop_assert_eq!(read(&bytes).unwrap().header, header);
    }

    #[test]
    fn no_text_of_a_header_steers_a_terminal(release in "(?s).*", source in "(?s).*") {
        let header = Header { release, source, ..Header::default() };
        let bytes = Writer::new(Vec::new(), &header).unwrap().finish().unwrap();
        let Header { release, source, .. } = read(&bytes).unwrap().header;
        prop_assert!(!release.chars().chain(source.chars()).any(char::is_control));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (_, file) = file();
        let start = borders(&file)[0];
        let _ = read(&bytes);
        let _ = read(&[&file[..start], &bytes].concat());
        let _ = csv::read(&bytes[..]);
        let _ = csv::read(&[csv::HEADING.as_bytes(), b"\n", &bytes].concat()[..]);
    }
}

#[test]
fn a_flipped_byte_is_never_another_event() {
    let (events, bytes) = file();
    let total = events.len() as u64;
    for at in 0..bytes.len() {
        for flip in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
            let mut bytes = bytes.clone();
            bytes[at] ^= flip;
            let Ok(trace) = read(&bytes) else {
                assert!(at < borders(&file().1)[0], "byte {at}: only the header may be fatal");
                continue;
            };
            let chunks = chunks_of(&trace, &events);
            assert!(chunks.len() >= 4, "byte {at}: one flip takes one chunk");
            assert!(!trace.damaged.is_empty(), "byte {at}: flip {flip} is not told");
            assert_eq!(trace.events.len() as u64 + trace.missing(), total, "byte {at}");
            assert_eq!(trace.header, header());
        }
    }
}

#[test]
fn a_flipped_byte_is_told_without_an_index_too() {
    let (events, bytes) = file();
    let borders = borders(&bytes);
    let bytes = &bytes[..borders[5]];
    for at in borders[0]..bytes.len() {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 0x10;
        let trace = read(&bytes).unwrap();
        let chunks = chunks_of(&trace, &events);
        assert_eq!(chunks.len(), 4, "byte {at}");
        assert_eq!(trace.damaged.len(), 2, "the chunk and the index");
        // Behind the last chunk, nothing tells how many events it had, if it was
        // its header.
        let counted = trace.damaged[0].events;
        if at < borders[4] {
            assert_eq!(counted, Some(CHUNK as u64), "byte {at}");
        } else {
            assert!([None, Some(4)].contains(&counted), "byte {at}");
        }
    }
}

#[test]
fn a_file_cut_anywhere_gives_its_whole_chunks_and_says_so() {
    let (events, bytes) = file();
    let borders = borders(&bytes);
    for length in 0..bytes.len() {
        let read = read(&bytes[..length]);
        if length < borders[0] {
            let error = read.expect_err("no header, no trace");
            let told = matches!(error, Error::HeaderCut) || length == 0;
            assert!(told, "length {length}: {error}");
            continue;
        }
        let trace = read.unwrap();
        let whole = borders.iter().skip(1).filter(|&&end| end <= length).count();
        assert_eq!(chunks_of(&trace, &events), (0..whole).collect::<Vec<_>>(), "length {length}");
        let last = trace.damaged.last().unwrap();
        assert!(matches!(last.what, Harm::NoIndex | Harm::Index), "length {length}: {last}");
    }
}

#[test]
fn other_files_are_refused_in_words() {
    let (_, mut bytes) = file();
    bytes[8..12].copy_from_slice(&(trace::VERSION + 1).to_le_bytes());
    let text = message(&bytes);
    assert!(text.contains("version 5") && text.contains("up to 4"), "{text}");
    bytes[8..12].copy_from_slice(&0u32.to_le_bytes());
    assert!(message(&bytes).contains("no version 0"));
    assert!(message(b"").contains("empty"));
    assert!(message(b"\x7fELF\x02\x01\x01").contains("not a trace"));
    assert!(message(&MAGIC[..5]).contains("cut off"));
}

#[test]
fn open_tells_formats_by_their_bytes_and_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let put = |bytes: &[u8]| {
        let path = dir.path().join("trace");
        fs::write(&path, bytes).unwrap();
        trace::open(&path)
    };
    let (events, bytes) = file();
    assert_eq!(put(&bytes).unwrap().events, events);
    assert_eq!(put(CSV.as_bytes()).unwrap().events.len(), 6);
    assert_eq!(put(&zstd::bulk::compress(CSV.as_bytes(), 3).unwrap()).unwrap().events.len(), 6);
    for (bytes, word) in
        [(&b""[..], "empty"), (b"{\"slab\": 1}", "not a trace"), (b"t_us,cpu\n", "line 1")]
    {
        let text = put(bytes).unwrap_err().to_string();
        assert!(text.contains(word) && text.contains("trace: "), "{text}");
    }
    let none = dir.path().join("none");
    assert!(trace::open(&none).unwrap_err().to_string().contains("none: "));
}

#[test]
fn a_chunk_that_was_taken_out_is_missed() {
    let (events, bytes) = file();
    let at = borders(&bytes);
    let bytes = [&bytes[..at[1]], &bytes[at[2]..at[5]]].concat();
    let trace = read(&bytes).unwrap();
    assert_eq!(chunks_of(&trace, &events), [0, 2, 3, 4]);
    let gap = &trace.damaged[0];
    assert_eq!((&gap.what, gap.events), (&Harm::Missing, Some(CHUNK as u64)));
}

#[test]
fn a_walk_over_damage_longer_than_its_buffer_finds_the_next_chunk() {
    let (events, bytes) = file();
    let at = borders(&bytes);
    for filling in 65_480..65_540 {
        // Another magic on the way must not stop it.
        let filling = [b"CHNK".to_vec(), vec![0; filling]].concat();
        let bytes = [&bytes[..at[1]], &filling, &bytes[at[2]..at[5]]].concat();
        let trace = read(&bytes).unwrap();
        assert_eq!(chunks_of(&trace, &events), [0, 2, 3, 4]);
        assert_eq!(trace.damaged[0].events, Some(CHUNK as u64));
    }
}

/// A file whose checksums are right and whose second chunk holds `body`.
fn with_body(bytes: &[u8], body: &[u8]) -> Vec<u8> {
    let at = borders(bytes);
    let folded = zstd::bulk::compress(body, 1).unwrap();
    let mut head = bytes[at[1]..at[1] + 56].to_vec();
    head[4..8].copy_from_slice(&(folded.len() as u32).to_le_bytes());
    head[8..12].copy_from_slice(&(body.len() as u32).to_le_bytes());
    head[48..52].copy_from_slice(&crc32fast::hash(&folded).to_le_bytes());
    let own = crc32fast::hash(&head[..52]);
    head[52..].copy_from_slice(&own.to_le_bytes());
    [&bytes[..at[1]], &head, &folded, &bytes[at[2]..at[5]]].concat()
}

#[test]
fn a_body_that_makes_no_sense_under_right_checksums_is_no_panic() {
    let (events, bytes) = file();
    let at = borders(&bytes);
    let body = zstd::bulk::decompress(&bytes[at[1] + 56..at[2]], 1 << 20).unwrap();
    assert_eq!(read(&with_body(&bytes, &body)).unwrap().events, events);
    let mut refused = 0;
    for place in 0..body.len() {
        for flip in [1, 0x80, 0xff] {
            let mut body = body.clone();
            body[place] ^= flip;
            let trace = read(&with_body(&bytes, &body)).unwrap();
            let damaged = trace.damaged.iter().any(|d| matches!(d.what, Harm::Content(_)));
            let chunk = if damaged { 0 } else { CHUNK };
            refused += u32::from(damaged);
            assert_eq!(trace.events.len(), events.len() - CHUNK + chunk, "byte {place}");
            let named = |e: &Event| e.name == NO_NAME || !trace.names.get(e.name).is_empty();
            assert!(trace.events.iter().all(named), "byte {place}: a name that is not listed");
        }
        let trace = read(&with_body(&bytes, &body[..place])).unwrap();
        assert!(trace.damaged.iter().any(|d| matches!(d.what, Harm::Content(_))));
    }
    assert!(refused > 0);
    let longer = read(&with_body(&bytes, &[&body[..], &[0]].concat())).unwrap();
    assert!(longer.damaged.iter().any(|d| matches!(d.what, Harm::Content(_))));
}

#[test]
fn lost_events_are_counted_where_they_were_lost() {
    let events = sample(20);
    let writer = Writer::new(Vec::new(), &header()).unwrap();
    let mut writer = writer.with_names(names()).with_chunk_events(CHUNK);
    for (i, event) in events.iter().enumerate() {
        if i == 9 {
            writer.lost(5);
        }
        writer.push(event).unwrap();
    }
    writer.flush().unwrap();
    writer.lost(2);
    let bytes = writer.finish().unwrap();
    let reader = Reader::new(Cursor::new(&bytes)).unwrap();
    let lost: Vec<_> = reader.chunks().iter().map(|c| c.lost).collect();
    assert_eq!((lost, reader.lost()), (vec![0, 5, 0, 2], 7));
    let at = borders(&bytes);
    assert_eq!(read(&bytes[..at[4]]).unwrap().lost, 7, "without an index");
    assert_eq!(read(&bytes).unwrap().events, events);
}

#[test]
fn a_damaged_trace_written_again_has_lost_what_was_damaged() {
    let (events, mut bytes) = file();
    let at = borders(&bytes)[2];
    bytes[at + 60] ^= 1;
    let trace = read(&bytes).unwrap();
    assert_eq!((&trace.damaged[0].what, trace.missing()), (&Harm::Checksum, CHUNK as u64));
    assert!(trace.damaged[0].to_string().contains("8 events are missing"), "{}", trace.damaged[0]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("again.slabtrace");
    trace.save(&path).unwrap();
    let again = trace::open(&path).unwrap();
    assert_eq!((again.lost, again.damaged.len()), (CHUNK as u64, 0));
    assert_eq!(again.events.len(), events.len() - CHUNK);
}

#[test]
fn names_grow_from_chunk_to_chunk_and_each_chunk_has_its_own() {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap().with_chunk_events(CHUNK);
    let mut events = sample(24);
    for (i, event) in events.iter_mut().enumerate() {
        event.name = writer.names().intern(&format!("cache_{}", i / 3));
        writer.push(event).unwrap();
    }
    let unused = writer.names().intern("unused");
    let bytes = writer.finish().unwrap();
    let trace = read(&bytes).unwrap();
    assert_eq!(trace.names.find("unused"), Some(unused));
    assert_eq!(trace.names.len(), 1 + 8 + 1);

    let mut reader = Reader::new(Cursor::new(&bytes)).unwrap();
    reader.seek(events[16].time);
    let mut late = Vec::new();
    assert_eq!(reader.next_chunk(&mut late).unwrap().unwrap().first, 16);
    assert_eq!(late, events[16..]);
    let found: Vec<_> = late.iter().map(|e| reader.names().get(e.name).to_owned()).collect();
    assert_eq!(found[0], "cache_5");
    assert_eq!(found[7], "cache_7");
}

#[test]
fn seek_goes_to_the_chunk_of_a_time_with_and_without_an_index() {
    let (events, bytes) = file();
    let end = borders(&bytes)[5];
    for bytes in [&bytes[..], &bytes[..end]] {
        let mut reader = Reader::new(Cursor::new(bytes)).unwrap();
        for (i, event) in events.iter().enumerate() {
            reader.seek(event.time);
            let mut chunk = Vec::new();
            let about = reader.next_chunk(&mut chunk).unwrap().unwrap();
            assert_eq!(about.first as usize, i / CHUNK * CHUNK);
            assert!(chunk.contains(event));
        }
        reader.seek(u64::MAX);
        assert_eq!(reader.next_chunk(&mut Vec::new()).unwrap(), None);
    }
}

#[test]
fn an_event_without_a_name_is_not_written() {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    let error = writer.push(&sample(1)[0]).unwrap_err();
    assert!(error.to_string().contains("event 0 names index 1"), "{error}");
}

fn attached() -> Vec<Attached> {
    let one =
        |name: &str, time, bytes: &[u8]| Attached { name: name.into(), time, bytes: bytes.into() };
    vec![one(START, 0, b"{}"), one("later", 77, &[0; 3000]), one("", 1, b"")]
}

/// A file with attachments before, between and behind its chunks.
fn with_attached() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap().with_names(names());
    let mut attached = attached().into_iter();
    writer.attach(&attached.next().unwrap()).unwrap();
    for event in sample(20) {
        writer.push(&event).unwrap();
    }
    for one in attached {
        writer.attach(&one).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn what_is_attached_comes_back_and_is_kept() {
    let trace = read(&with_attached()).unwrap();
    assert_eq!((trace.attached.clone(), trace.damaged.clone()), (attached(), vec![]));
    assert_eq!(trace.events, sample(20));
    assert_eq!(trace.attachment("later").map(|one| one.time), Some(77));
    assert_eq!(read(&trace.write(Vec::new()).unwrap()).unwrap(), trace);
}

/// The index, and the walk of a file without one, find the same.
#[test]
fn what_is_attached_is_found_without_an_index() {
    let bytes = with_attached();
    let trace = read(&bytes[..bytes.len() - 20]).unwrap();
    assert_eq!((trace.attached, trace.events), (attached(), sample(20)));
    assert!(matches!(trace.damaged[..], [Damage { what: Harm::NoIndex, .. }]));
}

#[test]
fn a_damaged_attachment_costs_no_event() {
    let bytes = with_attached();
    let at = memchr::memmem::find(&bytes, b"ATCH").unwrap();
    for (place, what) in [(at + 60, "checksum"), (at + 20, "header")] {
        let mut bytes = bytes.clone();
        bytes[place] ^= 1;
        let trace = read(&bytes).unwrap();
        assert_eq!((&trace.attached[..], trace.events), (&attached()[1..], sample(20)));
        let told = trace.damaged[0].to_string();
        assert!(told.contains(what) && told.contains("no event is missing"), "{told}");
    }
}

#[test]
fn a_file_of_version_1_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace/v1.slabtrace");
    let trace = trace::open(&path).unwrap();
    // It has no call sites of caches.
    let events = sample(36).into_iter().map(|event| Event { site: NO_NAME, ..event });
    assert_eq!(trace.events, events.collect::<Vec<_>>());
    assert_eq!((trace.names, trace.header), (names(), header()));
    assert_eq!((trace.lost, trace.damaged), (3, vec![]));
}

#[test]
fn a_csv_converted_is_the_same_trace_with_what_the_caller_knows() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("a.csv"), dir.path().join("a.slabtrace"));
    fs::write(&from, CSV).unwrap();
    let known = Header { cpus: Some(4), source: "a test".into(), ..Header::default() };
    let done = trace::convert(&from, &to, &known).unwrap();
    assert_eq!((done.events, done.bytes), (6, fs::metadata(&to).unwrap().len()));
    let wanted = Trace { header: known, ..csv::read(CSV.as_bytes()).unwrap() };
    assert_eq!(trace::open(&to).unwrap(), wanted);
}
