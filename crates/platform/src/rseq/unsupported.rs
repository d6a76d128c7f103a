//! On architectures for which we have no restartable sequences (rseq), only mode 3 works, in plain
//! code.
//!
//! A private slot belongs to one thread, so load, change and store need no restart. A signal
//! handler that allocates in between has undefined behaviour, as documented for mode 3. A
//! thread-specific key of the C library finds the thread block.

use super::Thread;
use crate::stack::{ELEMENT_BYTES, Entry, ROW_STRIDE, Stack, Stopped, Tag, begin_use};
use crate::sync::{AtomicUsize, OnceNumber, Ordering};

/// Signature of an abort address: none here.
pub const SIGNATURE: u32 = 0;

unsafe extern "C" {
    fn pthread_key_create(key: *mut u32, destructor: Option<unsafe extern "C" fn(*mut u8)>) -> i32;
    fn pthread_getspecific(key: u32) -> *mut u8;
    fn pthread_setspecific(key: u32, value: *const u8) -> i32;
    fn mmap(at: *mut u8, n: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
}

/// The key, plus one.
static KEY: OnceNumber = OnceNumber::new();

fn key() -> u32 {
    let known = KEY.get();
    if known != 0 {
        return known as u32 - 1;
    }
    let mut fresh = 0;
    // SAFETY: a plain call of the C library; two racing first calls cost one key.
    unsafe { pthread_key_create(&raw mut fresh, None) };
    KEY.set(fresh as usize + 1).map_or_else(|other| other as u32 - 1, |()| fresh)
}

/// This thread's block.
#[must_use]
pub fn thread() -> &'static Thread {
    let key = key();
    // SAFETY: the value is null or a block made below, which is never freed.
    unsafe {
        let known = pthread_getspecific(key);
        if !known.is_null() {
            return &*known.cast::<Thread>();
        }
        let block = mmap(core::ptr::null_mut(), 4096, 3, 0x22, -1, 0);
        assert!(block as isize != -1, "no memory for a thread block");
        let thread = &*block.cast::<Thread>();
        thread.cpu_id.store(u32::MAX, Ordering::Relaxed);
        pthread_setspecific(key, block);
        thread
    }
}

/// No area of the C library is used here.
#[must_use]
pub fn library_area() -> Option<usize> {
    None
}

/// Nor is it asked for.
#[must_use]
pub fn library_knows() -> bool {
    false
}

/// Offsets from the thread pointer are not used here.
#[must_use]
pub fn thread_offset() -> usize {
    0
}

/// This thread's private slot.
#[must_use]
pub fn cpu_id(_offset: usize) -> i32 {
    thread().cpu_id.load(Ordering::Relaxed).cast_signed()
}

fn entry(rows: usize, slot: usize) -> Option<&'static Entry> {
    let row = usize::try_from(cpu_id(0)).ok()?;
    // SAFETY: the callers below are promised valid rows.
    Some(unsafe { &*((rows + row * ROW_STRIDE + slot) as *const Entry) })
}

/// The element of a number: 0, or one of a stack in use.
fn element(rows: usize, number: u32) -> &'static AtomicUsize {
    // SAFETY: the callers below are promised valid rows, and with them elements.
    unsafe { &*((rows + number as usize * ELEMENT_BYTES) as *const AtomicUsize) }
}

/// Pops from this thread's stack.
///
/// # Safety
/// `rows` is the base of valid rows.
pub unsafe fn pop(rows: usize, slot: usize, _cs_offset: usize) -> Option<usize> {
    let entry = entry(rows, slot)?;
    let top = entry.top();
    match element(rows, top).load(Ordering::Relaxed) {
        0 => None,
        object => {
            entry.commit(top - 1);
            Some(object)
        }
    }
}

/// Pushes to this thread's stack.
///
/// # Safety
/// As [`pop`].
pub unsafe fn push(rows: usize, slot: usize, _cs_offset: usize, object: usize) -> bool {
    let Some(entry) = entry(rows, slot) else {
        return false;
    };
    let top = entry.top();
    if top >= entry.end() || element(rows, top).load(Ordering::Relaxed) == object {
        return false;
    }
    element(rows, top + 1).store(object, Ordering::Relaxed);
    entry.commit(top + 1);
    true
}

/// Pushes to this thread's stack if the object has the stack's tag.
///
/// # Safety
/// As [`pop`].
pub unsafe fn push_if(rows: usize, slot: usize, cs_offset: usize, object: usize) -> bool {
    let Some(entry) = entry(rows, slot) else {
        return false;
    };
    let word = |number| element(rows, number).load(Ordering::Relaxed);
    // An entry of zeros has the tag of a row's first elements, and no room.
    let Tag { base, mask } = Tag::of(entry.end(), word);
    // SAFETY: the caller's promise.
    (object ^ base) & mask == 0 && unsafe { push(rows, slot, cs_offset, object) }
}

/// Pops several objects from this thread's stack, the top first; returns how many.
///
/// # Safety
/// As [`pop`].
pub unsafe fn pop_many(rows: usize, slot: usize, cs_offset: usize, out: &mut [usize]) -> usize {
    for (nth, object) in out.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        match unsafe { pop(rows, slot, cs_offset) } {
            Some(popped) => *object = popped,
            None => return nth,
        }
    }
    out.len()
}

/// Pushes several objects to this thread's stack, the last one on top; returns how many of the
/// first found room.
///
/// # Safety
/// As [`pop`].
pub unsafe fn push_many(rows: usize, slot: usize, cs_offset: usize, objects: &[usize]) -> usize {
    // SAFETY: the caller's promise.
    let is_pushed = |object: &&usize| unsafe { push(rows, slot, cs_offset, **object) };
    objects.iter().take_while(is_pushed).count()
}

/// As [`push_many`]; a stack that takes the objects of one slab alone takes none.
///
/// # Safety
/// As [`pop`].
pub unsafe fn push_many_if(rows: usize, slot: usize, cs_offset: usize, objects: &[usize]) -> usize {
    let Some(entry) = entry(rows, slot) else {
        return 0;
    };
    let word = |number| element(rows, number).load(Ordering::Relaxed);
    if Tag::of(entry.end(), word).mask != 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { push_many(rows, slot, cs_offset, objects) }
}

/// Exchanges this thread's stack.
///
/// # Errors
/// [`Stopped`] if this thread has no row.
///
/// # Safety
/// As [`pop`].
pub unsafe fn exchange(
    rows: usize,
    slot: usize,
    _cs_offset: usize,
    new: Stack,
) -> Result<Stack, Stopped> {
    let entry = entry(rows, slot).ok_or(Stopped)?;
    if entry.is_none() {
        // SAFETY: the caller's promise.
        unsafe { begin_use(rows, cpu_id(0) as usize) };
    }
    entry.replace(new)
}
