//! The trait of the yards in which typed caches can be created.

use crate::engine::Engine;
use crate::platform::Platform;
use crate::platform::linux::Linux;
use crate::process::ProcessYard;
use crate::yard::Yard;

/// A yard that lives as long as the program and that typed caches may be made in: a
/// [`ProcessYard`], or any [`Yard`] that was made ready.
pub trait Home: Sync + 'static {
    /// Of the yard: in a process [`Linux`].
    type Platform: Platform + 'static;
    /// The engine of its caches.
    type Engine: Engine;

    /// The yard, ready for calls; `None` if the kernel refuses memory for it.
    fn yard(&'static self) -> Option<&'static YardOf<Self>>;
}

/// The type of the allocator behind a home, for bounds and statics.
pub type YardOf<Y> = Yard<<Y as Home>::Platform, <Y as Home>::Engine>;

impl<E: Engine> Home for ProcessYard<E> {
    type Platform = Linux;
    type Engine = E;

    fn yard(&'static self) -> Option<&'static Yard<Linux, E>> {
        self.start().ok()
    }
}

impl<P: Platform + Send + 'static, E: Engine> Home for Yard<P, E> {
    type Platform = P;
    type Engine = E;

    fn yard(&'static self) -> Option<&'static Self> {
        Some(self)
    }
}
