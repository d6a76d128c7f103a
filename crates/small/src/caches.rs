//! The caches of a load: those of a 64-bit kernel with few options. [`crate::tables`] says how many
//! objects each has.

/// Which allocator function a request represents: `kmalloc`, or that of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectType {
    /// `kmalloc` of this many bytes.
    Kmalloc(u32),
    /// An object of the cache of this number in [`CACHES`].
    Cache(u8),
}

impl ObjectType {
    /// Requested bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            ObjectType::Kmalloc(bytes) => bytes,
            ObjectType::Cache(number) => CACHES[number as usize].bytes,
        }
    }
}

/// What becomes of a cache's objects when memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// They stay.
    Plain,
    /// A shrinker frees those that nobody uses (`SLAB_RECLAIM_ACCOUNT`).
    Reclaimable,
    /// Their slabs go back after a grace period (`SLAB_TYPESAFE_BY_RCU`), and are no other cache's.
    Typesafe,
}

/// A row of [`CACHES`]: the arguments of the kernel's `kmem_cache_create`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// As `/proc/slabinfo` has it.
    pub name: &'static str,
    /// Bytes of an object.
    pub bytes: u32,
    /// Objects begin at multiples of it.
    pub align: u32,
    /// What its objects are like.
    pub kind: CacheKind,
}

const fn cache(name: &'static str, bytes: u32, align: u32, kind: CacheKind) -> Cache {
    Cache { name, bytes, align, kind }
}

/// The caches, by number.
pub static CACHES: [Cache; 21] = [
    cache("task_struct", 2624, 64, CacheKind::Plain),
    cache("sighand_cache", 2072, 64, CacheKind::Typesafe),
    cache("signal_cache", 928, 64, CacheKind::Plain),
    cache("files_cache", 632, 64, CacheKind::Plain),
    cache("mm_struct", 864, 64, CacheKind::Plain),
    cache("vm_area_struct", 128, 8, CacheKind::Plain),
    cache("filp", 200, 64, CacheKind::Plain),
    cache("dentry", 192, 8, CacheKind::Reclaimable),
    cache("inode_cache", 544, 8, CacheKind::Reclaimable),
    cache("proc_inode_cache", 616, 8, CacheKind::Reclaimable),
    cache("kernfs_node_cache", 128, 8, CacheKind::Plain),
    cache("radix_tree_node", 192, 8, CacheKind::Plain),
    cache("proc_dir_entry", 192, 8, CacheKind::Plain),
    cache("names_cache", 4096, 64, CacheKind::Plain),
    cache("cred_jar", 136, 64, CacheKind::Plain),
    cache("pid", 96, 64, CacheKind::Plain),
    cache("mnt_cache", 312, 64, CacheKind::Plain),
    cache("seq_file", 112, 8, CacheKind::Plain),
    cache("maple_node", 256, 256, CacheKind::Plain),
    cache("buffer_head", 104, 8, CacheKind::Reclaimable),
    cache("bio", 152, 64, CacheKind::Plain),
];
