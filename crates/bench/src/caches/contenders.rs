//! The contenders for single objects: our typed caches, and the object pools of other crates.
//!
//! [`super::blocks`] has the general-purpose allocators.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::Mutex;

use crossbeam_queue::ArrayQueue;
use slabyard::{CacheBox, ObjectCache};

/// The object: a cache line, of which its user writes a word first.
pub struct Node {
    pub mark: u64,
    _rest: MaybeUninit<[u64; 7]>,
}

impl Node {
    #[inline(always)]
    pub fn new(mark: u64) -> Self {
        Node { mark, _rest: MaybeUninit::uninit() }
    }
}

/// Hands out objects of one kind.
pub trait Objects: Sync {
    type OwnedObject: Send;
    /// What a thread has of its own.
    type Local;
    const NAME: &'static str;
    /// False where another thread cannot free an object.
    const CROSSES: bool = true;
    fn local(&self) -> Self::Local;
    fn alloc(&self, local: &mut Self::Local, mark: u64) -> Self::OwnedObject;
    fn mark(&self, local: &Self::Local, held: &Self::OwnedObject) -> u64;
    fn free(&self, local: &mut Self::Local, held: Self::OwnedObject);
}

/// Ours.
pub struct Typed(pub ObjectCache<Node>);

impl Objects for Typed {
    type OwnedObject = CacheBox<Node>;
    type Local = ();
    const NAME: &'static str = "typed";

    fn local(&self) {}

    #[inline(always)]
    fn alloc(&self, (): &mut (), mark: u64) -> CacheBox<Node> {
        self.0.alloc(Node::new(mark))
    }

    #[inline(always)]
    fn mark(&self, (): &(), held: &CacheBox<Node>) -> u64 {
        held.mark
    }

    #[inline(always)]
    fn free(&self, (): &mut (), held: CacheBox<Node>) {
        drop(held);
    }
}

/// Ours, by functions that are not inlined: what calling costs.
pub struct TypedNotInlined(pub ObjectCache<Node>);

#[inline(never)]
fn alloc_called(cache: &ObjectCache<Node>, mark: u64) -> CacheBox<Node> {
    cache.alloc(Node::new(mark))
}

#[inline(never)]
fn free_called(held: CacheBox<Node>) {
    drop(held);
}

impl Objects for TypedNotInlined {
    type OwnedObject = CacheBox<Node>;
    type Local = ();
    const NAME: &'static str = "typed, called";

    fn local(&self) {}

    #[inline(always)]
    fn alloc(&self, (): &mut (), mark: u64) -> CacheBox<Node> {
        alloc_called(&self.0, mark)
    }

    #[inline(always)]
    fn mark(&self, (): &(), held: &CacheBox<Node>) -> u64 {
        held.mark
    }

    #[inline(always)]
    fn free(&self, (): &mut (), held: CacheBox<Node>) {
        free_called(held);
    }
}

/// The crate `slab`, shared: what threads need that free one another's objects.
#[derive(Default)]
pub struct LockedSlab(Mutex<slab::Slab<Node>>);

impl Objects for LockedSlab {
    type OwnedObject = usize;
    type Local = ();
    const NAME: &'static str = "slab, locked";

    fn local(&self) {}

    #[inline(always)]
    fn alloc(&self, (): &mut (), mark: u64) -> usize {
        self.0.lock().expect("no panic").insert(Node::new(mark))
    }

    #[inline(always)]
    fn mark(&self, (): &(), held: &usize) -> u64 {
        self.0.lock().expect("no panic")[*held].mark
    }

    #[inline(always)]
    fn free(&self, (): &mut (), held: usize) {
        self.0.lock().expect("no panic").remove(held);
    }
}

/// The crate `slab`: a vector of each thread's own.
pub struct SlabCrate;

impl Objects for SlabCrate {
    type OwnedObject = usize;
    type Local = slab::Slab<Node>;
    const NAME: &'static str = "slab";
    const CROSSES: bool = false;

    fn local(&self) -> slab::Slab<Node> {
        slab::Slab::with_capacity(4096)
    }

    #[inline(always)]
    fn alloc(&self, local: &mut slab::Slab<Node>, mark: u64) -> usize {
        local.insert(Node::new(mark))
    }

    #[inline(always)]
    fn mark(&self, local: &slab::Slab<Node>, held: &usize) -> u64 {
        local[*held].mark
    }

    #[inline(always)]
    fn free(&self, local: &mut slab::Slab<Node>, held: usize) {
        local.remove(held);
    }
}

/// The crate `sharded-slab`: a table that threads share.
#[derive(Default)]
pub struct Sharded(sharded_slab::Slab<Node>);

impl Objects for Sharded {
    type OwnedObject = usize;
    type Local = ();
    const NAME: &'static str = "sharded-slab";

    fn local(&self) {}

    #[inline(always)]
    fn alloc(&self, (): &mut (), mark: u64) -> usize {
        self.0.insert(Node::new(mark)).expect("room")
    }

    #[inline(always)]
    fn mark(&self, (): &(), held: &usize) -> u64 {
        self.0.get(*held).expect("an object").mark
    }

    #[inline(always)]
    fn free(&self, (): &mut (), held: usize) {
        assert!(self.0.remove(held));
    }
}

/// Objects of an arena before it is dropped.
const ARENA: usize = 4096;

/// The crate `typed-arena`: it frees nothing but all. A thread makes a new one now and then; what is
/// held longer than that would not be valid any more, so objects are marks only.
pub struct Arena;

pub struct OwnArena {
    arena: typed_arena::Arena<Node>,
    made: Cell<usize>,
}

impl Objects for Arena {
    type OwnedObject = u64;
    type Local = OwnArena;
    const NAME: &'static str = "typed-arena";
    const CROSSES: bool = false;

    fn local(&self) -> OwnArena {
        OwnArena { arena: typed_arena::Arena::with_capacity(ARENA), made: Cell::new(0) }
    }

    #[inline(always)]
    fn alloc(&self, local: &mut OwnArena, mark: u64) -> u64 {
        let made = local.made.get() + 1;
        if made == ARENA {
            *local = self.local();
        } else {
            local.made.set(made);
        }
        std::hint::black_box(local.arena.alloc(Node::new(mark))).mark
    }

    #[inline(always)]
    fn mark(&self, _: &OwnArena, held: &u64) -> u64 {
        *held
    }

    #[inline(always)]
    fn free(&self, _: &mut OwnArena, _: u64) {}
}

/// A ring of free objects that threads share, over the C library's malloc.
pub struct Ring(ArrayQueue<Box<Node>>);

impl Default for Ring {
    fn default() -> Self {
        Ring(ArrayQueue::new(8192))
    }
}

impl Objects for Ring {
    type OwnedObject = Box<Node>;
    type Local = ();
    const NAME: &'static str = "ring pool";

    fn local(&self) {}

    #[inline(always)]
    fn alloc(&self, (): &mut (), mark: u64) -> Box<Node> {
        match self.0.pop() {
            Some(mut node) => {
                node.mark = mark;
                node
            }
            None => Box::new(Node::new(mark)),
        }
    }

    #[inline(always)]
    fn mark(&self, (): &(), held: &Box<Node>) -> u64 {
        held.mark
    }

    #[inline(always)]
    fn free(&self, (): &mut (), held: Box<Node>) {
        // A full ring lets the object go.
        let _ = self.0.push(held);
    }
}
