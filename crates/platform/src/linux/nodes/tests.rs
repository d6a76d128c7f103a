use super::*;
use std::vec::Vec;

#[test]
fn a_list_has_numbers_and_ranges() {
    let list = |text: &str| {
        let mut all = Vec::new();
        each_of_list(text.as_bytes(), |n| all.push(n));
        all
    };
    assert_eq!(list("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
    assert_eq!(list("0\n"), [0]);
    assert!(list("\n").is_empty() && list("").is_empty());
}

#[test]
fn a_node_has_a_file() {
    assert_eq!(&*path_of(0), c"/sys/devices/system/node/node0/cpulist");
    assert_eq!(&*path_of(63), c"/sys/devices/system/node/node63/cpulist");
}

#[test]
fn declared_nodes_take_the_cpus_in_turn() {
    let nodes = Nodes::new();
    assert_eq!((nodes.len(), nodes.of_row(5)), (1, 0));
    nodes.begin(2, 8, false);
    assert_eq!([0, 1, 2, 7].map(|row| nodes.of_row(row)), [0, 1, 0, 1]);
    // No system call is made.
    nodes.bind(0, 4096, 1);
    assert_eq!((nodes.are_real(), nodes.refused()), (false, 0));
}

#[test]
fn a_refused_request_is_counted() {
    let nodes = Nodes::new();
    nodes.begin(2, 8, false);
    let page = mmap(4096, PROT_RW, 0).expect("a page");
    nodes.rows.store(8, Ordering::Relaxed);
    nodes.table.store(page, Ordering::Relaxed);
    nodes.bind(0x1001, 4096, 0);
    assert_eq!(nodes.refused(), 1, "an address within a page");
    nodes.bind(page, 4096, 63);
    assert_eq!(nodes.refused(), 2, "no such node");
}
