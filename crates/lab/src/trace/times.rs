//! Finds damaged time stamps, by their distance from the trace's other time stamps: most are years
//! away.
//!
//! [`super::csv`] and `script` check each row as they read it; readers of other recorders' files
//! check all events in order of time. Invariant: a single rejected time does not change whether
//! other rows are accepted.

use crate::event::Event;

/// No recording pauses for so long: a year.
pub const MOST_APART_NS: u64 = 366 * 24 * 3600 * 1_000_000_000;

/// The times of rows that were read so far.
#[derive(Default)]
pub struct RowTimes {
    taken: Option<u64>,
    /// That of the last row, whether it was taken or not.
    before: Option<u64>,
}

impl RowTimes {
    /// False if a row's time is years away from that of the last row that was taken. Where the next
    /// row is near it nevertheless, that row is taken: the one that was taken was wrong.
    pub fn takes(&mut self, time: u64) -> bool {
        let near = |other: Option<u64>| other.is_some_and(|other| !are_apart(time, other));
        let takes = self.taken.is_none() || near(self.taken) || near(self.before);
        self.before = Some(time);
        if takes {
            self.taken = Some(time);
        }
        takes
    }
}

/// The event whose time is years away from those of most others. Events are in order of time.
#[must_use]
pub fn astray(events: &[Event]) -> Option<&Event> {
    let gap = events.windows(2).position(|pair| are_apart(pair[0].time, pair[1].time))?;
    let is_first = gap + 1 < events.len() - (gap + 1);
    Some(if is_first { &events[gap] } else { &events[gap + 1] })
}

/// What to tell people of it.
#[must_use]
pub fn told(event: &Event) -> String {
    format!(
        "the event of CPU {}, process {}, at {:.9} s is more than a year from all others: its time \
         is damaged",
        event.cpu,
        event.pid,
        event.time as f64 / 1e9
    )
}

fn are_apart(one: u64, other: u64) -> bool {
    one.abs_diff(other) > MOST_APART_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEARS: u64 = 30 * MOST_APART_NS;

    #[test]
    fn a_row_years_away_is_not_taken_and_those_around_it_are() {
        let taken = |times: &[u64]| -> Vec<bool> {
            let mut rows = RowTimes::default();
            times.iter().map(|time| rows.takes(*time)).collect()
        };
        assert_eq!(taken(&[5, YEARS, 6, 3]), [true, false, true, true]);
        assert_eq!(taken(&[YEARS, YEARS + 1, 0, YEARS + 2]), [true, true, false, true]);
        // If it is the first one, it is known by those behind it.
        assert_eq!(taken(&[YEARS, 1, 2, 3]), [true, false, true, true]);
    }

    #[test]
    fn the_event_that_is_years_away_from_most_is_found() {
        let found = |times: &[u64]| {
            let events: Vec<Event> =
                times.iter().map(|time| Event { time: *time, ..Event::BLANK }).collect();
            astray(&events).map(|event| event.time)
        };
        assert_eq!(found(&[1, 2, 3, 4]), None);
        assert_eq!(found(&[1, 2, 3, YEARS]), Some(YEARS));
        assert_eq!(found(&[1, YEARS, YEARS + 1, YEARS + 2]), Some(1));
        assert_eq!(found(&[]), None);
    }
}
