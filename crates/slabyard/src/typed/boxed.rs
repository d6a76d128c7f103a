//! A box that owns an object of a typed cache.

use super::handle::ObjectCache;
use super::home::Home;
use super::kind::{Fresh, ObjectKind};
use super::record::Record;
use crate::process::ProcessYard;
use core::borrow::{Borrow, BorrowMut};
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::pin::Pin;
use core::ptr::NonNull;

/// Owns an object of an [`ObjectCache`]: a `Box` whose memory is the cache's.
///
/// It knows its cache, so that a free looks nothing up, and may outlive the handle: the cache goes
/// when both the handle and the last box are gone. It is two words large, and `Option` of it too.
///
/// ```
/// use slabyard::{CacheBox, ObjectCache, ProcessYard};
///
/// static YARD: ProcessYard = ProcessYard::new();
///
/// let names = ObjectCache::<String>::new("names", &YARD)?;
/// let mut name: CacheBox<String> = names.alloc("a".to_string());
/// name.push('b');
/// drop(names);
/// assert_eq!(*name, "ab");
/// # Ok::<(), slabyard::typed::CreateError>(())
/// ```
///
/// A box moves to another thread only if its object may:
///
/// ```compile_fail,E0277
/// use slabyard::{ObjectCache, ProcessYard};
/// use std::rc::Rc;
///
/// static YARD: ProcessYard = ProcessYard::new();
///
/// let counts = ObjectCache::<Rc<u32>>::new("counts", &YARD).unwrap();
/// let count = counts.alloc(Rc::new(1));
/// std::thread::spawn(move || drop(count));
/// ```
///
/// and threads share it only if they may share the object:
///
/// ```compile_fail,E0277
/// use slabyard::{ObjectCache, ProcessYard};
/// use std::cell::Cell;
///
/// static YARD: ProcessYard = ProcessYard::new();
///
/// let cells = ObjectCache::<Cell<u32>>::new("cells", &YARD).unwrap();
/// let cell = cells.alloc(Cell::new(1));
/// std::thread::scope(|s| { s.spawn(|| cell.set(2)); });
/// ```
///
/// It outlives nothing that its object borrows:
///
/// ```compile_fail,E0597
/// use slabyard::{CacheBox, ObjectCache, ProcessYard};
///
/// static YARD: ProcessYard = ProcessYard::new();
///
/// let words = ObjectCache::<&str>::new("words", &YARD).unwrap();
/// let word: CacheBox<&str>;
/// {
///     let text = String::from("short-lived");
///     word = words.alloc(&text);
/// }
/// println!("{word}");
/// ```
pub struct CacheBox<T, K: ObjectKind = Fresh, Y: Home = ProcessYard> {
    object: NonNull<T>,
    record: NonNull<Record<Y>>,
    owns: PhantomData<(T, K)>,
}

// SAFETY: it owns the object, as a `Box` does; what it shares with its cache is for all threads.
unsafe impl<T: Send, K: ObjectKind, Y: Home> Send for CacheBox<T, K, Y> {}
// SAFETY: as above: a shared box gives shared access to the object alone.
unsafe impl<T: Sync, K: ObjectKind, Y: Home> Sync for CacheBox<T, K, Y> {}
// The object does not move when the box does.
impl<T, K: ObjectKind, Y: Home> Unpin for CacheBox<T, K, Y> {}

/// Frees the memory of an object, whatever the end of its use does.
pub(super) struct Memory<'a, T, K: ObjectKind, Y: Home> {
    record: &'a Record<Y>,
    address: usize,
    frees: PhantomData<(T, K)>,
}

impl<'a, T, K: ObjectKind, Y: Home> Memory<'a, T, K, Y> {
    /// # Safety
    /// A live object of this record that nobody uses any more when this is dropped.
    #[inline(always)]
    pub(super) unsafe fn of(record: &'a Record<Y>, address: usize) -> Self {
        Memory { record, address, frees: PhantomData }
    }
}

impl<T, K: ObjectKind, Y: Home> Drop for Memory<'_, T, K, Y> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the promise of whoever made this.
        unsafe { self.record.free::<T, K>(self.address) };
    }
}

impl<T, K: ObjectKind, Y: Home> CacheBox<T, K, Y> {
    /// A box around an object that was allocated with this record.
    #[inline(always)]
    pub(super) unsafe fn of(object: NonNull<T>, record: NonNull<Record<Y>>) -> Self {
        CacheBox { object, record, owns: PhantomData }
    }

    /// A box of a value, in an object that was just allocated.
    ///
    /// # Safety
    /// The object is nobody else's, has room for a `T`, and was allocated with this record.
    #[inline(always)]
    pub(super) unsafe fn made(address: usize, record: NonNull<Record<Y>>, value: T) -> Self {
        let object = core::ptr::with_exposed_provenance_mut::<T>(address);
        // SAFETY: the caller's promise; no object has the address 0.
        unsafe {
            object.write(value);
            Self::of(NonNull::new_unchecked(object), record)
        }
    }

    #[inline(always)]
    pub(super) fn record(&self) -> NonNull<Record<Y>> {
        self.record
    }

    #[inline(always)]
    pub(super) fn pointer(&self) -> *mut T {
        self.object.as_ptr()
    }

    /// Gives the object away as a pointer. [`CacheBox::from_raw`] takes it back.
    ///
    /// ```
    /// use slabyard::{CacheBox, ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let numbers = ObjectCache::<u64>::new("numbers", &YARD)?;
    /// let pointer = CacheBox::into_raw(numbers.alloc(7));
    /// // SAFETY: the pointer is of this cache, and not used elsewhere.
    /// let number = unsafe { CacheBox::from_raw(&numbers, pointer) };
    /// assert_eq!(*number, 7);
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[inline]
    #[must_use = "nobody else frees it"]
    pub fn into_raw(this: Self) -> *mut T {
        ManuallyDrop::new(this).object.as_ptr()
    }

    /// Takes back what [`CacheBox::into_raw`] gave away, with an example.
    ///
    /// # Safety
    /// The pointer is of `into_raw` of a box of this cache, and is not used otherwise.
    #[must_use]
    pub unsafe fn from_raw(cache: &ObjectCache<T, K, Y>, pointer: *mut T) -> Self {
        let record = cache.record().of(pointer.expose_provenance());
        // SAFETY: it was the pointer of a box.
        unsafe { Self::of(NonNull::new_unchecked(pointer), record) }
    }

    /// Never frees the object. Its cache stays as well.
    ///
    /// ```
    /// use slabyard::{CacheBox, ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let numbers = ObjectCache::<u64>::new("numbers", &YARD)?;
    /// let number: &'static mut u64 = CacheBox::leak(numbers.alloc(7));
    /// *number += 1;
    /// assert_eq!(*number, 8);
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[inline]
    pub fn leak<'a>(this: Self) -> &'a mut T
    where
        T: 'a,
    {
        // SAFETY: nobody else has the object, and it is never freed.
        unsafe { &mut *Self::into_raw(this) }
    }
}

impl<T, Y: Home> CacheBox<T, Fresh, Y> {
    /// Takes the value out, and gives its memory to the cache.
    ///
    /// ```
    /// use slabyard::{CacheBox, ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let names = ObjectCache::<String>::new("names", &YARD)?;
    /// let name: String = CacheBox::into_inner(names.alloc("ab".to_string()));
    /// assert_eq!(name, "ab");
    /// assert_eq!(names.live(), Some(0));
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn into_inner(this: Self) -> T {
        let this = ManuallyDrop::new(this);
        // SAFETY: the box, which is not used any more, owned the value; its record lives until the
        // memory is freed.
        unsafe {
            let value = this.object.read();
            let record = this.record.as_ref();
            record.free::<T, Fresh>(this.object.as_ptr().expose_provenance());
            value
        }
    }

    /// Pins the object, which does not move until it is freed.
    ///
    /// ```
    /// use slabyard::{CacheBox, ObjectCache, ProcessYard};
    /// use std::pin::Pin;
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let numbers = ObjectCache::<u64>::new("numbers", &YARD)?;
    /// let pinned: Pin<CacheBox<u64>> = CacheBox::into_pin(numbers.alloc(7));
    /// assert_eq!(*pinned, 7);
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    ///
    /// Objects that are kept cannot be pinned: `reset` has them by `&mut` when the box is gone.
    ///
    /// ```compile_fail,E0308
    /// use slabyard::{CacheBox, ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let builder = ObjectCache::<u64>::builder("numbers").constructor(|| 7);
    /// let numbers = builder.create(&YARD).unwrap();
    /// let _ = CacheBox::into_pin(numbers.take());
    /// ```
    #[inline]
    #[must_use]
    pub fn into_pin(this: Self) -> Pin<Self> {
        // SAFETY: the object stays where it is until it is dropped there, with the box.
        unsafe { Pin::new_unchecked(this) }
    }
}

impl<T, K: ObjectKind, Y: Home> Drop for CacheBox<T, K, Y> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the record lives at least until the object's memory is freed.
        let record = unsafe { self.record.as_ref() };
        // SAFETY: the box owned the object, and is gone.
        unsafe {
            let address = self.object.as_ptr().expose_provenance();
            let memory = Memory::<T, K, Y>::of(record, address);
            K::end_use(self.object.as_ptr(), record);
            drop(memory);
        }
    }
}

impl<T, K: ObjectKind, Y: Home> Deref for CacheBox<T, K, Y> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the box owns a live object.
        unsafe { self.object.as_ref() }
    }
}

impl<T, K: ObjectKind, Y: Home> DerefMut for CacheBox<T, K, Y> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and it is borrowed by its owner alone.
        unsafe { self.object.as_mut() }
    }
}

impl<T, K: ObjectKind, Y: Home> AsRef<T> for CacheBox<T, K, Y> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T, K: ObjectKind, Y: Home> AsMut<T> for CacheBox<T, K, Y> {
    fn as_mut(&mut self) -> &mut T {
        self
    }
}

impl<T, K: ObjectKind, Y: Home> Borrow<T> for CacheBox<T, K, Y> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T, K: ObjectKind, Y: Home> BorrowMut<T> for CacheBox<T, K, Y> {
    fn borrow_mut(&mut self) -> &mut T {
        self
    }
}

impl<T: fmt::Debug, K: ObjectKind, Y: Home> fmt::Debug for CacheBox<T, K, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Display, K: ObjectKind, Y: Home> fmt::Display for CacheBox<T, K, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: PartialEq, K: ObjectKind, Y: Home> PartialEq for CacheBox<T, K, Y> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq, K: ObjectKind, Y: Home> Eq for CacheBox<T, K, Y> {}

impl<T: PartialOrd, K: ObjectKind, Y: Home> PartialOrd for CacheBox<T, K, Y> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: Ord, K: ObjectKind, Y: Home> Ord for CacheBox<T, K, Y> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: Hash, K: ObjectKind, Y: Home> Hash for CacheBox<T, K, Y> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}
