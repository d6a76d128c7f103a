//! Reads generated files of both versions: whole, cut off at any byte, and with any byte changed.

use super::*;
use crate::event::EventKind;

const PAGE: usize = 1024;
const TICK: u64 = 1 << 40;
const OBJECT: u64 = 0xffff_8881_0000_1000;

fn sized(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_le_bytes(), bytes].concat()
}

fn sized32(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes(), bytes].concat()
}

fn header() -> Vec<u8> {
    let page = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                \tfield: char data;\toffset:16;\tsize:1008;\tsigned:0;\n";
    let parts = [b"header_page\0", &sized(page.as_bytes())[..], b"header_event\0", &sized(b"x")];
    parts.concat()
}

fn formats() -> Vec<u8> {
    let format = |name: &str, id: u16| {
        let mut text = format!("name: {name}\nID: {id}\nformat:\n");
        for (field, at, size) in [
            ("unsigned short common_type", 0, 2),
            ("int common_pid", 4, 4),
            ("unsigned long call_site", 8, 8),
            ("const void * ptr", 16, 8),
            ("size_t bytes_req", 24, 8),
            ("size_t bytes_alloc", 32, 8),
        ] {
            text += &format!("\tfield:{field};\toffset:{at};\tsize:{size};\tsigned:0;\n");
        }
        sized(text.as_bytes())
    };
    let mut out = 1u32.to_le_bytes().to_vec();
    out.extend(b"kmem\0");
    out.extend(2u32.to_le_bytes());
    out.extend(format("kmalloc", 7));
    out.extend(format("kfree", 8));
    out
}

const FUNCTIONS: &[u8] = b"ffffffff81000000 T getname\nffffffff81000100 T putname\n";

/// A page with an event: what it is, after so many nanoseconds; so many were lost before it.
fn page(id: u16, after: u64, lost: u64) -> Vec<u8> {
    let mut event = id.to_le_bytes().to_vec();
    event.extend([0, 0]);
    event.extend(42u32.to_le_bytes());
    for word in [0xffff_ffff_8100_0010u64, OBJECT, 100, 112] {
        event.extend(word.to_le_bytes());
    }
    let flags = if lost > 0 { 1 << 31 | 1 << 30 } else { 0 };
    let mut page = (TICK + after).to_le_bytes().to_vec();
    page.extend(((event.len() as u64 + 4) | flags).to_le_bytes());
    page.extend((event.len() as u32 / 4).to_le_bytes());
    page.extend(event);
    page.extend(lost.to_le_bytes());
    page.resize(PAGE, 0);
    page
}

const UNAME: &[u8] = b"Linux host 6.12.1-x #1 SMP\0";
const STATISTICS: &[u8] = b"CPU: 0\nentries: 5\noverrun: 3\ncommit overrun: 1\n\0";

fn begin(version: &str) -> Vec<u8> {
    let mut out = [MAGIC, version.as_bytes(), &[0, 0, 8]].concat();
    out.extend((PAGE as u32).to_le_bytes());
    out
}

fn option(id: u16, value: &[u8]) -> Vec<u8> {
    [&id.to_le_bytes()[..], &sized32(value)].concat()
}

/// The pages of two CPUs.
fn pages() -> [Vec<u8>; 2] {
    [[page(7, 5, 0), page(7, 30, 9)].concat(), page(8, 20, 0)]
}

fn version6() -> Vec<u8> {
    let mut out = begin("6");
    out.extend(header());
    out.extend(1u32.to_le_bytes());
    out.extend(sized(b"name: function\nID: 1\n"));
    out.extend(formats());
    out.extend(sized32(FUNCTIONS));
    out.extend(sized32(b"printk"));
    out.extend(sized(b"42 cat\n"));
    out.extend(2u32.to_le_bytes());
    out.extend(b"options  \0");
    out.extend(option(option::UNAME, UNAME));
    out.extend(option(option::STATISTICS, STATISTICS));
    out.extend([0, 0]);
    out.extend(b"flyrecord\0");
    let mut place = (out.len() + 32).next_multiple_of(PAGE);
    let from = place;
    for data in pages() {
        out.extend((place as u64).to_le_bytes());
        out.extend((data.len() as u64).to_le_bytes());
        place += data.len();
    }
    out.resize(from, 0);
    out.extend(pages().concat());
    out
}

/// Compressed, if so.
fn folded(bytes: &[u8], folds: bool) -> Vec<u8> {
    if !folds {
        return bytes.to_vec();
    }
    let short = zstd::bulk::compress(bytes, 1).unwrap();
    let numbers = [short.len() as u32, bytes.len() as u32];
    [&numbers.map(u32::to_le_bytes).concat(), &short[..]].concat()
}

fn version7(compression: &str) -> Vec<u8> {
    let folds = compression == "zstd";
    let mut out = begin("7");
    out.extend([compression.as_bytes(), b"\x001\0"].concat());
    let options_at = out.len();
    out.extend([0; 8]);
    let section = |out: &mut Vec<u8>, id: u16, body: &[u8]| {
        let place = out.len() as u64;
        out.extend(id.to_le_bytes());
        out.extend(u16::from(folds).to_le_bytes());
        out.extend([0; 4]);
        out.extend(sized(body));
        place.to_le_bytes()
    };
    let mut options = option(option::UNAME, UNAME);
    options.extend(option(option::STATISTICS, STATISTICS));
    options.extend(option(option::CPUS, &2u32.to_le_bytes()));
    for (id, body) in [
        (section::HEADER, header()),
        (section::EVENTS, formats()),
        (section::FUNCTIONS, sized32(FUNCTIONS)),
    ] {
        let place = section(&mut out, id, &folded(&body, folds));
        options.extend(option(id, &place));
    }
    let data = pages().map(|pages| match folds {
        true => [&1u32.to_le_bytes()[..], &folded(&pages, true)].concat(),
        false => pages,
    });
    let place = section(&mut out, section::BUFFER, &data.concat());
    let mut buffer = [&place[..], b"\0local\0"].concat();
    buffer.extend((PAGE as u32).to_le_bytes());
    buffer.extend(2u32.to_le_bytes());
    let mut at = u64::from_le_bytes(place) + 16;
    for (cpu, data) in (0u32..).zip(&data) {
        buffer.extend(cpu.to_le_bytes());
        buffer.extend(at.to_le_bytes());
        buffer.extend((data.len() as u64 - if folds { 4 } else { 0 }).to_le_bytes());
        at += data.len() as u64;
    }
    options.extend(option(option::BUFFER, &buffer));
    options.extend(option(option::DONE, &[0; 8]));
    let place = section(&mut out, section::OPTIONS, &folded(&options, folds));
    out[options_at..options_at + 8].copy_from_slice(&place);
    out
}

fn files() -> [(&'static str, Vec<u8>); 3] {
    [("6", version6()), ("7", version7("none")), ("7 by zstd", version7("zstd"))]
}

fn read_bytes(file: &mut File, bytes: &[u8]) -> Result<Trace, Error> {
    file.set_len(0).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    read(file.try_clone().unwrap())
}

fn file() -> File {
    let name = rustix::fs::memfd_create("trace.dat", rustix::fs::MemfdFlags::CLOEXEC);
    File::from(name.unwrap())
}

#[test]
fn events_of_both_versions_are_read() {
    for (what, bytes) in files() {
        let trace = read_bytes(&mut file(), &bytes).unwrap();
        let told: Vec<_> =
            trace.events.iter().map(|e| (e.time, e.kind, e.cpu, e.requested, e.pid)).collect();
        let want = [
            (0, EventKind::Kmalloc, 0, 100, 42),
            (15, EventKind::Kfree, 1, 100, 42),
            (25, EventKind::Kmalloc, 0, 100, 42),
        ];
        assert_eq!(told, want, "{what}");
        let names: Vec<_> = trace.events.iter().map(|e| trace.names.get(e.name)).collect();
        assert_eq!(names, ["getname"; 3], "{what}");
        assert_eq!(trace.events[0].address, OBJECT & ((1 << 48) - 1));
        assert_eq!((trace.header.release.as_str(), trace.header.cpus), ("6.12.1-x", Some(2)));
        // The page says 9, the kernel's statistics 4.
        assert_eq!(trace.lost, 9, "{what}");
    }
}

#[test]
fn a_file_that_is_cut_off_is_refused() {
    let mut scratch = file();
    for (what, bytes) in files() {
        for end in MAGIC.len()..bytes.len() {
            let error = read_bytes(&mut scratch, &bytes[..end]).err();
            let error = error.unwrap_or_else(|| panic!("{what}: {end} of its bytes are read"));
            assert!(error.to_string().starts_with("the file of trace-cmd"), "{what}: {error}");
        }
    }
}

#[test]
fn a_damaged_file_is_an_error_or_another_trace() {
    let mut scratch = file();
    for (what, bytes) in files() {
        let mut refused = 0;
        for at in MAGIC.len()..bytes.len() {
            for change in [0x01, 0x80] {
                let mut bytes = bytes.clone();
                bytes[at] ^= change;
                refused += u32::from(read_bytes(&mut scratch, &bytes).is_err());
            }
        }
        assert!(refused > 100, "{what}: {refused}");
    }
}

#[test]
fn what_cannot_be_read_is_told() {
    let told = |bytes: &[u8]| read_bytes(&mut file(), bytes).unwrap_err().to_string();
    assert!(told(&version7("zlib")).contains("--compression zstd"));
    let mut other = version6();
    other[MAGIC.len()] = b'9';
    assert!(told(&other).contains("version 9"));
    let mut other = version6();
    other[MAGIC.len() + 2] = 1;
    assert!(told(&other).contains("order of bytes"));
}
