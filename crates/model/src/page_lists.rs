//! Page lists in the model: pages are numbers, and each node has a buddy allocator of such pages.
//!
//! The policy is that of yards ([`slabyard_page_lists::policy`]); here a list is a queue, whose
//! front is the list's head, and no request fails. One call is under way at a time.
//!
//! # Equation
//!
//! For each node: pages free in the buddy + pages on lists + live pages = pages that the node was
//! given.

#[cfg(test)]
mod tests;

use slabyard_abi::stats::Counter;
use slabyard_kernels::page_lists::{List, Rules, Tuning, Warmth};
use slabyard_page_lists::policy::{self, End, Lists};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};

/// Orders of a kernel's buddy: 0 to 10.
const ORDERS: usize = 11;

/// The buddy of a node: free blocks of 2^order pages, by the number of their first page. It gets
/// blocks of the largest order where it has none, as many as it needs.
#[derive(Clone, Debug, Default)]
pub struct Buddy {
    pub(crate) free: [BTreeSet<u32>; ORDERS],
    pages: u32,
}

impl Buddy {
    /// Takes the lowest block that holds 2^order pages, of the smallest order that has one.
    pub fn take(&mut self, order: u32) -> u32 {
        let found = (order as usize..ORDERS).find(|order| !self.free[*order].is_empty());
        let mut of = found.unwrap_or_else(|| {
            self.free[ORDERS - 1].insert(self.pages);
            self.pages += 1 << (ORDERS - 1);
            ORDERS - 1
        });
        let page = self.free[of].pop_first().expect("a free block");
        while of > order as usize {
            of -= 1;
            self.free[of].insert(page + (1 << of));
        }
        page
    }

    /// Frees 2^order pages, and coalesces them with their buddies.
    pub fn give(&mut self, mut page: u32, order: u32) {
        let mut order = order as usize;
        while order < ORDERS - 1 && self.free[order].remove(&(page ^ 1 << order)) {
            page &= !(1 << order);
            order += 1;
        }
        let was_free = !self.free[order].insert(page);
        debug_assert!(!was_free, "page {page} was free");
    }

    /// Sum over all orders, in pages of the modelled machine.
    #[must_use]
    pub fn free_pages(&self) -> u32 {
        self.free.iter().enumerate().map(|(order, blocks)| (blocks.len() as u32) << order).sum()
    }

    /// Pages that it was given.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }
}

/// Receives how much of each counter was counted.
pub type Count<'a> = dyn Fn(Counter, u32) + 'a;

/// What a CPU has of a node.
#[derive(Default)]
struct Cpu {
    /// By order; cold pages behind them.
    lists: RefCell<Vec<VecDeque<u32>>>,
    tuning: Cell<Tuning>,
}

/// The page lists of all CPUs of a modelled machine, of each of its nodes.
pub struct CountedLists {
    rules: Rules,
    nr_nodes: usize,
    /// By CPU, and of one by node.
    cpus: Vec<Cpu>,
    buddies: Vec<RefCell<Buddy>>,
    /// By number of a counter.
    counted: [Cell<u64>; Counter::ALL.len()],
}

impl CountedLists {
    /// Empty lists in front of empty buddies.
    #[must_use]
    pub fn new(rules: Rules, cpus: usize, nodes: usize) -> Self {
        CountedLists {
            rules,
            nr_nodes: nodes,
            cpus: (0..cpus * nodes).map(|_| Cpu::default()).collect(),
            buddies: (0..nodes).map(|_| RefCell::default()).collect(),
            counted: [const { Cell::new(0) }; Counter::ALL.len()],
        }
    }

    /// The numbers.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    fn on(&self, cpu: usize, node: usize) -> OnCpu<'_> {
        self.told(cpu, node, &|_, _| ())
    }

    fn told<'a>(&'a self, cpu: usize, node: usize, also: &'a Count<'a>) -> OnCpu<'a> {
        OnCpu { lists: self, cpu, node, also }
    }

    /// A CPU allocates 2^order pages of a node.
    #[must_use]
    pub fn alloc(&self, cpu: usize, node: usize, order: u32, warmth: Warmth) -> u32 {
        self.alloc_for(cpu, node, order, warmth, &|_, _| ())
    }

    /// As [`CountedLists::alloc`]; `also` gets what it counts, beside these counters.
    #[must_use]
    pub fn alloc_for(
        &self,
        cpu: usize,
        node: usize,
        order: u32,
        warmth: Warmth,
        also: &Count<'_>,
    ) -> u32 {
        let run = policy::alloc(self.told(cpu, node, also), order, warmth);
        run.unwrap_or_else(|| self.before(node, order))
    }

    /// A CPU frees them.
    pub fn free(&self, cpu: usize, node: usize, order: u32, run: u32, warmth: Warmth) {
        policy::free(self.on(cpu, node), order, run, warmth);
    }

    /// As [`CountedLists::free`], of hot pages; `also` gets what it counts.
    pub fn free_for(&self, cpu: usize, node: usize, order: u32, run: u32, also: &Count<'_>) {
        policy::free(self.told(cpu, node, also), order, run, Warmth::Hot);
    }

    /// Pages that were allocated before the counting begins.
    #[must_use]
    pub fn before(&self, node: usize, order: u32) -> u32 {
        self.buddies[node].borrow_mut().take(order)
    }

    /// So many since the lists were made, on all CPUs and nodes.
    #[must_use]
    pub fn counted(&self, counter: Counter) -> u64 {
        self.counted[counter as usize].get()
    }

    /// A CPU's list of a node's pages, from its head to its tail.
    #[must_use]
    pub fn list(&self, cpu: usize, node: usize, list: List) -> Vec<u32> {
        self.on(cpu, node).with(list, |runs| runs.iter().copied().collect())
    }

    /// Pages on lists of a node.
    #[must_use]
    pub fn listed_pages(&self, node: usize) -> u32 {
        let of_cpu = |cpu: usize| {
            let of = (0..self.rules.orders).map(List::Of).chain([List::Cold]);
            of.map(|list| self.on(cpu, node).len(list) << list.order()).sum::<u32>()
        };
        (0..self.cpus.len() / self.nr_nodes).map(of_cpu).sum()
    }

    /// A node's buddy.
    #[must_use]
    pub fn buddy(&self, node: usize) -> Buddy {
        self.buddies[node].borrow().clone()
    }

    /// Empties a CPU's lists: their pages go to the buddy.
    pub fn drain(&self, cpu: usize, node: usize) {
        for list in (0..self.rules.orders).map(List::Of).chain([List::Cold]) {
            self.on(cpu, node).give_back(list, u32::MAX);
        }
    }
}

#[derive(Clone, Copy)]
struct OnCpu<'a> {
    lists: &'a CountedLists,
    cpu: usize,
    node: usize,
    also: &'a Count<'a>,
}

impl OnCpu<'_> {
    fn cpu(&self) -> &Cpu {
        &self.lists.cpus[self.cpu * self.lists.nr_nodes + self.node]
    }

    fn with<R>(&self, list: List, f: impl FnOnce(&mut VecDeque<u32>) -> R) -> R {
        let orders = self.lists.rules.orders as usize;
        let nth = if list == List::Cold { orders } else { list.order() as usize };
        let mut lists = self.cpu().lists.borrow_mut();
        let len = lists.len().max(orders + 1);
        lists.resize_with(len, VecDeque::new);
        f(&mut lists[nth])
    }

    fn buddy<R>(&self, f: impl FnOnce(&mut Buddy) -> R) -> R {
        f(&mut self.lists.buddies[self.node].borrow_mut())
    }
}

impl Lists for OnCpu<'_> {
    type Run = u32;

    fn rules(&self) -> &Rules {
        &self.lists.rules
    }

    fn len(self, list: List) -> u32 {
        self.with(list, |runs| runs.len() as u32)
    }

    fn pop(self, list: List, end: End) -> Option<u32> {
        self.with(list, |runs| match end {
            End::Head => runs.pop_front(),
            End::Tail => runs.pop_back(),
        })
    }

    fn push(self, list: List, run: u32, end: End) -> bool {
        let capacity = self.lists.rules.capacity(list) as usize;
        self.with(list, |runs| {
            let has_room = runs.len() < capacity;
            match end {
                End::Head if has_room => runs.push_front(run),
                End::Tail if has_room => runs.push_back(run),
                _ => {}
            }
            has_room
        })
    }

    fn refill(self, list: List, most: u32) -> u32 {
        let room = self.lists.rules.capacity(list).saturating_sub(self.len(list));
        let runs = most.min(room);
        for _ in 0..runs {
            let run = self.buddy(|buddy| buddy.take(list.order()));
            self.with(list, |runs| runs.push_back(run));
        }
        runs
    }

    fn give_back(self, list: List, most: u32) -> u32 {
        let runs = most.min(self.len(list));
        for _ in 0..runs {
            let run = self.with(list, VecDeque::pop_back).expect("a run on the list");
            self.buddy(|buddy| buddy.give(run, list.order()));
        }
        runs
    }

    fn take_one(self, order: u32) -> Option<u32> {
        Some(self.buddy(|buddy| buddy.take(order)))
    }

    fn give_one(self, order: u32, run: u32) {
        self.buddy(|buddy| buddy.give(run, order));
    }

    fn tuning(self) -> Tuning {
        self.cpu().tuning.get()
    }

    fn set_tuning(self, tuning: Tuning) {
        self.cpu().tuning.set(tuning);
    }

    fn count(self, counter: Counter, n: u32) {
        let counted = &self.lists.counted[counter as usize];
        counted.set(counted.get() + u64::from(n));
        (self.also)(counter, n);
    }
}
