//! One cache for people.

use crate::scene::{HUMAN, cache, is_as, kernel, known, process, text};
use slabyard_observe::snapshot::{Place, Slab};
use slabyard_observe::view::Style;
use slabyard_observe::view::show::{write, write_json};

#[test]
fn a_cache_of_a_process_with_each_slab() {
    let snapshot = process();
    let shown = text(|out| write(out, &snapshot, cache(&snapshot, "malloc-64"), HUMAN));
    is_as("show-process.txt", &shown);
    assert!(shown.contains("with just 1 in use: 1 slab\n"), "{shown}");
}

#[test]
fn a_cache_of_a_kernel_with_its_nodes_and_cpus() {
    let snapshot = kernel();
    let shown = text(|out| write(out, &snapshot, cache(&snapshot, "dentry"), HUMAN));
    is_as("show-kernel.txt", &shown);
}

#[test]
fn a_merged_cache_is_found_by_any_name() {
    let snapshot = kernel();
    for name in [":0000064", "fsnotify_mark", "kmalloc-rcl-64"] {
        let shown = text(|out| write(out, &snapshot, cache(&snapshot, name), Style::PLAIN));
        is_as("show-merged.txt", &shown);
    }
}

#[test]
fn slabs_on_cpus_are_shown_list_by_list() {
    let mut snapshot = process();
    let slab = |page, cpu| {
        let place = Place::Cpu(cpu);
        Slab { page, order: 1, objects: 51, place, ..Slab::default() }
    };
    let mut counted = slab(0x5000, 0);
    (counted.partial_pages, counted.partial_objects) = (Some(1), Some(9));
    snapshot.caches[0].slabs = Some(vec![slab(0x3000, 1), counted, slab(0x1000, 1)]);
    let shown = text(|out| write(out, &snapshot, &snapshot.caches[0], Style::PLAIN));
    let want = "
malloc-64 on 0:
 page=5 base=5000 order=1 partial_pages=1 partial_objects=9 objects=51 inuse=0

malloc-64 on 1:
 page=3 base=3000 order=1 objects=51 inuse=0
 page=1 base=1000 order=1 objects=51 inuse=0
";
    assert!(shown.ends_with(want), "{shown}");
}

#[test]
fn json_has_all_of_it() {
    let snapshot = process();
    let shown = text(|out| write_json(out, &snapshot, cache(&snapshot, "malloc-64")));
    is_as("show-process.json", &known(&shown));
    let value: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(value["cache"]["cpus"]["0"]["parked_cpu"], 60);
    assert_eq!(value["cache"]["fullness"]["just_one"], 1);
    assert_eq!(value["cache"]["partial_slabs"][0]["place"]["node"], 0);
    let snapshot = kernel();
    let shown = text(|out| write_json(out, &snapshot, cache(&snapshot, "dentry")));
    let value: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(value["cache"]["nodes"]["0"]["cpu_slabs"], 13);
    assert!(value["cache"]["hidden"].is_string() && value["cache"]["fullness"].is_null());
}
