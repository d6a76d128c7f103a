//! Tests the walk on simulated kernel memory.

use super::*;
use crate::lists::layout::{
    BarnPlace, Bits, CacheLayout, CpuLayout, NodeLayout, SheafLayout, SlabLayout,
};
use crate::lists::{Barn, CpuSheaves, Unreadable, json};
use std::collections::BTreeMap;

const PAGE: u64 = 4096;
const CACHE: u64 = 0xffff_8880_0000_1000;
const NODE: u64 = 0xffff_8880_0000_2000;
const NAME_AT: u64 = 0xffff_8880_0000_3000;
const OF_CPU: u64 = 0xffff_8880_0000_4000;
const STRUCTS: u64 = 0xffff_ea00_0000_0000;
const MAP: u64 = 0xffff_8880_0000_0000;
const RANDOM: u64 = 0x1234_5678_9abc_def0;
const SIZE: u64 = 512;
const LINK: u64 = 256;

fn layout() -> Layout {
    Layout {
        cache: CacheLayout {
            bytes: 64,
            name: 0,
            size: 8,
            offset: 12,
            oo: 16,
            min: 20,
            random: Some(24),
            cpu_slab: Some(32),
            node: 64,
            node_stride: 8,
            list: 40,
        },
        slab: SlabLayout {
            bytes: 64,
            cache: 8,
            list: 16,
            next: Some(16),
            freelist: 32,
            inuse: Bits { first: 320, bits: 16 },
            objects: Bits { first: 336, bits: 15 },
        },
        node: NodeLayout { partial: 16, nr_partial: 8 },
        cpu: Some(CpuLayout { freelist: 0, slab: 16, partial: Some(24) }),
        sheaves: None,
        page_struct: 64,
        array_pptrs: None,
        iterator: None,
    }
}

/// As since 7.1: no CPU slabs, and a barn beside each node.
fn with_sheaves() -> Layout {
    let sheaves = SheafLayout {
        variable: 32,
        capacity: 48,
        barn: BarnPlace::OfCache(56),
        of_cpu: [8, 16, 24],
        list: 0,
        cache: 16,
        size: 24,
        objects: 32,
        full: 8,
        nr_full: 24,
        nr_empty: 28,
    };
    let mut layout = Layout { cpu: None, sheaves: Some(sheaves), ..layout() };
    (layout.cache.cpu_slab, layout.cache.node_stride) = (None, 16);
    layout
}

/// Memory by words, which may change when one of them is read.
#[derive(Default)]
struct Made {
    words: BTreeMap<u64, u64>,
    /// When this is read for the nth time, that is written there.
    change: Option<(u64, u32, u64, u64)>,
}

impl Memory for Made {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Unreadable> {
        if address < MAP {
            return Err(Unreadable(address));
        }
        for (nth, byte) in (0..).zip(bytes.iter_mut()) {
            let at = address + nth;
            let word = self.words.get(&(at & !7)).copied().unwrap_or(0);
            *byte = word.to_le_bytes()[(at % 8) as usize];
        }
        if let Some((at, left, to, word)) = &mut self.change
            && address == *at
        {
            *left -= 1;
            if *left == 0 {
                self.words.insert(*to, *word);
                self.change = None;
            }
        }
        Ok(())
    }

    fn caches(&mut self, _: &Layout) -> Result<Vec<u64>, ListsError> {
        Ok(vec![CACHE])
    }

    fn cpu_offset(&mut self, _: &Layout, cpu: u32) -> Result<u64, ListsError> {
        Ok(u64::from(cpu) * 64)
    }
}

/// Where the struct of a page frame is, and its memory.
fn slab_at(frame: u64) -> (u64, u64) {
    (STRUCTS + frame * 64, MAP + frame * PAGE)
}

impl Made {
    /// A cache of slabs of a page with eight objects.
    fn cache() -> Made {
        let mut made = Made::default();
        let words =
            [(CACHE, NAME_AT), (CACHE + 24, RANDOM), (CACHE + 32, OF_CPU), (CACHE + 64, NODE)];
        made.words.extend(words);
        made.words.insert(CACHE + 8, SIZE | LINK << 32);
        made.words.insert(CACHE + 16, 8 | 8 << 32);
        made.words.insert(NAME_AT, u64::from_le_bytes(*b"filp\0\0\0\0"));
        made
    }

    fn put(&mut self, at: u64, word: u64) {
        self.words.insert(at, word);
    }

    /// Links free objects; the first's address, or 0.
    fn free(&mut self, frame: u64, free: &[u64]) -> u64 {
        let base = slab_at(frame).1;
        let object = |nth: u64| base + nth * SIZE;
        for (nth, at) in free.iter().enumerate() {
            let next = free.get(nth + 1).map_or(0, |next| object(*next));
            let link = object(*at) + LINK;
            self.words.insert(link, next ^ RANDOM ^ link.swap_bytes());
        }
        free.first().map_or(0, |first| object(*first))
    }

    /// A slab whose own list has these.
    fn slab(&mut self, frame: u64, free: &[u64]) -> u64 {
        let first = self.free(frame, free);
        let at = slab_at(frame).0;
        let in_use = 8 - free.len() as u64;
        self.words.extend([(at + 8, CACHE), (at + 32, first), (at + 40, in_use | 8 << 16)]);
        at
    }

    /// The node's list of slabs, each of which has its free objects.
    fn node(&mut self, slabs: &[(u64, &[u64])]) {
        let links = slabs.iter().map(|(frame, free)| self.slab(*frame, free) + 16);
        let ring: Vec<u64> = std::iter::once(NODE + 16).chain(links.collect::<Vec<_>>()).collect();
        for (nth, at) in ring.iter().enumerate() {
            let next = ring[(nth + 1) % ring.len()];
            self.words.insert(*at, next);
            self.words.insert(next + 8, *at);
        }
        self.words.insert(NODE + 8, slabs.len() as u64);
    }

    fn read_lists(&mut self) -> Lists {
        self.read_by(&layout())
    }

    fn read_by(&mut self, layout: &Layout) -> Lists {
        let machine = Machine { page_size: PAGE, cpus: 2, nodes: 1 };
        lists(self, layout, machine, &|_| true, &|| 77).unwrap()
    }

    /// A sheaf of the cache at an address.
    fn sheaf(&mut self, at: u64, objects: &[u64]) -> u64 {
        self.words.extend([(at + 16, CACHE), (at + 24, objects.len() as u64)]);
        self.words.extend((0..).zip(objects).map(|(nth, object)| (at + 32 + 8 * nth, *object)));
        at
    }

    /// A cache whose sheaves hold three objects: CPU 0 has a main one and one for RCU, CPU 1 two and
    /// an empty one; the barn has two full ones and one empty one.
    fn in_sheaves() -> Made {
        let mut made = Made::cache();
        made.node(&[(20, &[1])]);
        made.words.insert(CACHE + 48, 3);
        let object = |nth: u64| slab_at(30).1 + nth * SIZE;
        let at = |nth: u64| SHEAVES + nth * 0x100;
        made.words.insert(OF_CPU + 8, at(0));
        made.words.insert(OF_CPU + 24, at(1));
        made.words.insert(OF_CPU + 64 + 8, at(2));
        made.words.insert(OF_CPU + 64 + 16, at(3));
        made.sheaf(at(0), &[object(0), object(2)]);
        made.sheaf(at(1), &[object(1)]);
        made.sheaf(at(2), &[object(3), object(4), object(5)]);
        made.sheaf(at(3), &[]);
        made.sheaf(at(4), &[object(6), object(7), slab_at(31).1]);
        made.sheaf(at(5), &[slab_at(31).1 + SIZE, slab_at(31).1 + 2 * SIZE, slab_at(32).1]);
        let ring = [BARN + 8, at(5), at(4)];
        for (nth, link) in ring.iter().enumerate() {
            let next = ring[(nth + 1) % ring.len()];
            made.words.extend([(*link, next), (next + 8, *link)]);
        }
        made.words.insert(CACHE + 56, BARN);
        made.words.insert(BARN + 24, 2 | 1 << 32);
        made
    }
}

const SHEAVES: u64 = 0xffff_8880_0000_5000;
const BARN: u64 = 0xffff_8880_0000_6000;

#[test]
fn sheaves_of_cpus_and_barns_are_read() {
    let lists = Made::in_sheaves().read_by(&with_sheaves());
    assert_eq!(lists.unread, 0);
    let cache = &lists.caches[0];
    let object = |frame: u64, nth: u64| (slab_at(frame).1 + nth * SIZE) & ADDRESS;
    let of = |nths: &[u64]| nths.iter().map(|nth| object(30, *nth)).collect::<Vec<_>>();
    let cpus = [
        CpuSheaves { cpu: 0, main: of(&[0, 2]), spare: None, rcu_free: Some(of(&[1])) },
        CpuSheaves { cpu: 1, main: of(&[3, 4, 5]), spare: Some(vec![]), rcu_free: None },
    ];
    assert_eq!(cache.sheaves, cpus);
    let full = vec![
        vec![object(31, 1), object(31, 2), object(32, 0)],
        vec![object(30, 6), object(30, 7), object(31, 0)],
    ];
    assert_eq!(cache.barns, [Barn { full, empty: 1 }]);
    assert_eq!(cache.nodes[0].iter().map(free_of).collect::<Vec<_>>(), [(20, vec![1])]);
    assert_eq!(json::read(&json::write(&lists)), Some(lists));
}

#[test]
fn each_address_is_reached_to_be_moved() {
    let mut lists = Made::in_sheaves().read_by(&with_sheaves());
    let cache = &mut lists.caches[0];
    cache.each_address_mut().for_each(|address| *address = 7);
    assert!(cache.each().all(|slab| slab.base == 7));
    assert_eq!(cache.in_sheaves().collect::<Vec<_>>(), [7; 12]);
    assert_eq!(cache.each_address_mut().count(), 13);
}

#[test]
fn sheaves_that_make_no_sense_are_not_taken() {
    // Another cache's, more objects than fit, a barn that counts others, links that do not agree.
    for (at, word) in
        [(SHEAVES + 16, 8), (SHEAVES + 24, 4), (BARN + 24, 3 | 1 << 32), (SHEAVES + 0x408, 8)]
    {
        let mut made = Made::in_sheaves();
        made.put(at, word);
        let lists = made.read_by(&with_sheaves());
        assert_eq!((lists.unread, lists.caches.len()), (1, 0), "{at:#x}");
    }
    // One that is exchanged meanwhile.
    let mut made = Made::in_sheaves();
    made.change = Some((BARN + 8, 1, OF_CPU + 8, SHEAVES + 0x300));
    let lists = made.read_by(&with_sheaves());
    assert!(lists.caches[0].sheaves[0].main.is_empty());
}

#[test]
fn lists_that_do_not_tell_of_sheaves_are_read() {
    let old =
        br#"{"caches": [{"name": "filp", "read_at": 7, "nodes": [[]], "cpus": []}], "unread": 0}"#;
    let lists = json::read(old).expect("lists");
    assert!(lists.caches[0].sheaves.is_empty() && lists.caches[0].barns.is_empty());
}

fn free_of(slab: &SlabOnList) -> (u64, Vec<u32>) {
    let frame = (slab.base - (MAP & ADDRESS)) / PAGE;
    let free = slab.free.as_ref().expect("it stood still");
    (frame, (0..slab.objects).filter(|nth| free.has(*nth)).collect())
}

#[test]
fn a_nodes_list_is_read_in_order_with_what_is_free() {
    let mut made = Made::cache();
    made.node(&[(40, &[3, 0, 7]), (20, &[1]), (60, &[0, 1, 2, 3, 4, 5, 6, 7])]);
    let lists = made.read_lists();
    assert_eq!((lists.unread, lists.caches.len()), (0, 1));
    let cache = &lists.caches[0];
    assert_eq!((cache.name.as_str(), cache.read_at), ("filp", 77));
    let found: Vec<_> = cache.nodes[0].iter().map(free_of).collect();
    assert_eq!(found, [(40, vec![0, 3, 7]), (20, vec![1]), (60, (0..8).collect())]);
    assert!(cache.cpus.is_empty());
}

#[test]
fn a_cpus_own_objects_are_free_and_its_list_is_read() {
    let mut made = Made::cache();
    // Without an object in hand and one on its list: its memory follows from that of others.
    made.node(&[(20, &[1])]);
    let full = made.slab(30, &[]);
    made.words.insert(OF_CPU + 16, full);
    // CPU 1: two of its own, one that another CPU freed, and two slabs on its list.
    let own = made.slab(31, &[5]);
    let first = made.free(31, &[2, 4]);
    let (a, b) = (made.slab(33, &[6]), made.slab(32, &[0, 2]));
    made.words.insert(own + 40, 7 | 8 << 16);
    made.words.extend([(OF_CPU + 64, first), (OF_CPU + 64 + 16, own), (OF_CPU + 64 + 24, a)]);
    made.words.extend([(a + 16, b), (b + 16, 0)]);
    let lists = made.read_lists();
    let cpus = &lists.caches[0].cpus;
    assert_eq!(cpus.len(), 2);
    assert_eq!(free_of(cpus[0].slab.as_ref().unwrap()), (30, vec![]));
    assert_eq!(free_of(cpus[1].slab.as_ref().unwrap()), (31, vec![2, 4, 5]));
    let listed: Vec<_> = cpus[1].partial.iter().map(free_of).collect();
    assert_eq!(listed, [(33, vec![6]), (32, vec![0, 2])]);
}

#[test]
fn what_does_not_fit_is_left_open_and_the_rest_is_read() {
    // Another cache's, a link out of the slab, a circle, more free than it says.
    let spoils: [fn(&mut Made, u64); 4] = [
        |made, at| made.put(at + 8, CACHE + 8),
        |made, at| made.put(at + 32, slab_at(99).1),
        |made, at| {
            let link = slab_at(40).1 + 3 * SIZE + LINK;
            let itself = slab_at(40).1 + 3 * SIZE;
            made.words.insert(link, itself ^ RANDOM ^ link.swap_bytes());
            made.words.insert(at + 40, 6 | 8 << 16);
        },
        |made, at| made.put(at + 40, 5 | 8 << 16),
    ];
    for (nth, spoil) in spoils.into_iter().enumerate() {
        let mut made = Made::cache();
        made.node(&[(20, &[1]), (40, &[3, 0]), (60, &[2])]);
        spoil(&mut made, slab_at(40).0);
        let lists = made.read_lists();
        let slabs = &lists.caches[0].nodes[0];
        let read: Vec<bool> = slabs.iter().map(|slab| slab.free.is_some()).collect();
        let sound = read.iter().filter(|read| **read).count();
        assert!(sound == 2 && read[0], "spoil {nth}: {read:?}");
        assert_eq!(free_of(slabs.last().unwrap()), (60, vec![2]), "spoil {nth}");
    }
}

#[test]
fn a_list_whose_links_do_not_agree_is_not_taken() {
    let mut made = Made::cache();
    made.node(&[(20, &[1]), (40, &[3])]);
    made.words.insert(slab_at(40).0 + 24, 0xbad);
    let lists = made.read_lists();
    assert_eq!((lists.unread, lists.caches.len()), (1, 0));
    let mut made = Made::cache();
    made.node(&[(20, &[1]), (40, &[3])]);
    made.words.insert(NODE + 8, 3);
    assert_eq!(made.read_lists().unread, 1);
}

#[test]
fn what_changes_while_it_is_read_is_read_again() {
    let mut made = Made::cache();
    made.node(&[(20, &[1]), (40, &[3, 0])]);
    // Object 3 is taken after the slab's contents were read the first time.
    let (at, base) = slab_at(40);
    made.change = Some((base, 1, at + 32, base));
    made.words.insert(at + 40, 6 | 8 << 16);
    let lists = made.read_lists();
    let slab = &lists.caches[0].nodes[0][1];
    // The kernel says two are free and one is on the list: that never fits.
    assert_eq!(slab.free, None);
    made.words.insert(at + 40, 7 | 8 << 16);
    let lists = made.read_lists();
    assert_eq!(free_of(&lists.caches[0].nodes[0][1]), (40, vec![0]));
}
