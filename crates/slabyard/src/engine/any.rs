//! All engines behind one type: each cache has the engine that was chosen before it began, and in
//! its place debugging, if that was chosen too.
//!
//! The library that holds every engine has a yard of it; a yard of one engine emits no code of the
//! others. Neighbours: a new engine gets a variant here and a row in `abi::engines`.

use super::array_cache::{self, Choice};
use super::cpu_slabs::{Front, Mixed, OnCpus, Rules};
use super::nodes::NodeSettings;
use super::{
    ArrayCaches, Changed, Debug, Engine, Found, Header, PageSlabs, Sheaves, Slob, Tiny, sheaves,
};
use crate::pages::Sheaf;
use crate::platform::{Platform, Slot};
use crate::slab::Geometry;
use crate::sync::{AtomicU64, Once, Ordering};
use slabyard_abi::debug::DebugFlags;
use slabyard_abi::engines::EngineName;

/// The engine of one cache, whichever it is.
pub struct Any {
    chosen: Once<Chosen>,
    debug: Once<Debug>,
    /// What readers see of it.
    debugging: AtomicU64,
}

#[expect(
    clippy::large_enum_variant,
    reason = "nothing can be boxed, and unused words cost nothing"
)]
enum Chosen {
    Slub(Sheaves<u32, true>),
    SlubOnNodes(sheaves::nodes::OnNodes),
    CpuSlabs(OnCpus),
    Mixed(Mixed),
    Tiny(Tiny),
    Slab(ArrayCaches),
    SlabOnNodes(array_cache::OnNodes),
    Slob(Slob),
}

impl Any {
    /// Chooses the engine; false if it is chosen already. A cache that begins without a choice
    /// has the engine `slub`.
    #[inline(never)]
    pub fn choose(&self, name: EngineName) -> bool {
        self.chosen.set(match name {
            EngineName::Slub => Chosen::Slub(Engine::NEW),
            EngineName::Tiny => Chosen::Tiny(Tiny::NEW),
            EngineName::Slab => Chosen::Slab(ArrayCaches::NEW),
            EngineName::Slob => Chosen::Slob(Slob::NEW),
        })
    }
}

impl Any {
    /// Chooses the engine that another cache has; false if one is chosen already.
    #[inline]
    fn choose_like(&self, other: &Self) -> bool {
        match other.chosen.get() {
            Chosen::Slub(_) | Chosen::Tiny(_) | Chosen::Slob(_) => self.choose(other.name()),
            _ => self.choose_settings_of(other),
        }
    }

    /// The same for an engine that has settings.
    #[inline(never)]
    fn choose_settings_of(&self, other: &Self) -> bool {
        match other.chosen.get() {
            Chosen::CpuSlabs(engine) => self.chosen.set(Chosen::CpuSlabs(OnCpus::like(engine))),
            Chosen::Mixed(engine) => self.chosen.set(Chosen::Mixed(Mixed::like(engine))),
            Chosen::SlubOnNodes(engine) => {
                self.chosen.set(Chosen::SlubOnNodes(sheaves::nodes::OnNodes::like(engine)))
            }
            Chosen::SlabOnNodes(engine) => {
                self.chosen.set(Chosen::SlabOnNodes(array_cache::OnNodes::like(engine)))
            }
            Chosen::Slab(engine) => self.chosen.set(Chosen::Slab(ArrayCaches::like(engine))),
            Chosen::Slub(_) | Chosen::Tiny(_) | Chosen::Slob(_) => false,
        }
    }

    /// Chooses SLUB with CPU slabs, by rules of this kind, below sheaves or alone; false if an
    /// engine is chosen already.
    pub fn choose_cpu_slabs(&self, rules: &Rules) -> bool {
        if rules.front == Front::SheavesOverCpuSlabs {
            let engine = Mixed::NEW;
            engine.follow(rules);
            return self.chosen.set(Chosen::Mixed(engine));
        }
        let engine = OnCpus::NEW;
        engine.follow(rules);
        self.chosen.set(Chosen::CpuSlabs(engine))
    }

    /// Chooses SLUB with sheaves, or SLAB, for a machine with several memory nodes; false if an
    /// engine is chosen already, and for other engines.
    pub fn choose_on_nodes(&self, name: EngineName, settings: NodeSettings) -> bool {
        match name {
            EngineName::Slub => {
                let engine = sheaves::nodes::OnNodes::NEW;
                engine.follow(settings);
                self.chosen.set(Chosen::SlubOnNodes(engine))
            }
            EngineName::Slab => {
                let engine = array_cache::OnNodes::NEW;
                engine.follow(settings);
                self.chosen.set(Chosen::SlabOnNodes(engine))
            }
            EngineName::Slob | EngineName::Tiny => false,
        }
    }
}

impl Any {
    /// Chooses SLAB, by a policy of its free slabs; false if an engine is chosen already.
    pub fn choose_arrays(&self, choice: Choice) -> bool {
        let engine = ArrayCaches::NEW;
        engine.follow(choice);
        self.chosen.set(Chosen::Slab(engine))
    }
}

/// The call on the engine that was chosen.
macro_rules! on_chosen {
    ($any:expr, $engine:ident => $call:expr) => {
        match $any.debug.try_get() {
            Some($engine) => $call,
            None => match $any.chosen.get() {
                Chosen::Slub($engine) => $call,
                Chosen::SlubOnNodes($engine) => $call,
                Chosen::CpuSlabs($engine) => $call,
                Chosen::Mixed($engine) => $call,
                Chosen::Tiny($engine) => $call,
                Chosen::Slab($engine) => $call,
                Chosen::SlabOnNodes($engine) => $call,
                Chosen::Slob($engine) => $call,
            },
        }
    };
}

/// An engine's allocation, apart from those of others: in one function they had a stack frame for all
/// of them.
#[inline(never)]
fn alloc_by<E: Engine, P: Platform>(
    engine: &E,
    on: PageSlabs<'_, P>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    engine.alloc_sized(on, bytes, align)
}

impl Engine for Any {
    const NEW: Self = Any { chosen: Once::new(), debug: Once::new(), debugging: AtomicU64::new(0) };
    const HAS_SLABS_BELOW: bool = true;
    const TAGGED: bool = true;
    const SIZED: bool = true;
    const REAPS: bool = true;

    fn like(other: &Self) -> Self {
        let any = Self::NEW;
        any.choose_like(other);
        any
    }

    fn be_like(&mut self, other: &Self, wants: Option<EngineName>) -> bool {
        match wants.filter(|name| *name != other.name()) {
            None => self.choose_like(other),
            Some(name) => self.choose(name),
        };
        true
    }

    /// Of a cache with debugging the engine that it would have without.
    fn name(&self) -> EngineName {
        match self.chosen.get() {
            Chosen::Slub(_) | Chosen::SlubOnNodes(_) | Chosen::CpuSlabs(_) | Chosen::Mixed(_) => {
                EngineName::Slub
            }
            Chosen::Tiny(_) => EngineName::Tiny,
            Chosen::Slab(_) | Chosen::SlabOnNodes(_) => EngineName::Slab,
            Chosen::Slob(_) => EngineName::Slob,
        }
    }

    #[inline]
    fn debug(&self) -> Option<&Debug> {
        self.debug.try_get()
    }

    fn choose_debug(&self, flags: DebugFlags) -> bool {
        self.debug.set(Debug::with(flags))
    }

    fn arrays(&self) -> Option<&ArrayCaches> {
        on_chosen!(self, engine => engine.arrays())
    }

    fn order(&self, size: u32, order: u32, page_order: u32) -> u32 {
        self.choose(EngineName::Slub);
        on_chosen!(self, engine => engine.order(size, order, page_order))
    }

    fn begin(&self, cache: &Header) {
        if let Some(debug) = self.debug.try_get() {
            let word = debug.layout().shown(&cache.shape().geometry);
            self.debugging.store(word, Ordering::Relaxed);
        }
        on_chosen!(self, engine => engine.begin(cache));
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        on_chosen!(self, engine => engine.alloc(on))
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        on_chosen!(self, engine => engine.free(on, address));
    }

    fn geometry(&self, object: u32, order: u32, page_order: u32) -> Geometry {
        self.choose(EngineName::Slub);
        on_chosen!(self, engine => engine.geometry(object, order, page_order))
    }

    fn serves(&self, cache: &Header, bytes: usize, align: usize) -> Option<bool> {
        on_chosen!(self, engine => engine.serves(cache, bytes, align))
    }

    fn alloc_sized<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        bytes: usize,
        align: usize,
    ) -> Option<usize> {
        on_chosen!(self, engine => alloc_by(engine, on, bytes, align))
    }

    fn size_at<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) -> Option<usize> {
        on_chosen!(self, engine => engine.size_at(on, address))
    }

    fn check_slab<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        slab: u32,
    ) -> Result<u32, &'static str> {
        on_chosen!(self, engine => engine.check_slab(on, slab))
    }

    fn flush_stopped<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot, stack: Sheaf) -> Sheaf {
        on_chosen!(self, engine => engine.flush_stopped(on, slot, stack))
    }

    fn flush_own<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot) {
        on_chosen!(self, engine => engine.flush_own(on, slot));
    }

    fn drain_own_empties<P: Platform>(&self, on: PageSlabs<'_, P>) {
        on_chosen!(self, engine => engine.drain_own_empties(on));
    }

    fn drain_empties<P: Platform>(&self, on: PageSlabs<'_, P>, spare: Sheaf) -> Sheaf {
        on_chosen!(self, engine => engine.drain_empties(on, spare))
    }

    fn reclaim<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        found: &mut Option<Found>,
        most: u32,
    ) -> bool {
        on_chosen!(self, engine => engine.reclaim(on, found, most))
    }

    #[inline]
    fn parks_in_sheaves(&self) -> bool {
        on_chosen!(self, engine => engine.parks_in_sheaves())
    }

    fn flush_node<P: Platform>(&self, on: PageSlabs<'_, P>, most: u32) -> bool {
        on_chosen!(self, engine => engine.flush_node(on, most))
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        on_chosen!(self, engine => engine.shrink(on));
    }

    fn discard_empty<P: Platform>(&self, on: PageSlabs<'_, P>) {
        on_chosen!(self, engine => engine.discard_empty(on));
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        on_chosen!(self, engine => engine.set(on, name, value))
    }

    fn alloc_at<P: Platform>(&self, on: PageSlabs<'_, P>, node: usize) -> Option<usize> {
        on_chosen!(self, engine => engine.alloc_at(on, node))
    }

    fn node_words(&self) -> Option<(usize, usize)> {
        on_chosen!(self, engine => engine.node_words())
    }

    fn debugging_word(&self) -> Option<usize> {
        Some(self.debugging.as_ptr() as usize)
    }

    fn each_parked<P: Platform>(&self, on: PageSlabs<'_, P>, f: impl FnMut(usize)) {
        on_chosen!(self, engine => engine.each_parked(on, f));
    }

    fn parks_few_on_node(&self) -> bool {
        on_chosen!(self, engine => engine.parks_few_on_node())
    }

    fn has_objects_in_spare(&self) -> bool {
        on_chosen!(self, engine => engine.has_objects_in_spare())
    }

    fn each_slab<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        slot: Slot,
        stack: &Sheaf,
        f: &mut dyn FnMut(u32),
    ) {
        on_chosen!(self, engine => engine.each_slab(on, slot, stack, f));
    }

    fn each_slab_below<P: Platform>(&self, on: PageSlabs<'_, P>, f: &mut dyn FnMut(u32)) {
        on_chosen!(self, engine => engine.each_slab_below(on, f));
    }

    fn nr_parked_below<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        on_chosen!(self, engine => engine.nr_parked_below(on))
    }

    fn end<P: Platform>(&self, on: PageSlabs<'_, P>) {
        on_chosen!(self, engine => engine.end(on));
    }

    fn begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        on_chosen!(self, engine => engine.begin_child(on))
    }

    fn adopt<P: Platform>(&self, on: PageSlabs<'_, P>, slab: u32, of_cpu: bool) -> u32 {
        on_chosen!(self, engine => engine.adopt(on, slab, of_cpu))
    }

    fn end_begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) {
        on_chosen!(self, engine => engine.end_begin_child(on));
    }

    fn each_partial<P: Platform>(&self, on: PageSlabs<'_, P>, f: impl FnMut(u32, u32)) {
        on_chosen!(self, engine => engine.each_partial(on, f));
    }

    fn nr_partial<P: Platform>(&self, on: PageSlabs<'_, P>) -> u32 {
        on_chosen!(self, engine => engine.nr_partial(on))
    }

    fn is_list_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        on_chosen!(self, engine => engine.is_list_published(on))
    }

    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        on_chosen!(self, engine => engine.is_published(on))
    }
}
