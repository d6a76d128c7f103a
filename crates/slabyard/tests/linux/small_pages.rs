//! The advice on huge pages that the system has, read from the flags of this process's mappings.

use slabyard::platform::linux::Linux;
use slabyard::yard::{Settings, Yard};
use std::fs;
use std::ops::Range;

/// Makes a yard ready whose flags can be read, and which takes huge pages to be made everywhere, as
/// this system may not do; prints that the test is skipped if the kernel has none.
pub fn is_ready(yard: &Yard<Linux>) -> bool {
    let known = fs::exists("/sys/kernel/mm/transparent_hugepage").expect("a look at /sys");
    if !known {
        println!("skipped: this kernel has no transparent huge pages");
        return false;
    }
    assert!(yard.platform().init(None));
    yard.platform().assume_huge_pages();
    assert!(yard.init(Settings { reserve_bytes: 4 << 30, ..Settings::default() }));
    true
}

/// Addresses of the mappings that are to have no huge pages.
pub fn ranges() -> Vec<Range<usize>> {
    let maps = fs::read_to_string("/proc/self/smaps").expect("smaps");
    let (mut ranges, mut range) = (Vec::new(), 0..0);
    for line in maps.lines() {
        let ends = line.split(' ').next().and_then(|range| range.split_once('-'));
        let ends = ends.map(|(a, b)| [a, b].map(|end| usize::from_str_radix(end, 16)));
        if let Some([Ok(first), Ok(end)]) = ends {
            range = first..end;
        } else if line.starts_with("VmFlags:") && line.split_whitespace().any(|flag| flag == "nh") {
            ranges.push(range.clone());
        }
    }
    ranges
}

/// Bytes of these mappings.
pub fn bytes() -> usize {
    ranges().iter().map(Range::len).sum()
}
