//! The sources by which a process learns that memory is short (`SLABYARD_PRESSURE`), as text and as
//! values, and its counters of memory pressure ([`PressureCounter`]). The command `slabyard` checks
//! the text with the same parser.
//!
//! ```text
//! psi                        stalls for memory, of the cgroup, else of the machine
//! psi:some 150000 1000000    the same, by a trigger of its own (microseconds)
//! cgroup                     the cgroup's memory: 80 % of its limit, and its events
//! cgroup:64M, cgroup:70%     the same, from this usage on
//! psi,cgroup:70%             both
//! ```

pub use crate::counters::PressureCounter;

/// Stalls for memory, by a trigger of the kernel's pressure stall information
/// (`Documentation/accounting/psi.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Psi<'a> {
    /// What is written into the file: `some` or `full`, stall and window in microseconds.
    pub trigger: &'a [u8],
}

/// From which usage of the cgroup on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Above so much memory, whatever the limit is.
    Bytes(u64),
    /// Percent of its limit.
    Percent(u8),
}

/// What is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure<'a> {
    /// Stalls.
    pub psi: Option<Psi<'a>>,
    /// The cgroup's memory.
    pub cgroup: Option<Level>,
}

/// A stall of 150 ms in one second, for which an idle machine never comes.
pub const TRIGGER: &[u8] = b"some 150000 1000000";

/// Windows that the kernel takes, in microseconds.
const WINDOWS: core::ops::RangeInclusive<u64> = 500_000..=10_000_000;

/// Reads the text; `None` if it is not as above.
///
/// ```
/// use slabyard_abi::pressure::{Level, parse};
/// assert_eq!(parse(b"cgroup:70%").unwrap().cgroup, Some(Level::Percent(70)));
/// assert!(parse(b"psi:some 2000000 1000000").is_none(), "a stall above its window");
/// ```
#[must_use]
pub fn parse(text: &[u8]) -> Option<Pressure<'_>> {
    let mut all = Pressure::default();
    for one in text.split(|c| *c == b',') {
        let at = one.iter().position(|c| *c == b':');
        let (name, value) = match at {
            Some(at) => (&one[..at], Some(&one[at + 1..])),
            None => (one, None),
        };
        match name {
            b"psi" if all.psi.is_none() => all.psi = Some(psi(value.unwrap_or(TRIGGER))?),
            b"cgroup" if all.cgroup.is_none() => {
                all.cgroup = Some(value.map_or(Some(Level::Percent(80)), level)?);
            }
            _ => return None,
        }
    }
    Some(all)
}

fn psi(trigger: &[u8]) -> Option<Psi<'_>> {
    let [stall, window] = times(trigger)?;
    (0 < stall && stall <= window && WINDOWS.contains(&window)).then_some(Psi { trigger })
}

/// Stall and window of a trigger.
#[must_use]
pub fn times(trigger: &[u8]) -> Option<[u64; 2]> {
    let mut words = trigger.split(|c| *c == b' ');
    if !matches!(words.next()?, b"some" | b"full") {
        return None;
    }
    let times = [number(words.next()?)?, number(words.next()?)?];
    words.next().is_none().then_some(times)
}

fn level(text: &[u8]) -> Option<Level> {
    let (last, digits) = text.split_last()?;
    let shift = match last {
        b'%' => {
            let percent = u8::try_from(number(digits)?).ok()?;
            return (1..=99).contains(&percent).then_some(Level::Percent(percent));
        }
        b'K' | b'k' => 10,
        b'M' | b'm' => 20,
        b'G' | b'g' => 30,
        _ => return Some(Level::Bytes(number(text)?)),
    };
    Some(Level::Bytes(number(digits)?.checked_mul(1 << shift)?))
}

/// A decimal number; `None` if the text is another one.
#[must_use]
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |n, c| match c {
        b'0'..=b'9' => n.checked_mul(10)?.checked_add(u64::from(c - b'0')),
        _ => None,
    })
}

/// Of a line of `mountinfo` (proc(5)) what of the hierarchy is mounted, and where.
#[must_use]
pub fn mounted(line: &[u8], version: u8) -> Option<(&[u8], &[u8])> {
    let mut words = line.split(|c| *c == b' ');
    let (part, place) = (words.nth(3)?, words.next()?);
    words.find(|word| *word == b"-")?;
    let kind = words.next()?;
    let options = words.nth(1)?;
    let fits = match version {
        1 => kind == b"cgroup" && options.split(|c| *c == b',').any(|it| it == b"memory"),
        _ => kind == b"cgroup2",
    };
    fits.then_some((part, place))
}

/// Of a line of `/proc/self/cgroup` (cgroups(7)) the path of the process in the hierarchy.
#[must_use]
pub fn own_path(line: &[u8], version: u8) -> Option<&[u8]> {
    let mut words = line.splitn(3, |c| *c == b':');
    let (_, controllers, path) = (words.next()?, words.next()?, words.next()?);
    let fits = match version {
        1 => controllers.split(|c| *c == b',').any(|it| it == b"memory"),
        _ => controllers.is_empty(),
    };
    fits.then_some(path)
}

/// How often usage reached `memory.high` and `memory.max`, by the text of `memory.events`
/// (`Documentation/admin-guide/cgroup-v2.rst`).
#[must_use]
pub fn events(text: &[u8]) -> u64 {
    let lines = text.split(|c| *c == b'\n');
    let values = lines.filter_map(|line| {
        let value = line.strip_prefix(b"high ").or_else(|| line.strip_prefix(b"max "))?;
        number(value)
    });
    values.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read() {
        let trigger = Some(Psi { trigger: TRIGGER });
        for (text, psi, cgroup) in [
            ("psi", trigger, None),
            ("psi:full 1 500000", Some(Psi { trigger: b"full 1 500000" }), None),
            ("cgroup", None, Some(Level::Percent(80))),
            ("cgroup:4096", None, Some(Level::Bytes(4096))),
            ("cgroup:64M", None, Some(Level::Bytes(64 << 20))),
            ("psi,cgroup:99%", trigger, Some(Level::Percent(99))),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(Pressure { psi, cgroup }), "{text}");
        }
    }

    #[test]
    fn what_the_kernel_would_refuse_is_refused() {
        for text in [
            "",
            "psi:",
            "psi:some",
            "psi:some 1",
            "psi:some 1 2 3",
            "psi:some 0 1000000",
            "psi:some 1 10000001",
            "psi:some 1 499999",
            "psi:any 1 1000000",
            "cgroup:",
            "cgroup:0%",
            "cgroup:100%",
            "cgroup:M",
            "cgroup:-1",
            "cgroup:17179869184G",
            "psi,psi",
            "cgroup,cgroup:1%",
            "swap",
            "psi, cgroup",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn lines_of_both_versions_are_told_apart() {
        let first = b"35 31 0:32 /a /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory";
        let second = b"41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw";
        assert_eq!(mounted(first, 1), Some((&b"/a"[..], &b"/sys/fs/cgroup/memory"[..])));
        assert_eq!(mounted(first, 2), None);
        assert_eq!(mounted(second, 2), Some((&b"/"[..], &b"/sys/fs/cgroup"[..])));
        assert_eq!(mounted(b"32 31 0:29 / /x rw - cgroup cgroup rw,cpu", 1), None);
        assert_eq!(own_path(b"4:memory:/x:y", 1), Some(&b"/x:y"[..]));
        assert_eq!(own_path(b"0::/z", 2), Some(&b"/z"[..]));
        assert_eq!(own_path(b"0::/z", 1), None);
    }

    #[test]
    fn events_of_high_and_max_add_up() {
        let text = b"low 7\nhigh 3\nmax 2\noom 5\noom_kill 1\noom_group_kill 0\n";
        assert_eq!(events(text), 5);
        assert_eq!((events(b""), events(b"high x\nmaximum 4\n")), (0, 0));
    }
}
