//! glibc's malloc statistics and tuning functions: `mallinfo`, `malloc_info`, `malloc_stats`,
//! `mallopt`. Their numbers come from our counters; glibc's names are kept where they have a
//! meaning here.

use super::Malloc;
use crate::library::Name;
use crate::text::Line;
use crate::{say, start};
use core::ffi::{c_char, c_int, c_void};
use core::fmt::Write;
use core::ops::{Deref, DerefMut};
use slabyard::cache::classes::CLASSES;
use slabyard::platform::Memory;
use slabyard::yard::Yard;
use slabyard_abi::counters::{CacheCounters, YardCounters};

/// All counters at one moment.
pub struct MallocCounters<W> {
    pub(crate) yard: YardCounters,
    pub(crate) caches: [CacheCounters; CLASSES],
    /// What one cache counted.
    pub(crate) words: W,
}

/// [`MallocCounters`] in a mapping of its own: it is too large for the stack of a thread or
/// coroutine that requests statistics.
pub struct Counts<L: Malloc>(&'static mut MallocCounters<L::Words>);

impl<L: Malloc> Counts<L> {
    fn bytes() -> usize {
        size_of::<MallocCounters<L::Words>>().next_multiple_of(L::yard().platform().page_bytes())
    }

    fn new() -> Option<Counts<L>> {
        let address = L::yard().platform().map(Self::bytes(), L::yard().platform().page_bytes())?;
        // SAFETY: a new mapping, of zeros, which are counters.
        Some(Counts(unsafe { &mut *(address as *mut MallocCounters<L::Words>) }))
    }
}

impl<L: Malloc> Deref for Counts<L> {
    type Target = MallocCounters<L::Words>;

    fn deref(&self) -> &MallocCounters<L::Words> {
        self.0
    }
}

impl<L: Malloc> DerefMut for Counts<L> {
    fn deref_mut(&mut self) -> &mut MallocCounters<L::Words> {
        self.0
    }
}

impl<L: Malloc> Drop for Counts<L> {
    fn drop(&mut self) {
        L::yard().platform().unmap(core::ptr::from_mut(self.0).addr(), Self::bytes());
    }
}

/// Counts; `None` where the yard cannot be stopped (a handler inside malloc), or the kernel has no
/// memory for the counters.
#[inline(never)]
pub(crate) fn count<L: Malloc>() -> Option<Counts<L>> {
    if !start::ensure::<L>() {
        return None;
    }
    let mut counts = Counts::<L>::new()?;
    let MallocCounters { yard, caches, .. } = &mut *counts;
    let mut each = |number: usize, c: &CacheCounters| {
        if let Some(cache) = caches.get_mut(number) {
            *cache = *c;
        }
    };
    *yard = count_each::<L>(&mut each)?;
    Some(counts)
}

/// Counts the yard alone.
#[inline(never)]
fn count_yard<L: Malloc>() -> Option<YardCounters> {
    if !start::ensure::<L>() {
        return None;
    }
    count_each::<L>(&mut |_, _| {})
}

#[inline(never)]
fn count_each<L: Malloc>(each: &mut dyn FnMut(usize, &CacheCounters)) -> Option<YardCounters> {
    L::yard().quiesce(|quiesced| Yard::count(quiesced, each))
}

/// glibc's `struct mallinfo2`; `mallinfo` has the same in `int`.
#[repr(C)]
#[derive(Default)]
pub struct Mallinfo<T> {
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

fn numbers<L: Malloc>() -> Mallinfo<usize> {
    let Some(yard) = count_yard::<L>() else {
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

/// As glibc's, in `size_t`.
pub fn mallinfo2<L: Malloc>() -> Mallinfo<usize> {
    numbers::<L>()
}

/// As glibc's.
pub fn mallinfo<L: Malloc>() -> Mallinfo<c_int> {
    let n = numbers::<L>();
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
pub fn malloc_info<L: Malloc>(options: c_int, file: *mut c_void) -> c_int {
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
    if let Some(counts) = count::<L>() {
        let MallocCounters { yard, caches, .. } = &*counts;
        line!("<heap nr=\"0\">\n<sizes>");
        for (class, c) in caches.iter().enumerate().filter(|(_, c)| c.slabs > 0) {
            line!(
                "<cache name=\"{}\" size=\"{}\" slabs=\"{}\" live=\"{}\" parked=\"{}\" free=\"{}\"/>",
                Name::<L>::of(class),
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

/// Writes the counters of the yard and of each cache to standard error.
pub fn malloc_stats<L: Malloc>() {
    let Some(counts) = count::<L>() else {
        return;
    };
    let MallocCounters { yard, caches, .. } = &*counts;
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
            Name::<L>::of(class),
            c.live,
            c.parked_cpu + c.parked_node,
            c.slabs,
            c.bytes
        );
    }
}

/// glibc's parameters are known and have no effect: there are no arenas, bins or
/// thresholds of that kind here. Unknown ones are refused.
pub fn mallopt(parameter: c_int, _value: c_int) -> c_int {
    c_int::from(matches!(parameter, -8..=-1 | 1))
}

/// Checks the whole yard: 0 if it is sound, 1 if it is not (and reports why), 2 if it cannot be
/// checked now.
pub fn slabyard_verify<L: Malloc>() -> c_int {
    if !start::ensure::<L>() {
        return 2;
    }
    match L::yard().verify() {
        None => 2,
        Some(Ok(_)) => 0,
        Some(Err(fault)) => {
            say!("verify: {fault}");
            1
        }
    }
}

/// The library's version, as a C string.
pub fn slabyard_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
