//! This program's allocator is a yard, which typed caches share; so no other test is in it.

use slabyard::observe::count;
use slabyard::{CacheBox, Global, ObjectCache};
use slabyard_testkit::Random;
use std::alloc::{GlobalAlloc, Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

#[global_allocator]
static ALLOC: Global = Global::new();

fn verify() {
    let yard = ALLOC.yard().expect("memory").start().expect("memory");
    yard.verify().expect("outside of a slow path").expect("a sound yard");
    assert_eq!(count::set_aside(&yard.heap), 0);
}

/// A number of bytes, of any order of magnitude up to 2 MiB.
fn any_bytes(random: &mut Random) -> usize {
    let most = 1 << random.below(22);
    1 + random.below(most)
}

/// A block, filled with its mark.
struct Block {
    pointer: *mut u8,
    layout: Layout,
    mark: u8,
}

// SAFETY: it is its owner's alone.
unsafe impl Send for Block {}

impl Block {
    fn new(random: &mut Random) -> Self {
        let bytes = any_bytes(random);
        let orders = if random.chance(5) { 16 } else { 5 };
        let align = 1 << random.below(orders);
        let layout = Layout::from_size_align(bytes, align).expect("a layout");
        let mark = random.next() as u8;
        // SAFETY: the layout has bytes, and so has the block.
        unsafe {
            let zeroed = random.chance(30);
            let pointer = if zeroed { alloc_zeroed(layout) } else { alloc(layout) };
            assert!(!pointer.is_null() && pointer.addr().is_multiple_of(align));
            assert!(!zeroed || (0..bytes).all(|at| *pointer.add(at) == 0));
            pointer.write_bytes(mark, bytes);
            Block { pointer, layout, mark }
        }
    }

    fn check(&self) {
        // SAFETY: a live block of so many bytes.
        assert!((0..self.layout.size()).all(|at| unsafe { *self.pointer.add(at) } == self.mark));
    }

    fn resize(&mut self, random: &mut Random) {
        let bytes = any_bytes(random);
        let layout = Layout::from_size_align(bytes, self.layout.align()).expect("a layout");
        // SAFETY: a live block with this layout.
        unsafe {
            self.pointer = realloc(self.pointer, self.layout, bytes);
            assert!(self.pointer.addr().is_multiple_of(layout.align()));
            let kept = bytes.min(self.layout.size());
            assert!((0..kept).all(|at| *self.pointer.add(at) == self.mark));
            self.pointer.write_bytes(self.mark, bytes);
        }
        self.layout = layout;
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.check();
        // SAFETY: a live block with this layout.
        unsafe { dealloc(self.pointer, self.layout) };
    }
}

#[test]
fn blocks_keep_their_bytes() {
    let handed = Mutex::new(Vec::<Block>::new());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let handed = &handed;
            scope.spawn(move || {
                let mut random = Random::new(thread);
                let mut held: Vec<Block> = Vec::new();
                for _ in 0..2500 {
                    match random.below(10) {
                        0..4 => held.push(Block::new(&mut random)),
                        4..6 if !held.is_empty() => {
                            let nth = random.below(held.len());
                            held[nth].resize(&mut random);
                        }
                        6 => handed.lock().expect("no panic").extend(held.pop()),
                        7 => held.extend(handed.lock().expect("no panic").pop()),
                        _ if !held.is_empty() => drop(held.swap_remove(random.below(held.len()))),
                        _ => {}
                    }
                    held.truncate(40);
                }
            });
        }
    });
    drop(handed);
    verify();
}

#[test]
fn collections_and_typed_caches_share_the_yard() {
    let yard = ALLOC.yard().expect("memory");
    let names = ObjectCache::<String>::new("names", yard).expect("a cache");
    let mut map: HashMap<u64, CacheBox<String>> = HashMap::new();
    let mut sorted = BTreeMap::new();
    for key in 0..20_000 {
        map.insert(key, names.alloc(format!("name {key}")));
        sorted.insert(key, vec![key; 10]);
        if key % 3 == 0 {
            map.remove(&(key / 2));
            sorted.remove(&(key / 2));
        }
    }
    assert!(map.iter().all(|(key, name)| **name == format!("name {key}")));
    assert!(sorted.iter().all(|(key, values)| values.iter().all(|value| value == key)));
    assert_eq!(names.live(), Some(map.len() as u64));
    verify();
}

/// An allocator that is not a `static` works as long as it is there, and its blocks beyond.
#[test]
fn an_allocator_may_move() {
    let layout = Layout::new::<[u64; 9]>();
    let first = Global::<slabyard::engine::Sheaves>::new();
    // SAFETY: a layout with bytes; the block is freed once, with it.
    unsafe {
        let block = first.alloc(layout);
        block.write_bytes(1, layout.size());
        let moved = Box::new(first);
        assert_eq!(*block, 1);
        moved.dealloc(block, layout);
    }
}
