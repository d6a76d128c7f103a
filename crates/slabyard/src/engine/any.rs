//! All engines behind one type: each cache has the engine that was chosen before the cache was
//! created, or the debugging engine, if debugging was chosen.
//!
//! The library that contains every engine has a yard of this type; a single-engine yard contains no
//! code of other engines. Neighbours: a new engine gets a variant here and a row in `abi::engines`.

use super::array_cache::Choice;
use super::cpu_slabs::{OnCpus, Rules};
use super::nodes::NodeSettings;
use super::sheaves::SheavesOnNodes;
use super::{
    ArrayCaches, Changed, Debug, Engine, EngineFacts, EngineKind, Header, Inspect, PageSlabs,
    PassState, Repair, Slob, SlowPaths, Tiny,
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
    /// The order of slabs of a class of malloc's, if its table does not decide.
    pub(crate) order: Once<u32>,
}

#[expect(
    clippy::large_enum_variant,
    reason = "nothing can be boxed, and unused words cost nothing"
)]
enum Chosen {
    Slub(SheavesOnNodes),
    CpuSlabs(OnCpus),
    Tiny(Tiny),
    Slab(ArrayCaches),
    Slob(Slob),
}

impl Any {
    /// Chooses the engine; false if it is chosen already. A cache that begins without a choice
    /// has the engine `slub`.
    #[inline(never)]
    pub fn choose(&self, name: EngineName) -> bool {
        self.chosen.set(match name {
            EngineName::Slub => Chosen::Slub(SheavesOnNodes::NEW),
            EngineName::Tiny => Chosen::Tiny(Tiny::NEW),
            EngineName::Slab => Chosen::Slab(ArrayCaches::NEW),
            EngineName::Slob => Chosen::Slob(Slob::NEW),
        })
    }

    /// Chooses the engine that another cache has, and its settings; false if one is chosen already.
    #[inline(never)]
    fn choose_like(&self, other: &Self) -> bool {
        self.chosen.set(match other.chosen.get() {
            Chosen::Slub(engine) => Chosen::Slub(SheavesOnNodes::like(engine)),
            Chosen::CpuSlabs(engine) => Chosen::CpuSlabs(OnCpus::like(engine)),
            Chosen::Tiny(engine) => Chosen::Tiny(Tiny::like(engine)),
            Chosen::Slab(engine) => Chosen::Slab(ArrayCaches::like(engine)),
            Chosen::Slob(engine) => Chosen::Slob(Slob::like(engine)),
        })
    }

    /// Chooses SLUB with CPU slabs, by rules of this kind, below sheaves or alone; false if an
    /// engine is chosen already.
    pub fn choose_cpu_slabs(&self, rules: &Rules) -> bool {
        let engine = OnCpus::NEW;
        engine.follow(rules);
        self.chosen.set(Chosen::CpuSlabs(engine))
    }

    /// The settings of SLUB with sheaves, or of SLAB, on a machine with several memory nodes. Call
    /// it after the choice.
    pub fn follow_nodes(&self, settings: NodeSettings) {
        match self.chosen.get() {
            Chosen::Slub(engine) => engine.follow(settings),
            Chosen::Slab(engine) => engine.follow_nodes(settings),
            _ => {}
        }
    }

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
                Chosen::CpuSlabs($engine) => $call,
                Chosen::Tiny($engine) => $call,
                Chosen::Slab($engine) => $call,
                Chosen::Slob($engine) => $call,
            },
        }
    };
}

/// Functions on the slabs of a cache, each as the call of the same name on the engine that was chosen.
macro_rules! on_slabs_of_chosen {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {$(
        fn $name<P: Platform>(
            &self,
            on: PageSlabs<'_, P>,
            $($argument: $type),*
        ) $(-> $answer)? {
            on_chosen!(self, engine => engine.$name(on, $($argument),*))
        }
    )*};
}

/// An engine's allocation, apart from those of others: in one function they had a stack frame for all
/// of them.
#[inline(never)]
fn alloc_by<E: SlowPaths, P: Platform>(
    engine: &E,
    on: PageSlabs<'_, P>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    engine.alloc_sized(on, bytes, align)
}

impl EngineKind for Any {
    const NEW: Self = Any {
        chosen: Once::new(),
        debug: Once::new(),
        debugging: AtomicU64::new(0),
        order: Once::new(),
    };
    const TAGGED: bool = true;
    const SIZED: bool = true;

    fn like(other: &Self) -> Self {
        let any = Self::NEW;
        any.choose_like(other);
        any
    }

    fn be_like(&mut self, other: &Self, wants: Option<EngineName>) -> bool {
        match wants.filter(|name| *name != other.facts().name) {
            None => self.choose_like(other),
            Some(name) => self.choose(name),
        };
        true
    }

    fn order(&self, size: u32, order: u32, page_order: u32) -> u32 {
        self.choose(EngineName::Slub);
        on_chosen!(self, engine => engine.order(size, order, page_order))
    }

    fn geometry(&self, object: u32, order: u32, page_order: u32) -> Geometry {
        self.choose(EngineName::Slub);
        let order = self.order.try_get().copied().unwrap_or(order);
        on_chosen!(self, engine => engine.geometry(object, order, page_order))
    }

    fn serves(&self, cache: &Header, bytes: usize, align: usize) -> Option<bool> {
        on_chosen!(self, engine => engine.serves(cache, bytes, align))
    }

    /// The name is that of the engine that a cache with debugging would have without.
    #[inline]
    fn facts(&self) -> EngineFacts {
        let name = match self.chosen.get() {
            Chosen::Slub(_) | Chosen::CpuSlabs(_) => EngineName::Slub,
            Chosen::Tiny(_) => EngineName::Tiny,
            Chosen::Slab(_) => EngineName::Slab,
            Chosen::Slob(_) => EngineName::Slob,
        };
        EngineFacts { name, ..on_chosen!(self, engine => engine.facts()) }
    }
}

impl SlowPaths for Any {
    fn begin<P: Platform>(&self, on: PageSlabs<'_, P>) {
        if let Some(debug) = self.debug.try_get() {
            let word = debug.layout().shown(&on.cache.shape().geometry);
            self.debugging.store(word, Ordering::Relaxed);
        }
        on_chosen!(self, engine => engine.begin(on));
    }

    fn alloc_sized<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        bytes: usize,
        align: usize,
    ) -> Option<usize> {
        on_chosen!(self, engine => alloc_by(engine, on, bytes, align))
    }

    on_slabs_of_chosen! {
        fn alloc() -> Option<usize>;
        fn alloc_at(node: usize) -> Option<usize>;
        fn free(address: usize);
        fn flush_stopped(slot: Slot, stack: Sheaf) -> Sheaf;
        fn flush_own(slot: Slot);
        fn drain_empties(spare: Option<Sheaf>) -> Option<Sheaf>;
        fn reclaim(found: &mut PassState, most: u32) -> bool;
        fn flush_node(most: u32) -> bool;
        fn shrink();
        fn discard_empty();
        fn set(name: &str, value: u32) -> Option<Changed>;
        fn end();
    }
}

impl Inspect for Any {
    const HAS_SLABS_BELOW: bool = true;

    fn debugging_word(&self) -> Option<usize> {
        Some(self.debugging.as_ptr() as usize)
    }

    on_slabs_of_chosen! {
        fn node_words() -> Option<(usize, usize)>;
        fn size_at(address: usize) -> Option<usize>;
        fn check_slab(slab: u32) -> Result<u32, &'static str>;
        fn each_parked(f: impl FnMut(usize));
        fn nr_parked_below() -> u64;
        fn each_slab(slot: Slot, stack: &Sheaf, f: &mut dyn FnMut(u32));
        fn each_slab_below(f: &mut dyn FnMut(u32));
        fn each_partial(f: impl FnMut(u32, u32));
        fn nr_partial() -> u32;
        fn is_list_published() -> bool;
        fn is_published() -> bool;
    }
}

impl Engine for Any {
    const REAPS: bool = true;

    fn choose_debug(&self, flags: DebugFlags) -> bool {
        self.debug.set(Debug::with(flags))
    }

    #[inline]
    fn debug(&self) -> Option<&Debug> {
        self.debug.try_get()
    }

    fn arrays(&self) -> Option<&ArrayCaches> {
        on_chosen!(self, engine => engine.arrays())
    }
}

impl Repair for Any {
    on_slabs_of_chosen! {
        fn begin_child() -> u64;
        fn adopt(slab: u32, of_cpu: bool) -> u32;
        fn end_begin_child();
    }
}
