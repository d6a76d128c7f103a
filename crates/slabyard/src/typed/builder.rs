//! The settings of a typed cache that is to be made.

use super::cache::ObjectCache;
use super::errors::CreateError;
use super::home::Home;
use super::kind::Fresh;
use crate::cache::CacheSettings;
use core::marker::PhantomData;

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

    /// Aligns objects to so many bytes, a power of two, if their type needs less.
    #[must_use]
    pub fn align(mut self, bytes: usize) -> Self {
        let align = narrow(bytes);
        if align > self.settings.align || !align.is_power_of_two() {
            self.settings.align = align;
        }
        self
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
