//! What mimalloc prints at exit (`MIMALLOC_SHOW_STATS=1`, `mi_stats_print`): a line a number, with
//! its peak, total and current value.
//!
//! ```text
//! heap stats:     peak       total     current       block      total#      versions 2.1 and later
//! heap stats:    peak      total      freed    current       unit      count   versions to 2.0
//!   reserved:     1.0 GiB     1.0 GiB     1.0 GiB
//!  arenas           peak       total     current       block      total#      version 3, by parts
//! ```
//!
//! Values have one digit behind the point: they are ranges.

use super::found::{Outcome, Pasted};
use super::lines::{self, Line};
use super::rounded::{self, Rounded};

/// A line that says what its columns are.
fn heading(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "peak")?;
    (at >= 1 && words.contains(&"total") && words.contains(&"current"))
        .then(|| words[at..].to_vec())
}

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let Some(begin) = lines.iter().position(|line| heading(line.text).is_some()) else {
        return Outcome::Absent;
    };
    let columns = heading(lines[begin].text).unwrap_or_default();
    let Some(current) = columns.iter().position(|column| *column == "current") else {
        return Outcome::Absent;
    };
    // Version 3 prints the sum of blocks above the first heading of its parts.
    let from = lines[..begin].iter().rposition(|line| line.text.starts_with("subproc"));
    let mut rows: Vec<(&str, Vec<Option<Rounded>>)> = Vec::new();
    for line in &lines[from.unwrap_or(begin)..] {
        if let Some((key, rest)) = line.text.split_once(':') {
            rows.push((key.trim().trim_start_matches('-'), values(rest)));
        }
    }
    let find = |name: &str| rows.iter().position(|(key, _)| *key == name);
    let value = |at: usize| rows.get(at)?.1.get(current).copied()?;
    let of = |name: &str| find(name).and_then(value);
    let Some(committed) = of("committed") else {
        let number = lines[begin].number;
        return Outcome::Damaged(format!(
            "behind its heading in line {number} is no line `committed:` with {} values",
            columns.len().min(4)
        ));
    };
    pasted.heap(Some("mimalloc".into()));
    pasted.total("committed", committed.value());
    let segments = find("segments");
    let abandoned = segments.and_then(|at| (rows.get(at + 1)?.0 == "abandoned").then_some(at + 1));
    // Version 3 has pages in place of segments.
    let abandoned =
        abandoned.or_else(|| find("pages").filter(|_| segments.is_none()).and(find("abandoned")));
    let all = [
        ("live", of("total")),
        ("reserved", of("reserved")),
        ("segments", segments.or_else(|| find("pages")).and_then(value)),
        ("segments_abandoned", abandoned.and_then(value)),
    ];
    for (name, value) in all {
        value.into_iter().for_each(|value| pasted.total(name, value.value()));
    }
    if of("total").is_none() {
        pasted.miss("live", "this build of mimalloc counts no blocks (MI_STAT)");
    }
    let process = lines
        .iter()
        .find(|line| line.text.trim_start().starts_with("process") && line.text.contains("rss: "));
    let rss = process.and_then(|line| line.text.split_once("rss: ")).map(|(_, rest)| values(rest));
    match rss.and_then(|values| values.first().copied().flatten()) {
        // Of the version it depends whether this is the peak: the text says so.
        Some(rss) if !process.is_some_and(|line| line.text.contains("peak rss")) => {
            pasted.total("resident", rss.value());
        }
        Some(_) => {
            pasted.miss("resident", "the text tells its peak, and not what it was at the end")
        }
        None => {
            let last = lines.iter().rev().find(|line| !line.text.trim().is_empty());
            let last = last.map_or(String::new(), |line| {
                format!(" (line {}: {})", line.number, lines::shown(line.text))
            });
            pasted.miss(
                "statistics of mimalloc",
                format!("the text ends before the line `process:`{last}"),
            );
        }
    }
    Outcome::Read
}

/// The values of a row, each with its unit; one that is negative is none.
fn values(text: &str) -> Vec<Option<Rounded>> {
    let mut values = Vec::new();
    let mut words = text.split_whitespace().map(|word| word.trim_end_matches(',')).peekable();
    while let Some(word) = words.next() {
        if !word.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit()) {
            break;
        }
        let unit = words.next_if(|word| rounded::is_unit(word)).unwrap_or("");
        values.push(Rounded::with_unit(word, unit));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use crate::snapshot::Snapshot;
    use crate::value::Value;

    const OLD: &str = "\
heap stats:    peak      total      freed    current       unit      count   
  reserved:  288.0 MiB  288.0 MiB      0      288.0 MiB                        
 committed:  215.6 MiB  216.5 MiB    5.2 MiB  211.3 MiB                        
  segments:      9          9          8          1                            not all freed!
-abandoned:      8          8          0          8                            not all freed!
   -cached:      0          0          0          0                            ok
     pages:      0          0         52        -52                            ok
   process: user: 0.022 s, system: 0.065 s, faults: 1, rss: 176.8 MiB, commit: 215.6 MiB
";
    const NEW: &str = "\
heap stats:     peak       total     current       block      total#   
    binned:   116.7 MiB   168.0 MiB    16.8 MiB                          not all freed
     total:   116.7 MiB   171.4 MiB    20.1 MiB                          
  reserved:     1.0 GiB     1.0 GiB     1.0 GiB                          
 committed:     1.0 GiB     1.0 GiB   943.8 MiB                          
  segments:     9          17           9      
-abandoned:     8           8           7      
   process: user: 0.031 s, system: 0.416 s, faults: 0, peak rss: 194.6 MiB, peak commit: 1.0 GiB
";
    const V3: &str = "\
subproc 0
  binned    :    59.7 Mi    168.1 Mi     16.9 Mi                           not all freed
  total     :    59.7 MiB   171.4 MiB    20.1 MiB                          

 pages           peak       total     current       block      total#   
  pages     :     2.4 K       2.4 K       2.4 K  
  abandoned :     2.4 K       5.3 K       1.2 K  

 arenas          peak       total     current       block      total#   
  reserved  :     1.0 GiB     1.0 GiB     1.0 GiB                          
  committed :   162.1 MiB   162.1 MiB   160.3 MiB                          
  process   : user: 0.095 s, system: 0.422 s, faults: 0, peak rss: 165.0 MiB, peak commit: 162.1 MiB
";

    fn has(snapshot: &Snapshot, name: &str, number: u64) -> bool {
        snapshot
            .total(name)
            .and_then(Value::bounds)
            .is_some_and(|(a, b)| a <= number && number <= b)
    }

    #[test]
    fn each_version_is_read_by_its_columns() {
        let mib = |n: f64| (n * 1_048_576.0) as u64;
        let old = read(OLD, 0).unwrap();
        assert!(has(&old, "committed", mib(211.3)) && has(&old, "resident", mib(176.8)), "{old:?}");
        assert_eq!(
            (old.total("segments_abandoned"), old.total("live")),
            (Some(&Value::Exact(8)), None)
        );
        let new = read(NEW, 0).unwrap();
        assert!(has(&new, "committed", mib(943.8)) && has(&new, "live", mib(20.1)), "{new:?}");
        assert_eq!(new.total("segments_abandoned"), Some(&Value::Exact(7)));
        assert_eq!(new.total("resident"), None);
        let v3 = read(V3, 0).unwrap();
        assert!(has(&v3, "committed", mib(160.3)) && has(&v3, "live", mib(20.1)), "{v3:?}");
        assert!(has(&v3, "segments_abandoned", 1228), "{v3:?}");
    }

    #[test]
    fn a_cut_text_says_so() {
        let cut = read(&NEW[..NEW.find("   process").unwrap()], 0).unwrap();
        assert!(cut.missing[0].why.contains("before the line `process:`"));
        assert!(
            format!("{:?}", read(&NEW[..150], 0)).contains("looked for statistics of mimalloc")
        );
    }
}
