//! The readable region: how another process, or the reader of a core file, finds and reads a yard.
//! Reading needs no thread, socket or signal of the target.
//!
//! A yard has a page, its *header*, at the start of a private, writable mapping. The header begins
//! with [`MAGIC`] and [`VERSION`]; [`Word`] numbers its 64-bit words, which hold the addresses of
//! everything else; [`Mail`] numbers the words of the mailbox, through which another process asks a
//! yard to shrink or to change a tunable. The constants below and [`CacheWord`] describe the memory
//! at these addresses.
//!
//! The state itself is the yard's own plain memory. While the process runs, the state changes under
//! a reader:
//!
//! * A cache's [`CacheWord::Version`] counts slow paths begun in its low half, and slow paths ended
//!   in its high half. If two reads return the same word and its halves are equal, only the fast
//!   path has moved objects in between, and it changes only the tops of stacks. Then live = out -
//!   parked.
//! * Otherwise each slow path under way may hold the objects of two sheaves, and `live` is a range.
//!
//! Numbers are little-endian on every platform that this version supports.

/// The magic with which a header begins.
pub const MAGIC: [u8; 16] = *b"slabyard yard \n\0";

/// Version of everything in this module. A reader knows the versions it can read
/// and refuses all others.
pub const VERSION: u64 = 7;

/// Words of the header that may be other than 0, mailbox included.
pub const HEADER_WORDS: usize = 256;

macro_rules! words {
    ($(#[$meta:meta])* $name:ident from $first:expr, $all:ident { $($word:ident: $help:expr;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        pub enum $name { $(#[doc = $help] $word,)* }
        #[doc = concat!("Every word of [`", stringify!($name), "`], its name and what it is, in order.")]
        pub static $all: &[($name, &str, &str)] =
            &[$(($name::$word, stringify!($word), $help),)*];
        impl $name {
            /// Number of the word, counted from the start of what contains it.
            #[must_use]
            pub const fn index(self) -> usize {
                $first + self as usize
            }
        }
    };
}

words! {
    /// Words of the header, behind the two of the magic. `...At` is the address of a
    /// 64-bit word that changes, other addresses are where something begins.
    Word from 2, WORDS {
        Version: "version of the layout";
        HeaderBytes: "bytes of the header";
        Mode: "how CPUs are told apart: 1 the C library's rseq, 2 own rseq, 3 private slots";
        PageBytes: "bytes of a page of the machine";
        Rows: "address of row 0";
        NrRows: "rows: one for each possible CPU, or for each private slot";
        Elements: "address of the first sheaf's memory";
        Region: "address of granule 0";
        Granules: "granules reserved";
        TopAt: "granules in use or free, from the region's start";
        Descriptors: "address of descriptor 0";
        Map: "address of the page map's first entry";
        FreeGranulesAt: "granules in the buddy's lists";
        DirtyGranulesAt: "of these, granules not returned to the OS";
        NrRunsAt: "live page runs";
        RunGranulesAt: "granules of live page runs";
        NrMappedAt: "live mappings of their own";
        MappedAt: "bytes of live mappings";
        Caches: "address of the first cache's words";
        NrCaches: "caches of malloc's classes: those with the first numbers";
        CacheStride: "bytes from one cache's words to the next cache's";
        CreatedAt: "address of the words of the first created cache; 0 before there was one";
        NrCreatedAt: "slots of created caches ever used";
        Gate: "address of the gate's first stripe: 32 bits, the number of threads in slow paths";
        NrStripes: "stripes of the gate";
        StripeBytes: "bytes from one stripe to the next";
        FixedMetadata: "bytes of the allocator's own memory that never change: the header";
        MetadataAt0: "bytes committed for descriptors";
        MetadataAt1: "bytes committed for the page map";
        MetadataAt2: "bytes committed for dirty bits";
        MetadataAt3: "bytes committed for small sheaves";
        MetadataAt4: "bytes committed for the first table of mappings";
        MetadataAt5: "bytes committed for the second table of mappings";
        MetadataAt6: "bytes committed for the reclaim ticker's state";
        DecayMsAt: "milliseconds after which free pages are returned";
        NodeLimitAt: "most bytes that all barns hold together";
        SetAsideAt: "objects that were found corrupt and set aside";
        Sheaves: "how many sheaves of each size fit";
        MetadataAt7: "bytes committed for middle sheaves";
        MetadataAt8: "bytes committed for large sheaves";
        Engine: "the engine's number";
        MetadataAt9: "bytes committed for created caches";
        MetadataAt10: "bytes committed for the ticker's state of created caches";
        RowBytesAt: "bytes of each row that are used, by the allocator itself";
        Counts: "address of row 0's counts, from the first cache's on; 0 where nothing is counted";
        CountsRowBytes: "bytes from one row's counts to the next row's";
        CountsCacheBytes: "bytes from one cache's counts to the next cache's";
        ColdRuns: "slot of each CPU's list of cold pages, elsewhere a list of runs; 0 where there is none";
        MetadataAt11: "bytes committed for RCU readers' slots";
        Nodes: "memory nodes that share the region; 0: it belongs to one";
        NodeWords: "bytes from a cache's words to its first node's words";
        NodeStride: "bytes from one node's words to the next node's";
        Pressure: "address of the counts of `pressure`; 0 where there are none";
        NrPressure: "how many there are";
        RefusedAt: "pages that the OS refused, in place of that count";
        ReturnedAt: "bytes returned for these and by trims, in place of that count; 0 where there is none";
        Aliases: "address of the first of `alias`: further names of caches; 0 where equal caches do not merge";
        NrAliases: "how many there is room for";
        Debugging: "bytes from a cache's words to the word of its `debugging`; 0 where no cache can have any";
        Helper: "address of the helper's two 32-bit words (`helper`); 0 where there can be none";
        Outside: "address of the words by which a stopped thread serves requests from outside (`outside`); 0 where none can";
        Profile: "address of the control words of sampled allocations (`profile::control`); 0 where none are";
    }
}

/// The words that say where the bytes of the allocator's own tables are counted: with those of
/// [`Word::FixedMetadata`] and of the rows in use they are all of its memory.
pub const METADATA: [Word; 12] = [
    Word::MetadataAt0,
    Word::MetadataAt1,
    Word::MetadataAt2,
    Word::MetadataAt3,
    Word::MetadataAt4,
    Word::MetadataAt5,
    Word::MetadataAt6,
    Word::MetadataAt7,
    Word::MetadataAt8,
    Word::MetadataAt9,
    Word::MetadataAt10,
    Word::MetadataAt11,
];

words! {
    /// Words of one cache.
    CacheWord from 0, CACHE_WORDS {
        Version: "slow paths begun (low half) and ended (high half)";
        Out: "objects that left their slabs: live, parked or in transit";
        NrSlabs: "slabs";
        NrPartial: "slabs on the node's partial list";
        PartialHead: "first slab of that list, a granule number; 0 if empty";
        BarnObjects: "objects in the barn's full sheaves";
        BarnFull: "full sheaves in the barn";
        BarnEmpty: "empty sheaves in the barn";
        BarnHead: "first full sheaf, as an element number, or 2^32 - 1";
        Slot: "slot of its main sheaf in each row; 0 for an unused cache";
        ObjectSize: "largest request that it serves, in bytes";
        SlabSize: "bytes from one object to the next";
        Order: "a slab is 2^order granules";
        Objects: "objects in a slab";
        SheafCapacity: "objects in a full sheaf: a tunable";
        MinPartial: "empty slabs kept on the partial list: a tunable";
        BarnFullLimit: "most full sheaves in the barn: a tunable";
        BarnEmptyLimit: "most empty sheaves in the barn: a tunable";
        Front: "what CPUs hold for the cache: bits of `front`";
        CpuPartial: "free objects that a CPU partial list may hold: a tunable";
        CpuPartialSlabs: "slabs that it may hold, if it counts slabs";
        Below: "top of the sheaf that holds CPU slabs below sheaves (`front`); 0 without one";
        Generation: "distinguishes the cache from earlier ones in its slot, from 1 on";
        Name0: "bytes 0 to 7 of its name";
        Name1: "bytes 8 to 15";
        Name2: "bytes 16 to 23";
        Name3: "bytes 24 to 31; ends with a 0 where it is shorter";
    }
}

words! {
    /// Words of one cache at one memory node, where there are several: the cache's own are their
    /// sums, and its limit is that of the node that may have most.
    NodeWord from 0, NODE_WORDS {
        NrPartial: "slabs on the node's partial list";
        BarnObjects: "objects in the full sheaves of the node's barn, or in its shared array and those that wait for it";
        BarnFull: "full sheaves in the barn";
        BarnEmpty: "empty sheaves in the barn";
        BarnFullLimit: "most full sheaves in the barn";
    }
}

/// A node's part of the region: stripes of this many granules belong to the nodes in turn, from the
/// region's start.
pub const NODE_STRIPE: u64 = 1 << 12;

/// Words of the mailbox, from the header's begin.
pub const MAIL_AT: usize = 128;

words! {
    /// Words of the mailbox. A requester writes the request, then [`Mail::Asked`]; the
    /// next slow path of any thread does it, writes the answer, and then
    /// [`Mail::Answered`]. A request whose check is wrong is not done.
    Mail from MAIL_AT, MAIL_WORDS {
        Asked: "token of the last request: not 0, new each time";
        What: "the request: a number of `Request`";
        Cache: "the cache's number, or 2^64 - 1 for the whole yard";
        Generation: "the cache's generation, as its requester saw it; 0 for the whole yard";
        Key: "the tunable: a number of `Tunable`";
        Value: "its new value";
        Check: "`check` of the six words before";
        Answered: "token of the last request served or rejected";
        Result: "its result: a number of `Outcome`";
        Old: "the tunable's old value; slabs before a shrink; a validation's findings";
        New: "the tunable's value now; slabs after a shrink; all findings so far of validations";
        Bytes: "bytes returned to the OS";
        Nanoseconds: "time taken";
    }
}

/// Further names of caches that merged with others: records of words.
pub mod alias {
    /// Words of a record: the cache's number (low half) and its generation, and four words of the
    /// name, as a cache's own. The first is written last: of 0, or of a generation that is not the
    /// cache's, there is no name.
    pub const WORDS: usize = 5;
}

/// The word of a cache's debugging, and what is behind each of its objects: 0 without debugging.
pub mod debugging {
    /// The flags (`abi::debug`).
    pub const FLAGS: u64 = 0xff;
    /// Where the first object begins in a slab: 24 bits.
    pub const FIRST: u32 = 8;
    /// Where an object's state is, counted from the object's start; its tracks follow: 32 bits.
    pub const STATE: u32 = 32;
    /// The 8 bits of a state that say what the object is.
    pub const WHAT: u32 = 32;
    /// It is handed out.
    pub const LIVE: u8 = 0x2e;
    /// One word, which the object's tracks follow.
    pub const STATE_BYTES: usize = 8;

    /// Return addresses in a track, the innermost first; 0 behind the last.
    pub const FRAMES: usize = 13;
    /// Behind them: the thread (low half) and its row.
    pub const WHO: usize = FRAMES;
    /// When, by the monotonic clock in nanoseconds; 0: there is no track.
    pub const TIME: usize = FRAMES + 1;
    /// Bytes that were requested, and above [`BYTES_BITS`] the [`check`].
    pub const BYTES: usize = FRAMES + 2;
    /// Bits of the requested bytes.
    pub const BYTES_BITS: u32 = 40;
    /// Bits of the check. The byte above is 0, as it is in the other words, pointers and times: in
    /// the dead objects that hold them, they are not taken for what programs mark theirs with.
    const CHECK_BITS: u32 = 16;
    /// Words of a track: of the last allocation, then of the last free.
    pub const TRACK_WORDS: usize = FRAMES + 3;

    /// What a track's last word has above its bytes, or the track was overwritten: tracks are
    /// behind objects, which a program that writes too far reaches.
    #[must_use]
    pub fn check(words: &[u64; TRACK_WORDS]) -> u64 {
        let mut sum: u64 = 0;
        for (nth, word) in words.iter().enumerate() {
            let word = if nth == BYTES { word & ((1 << BYTES_BITS) - 1) } else { *word };
            sum = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        sum >> (u64::BITS - CHECK_BITS)
    }

    /// True for a track that is as it was written.
    #[must_use]
    pub fn is_whole(words: &[u64; TRACK_WORDS]) -> bool {
        words[BYTES] >> BYTES_BITS == check(words)
    }
}

/// The 32-bit words of the helper, a thread of the library that serves the mailbox while the program
/// makes no calls. Who wakes it from outside writes [`WOKEN`](helper::WOKEN) and then has the
/// thread return from its system call once: it sleeps on a futex of the process.
pub mod helper {
    /// The word that it sleeps on, while it is 0.
    pub const WORD: usize = 0;
    /// Its value while the helper is to look.
    pub const WOKEN: u32 = 1;
    /// Number of the thread, as its own namespace has it; 0: there is none.
    pub const THREAD: usize = 1;
    /// How many words.
    pub const WORDS: usize = 2;
}

/// The 64-bit words for a process that makes an idle thread serve the mailbox: it stops the thread
/// in a system call (ptrace(2)), writes a frame as the kernel leaves one for rt_sigreturn(2) at the
/// end of the memory that these words name, and resumes the thread at the entry, with its stack
/// pointer at the frame's context (x86-64) or at the frame (arm64). The thread serves, leaves the outcome
/// in `rbx` or `x19`, and calls rt_sigreturn: whatever became of who stopped it, it is again where it was.
pub mod outside {
    /// Address of the entry.
    pub const ENTRY: usize = 0;
    /// Address of the memory that the thread has as its stack.
    pub const STACK: usize = 1;
    /// The length of that memory.
    pub const STACK_BYTES: usize = 2;
    /// Number of the thread that has this memory, as its own namespace has it; 0: none has.
    pub const THREAD: usize = 3;
    /// How many words.
    pub const WORDS: usize = 4;
    /// Where a frame of arm64 has `x0`, before the other registers.
    pub const ARM64_REGISTERS: usize = 312;
    /// Outcome: the thread looked, and served what it found.
    pub const LOOKED: u64 = 0;
    /// It did not look: it is in a slow path, or the gate is closed.
    pub const BUSY: u64 = 1;
    /// It did not look: serving may call functions of the program or of the C library, which may wait
    /// for locks that the thread itself has (destructors of caches, reports of debugging).
    pub const FOREIGN: u64 = 2;
}

/// The whole yard, in [`Mail::Cache`].
pub const WHOLE_YARD: u64 = u64::MAX;

macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident { $($item:ident = $n:expr, $help:expr;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u64)]
        pub enum $name { $(#[doc = $help] $item = $n,)* }
        impl $name {
            /// The item of a number.
            #[must_use]
            pub const fn of(number: u64) -> Option<Self> {
                match number { $($n => Some($name::$item),)* _ => None }
            }
        }
    };
}

numbered! {
    /// The requests that a yard serves.
    Request {
        Shrink = 1, "parked objects return to their slabs, empty slabs end, free pages go back";
        Set = 2, "a tunable takes a new value";
        ShrinkEmpty = 3, "empty slabs leave CPU partial lists and end, free pages go back";
        Validate = 4, "caches with debugging look through all of their objects";
    }
}

/// In place of an [`Outcome`]: the request was forgotten, because the process is the child of a fork
/// and took it for its parent's. Who asks asks again.
pub const FORGOTTEN: u64 = 0;

numbered! {
    /// The outcome of a request.
    Outcome {
        Done = 1, "done";
        Asked = 2, "done for what the thread that served it can reach; other threads were asked";
        OutOfRange = 3, "the value is outside of the tunable's bounds";
        Unknown = 4, "no such request, cache or tunable";
        Own = 5, "done for the thread that served it alone: it cannot reach the others' lists";
    }
}

/// The tunables, whose numbers [`Mail::Key`] has.
pub use slabyard_kernels::settings::{SHEAF_OBJECTS, TUNABLES, TunableRow};

/// The number that [`Mail::Check`] must hold, from the six words before it.
#[must_use]
pub const fn check(request: [u64; 6]) -> u64 {
    // FNV-1a over words (Fowler, Noll, Vo): against requests torn by another
    // requester, not against malice.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut i = 0;
    while i < request.len() {
        hash = (hash ^ request[i]).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

/// A granule: the unit in which pages are counted.
pub const GRANULE: usize = 4096;

/// Rows: one a CPU, of entries.
pub mod row {
    /// From one row to the next. What `RowBytesAt` says of it is in use.
    pub const STRIDE: usize = 1 << 16;
    /// Entries in a row.
    pub const SLOTS: usize = STRIDE / ENTRY_BYTES;
    /// Bytes of an entry: `top` (32 bits), then `end` (32 bits).
    pub const ENTRY_BYTES: usize = 8;
    /// Offset of `end` in an entry. Writing 0 there sends the next free to its
    /// slow path.
    pub const END: usize = 4;
    /// `top` of a stopped entry; 0 is one without a stack.
    pub const STOPPED: u32 = u32::MAX;
    /// Offset of the row's countdown (32 bits), in place of slot 1's entry. Slot 0's entry is
    /// zeros for ever.
    pub const COUNTDOWN: usize = 8;
    /// Slot of the list of free runs of one granule; runs of 2, 4 ... granules
    /// follow.
    pub const FIRST_RUNS: usize = 2;
    /// Lists of free runs.
    pub const RUN_ORDERS: usize = slabyard_kernels::page_lists::LISTED_ORDERS as usize;
    /// Slot of the first bank: freed runs of 9 to 12 granules, which count among the live ones.
    pub const FIRST_BANK: usize = FIRST_RUNS + RUN_ORDERS;
    /// Banks: two for each doubling of the size, up to 128 granules.
    pub const BANKS: usize = 8;
    /// Most runs in a bank.
    pub const MOST_BANKED: usize = 17;
    /// Slot of the first cache's main sheaves; the next cache's follows behind its spare slot.
    pub const FIRST_CACHE: usize = FIRST_BANK + BANKS;
    /// From a cache's main slot to its spare slot.
    pub const SPARE: usize = 1;
    /// From a cache's main slot to the next cache's.
    pub const PAIR: usize = 2;
    /// Caches that rows have slots for.
    pub const CACHES: usize = (SLOTS - FIRST_CACHE) / PAIR;
}

/// Sheaves: arrays of elements behind the rows. A top is the number of an element: bytes
/// from row 0, divided by 8. The guard's element is that of an empty sheaf.
pub mod sheaf {
    /// Bytes of a sheaf of each size. Those of one size follow each other; behind as many
    /// as there is room for, the word `Sheaves`, those of the next size begin.
    pub const BYTES: [usize; 3] = [576, 2112, 8256];
    /// Offset of the number of the next sheaf in a barn's list (32 bits).
    pub const NEXT: usize = 0;
    /// Offset of the number of objects of a sheaf in a list (32 bits).
    pub const COUNT: usize = 4;
    /// Offset of the guard.
    pub const GUARD: usize = 8;
    /// Offset of the first object's element.
    pub const OBJECTS: usize = 16;
    /// No sheaf.
    pub const NONE: u32 = u32::MAX;
}

/// Bits of [`CacheWord::Front`]: of 0, CPUs have sheaves.
///
/// With CPU slabs, the main stack is the CPU slab's free objects that the CPU alone may take, and
/// the spare stack is the CPU partial list: an element's low half is a slab's granule. What the
/// high half is depends on what lists count: with [`EXACT`](front::EXACT) the version that the
/// slab got as it joined, and it is on the list as long as its word has that version and the bit
/// [`PARKED`](descriptor::word::PARKED); else the free objects that it had as it joined.
pub mod front {
    /// CPU slabs; the bits below say of which kind.
    pub const CPU_SLABS: u64 = 1;
    /// There are CPU partial lists.
    pub const LISTS: u64 = 2;
    /// They count slabs.
    pub const SLABS: u64 = 4;
    /// They count free objects exactly.
    pub const EXACT: u64 = 8;
    /// Slabs on them are frozen.
    pub const FREEZES_PARKED: u64 = 16;
    /// A slab that is to be used is frozen under the list lock.
    pub const FREEZES_USED_UNDER_LOCK: u64 = 32;
    /// CPU slabs thaw under the list lock.
    pub const THAWS_UNDER_LOCK: u64 = 64;
    /// The CPU slabs are below sheaves, which are the main and the spare stack: without
    /// [`CPU_SLABS`]. They are in the sheaf that [`CacheWord::Below`](super::CacheWord::Below)
    /// names, in banks of [`BANK`] elements: the top of a CPU slab's free objects, whose slab is
    /// the sheaf's word at [`NEXT`](super::sheaf::NEXT), and the top of a CPU partial list.
    pub const BELOW_SHEAVES: u64 = 256;
    /// Elements of a bank.
    pub const BANK: usize = 4;
    /// Slabs are lost where there are no CPU partial lists: a planted bug.
    pub const LOSES_SLABS: u64 = 128;
    /// Array caches, and none of the above: the main stack is the CPU's array, whose limit is
    /// [`SheafCapacity`](super::CacheWord::SheafCapacity). The shared array's objects are
    /// `BarnObjects`, its sheaf `BarnHead`; `CpuPartial` is the batchcount and `CpuPartialSlabs`
    /// the sharedfactor.
    pub const ARRAYS: u64 = 512;
    /// The cache has words for each memory node ([`NodeWord`](super::NodeWord)). A cache of another
    /// engine than its yard's may have none.
    pub const NODES: u64 = 1024;
}

/// Descriptors: the state of each granule, 64 bytes each.
pub mod descriptor {
    /// One cache line for each granule.
    pub const BYTES: usize = 64;
    /// Offset of kind (8 bits), order (8 bits), slot (16 bits).
    pub const HEAD: usize = 0;
    /// Offset of the granules of a run, live or freed (32 bits).
    pub const GRANULES: usize = 4;
    /// Offset of the next descriptor in a list (32 bits).
    pub const NEXT: usize = 8;
    /// Offset of the slab word: free objects and flags (low half), version of the slab.
    pub const WORD: usize = 16;
    /// The low half of the slab word.
    pub mod word {
        /// The free objects.
        pub const FREE: u64 = 0xffff;
        /// A CPU partial list that counts exactly has the slab.
        pub const PARKED: u64 = 1 << 30;
        /// A CPU has the slab.
        pub const FROZEN: u64 = 1 << 31;
    }
    /// Offset of a slab's mark: 1 if it is on its partial list (32 bits).
    pub const LISTED: usize = 24;
    /// Offset of this granule's part of the free set: 256 bits. Further ones are a slab's first
    /// words.
    pub const BITS: usize = 32;
    /// Kinds: what begins at a granule.
    pub const FREE: u8 = 1;
    /// A free run in a CPU's list.
    pub const PARKED: u8 = 2;
    /// In place of a slot in the head of a parked run that a bank has: `GRANULES` says its size.
    pub const BANKED: u16 = 1;
    /// A live run.
    pub const RUN: u8 = 3;
    /// The first granule of a live slab; the slot is its cache's number.
    pub const SLAB: u8 = 4;
    /// A free block whose pages are being returned to the kernel.
    pub const PURGING: u8 = 5;
    /// A freed run that is not coalesced yet.
    pub const FREED: u8 = 6;
    /// A slab that ended and waits for readers.
    pub const HELD: u8 = 7;
}

/// The tables of live blocks in mappings of their own, whose bytes [`Word::MetadataAt4`] and
/// [`Word::MetadataAt5`] count. An entry is two words: the block's address, which is 0 or 1 where
/// there is none, and its bytes.
pub mod mapping_table {
    /// Bytes from the word with a table's address to the word that counts the table's bytes.
    pub const BEFORE: u64 = 8;
    /// No table is larger: the first one's, and the second one's.
    pub const MOST_BYTES: [usize; 2] = [128 << 10, 4 << 20];
}

const _: () = {
    assert!(Word::Profile.index() < MAIL_AT);
    assert!(Mail::Nanoseconds.index() < HEADER_WORDS);
};
