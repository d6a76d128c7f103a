//! The CSV form of traces: every column is kept, every wrong row is reported with its line, and
//! page size and base address are inferred from the events.

use slabyard_lab::event::{ANY_NODE, Event, EventKind};
use slabyard_lab::trace::csv;
use slabyard_lab::trace::*;
use std::io::{BufReader, Read};

const CSV: &str = "\
t_us,cpu,pid,ev,cache_or_site,ptr,req,alloc,gfp,node,acct
0.0,1,8126,F,filp,888104d28d80,,,,,
56.1,1,8126,A,dentry,8881aad15cc0,190,192,cc0,-1,1
60.5,0,8126,M,alloc_pipe_info,888221c59c00,176,192,400dc0,0,0
438.25,1,8195,K,load_elf_binary,888100048a40,,,,,
2730.6,1,8196,P,o3,1a5e90,,,440dc0,2,
3944,0,676,Q,o0,1a5e88,,,,,
";

const BLANK: Event = Event {
    time: 0,
    address: 0x8881_04d2_8d80,
    name: 1,
    pid: 8126,
    requested: 0,
    allocated: 0,
    gfp: 0,
    cpu: 1,
    node: ANY_NODE,
    order: 0,
    kind: EventKind::CacheFree,
    accounted: false,
    site: 0,
};

#[test]
fn every_column_of_the_csv_is_kept() {
    let trace = csv::read(CSV.as_bytes()).unwrap();
    let wanted = [
        BLANK,
        Event {
            time: 56_100,
            address: 0x8881_aad1_5cc0,
            name: 2,
            requested: 190,
            allocated: 192,
            gfp: 0xcc0,
            kind: EventKind::CacheAlloc,
            accounted: true,
            ..BLANK
        },
        Event {
            time: 60_500,
            address: 0x8882_21c5_9c00,
            name: 3,
            requested: 176,
            allocated: 192,
            gfp: 0x40_0dc0,
            cpu: 0,
            node: 0,
            kind: EventKind::Kmalloc,
            ..BLANK
        },
        Event {
            time: 438_250,
            address: 0x8881_0004_8a40,
            name: 4,
            pid: 8195,
            kind: EventKind::Kfree,
            ..BLANK
        },
        Event {
            time: 2_730_600,
            address: 0x1a_5e90,
            name: NO_NAME,
            pid: 8196,
            gfp: 0x44_0dc0,
            node: 2,
            order: 3,
            kind: EventKind::PageAlloc,
            ..BLANK
        },
        Event {
            time: 3_944_000,
            address: 0x1a_5e88,
            name: NO_NAME,
            pid: 676,
            cpu: 0,
            kind: EventKind::PageFree,
            ..BLANK
        },
    ];
    assert_eq!(trace.events, wanted);
    let names: Vec<_> = trace.names.iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["", "filp", "dentry", "alloc_pipe_info", "load_elf_binary"]);
    assert_eq!((trace.header.cpus, trace.lost), (Some(2), 0));
}

#[test]
fn a_csv_is_the_same_in_any_buffer_ending_and_compression() {
    let wanted = csv::read(CSV.as_bytes()).unwrap();
    for size in 1..40 {
        assert_eq!(csv::read(BufReader::with_capacity(size, CSV.as_bytes())).unwrap(), wanted);
    }
    let unended = CSV.trim_end();
    let returns = CSV.replace('\n', "\r\n");
    let folded = zstd::bulk::compress(CSV.as_bytes(), 3).unwrap();
    let (first, second) = CSV.split_at(100);
    let frames = [first, second].map(|part| zstd::bulk::compress(part.as_bytes(), 3).unwrap());
    for bytes in [unended.as_bytes(), returns.as_bytes(), &folded, &frames.concat()] {
        assert_eq!(csv::read(bytes).unwrap(), wanted);
    }
    // A compressed file that was cut off is not a shorter trace.
    for length in 4..folded.len() {
        let error = csv::read(&folded[..length]).unwrap_err();
        assert!(matches!(error, csv::Error::Read { .. }), "{error}");
    }
}

#[test]
fn many_names_are_kept_apart() {
    let row = |i: u32| format!("{i}.0,0,1,F,cache_{},88,,,,,\n", i % 5000);
    let rows: String = (0..10_000).map(row).collect();
    let trace = csv::read(format!("{}\n{rows}", csv::HEADING).as_bytes()).unwrap();
    assert_eq!(trace.names.len(), 5001);
    for (i, event) in trace.events.iter().enumerate() {
        assert_eq!(trace.names.get(event.name), format!("cache_{}", i % 5000));
    }
}

#[test]
fn a_row_that_is_not_one_is_an_error_with_its_line() {
    let rows = [
        ("", "1 columns"),
        ("1.0,0,1,F,filp,88,,,,", "10 columns"),
        ("1.0,0,1,F,filp,88,,,,,,", "12 columns"),
        ("1.0,0,1,X,filp,88,,,,,", "`ev` is `X`"),
        ("1.0,0,1,,filp,88,,,,,", "`ev` is ``"),
        ("x,0,1,F,filp,88,,,,,", "`t_us` is `x`"),
        ("1.,0,1,F,filp,88,,,,,", "`t_us`"),
        (".5,0,1,F,filp,88,,,,,", "`t_us`"),
        ("-1.0,0,1,F,filp,88,,,,,", "`t_us`"),
        ("1.0001,0,1,F,filp,88,,,,,", "at most 3 decimals"),
        ("99999999999999999999,0,1,F,filp,88,,,,,", "`t_us`"),
        ("1.0,65536,1,F,filp,88,,,,,", "`cpu` is `65536`"),
        ("1.0,-1,1,F,filp,88,,,,,", "`cpu`"),
        ("1.0,0,4294967296,F,filp,88,,,,,", "`pid`"),
        ("1.0,0,1,F,,88,,,,,", "`cache_or_site` is ``"),
        ("1.0,0,1,F,filp,,,,,,", "`ptr` is ``"),
        ("1.0,0,1,F,filp,0x88,,,,,", "`ptr` is `0x88`"),
        ("1.0,0,1,F,filp,11112222333344445,,,,,", "`ptr`"),
        ("1.0,0,1,F,filp,88,8,,,,", "`req` is `8`"),
        ("1.0,0,1,K,site,88,,,,-1,", "`node` is `-1`"),
        ("1.0,0,1,A,filp,88,,192,cc0,-1,1", "`req` is ``"),
        ("1.0,0,1,A,filp,88,192,4294967296,cc0,-1,1", "`alloc`"),
        ("1.0,0,1,A,filp,88,192,192,100000000,-1,1", "`gfp`"),
        ("1.0,0,1,A,filp,88,192,192,cc0,,1", "`node`"),
        ("1.0,0,1,A,filp,88,192,192,cc0,--1,1", "`node`"),
        ("1.0,0,1,A,filp,88,192,192,cc0,32768,1", "`node`"),
        ("1.0,0,1,A,filp,88,192,192,cc0,-1,", "`acct` is ``"),
        ("1.0,0,1,M,site,88,192,192,cc0,-1,2", "`acct` is `2`"),
        ("1.0,0,1,P,filp,88,,,cc0,0,", "`o` and an order"),
        ("1.0,0,1,P,o64,88,,,cc0,0,", "an order"),
        ("1.0,0,1,P,o0,88,,,cc0,0,1", "`acct`"),
        ("1.0,0,1,Q,o0,88,,,cc0,,", "`gfp`"),
    ];
    for (row, what) in rows {
        let text = CSV.replace("438.25,1,8195,K,load_elf_binary,888100048a40,,,,,", row);
        assert_ne!(text, CSV);
        let error = csv::read(text.as_bytes()).expect_err(row).to_string();
        assert!(error.starts_with("line 5: ") && error.contains(what), "{row}: {error}");
    }
    let mut bytes = CSV.as_bytes().to_vec();
    let at = CSV.find("filp").unwrap();
    bytes[at] = 0xff;
    assert!(csv::read(&bytes[..]).unwrap_err().to_string().starts_with("line 2: "));
}

#[test]
fn a_csv_without_its_heading_or_without_lines_is_refused() {
    let headless = CSV.split_once('\n').unwrap().1;
    for text in ["", "\n", headless, "t_us,cpu\n"] {
        assert!(matches!(csv::read(text.as_bytes()), Err(csv::Error::NotCsv)), "{text:?}");
    }
    // No memory is filled by a line that does not end.
    let endless = Read::chain(CSV.as_bytes(), std::io::repeat(b'1'));
    let error = csv::read(BufReader::new(endless)).unwrap_err().to_string();
    assert!(error.starts_with("line 8: more than"), "{error}");
}

/// What the strict reader rejects, the other one skips and reports; all rows around it are read.
#[test]
fn what_is_left_is_read_and_what_is_not_is_told() {
    let whole = csv::read(CSV.as_bytes()).unwrap();
    let left = |bytes: &[u8]| csv::read_left(bytes).unwrap();
    assert_eq!(left(CSV.as_bytes()), whole);
    let lines: Vec<&str> = CSV.lines().collect();
    for (bad, told) in [
        (&[3][..], &["line 4: 3 columns; a row has 11; 1 event is missing"][..]),
        (&[2, 3], &["line 3: 3 columns; a row has 11; 2 events are missing"]),
        (&[1, 4], &["line 2: 3 columns; a row has 11; 1 event is missing", "line 5: "]),
    ] {
        let text: Vec<&str> =
            (0..lines.len()).map(|n| if bad.contains(&n) { "a,b,c" } else { lines[n] }).collect();
        let trace = left((text.join("\n") + "\n").as_bytes());
        let words: Vec<String> = trace.damaged.iter().map(ToString::to_string).collect();
        assert_eq!(words.len(), told.len(), "{words:?}");
        assert!(words.iter().zip(told).all(|(a, b)| a.starts_with(b)), "{words:?}");
        assert_eq!(trace.missing(), bad.len() as u64);
        let rows = (0..whole.events.len()).filter(|row| !bad.contains(&(row + 1)));
        let addresses: Vec<u64> = rows.map(|row| whole.events[row].address).collect();
        assert_eq!(trace.events.iter().map(|e| e.address).collect::<Vec<_>>(), addresses);
    }
    // However it is cut: a beginning of the same rows, and a word unless a row ends there.
    let heading = csv::HEADING.len() + 1;
    for end in heading..CSV.len() {
        let trace = left(&CSV.as_bytes()[..end]);
        let rows = trace.events.len();
        assert_eq!(trace.events, whole.events[..rows], "{end}");
        let is_whole = CSV.as_bytes()[end - 1] == b'\n' || CSV.as_bytes()[end] == b'\n';
        assert_eq!(trace.damaged.is_empty(), is_whole, "{end}: {:?}", trace.damaged);
    }
    let many: String =
        CSV.lines().cycle().skip(1).take(40_000).map(|l| l.to_owned() + "\n").collect();
    let many = csv::HEADING.to_owned() + "\n" + &many.replace(csv::HEADING, "x");
    let folded = zstd::bulk::compress(many.as_bytes(), 3).unwrap();
    let all = left(&folded);
    assert!(all.damaged.len() < 30 && all.missing() > 1000, "{:?}", all.damaged);
    for part in 1..8 {
        // Before its first block is whole a compressed file has nothing to take.
        let read = csv::read_left(&folded[..folded.len() * part / 8]);
        let Ok(trace) = read else { continue };
        assert!(matches!(trace.damaged.last().unwrap().what, Harm::RowsCut(_)));
        assert_eq!(trace.events, all.events[..trace.events.len()]);
    }
    assert!(matches!(csv::read_left(&b"t_us,cpu\n"[..]), Err(csv::Error::NotCsv)));
}

/// A trace of slabs of one page, whose first object comes right after its page.
fn slabs(frames: Frames, pages: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for i in 0..pages {
        let frame = 0x1234 + i * 37;
        let start = frames.page_offset + (frame << frames.page_shift);
        events.push(Event {
            kind: EventKind::PageAlloc,
            address: frame,
            order: 0,
            cpu: 1,
            ..BLANK
        });
        // Other CPUs go on with their own slabs meanwhile.
        for j in 0..6 {
            let address = 0x7777_7000 * (i + 1) + 64 * j;
            events.push(Event { kind: EventKind::CacheAlloc, address, cpu: 0, ..BLANK });
        }
        events.push(Event {
            kind: EventKind::CacheAlloc,
            address: start + 64 * i,
            cpu: 1,
            ..BLANK
        });
    }
    events
}

#[test]
fn page_size_and_base_are_found_in_the_events() {
    for page_shift in [12, 14, 16] {
        for page_offset in [0, 0x8880_0000_0000, 0x9c3e_4000_0000] {
            let frames = Frames { page_offset, page_shift };
            let events = slabs(frames, 20);
            assert_eq!(Frames::detect(&events), Some(frames));
            let header = Header::detect(&events);
            assert_eq!(header.frames(), Some(frames));
            assert_eq!(header.cpus, Some(2));
            assert_eq!(frames.of(events[7].address), events[0].address);
            assert_eq!(Frames::detect(&slabs(frames, 2)), None, "too few to be sure");
        }
    }
    // Of a machine that makes next to no slab, one page speaks for it, and nothing has to.
    let frames = Frames { page_offset: 0x8880_0000_0000, page_shift: 12 };
    let page = Event { kind: EventKind::PageAlloc, address: 0x1234, cpu: 1, ..BLANK };
    let object = |address| Event { kind: EventKind::CacheAlloc, address, cpu: 1, ..BLANK };
    let inside = frames.page_offset + (0x1234 << 12);
    let one = [page, object(inside), object(inside + (5 << 30))];
    assert_eq!(Frames::guess(&one, [].into_iter(), 12), frames);
    // The lowest object that is known of lies in the first part of the memory that is known.
    let none = [object(inside + (5 << 30))];
    assert_eq!(Frames::guess(&none, [inside].into_iter(), 12), frames);
    assert_eq!(Frames::guess(&[], [].into_iter(), 16).page_shift, 16);
    // Pages that are no slabs tell nothing.
    let mut events = slabs(Frames { page_offset: 0, page_shift: 12 }, 20);
    events.iter_mut().enumerate().for_each(|(i, e)| e.address += i as u64 * 0x0123_4567_8900);
    assert_eq!(Frames::detect(&events), None);
}
