//! Writes a profile for `go tool pprof` and what else reads its format: the message `Profile` of
//! pprof's `proto/profile.proto`, compressed by gzip.
//!
//! The messages below have that description's fields that are used, by its numbers. The names of
//! functions are in the file, and each mapped file's build id, by which pprof finds the binary where
//! it wants lines of source. Invariants: string 0 is empty; ids begin at 1.

use super::{Profile, ProfileFrame};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::UNIX_EPOCH;

#[derive(Clone, PartialEq, Message)]
struct Encoded {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<EncodedSample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct EncodedSample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(uint64, tag = "4")]
    file_offset: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Writes a profile.
///
/// # Errors
/// Those of the writer.
pub fn write(profile: &Profile, out: impl Write) -> io::Result<()> {
    let mut gz = GzEncoder::new(out, Compression::default());
    gz.write_all(&encoded(profile).encode_to_vec())?;
    gz.finish()?.flush()
}

/// What each frame is numbered by.
#[derive(Default)]
struct Numbers {
    strings: HashMap<String, i64>,
    functions: HashMap<i64, u64>,
    locations: HashMap<(u64, Option<usize>), u64>,
    all: Encoded,
}

impl Numbers {
    fn string(&mut self, text: &str) -> i64 {
        if let Some(known) = self.strings.get(text) {
            return *known;
        }
        let number = self.all.string_table.len() as i64;
        self.all.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), number);
        number
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.string(kind), unit: self.string(unit) }
    }

    fn location(&mut self, frame: &ProfileFrame) -> u64 {
        let key = (frame.address, frame.map);
        if let Some(known) = self.locations.get(&key) {
            return *known;
        }
        let name = self.string(&frame.name());
        let filename = self.string(frame.file.as_deref().unwrap_or(""));
        let next = self.all.function.len() as u64 + 1;
        let function_id = *self.functions.entry(name).or_insert(next);
        if function_id == next {
            let function = Function { id: next, name, system_name: name, filename };
            self.all.function.push(function);
        }
        let id = self.all.location.len() as u64 + 1;
        self.all.location.push(Location {
            id,
            mapping_id: frame.map.map_or(0, |map| map as u64 + 1),
            address: frame.address,
            line: vec![Line { function_id }],
        });
        self.locations.insert(key, id);
        id
    }
}

fn encoded(profile: &Profile) -> Encoded {
    let mut numbers = Numbers::default();
    numbers.string("");
    let types = [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ];
    for (kind, unit) in types {
        let one = numbers.value_type(kind, unit);
        numbers.all.sample_type.push(one);
    }
    for (nth, map) in profile.maps.iter().enumerate() {
        let filename = numbers.string(&map.loaded.path.display().to_string());
        let build_id = numbers.string(map.build_id.as_deref().unwrap_or(""));
        numbers.all.mapping.push(Mapping {
            id: nth as u64 + 1,
            memory_start: map.loaded.memory.start,
            memory_limit: map.loaded.memory.end,
            file_offset: map.loaded.offset,
            filename,
            build_id,
            has_functions: true,
        });
    }
    for site in &profile.sites {
        let location_id = site.frames.iter().map(|frame| numbers.location(frame)).collect();
        let value = [site.alloc_objects, site.alloc_bytes, site.live_objects, site.live_bytes];
        let value = value.into_iter().map(|number| number.round() as i64).collect();
        numbers.all.sample.push(EncodedSample { location_id, value });
    }
    let since = profile.began.duration_since(UNIX_EPOCH).unwrap_or_default();
    numbers.all.time_nanos = i64::try_from(since.as_nanos()).unwrap_or(0);
    numbers.all.duration_nanos = i64::try_from(profile.duration.as_nanos()).unwrap_or(0);
    numbers.all.period_type = Some(numbers.value_type("space", "bytes"));
    numbers.all.period = profile.rate as i64;
    numbers.all.default_sample_type = numbers.string("inuse_space");
    numbers.all
}
