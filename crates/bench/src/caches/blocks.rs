//! General-purpose allocators as contenders: the benchmark calls them through `GlobalAlloc`.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::time::Instant;

use slabyard::ProcessYard;
use slabyard::cache::CacheId;
use slabyard::platform::linux::Linux;
use slabyard::yard::Yard;

use super::contenders::{Node, Objects};
use super::loads::Built;

const LAYOUT: Layout = Layout::new::<Node>();

static GLOBAL: slabyard::Global = slabyard::Global::new();

/// Ours as the allocator of a program.
pub struct GlobalOfOurs;

/// A block of an allocator.
pub struct Block(pub(super) *mut Node);

// SAFETY: it is its owner's alone.
unsafe impl Send for Block {}

impl Block {
    /// Writes the mark of an object that was just allocated.
    #[inline(always)]
    pub fn marked(node: *mut Node, mark: u64) -> Self {
        assert!(!node.is_null());
        // SAFETY: memory for a node that is nobody else's.
        unsafe { (&raw mut (*node).mark).write(mark) };
        Block(node)
    }

    #[inline(always)]
    pub fn mark(&self) -> u64 {
        // SAFETY: a live object, whose mark was written.
        unsafe { (*self.0).mark }
    }

    #[inline(always)]
    pub fn address(&self) -> usize {
        self.0.expose_provenance()
    }
}

/// An allocator of bytes, and its name.
pub trait NamedAllocator: GlobalAlloc + Sync {
    const NAME: &'static str;
}

impl NamedAllocator for mimalloc::MiMalloc {
    const NAME: &'static str = "mimalloc";
}

#[cfg(feature = "snmalloc")]
impl NamedAllocator for snmalloc_rs::SnMalloc {
    const NAME: &'static str = "snmalloc";
}

impl NamedAllocator for std::alloc::System {
    const NAME: &'static str = "glibc";
}

impl NamedAllocator for GlobalOfOurs {
    const NAME: &'static str = "our global";
}

// SAFETY: it does what the allocator behind it does.
unsafe impl GlobalAlloc for GlobalOfOurs {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { GLOBAL.alloc(layout) }
    }

    #[inline(always)]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { GLOBAL.dealloc(pointer, layout) };
    }
}

/// An allocator of bytes as a contender.
pub struct Bytes<A>(pub A);

impl<A: NamedAllocator> Objects for Bytes<A> {
    type OwnedObject = Block;
    type Local = ();
    const NAME: &'static str = A::NAME;

    fn local(&self) {}

    #[inline(always)]
    fn alloc(&self, (): &mut (), mark: u64) -> Block {
        // SAFETY: the layout has bytes.
        let node = unsafe { self.0.alloc(LAYOUT) };
        Block::marked(node.cast(), mark)
    }

    #[inline(always)]
    fn mark(&self, (): &(), held: &Block) -> u64 {
        held.mark()
    }

    #[inline(always)]
    fn free(&self, (): &mut (), held: Block) {
        // SAFETY: a live block with this layout.
        unsafe { self.0.dealloc(held.0.cast(), LAYOUT) };
    }
}

/// Ours by a cache's id: no type says whose an address is, so the page map does.
pub struct Calls {
    yard: &'static Yard<Linux>,
    id: CacheId,
}

impl Calls {
    pub fn new(yard: &'static ProcessYard) -> Self {
        let yard = yard.start().expect("memory");
        let settings = slabyard::cache::CacheSettings::of(LAYOUT.size() as u32);
        let id = yard.create_cache("calls", &settings).expect("a cache");
        Calls { yard, id }
    }
}

#[inline(never)]
fn call_alloc(calls: &Calls) -> Option<usize> {
    calls.yard.alloc_from(calls.id)
}

#[inline(never)]
fn call_free(calls: &Calls, address: usize) {
    calls.yard.free_to(calls.id, address).expect("a live object");
}

impl Objects for Calls {
    type OwnedObject = Block;
    type Local = ();
    const NAME: &'static str = "by id";

    fn local(&self) {}

    #[inline(always)]
    fn alloc(&self, (): &mut (), mark: u64) -> Block {
        let address = call_alloc(self).expect("memory");
        Block::marked(std::ptr::with_exposed_provenance_mut(address), mark)
    }

    #[inline(always)]
    fn mark(&self, (): &(), held: &Block) -> u64 {
        held.mark()
    }

    #[inline(always)]
    fn free(&self, (): &mut (), held: Block) {
        call_free(self, held.address());
    }
}

/// Makes an object anew each time, in memory of an allocator: nanoseconds each.
pub fn made_anew<A: NamedAllocator>(allocator: &A, n: u64) -> f64 {
    const LAYOUT: Layout = Layout::new::<Built>();
    let begin = Instant::now();
    for _ in 0..n {
        // SAFETY: a block that is large enough, freed once with its layout.
        unsafe {
            let built = allocator.alloc(LAYOUT).cast::<Built>();
            assert!(!built.is_null());
            built.write(Built::new());
            (*built).work();
            built.drop_in_place();
            allocator.dealloc(built.cast(), LAYOUT);
        }
    }
    begin.elapsed().as_nanos() as f64 / n as f64
}
