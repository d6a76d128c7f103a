//! The C functions that create and destroy caches.
//!
//! Neighbours: [`crate::caches`] checks the handles; the yard creates and destroys the caches.
//!
//! With `SLABYARD_MERGE=1`, equal caches share slabs by the kernel's rule: neither has a
//! constructor or settings of its own, and both have the same accounting. The old cache's objects
//! are at most a word larger than the new cache's, and have the alignment that the new ones need.
//! The second name becomes an alias with the same handle.

use crate::caches::{self, refuse};
use crate::handles::{self, Handle, NAME_BYTES};
use crate::state::{YARD, ensure};
use crate::{aliases, tools};
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::fmt;
use core::ptr::{null, null_mut};
use slabyard::cache::classes::CLASSES;
use slabyard::cache::table::MOST_CREATED;
use slabyard::cache::{CacheFlags, CacheSettings};
use slabyard::created::{NotCreated, NotDestroyed};
use slabyard::engine::Shape;
use slabyard::live;
use slabyard::platform::{GRANULE, Memory};
use slabyard::slab::{Geometry, ObjectFn};
use slabyard::sync::Ordering;
use slabyard_abi::debug::{DebugFlags, FLAGS};
use slabyard_abi::engines::EngineName;
use slabyard_process::policy;
use slabyard_process::say;

const EINTR: c_int = 4;
const ENOMEM: c_int = 12;
const EBUSY: c_int = 16;
const EEXIST: c_int = 17;
const EINVAL: c_int = 22;
const ENAMETOOLONG: c_int = 36;

/// A flag of C's alone: stop the process where the cache cannot be made.
const PANIC: c_uint = 1 << 16;
/// In place of the number 0, where 0 means the default.
const NONE: c_int = -1;

/// `struct slabyard_cache_args`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Args {
    bytes: usize,
    align: usize,
    ctor: Option<extern "C" fn(*mut c_void)>,
    dtor: Option<extern "C" fn(*mut c_void)>,
    flags: c_uint,
    sheaf_capacity: c_uint,
    min_partial: c_int,
    min_order: c_int,
    max_order: c_int,
    debug: c_uint,
    engine: *const c_char,
}

impl Args {
    const USUAL: Args = Args {
        bytes: size_of::<Args>(),
        align: 0,
        ctor: None,
        dtor: None,
        flags: 0,
        sheaf_capacity: 0,
        min_partial: 0,
        min_order: 0,
        max_order: 0,
        debug: 0,
        engine: null(),
    };

    /// What a program passed, which may have been built with an older or newer header; `None` if it
    /// requests something that this library does not know.
    unsafe fn read(args: *const Args) -> Option<Args> {
        if args.is_null() {
            return Some(Self::USUAL);
        }
        // SAFETY: the first member is there in every version.
        let bytes = unsafe { (*args).bytes };
        let mut all = Self::USUAL;
        let known = bytes.min(size_of::<Args>());
        // SAFETY: so many bytes of the caller's are there, and each member takes any value that C
        // gives it.
        unsafe {
            let from = args.cast::<u8>();
            from.copy_to_nonoverlapping((&raw mut all).cast(), known);
            let further = core::slice::from_raw_parts(from.add(known), bytes - known);
            (bytes >= size_of::<usize>() && further.iter().all(|byte| *byte == 0)).then_some(all)
        }
    }
}

/// A number from C, of which 0 means the default, and [`NONE`] means 0.
fn chosen(number: c_int) -> Option<u32> {
    match number {
        0 => None,
        NONE => Some(0),
        number => Some(number.cast_unsigned()),
    }
}

fn construct(object: usize, function: usize) {
    // SAFETY: `settings` made the word of a function of this type.
    let function: extern "C" fn(*mut c_void) = unsafe { core::mem::transmute(function) };
    function(object as *mut c_void);
}

/// Makes a cache.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_cache_create(
    name: *const c_char,
    size: usize,
    args: *const Args,
) -> *const Handle {
    // SAFETY: the caller's promise.
    let (handle, panics) = unsafe { create(name, size, args) };
    if handle.is_none() && panics {
        caches::panic();
    }
    handle.map_or(null(), core::ptr::from_ref)
}

unsafe fn create(
    name: *const c_char,
    size: usize,
    args: *const Args,
) -> (Option<&'static Handle>, bool) {
    // SAFETY: the caller's promise.
    let (args, name) = unsafe { (Args::read(args), name_of(name)) };
    let Some(args) = args else {
        refuse!(
            EINVAL,
            "slabyard_cache_create: the arguments are of a newer version: begin them with SLABYARD_CACHE_ARGS, and install this version's header"
        );
        return (None, false);
    };
    let panics = args.flags & PANIC != 0;
    let Some((name, text)) = name else { return (None, panics) };
    // SAFETY: the caller's promise, of the engine's name.
    let Some(mut settings) = (unsafe { settings(text, size, &args) }) else {
        return (None, panics);
    };
    if !ensure() {
        refuse!(ENOMEM, "slabyard_cache_create(\"{text}\"): no memory");
        return (None, panics);
    }
    (make(&name, text, &mut settings, &args), panics)
}

/// A copy of a name that a cache may have, and the text that it is; says why if it may not.
#[inline(never)]
unsafe fn name_of(name: *const c_char) -> Option<([u8; NAME_BYTES], &'static str)> {
    if name.is_null() {
        refuse!(EINVAL, "slabyard_cache_create: the name is missing");
        return None;
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    let Some(text) = core::str::from_utf8(bytes).ok().filter(|text| is_name(text)) else {
        refuse!(
            EINVAL,
            "slabyard_cache_create: a name is of letters, digits and signs, without spaces"
        );
        return None;
    };
    let mut copy = [0; NAME_BYTES];
    if bytes.len() >= NAME_BYTES {
        refuse!(
            ENAMETOOLONG,
            "slabyard_cache_create(\"{text}\"): the name has {} bytes, at most {} are possible",
            bytes.len(),
            NAME_BYTES - 1
        );
        return None;
    }
    copy[..bytes.len()].copy_from_slice(bytes);
    Some((copy, text))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// The settings that the arguments request; reports why if they are invalid.
#[inline(never)]
unsafe fn settings(name: &str, size: usize, args: &Args) -> Option<CacheSettings> {
    let wrong = |what: core::fmt::Arguments<'_>| {
        refuse!(EINVAL, "slabyard_cache_create(\"{name}\"): {what}");
    };
    if size == 0 {
        wrong(format_args!("objects of 0 bytes"));
        return None;
    }
    if size > Geometry::LARGEST as usize {
        wrong(format_args!(
            "objects of {size} bytes; a cache's have {} at most, slabyard_kvmalloc serves larger ones",
            Geometry::LARGEST
        ));
        return None;
    }
    let align = args.align.max(8);
    if !args.align.is_power_of_two() && args.align != 0 {
        wrong(format_args!("the alignment {} is no power of two", args.align));
        return None;
    }
    if align > Geometry::LARGEST_ALIGN as usize {
        wrong(format_args!("the alignment {align} is above {}", Geometry::LARGEST_ALIGN));
        return None;
    }
    let Some(flags) = CacheFlags::of(args.flags & !PANIC) else {
        wrong(format_args!("flags {:#x} have bits without a meaning", args.flags));
        return None;
    };
    let known = FLAGS.iter().fold(DebugFlags::NONE, |all, row| all.with(row.flag));
    let asked = u8::try_from(args.debug).ok().filter(|bits| bits & !known.bits() == 0);
    let Some(asked) = asked.map(DebugFlags::of) else {
        wrong(format_args!("debug flags {:#x} have bits without a meaning", args.debug));
        return None;
    };
    let mut settings =
        CacheSettings { align: align as u32, flags, ..CacheSettings::of(size as u32) };
    settings.debug = asked.with(slabyard_process::debug::flags_for(name.as_bytes()));
    if settings.debug.has(DebugFlags::TRACK) {
        slabyard_process::debug::prepare();
    }
    // SAFETY: the caller's promise.
    settings.engine = match unsafe { engine(args.engine) } {
        Ok(engine) => engine,
        Err(text) => {
            wrong(format_args!("there is no engine `{text}`: slub, tiny, slab or slob"));
            return None;
        }
    };
    let of_object = |function: extern "C" fn(*mut c_void)| ObjectFn {
        function: construct,
        word: function as usize,
    };
    settings.constructor = args.ctor.map(of_object);
    settings.destructor = args.dtor.map(of_object);
    settings.sheaf_capacity = Some(args.sheaf_capacity).filter(|objects| *objects != 0);
    settings.min_partial = chosen(args.min_partial);
    let page_order = if ensure() { (YARD.platform().page_bytes() / GRANULE).ilog2() } else { 0 };
    let of_pages = |order: u32| order.saturating_add(page_order);
    let most = chosen(args.max_order).map_or(Geometry::LARGEST_ORDER, of_pages);
    settings.orders = (of_pages(chosen(args.min_order).unwrap_or(0)), most);
    Some(settings)
}

unsafe fn engine(name: *const c_char) -> Result<Option<EngineName>, &'static str> {
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("?");
    EngineName::ALL.iter().find(|it| it.row().name == text).copied().map(Some).ok_or(text)
}

#[inline(never)]
fn make(
    name: &[u8; NAME_BYTES],
    text: &str,
    settings: &mut CacheSettings,
    args: &Args,
) -> Option<&'static Handle> {
    let held = handles::lock();
    caches::show_classes(&held);
    if handles::created().any(|it| it.name() == text) {
        refuse!(EEXIST, "slabyard_cache_create(\"{text}\"): a cache has this name already");
        return None;
    }
    if handles::merges()
        && !tools::is_on()
        && settings.debug.is_empty()
        && args.engine.is_null()
        && args.sheaf_capacity == 0
    {
        let plain = settings.min_partial.is_none() && args.min_order == 0 && args.max_order == 0;
        if let Some(handle) = plain.then(|| equal(settings)).flatten() {
            handle.aliases.fetch_add(1, Ordering::Relaxed);
            handle.object.fetch_max(settings.object, Ordering::Relaxed);
            handle.id().into_iter().for_each(|id| aliases::add(id, name, &held));
            return Some(handle);
        }
    }
    let object = settings.object;
    let record = tools::prepare(settings, &held);
    match YARD.create_cache(text, settings) {
        Ok(id) => {
            record.into_iter().for_each(|record| record.begins(id));
            let constructor = args.ctor.map_or(0, |ctor| ctor as usize);
            handles::place(id.number()).fill(id.number(), name, object, constructor);
            handles::of_number(id.number())
        }
        Err(why) => {
            record.into_iter().for_each(tools::Record::ends);
            let errno = match why {
                NotCreated::Settings | NotCreated::SheafCapacity | NotCreated::Engine => EINVAL,
                NotCreated::TooMany | NotCreated::Memory => ENOMEM,
                NotCreated::Interrupted => EINTR,
            };
            refuse!(errno, "slabyard_cache_create(\"{text}\"): {}", CreateReason(why, settings));
            None
        }
    }
}

/// Why there is no cache, and what to do.
struct CreateReason<'a>(NotCreated, &'a CacheSettings);

impl fmt::Display for CreateReason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            NotCreated::Settings => "no object fits into slabs of these orders",
            NotCreated::SheafCapacity => {
                let (asked, most) = (self.1.sheaf_capacity.unwrap_or(0), Shape::STACK_OBJECTS);
                return write!(
                    f,
                    "sheaf_capacity {asked} is above {most}: set {most} at most, or 0 for what is usual"
                );
            }
            NotCreated::Engine => "the library has not the engine",
            NotCreated::TooMany => {
                return write!(
                    f,
                    "there are {MOST_CREATED} caches, as many as there may be: destroy those that are not used, or share one among types of a size (SLABYARD_MERGE=1 does)"
                );
            }
            NotCreated::Memory => "no memory",
            NotCreated::Interrupted => "a signal handler interrupted the allocator",
        })
    }
}

/// The oldest cache whose slabs a new one may share.
fn equal(settings: &CacheSettings) -> Option<&'static Handle> {
    let never = CacheFlags::NO_MERGE.bits() | CacheFlags::TYPESAFE_BY_RCU.bits();
    let is_plain = |flags: CacheFlags| flags.bits() & never == 0;
    if settings.constructor.is_some() || settings.destructor.is_some() || !is_plain(settings.flags)
    {
        return None;
    }
    let geometry = settings.geometry(0)?;
    let accounting = CacheFlags::RECLAIM_ACCOUNT;
    handles::created().find(|handle| {
        let Some(cache) = handle.id().and_then(|id| YARD.find_cache(id)) else { return false };
        let shape = cache.shape();
        let size = shape.geometry.size;
        let is_usual = shape.stack_objects
            == slabyard::engine::Shape::new(shape.geometry, shape.slot).stack_objects;
        shape.constructor.is_none()
            && shape.destructor.is_none()
            && is_plain(shape.flags)
            && is_usual
            && shape.flags.has(accounting) == settings.flags.has(accounting)
            && geometry.size <= size
            && size - geometry.size < 8
            && size.is_multiple_of(settings.align)
    })
}

/// Destroys a cache, or takes an alias away.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_cache_destroy(cache: *const Handle) -> c_int {
    if cache.is_null() {
        return 0;
    }
    let Some(handle) = caches::checked("slabyard_cache_destroy", cache) else { return EINVAL };
    let held = handles::lock();
    let Some(id) = handle.id() else { return EINVAL };
    let name = handle.name();
    if id.number() < CLASSES {
        say!("slabyard_cache_destroy(\"{name}\"): a cache of kmalloc's, which stays");
        policy::end();
        return EINVAL;
    }
    if handle.aliases.load(Ordering::Relaxed) > 0 {
        handle.aliases.fetch_sub(1, Ordering::Relaxed);
        return 0;
    }
    let (word, record) = (handle.clear(), tools::record_of(id));
    // SAFETY: the caller of the function promises it, as the header says.
    let result = unsafe { YARD.destroy_cache(id) };
    match result {
        Ok(()) => {
            aliases::end(id, &held);
            record.into_iter().for_each(tools::Record::ends);
            return 0;
        }
        Err(NotDestroyed::Live(objects)) => {
            let s = if objects == 1 { " remains" } else { "s remain" };
            say!("slabyard_cache_destroy(\"{name}\"): {objects} object{s}; the cache stays");
        }
        Err(_) => {}
    }
    handle.put_back(word);
    if matches!(result, Err(NotDestroyed::Interrupted)) { EINTR } else { EBUSY }
}

/// Gives back what a cache does not need.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_cache_shrink(cache: *const Handle) -> c_int {
    let Some(handle) = caches::checked("slabyard_cache_shrink", cache) else { return -1 };
    let Some(id) = handle.id().filter(|id| YARD.shrink_cache(*id)) else { return -1 };
    c_int::from(YARD.find_cache(id).is_some_and(|cache| cache.nr_slabs() > 0))
}

/// As it was given to `slabyard_cache_create`, ended by a zero; null if the handle is none.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_cache_name(cache: *const Handle) -> *const c_char {
    caches::checked("slabyard_cache_name", cache).map_or(null(), |handle| handle.c_name().as_ptr())
}

/// Bytes of its objects.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_cache_size(cache: *const Handle) -> usize {
    caches::checked("slabyard_cache_size", cache)
        .map_or(0, |handle| handle.object.load(Ordering::Relaxed) as usize)
}

/// The cache of an object.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_cache_of(object: *const c_void) -> *const Handle {
    if !slabyard_process::state::ready() {
        return null();
    }
    let Some(id) = live::cache_of(&YARD, object as usize) else { return null_mut() };
    if id.number() < CLASSES {
        caches::show_classes(&handles::lock());
    }
    handles::of_number(id.number()).map_or(null(), core::ptr::from_ref)
}
