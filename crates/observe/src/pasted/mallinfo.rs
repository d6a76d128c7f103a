//! The fields of `mallinfo` and `mallinfo2`, as programs print them: a line a field, with its name,
//! in brackets or before `=` or `:`, and its number (mallinfo(3)).
//!
//! Invariant: the fields of `mallinfo` are of 32 bits and wrap; a negative one is not believed.

use super::found::{Outcome, Pasted};
use super::lines::Line;
use super::malloc_info::TCACHE;
use std::collections::BTreeMap;

const FIELDS: [&str; 10] = [
    "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
    "keepcost",
];
/// Fields that tell a printed mallinfo from other text.
const NEEDED: [&str; 3] = ["arena", "uordblks", "fordblks"];

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let mut fields = BTreeMap::new();
    for line in lines {
        if let Some((name, value)) = field(line.text) {
            fields.entry(name).or_insert(value);
        }
    }
    if fields.len() < NEEDED.len() {
        return Outcome::Absent;
    }
    let lacking: Vec<_> = NEEDED.into_iter().filter(|name| !fields.contains_key(name)).collect();
    if !lacking.is_empty() {
        return Outcome::Damaged(format!("it has no line of {}", lacking.join(", ")));
    }
    pasted.heap(Some("glibc malloc".into()));
    pasted.miss(TCACHE.0, TCACHE.1);
    let wrapped: Vec<_> =
        fields.iter().filter(|(_, value)| **value < 0).map(|(name, _)| *name).collect();
    if !wrapped.is_empty() {
        let why = "negative: mallinfo has 32 bits, which wrapped; mallinfo2 has 64";
        pasted.miss(&wrapped.join(", "), why);
    }
    let of = |name: &str| fields.get(name).and_then(|value| u64::try_from(*value).ok());
    let all = [
        ("live", of("uordblks")),
        ("free_partial", of("fordblks")),
        ("mapped", of("hblkhd")),
        ("nr_mapped", of("hblks")),
        ("committed", of("arena").zip(of("hblkhd")).and_then(|(a, b)| a.checked_add(b))),
    ];
    for (name, value) in all {
        value.into_iter().for_each(|value| pasted.total(name, value));
    }
    Outcome::Read
}

/// "Total allocated space (uordblks):   16608208", "uordblks = 16608208".
fn field(line: &str) -> Option<(&'static str, i64)> {
    let (name, value) = line.rsplit_once([':', '='])?;
    let value = value.trim().trim_end_matches([',', ';']).parse().ok()?;
    let name = name.rsplit(|c: char| !c.is_ascii_alphanumeric()).find(|word| !word.is_empty())?;
    FIELDS.into_iter().find(|field| *field == name).map(|field| (field, value))
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use crate::value::Value;

    #[test]
    fn fields_are_found_however_they_are_printed() {
        for text in [
            "arena = 165048320\nhblks = 1\nhblkhd = 3149824\nuordblks = 16608208\nfordblks = 148440112\n",
            "Total non-mmapped bytes (arena):       165048320\n# of free chunks (ordblks):            2\n\
             # of mapped regions (hblks):           1\nBytes in mapped regions (hblkhd):      3149824\n\
             Total allocated space (uordblks):      16608208\nTotal free space (fordblks):           148440112\n",
        ] {
            let found = read(text, 0).unwrap();
            assert_eq!(found.total("live"), Some(&Value::Exact(16_608_208)), "{text}");
            assert_eq!(found.total("committed"), Some(&Value::Exact(165_048_320 + 3_149_824)));
        }
    }

    #[test]
    fn what_wrapped_is_not_believed() {
        let found = read("arena: -5\nhblkhd: 7\nuordblks: 3\nfordblks: -8\n", 0).unwrap();
        assert_eq!((found.total("committed"), found.total("free_partial")), (None, None));
        assert!(found.missing[1].what == "arena, fordblks", "{:?}", found.missing);
        assert!(read("arena: 5\nhblkhd: 7\nsmblks: 3\n", 0).is_err());
        assert!(read("the arena: 5\n", 0).is_err());
    }
}
