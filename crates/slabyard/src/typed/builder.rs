//! The builder of a typed cache: its settings.

use super::errors::CreateError;
use super::handle::ObjectCache;
use super::home::Home;
use super::kind::{Fresh, Kept, KeptObject};
use crate::cache::CacheSettings;
use core::marker::PhantomData;
use slabyard_abi::debug::DebugFlags;

/// The settings of an [`ObjectCache`] of values.
#[derive(Clone, Copy, Debug)]
pub struct Builder<'a, T> {
    name: &'a str,
    settings: CacheSettings,
    makes: PhantomData<fn() -> T>,
}

/// A size as the settings have it; what is larger is too large in any case.
const fn narrow(bytes: usize) -> u32 {
    if bytes > u32::MAX as usize { u32::MAX } else { bytes as u32 }
}

impl<'a, T> Builder<'a, T> {
    pub(super) fn new(name: &'a str) -> Self {
        let mut settings = CacheSettings::of(narrow(size_of::<T>()));
        settings.align = narrow(align_of::<T>());
        Builder { name, settings, makes: PhantomData }
    }

    /// Aligns objects to this many bytes, a power of two, if their type needs less.
    #[must_use]
    pub fn align(mut self, bytes: usize) -> Self {
        let align = narrow(bytes);
        if align > self.settings.align || !align.is_power_of_two() {
            self.settings.align = align;
        }
        self
    }

    /// Slabs of 2^order granules of 4096 bytes, or of a page of the machine if that is larger.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<u64>::builder("nodes").order(1).create(&YARD)?;
    /// let one = nodes.alloc(1);
    /// assert_eq!(nodes.bytes(), 8 << 10);
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[must_use]
    pub fn order(mut self, order: u32) -> Self {
        self.settings.orders = (order, order);
        self
    }

    /// This many objects in a full sheaf, 1022 at most: what a CPU keeps without a lock, twice.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<u64>::builder("nodes").sheaf_capacity(16).create(&YARD)?;
    /// let cache = YARD.start()?.find_cache(nodes.id()).unwrap();
    /// assert_eq!(cache.sheaf_capacity(), 16);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn sheaf_capacity(mut self, objects: u32) -> Self {
        self.settings.sheaf_capacity = Some(objects);
        self
    }

    /// Debugging of this cache, as the kernel's `slab_debug=` has it: red zones, poison, tracks,
    /// checks at each call. It needs a yard of all engines, and is left out in others; without it
    /// nothing is slower. What is found is reported by the functions of [`Yard::on_findings`], if
    /// the program set them.
    ///
    /// [`Yard::on_findings`]: crate::yard::Yard::on_findings
    ///
    /// ```
    /// use slabyard::{CacheBox, ObjectCache, ProcessYard, engine::Any, typed::DebugFlags};
    ///
    /// static YARD: ProcessYard<Any> = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<u64>::builder("nodes").debug(DebugFlags::DEFAULT).create(&YARD)?;
    /// let node = CacheBox::into_raw(nodes.alloc(1));
    /// // SAFETY: the cache has a red zone there, which nobody else writes to.
    /// unsafe { node.cast::<u8>().add(8).write(0) };
    /// // SAFETY: the pointer of a box of this cache, which is used no more.
    /// drop(unsafe { CacheBox::from_raw(&nodes, node) });
    /// assert_eq!(YARD.start()?.findings(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn debug(mut self, flags: DebugFlags) -> Self {
        self.settings.debug = flags;
        self
    }

    /// A cache whose objects are kept: the function makes an object when it is handed out the
    /// first time; afterwards it keeps its state, until its slab ends. It may allocate, and panic.
    ///
    /// Objects go from thread to thread, by way of the cache, so they must be `Send`:
    ///
    /// ```compile_fail,E0277
    /// use slabyard::ObjectCache;
    /// use std::rc::Rc;
    ///
    /// let builder = ObjectCache::<Rc<u32>>::builder("counts").constructor(|| Rc::new(1));
    /// ```
    ///
    /// and borrow nothing, because they outlive their boxes:
    ///
    /// ```compile_fail
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// fn keep<'a>(text: &'a str) {
    ///     let _ = ObjectCache::<Option<&'a str>>::builder("texts").constructor(|| None);
    /// }
    /// ```
    #[must_use]
    pub fn constructor(self, make: fn() -> T) -> KeptBuilder<'a, T>
    where
        T: Send + 'static,
    {
        KeptBuilder { builder: self, make, reset: None }
    }

    /// Makes the cache.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn create<Y: Home>(
        self,
        yard: &'static Y,
    ) -> Result<ObjectCache<T, Fresh, Y>, CreateError> {
        ObjectCache::make(self.name, &self.settings, yard, [None, None])
    }
}

/// The settings of an [`ObjectCache`] whose objects are kept.
#[derive(Clone, Copy, Debug)]
pub struct KeptBuilder<'a, T> {
    builder: Builder<'a, T>,
    make: fn() -> T,
    reset: Option<fn(&mut T)>,
}

impl<T: Send + 'static> KeptBuilder<'_, T> {
    /// Calls the function with each object that is freed: it puts the object into the state in which
    /// the next user takes it. If it panics, the object is dropped.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let buffers = ObjectCache::<Vec<u8>>::builder("buffers")
    ///     .constructor(Vec::new)
    ///     .reset(Vec::clear)
    ///     .create(&YARD)?;
    /// buffers.take().push(1);
    /// assert!(buffers.take().is_empty());
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[must_use]
    pub fn reset(mut self, reset: fn(&mut T)) -> Self {
        self.reset = Some(reset);
        self
    }

    /// Makes the cache.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn create<Y: Home>(self, yard: &'static Y) -> Result<ObjectCache<T, Kept, Y>, CreateError> {
        let Builder { name, mut settings, .. } = self.builder;
        settings.object = narrow(size_of::<KeptObject<T>>());
        settings.constructor = Some(KeptObject::<T>::CONSTRUCTOR);
        settings.destructor = KeptObject::<T>::DESTRUCTOR;
        // SAFETY: functions are pointers of one size; they are called as what they are here.
        let functions = unsafe {
            use core::mem::transmute;
            [
                Some(transmute::<fn() -> T, fn()>(self.make)),
                self.reset.map(|reset| transmute::<fn(&mut T), fn()>(reset)),
            ]
        };
        ObjectCache::make(name, &settings, yard, functions)
    }
}
