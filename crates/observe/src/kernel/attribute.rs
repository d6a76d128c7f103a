//! The attributes of a cache in `/sys/kernel/slab`, and how their texts are parsed.
//!
//! Neighbours: [`super::tree`] reads the files, [`super::dump`] takes the same texts from JSON.
//! [`crate::fields`] holds names, units and help texts; this module adds what only a kernel has:
//! the text format, and why an attribute may be absent.

use crate::fields::{FIELDS, FieldKind};
use crate::release::Release;
use crate::value::{Reading, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadTime {
    /// For the plain columns.
    Plain,
    /// When all are requested.
    All,
    /// The same; and always of a cache that slabinfo does not list. Sysfs has the nodes' parts,
    /// slabinfo only the sum.
    AllOrUnlisted,
    /// Of a cache that slabinfo does not list: it says the same.
    Unlisted,
}

/// An attribute that this version knows.
pub(super) struct Attribute {
    pub name: &'static str,
    pub when: ReadTime,
    /// What a kernel needs to have it.
    needs: &'static str,
}

const fn row(name: &'static str, when: ReadTime, needs: &'static str) -> Attribute {
    Attribute { name, when, needs }
}

/// Every attribute that is no counter. Four of them are read for the plain columns,
/// beside slabinfo: `object_size` and `partial` are columns, and `live` and `parked`
/// need `cpu_slabs` and `sheaf_capacity`.
pub(super) static ATTRIBUTES: &[Attribute] = &[
    row("object_size", ReadTime::Plain, ""),
    row("partial", ReadTime::Plain, ""),
    row("cpu_slabs", ReadTime::Plain, ""),
    row("sheaf_capacity", ReadTime::Plain, "it came with 6.18"),
    row("slab_size", ReadTime::Unlisted, ""),
    row("objs_per_slab", ReadTime::Unlisted, ""),
    row("order", ReadTime::Unlisted, ""),
    row("slabs", ReadTime::AllOrUnlisted, SLUB_DEBUG),
    row("objects", ReadTime::AllOrUnlisted, SLUB_DEBUG),
    row("total_objects", ReadTime::AllOrUnlisted, SLUB_DEBUG),
    row("objects_partial", ReadTime::All, ""),
    row("slabs_cpu_partial", ReadTime::All, ""),
    row("min_partial", ReadTime::All, ""),
    row("cpu_partial", ReadTime::All, ""),
    row("remote_node_defrag_ratio", ReadTime::All, "it needs CONFIG_NUMA"),
    row("align", ReadTime::All, ""),
    row("aliases", ReadTime::All, ""),
    row("ctor", ReadTime::All, ""),
    row("hwcache_align", ReadTime::All, ""),
    row("reclaim_account", ReadTime::All, ""),
    row("destroy_by_rcu", ReadTime::All, ""),
    row("cache_dma", ReadTime::All, "it needs CONFIG_ZONE_DMA"),
    row("usersize", ReadTime::All, "it needs CONFIG_HARDENED_USERCOPY"),
    row("sanity_checks", ReadTime::All, SLUB_DEBUG),
    row("red_zone", ReadTime::All, SLUB_DEBUG),
    row("poison", ReadTime::All, SLUB_DEBUG),
    row("store_user", ReadTime::All, SLUB_DEBUG),
    row("trace", ReadTime::All, SLUB_DEBUG),
    row("failslab", ReadTime::All, "it needs CONFIG_FAILSLAB"),
    row("skip_kfence", ReadTime::All, "it needs CONFIG_KFENCE"),
];

const SLUB_DEBUG: &str = "it needs CONFIG_SLUB_DEBUG";

/// Files that act when they are written, and those of old kernels that walk every
/// object when they are read.
pub(super) const NOT_READ: [&str; 4] = ["shrink", "validate", "alloc_calls", "free_calls"];

/// Attributes that exist since 7.0 only for the sake of old readers, always 0: there are no CPU
/// slabs and CPU partial lists any more.
const STUBS: [&str; 3] = ["cpu_slabs", "cpu_partial", "slabs_cpu_partial"];

/// Why an attribute is not to be believed in this kernel.
pub(super) fn stub(name: &str, release: Option<&Release>) -> Option<String> {
    let release = release.filter(|r| !r.has_cpu_slabs() && STUBS.contains(&name))?;
    Some(format!("a kernel of {release} has no CPU slabs; the attribute is kept and always 0"))
}

/// Why an attribute is not there.
pub(super) fn absent(name: &str, release: Option<&Release>) -> String {
    let kernel = this_kernel(release);
    let needs = ATTRIBUTES.iter().find(|a| a.name == name).map_or("", |a| a.needs);
    let join = if needs.is_empty() { "" } else { "; " };
    format!("{kernel} has no such attribute{join}{needs}")
}

/// What a kernel would need to count calls.
pub(super) fn no_counters(release: Option<&Release>) -> String {
    format!("{} counts no calls; it needs CONFIG_SLUB_STATS", this_kernel(release))
}

fn this_kernel(release: Option<&Release>) -> String {
    release.map_or("this kernel".into(), |r| format!("this kernel ({r})"))
}

/// True for the counters of a kernel with `CONFIG_SLUB_STATS`.
pub(super) fn is_counter(name: &str) -> bool {
    // The one counter that is ours alone.
    name != "slow_paths" && FIELDS.iter().any(|f| f.name == name && f.kind == FieldKind::Counter)
}

/// What the text of an attribute says.
///
/// # Errors
/// What is wrong with the text.
pub(super) fn parse(name: &str, text: &str) -> Result<Reading, String> {
    let text = text.trim();
    match name {
        "ctor" => return Ok(Value::Text(printable(text)).into()),
        // Only the slabs are counted by every kernel: from 5.16 on the objects
        // before the brackets are computed from them.
        "slabs_cpu_partial" => return parts(text, in_brackets),
        _ => {}
    }
    match parts(text, |word| word.parse().ok()) {
        Err(_) if !known(name) => Ok(Value::Text(printable(text)).into()),
        result => result,
    }
}

fn known(name: &str) -> bool {
    is_counter(name) || ATTRIBUTES.iter().any(|a| a.name == name)
}

/// The text of an attribute, as sysfs has it; `None` for what is none of a kernel's.
pub(super) fn print(name: &str, reading: &Reading, objs_per_slab: Option<u64>) -> Option<String> {
    if NOT_READ.contains(&name) || (!known(name) && FIELDS.iter().any(|f| f.name == name)) {
        return None;
    }
    let word = |value: &Value| -> Option<String> {
        let number = value.high()?;
        Some(match name {
            // As of 5.16: half the objects of each slab.
            "slabs_cpu_partial" => {
                let objects = number.saturating_mul(objs_per_slab.unwrap_or(0)) / 2;
                format!("{objects}({number})")
            }
            _ => number.to_string(),
        })
    };
    if let Value::Text(text) = &reading.value {
        return Some(format!("{}\n", printable(text)));
    }
    let mut text = word(&reading.value)?;
    for (letter, parts) in [('N', &reading.nodes), ('C', &reading.cpus)] {
        for (which, value) in parts {
            text += &format!(" {letter}{which}={}", word(value)?);
        }
    }
    Some(text + "\n")
}

/// "17", "17 N0=10 N1=7" or "17 C0=10 C3=7".
fn parts(text: &str, number: fn(&str) -> Option<u64>) -> Result<Reading, String> {
    let wrong = |word: &str| format!("`{}` is not what is expected there", printable(word));
    let mut words = text.split_whitespace();
    let sum = words.next().unwrap_or("");
    let mut reading = Reading::from(number(sum).ok_or_else(|| wrong(sum))?);
    for word in words {
        let mut part = || {
            let (place, count) = word.split_once('=')?;
            let (which, value) = (place.get(1..)?.parse().ok()?, Value::Exact(number(count)?));
            match place.as_bytes().first()? {
                b'N' => reading.nodes.push((which, value)),
                b'C' => reading.cpus.push((which, value)),
                _ => return None,
            }
            Some(())
        };
        part().ok_or_else(|| wrong(word))?;
    }
    Ok(reading)
}

/// The 4 of "42(4)".
fn in_brackets(word: &str) -> Option<u64> {
    word.split_once('(')?.1.strip_suffix(')')?.parse().ok()
}

/// Text for a screen: no control characters, at most 200 characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parts = Vec<(u32, u64)>;

    fn all(reading: &Reading) -> (Option<u64>, Parts, Parts) {
        let exact = |rows: &[(u32, Value)]| {
            rows.iter().map(|(which, value)| (*which, value.exact().unwrap())).collect()
        };
        (reading.value.exact(), exact(&reading.nodes), exact(&reading.cpus))
    }

    #[test]
    fn sums_and_parts() {
        let read = |name, text| all(&parse(name, text).unwrap());
        assert_eq!(read("align", "8\n"), (Some(8), vec![], vec![]));
        assert_eq!(read("slabs", "17 N0=10 N1=7\n"), (Some(17), vec![(0, 10), (1, 7)], vec![]));
        assert_eq!(read("alloc_slab", "5 C1=5\n"), (Some(5), vec![], vec![(1, 5)]));
        assert_eq!(read("slabs_cpu_partial", "52(5) C0=52(5)"), (Some(5), vec![], vec![(0, 5)]));
        assert_eq!(read("of_tomorrow", "7 N0=7"), (Some(7), vec![(0, 7)], vec![]));
    }

    #[test]
    fn what_is_printed_is_parsed_again() {
        for (name, text) in [
            ("align", "8\n"),
            ("slabs", "17 N0=10 N1=7\n"),
            ("alloc_slab", "5 C1=5\n"),
            ("slabs_cpu_partial", "52(5) C0=52(5)\n"),
            ("ctor", "init_once+0x0/0x10\n"),
            ("of_tomorrow", "one two\n"),
        ] {
            let reading = parse(name, text).unwrap();
            assert_eq!(print(name, &reading, Some(21)).unwrap(), text);
        }
        for name in ["live", "parked_cpu", "shrink"] {
            assert_eq!(print(name, &Reading::from(7), None), None, "{name}");
        }
    }

    #[test]
    fn words() {
        let text = |name, text| parse(name, text).unwrap().value;
        assert_eq!(text("ctor", "init_once+0x0/0x10\n"), Value::Text("init_once+0x0/0x10".into()));
        assert_eq!(text("ctor", "\n"), Value::Text(String::new()));
        assert_eq!(text("of_tomorrow", "one \u{1b}two"), Value::Text("one two".into()));
    }

    #[test]
    fn what_is_no_number_is_an_error() {
        for text in
            ["", "x", "-1", "99999999999999999999", "1 N=2", "1 X0=1", "1 N0", "1 =", "1 é=3"]
        {
            assert!(parse("slabs", text).is_err(), "{text}");
        }
        assert!(parse("slabs_cpu_partial", "42").is_err());
        assert!(parse("slabs_cpu_partial", "42(4) C0=42").is_err());
    }

    #[test]
    fn every_attribute_is_a_field_and_few_are_read_for_the_columns() {
        for attribute in ATTRIBUTES {
            let field = crate::fields::field(attribute.name);
            assert!(field.is_some_and(|f| f.kind != FieldKind::Counter), "{}", attribute.name);
        }
        assert!(ATTRIBUTES.iter().filter(|a| a.when == ReadTime::Plain).count() <= 8);
        let known = |name: &&str| ATTRIBUTES.iter().any(|a| a.name == *name);
        assert!(STUBS.iter().all(known));
        assert!(is_counter("alloc_fastpath") && !is_counter("slow_paths") && !is_counter("slabs"));
    }
}
