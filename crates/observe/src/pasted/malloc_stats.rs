//! What glibc's `malloc_stats` prints: for each arena, and for all, the bytes that it has and those
//! in use (malloc_stats(3)).
//!
//! ```text
//! Arena 1:
//! system bytes     =   20668416
//! in use bytes     =    2032080
//! Total (incl. mmap):
//! max mmap regions =          1
//! ```

use super::found::{Outcome, Pasted};
use super::lines::{self, Line};
use super::malloc_info::{self, TCACHE};

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let (mut arenas, mut sum, mut strange) = (Vec::new(), None, Vec::new());
    let mut first = None;
    for (at, line) in lines.iter().enumerate() {
        let of = match heading(line.text) {
            Some(of) => of,
            None => continue,
        };
        first.get_or_insert(line.number);
        let number =
            |behind: usize, key| lines.get(at + behind).and_then(|line| value(line.text, key));
        let Some(pair) = number(1, "system bytes").zip(number(2, "in use bytes")) else {
            strange.extend(lines.get(at + 1).or(Some(line)).copied());
            continue;
        };
        match of {
            Of::Arena(number) => arenas.push((number, pair)),
            Of::All => sum = Some(pair),
        }
    }
    let Some(first) = first else { return Outcome::Absent };
    if arenas.is_empty() && sum.is_none() {
        return Outcome::Damaged(format!(
            "behind line {first} are no lines of `system bytes` and `in use bytes`"
        ));
    }
    pasted.heap(Some("glibc malloc".into()));
    pasted.miss(TCACHE.0, TCACHE.1);
    for (number, (system, in_use)) in &arenas {
        malloc_info::store(pasted, *number, Some(*system), Some(*in_use));
    }
    match sum {
        Some((system, in_use)) => {
            pasted.total("committed", system);
            pasted.total("live", in_use);
            pasted.total("free_partial", system.saturating_sub(in_use));
        }
        None => pasted.miss("malloc_stats", "the text ends before the sum of all arenas"),
    }
    if let Some(why) = lines::strange(&strange) {
        pasted.miss("malloc_stats", why);
    }
    Outcome::Read
}

enum Of {
    Arena(u64),
    All,
}

fn heading(line: &str) -> Option<Of> {
    let line = line.trim();
    if line.starts_with("Total (incl. mmap)") {
        return Some(Of::All);
    }
    line.strip_prefix("Arena ")?.strip_suffix(':')?.parse().ok().map(Of::Arena)
}

fn value(line: &str, key: &str) -> Option<u64> {
    line.trim().strip_prefix(key)?.trim().strip_prefix('=')?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use crate::value::Value;

    const TEXT: &str = "Arena 0:\nsystem bytes     =     135168\nin use bytes     =     103104\n\
        Arena 1:\nsystem bytes     =   20668416\nin use bytes     =    2032080\n\
        Total (incl. mmap):\nsystem bytes     =   23953408\nin use bytes     =    5285008\n";

    #[test]
    fn arenas_and_the_sum_are_read() {
        let found = read(TEXT, 0).unwrap();
        assert_eq!(found.cache("arena 1").unwrap().exact("live_bytes"), Some(2_032_080));
        assert_eq!(found.total("committed"), Some(&Value::Exact(23_953_408)));
        assert_eq!(found.missing.len(), 1);
    }

    #[test]
    fn a_cut_text_says_so() {
        let cut = read(&TEXT[..TEXT.find("Total").unwrap()], 0).unwrap();
        assert!(cut.missing.iter().any(|missing| missing.why.contains("before the sum")));
        assert!(format!("{:?}", read("Arena 0:\nwhat\n", 0)).contains("behind line 1"));
    }
}
