//! The table that `slabtop` prints (procps, slabtop(1)), sorted by whatever column, with or without
//! what stands above it.
//!
//! ```text
//!   OBJS ACTIVE  USE OBJ SIZE  SLABS OBJ/SLAB CACHE SIZE NAME
//! 608944 608933  99%    1.10K  43496       14    695936K ext4_inode_cache
//! ```
//!
//! Sizes of objects are rounded; those of slabs, which are not, narrow them down.

use super::found::{Outcome, Pasted};
use super::lines::{self, Line};
use super::rounded::Rounded;
use crate::value::Value;

/// The smallest page of Linux on the machines that we know.
const SMALLEST_PAGE: u64 = 4096;
/// Objects begin at multiples of a word.
const WORD: u64 = 8;

struct Row {
    name: String,
    total: u64,
    active: u64,
    object: Rounded,
    slabs: u64,
    objs_per_slab: u64,
    bytes: Rounded,
}

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let is_heading = |line: &&Line<'_>| {
        let words: Vec<_> = line.text.split_whitespace().collect();
        words.starts_with(&["OBJS", "ACTIVE", "USE"])
    };
    let heading = lines.iter().find(is_heading);
    let (mut rows, mut strange, mut pending) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 0;
    while at < lines.len() {
        if let Some((row, used)) = lines::joined(lines, at, row) {
            rows.push(row);
            strange.append(&mut pending);
            at += used;
            continue;
        }
        let line = lines[at];
        if !rows.is_empty() && !line.text.trim().is_empty() && !is_heading(&&line) {
            pending.push(line);
        }
        at += 1;
    }
    // A row that was cut ends the text.
    strange.extend(pending.first().filter(|line| pending.len() == 1 && looks_cut(line.text)));
    if rows.is_empty() {
        let Some(heading) = heading else { return Outcome::Absent };
        let next =
            lines.get(heading.number).map_or("nothing".into(), |next| lines::shown(next.text));
        return Outcome::Damaged(format!(
            "behind its heading in line {} is {next}",
            heading.number
        ));
    }
    let known: Vec<bool> =
        rows.iter().map(|row| pasted.snapshot.cache(&row.name).is_some()).collect();
    let slab_bytes = rows.iter().filter_map(Row::slab_bytes).min();
    if slab_bytes == Some(SMALLEST_PAGE) && pasted.snapshot.machine.page_bytes.is_none() {
        pasted.snapshot.machine.page_bytes = Some(SMALLEST_PAGE);
    }
    let page_bytes = pasted.snapshot.machine.page_bytes;
    // What slabinfo told is not rounded.
    for row in rows.into_iter().zip(known).filter_map(|(row, known)| (!known).then_some(row)) {
        row.store(page_bytes, pasted);
    }
    if let Some(why) = lines::strange(&strange) {
        pasted.miss("slabtop", why);
    }
    let all = lines.iter().find_map(|line| all_caches(line.text));
    let shown = pasted.snapshot.caches.len() as u64;
    if let Some(all) = all.filter(|all| *all > shown) {
        pasted.miss("caches", format!("the table has {shown} of {all}"));
    }
    Outcome::Read
}

fn row(line: &str) -> Option<Row> {
    let mut words = line.split_whitespace();
    let mut number = || words.next()?.parse::<u64>().ok();
    let (total, active) = (number()?, number()?);
    let _: u64 = words.next()?.strip_suffix('%')?.parse().ok()?;
    let object = words.next().filter(|word| word.ends_with(char::is_alphabetic))?;
    let mut number = || words.next()?.parse::<u64>().ok();
    let (slabs, objs_per_slab) = (number()?, number()?);
    let bytes = words.next().filter(|word| word.ends_with(char::is_alphabetic))?;
    let name = words.collect::<Vec<_>>().join(" ");
    (!name.is_empty()).then_some(Row {
        name,
        total,
        active,
        object: Rounded::parse(object)?,
        slabs,
        objs_per_slab,
        bytes: Rounded::parse(bytes)?,
    })
}

/// The 235 of " Active / Total Caches (% used)     : 124 / 235 (52.8%)".
fn all_caches(line: &str) -> Option<u64> {
    let rest = line.trim_start().strip_prefix("Active / Total Caches")?;
    rest.split_once(':')?.1.split_whitespace().nth(2)?.parse().ok()
}

/// Two numbers and a share, as a row begins.
fn looks_cut(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next().is_some_and(|word| word.parse::<u64>().is_ok())
        && words.next().is_none_or(|word| word.parse::<u64>().is_ok())
        && words.next().is_none_or(|word| word.ends_with('%'))
}

impl Row {
    /// Bytes of a slab, where they are told exactly.
    fn slab_bytes(&self) -> Option<u64> {
        let (low, high) = self.bytes.bounds();
        let bytes = (low == high && self.slabs > 0).then_some(low)?;
        (bytes % self.slabs == 0).then(|| bytes / self.slabs)
    }

    /// Bytes from one object to the next.
    fn slab_size(&self) -> Value {
        let (low, high) = self.object.bounds();
        let narrow = || {
            let slab = self.slab_bytes()?;
            let most = slab.checked_div(self.objs_per_slab)?.min(high);
            // One object more would not fit.
            let least = (slab / (self.objs_per_slab.checked_add(1)?) + 1).max(low);
            let (least, most) = (least.next_multiple_of(WORD), most / WORD * WORD);
            (least <= most).then(|| Value::between(least, most))
        };
        narrow().unwrap_or(Value::between(low, high))
    }

    fn store(self, page_bytes: Option<u64>, pasted: &mut Pasted) {
        let mut cache = pasted.cache(&self.name);
        cache.set("objects", self.active);
        cache.set("total_objects", self.total);
        cache.set("slab_size", self.slab_size());
        cache.set("slabs", self.slabs);
        cache.set("objs_per_slab", self.objs_per_slab);
        cache.set("bytes", self.bytes.value());
        let pages =
            self.slab_bytes().zip(page_bytes).and_then(|(slab, page)| slab.checked_div(page));
        if let Some(pages) = pages.filter(|pages| pages.is_power_of_two()) {
            cache.set("order", u64::from(pages.ilog2()));
        }
        pasted.snapshot.caches.push(cache);
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use crate::value::Value;

    const TEXT: &str = "\
 Active / Total Caches (% used)     : 124 / 235 (52.8%)
 Minimum / Average / Maximum Object : 0.01K / 0.23K / 50.27K

  OBJS ACTIVE  USE OBJ SIZE  SLABS OBJ/SLAB CACHE SIZE NAME                   
608944 608933  99%    1.10K  43496       14    695936K ext4_inode_cache       
1039185 1039093  99%    0.19K  49485       21    197940K dentry                 
     0      0   0%    0.31K      0       12         0K bio 312
";

    #[test]
    fn sizes_are_narrowed_down_by_the_slabs() {
        let found = read(TEXT, 0).unwrap();
        let inode = found.cache("ext4_inode_cache").unwrap();
        // 1.10K is 1122 to 1131 bytes, of which one is a multiple of 8.
        assert_eq!(inode.value("slab_size"), Some(&Value::Exact(1128)));
        assert_eq!((inode.exact("order"), inode.exact("bytes")), (Some(2), Some(695_936 << 10)));
        let dentry = found.cache("dentry").unwrap();
        assert_eq!((dentry.exact("slab_size"), dentry.exact("order")), (Some(192), Some(0)));
        assert_eq!(found.machine.page_bytes, Some(4096));
        assert_eq!(
            found.cache("bio 312").unwrap().value("slab_size"),
            Some(&Value::Range(313, 322))
        );
        assert_eq!(found.missing[0].why, "the table has 3 of 235");
    }

    #[test]
    fn units_of_any_size_and_a_table_without_a_head_are_read() {
        let text = "608944 608933  99%    1.10K  43496       14    679.6M ext4_inode_cache\n\
                    10 9  90%    2.00M  5       2    20.0M huge\n";
        let found = read(text, 0).unwrap();
        let Some(Value::Range(low, high)) = found.caches[0].value("bytes") else { panic!() };
        assert!(*low < 695_936 << 10 && 695_936 << 10 < *high);
        assert_eq!(found.caches[0].value("order"), None);
        assert_eq!(found.machine.page_bytes, None);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let cut = TEXT.replace("1039093  99%    0.19K", "1039093");
        let found = read(&cut, 0).unwrap();
        assert!(found.missing[0].why.starts_with("line 6 is no row of it"), "{:?}", found.missing);
        let head: String = TEXT.lines().take(4).map(|line| format!("{line}\n")).collect();
        let error = format!("{:?}", read(&(head + "what\n"), 0));
        assert!(
            error.contains("looked for slabtop, but behind its heading in line 4 is `what`"),
            "{error}"
        );
    }
}
