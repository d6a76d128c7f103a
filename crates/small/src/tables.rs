//! What a boot requests: the objects of each subsystem.
//!
//! Sizes are those of a 64-bit kernel with few options. The numbers have the proportions of a
//! traced boot of Linux 6.1 on one CPU (`docs/small-machines.md`), scaled up to the slab memory of
//! a machine of 8 MiB with a memory card and a shell. [`crate::boot`] turns these objects into
//! requests.

use crate::caches::ObjectType;

pub(crate) const TASK: ObjectType = ObjectType::Cache(0);
pub(crate) const SIGHAND: ObjectType = ObjectType::Cache(1);
pub(crate) const SIGNAL: ObjectType = ObjectType::Cache(2);
pub(crate) const FILES: ObjectType = ObjectType::Cache(3);
pub(crate) const MM: ObjectType = ObjectType::Cache(4);
pub(crate) const VMA: ObjectType = ObjectType::Cache(5);
pub(crate) const FILP: ObjectType = ObjectType::Cache(6);
pub(crate) const DENTRY: ObjectType = ObjectType::Cache(7);
pub(crate) const INODE: ObjectType = ObjectType::Cache(8);
pub(crate) const PROC_INODE: ObjectType = ObjectType::Cache(9);
const KERNFS: ObjectType = ObjectType::Cache(10);
const RADIX: ObjectType = ObjectType::Cache(11);
const PROC_ENTRY: ObjectType = ObjectType::Cache(12);
pub(crate) const NAMES: ObjectType = ObjectType::Cache(13);
pub(crate) const CRED: ObjectType = ObjectType::Cache(14);
pub(crate) const PID: ObjectType = ObjectType::Cache(15);
const MOUNT: ObjectType = ObjectType::Cache(16);
pub(crate) const SEQ: ObjectType = ObjectType::Cache(17);
pub(crate) const MAPLE: ObjectType = ObjectType::Cache(18);
pub(crate) const BUFFER: ObjectType = ObjectType::Cache(19);
const BIO: ObjectType = ObjectType::Cache(20);

/// Objects of one kind that a subsystem makes.
#[derive(Clone, Copy)]
pub(crate) struct BootObjects {
    pub(crate) what: ObjectType,
    /// Of these, so many stay.
    pub(crate) stay: u16,
    /// And this many are freed soon.
    pub(crate) go: u16,
}

const fn item(what: ObjectType, stay: u16, go: u16) -> BootObjects {
    BootObjects { what, stay, go }
}

const fn bytes(bytes: u32, stay: u16, go: u16) -> BootObjects {
    item(ObjectType::Kmalloc(bytes), stay, go)
}

/// What one part of the kernel requests while it starts.
pub(crate) type Subsystem = &'static [BootObjects];

/// Each level is over before the next begins; within one, the order is the seed's.
pub(crate) static LEVELS: [&[Subsystem]; 3] = [
    // Early: interrupts, timers, the first threads, memory's own.
    &[
        &[bytes(336, 66, 0), bytes(56, 66, 0), bytes(24, 70, 0), item(RADIX, 40, 4)],
        &[bytes(160, 12, 2), bytes(88, 24, 0), bytes(504, 8, 0), bytes(24, 4, 12)],
        &[item(MOUNT, 6, 0), item(DENTRY, 24, 2), item(INODE, 18, 0), bytes(1160, 6, 0)],
        &[bytes(1024, 10, 0), bytes(2048, 6, 0), bytes(64, 40, 4), item(MAPLE, 1, 12)],
    ],
    // Devices and their files.
    &[
        &[item(KERNFS, 420, 50), bytes(7, 80, 20), bytes(12, 40, 40), bytes(4096, 0, 10)],
        &[item(KERNFS, 330, 10), bytes(208, 60, 0), bytes(424, 12, 0), bytes(2592, 0, 70)],
        &[item(PROC_ENTRY, 90, 6), bytes(112, 24, 0), bytes(4096, 1, 7), bytes(40, 30, 0)],
        &[bytes(360, 14, 0), bytes(96, 60, 8), bytes(88, 30, 0), bytes(15, 2, 30)],
        &[bytes(640, 12, 2), bytes(192, 40, 10), bytes(48, 40, 12), bytes(8192, 2, 1)],
        &[bytes(128, 60, 10), bytes(256, 24, 4), bytes(1500, 6, 2), bytes(32, 90, 20)],
    ],
    // Drivers of blocks and files; the card is read.
    &[
        &[item(BUFFER, 40, 30), item(BIO, 8, 60), bytes(512, 30, 30), item(RADIX, 30, 0)],
        &[item(DENTRY, 60, 4), item(INODE, 50, 2), item(NAMES, 0, 50), bytes(1160, 4, 0)],
        &[bytes(4096, 6, 4), bytes(2048, 6, 4), bytes(1024, 8, 8), bytes(16, 60, 20)],
        &[bytes(3000, 3, 6), bytes(700, 10, 8), bytes(8, 100, 30), item(FILP, 0, 20)],
    ],
];

/// Threads of the kernel, and the order of a stack.
pub(crate) const THREADS: u16 = 24;
pub(crate) const STACK_ORDER: u8 = 2;

/// The order of a process's image: 480 KiB, which a page allocator rounds up to 512.
pub(crate) const IMAGE_ORDER: u8 = 7;
/// Commands that the shell runs, and those of them that still run at [`crate::request::Checkpoint::Held`].
pub(crate) const COMMANDS: u16 = 30;
pub(crate) const RUNNING: u16 = 1;
/// Files opened and kept open by them, and pipes.
pub(crate) const OPEN_FILES: u16 = 40;
pub(crate) const PIPES: u16 = 10;
