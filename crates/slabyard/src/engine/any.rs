//! All engines behind one type: each cache has the engine that was chosen before it began.
//!
//! The library that holds every engine has a yard of it; a yard of one engine emits no code
//! of the others. Neighbours: an engine that is added here gets a row in `abi::engines`.

use super::cpu_slabs::{OnCpus, Rules};
use super::{Changed, Engine, Found, Header, PageSlabs, Plain, Sheaves};
use crate::pages::Sheaf;
use crate::platform::{Platform, Slot};
use crate::sync::Once;
use slabyard_abi::engines::EngineName;

/// The engine of one cache, whichever it is.
pub struct Any(Once<Chosen>);

enum Chosen {
    Slub(Sheaves<u32, true>),
    CpuSlabs(OnCpus),
    Plain(Plain),
}

impl Any {
    /// Chooses the engine; false if it is chosen already. A cache that begins without a choice
    /// has the engine `slub`.
    pub fn choose(&self, name: EngineName) -> bool {
        self.0.set(match name {
            EngineName::Slub => Chosen::Slub(Engine::NEW),
            EngineName::Plain => Chosen::Plain(Plain::NEW),
        })
    }
}

impl Any {
    /// Chooses SLUB with CPU slabs, by rules of this kind; false if an engine is chosen already.
    pub fn choose_cpu_slabs(&self, rules: &Rules) -> bool {
        let engine = OnCpus::NEW;
        engine.follow(rules);
        self.0.set(Chosen::CpuSlabs(engine))
    }
}

/// The call on the engine that was chosen.
macro_rules! on_chosen {
    ($any:expr, $engine:ident => $call:expr) => {
        match $any.0.get() {
            Chosen::Slub($engine) => $call,
            Chosen::CpuSlabs($engine) => $call,
            Chosen::Plain($engine) => $call,
        }
    };
}

impl Engine for Any {
    const NEW: Self = Any(Once::new());
    const TAGGED: bool = true;

    fn like(other: &Self) -> Self {
        let any = Self::NEW;
        match other.0.get() {
            Chosen::CpuSlabs(engine) => any.0.set(Chosen::CpuSlabs(OnCpus::like(engine))),
            _ => any.choose(other.name()),
        };
        any
    }

    fn name(&self) -> EngineName {
        on_chosen!(self, engine => engine.name())
    }

    fn begin(&self, cache: &Header) {
        self.choose(EngineName::Slub);
        on_chosen!(self, engine => engine.begin(cache));
    }

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        on_chosen!(self, engine => engine.alloc(on))
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        on_chosen!(self, engine => engine.free(on, address));
    }

    fn flush_stopped<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot, stack: Sheaf) -> Sheaf {
        on_chosen!(self, engine => engine.flush_stopped(on, slot, stack))
    }

    fn flush_own<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot) {
        on_chosen!(self, engine => engine.flush_own(on, slot));
    }

    fn reclaim<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        found: &mut Option<Found>,
        most: u32,
    ) -> bool {
        on_chosen!(self, engine => engine.reclaim(on, found, most))
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        on_chosen!(self, engine => engine.shrink(on));
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        on_chosen!(self, engine => engine.set(on, name, value))
    }

    fn each_parked<P: Platform>(&self, on: PageSlabs<'_, P>, f: impl FnMut(usize)) {
        on_chosen!(self, engine => engine.each_parked(on, f));
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

    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        on_chosen!(self, engine => engine.is_published(on))
    }
}
