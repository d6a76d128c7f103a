//! Where the system makes huge pages everywhere, a small heap has none: it is read from
//! the flags of the mappings what the system was told.

use slabyard::page::huge::HUGE;
use slabyard::platform::GRANULE;
use slabyard::platform::linux::Linux;
use slabyard::yard::{LARGEST_RUN, Settings, Yard};
use std::fs;

static YARD: Yard<Linux> = Yard::new(Linux::new());

/// True if the mapping around an address is to have no huge pages.
fn has_small_pages(address: usize) -> bool {
    let maps = fs::read_to_string("/proc/self/smaps").expect("smaps");
    let mut around = false;
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let ends = range.map(|(a, b)| [a, b].map(|end| usize::from_str_radix(end, 16)));
        if let Some([Ok(first), Ok(end)]) = ends {
            around = (first..end).contains(&address);
        } else if around && line.starts_with("VmFlags:") {
            return line.split_whitespace().any(|flag| flag == "nh");
        }
    }
    panic!("no mapping around {address:#x}");
}

#[test]
fn a_small_heap_has_no_huge_pages_and_a_large_run_may() {
    if !fs::exists("/sys/kernel/mm/transparent_hugepage").expect("a look at /sys") {
        println!("skipped: this kernel has no transparent huge pages");
        return;
    }
    assert!(YARD.platform().init(None));
    assert!(YARD.init(Settings { reserve_bytes: 4 << 30, ..Settings::default() }));
    let region = &YARD.ground.region;
    YARD.alloc(100, 16).expect("memory");
    let begin = region.base() + GRANULE;
    assert!(!has_small_pages(begin), "a process that does little pays for no advice");
    for _ in 0..8 {
        let run = YARD.alloc(LARGEST_RUN, 16).expect("memory");
        assert!(has_small_pages(run) || region.top() < HUGE);
    }
    assert!(has_small_pages(begin));
    // Large blocks come and go: the next is a run.
    let first = YARD.alloc(2 * LARGEST_RUN, 16).expect("memory");
    assert_eq!(YARD.free(first), Ok(()));
    let run = YARD.alloc(4 * LARGEST_RUN, 16).expect("memory");
    assert!(region.granule_of(run).is_some(), "a mapping");
    assert!(!has_small_pages(run));
    assert!(has_small_pages(region.address(region.small_pages() as u32) - 1));
}
