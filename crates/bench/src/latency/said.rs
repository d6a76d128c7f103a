//! Parses what a process of `loads/latency.c` prints.

use serde::Serialize;

/// The percentiles, in the order in which the load prints them.
pub const SHARES: [&str; 4] = ["p50", "p99", "p99.9", "p99.99"];
/// Place of the one that is judged.
pub const P999: usize = 2;

/// Calls of 1 to 2 microseconds, 2 to 4 and so on, as the load counts them.
pub const SLOW: [&str; 11] =
    ["1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024 and more"];

/// What was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Nothing: the clock read twice.
    Empty,
    Malloc,
    /// Of an object that the same thread allocated.
    Free,
    /// Of one that another thread did.
    Handed,
}

/// In the order in which the load prints them.
pub const CALLS: [Call; 4] = [Call::Empty, Call::Malloc, Call::Free, Call::Handed];

impl Call {
    /// The load's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Malloc => "malloc",
            Self::Free => "free",
            Self::Handed => "handed",
        }
    }
}

/// All samples of one call, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Times {
    pub count: u64,
    pub percentiles: [f64; SHARES.len()],
    pub max: f64,
    /// Calls of each of [`SLOW`].
    pub slow: [u64; SLOW.len()],
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    empty: Times,
    malloc: Times,
    free: Times,
    handed: Times,
    /// Minor page faults.
    pub faults: u64,
    /// Involuntary context switches.
    pub switches: u64,
}

impl Run {
    /// The times of a call.
    pub fn of(&self, call: Call) -> &Times {
        match call {
            Call::Empty => &self.empty,
            Call::Malloc => &self.malloc,
            Call::Free => &self.free,
            Call::Handed => &self.handed,
        }
    }

    /// A percentile without what the clock takes, as its median says.
    pub fn net(&self, call: Call, place: usize) -> f64 {
        self.of(call).percentiles[place] - self.empty.percentiles[0]
    }
}

/// Reads what the load said; none if it is anything else.
pub fn run_of(text: &str) -> Option<Run> {
    let mut lines = text.lines();
    let mut times = |call: Call| times_of(lines.next()?.strip_prefix(call.word())?);
    let [empty, malloc, free, handed] =
        [times(CALLS[0])?, times(CALLS[1])?, times(CALLS[2])?, times(CALLS[3])?];
    let (faults, switches) = lines.next()?.strip_prefix("faults ")?.split_once(' ')?;
    let (faults, switches) = (faults.parse().ok()?, switches.parse().ok()?);
    lines.next().is_none().then_some(Run { empty, malloc, free, handed, faults, switches })
}

fn times_of(fields: &str) -> Option<Times> {
    let mut fields = fields.strip_prefix(' ')?.split(' ');
    let count = fields.next()?.parse().ok()?;
    let mut numbers = || fields.next()?.parse().ok();
    let percentiles = [numbers()?, numbers()?, numbers()?, numbers()?];
    let max = numbers()?;
    let slow: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
    Some(Times { count, percentiles, max, slow: slow.try_into().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "empty 5 510.5 529.5 781.5 800.0 900.0 0 0 0 0 0 0 0 0 0 0 0\n\
                        malloc 20 521.5 600.0 1281.5 2.0 3.0 0 0 0 0 0 0 0 0 0 0 0\n\
                        free 19 1.0 2.0 3.0 4.0 5.0 6 5 0 0 0 0 0 0 0 0 1\n\
                        handed 2 1.0 2.0 3.0 4.0 5.0 0 0 0 0 0 0 0 0 0 0 0\nfaults 40 7\n";

    #[test]
    fn every_line_is_read() {
        let run = run_of(SAID).unwrap();
        assert_eq!((run.of(Call::Empty).count, run.of(Call::Free).count), (5, 19));
        assert_eq!(run.of(Call::Free).percentiles, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(run.of(Call::Free).max, 5.0);
        assert_eq!(run.of(Call::Free).slow, [6, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(run.of(Call::Handed).count, 2);
        assert_eq!(run.net(Call::Malloc, P999), 771.0);
        assert_eq!((run.faults, run.switches), (40, 7));
    }

    #[test]
    fn other_lines_are_refused() {
        let broken = [
            SAID.replace("malloc", "calloc"),
            SAID.replace("faults 40 7\n", ""),
            SAID.replace(" 1\n", "\n"),
            SAID.replace("handed 2", "handled 2"),
            SAID.replace("529.5", "fast"),
            format!("{SAID}more\n"),
        ];
        for text in broken {
            assert!(run_of(&text).is_none(), "{text}");
        }
    }
}
