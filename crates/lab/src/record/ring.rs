//! Parses the pages of a ring buffer, as `trace_pipe_raw` delivers them.
//!
//! ```text
//! page:  time (8) | commit: bytes of events, flags | events ... [events lost before]
//! event: type_len:5, time_delta:27 | array of words
//!        1..28  data of 4 * type_len bytes         0  array[0] has the length of the data
//!        29     padding                            30 array[0] has more of the delta
//!        31     array[0] has more of the absolute time
//! ```
//!
//! The format is described in `Documentation/trace/ring-buffer-design.rst` and, for the running
//! kernel, in `events/header_page` and `events/header_event`.

use super::layout::Page;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Flags beside the bytes of a page.
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
/// Bits of an absolute time that an event holds; those above are the page's.
const STAMP_BITS: u32 = 59;

/// Gives each event of a page, with its time in nanoseconds, to `take`. Tells how many events were lost
/// before the page: at least one where the kernel does not say.
///
/// # Errors
/// What is wrong with it.
pub fn walk(
    layout: &Page,
    page: &[u8],
    mut take: impl FnMut(u64, &[u8]),
) -> Result<u64, &'static str> {
    if page.len() < layout.data {
        return Err("it is too short");
    }
    let mut time = layout.timestamp.get(page);
    let commit = layout.commit.get(page);
    let bytes = (commit & (MISSED_STORED - 1)) as usize;
    let events = page.get(layout.data..layout.data + bytes).ok_or("it ends within its events")?;
    let lost = match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => {
            let stored = page.get(layout.data + bytes..).and_then(|rest| rest.first_chunk());
            stored.map_or(1, |bytes| u64::from_ne_bytes(*bytes))
        }
    };
    let mut at = 0;
    let word = |at: usize| -> Result<u32, &'static str> {
        let bytes = events.get(at..).and_then(|rest| rest.first_chunk());
        Ok(u32::from_ne_bytes(*bytes.ok_or("an event is cut off")?))
    };
    while at < bytes {
        let head = word(at)?;
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        at += 4;
        match kind {
            PADDING if delta == 0 => break,
            PADDING => {
                time = time.wrapping_add(delta);
                at += word(at)? as usize;
            }
            TIME_EXTEND => {
                time = time.wrapping_add(u64::from(word(at)?) << 27 | delta);
                at += 4;
            }
            TIME_STAMP => {
                let stamp = u64::from(word(at)?) << 27 | delta;
                time = time >> STAMP_BITS << STAMP_BITS | stamp;
                at += 4;
            }
            _ => {
                time = time.wrapping_add(delta);
                let length = if kind == 0 { word(at)? } else { kind * 4 } as usize;
                // A length beside the type counts itself.
                let (from, end) = if kind == 0 { (at + 4, at + length) } else { (at, at + length) };
                take(time, events.get(from..end).ok_or("an event is cut off")?);
                at += length.next_multiple_of(4);
            }
        }
    }
    Ok(lost)
}

#[cfg(test)]
mod tests {
    use super::super::layout::Field;
    use super::*;

    const LAYOUT: Page = Page {
        timestamp: Field { offset: 0, size: 8 },
        commit: Field { offset: 8, size: 8 },
        data: 16,
        size: 4096,
    };

    fn page(time: u64, flags: u64, words: &[u32], behind: &[u8]) -> Vec<u8> {
        let mut page = time.to_ne_bytes().to_vec();
        page.extend(((words.len() as u64 * 4) | flags).to_ne_bytes());
        words.iter().for_each(|word| page.extend(word.to_ne_bytes()));
        page.extend(behind);
        page
    }

    /// An event's time and bytes.
    type TimedEvent = (u64, Vec<u8>);

    fn events(page: &[u8]) -> Result<(u64, Vec<TimedEvent>), &'static str> {
        let mut found = Vec::new();
        let lost = walk(&LAYOUT, page, |time, event| found.push((time, event.to_vec())))?;
        Ok((lost, found))
    }

    #[test]
    fn events_have_their_lengths_and_times() {
        let words = [
            1 | 5 << 5,
            7, // one word, 5 ns later
            TIME_EXTEND | 1 << 5,
            2, // (2 << 27) + 1 ns later
            0,
            8,
            9, // length beside the type: one word and itself
            PADDING | 3 << 5,
            8,
            0, // padding of two words
            TIME_STAMP | 9 << 5,
            1, // absolute
            2,
            1,
            2,
            PADDING,
            77,
        ];
        let (lost, found) = events(&page(1000, 0, &words, &[])).unwrap();
        let long = 1005 + (2 << 27) + 1;
        let bytes = |words: &[u32]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
        assert_eq!(lost, 0);
        let stamp = (1 << 27) + 9;
        assert_eq!(found, [(1005, bytes(&[7])), (long, bytes(&[9])), (stamp, bytes(&[1, 2]))]);
    }

    #[test]
    fn what_was_lost_is_told() {
        let words = [1, 7];
        assert_eq!(events(&page(1, MISSED, &words, &[])).unwrap().0, 1);
        let stored = page(1, MISSED | MISSED_STORED, &words, &300u64.to_ne_bytes());
        assert_eq!(events(&stored).unwrap().0, 300);
    }

    #[test]
    fn a_page_that_makes_no_sense_is_refused() {
        assert!(events(&[0; 8]).is_err());
        assert!(events(&page(1, 64, &[1, 7], &[])).is_err());
        assert!(events(&page(1, 0, &[28, 7], &[])).is_err());
        assert!(events(&page(1, 0, &[0, 4000], &[])).is_err());
    }
}
