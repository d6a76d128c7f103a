//! What glibc's `malloc_info` writes: XML with an element per arena, and sums behind them
//! (malloc_info(3)).
//!
//! ```text
//! <heap nr="1">
//!   <size from="17" to="32" total="2240" count="70"/>
//! <total type="fast" count="940" size="78768"/>
//! <total type="rest" count="2684" size="18560251"/>
//! <system type="current" size="20668416"/>
//! </heap>
//! ```
//!
//! An arena is a cache here, with its bytes and those of its blocks that are not free. The text is
//! read tag by tag, so that one that was cut says what it says.

use super::found::{Outcome, Pasted};
use super::lines::{self, Line};

/// An arena, or their sum.
#[derive(Clone, Copy, Debug, Default)]
struct Arena {
    fast: Option<u64>,
    rest: Option<u64>,
    system: Option<u64>,
    mapped: Option<(u64, u64)>,
}

impl Arena {
    fn free(&self) -> Option<u64> {
        self.fast?.checked_add(self.rest?)
    }

    fn live(&self) -> Option<u64> {
        self.system?.checked_sub(self.free()?)
    }
}

/// What is said of a number that glibc does not tell.
pub(super) const TCACHE: (&str, &str) =
    ("parked_cpu", "glibc counts as live what threads' own caches (tcache) hold");

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let Some(begin) = lines.iter().position(|line| line.text.contains("<malloc version=")) else {
        return Outcome::Absent;
    };
    let (mut arenas, mut sum) = (Vec::new(), Arena::default());
    let mut open: Option<(u64, Arena)> = None;
    let mut is_ended = false;
    let mut strange = Vec::new();
    for line in lines.iter().skip(begin) {
        for tag in line.text.split('<').skip(1) {
            let Some((tag, _)) = tag.split_once('>') else {
                strange.push(*line);
                continue;
            };
            let attribute = |name: &str| attribute(tag, name);
            let size = || attribute("size").and_then(|size| size.parse::<u64>().ok());
            let into = open.as_mut().map_or(&mut sum, |(_, arena)| arena);
            match (tag.split_whitespace().next().unwrap_or_default(), attribute("type")) {
                ("heap", _) => {
                    let number = attribute("nr").and_then(|number| number.parse().ok());
                    open = number.map(|number| (number, Arena::default()));
                }
                ("/heap", _) => arenas.extend(open.take()),
                ("/malloc", _) => is_ended = true,
                ("total", Some("fast")) => into.fast = size(),
                ("total", Some("rest")) => into.rest = size(),
                ("total", Some("mmap")) => {
                    let count = attribute("count").and_then(|count| count.parse().ok());
                    into.mapped = count.zip(size());
                }
                ("system", Some("current")) => into.system = size(),
                _ => {}
            }
        }
        if is_ended {
            break;
        }
    }
    if arenas.is_empty() && sum.live().is_none() {
        let number = lines[begin].number;
        return Outcome::Damaged(format!("behind `<malloc` in line {number} is no whole `<heap>`"));
    }
    pasted.heap(Some("glibc malloc".into()));
    pasted.miss(TCACHE.0, TCACHE.1);
    for (number, arena) in &arenas {
        store(pasted, *number, arena.system, arena.live());
    }
    if let Some(why) = lines::strange(&strange) {
        pasted.miss("malloc_info", why);
    }
    if !is_ended {
        let why = format!("the text ends before `</malloc>`: {} arenas are shown", arenas.len());
        pasted.miss("malloc_info", why);
        let whole = |of: fn(&Arena) -> Option<u64>| {
            arenas.iter().try_fold(0u64, |sum, (_, arena)| sum.checked_add(of(arena)?))
        };
        sum = Arena {
            fast: whole(|arena| arena.fast),
            rest: whole(|arena| arena.rest),
            system: whole(|arena| arena.system),
            mapped: None,
        };
    }
    totals(&sum, pasted);
    Outcome::Read
}

/// Adds an arena as a cache.
pub(super) fn store(pasted: &mut Pasted, number: u64, bytes: Option<u64>, live: Option<u64>) {
    let mut cache = pasted.cache(&format!("arena {number}"));
    for (name, value) in [("bytes", bytes), ("live_bytes", live)] {
        value.into_iter().for_each(|value| cache.set(name, value));
    }
    pasted.snapshot.caches.push(cache);
}

fn totals(sum: &Arena, pasted: &mut Pasted) {
    let mapped = sum.mapped.map_or(0, |(_, bytes)| bytes);
    let all = [
        // Blocks that were mapped one by one are a part of their own.
        ("live", sum.live()),
        ("free_partial", sum.free()),
        ("committed", sum.system.and_then(|system| system.checked_add(mapped))),
        ("mapped", sum.mapped.map(|(_, bytes)| bytes)),
        ("nr_mapped", sum.mapped.map(|(count, _)| count)),
    ];
    for (name, value) in all {
        value.into_iter().for_each(|value| pasted.total(name, value));
    }
}

/// The value of `name="value"` in a tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = tag;
    while let Some((key, behind)) = rest.split_once("=\"") {
        let (value, next) = behind.split_once('"')?;
        if key.trim_end().ends_with(name) && key.split_whitespace().next_back() == Some(name) {
            return Some(value);
        }
        rest = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use crate::snapshot::Snapshot;
    use crate::value::Value;

    const TEXT: &str = r#"<malloc version="1">
<heap nr="0">
<sizes>
  <size from="17" to="32" total="2240" count="70"/>
</sizes>
<total type="fast" count="2" size="96"/>
<total type="rest" count="1" size="27904"/>
<system type="current" size="135168"/>
<aspace type="total" size="135168"/>
</heap>
<heap nr="1">
<total type="fast" count="0" size="0"/>
<total type="rest" count="1" size="1000"/>
<system type="current" size="3000"/>
</heap>
<total type="fast" count="2" size="96"/>
<total type="rest" count="2" size="28904"/>
<total type="mmap" count="1" size="3149824"/>
<system type="current" size="138168"/>
</malloc>
"#;

    fn total(snapshot: &Snapshot, name: &str) -> Option<u64> {
        snapshot.total(name).and_then(Value::exact)
    }

    #[test]
    fn arenas_are_caches_and_their_sum_totals() {
        let found = read(TEXT, 0).unwrap();
        let names: Vec<_> = found.caches.iter().map(|cache| cache.name.as_str()).collect();
        assert_eq!(names, ["arena 0", "arena 1"]);
        assert_eq!(found.caches[0].exact("live_bytes"), Some(135_168 - 28_000));
        assert_eq!(total(&found, "live"), Some(138_168 - 29_000));
        assert_eq!(total(&found, "committed"), Some(138_168 + 3_149_824));
        assert_eq!(total(&found, "nr_mapped"), Some(1));
    }

    #[test]
    fn of_a_cut_text_the_whole_arenas_are_summed() {
        let cut = &TEXT[..TEXT.find("<heap nr=\"1\">").unwrap() + 20];
        let found = read(cut, 0).unwrap();
        assert_eq!(found.caches.len(), 1);
        assert_eq!(total(&found, "committed"), Some(135_168));
        assert!(found.missing.iter().any(|missing| missing.why.contains("1 arenas")));
        let error = format!("{:?}", read("<malloc version=\"1\">\n<heap nr=\"0\">\n", 0));
        assert!(error.contains("no whole `<heap>`"), "{error}");
    }
}
