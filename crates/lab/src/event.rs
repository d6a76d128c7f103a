//! One event of a trace: an object allocated or freed, or a slab's pages allocated or freed, as the
//! kernel's `kmem` tracepoints report it.

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// `kmem_cache_alloc`: `name` is the cache's.
    CacheAlloc = 0,
    /// `kmem_cache_free`: `name` is the cache's.
    CacheFree = 1,
    /// `kmalloc`: `name` is the call site, `allocated` the size class.
    Kmalloc = 2,
    /// `kfree`: `name` is the call site; the object is known by its address only.
    Kfree = 3,
    /// A block of pages was allocated: `address` is its page frame number, `order` its order.
    PageAlloc = 4,
    /// A block went back to the page allocator.
    PageFree = 5,
    /// `kfree_rcu()`: an object, known by its address only, that is free when readers are gone.
    KfreeRcu = 6,
    /// `kmem_cache_prefill_sheaf`: a caller takes a sheaf of the cache `name` for its own, with
    /// `requested` objects or more.
    PrefillSheaf = 7,
    /// `kmem_cache_return_sheaf`: it gives one back with `requested` objects.
    ReturnSheaf = 8,
    /// `kmem_cache_alloc_bulk`: `requested` objects, which no event names.
    AllocBulk = 9,
    /// `kmem_cache_free_bulk`: the same.
    FreeBulk = 10,
}

impl EventKind {
    /// False of calls that name a cache and a number of objects, and no object or page.
    #[must_use]
    pub fn has_address(self) -> bool {
        use EventKind::{AllocBulk, FreeBulk, PrefillSheaf, ReturnSheaf};
        !matches!(self, PrefillSheaf | ReturnSheaf | AllocBulk | FreeBulk)
    }

    /// True where the name is a cache's, not a call site's.
    #[must_use]
    pub fn names_cache(self) -> bool {
        matches!(self, EventKind::CacheAlloc | EventKind::CacheFree) || !self.has_address()
    }
}

/// No node was requested.
pub const ANY_NODE: i16 = -1;

/// A tracepoint's event, in the same form whatever recorder it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the trace began.
    pub time: u64,
    /// Address of the object (its low 48 bits), or the number of the first page
    /// frame.
    pub address: u64,
    /// Index of the cache's or call site's name in the trace's names.
    pub name: u32,
    /// Index of the name of a `kmem_cache_alloc`'s call site; that of the empty name (0) if the trace
    /// does not tell, and for all other kinds.
    pub site: u32,
    /// Process; 0 if the trace does not tell.
    pub pid: u32,
    /// Requested bytes.
    pub requested: u32,
    /// Bytes of the size class or object.
    pub allocated: u32,
    /// The kernel's allocation flags.
    pub gfp: u32,
    /// CPU on which it happened.
    pub cpu: u16,
    /// The requested node, or [`ANY_NODE`].
    pub node: i16,
    /// Order of the pages; 0 for objects.
    pub order: u8,
    /// What happened.
    pub kind: EventKind,
    /// Charged to a memory cgroup.
    pub accounted: bool,
}

/// `__GFP_DIRECT_RECLAIM`.
const DIRECT_RECLAIM: u32 = 0x400;

impl Event {
    /// Whether an allocation may wait for memory.
    #[must_use]
    pub fn may_wait(&self) -> bool {
        self.gfp & DIRECT_RECLAIM != 0
    }

    /// What events made by hand have where they say nothing: zeros, and no node.
    pub const BLANK: Event = Event {
        time: 0,
        address: 0,
        name: 0,
        site: 0,
        pid: 0,
        requested: 0,
        allocated: 0,
        gfp: 0,
        cpu: 0,
        node: ANY_NODE,
        order: 0,
        kind: EventKind::CacheAlloc,
        accounted: false,
    };

    /// With names as another list of names has them; the empty name stays.
    #[must_use]
    pub fn renamed(self, mut number: impl FnMut(u32) -> u32) -> Event {
        let mut of = |name| if name == 0 { 0 } else { number(name) };
        Event { name: of(self.name), site: of(self.site), ..self }
    }
}
