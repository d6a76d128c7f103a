//! What is needed of a sample in `perf.data`: its time, its CPU and the bytes of the kernel's record.
//!
//! The fields lie in the order that perf_event_open(2) states. The crate `linux-perf-data`
//! multiplies the length of a call chain that the file states without a check, takes the counts of
//! one event for those of a group, and forgets that counts may be followed by losses.
//!
//! Neighbours: [`super`] has the file's records, [`bounds`] has seen that its header is sound. Invariant:
//! no length that a file states is taken before it is seen to lie within the record.

use super::bounds;
use linux_perf_data::linux_perf_event_reader::{RawData, ReadFormat, SampleFormat};
use std::io::{self, Read, Seek, SeekFrom};

/// Of an event's `read_format`, since Linux 6.0.
const LOST: u64 = 1 << 4;
/// Where `read_format` lies in an event's attributes.
const READ_FORMAT: u64 = 32;

/// A sample with all that an event is made of.
pub struct Sample<'a> {
    /// In ns, of the clock of the recording.
    pub time: u64,
    /// Its number.
    pub cpu: u32,
    /// The kernel's record, as in its ring buffer.
    pub raw: RawData<'a>,
}

/// Whether behind each count is how many samples of its event were lost: `perf` asks so of all events or of
/// none. By the attributes of the first event of a file whose header is sound, which is left at its
/// beginning.
///
/// # Errors
/// The file cannot be read.
pub fn have_losses(file: &mut (impl Read + Seek)) -> io::Result<bool> {
    file.seek(SeekFrom::Start(bounds::ATTRIBUTES))?;
    let [at, bytes] = bounds::words(file)?;
    let mut format = 0;
    if bytes >= READ_FORMAT + 8 {
        file.seek(SeekFrom::Start(at + READ_FORMAT))?;
        [format] = bounds::words(file)?;
    }
    file.rewind()?;
    Ok(format & LOST != 0)
}

/// The sample in the body of a record; `None` if the recording has samples without one of its parts.
///
/// # Errors
/// The record is shorter than it says.
pub fn read<'a>(
    data: RawData<'a>,
    format: SampleFormat,
    read_format: ReadFormat,
    losses: bool,
) -> io::Result<Option<Sample<'a>>> {
    let mut rest = Rest(data);
    let (mut time, mut cpu) = (None, None);
    for part in [
        SampleFormat::IDENTIFIER,
        SampleFormat::IP,
        SampleFormat::TID,
        SampleFormat::TIME,
        SampleFormat::ADDR,
        SampleFormat::ID,
        SampleFormat::STREAM_ID,
        SampleFormat::CPU,
        SampleFormat::PERIOD,
    ] {
        if format.contains(part) {
            let word = rest.word()?;
            match part {
                SampleFormat::TIME => time = Some(word),
                // Its upper half is reserved.
                SampleFormat::CPU => cpu = Some(word as u32),
                _ => {}
            }
        }
    }
    if format.contains(SampleFormat::READ) {
        rest.skip_counts(read_format, losses)?;
    }
    if format.contains(SampleFormat::CALLCHAIN) {
        let calls = rest.word()?;
        rest.skip_words(calls)?;
    }
    let (Some(time), Some(cpu), true) = (time, cpu, format.contains(SampleFormat::RAW)) else {
        return Ok(None);
    };
    let mut bytes = [0; 4];
    rest.0.read_exact(&mut bytes)?;
    let raw = rest.0.split_off_prefix(u32::from_le_bytes(bytes) as usize)?;
    Ok(Some(Sample { time, cpu, raw }))
}

/// What is left of a record.
struct Rest<'a>(RawData<'a>);

impl Rest<'_> {
    fn word(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn skip_words(&mut self, n: u64) -> io::Result<()> {
        // What is beyond all numbers is beyond the record.
        self.0.skip(n.saturating_mul(8) as usize)
    }

    /// The counts of one event, or how many there are of a group and these.
    fn skip_counts(&mut self, format: ReadFormat, losses: bool) -> io::Result<()> {
        let has = |part| u64::from(format.contains(part));
        let times = has(ReadFormat::TOTAL_TIME_ENABLED) + has(ReadFormat::TOTAL_TIME_RUNNING);
        let of_each = 1 + has(ReadFormat::ID) + u64::from(losses);
        if format.contains(ReadFormat::GROUP) {
            let events = self.word()?;
            self.skip_words(times.saturating_add(events.saturating_mul(of_each)))
        } else {
            self.skip_words(times + of_each)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a record's body, with four bytes of the kernel's record at its end.
    fn body(words: &[u64]) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(4u32.to_le_bytes());
        bytes.extend(*b"slab");
        bytes
    }

    fn needed() -> SampleFormat {
        SampleFormat::TIME | SampleFormat::CPU | SampleFormat::RAW
    }

    #[track_caller]
    fn holds(words: &[u64], more: SampleFormat, read_format: ReadFormat) {
        holds_of(words, more, read_format, false);
    }

    #[track_caller]
    fn holds_of(words: &[u64], more: SampleFormat, read_format: ReadFormat, losses: bool) {
        let bytes = body(words);
        let sample = read(RawData::Single(&bytes), needed() | more, read_format, losses);
        let sample = sample.expect("it is as long as it says").expect("it has all parts");
        assert_eq!((sample.time, sample.cpu, &*sample.raw.as_slice()), (7, 3, &b"slab"[..]));
    }

    #[test]
    fn parts_lie_as_the_kernel_puts_them() {
        let (none, cpu) = (ReadFormat::empty(), 3 | 9 << 32);
        holds(&[7, cpu], SampleFormat::empty(), none);
        let before = SampleFormat::IDENTIFIER | SampleFormat::IP | SampleFormat::TID;
        holds(&[1, 2, 4, 7, cpu], before, none);
        let between = SampleFormat::ADDR | SampleFormat::ID | SampleFormat::STREAM_ID;
        holds(&[7, 1, 2, 4, cpu, 5], between | SampleFormat::PERIOD, none);
        holds(&[7, cpu, 2, 10, 11], SampleFormat::CALLCHAIN, none);
    }

    #[test]
    fn counts_of_one_event_and_of_a_group_are_passed_over() {
        let (read, cpu) = (SampleFormat::READ, 3);
        holds(&[7, cpu, 100], read, ReadFormat::empty());
        let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        holds(&[7, cpu, 100, 1, 1, 5], read, times | ReadFormat::ID);
        holds(&[7, cpu, 2, 100, 200], read, ReadFormat::GROUP);
        let all = times | ReadFormat::ID | ReadFormat::GROUP;
        holds(&[7, cpu, 2, 1, 1, 100, 5, 200, 6], read, all);
        holds_of(&[7, cpu, 100, 5, 1], read, ReadFormat::ID, true);
        holds_of(
            &[7, cpu, 2, 100, 5, 1, 200, 6, 1],
            read,
            ReadFormat::ID | ReadFormat::GROUP,
            true,
        );
    }

    #[test]
    fn that_losses_follow_counts_is_told_by_the_first_events_attributes() {
        for (format, losses) in [(LOST, true), (LOST | 8, true), (8, false)] {
            let mut file = vec![0; 24];
            file.extend([48u64.to_le_bytes(), 80u64.to_le_bytes(), [0; 8]].concat());
            file.extend([[0; 8], [0; 8], [0; 8], [0; 8], u64::to_le_bytes(format)].concat());
            let mut file = io::Cursor::new(file);
            assert_eq!(have_losses(&mut file).expect("a file"), losses);
            assert_eq!(file.position(), 0);
        }
    }

    #[test]
    fn a_length_beyond_the_record_is_an_error() {
        for calls in [2, 1 << 61, 1 << 63, u64::MAX] {
            let bytes = body(&[7, 3, calls]);
            let format = needed() | SampleFormat::CALLCHAIN;
            assert!(
                read(RawData::Single(&bytes), format, ReadFormat::empty(), false).is_err(),
                "{calls}"
            );
            let format = needed() | SampleFormat::READ;
            let group = ReadFormat::GROUP | ReadFormat::ID;
            assert!(read(RawData::Single(&bytes), format, group, false).is_err(), "{calls}");
        }
        let mut long = body(&[7, 3]);
        long[16] = 5;
        assert!(read(RawData::Single(&long), needed(), ReadFormat::empty(), false).is_err());
    }

    #[test]
    fn a_sample_without_a_part_is_none() {
        for missing in [SampleFormat::TIME, SampleFormat::CPU, SampleFormat::RAW] {
            let bytes = body(&[7, 3]);
            let sample =
                read(RawData::Single(&bytes), needed() - missing, ReadFormat::empty(), false);
            assert!(sample.expect("it is long enough").is_none(), "{missing:?}");
        }
    }
}
