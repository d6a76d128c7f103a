//! glibc's functions about the allocator: `mallinfo`, `malloc_info`, `malloc_stats`, `mallopt`.
//! Their numbers are those of our counters; glibc's names are kept where they mean something
//! here.

use crate::names::Name;
use crate::state;
use crate::state::YARD;
use crate::text::{Line, say};
use core::ffi::{c_char, c_int, c_void};
use core::fmt::Write;
use core::ops::{Deref, DerefMut};
use slabyard::cache::classes::CLASSES;
use slabyard::platform::Platform;
use slabyard::yard::Yard;
use slabyard_abi::counters::{CacheCounters, YardCounters};
#[cfg(any_engine)]
use slabyard_abi::stats::CACHE_WORDS;

/// All counters at one moment.
pub(crate) struct Counted {
    pub(crate) yard: YardCounters,
    pub(crate) caches: [CacheCounters; CLASSES],
    /// What one cache counted.
    #[cfg(any_engine)]
    pub(crate) words: [u64; CACHE_WORDS],
}

/// [`Counted`] in a mapping of its own: it is too large for the stack of a thread or coroutine
/// that asks for statistics.
pub(crate) struct Counts(&'static mut Counted);

impl Counts {
    fn bytes() -> usize {
        size_of::<Counted>().next_multiple_of(YARD.platform().page_bytes())
    }

    fn new() -> Option<Counts> {
        let address = YARD.platform().map(Self::bytes(), YARD.platform().page_bytes())?;
        // SAFETY: a new mapping, of zeros, which are counters.
        Some(Counts(unsafe { &mut *(address as *mut Counted) }))
    }
}

impl Deref for Counts {
    type Target = Counted;

    fn deref(&self) -> &Counted {
        self.0
    }
}

impl DerefMut for Counts {
    fn deref_mut(&mut self) -> &mut Counted {
        self.0
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        YARD.platform().unmap(core::ptr::from_mut(self.0).addr(), Self::bytes());
    }
}

/// Counts; `None` where the yard cannot be stopped (a handler inside malloc), or the system has no
/// memory for the counters.
#[inline(never)]
pub(crate) fn count() -> Option<Counts> {
    if !state::ready() {
        return None;
    }
    let mut counts = Counts::new()?;
    let Counted { yard, caches, .. } = &mut *counts;
    let mut each = |number: usize, c: &CacheCounters| {
        if let Some(cache) = caches.get_mut(number) {
            *cache = *c;
        }
    };
    *yard = YARD.quiesce(|quiesced| Yard::count(quiesced, &mut each))?;
    Some(counts)
}

/// Counts the yard alone.
#[inline(never)]
fn count_yard() -> Option<YardCounters> {
    if !state::ready() {
        return None;
    }
    YARD.quiesce(|quiesced| Yard::count(quiesced, |_, _| {}))
}

/// glibc's `struct mallinfo2`; `mallinfo` has the same in `int`.
#[repr(C)]
#[derive(Default)]
struct Mallinfo<T> {
    arena: T,
    ordblks: T,
    smblks: T,
    hblks: T,
    hblkhd: T,
    usmblks: T,
    fsmblks: T,
    uordblks: T,
    fordblks: T,
    keepcost: T,
}

fn numbers() -> Mallinfo<usize> {
    let Some(yard) = count_yard() else {
        return Mallinfo::default();
    };
    let used = yard.live + yard.runs;
    let arena = yard.committed - yard.mapped - yard.metadata;
    Mallinfo {
        arena: arena as usize,
        hblks: yard.nr_mapped as usize,
        hblkhd: yard.mapped as usize,
        uordblks: used as usize,
        fordblks: (arena - used) as usize,
        keepcost: yard.free_runs as usize,
        ..Mallinfo::default()
    }
}

#[unsafe(no_mangle)]
extern "C" fn mallinfo2() -> Mallinfo<usize> {
    numbers()
}

#[unsafe(no_mangle)]
extern "C" fn mallinfo() -> Mallinfo<c_int> {
    let n = numbers();
    let int = |n: usize| c_int::try_from(n).unwrap_or(c_int::MAX);
    Mallinfo {
        arena: int(n.arena),
        ordblks: int(n.ordblks),
        smblks: int(n.smblks),
        hblks: int(n.hblks),
        hblkhd: int(n.hblkhd),
        usmblks: int(n.usmblks),
        fsmblks: int(n.fsmblks),
        uordblks: int(n.uordblks),
        fordblks: int(n.fordblks),
        keepcost: int(n.keepcost),
    }
}

unsafe extern "C" {
    fn fwrite(bytes: *const u8, size: usize, n: usize, file: *mut c_void) -> usize;
}

fn put(file: *mut c_void, line: &Line) {
    let bytes = line.as_bytes();
    // SAFETY: the caller's open stream.
    unsafe { fwrite(bytes.as_ptr(), 1, bytes.len(), file) };
}

/// XML, as glibc's: a heap, its sizes, totals.
#[unsafe(no_mangle)]
extern "C" fn malloc_info(options: c_int, file: *mut c_void) -> c_int {
    const EINVAL: c_int = 22;
    if options != 0 {
        return EINVAL;
    }
    macro_rules! line {
        ($($arguments:tt)*) => {{
            let mut line = Line::new();
            let _ = writeln!(line, $($arguments)*);
            put(file, &line);
        }};
    }
    line!("<malloc version=\"slabyard-{}\">", env!("CARGO_PKG_VERSION"));
    if let Some(counts) = count() {
        let Counted { yard, caches, .. } = &*counts;
        line!("<heap nr=\"0\">\n<sizes>");
        for (class, c) in caches.iter().enumerate().filter(|(_, c)| c.slabs > 0) {
            line!(
                "<cache name=\"{}\" size=\"{}\" slabs=\"{}\" live=\"{}\" parked=\"{}\" free=\"{}\"/>",
                Name(class),
                c.slab_size,
                c.slabs,
                c.live,
                c.parked_cpu + c.parked_node,
                c.free_partial
            );
        }
        line!("</sizes>");
        line!("<total type=\"runs\" count=\"{}\" size=\"{}\"/>", yard.nr_runs, yard.runs);
        line!("<total type=\"mmap\" count=\"{}\" size=\"{}\"/>", yard.nr_mapped, yard.mapped);
        line!("<system type=\"current\" size=\"{}\"/>", yard.committed);
        line!("</heap>");
    }
    line!("</malloc>");
    0
}

#[unsafe(no_mangle)]
extern "C" fn malloc_stats() {
    let Some(counts) = count() else {
        return;
    };
    let Counted { yard, caches, .. } = &*counts;
    say!(
        "committed {} live {} parked {} free {} runs {} mapped {} metadata {} bytes",
        yard.committed,
        yard.live,
        yard.parked_cpu + yard.parked_node + yard.parked_pages,
        yard.free_partial + yard.free_runs,
        yard.runs,
        yard.mapped,
        yard.metadata
    );
    for (class, c) in caches.iter().enumerate().filter(|(_, c)| c.slabs > 0) {
        say!(
            "{} live {} parked {} slabs {} bytes {}",
            Name(class),
            c.live,
            c.parked_cpu + c.parked_node,
            c.slabs,
            c.bytes
        );
    }
}

/// glibc's parameters are known and have no effect: there are no arenas, bins or
/// thresholds of that kind here. Unknown ones are refused.
#[unsafe(no_mangle)]
extern "C" fn mallopt(parameter: c_int, _value: c_int) -> c_int {
    c_int::from(matches!(parameter, -8..=-1 | 1))
}

/// Checks the whole yard: 0 if it is sound, 1 if it is not (and reports why), 2 if it cannot be
/// checked now.
#[unsafe(no_mangle)]
extern "C" fn slabyard_verify() -> c_int {
    if !state::ready() {
        return 2;
    }
    match YARD.verify() {
        None => 2,
        Some(Ok(_)) => 0,
        Some(Err(fault)) => {
            say!("verify: {fault}");
            1
        }
    }
}

/// The library's version, as a C string.
#[unsafe(no_mangle)]
extern "C" fn slabyard_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
