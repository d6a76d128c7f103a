//! The choices that a yard's user makes before the yard starts: the engine of its caches, and which
//! caches have debugging.
//!
//! Neighbours: [`crate::engine::Any`] holds the engine; `abi::debug` has the debugging rules.

use crate::cache::classes;
use crate::debugging::large;
use crate::engine::array_cache::Choice;
use crate::engine::cpu_slabs::Rules;
use crate::engine::{Any, Engine, NameBytes};
use crate::platform::Platform;
use crate::yard::Yard;
use slabyard_abi::debug::DebugFlags;
use slabyard_abi::engines::EngineName;

impl<P: Platform> Yard<P, Any> {
    /// Chooses the engine of all caches, of those that will be created, too. Call it before
    /// [`Yard::init`].
    pub fn choose(&self, engine: EngineName) {
        self.caches.classes().iter().for_each(|cache| _ = cache.engine.choose(engine));
    }

    /// As [`Yard::choose`]: SLUB with CPU slabs, by rules of this kind.
    pub fn choose_cpu_slabs(&self, rules: &Rules) {
        self.caches.classes().iter().for_each(|cache| _ = cache.engine.choose_cpu_slabs(rules));
    }

    /// Chooses SLAB for all caches, by a policy of its free slabs. Call it before [`Yard::init`].
    pub fn choose_arrays(&self, choice: Choice) {
        self.caches.classes().iter().for_each(|cache| _ = cache.engine.choose_arrays(choice));
    }

    /// Gives each class slabs of the order that `order_of` says of its size, before [`Yard::init`].
    pub fn choose_orders(&self, order_of: impl Fn(u32) -> u32) {
        let classes = self.caches.classes().iter().zip(classes::ROWS);
        classes.for_each(|(cache, (size, _))| _ = cache.engine.order.set(order_of(size)));
    }
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Gives each of malloc's caches the debugging that `rules` say, and each that is created
    /// later, beside what its settings say. Call it before [`Yard::init`]. True if one of malloc's
    /// has any.
    pub fn choose_debug(&self, rules: fn(&[u8]) -> DebugFlags) -> bool {
        self.caches.debug_rules.set(rules);
        let mut any = false;
        for (class, cache) in self.caches.classes().iter().enumerate() {
            let flags = rules(NameBytes::of(classes::Name(class)).as_bytes());
            any |= !flags.is_empty() && cache.engine.choose_debug(flags);
        }
        let of_large = rules(large::NAME.as_bytes());
        self.large.guarded.choose(of_large);
        any | !of_large.is_empty()
    }
}
