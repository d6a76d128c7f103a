//! Checks that the parts of a `perf.data` file, by their stated sizes, lie within the file.
//!
//! The crate `linux-perf-data` allocates memory by the file's sizes and counts before it reads the
//! data. So a damaged file could request more memory than there is, which would kill the program.
//! This module first compares each such size with the file's size; the crate itself reports all
//! other faults.
//!
//! Linux describes the format in `tools/perf/Documentation/perf.data-file-format.txt`.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

/// Bytes of the header of a file that can be sought in; of one written to a pipe, 16.
const HEADER: u64 = 104;
/// Where the header says where the events' attributes lie, and how many bytes they are.
pub const ATTRIBUTES: u64 = 24;
/// Bytes of an event's attributes in the oldest kernels (perf_event_open(2)); the crate divides by what
/// the file says.
const LEAST_ATTR: u64 = 64;
/// The features that the crate reads at once: [`super::Feature::EVENT_DESC`].
const EVENT_DESC: usize = 12;
/// A record that bytes follow which its size does not count.
const AUXTRACE: u32 = 71;

/// What keeps the file from being read, in words; `None` if nothing of this kind does.
///
/// # Errors
/// The file cannot be read.
pub fn refusal(file: &mut (impl Read + Seek)) -> io::Result<Option<&'static str>> {
    let len = file.seek(SeekFrom::End(0))?;
    let found = within(file, len);
    file.rewind()?;
    match found {
        Ok(()) => Ok(None),
        Err(BoundsError::Why(why)) => Ok(Some(why)),
        Err(BoundsError::Io(error)) if error.kind() == ErrorKind::UnexpectedEof => {
            Ok(Some("it is cut off"))
        }
        Err(BoundsError::Io(error)) => Err(error),
    }
}

enum BoundsError {
    Why(&'static str),
    Io(io::Error),
}

impl From<io::Error> for BoundsError {
    fn from(error: io::Error) -> BoundsError {
        BoundsError::Io(error)
    }
}

fn within(file: &mut (impl Read + Seek), len: u64) -> Result<(), BoundsError> {
    file.seek(SeekFrom::Start(8))?;
    let [size, attr_size] = words(file)?;
    if size < HEADER {
        return Err(BoundsError::Why("perf wrote it to a pipe: name a file by perf record -o"));
    }
    if attr_size < LEAST_ATTR {
        return Err(BoundsError::Why("its header is damaged: it has attributes of no event"));
    }
    let sections: [u64; 6] = words(file)?;
    let features: [u64; 4] = words(file)?;
    for section in sections.chunks(2) {
        section_within(section, len)?;
    }
    let (data, data_size) = (sections[2], sections[3]);
    if data_size == 0 {
        return Err(BoundsError::Why(
            "it holds no events, or perf was killed before it could end the file",
        ));
    }
    records_within(file, data, data + data_size)?;
    file.seek(SeekFrom::Start(data + data_size))?;
    let mut event_desc = None;
    let nr_features: u32 = features.iter().map(|word| word.count_ones()).sum();
    let before = (features[0] & ((1 << EVENT_DESC) - 1)).count_ones();
    for nth in 0..nr_features {
        let section: [u64; 2] = words(file)?;
        section_within(&section, len)?;
        if nth == before && features[0] >> EVENT_DESC & 1 == 1 {
            event_desc = Some(section);
        }
    }
    match event_desc {
        Some([at, size]) => {
            file.seek(SeekFrom::Start(at))?;
            descriptions_within(&mut file.take(size))
        }
        None => Ok(()),
    }
}

fn section_within(section: &[u64], len: u64) -> Result<(), BoundsError> {
    let end = section[0].checked_add(section[1]);
    match end.is_some_and(|end| end <= len) {
        true => Ok(()),
        false => Err(BoundsError::Why(
            "it is cut off or damaged: by its header, it is longer than it is",
        )),
    }
}

/// Of records only those that say by a field of their own how much follows.
fn records_within(file: &mut (impl Read + Seek), at: u64, end: u64) -> Result<(), BoundsError> {
    let mut at = at;
    file.seek(SeekFrom::Start(at))?;
    while at + 8 <= end {
        let [head] = words(file)?;
        let (kind, size) = (head as u32, head >> 48);
        if size < 8 {
            // The crate says so.
            return Ok(());
        }
        let (mut follows, mut read) = (0, 8);
        if kind == AUXTRACE && size >= 16 {
            [follows] = words(file)?;
            read = 16;
        }
        at = match at.checked_add(size).and_then(|at| at.checked_add(follows)) {
            Some(next) if next <= end => next,
            _ => return Err(BoundsError::Why("a record of it is longer than the file")),
        };
        // Relative, so that what is in a buffer stays there.
        file.seek_relative((size + follows - read) as i64)?;
    }
    Ok(())
}

/// The events' descriptions: each with a count of numbers and the length of a name.
fn descriptions_within(section: &mut io::Take<impl Read>) -> Result<(), BoundsError> {
    let [both] = words(section)?;
    let (nr, attr_size) = (both as u32, both >> 32);
    for _ in 0..nr {
        skip(section, attr_size)?;
        let [both] = words(section)?;
        let (nr_ids, len) = (both as u32, both >> 32);
        if section.limit() < u64::from(nr_ids) * 8 + len {
            return Err(BoundsError::Why("it describes more events than it has room for"));
        }
        skip(section, len + u64::from(nr_ids) * 8)?;
    }
    Ok(())
}

fn skip(section: &mut io::Take<impl Read>, bytes: u64) -> io::Result<()> {
    match io::copy(&mut section.by_ref().take(bytes), &mut io::sink())? == bytes {
        true => Ok(()),
        false => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// The next numbers of a file.
///
/// # Errors
/// The file cannot be read, or has no more.
pub fn words<const N: usize>(file: &mut impl Read) -> io::Result<[u64; N]> {
    let mut words = [0; N];
    for word in &mut words {
        let mut bytes = [0; 8];
        file.read_exact(&mut bytes)?;
        *word = u64::from_le_bytes(bytes);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A file with one event described by two numbers, one ordinary record and one that bytes follow;
    /// with the place of each size in it.
    fn file() -> (Vec<u8>, [(&'static str, usize, usize); 7]) {
        let mut file = b"PERFILE2".to_vec();
        let put = |file: &mut Vec<u8>, words: &[u64]| {
            words.iter().for_each(|word| file.extend(word.to_le_bytes()));
        };
        let (data, data_size, desc_size) = (HEADER, 8 + 8 + 24 + 16, 8 + 16 + 8 + 8 + 16);
        let desc = data + data_size + 16;
        put(
            &mut file,
            &[HEADER, LEAST_ATTR, 0, 0, data, data_size, 0, 0, 1 << EVENT_DESC, 0, 0, 0],
        );
        put(&mut file, &[9 | 16 << 48, 0, u64::from(AUXTRACE) | 24 << 48, 16, 0, 0, 0]);
        put(&mut file, &[desc, desc_size]);
        put(
            &mut file,
            &[1 | 16 << 32, 0, 0, 2 | 8 << 32, u64::from_le_bytes(*b"kmem:a\0\0"), 1, 2],
        );
        let at = |what, at: u64, bytes| (what, at as usize, bytes);
        let places = [
            at("data", 48, 8),
            at("record", data + 6, 2),
            at("what follows a record", data + 24, 8),
            at("feature", data + data_size + 8, 8),
            at("events", desc, 4),
            at("numbers of an event", desc + 24, 4),
            at("name of an event", desc + 28, 4),
        ];
        (file, places)
    }

    fn refused(file: &[u8]) -> Option<&'static str> {
        refusal(&mut Cursor::new(file)).unwrap()
    }

    #[test]
    fn a_size_beyond_the_file_is_refused() {
        let (sound, places) = file();
        assert_eq!(refused(&sound), None);
        for (what, at, bytes) in places {
            let mut damaged = sound.clone();
            damaged[at..at + bytes].fill(0xff);
            assert!(refused(&damaged).is_some(), "{what}");
            // And one that is not beyond all numbers.
            damaged[at..at + bytes].fill(0);
            damaged[at + bytes - 1] = 0x10;
            assert!(refused(&damaged).is_some(), "{what}");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_is_refused() {
        let (sound, _) = file();
        for len in 8..sound.len() {
            assert!(refused(&sound[..len]).is_some(), "{len}");
        }
    }

    #[test]
    fn what_has_no_events_or_was_a_pipe_is_told_apart() {
        let (sound, _) = file();
        let with = |at: usize, word: u64| {
            let mut file = sound.clone();
            file[at..at + 8].copy_from_slice(&word.to_le_bytes());
            refused(&file).unwrap()
        };
        assert!(with(8, 16).contains("pipe"));
        assert!(with(48, 0).contains("killed"));
        assert!(with(16, 0).contains("attributes"));
    }
}
