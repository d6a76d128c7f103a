//! CPU partial lists slab by slab, as `slabyard show --cpu-partial` prints them; the debugfs file that
//! Jann Horn proposed for kernels (linux-mm, January 2021) prints the same.
//!
//! ```text
//! task_delay_info on 10:
//!  page=fffff9e4444b9b00 base=ffff988bd2e6c000 order=0 partial_pages=24 partial_objects=24 objects=51 inuse=0
//! ```

use super::found::{Outcome, Pasted};
use super::lines::{self, Line};
use crate::snapshot::{Slab, SlabPlace};
use crate::value::{Reading, Value};
use std::collections::BTreeMap;

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let mut caches: BTreeMap<String, Vec<Slab>> = BTreeMap::new();
    let mut list: Option<(String, u32)> = None;
    let mut strange = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        if let Some(found) = heading(line.text) {
            list = Some(found);
        } else if let Some((cache, cpu)) = &list {
            if let Some((mut slab, used)) = lines::joined(lines, at, slab) {
                slab.place = SlabPlace::Cpu(*cpu);
                caches.entry(cache.clone()).or_default().push(slab);
                at += used;
                continue;
            }
            if line.text.trim_start().starts_with("page=") {
                strange.push(line);
            } else if !line.text.trim().is_empty() {
                list = None;
            }
        }
        at += 1;
    }
    if caches.is_empty() {
        return match strange.first() {
            Some(line) => {
                Outcome::Damaged(format!("line {} is {}", line.number, lines::shown(line.text)))
            }
            // A mail may have such a line.
            None => Outcome::Absent,
        };
    }
    for (name, slabs) in caches {
        store(&name, slabs, pasted);
    }
    if let Some(why) = lines::strange(&strange) {
        pasted.miss("CPU partial lists", why);
    }
    Outcome::Read
}

/// "task_delay_info on 10:".
fn heading(line: &str) -> Option<(String, u32)> {
    let (name, cpu) = line.trim().strip_suffix(':')?.rsplit_once(" on ")?;
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    is_name.then_some(())?;
    Some((lines::clean(name), cpu.parse().ok()?))
}

fn slab(line: &str) -> Option<Slab> {
    let words = line.trim().strip_prefix("page=").map(|_| line.split_whitespace())?;
    let pairs: BTreeMap<&str, &str> = words.filter_map(|word| word.split_once('=')).collect();
    let hex = |key: &str| u64::from_str_radix(pairs.get(key)?.trim_start_matches("0x"), 16).ok();
    let number = |key: &str| pairs.get(key)?.parse::<u32>().ok();
    let slab = Slab {
        page: hex("base").or_else(|| hex("page"))?,
        order: number("order").filter(|order| *order < u64::BITS)?,
        objects: number("objects")?,
        inuse: number("inuse")?,
        place: SlabPlace::Cpu(0),
        partial_pages: number("partial_pages"),
        partial_objects: number("partial_objects"),
    };
    (slab.inuse <= slab.objects).then_some(slab)
}

fn store(name: &str, slabs: Vec<Slab>, pasted: &mut Pasted) {
    let (mut counts, mut heads) = (BTreeMap::new(), BTreeMap::new());
    for slab in &slabs {
        let SlabPlace::Cpu(cpu) = slab.place else { continue };
        *counts.entry(cpu).or_insert(0u64) += 1;
        // The head counts the free objects of its whole list.
        heads.entry(cpu).or_insert(slab.partial_objects.map(u64::from));
    }
    let by_cpu = |counts: &BTreeMap<u32, u64>| {
        let cpus = counts.iter().map(|(cpu, count)| (*cpu, Value::Exact(*count))).collect();
        Reading { cpus, ..Reading::from(counts.values().sum::<u64>()) }
    };
    let told: Option<BTreeMap<u32, u64>> =
        heads.iter().map(|(cpu, objects)| Some((*cpu, (*objects)?))).collect();
    let empties: Vec<&Slab> = slabs.iter().filter(|slab| slab.inuse == 0).collect();
    let pages: u64 = empties.iter().map(|slab| 1u64 << slab.order).fold(0, u64::saturating_add);
    let page_bytes = pasted.snapshot.machine.page_bytes;
    let same = |of: fn(&Slab) -> u32| {
        let first = slabs.first().map(of)?;
        slabs.iter().all(|slab| of(slab) == first).then(|| u64::from(first))
    };
    let numbers = [
        ("order", same(|slab| slab.order)),
        ("objs_per_slab", same(|slab| slab.objects)),
        ("empties_parked", Some(empties.len() as u64)),
        ("empties_bytes", page_bytes.and_then(|bytes| bytes.checked_mul(pages))),
    ];
    let cache = pasted.cache_named(name);
    cache.set("slabs_cpu_partial", by_cpu(&counts));
    if let Some(told) = told {
        cache.set("objects_cpu_partial", by_cpu(&told));
    }
    for (name, value) in numbers {
        if let Some(value) = value.filter(|_| cache.value(name).is_none()) {
            cache.set(name, value);
        }
    }
    cache.slabs = Some(slabs);
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use crate::snapshot::SlabPlace;

    const TEXT: &str = "\
task_delay_info on 10:
page=fffff9e4444b9b00 base=ffff988bd2e6c000 order=0 partial_pages=2
partial_objects=7 objects=51 inuse=0
page=fffff9e44469f800 base=ffff988bda7e0000 order=0 partial_pages=1
partial_objects=1 objects=51 inuse=50
task_delay_info on 11:
 page=fffff9e444a90c40 base=ffff988bea431000 order=0 partial_pages=1 partial_objects=1 objects=51 inuse=0

Even on an old phone on 3:
";

    #[test]
    fn slabs_of_cpus_are_read_one_by_one() {
        let found = read(TEXT, 0).unwrap();
        let [cache] = &found.caches[..] else { panic!("{:?}", found.caches) };
        assert_eq!(
            (cache.name.as_str(), cache.exact("empties_parked")),
            ("task_delay_info", Some(2))
        );
        assert_eq!(
            (cache.exact("slabs_cpu_partial"), cache.exact("objects_cpu_partial")),
            (Some(3), Some(8))
        );
        assert_eq!(cache.exact("objs_per_slab"), Some(51));
        let slabs = cache.slabs.as_deref().unwrap();
        assert_eq!((slabs[1].inuse, slabs[1].place), (50, SlabPlace::Cpu(10)));
        assert_eq!((slabs[2].page, slabs[2].place), (0xffff_988b_ea43_1000, SlabPlace::Cpu(11)));
        assert_eq!(found.missing, []);
    }

    #[test]
    fn a_slab_that_does_not_fit_is_named() {
        let found = read(&TEXT.replace("objects=51 inuse=50", "objects=51 inuse=52"), 0).unwrap();
        assert!(found.missing[0].why.starts_with("line 4 is no row"), "{:?}", found.missing);
        assert!(read("x on 3:\nand so on\n", 0).is_err());
        let damaged = format!("{:?}", read("x on 3:\npage=zz\n", 0));
        assert!(damaged.contains("looked for CPU partial lists, but line 2"), "{damaged}");
    }
}
