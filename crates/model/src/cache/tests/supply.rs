//! Tests slabs of the smallest order: which of them have fewer objects, what is counted as before,
//! and that the equations hold whatever requests a supply refuses.

use super::*;
use crate::cache::supply::{Order, Supply};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Objects of a slab of the least order; one of the cache's order has four.
const LEAST: u32 = 1;

/// What was requested from a supply, and which slabs have pages.
#[derive(Default)]
struct SupplyState {
    /// What the next slabs get, the first one last; then all get `then`.
    next: Vec<Option<Order>>,
    then: Option<Order>,
    slabs: BTreeMap<u32, Order>,
    refused: u32,
}

#[derive(Clone, Default)]
struct Book(Rc<RefCell<SupplyState>>);

impl Supply for Book {
    fn begin(&self, slab: u32, _: u16) -> Option<Order> {
        let mut asked = self.0.borrow_mut();
        let then = asked.then;
        let Some(order) = asked.next.pop().unwrap_or(then) else {
            asked.refused += 1;
            return None;
        };
        assert_eq!(asked.slabs.insert(slab, order), None, "slab {slab} began twice");
        Some(order)
    }

    fn adopt(&self, slab: u32, _: u16) {
        let before = self.0.borrow_mut().slabs.insert(slab, Order::Cache);
        assert_eq!(before, None, "slab {slab} has pages");
    }

    fn end(&self, slab: u32) {
        assert!(self.0.borrow_mut().slabs.remove(&slab).is_some(), "slab {slab} has no pages");
    }
}

impl Book {
    /// A cache whose next slabs get these orders, and later ones the cache's.
    fn cache(rules: Rules, orders: &[Option<Order>]) -> (Book, KernelCache) {
        let (book, mut cache) = (Book::default(), KernelCache::new(rules, &[0, 0]));
        {
            let mut asked = book.0.borrow_mut();
            asked.next = orders.iter().rev().copied().collect();
            asked.then = Some(Order::Cache);
        }
        cache.supply(Box::new(book.clone()), LEAST);
        (book, cache)
    }
}

pub(crate) const SMALL: Option<Order> = Some(Order::Least);
const WHOLE: Option<Order> = Some(Order::Cache);

/// What is where, counted by hand: two slabs of one object each and one of four hold six.
#[test]
fn a_slab_of_the_least_order_has_fewer_objects() {
    let (book, mut cache) = Book::cache(RULES, &[SMALL, SMALL, WHOLE]);
    let slabs: Vec<u32> = (0..6).map(|_| cache.alloc(0, None)).collect();
    assert_eq!(slabs, [1, 2, 3, 3, 3, 3]);
    assert_eq!([1, 2, 3].map(|slab| cache.objects_of(slab)), [LEAST, LEAST, 4]);
    let places = cache.places();
    assert_eq!((places.slabs, places.small, places.objects, places.taken), (3, 2, 6, 6));
    assert_eq!((cache.nr_small(), cache.counters().get(C::OrderFallback)), (2, 2));
    assert_eq!(cache.counters().get(C::AllocSlab), 3);
    cache.audit(None).unwrap();

    // A free empties a small slab at once: it waits empty on the CPU's list.
    cache.free(1, 1);
    assert_eq!((cache.state(1), cache.free_of(1)), (State::CpuPartial, 1));
    assert_eq!((cache.places().cpu_empty, cache.counters().get(C::EmptyParked)), (1, 0));
    cache.free(1, 2);
    // An end, and the next slab of that number is whole.
    cache.shrink();
    assert_eq!((cache.state(1), cache.nr_small(), cache.nr_slabs()), (State::Gone, 0, 1));
    assert_eq!(book.0.borrow().slabs.len(), 1);
    let next = cache.alloc(0, None);
    assert_eq!((cache.objects_of(next), cache.places().objects), (4, 8));
}

/// Lists that count slabs count a small one like any other: with half of the objects a list is over
/// its limit (as reported in 2023). Lists that count objects count those that it has.
#[test]
fn limits_stay_the_caches() {
    let longest = |accounting, orders: &[Option<Order>]| {
        let (_, mut cache) = Book::cache(Rules { accounting, ..RULES }, orders);
        // Full slabs, then an object of each is freed on the other CPU.
        let mut live = Vec::new();
        while live.last() != Some(&13) {
            live.push(cache.alloc(0, None));
        }
        let mut longest = 0;
        for slab in 1..=12 {
            cache.free(1, slab);
            longest = longest.max(cache.each_cpu_partial(1).count());
            cache.audit(None).unwrap();
        }
        (longest, cache.counters().get(C::CpuPartialDrain))
    };
    let (small, whole) = ([SMALL; 12], [WHOLE; 12]);
    assert_eq!(longest(Accounting::Slabs, &small), (3, 3));
    assert_eq!(longest(Accounting::Slabs, &whole), (3, 3));
    assert_eq!(longest(Accounting::Objects, &small), (7, 1));
    assert_eq!(longest(Accounting::Objects, &whole), (7, 1));
}

/// With exact accounting a small slab leaves the list by its first free: it is empty then. Where
/// there is no list the same free ends it, if the node's list is long enough.
#[test]
fn a_small_slab_is_empty_by_its_own_number() {
    let rules = Rules { accounting: Accounting::Exact, min_partial: 0, ..RULES };
    let off = Rules { cpu_partial_lists: false, min_partial: 0, ..RULES };
    let tiny = Rules { front: Front::Nothing, min_partial: 0, ..RULES };
    let sheaves = Rules { front: Front::Sheaves, sheaf_capacity: 0, min_partial: 0, ..RULES };
    for (rules, ends) in [(rules, false), (off, true), (tiny, true), (sheaves, true)] {
        let (book, mut cache) = Book::cache(rules, &[SMALL, WHOLE]);
        let small = cache.alloc(0, None);
        let whole: Vec<u32> = (0..4).map(|_| cache.alloc(0, None)).collect();
        cache.free(1, small);
        assert_eq!(cache.state(small) == State::Gone, ends, "{rules:?}");
        // Three of four objects: not empty.
        whole[..3].iter().for_each(|slab| cache.free(1, *slab));
        assert_ne!(cache.state(whole[0]), State::Gone, "{rules:?}");
        cache.free(1, whole[3]);
        cache.audit(None).unwrap();
        cache.end_empties();
        cache.shrink();
        assert!(book.0.borrow().slabs.is_empty(), "{rules:?}");
    }
}

/// Without pages an allocation gets nothing, the books hold, and what others free serves the next.
#[test]
fn an_allocation_without_pages_gets_nothing() {
    each_combination(|rules, node_of| {
        let mut cache = KernelCache::new(rules, node_of);
        let book = Book::default();
        book.0.borrow_mut().next = vec![SMALL, WHOLE];
        cache.supply(Box::new(book.clone()), LEAST);
        let mut live: Vec<u32> = Vec::new();
        loop {
            let slab = cache.alloc(0, None);
            cache.audit(None).unwrap();
            if slab == NONE {
                break;
            }
            live.push(slab);
        }
        assert_eq!(live.len(), 5, "{rules:?}");
        assert!(book.0.borrow().refused > 0);
        let slab = live.pop().unwrap();
        cache.free(0, slab);
        assert_eq!(cache.alloc(0, None), slab, "{rules:?}");
    });
}

/// Random calls on a supply that gives either order or nothing; what is wrong, if anything. With
/// `forgets` the supply says that a slab is whole which is small.
fn storm(rules: Rules, node_of: &[u16], seed: u64, forgets: bool) -> Result<(u32, u32), String> {
    let mut random = Random(seed | 1);
    let (book, mut cache) = (Book::default(), KernelCache::new(rules, node_of));
    let before = cache.install_full(0);
    cache.begin();
    cache.supply(Box::new(book.clone()), LEAST);
    let mut live = vec![before; rules.objects as usize];
    let mut small = 0;
    for step in 0..600 {
        let cpu = random.below(node_of.len());
        book.0.borrow_mut().then = [WHOLE, SMALL, SMALL, None][random.below(4)];
        let up = if step / 150 % 2 == 0 { 70 } else { 30 };
        match random.below(100) {
            99 => cache.shrink(),
            98 => cache.flush_cpu(cpu),
            97 => cache.end_empties(),
            n if n < up || live.is_empty() => match cache.alloc(cpu, None) {
                NONE => {}
                slab => live.push(slab),
            },
            _ => {
                let slab = live.swap_remove(random.below(live.len()));
                cache.free(cpu, slab);
            }
        }
        small = small.max(cache.nr_small());
        if forgets && step == 300 {
            cache.each_slab().for_each(|(_, slab)| slab.is_small.set(false));
        }
        let of = |slab: u32| live.iter().filter(|of| **of == slab).count() as u32;
        cache.audit(Some(&of)).map_err(|what| format!("step {step}: {what}"))?;
        let asked = book.0.borrow();
        for (number, slab) in cache.each_slab() {
            let is_small = slab.is_small.get();
            if asked.slabs.get(&number)
                != Some(if is_small { &Order::Least } else { &Order::Cache })
            {
                return Err(format!("step {step}: the pages of slab {number} are others"));
            }
        }
        if asked.slabs.len() != cache.nr_slabs() as usize {
            return Err(format!("step {step}: pages of slabs that are gone"));
        }
    }
    let refused = book.0.borrow().refused;
    Ok((small, refused))
}

#[test]
fn every_combination_keeps_the_books_with_slabs_of_two_orders() {
    let (mut small, mut refused) = (0, 0);
    each_combination(|rules, node_of| {
        for seed in 1..3 {
            match storm(rules, node_of, seed * 7919, false) {
                Ok(found) => (small, refused) = (small + found.0, refused + found.1),
                Err(what) => panic!("{rules:?} on {node_of:?}, seed {seed}: {what}"),
            }
        }
    });
    assert!(small > 1000 && refused > 1000, "{small} small slabs, {refused} refused");
}

/// Planted: a small slab that counts as a whole one is found by the books.
#[test]
fn a_slab_that_forgets_its_order_is_found() {
    assert!(storm(RULES, &[0, 0], 7919, true).is_err());
}
