//! Shared libraries as contenders: ours for C and mimalloc's, called through function pointers,
//! which costs as much as a call through the procedure linkage table.
//!
//! Neighbour: [`super::blocks`] has the mimalloc that is linked into this program.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{NonNull, null, null_mut};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::blocks::Block;
use super::contenders::{Node, Objects};
use crate::find::{MIMALLOC, beside_this_program};

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;

/// A library that stays loaded; its names are seen by nobody else.
struct Library(NonNull<c_void>);

impl Library {
    fn open(path: &Path) -> Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a string that ends with 0; the libraries' constructors ask nothing of us.
        match NonNull::new(unsafe { dlopen(name.as_ptr(), RTLD_NOW) }) {
            Some(library) => Ok(Library(library)),
            // SAFETY: after a failure it is a string.
            None => bail!("{}", unsafe { CStr::from_ptr(dlerror()) }.to_string_lossy()),
        }
    }

    /// A function, as a pointer of type `F`.
    ///
    /// # Safety
    /// The function is of this type.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: a library that is loaded, and a string that ends with 0.
        let found = NonNull::new(unsafe { dlsym(self.0.as_ptr(), name.as_ptr()) });
        let found = found.with_context(|| format!("no function {}", name.to_string_lossy()))?;
        // SAFETY: the caller's promise.
        Ok(unsafe { std::mem::transmute_copy(&found.as_ptr()) })
    }
}

type Cache = *const c_void;

/// A cache of our C library.
pub struct CLibrary {
    cache: usize,
    alloc: extern "C" fn(Cache) -> *mut c_void,
    free: extern "C" fn(Cache, *mut c_void),
    alloc_bulk: extern "C" fn(Cache, usize, *mut *mut c_void) -> usize,
    free_bulk: extern "C" fn(Cache, usize, *const *mut c_void),
}

impl CLibrary {
    /// The library of the same build, if it exists.
    pub fn open() -> Result<Option<Self>> {
        let path = beside_this_program("libslabyard_kmem.so")?;
        if !path.exists() {
            eprintln!(
                "not measured: {}; `cargo build --release -p slabyard-kmem` builds it",
                path.display()
            );
            return Ok(None);
        }
        let library = Library::open(&path)?;
        type Create = extern "C" fn(*const c_char, usize, *const c_void) -> Cache;
        // SAFETY: the types are those of `slabyard.h`.
        unsafe {
            let create: Create = library.function(c"slabyard_cache_create")?;
            let cache = create(c"node".as_ptr(), size_of::<Node>(), null());
            if cache.is_null() {
                bail!("{}: no cache", path.display());
            }
            Ok(Some(CLibrary {
                cache: cache as usize,
                alloc: library.function(c"slabyard_cache_alloc")?,
                free: library.function(c"slabyard_cache_free")?,
                alloc_bulk: library.function(c"slabyard_cache_alloc_bulk")?,
                free_bulk: library.function(c"slabyard_cache_free_bulk")?,
            }))
        }
    }

    fn cache(&self) -> Cache {
        self.cache as Cache
    }

    /// Bulk calls of 32: nanoseconds an object.
    pub fn bulks(&self, n: u64) -> f64 {
        let mut held = [null_mut::<c_void>(); 32];
        let begin = Instant::now();
        for turn in 0..n / 32 {
            let made = (self.alloc_bulk)(self.cache(), held.len(), held.as_mut_ptr());
            assert_eq!(made, held.len());
            for (object, nth) in held.iter().zip(0..) {
                // SAFETY: an object of the cache.
                unsafe { (&raw mut (*object.cast::<Node>()).mark).write(turn ^ nth) };
            }
            (self.free_bulk)(self.cache(), held.len(), std::hint::black_box(&held).as_ptr());
        }
        begin.elapsed().as_nanos() as f64 / (n / 32 * 32) as f64
    }
}

impl Objects for CLibrary {
    type OwnedObject = Block;
    type Local = ();
    const NAME: &'static str = "C library";

    fn local(&self) {}

    #[inline(always)]
    fn alloc(&self, (): &mut (), mark: u64) -> Block {
        Block::marked((self.alloc)(self.cache()).cast(), mark)
    }

    #[inline(always)]
    fn mark(&self, (): &(), held: &Block) -> u64 {
        held.mark()
    }

    #[inline(always)]
    fn free(&self, (): &mut (), held: Block) {
        (self.free)(self.cache(), held.0.cast());
    }
}

pub struct SharedMimalloc {
    malloc: extern "C" fn(usize) -> *mut c_void,
    free: extern "C" fn(*mut c_void),
}

impl SharedMimalloc {
    pub fn open() -> Result<Self> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(MIMALLOC)?;
        // The file may go once it is mapped.
        let library = Library::open(file.path())?;
        // SAFETY: the types are those of `mimalloc.h`.
        unsafe {
            let (malloc, free) = (library.function(c"mi_malloc")?, library.function(c"mi_free")?);
            Ok(SharedMimalloc { malloc, free })
        }
    }
}

impl Objects for SharedMimalloc {
    type OwnedObject = Block;
    type Local = ();
    const NAME: &'static str = "mimalloc, shared";

    fn local(&self) {}

    #[inline(always)]
    fn alloc(&self, (): &mut (), mark: u64) -> Block {
        Block::marked((self.malloc)(size_of::<Node>()).cast(), mark)
    }

    #[inline(always)]
    fn mark(&self, (): &(), held: &Block) -> u64 {
        held.mark()
    }

    #[inline(always)]
    fn free(&self, (): &mut (), held: Block) {
        (self.free)(held.0.cast());
    }
}

/// Two calls into a shared library, the C library, that do nothing: what each contender of a shared
/// library has to pay. `labs` gives the number back that it gets.
pub struct NoWork {
    labs: extern "C" fn(usize) -> usize,
    /// Address of the one node that it gives out, each time.
    node: usize,
}

impl NoWork {
    pub fn open() -> Result<Self> {
        let library = Library::open(Path::new("libc.so.6"))?;
        // SAFETY: it takes and returns a word.
        let labs = unsafe { library.function(c"labs")? };
        let node = std::ptr::from_mut(Box::leak(Box::new(Node::new(0)))).expose_provenance();
        Ok(NoWork { labs, node })
    }
}

impl Objects for NoWork {
    type OwnedObject = Block;
    type Local = ();
    const NAME: &'static str = "two empty calls, shared";
    const CROSSES: bool = false;

    fn local(&self) {}

    #[inline(always)]
    fn alloc(&self, (): &mut (), mark: u64) -> Block {
        let node = std::ptr::with_exposed_provenance_mut((self.labs)(self.node));
        Block::marked(node, mark)
    }

    #[inline(always)]
    fn mark(&self, (): &(), held: &Block) -> u64 {
        held.mark()
    }

    #[inline(always)]
    fn free(&self, (): &mut (), held: Block) {
        std::hint::black_box((self.labs)(held.address()));
    }
}
