//! A yard in shared memory with live blocks, whose bytes name their owners, and the checks that a
//! survivor makes after a death.

use slabyard_fixed::{Board, CacheId, CacheSettings, FixedEngine, Robust, Settings, Yard};
use std::ptr::NonNull;

pub const PAGE: usize = 512;
pub const BYTES: usize = 56 << 10;
/// Several CPUs, so that engines share objects between them.
pub type Zone<E> = Yard<Robust<PAGE, 4>, E>;

/// What a block is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOwner {
    Cache(CacheId),
    Malloc,
    Pages,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub at: NonNull<u8>,
    pub bytes: usize,
    pub of: BlockOwner,
}

impl Block {
    fn words(&self) -> *mut u32 {
        self.at.as_ptr().cast()
    }

    /// Writes what is found later, if nobody else writes there.
    pub fn write(&self, salt: u32) {
        for nth in 0..self.bytes / 4 {
            // SAFETY: the block is this owner's, and aligned to 8.
            unsafe { self.words().add(nth).write(self.word(nth, salt)) };
        }
    }

    pub fn is_whole(&self, salt: u32) -> bool {
        // SAFETY: as above.
        (0..self.bytes / 4)
            .all(|nth| unsafe { self.words().add(nth).read() } == self.word(nth, salt))
    }

    fn word(&self, nth: usize, salt: u32) -> u32 {
        (self.at.addr().get() as u32 + nth as u32 * 4).wrapping_mul(0x9e37_79b1) ^ salt
    }
}

/// A generator of numbers (Marsaglia's xorshift, 2003).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

/// What a process does, one call after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Alloc(CacheId, usize),
    Malloc(usize),
    Pages(u32),
    Free(Block),
    Create(usize),
    Destroy(CacheId),
    Shrink,
    Verify,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Block(Option<Block>),
    Cache(Option<CacheId>),
    Said(bool),
}

pub fn call<B: Board, E: FixedEngine>(yard: &Yard<B, E>, call: Call) -> Done {
    let block =
        |at: Option<NonNull<u8>>, bytes, of| Done::Block(at.map(|at| Block { at, bytes, of }));
    match call {
        Call::Alloc(id, bytes) => block(yard.alloc(id), bytes, BlockOwner::Cache(id)),
        Call::Malloc(bytes) => block(yard.malloc(bytes), bytes, BlockOwner::Malloc),
        Call::Pages(order) => block(yard.pages(order), PAGE << order, BlockOwner::Pages),
        // SAFETY: the caller forgets the block.
        Call::Free(block) => Done::Said(unsafe {
            match block.of {
                BlockOwner::Cache(id) => yard.free(id, block.at),
                BlockOwner::Malloc => yard.mfree(block.at),
                BlockOwner::Pages => yard.free_pages(block.at),
            }
        }),
        Call::Create(size) => Done::Cache(yard.create("new", CacheSettings { size, align: 8 })),
        Call::Destroy(id) => Done::Said(yard.destroy(id)),
        Call::Shrink => {
            yard.shrink();
            Done::Said(true)
        }
        Call::Verify => Done::Said(yard.verify().is_ok()),
    }
}

/// New memory that children share.
pub fn map(bytes: usize) -> *mut u8 {
    let (prot, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, of no file.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, prot, flags, -1, 0) };
    assert!(at != libc::MAP_FAILED, "no memory to share");
    at.cast()
}

/// The yard, its memory, and what lives in it.
pub struct Scene<E: FixedEngine> {
    pub yard: &'static Zone<E>,
    memory: *mut u8,
    /// Caches of objects of 24, 48 and 200 bytes.
    pub caches: [(CacheId, usize); 3],
    pub live: Vec<Block>,
}

/// What is written into blocks that were live before a death.
pub const BEFORE: u32 = 1;
const AFTER: u32 = 2;

impl<E: FixedEngine> Scene<E> {
    pub fn new(settings: Settings) -> Self {
        let memory = map(BYTES);
        // SAFETY: new, and never unmapped while the yard is used.
        let yard = unsafe { Zone::<E>::place(memory, BYTES, settings) }.expect("room");
        let caches = [24, 48, 200].map(|size| {
            (yard.create("objects", CacheSettings { size, align: 8 }).expect("room"), size)
        });
        Scene { yard, memory, caches, live: Vec::new() }
    }

    /// Allocates and frees at random, until about this many pages are left.
    pub fn stir(&mut self, seed: u64, left: u32) {
        let mut random = Random(seed);
        for _ in 0..4_000 {
            let is_full = self.yard.verify().expect("sound").free <= left;
            if !self.live.is_empty() && (is_full || random.below(3) == 0) {
                let block = self.live.swap_remove(random.below(self.live.len()));
                assert!(block.is_whole(BEFORE));
                assert_eq!(call(self.yard, Call::Free(block)), Done::Said(true), "{block:?}");
                if is_full && random.below(40) == 0 {
                    break;
                }
                continue;
            }
            let (id, size) = self.caches[random.below(3)];
            let what = match random.below(8) {
                0 => Call::Pages(random.below(3) as u32),
                1 | 2 => Call::Malloc(random.below(300) & !3),
                _ => Call::Alloc(id, size),
            };
            if let Done::Block(Some(block)) = call(self.yard, what) {
                block.write(BEFORE);
                self.live.push(block);
            }
        }
    }

    pub fn memory(&self) -> &[u8] {
        // SAFETY: the mapping; who else writes there stands still meanwhile.
        unsafe { std::slice::from_raw_parts(self.memory, BYTES) }
    }

    /// Puts everything back to what it was.
    pub fn restore(&self, saved: &[u8]) {
        // SAFETY: as above; no reference into it is alive.
        unsafe { self.memory.copy_from(saved.as_ptr(), BYTES) };
    }

    /// The word of the lock that a thread holds, if one does; and says that it died, as the kernel does
    /// when it walks over the robust locks of a thread that ends.
    pub fn owner_dies(&self, thread: i32) {
        const OWNER_DIED: u32 = 0x4000_0000;
        const WAITERS: u32 = 0x8000_0000;
        let words = self.memory.cast::<u32>();
        for nth in 0..size_of::<Zone<E>>() / 4 {
            // SAFETY: in the yard, which nobody uses now.
            unsafe {
                // glibc's mutex has the lock's word in front of its owner, which follows it.
                let word = words.add(nth).read();
                if word & !WAITERS == thread as u32 {
                    return words.add(nth).write(word & WAITERS | OWNER_DIED);
                }
            }
        }
    }

    /// How many objects of a cache can be had until the memory is full. They are written to. New
    /// caches are created and destroyed before.
    pub fn room(&self) -> Result<u32, String> {
        let new = [(); 8].map(|()| call(self.yard, Call::Create(16)));
        for done in new {
            if let Done::Cache(Some(id)) = done
                && call(self.yard, Call::Destroy(id)) != Done::Said(true)
            {
                return Err(format!("{id:?} does not end"));
            }
        }
        self.yard.verify().map_err(str::to_string)?;
        let (id, bytes) = self.caches[1];
        let mut room = 0;
        let mut blocks = Vec::new();
        while let Done::Block(Some(block)) = call(self.yard, Call::Alloc(id, bytes)) {
            block.write(AFTER);
            blocks.push(block);
            room += 1;
        }
        match blocks.iter().find(|block| !block.is_whole(AFTER)) {
            Some(block) => Err(format!("{block:?} was handed out twice")),
            None => Ok(room),
        }
    }

    /// What a survivor checks: equations hold, and live blocks are intact.
    pub fn look(&self, live: &[&Block]) -> Result<(), String> {
        self.yard.verify().map_err(str::to_string)?;
        for block in live {
            if !block.is_whole(BEFORE) {
                return Err(format!("{block:?} was written to"));
            }
            let usable = if block.of == BlockOwner::Malloc {
                self.yard.usable(block.at)
            } else {
                block.bytes
            };
            if usable < block.bytes {
                return Err(format!("{block:?} is no block"));
            }
        }
        Ok(())
    }
}

impl<E: FixedEngine> Drop for Scene<E> {
    fn drop(&mut self) {
        // SAFETY: the scene's own mapping.
        unsafe { libc::munmap(self.memory.cast(), BYTES) };
    }
}
