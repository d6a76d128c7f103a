//! What the programs of `bpf/owners.bpf.c` and this reader exchange: the same structures, field by
//! field, without padding.

use aya::Pod;

/// What the reader changes while the programs run.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Control {
    /// One allocation in 2^bits is followed.
    pub bits: u32,
    pub unused: u32,
}

/// A cache, with allocations and frees estimated from the sample.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Cache {
    pub name: [u8; 32],
    pub object_size: u32,
    pub size: u32,
    pub allocations: u64,
    pub frees: u64,
}

/// Who allocated, where, and in which cache.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    /// The address of a `struct kmem_cache`; of a kmalloc its bytes, and from bit 32 its flags.
    pub cache: u64,
    pub site: u64,
    pub cgroup: u64,
    pub tgid: u32,
    /// Below zero if the stack was not kept.
    pub stack: i32,
}

/// Estimated from the sample.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub allocations: u64,
    pub bytes: u64,
    pub frees: u64,
    pub freed_bytes: u64,
    pub comm: [u8; 16],
}

/// A followed object that lives.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Object {
    pub origin: Origin,
    /// Of the clock `CLOCK_MONOTONIC`.
    pub born_ns: u64,
    pub bytes: u32,
    /// It stands for 2^bits objects.
    pub bits: u32,
}

/// How many followed objects have a hash.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Filter {
    objects: [u32; 1 << 18],
}

impl Filter {
    /// Of none: too large for a stack.
    pub(super) fn empty() -> Box<Filter> {
        // SAFETY: zeros are a filter.
        unsafe { Box::<Filter>::new_zeroed().assume_init() }
    }
}

/// What a CPU could not count.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Lost {
    pub followed: u64,
    pub live_full: u64,
    pub origins_full: u64,
    pub stacks_lost: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CgroupName {
    pub name: [u8; 64],
}

/// Names of a directory entry and its parents that are copied.
pub(super) const DEEPEST: usize = 12;

/// What an object says of itself.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Looked {
    /// 0: the name does not exist.
    pub inode: u64,
    pub parent: u64,
    /// As the kernel has it: the major number from bit 20.
    pub device: u32,
    /// How many of `names` there are.
    pub depth: u32,
    /// Nonzero if the last of them is in the root directory.
    pub is_root: u32,
    pub unused: u32,
    pub id: [u8; 32],
    pub file_system: [u8; 16],
    pub names: [[u8; 48]; DEEPEST],
}

// SAFETY: each is `repr(C)` of integers and arrays of them, has no padding, and takes any bits.
unsafe impl Pod for Control {}
// SAFETY: as above.
unsafe impl Pod for Filter {}
// SAFETY: as above.
unsafe impl Pod for Cache {}
// SAFETY: as above.
unsafe impl Pod for Origin {}
// SAFETY: as above.
unsafe impl Pod for Counts {}
// SAFETY: as above.
unsafe impl Pod for Object {}
// SAFETY: as above.
unsafe impl Pod for Lost {}
// SAFETY: as above.
unsafe impl Pod for CgroupName {}
// SAFETY: as above.
unsafe impl Pod for Looked {}

/// The text up to the first zero.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
