//! The table of `vmstat -m` (procps, vmstat(8)), whose last column is called pages and counts the
//! objects of a slab.
//!
//! ```text
//! Cache                       Num  Total   Size  Pages
//! dentry                  1243054 1249416    192     21
//! ```

use super::found::{Outcome, Pasted};
use super::lines::{self, Line};
use crate::kernel::slabinfo::name_and;

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let is_heading = |line: &Line<'_>| {
        line.text.split_whitespace().eq(["Cache", "Num", "Total", "Size", "Pages"])
    };
    let Some(at) = lines.iter().position(is_heading) else { return Outcome::Absent };
    let mut rows = Vec::new();
    // It repeats its heading for each screen, and ends where something else begins.
    let mut behind = lines[at + 1..].iter().filter(|line| !is_heading(line)).peekable();
    while let Some((name, numbers)) = behind.peek().and_then(|line| name_and::<4>(line.text)) {
        rows.push((name, numbers));
        behind.next();
    }
    let next = behind.next().filter(|line| !line.text.trim().is_empty());
    if rows.is_empty() {
        let next = next.map_or("nothing".into(), |line| lines::shown(line.text));
        return Outcome::Damaged(format!(
            "behind its heading in line {} is {next}",
            lines[at].number
        ));
    }
    for (name, [active, total, size, objs]) in rows {
        if pasted.snapshot.cache(&name).is_some() {
            continue;
        }
        let mut cache = pasted.cache(&name);
        let slabs = total.checked_div(objs).filter(|slabs| slabs.checked_mul(objs) == Some(total));
        let numbers = [
            ("objects", Some(active)),
            ("total_objects", Some(total)),
            ("slab_size", Some(size)),
            ("objs_per_slab", Some(objs)),
            ("slabs", slabs),
            ("bytes", slabs.zip(slab_bytes(size, objs)).and_then(|(a, b)| a.checked_mul(b))),
        ];
        for (name, value) in numbers {
            value.into_iter().for_each(|value| cache.set(name, value));
        }
        pasted.snapshot.caches.push(cache);
    }
    if let Some(line) = next.filter(|line| looks_cut(line.text)) {
        lines::strange(&[*line]).into_iter().for_each(|why| pasted.miss("vmstat -m", why));
    }
    Outcome::Read
}

/// Bytes of a slab: the power of two into which as many objects fit, and not one more.
fn slab_bytes(size: u64, objs: u64) -> Option<u64> {
    let bytes = size.checked_mul(objs)?.checked_next_power_of_two()?;
    (size > 0 && bytes / size == objs).then_some(bytes)
}

/// A name and a number, as a row begins.
fn looks_cut(line: &str) -> bool {
    line.split_whitespace().nth(1).is_some_and(|word| word.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::super::read;

    const TEXT: &str = "\
Cache                       Num  Total   Size  Pages
dentry                  1243054 1249416    192     21
Cache                       Num  Total   Size  Pages
filp                         30     32    256     16
$ 
";

    #[test]
    fn its_pages_are_objects_of_a_slab() {
        let found = read(TEXT, 0).unwrap();
        let dentry = found.cache("dentry").unwrap();
        let all = ["objects", "objs_per_slab", "slabs", "bytes"];
        assert_eq!(all.map(|n| dentry.exact(n).unwrap()), [1_243_054, 21, 59_496, 59_496 * 4096]);
        assert!(found.cache("filp").is_some() && found.missing.is_empty(), "{:?}", found.missing);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let cut = read(&TEXT.replace("256     16", "256"), 0).unwrap();
        assert!(cut.missing[0].why.starts_with("line 4 is no row"), "{:?}", cut.missing);
        let damaged = format!("{:?}", read(&TEXT[..60], 0));
        assert!(damaged.contains("looked for vmstat -m"), "{damaged}");
    }
}
