//! The calls of a typed cache: its creation, allocations, counts, and destruction.
//!
//! Neighbour: [`super::handle`] is its handle.

use super::block;
use super::boxed::CacheBox;
use super::builder::Builder;
use super::errors::{AllocError, CreateError, InUse};
use super::handle::ObjectCache;
use super::home::Home;
use super::kind::{Fresh, ObjectKind};
use super::record::Record;
use crate::cache::{CacheId, CacheSettings};
use crate::created::{NotDestroyed, abandoned};
use crate::live::{self, Walked};
use crate::yard::Yard;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;

/// What a walk over the live objects of a cache met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveObjects {
    /// This many there were, which may be more than there was room for.
    pub count: usize,
    /// True if free ones were among them: where CPUs cannot be stopped, what other threads keep
    /// for their next allocations.
    pub with_free: bool,
}

impl<T> ObjectCache<T> {
    /// A cache of values with the default settings.
    ///
    /// # Errors
    /// See [`CreateError`].
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard, typed::CreateError};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// assert!(ObjectCache::<[u8; 1000]>::new("buffers", &YARD).is_ok());
    /// let large = ObjectCache::<[u8; 100_000]>::new("large", &YARD);
    /// assert_eq!(large.unwrap_err(), CreateError::Object { bytes: 100_000, align: 1 });
    /// ```
    pub fn new<Y: Home>(
        name: &str,
        yard: &'static Y,
    ) -> Result<ObjectCache<T, Fresh, Y>, CreateError> {
        Self::builder(name).create(yard)
    }

    /// The settings of a cache that is to be made.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let blocks = ObjectCache::<[u8; 512]>::builder("blocks").align(512).create(&YARD)?;
    /// assert_eq!(blocks.alloc([0; 512]).as_ptr().addr() % 512, 0);
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[must_use]
    pub fn builder(name: &str) -> Builder<'_, T> {
        Builder::new(name)
    }
}

impl<T, K: ObjectKind, Y: Home> ObjectCache<T, K, Y> {
    pub(super) fn make(
        name: &str,
        settings: &CacheSettings,
        yard: &'static Y,
        functions: [Option<fn()>; 2],
    ) -> Result<Self, CreateError> {
        let yard = yard.yard().ok_or(CreateError::NotStarted)?;
        abandoned::sweep_abandoned(yard);
        let id = yard.create_cache(name, settings).map_err(|why| CreateError::of(why, settings))?;
        let [make, reset] = functions;
        let Some(record) = block::make(yard, id, settings, make, reset) else {
            // SAFETY: nobody knows the cache.
            let gone = unsafe { yard.destroy_cache(id) };
            debug_assert!(gone.is_ok() || gone == Err(NotDestroyed::Interrupted));
            return Err(CreateError::Memory);
        };
        Ok(ObjectCache { record, makes: PhantomData, kind: PhantomData })
    }

    /// Which cache of the yard it is.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<u64>::new("nodes", &YARD)?;
    /// let yard = YARD.start()?;
    /// assert!(yard.find_cache(nodes.id()).is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> CacheId {
        self.record().id
    }

    /// Live objects, exactly: those whose boxes were not dropped, or were leaked. For the time of
    /// the count slow paths wait. Where CPUs cannot be stopped, other threads' calls may change
    /// the number meanwhile. `None` in a signal handler that interrupted a slow path, and if a fork
    /// takes longer than a second. Objects that were allocated in such a handler are not counted.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<u64>::new("nodes", &YARD)?;
    /// let one = nodes.alloc(1);
    /// assert_eq!(nodes.live(), Some(1));
    /// drop(one);
    /// assert_eq!(nodes.live(), Some(0));
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[must_use]
    pub fn live(&self) -> Option<u64> {
        let &Record { yard, id, .. } = self.record();
        yard.quiesce(|quiesced| Yard::count_cache(quiesced, id.number()).live)
    }

    /// Writes the addresses of the live objects to `out`, in the order of the slabs, as many as
    /// there is room for; those that prefilled sheaves hold are among them, and those that were
    /// allocated in a handler that interrupted a slow path are not.
    ///
    /// They are of a moment that is over when the call returns. To look at an object is the
    /// caller's risk: its owner may write to it, or have freed it. Other threads' calls wait
    /// during the walk. `None` in a signal handler that interrupted a slow path, and if a fork
    /// takes longer than a second.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<u64>::new("nodes", &YARD)?;
    /// let held = nodes.alloc_bulk([7; 3]);
    /// let mut addresses = [std::ptr::null(); 10];
    /// let live = nodes.live_objects(&mut addresses).unwrap();
    /// assert_eq!((live.count, live.with_free), (3, false));
    /// let is_live = |pointer: *const u64| addresses[..live.count].contains(&pointer);
    /// assert!(held.iter().all(|object| is_live(&**object)));
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[must_use]
    pub fn live_objects(&self, out: &mut [*const T]) -> Option<LiveObjects> {
        let &Record { yard, id, .. } = self.record();
        let mut count = 0;
        let walked = live::each_live(yard, id, |address| {
            if let Some(place) = out.get_mut(count) {
                *place = core::ptr::with_exposed_provenance(address);
            }
            count += 1;
        })?;
        Some(LiveObjects { count, with_free: walked == Walked::WithFree })
    }
    /// Bytes of the cache's slabs.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<u64>::new("nodes", &YARD)?;
    /// assert_eq!(nodes.bytes(), 0);
    /// let one = nodes.alloc(1);
    /// assert_eq!(nodes.bytes(), 32 << 10);
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[must_use]
    pub fn bytes(&self) -> usize {
        let &Record { yard, id, .. } = self.record();
        yard.find_cache(id)
            .map_or(0, |cache| cache.nr_slabs() as usize * cache.shape().geometry.slab_bytes())
    }

    /// Returns all that is parked to the slabs, and ends those without a live object: their pages
    /// go back to the kernel within the yard's decay time, or at [`Yard::trim`]. False in a signal
    /// handler that interrupted a slow path.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<[u64; 8]>::new("nodes", &YARD)?;
    /// let burst: Vec<_> = (0..10_000).map(|n| nodes.alloc([n; 8])).collect();
    /// let most = nodes.bytes();
    /// drop(burst);
    /// assert!(nodes.shrink());
    /// assert!(nodes.bytes() == 0 && most >= 640_000);
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    pub fn shrink(&self) -> bool {
        let &Record { yard, id, .. } = self.record();
        abandoned::sweep_abandoned(yard);
        yard.shrink_cache(id)
    }

    /// Destroys the cache now. Dropping the handle does so too, or leaves it to the last box.
    ///
    /// # Errors
    /// If there are boxes: the cache is in there as before.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<u64>::new("nodes", &YARD)?;
    /// let one = nodes.alloc(1);
    /// let in_use = nodes.destroy().unwrap_err();
    /// assert_eq!(in_use.live, Some(1));
    /// drop(one);
    /// assert!(in_use.cache.destroy().is_ok());
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    pub fn destroy(self) -> Result<(), InUse<T, K, Y>> {
        let &Record { yard, id, ref words, .. } = self.record();
        // SAFETY: the handle is ours alone, so that no call allocates; boxes free by these words.
        match unsafe { abandoned::destroy_unused(yard, id, words) } {
            Ok(()) => {
                let this = ManuallyDrop::new(self);
                abandoned::leave_owner(yard, this.record().block());
                Ok(())
            }
            Err(NotDestroyed::Live(live)) => Err(InUse { cache: self, live: Some(live) }),
            Err(_) => Err(InUse { cache: self, live: None }),
        }
    }
}

impl<T, Y: Home> ObjectCache<T, Fresh, Y> {
    /// Allocates an object, made of a value.
    ///
    /// # Panics
    /// If there is no memory; [`ObjectCache::try_alloc`] returns an error.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<u64>::new("nodes", &YARD)?;
    /// assert_eq!(*nodes.alloc(7), 7);
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[inline]
    pub fn alloc(&self, value: T) -> CacheBox<T, Fresh, Y> {
        // Not by `try_alloc`: where a value may go back, the compiler stores zeros for the bytes of
        // it that nobody wrote.
        let Some((address, record)) = self.record().alloc() else { no_memory() };
        // SAFETY: an object of the cache that was just allocated.
        unsafe { CacheBox::made(address, record, value) }
    }

    /// Allocates an object, made of a value.
    ///
    /// # Errors
    /// Gives the value back if there is no memory.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let names = ObjectCache::<String>::new("names", &YARD)?;
    /// match names.try_alloc("ab".to_string()) {
    ///     Ok(name) => assert_eq!(*name, "ab"),
    ///     Err(error) => println!("{error}: {} goes elsewhere", error.value),
    /// }
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[inline]
    pub fn try_alloc(&self, value: T) -> Result<CacheBox<T, Fresh, Y>, AllocError<T>> {
        let Some((address, record)) = self.record().alloc() else {
            return Err(AllocError { value });
        };
        // SAFETY: an object of the cache that was just allocated.
        Ok(unsafe { CacheBox::made(address, record, value) })
    }
}

#[cold]
#[inline(never)]
pub(super) fn no_memory() -> ! {
    panic!("no memory for an object: `try_alloc` and `try_take` return an error")
}

impl<T, K: ObjectKind, Y: Home> Drop for ObjectCache<T, K, Y> {
    fn drop(&mut self) {
        let record = self.record();
        let &Record { yard, id, .. } = record;
        // SAFETY: the handle is gone: only boxes name the cache, and they free as is asked. The
        // block is of this yard, and nobody else frees it.
        if !unsafe { yard.abandon_cache(id, &record.words, record.block()) } {
            abandoned::sweep_abandoned(yard);
        }
    }
}

impl<T, K: ObjectKind, Y: Home> fmt::Debug for ObjectCache<T, K, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectCache").field("id", &self.id()).finish_non_exhaustive()
    }
}
