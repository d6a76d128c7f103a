//! SLAB: an array per CPU, one array shared by all CPUs, and three lists of slabs.
//!
//! Neighbours: [`slabyard::engine::array_cache`] is the policy, [`super::stacks`] implements the
//! arrays.

use super::slabs::{CacheLimits, FixedSlabs, Object, SlabEngine};
use super::stacks::Sheaf;
use core::cell::Cell;
use slabyard::engine::array_cache::{self, Arrays, NodeArrays, array, lists};
use slabyard::engine::slabs::{FlushTarget, SheafAccess, Stacks};
use slabyard::engine::{Header, Shape};
use slabyard::slab::{Geometry, Put};

/// The word of a CPU that says that its array was touched, in place of a spare sheaf.
const TOUCHED: usize = 1;

/// SLAB (to 6.7).
pub enum Slab {}

impl Slab {
    fn limits(geometry: &Geometry, limits: &CacheLimits) -> array_cache::Limits {
        array_cache::Limits::of(geometry.size, limits.page_bytes, limits.cpus)
    }
}

impl SlabEngine for Slab {
    type State = NodeArrays<u32>;
    const CPU_WORDS: u32 = 2;
    // `slab_max_order` on machines of 32 MiB and less.
    const MOST_ORDER: u32 = 0;
    const IS_SLAB: bool = true;
    const NAME: &'static str = "slab";

    fn stack_objects(geometry: &Geometry, limits: &CacheLimits) -> u32 {
        let CacheLimits { cpus, .. } = *limits;
        let arrays = Slab::limits(geometry, limits);
        if cpus > 1 { arrays.limit.max(arrays.shared_capacity()) } else { arrays.limit }
    }

    fn state(header: &Header, limits: &CacheLimits) -> NodeArrays<u32> {
        Slab::limits(&header.shape().geometry, limits).publish(header);
        NodeArrays::new(0)
    }

    fn alloc(on: FixedSlabs<'_, Self>) -> Option<Object> {
        match on.pop_main() {
            Some(object) => {
                on.words()[TOUCHED].set(1);
                Some(object)
            }
            None => array::alloc_slow(on),
        }
    }

    fn free(on: FixedSlabs<'_, Self>, object: Object) {
        let has_room = on.main_len() < on.cache.header.sheaf_capacity();
        if !(has_room && on.push_main(object)) {
            array::free_slow(on, object);
        }
    }

    fn alloc_below(on: FixedSlabs<'_, Self>) -> Option<Object> {
        array::alloc_direct(on)
    }

    fn freed(on: FixedSlabs<'_, Self>, _: &Shape, slab: u32, put: &Put) {
        lists::freed(on, slab, put);
    }

    fn adopt(on: FixedSlabs<'_, Self>, slab: u32, free: u32) {
        lists::adopt(on, slab, free);
    }

    fn shrink(on: FixedSlabs<'_, Self>, cpus: impl Iterator<Item = u32>) {
        for on in cpus.map(|cpu| on.on_cpu(cpu)) {
            if let Ok(Some(mut array)) = on.check_out(on.cache.header.shape().main()) {
                array::return_all(on, &mut array);
                on.give_sheaf(array);
            }
        }
        on.cache.state.drain(on);
    }

    fn each_parked(
        on: FixedSlabs<'_, Self>,
        cpus: impl Iterator<Item = u32>,
        f: &mut dyn FnMut(Object),
    ) {
        cpus.for_each(|cpu| on.on_cpu(cpu).each_in_stack(0, f));
        on.cache.state.each_shared(on, f);
    }
}

impl Arrays for FixedSlabs<'_, Slab> {
    fn node(&self) -> &NodeArrays<u32> {
        &self.cache.state
    }

    fn nr_cpus(self) -> u32 {
        self.cpu.1
    }

    fn touch(self, _: Option<&Sheaf>) -> bool {
        self.words()[TOUCHED].replace(1) != 0
    }

    fn append(self, array: &mut Sheaf, objects: &[Cell<u32>]) {
        objects.iter().for_each(|object| self.push(array, Self::load(object)));
    }

    fn drop_oldest(self, array: &mut Sheaf, objects: u32) {
        let elements = self.elements(array);
        for (nth, later) in elements[objects as usize..].iter().enumerate() {
            elements[nth].set(later.get());
        }
        array.len -= objects;
    }
}
