//! Which engine does what of a bare yard's cache: SLUB with sheaves, SLUB with CPU slabs, SLAB, and
//! SLUB_TINY. A yard's type names one, and has no code of the others.

use super::{Object, On};
use crate::engine::array_cache::{self, ArrayCaches, array, lists};
use crate::engine::cpu_slabs::{self, Accounting, Freezing, Front, alloc, free};
use crate::engine::slabs::{Rules, Slabs, Stacks};
use crate::engine::{Header, Shape, Sheaves, flush, orphans, partial, tiny};
use crate::slab::{Geometry, Put};

/// What a cache is to keep.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Empty slabs on the list; `None`: as many as the kernel keeps.
    pub min_partial: Option<u32>,
    /// Free objects on a CPU's partial list; 0: no such lists.
    pub cpu_partial: u32,
    /// Objects in a sheaf.
    pub sheaf_objects: u32,
    /// CPUs.
    pub cpus: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
}

/// Most full sheaves of a barn, and most empty ones (7.0).
const MOST_SHEAVES: u32 = 10;

/// An engine of slabs.
pub trait Kind: Sized + 'static {
    /// What a cache has beside its header.
    type State;
    /// Words of each CPU.
    const CPU_WORDS: u32;
    /// The rules of its sheaves.
    const RULES: Rules = Rules::KERNEL;
    /// Pages of a slab, as an order, at most, where nobody says.
    const MOST_ORDER: u32 = 3;
    /// Slabs have the orders of SLAB, not those of SLUB.
    const IS_SLAB: bool = false;
    /// Its name.
    const NAME: &'static str;

    /// Objects of a stack.
    fn stack_objects(_: &Geometry, _: &Limits) -> u32 {
        0
    }
    /// Begins a cache.
    fn state(header: &Header, limits: &Limits) -> Self::State;
    /// Allocates.
    fn alloc(on: On<'_, Self>) -> Option<Object>;
    /// Frees.
    fn free(on: On<'_, Self>, object: Object);
    /// From slabs.
    fn alloc_below(on: On<'_, Self>) -> Option<Object>;
    /// To slabs.
    fn free_below(on: On<'_, Self>, object: Object) {
        flush::put_one(on, on.cache.header.shape(), &On::<Self>::group_of(object));
    }
    /// Objects came to a slab.
    fn freed(on: On<'_, Self>, shape: &Shape, slab: u32, put: &Put) {
        partial::freed(on, shape, slab, put);
    }
    /// Lists a slab with so many free objects that is on no list, of a cache that is made anew.
    fn adopt(on: On<'_, Self>, slab: u32, free: u32) {
        orphans::list(on, slab, free);
    }
    /// Flushes all that is parked, of a CPU, and then of the node, and ends empty slabs.
    fn shrink(on: On<'_, Self>, cpus: impl Iterator<Item = u32>);
    /// Calls `f` with each object that is parked.
    fn each_parked(on: On<'_, Self>, cpus: impl Iterator<Item = u32>, f: &mut dyn FnMut(Object));
}

fn on_cpu<K: Kind>(on: On<'_, K>, cpu: u32) -> On<'_, K> {
    On { cpu: (cpu, on.cpu.1), ..on }
}

/// Calls `f` with each object in a CPU's stack.
fn each_in_stack<K: Kind>(on: On<'_, K>, slot: u16, f: &mut dyn FnMut(Object)) {
    let slot = crate::platform::Slot(slot);
    if let Ok(Some(sheaf)) = on.check_out(slot) {
        on.elements(&sheaf).iter().for_each(|element| f(On::<K>::load(element)));
        let _none = on.check_in(slot, sheaf, 0, None);
    }
}

/// SLUB with sheaves and barns (7.0).
pub enum Slub {}

impl Kind for Slub {
    type State = Sheaves<u32>;
    const CPU_WORDS: u32 = 2;
    const NAME: &'static str = "slub";

    fn stack_objects(_: &Geometry, limits: &Limits) -> u32 {
        limits.sheaf_objects
    }

    fn state(header: &Header, _: &Limits) -> Sheaves<u32> {
        Sheaves::<u32>::publish_limits(header);
        header.set_barn_limits(MOST_SHEAVES, MOST_SHEAVES);
        Sheaves::new(0, 0)
    }

    fn alloc(on: On<'_, Self>) -> Option<Object> {
        on.pop_main().or_else(|| on.cache.state.alloc_slow(on))
    }

    fn free(on: On<'_, Self>, object: Object) {
        if !on.push_main(object) {
            on.cache.state.free_slow(on, object);
        }
    }

    fn alloc_below(on: On<'_, Self>) -> Option<Object> {
        partial::alloc_direct(on)
    }

    fn shrink(on: On<'_, Self>, cpus: impl Iterator<Item = u32>) {
        let sheaves = &on.cache.state;
        for on in cpus.map(|cpu| on_cpu(on, cpu)) {
            for slot in [on.cache.header.shape().main(), on.cache.header.shape().spare()] {
                if let Ok(Some(mut sheaf)) = on.check_out(slot) {
                    sheaves.flush(on, &mut sheaf, u32::MAX);
                    on.give_sheaf(sheaf);
                }
            }
        }
        sheaves.shrink_node(on);
    }

    fn each_parked(on: On<'_, Self>, cpus: impl Iterator<Item = u32>, f: &mut dyn FnMut(Object)) {
        for on in cpus.map(|cpu| on_cpu(on, cpu)) {
            [0, 1].into_iter().for_each(|slot| each_in_stack(on, slot, f));
        }
        on.cache.state.each_in_barn(on, f);
    }
}

/// SLUB with CPU slabs (to 6.19).
pub enum CpuSlab {}

impl Kind for CpuSlab {
    type State = cpu_slabs::Rules;
    const CPU_WORDS: u32 = 3;
    const NAME: &'static str = "cpu-slabs";

    fn state(header: &Header, limits: &Limits) -> cpu_slabs::Rules {
        let objects = header.shape().geometry.objects;
        let lists = limits.cpu_partial > 0;
        let kind = cpu_slabs::Rules::of_kind(Freezing::Eager, Accounting::Slabs, lists);
        cpu_slabs::Rules {
            objects,
            min_partial: header.min_partial(),
            cpu_partial: limits.cpu_partial,
            cpu_partial_slabs: (2 * limits.cpu_partial).div_ceil(objects),
            front: Front::CpuSlabs,
            ..kind
        }
    }

    fn alloc(on: On<'_, Self>) -> Option<Object> {
        on.pop_cpu_slab().or_else(|| alloc::alloc_slow(on))
    }

    fn free(on: On<'_, Self>, object: Object) {
        if !on.push_cpu_slab(object) {
            free::free_to_slab(on, on.cache.header.shape(), &On::<Self>::group_of(object));
        }
    }

    fn alloc_below(on: On<'_, Self>) -> Option<Object> {
        alloc::alloc_slow(on)
    }

    fn shrink(on: On<'_, Self>, cpus: impl Iterator<Item = u32>) {
        cpus.for_each(|cpu| alloc::flush_cpu(on_cpu(on, cpu)));
        partial::discard_all_empty(on);
    }

    fn each_parked(on: On<'_, Self>, cpus: impl Iterator<Item = u32>, f: &mut dyn FnMut(Object)) {
        for on in cpus.map(|cpu| on_cpu(on, cpu)) {
            let (slab, mut index, own) = on.own_chain();
            for _ in 0..own {
                f(Object::new(slab, index));
                index = on.behind(slab, index).get().into();
            }
        }
    }
}

/// SLAB (to 6.7).
pub enum Slab {}

impl Slab {
    fn limits(geometry: &Geometry, limits: &Limits) -> array_cache::Limits {
        array_cache::Limits::of(geometry.size, limits.page_bytes, limits.cpus)
    }
}

impl Kind for Slab {
    type State = ArrayCaches<u32>;
    const CPU_WORDS: u32 = 2;
    // `slab_max_order` on machines of 32 MiB and less.
    const MOST_ORDER: u32 = 0;
    const IS_SLAB: bool = true;
    const NAME: &'static str = "slab";

    fn stack_objects(geometry: &Geometry, limits: &Limits) -> u32 {
        let Limits { cpus, .. } = *limits;
        let arrays = Slab::limits(geometry, limits);
        if cpus > 1 { arrays.limit.max(arrays.shared_capacity()) } else { arrays.limit }
    }

    fn state(header: &Header, limits: &Limits) -> ArrayCaches<u32> {
        Slab::limits(&header.shape().geometry, limits).publish(header);
        ArrayCaches::new(0)
    }

    fn alloc(on: On<'_, Self>) -> Option<Object> {
        match on.pop_main() {
            Some(object) => {
                on.words()[super::stacks::TOUCHED].set(1);
                Some(object)
            }
            None => array::alloc_slow(on),
        }
    }

    fn free(on: On<'_, Self>, object: Object) {
        let has_room = on.main_len() < on.cache.header.sheaf_capacity();
        if !(has_room && on.push_main(object)) {
            array::free_slow(on, object);
        }
    }

    fn alloc_below(on: On<'_, Self>) -> Option<Object> {
        array::alloc_direct(on)
    }

    fn freed(on: On<'_, Self>, _: &Shape, slab: u32, put: &Put) {
        lists::freed(on, slab, put);
    }

    fn adopt(on: On<'_, Self>, slab: u32, free: u32) {
        lists::adopt(on, slab, free);
    }

    fn shrink(on: On<'_, Self>, cpus: impl Iterator<Item = u32>) {
        for on in cpus.map(|cpu| on_cpu(on, cpu)) {
            if let Ok(Some(mut array)) = on.check_out(on.cache.header.shape().main()) {
                array::return_all(on, &mut array);
                on.give_sheaf(array);
            }
        }
        on.cache.state.drain(on);
    }

    fn each_parked(on: On<'_, Self>, cpus: impl Iterator<Item = u32>, f: &mut dyn FnMut(Object)) {
        cpus.for_each(|cpu| each_in_stack(on_cpu(on, cpu), 0, f));
        on.cache.state.each_shared(on, f);
    }
}

/// SLUB_TINY (6.2).
pub enum Tiny {}

impl Kind for Tiny {
    type State = ();
    const CPU_WORDS: u32 = 0;
    const MOST_ORDER: u32 = 1;
    const NAME: &'static str = "tiny";

    fn state(header: &Header, limits: &Limits) {
        header.set_min_partial(limits.min_partial.unwrap_or(0));
    }

    fn alloc(on: On<'_, Self>) -> Option<Object> {
        tiny::alloc_one(on)
    }

    fn free(on: On<'_, Self>, object: Object) {
        tiny::free_one(on, on.cache.header.shape(), &On::<Self>::group_of(object));
    }

    fn alloc_below(on: On<'_, Self>) -> Option<Object> {
        tiny::alloc_one(on)
    }

    fn shrink(on: On<'_, Self>, _: impl Iterator<Item = u32>) {
        partial::discard_all_empty(on);
    }

    fn each_parked(_: On<'_, Self>, _: impl Iterator<Item = u32>, _: &mut dyn FnMut(Object)) {}
}
