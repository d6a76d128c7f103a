//! Tests of a start with the lists that the recorder read.

use super::*;
use slabyard_lab::lists::{Barn, CacheLists, CpuSheaves, CpuSlabLists, Objects, SlabOnList};
use slabyard_lab::prepare::Slab;
use slabyard_lab::prepare::known::ListedSlab;

fn listed(frame: u64, free: Option<u64>) -> SlabOnList {
    SlabOnList { base: at(frame, 0), objects: 4, free: free.map(|free| Objects(vec![free])) }
}

/// One cache's node's list.
pub fn lists_of(name: &str, slabs: Vec<(u64, u32, Option<u64>)>, read_at: u64) -> Lists {
    let slabs = slabs
        .into_iter()
        .map(|(frame, objects, free)| SlabOnList { objects, ..listed(frame, free) });
    let (name, nodes) = (name.into(), vec![slabs.collect()]);
    Lists { caches: vec![CacheLists { name, read_at, nodes, ..CacheLists::default() }], unread: 0 }
}

fn with_lists(nodes: Vec<SlabOnList>, read_at: u64) -> Case {
    let mut case = Case::plain();
    let nodes = vec![nodes];
    case.lists = Some(lists_of("filp", Vec::new(), read_at));
    case.lists.as_mut().unwrap().caches[0].nodes = nodes;
    case
}

#[test]
fn a_list_tells_of_the_objects_that_no_event_tells_of() {
    // Two free; a slab that events do not show lies before it.
    let mut case = with_lists(vec![listed(9, Some(0b0111)), listed(5, Some(0b0110))], 0);
    case.alloc(1.0, 0, 5, 1);
    // On no list: all its objects are live.
    case.free(2.0, 0, 7, 0);
    let prepared = case.prepare();
    let live = |slab: usize| &prepared.live_at_start[prepared.slabs[slab].objects_range()];
    assert_eq!(prepared.slabs.iter().map(|slab| slab.frame).collect::<Vec<_>>(), [9, 5, 7]);
    assert_eq!(live(0), [false, false, false, true]);
    assert_eq!(live(1), [true, false, false, true]);
    assert_eq!(live(2), [true; 4]);
    assert_eq!(prepared.untold, [0, 0, 0]);
    let known = prepared.known[0].as_ref().unwrap();
    assert_eq!(known.nodes, [[ListedSlab::Shown(0), ListedSlab::Shown(1)]]);
}

#[test]
fn objects_in_sheaves_are_free_and_their_slabs_known() {
    let mut case = with_lists(vec![listed(5, Some(0b0010))], 0);
    let cache = &mut case.lists.as_mut().unwrap().caches[0];
    let main = vec![at(5, 0), at(6, 3 * 1024)];
    cache.sheaves = vec![CpuSheaves { cpu: 0, main, spare: None, rcu_free: Some(vec![at(6, 0)]) }];
    cache.barns = vec![Barn { full: vec![vec![at(8, 1024), at(5, 2 * 1024)]], empty: 0 }];
    case.alloc(1.0, 0, 6, 3);
    let prepared = case.prepare();
    assert_eq!(prepared.slabs.iter().map(|slab| slab.frame).collect::<Vec<_>>(), [5, 6, 8]);
    let live = |slab: usize| &prepared.live_at_start[prepared.slabs[slab].objects_range()];
    assert_eq!(live(0), [false, false, false, true]);
    assert_eq!(live(1), [false, true, true, false]);
    assert_eq!(live(2), [true, false, true, true]);
    let known = prepared.known[0].as_ref().unwrap();
    assert_eq!((&known.sheaves[0].main, &known.sheaves[0].rcu_free), (&vec![0, 1], &vec![1]));
    assert_eq!(known.barns, [[[2, 0]]]);
    assert_eq!(known.nodes, [[ListedSlab::Shown(0)]]);
}

/// The case with its memory elsewhere: what had the lowest address has the highest.
fn moved(mut case: Case) -> Case {
    const LAST: u64 = 99;
    let place = |address: u64| {
        let offset = address - BASE;
        at(LAST - offset / PAGE, offset % PAGE)
    };
    for event in &mut case.events {
        event.address = match event.kind {
            EventKind::PageAlloc | EventKind::PageFree => LAST - event.address,
            _ => place(event.address),
        };
    }
    let lists = case.lists.iter_mut().flat_map(|lists| &mut lists.caches);
    lists.flat_map(CacheLists::each_address_mut).for_each(|address| *address = place(*address));
    case
}

/// An anonymous copy of a trace has its memory elsewhere, and its replay has the same result: the
/// start depends on no order of addresses.
#[test]
fn a_trace_begins_the_same_wherever_its_memory_was_moved() {
    let case = || {
        let mut case = with_lists(vec![listed(5, Some(0b0010)), listed(4, Some(0b1000))], 0);
        let cache = &mut case.lists.as_mut().unwrap().caches[0];
        let (main, spare) = (vec![at(7, 0), at(6, 3 * 1024)], Some(vec![at(9, 0), at(5, 0)]));
        cache.sheaves = vec![CpuSheaves { cpu: 0, main, spare, rcu_free: Some(vec![at(3, 0)]) }];
        cache.barns = vec![Barn { full: vec![vec![at(8, 1024), at(2, 2 * 1024)]], empty: 0 }];
        case.alloc(1.0, 0, 6, 3);
        case.free(2.0, 0, 10, 1);
        case.pages(3.0, 0, EventKind::PageAlloc, 11, 0);
        case.alloc(4.0, 0, 11, 0);
        case.pages(5.0, 0, EventKind::PageFree, 8, 0);
        case
    };
    let prepared = |case: Case| {
        let prepared = case.prepare();
        let slabs = prepared.slabs.iter().map(|slab| Slab { frame: 0, ..*slab });
        Prepared { slabs: slabs.collect::<Vec<_>>().into(), ..prepared }
    };
    let here = prepared(case());
    assert_eq!(here.slabs.len(), 10);
    assert_eq!(here, prepared(moved(case())));
}

#[test]
fn an_event_goes_before_what_was_read() {
    let mut case = with_lists(vec![listed(5, Some(0b0001))], 0);
    case.free(1.0, 0, 5, 0);
    case.alloc(2.0, 0, 5, 3);
    let prepared = case.prepare();
    assert_eq!(prepared.live_at_start, [true, true, true, false]);
}

#[test]
fn a_slab_that_changed_while_it_was_read_is_as_without_lists() {
    let mut case = with_lists(vec![listed(5, None), listed(6, None)], 0);
    case.alloc(1.0, 0, 5, 1);
    case.alloc(2.0, 0, 6, 1);
    case.free(3.0, 0, 6, 1);
    case.pages(4.0, 0, EventKind::PageFree, 6, 0);
    let prepared = case.prepare();
    assert_eq!(prepared.live_at_start, [true, false, true, true, false, false, false, false]);
    assert_eq!(prepared.untold, [3, 3]);
}

#[test]
fn steps_begin_when_the_lists_had_been_read() {
    let mut case = with_lists(vec![listed(5, Some(0b1100))], 10_000);
    // Made, filled in part, and one that was gone, before they were read.
    case.pages(1.0, 0, EventKind::PageAlloc, 5, 0);
    case.alloc(2.0, 0, 5, 0);
    case.alloc(3.0, 0, 5, 1);
    case.pages(4.0, 0, EventKind::PageAlloc, 6, 0);
    case.alloc(5.0, 0, 6, 0);
    case.free(6.0, 0, 6, 0);
    case.pages(7.0, 0, EventKind::PageFree, 6, 0);
    case.alloc(11.0, 0, 5, 2);
    case.pages(12.0, 0, EventKind::PageAlloc, 7, 0);
    case.alloc(13.0, 0, 7, 0);
    let prepared = case.prepare();
    let slabs: Vec<_> = prepared.slabs.iter().map(|slab| (slab.frame, slab.initial)).collect();
    assert_eq!(slabs, [(5, true), (7, false)]);
    assert_eq!(prepared.live_at_start, [true, true, false, false, false, false, false, false]);
    assert_eq!(
        runs(&prepared),
        [(11_000, StepKind::Alloc, false), (13_000, StepKind::Alloc, false)]
    );
    assert_eq!(Truth::of(&prepared, 10).total.allocated, 1);
}

#[test]
fn what_was_live_on_a_list_is_freed_before_its_slab_ends() {
    let mut case = with_lists(vec![listed(5, Some(0b1000))], 0);
    case.free(1.0, 0, 5, 0);
    case.free(2.0, 0, 5, 1);
    case.pages(3.0, 0, EventKind::PageFree, 5, 0);
    let prepared = case.prepare();
    let missed = [(3000, StepKind::Free, true)];
    assert_eq!(runs(&prepared)[2..], missed);
}

#[test]
fn each_cpu_has_its_own() {
    let mut case = with_lists(Vec::new(), 0);
    let cpu = CpuSlabLists {
        cpu: 1,
        slab: Some(listed(5, Some(0b1000))),
        partial: vec![listed(6, Some(1)), listed(7, Some(3))],
    };
    case.lists.as_mut().unwrap().caches[0].cpus.push(cpu);
    case.alloc(1.0, 1, 5, 3);
    case.alloc(2.0, 1, 7, 0);
    let prepared = case.prepare();
    let cpus = &prepared.known[0].as_ref().unwrap().cpus;
    assert_eq!((cpus[0].cpu, cpus[0].slab), (1, Some(ListedSlab::Shown(0))));
    assert_eq!(cpus[0].partial, [ListedSlab::Shown(1), ListedSlab::Shown(2)]);
}

#[test]
fn a_slab_of_a_list_that_no_event_shows_ends_with_its_pages() {
    let mut case = with_lists(vec![listed(5, Some(0b1111)), listed(6, Some(0b1111))], 3_000);
    // Of what was there before it.
    case.pages(1.0, 0, EventKind::PageFree, 5, 0);
    case.pages(2.0, 0, EventKind::PageAlloc, 5, 0);
    case.pages(9.0, 1, EventKind::PageFree, 5, 0);
    let prepared = case.prepare();
    let ends: Vec<_> = prepared.slabs.iter().map(|slab| (slab.frame, slab.closed_at)).collect();
    assert_eq!(ends, [(5, Some(9000)), (6, None)]);
    assert_eq!(Truth::of(&prepared, 10).total.freed, 1);
}
