//! Copies of `/proc/PID/smaps` and `smaps_rollup`: the resident memory of a process, by what it
//! belongs to.
//!
//! Neighbour: [`crate::process`] reads the same of a process that runs on Slabyard.

use super::found::{Outcome, Pasted};
use super::lines::{self, Line};
use crate::process::resident::Resident;
use crate::smaps;

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let Some(first) = lines.iter().position(|line| is_mapping(line.text)) else {
        return Outcome::Absent;
    };
    // Without marks of quotes, and to the last line that belongs to a mapping.
    let own: Vec<&Line<'_>> = lines[first..].iter().filter(|line| belongs(line.text)).collect();
    let text: String = own.iter().flat_map(|line| [line.text.trim_start(), "\n"]).collect();
    let number = lines[first].number;
    let rss = sum(&own, "Rss:");
    let Some(rss) = rss else {
        return Outcome::Damaged(format!(
            "behind the mapping in line {number} is no line `Rss:` in kB"
        ));
    };
    let is_rollup = lines[first].text.trim_end().ends_with("[rollup]");
    pasted.heap(None);
    pasted.total("resident", rss);
    if let Some(swapped) = sum(&own, "Swap:") {
        pasted.total("swapped", swapped);
    }
    if is_rollup {
        pasted.miss("what the resident memory belongs to", "smaps_rollup has only the sum");
    } else if let Some(mappings) = smaps::parse(&text) {
        let resident = Resident::of(&mappings, &[]);
        // Which mappings are an allocator's is not to be seen.
        let parts = resident.totals().into_iter().filter(|(name, _)| *name != "resident_allocator");
        parts.for_each(|(name, bytes)| pasted.total(name, bytes));
    }
    let page = own.iter().filter_map(|line| kib(line.text, "KernelPageSize:")).min();
    if pasted.snapshot.machine.page_bytes.is_none() {
        pasted.snapshot.machine.page_bytes = page;
    }
    let mappings = own.iter().filter(|line| is_mapping(line.text)).count();
    let told = own.iter().filter(|line| line.text.trim_start().starts_with("Rss:")).count();
    if mappings > told {
        let last = own.iter().rev().find(|line| is_mapping(line.text));
        let last = last.map_or(String::new(), |line| {
            format!("; the last is in line {}: {}", line.number, lines::shown(line.text))
        });
        pasted.miss(
            "mappings",
            format!("{} of {mappings} have no line `Rss:`{last}", mappings - told),
        );
    }
    Outcome::Read
}

/// "55d0c6a16000-55d0c6e17000 r-xp 00000000 fe:00 10575 /usr/bin/server".
fn is_mapping(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_range = |range: &str| range.split_once('-').is_some_and(|(a, b)| is_hex(a) && is_hex(b));
    let is_mode = |mode: &str| mode.len() == 4 && mode.bytes().all(|b| b"rwxps-".contains(&b));
    words.next().is_some_and(is_range)
        && words.next().is_some_and(is_mode)
        && words.next().is_some_and(is_hex)
}

/// The first line of a mapping, or one that tells something of it.
fn belongs(text: &str) -> bool {
    let key = text.trim_start().split_once(':').map_or("", |(key, _)| key);
    is_mapping(text)
        || (!key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

/// The sum of all lines of a key, in bytes; `None` if there is none, or if one is no number.
fn sum(lines: &[&Line<'_>], key: &str) -> Option<u64> {
    let of_key = lines.iter().filter(|line| line.text.trim_start().starts_with(key));
    let mut of_key = of_key.peekable();
    of_key.peek()?;
    of_key.try_fold(0u64, |sum, line| sum.checked_add(kib(line.text, key)?))
}

fn kib(text: &str, key: &str) -> Option<u64> {
    let rest = text.trim_start().strip_prefix(key)?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use crate::snapshot::SourceKind;
    use crate::value::Value;

    const TEXT: &str = "\
> 55d0c5000000-55d0c5100000 rw-p 00000000 00:00 0          [heap]
> Size:               1024 kB
> KernelPageSize:       16 kB
> Rss:                 100 kB
> Swap:                  3 kB
> 7f0000000000-7f0000100000 rw-p 00000000 00:00 0
> Rss:                 512 kB
> VmFlags: rd wr mr mw me ac
";

    #[test]
    fn resident_memory_is_told_by_owner() {
        let found = read(TEXT, 0).unwrap();
        assert_eq!(found.source.kind, SourceKind::Heap);
        let of = |name: &str| found.total(name).and_then(Value::exact).map(|bytes| bytes >> 10);
        assert_eq!(
            [of("resident"), of("resident_brk"), of("resident_other")],
            [Some(612), Some(100), Some(512)]
        );
        assert_eq!((of("swapped"), found.machine.page_bytes), (Some(3), Some(16384)));
        assert_eq!(found.missing, []);
    }

    #[test]
    fn a_rollup_is_a_sum_and_a_cut_text_is_named() {
        let rollup =
            "5609428c2000-7ffc43e3a000 ---p 00000000 00:00 0    [rollup]\nRss:  166592 kB\n";
        let found = read(rollup, 0).unwrap();
        assert_eq!((found.total("resident_other"), found.missing.len()), (None, 1));
        let cut = &TEXT[..TEXT.find("> Rss:                 512").unwrap()];
        assert!(read(cut, 0).unwrap().missing[0].why.contains("line 6"));
        let damaged = format!("{:?}", read(&TEXT.replace("100 kB", "much"), 0));
        assert!(damaged.contains("looked for smaps"), "{damaged}");
    }
}
