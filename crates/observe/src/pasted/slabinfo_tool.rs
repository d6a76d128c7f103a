//! The table of the kernel's own tool, `tools/mm/slabinfo`, which reads `/sys/kernel/slab`.
//!
//! ```text
//! Name                   Objects Objsize           Space Slabs/Part/Cpu  O/S O %Fr %Ef Flg
//! dentry                  150132     192           29.4M    7177/12/12   21 0   0  98 a
//! ```
//!
//! Of its three counts of slabs the first leaves out those that CPUs hold.

use super::found::{Outcome, Pasted};
use super::lines::{self, Line};

struct Row {
    name: String,
    objects: u64,
    object_size: u64,
    slabs: u64,
    partial: u64,
    cpu_slabs: u64,
    objs_per_slab: u64,
    order: u64,
    reclaimable: u64,
}

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let is_heading = |line: &Line<'_>| {
        line.text.split_whitespace().take(5).eq([
            "Name",
            "Objects",
            "Objsize",
            "Space",
            "Slabs/Part/Cpu",
        ])
    };
    let Some(at) = lines.iter().position(is_heading) else { return Outcome::Absent };
    let (mut rows, mut strange) = (Vec::new(), Vec::new());
    for line in &lines[at + 1..] {
        match row(line.text) {
            Some(row) => rows.push(row),
            None if line.text.trim().is_empty() => break,
            None => {
                // A prompt or text behind the table ends it; a row has the three counts of slabs.
                strange.extend(Some(*line).filter(|line| line.text.contains('/')));
                break;
            }
        }
    }
    if rows.is_empty() {
        let next = lines.get(at + 1).map_or("nothing".into(), |line| lines::shown(line.text));
        return Outcome::Damaged(format!(
            "behind its heading in line {} is {next}",
            lines[at].number
        ));
    }
    for row in rows {
        if pasted.snapshot.cache(&row.name).is_some() {
            continue;
        }
        let mut cache = pasted.cache(&row.name);
        for (name, value) in [
            ("objects", Some(row.objects)),
            ("object_size", Some(row.object_size)),
            ("slabs", Some(row.slabs)),
            ("total_objects", row.slabs.checked_mul(row.objs_per_slab)),
            ("partial", Some(row.partial)),
            ("cpu_slabs", Some(row.cpu_slabs)),
            ("objs_per_slab", Some(row.objs_per_slab)),
            ("order", Some(row.order)),
            ("reclaim_account", Some(row.reclaimable)),
        ] {
            value.into_iter().for_each(|value| cache.set(name, value));
        }
        pasted.snapshot.caches.push(cache);
    }
    if let Some(why) = lines::strange(&strange) {
        pasted.miss("table of the tool slabinfo", why);
    }
    Outcome::Read
}

fn row(line: &str) -> Option<Row> {
    let mut words = line.split_whitespace();
    let name = words.next()?.to_owned();
    let mut number = || words.next()?.parse::<u64>().ok();
    let (objects, object_size) = (number()?, number()?);
    // 0, 848, 29.4M: what the other columns tell exactly.
    words.next().filter(|space| space.starts_with(|c: char| c.is_ascii_digit()))?;
    let counts: Vec<u64> =
        words.next()?.split('/').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let [others, partial, cpu_slabs] = counts[..] else { return None };
    let mut number = || words.next()?.parse::<u64>().ok();
    let (objs_per_slab, order, _free, _efficiency) = (number()?, number()?, number()?, number()?);
    let flags = words.next().unwrap_or_default();
    Some(Row {
        name,
        objects,
        object_size,
        slabs: others.checked_add(cpu_slabs)?,
        partial,
        cpu_slabs,
        objs_per_slab,
        order: Some(order).filter(|order| *order < 32)?,
        reclaimable: flags.contains('a').into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::read;

    const TEXT: &str = "\
# slabinfo
Name                   Objects Objsize           Space Slabs/Part/Cpu  O/S O %Fr %Ef Flg
:A-0000192                 630     192          122.8K         28/0/2   21 0   0  98 *
dentry                  150132     192           29.4M    7165/12/12   21 0   0  98 a
# 
";

    #[test]
    fn slabs_of_cpus_are_added_to_the_others() {
        let found = read(TEXT, 0).unwrap();
        let dentry = found.cache("dentry").unwrap();
        let all = ["slabs", "partial", "cpu_slabs", "total_objects", "order", "reclaim_account"];
        assert_eq!(all.map(|name| dentry.exact(name).unwrap()), [7177, 12, 12, 150_717, 0, 1]);
        assert_eq!(found.cache(":A-0000192").unwrap().exact("reclaim_account"), Some(0));
        assert_eq!(found.missing, []);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let cut = read(&TEXT.replace("7165/12/12   21 0", "7165/12/12"), 0).unwrap();
        assert!(cut.missing[0].why.starts_with("line 4 is no row"), "{:?}", cut.missing);
        let damaged = format!("{:?}", read(&TEXT[..110], 0));
        assert!(damaged.contains("looked for the tool slabinfo"), "{damaged}");
    }
}
