//! A cache of least recently used values whose nodes live in an object cache: a burst of keys, a
//! smaller limit, and how much a shrink returns.
//!
//! `cargo run --release -p slabyard --example lru` prints the slabs' bytes at each point.

use slabyard::{CacheBox, ObjectCache, ProcessYard};
use std::collections::BTreeMap;
use std::error::Error;

static YARD: ProcessYard = ProcessYard::new();

/// A value, and when it was last used.
struct Node {
    used: u64,
    value: [u64; 12],
}

/// Values by key, and keys by their last use.
struct Lru {
    nodes: ObjectCache<Node>,
    by_key: BTreeMap<u64, CacheBox<Node>>,
    by_use: BTreeMap<u64, u64>,
    limit: usize,
    clock: u64,
}

impl Lru {
    fn new(limit: usize) -> Result<Self, Box<dyn Error>> {
        let nodes = ObjectCache::builder("lru node").create(&YARD)?;
        Ok(Lru { nodes, by_key: BTreeMap::new(), by_use: BTreeMap::new(), limit, clock: 0 })
    }

    fn get(&mut self, key: u64) -> Option<&[u64; 12]> {
        let node = self.by_key.get_mut(&key)?;
        self.by_use.remove(&node.used);
        self.clock += 1;
        node.used = self.clock;
        self.by_use.insert(self.clock, key);
        Some(&node.value)
    }

    fn insert(&mut self, key: u64, value: [u64; 12]) {
        self.clock += 1;
        let node = self.nodes.alloc(Node { used: self.clock, value });
        if let Some(old) = self.by_key.insert(key, node) {
            self.by_use.remove(&old.used);
        }
        self.by_use.insert(self.clock, key);
        self.evict();
    }

    fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.evict();
    }

    fn evict(&mut self) {
        while self.by_key.len() > self.limit
            && let Some((_, key)) = self.by_use.pop_first()
        {
            self.by_key.remove(&key);
        }
    }

    fn print(&self, when: &str) {
        let (live, kib) = (self.nodes.live().unwrap_or(0), self.nodes.bytes() >> 10);
        println!("{when}: {live} nodes in {kib} KiB of slabs");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut lru = Lru::new(200_000)?;
    for key in 0..300_000 {
        lru.insert(key, [key; 12]);
        // Every tenth of the first keys stays in use.
        if key % 10 == 0 {
            lru.get(key / 100 * 10);
        }
    }
    lru.print("after the burst");
    assert_eq!(lru.nodes.live(), Some(200_000));
    lru.set_limit(2_000);
    lru.print("with a smaller limit");
    lru.nodes.shrink();
    lru.print("after shrink");
    assert!(lru.by_key.iter().all(|(key, node)| node.value == [*key; 12]));
    assert_eq!(lru.nodes.live(), Some(2_000));
    Ok(())
}
