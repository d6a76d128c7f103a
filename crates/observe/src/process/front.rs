//! Decodes a yard's header: the addresses of all other parts, which are validated before anything
//! is read through them.
//!
//! Neighbours: `slabyard_abi::region` defines the layout; [`super::find`] finds headers.
//! Invariants: a header is untrusted until [`Front::decode`] has checked its bounds; no number in a
//! [`Front`] causes a read of more than tens of megabytes.

use super::memory::{self, Fault, Memory, MemoryPart};
use slabyard_abi::region::{
    CACHE_WORDS, GRANULE, HEADER_WORDS, MAGIC, NODE_STRIPE, NODE_WORDS, VERSION, Word, row, sheaf,
};

/// Most rows: CPUs that a kernel can have.
const MOST_ROWS: u64 = 8192;
/// Most caches: a row has slots for this many.
const MOST_CACHES: u64 = row::CACHES as u64;
const MOST_STRIDE: u64 = 4096;
/// What each yard uses of a row, at least.
const LEAST_ROW_BYTES: usize = 4096;
const MOST_STRIPES: u64 = 1024;
/// Descriptors are numbered by 32 bits.
const MOST_GRANULES: u64 = 1 << 32;

/// A front's words, within bounds.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    /// Address of the front.
    pub(crate) at: u64,
    pub(crate) mode: u64,
    pub(crate) engine: u64,
    pub(crate) page_bytes: u64,
    pub(crate) rows: u64,
    pub(crate) nr_rows: usize,
    pub(crate) elements: u64,
    /// Sheaves of each size that there is room for.
    pub(crate) sheaves: u64,
    pub(crate) region: u64,
    pub(crate) granules: u64,
    pub(crate) descriptors: u64,
    pub(crate) caches: u64,
    pub(crate) nr_caches: usize,
    pub(crate) cache_stride: usize,
    pub(crate) gate: u64,
    pub(crate) nr_stripes: usize,
    pub(crate) stripe_bytes: usize,
    pub(crate) fixed_metadata: u64,
    /// Of several memory nodes.
    pub(crate) nodes: Option<NodeTable>,
    words: Vec<u64>,
}

/// Where the words of a cache's memory nodes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeTable {
    /// How many nodes there are.
    pub(crate) nodes: usize,
    /// From the cache's words to its first node's.
    pub(crate) offset: usize,
    /// From one node's words to the next one's.
    pub(crate) stride: usize,
}

impl NodeTable {
    /// Nodes that a reader knows.
    pub(crate) const MOST: usize = 4;

    /// Bytes from a cache's words to the end of its last node's.
    fn end(self) -> usize {
        self.offset + (self.nodes - 1) * self.stride + NODE_WORDS.len() * 8
    }

    /// The node of a granule.
    pub(crate) fn node_of(self, granule: u64) -> u32 {
        (granule / NODE_STRIPE % self.nodes as u64) as u32
    }
}

/// Where the words of caches are: of malloc's classes, and of created ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) classes: MemoryPart,
    pub(crate) created: MemoryPart,
}

impl Tables {
    /// Bytes of the words of all caches.
    pub(crate) fn bytes(&self) -> usize {
        self.classes.bytes + self.created.bytes
    }

    /// Address of an offset in both together.
    pub(crate) fn address(&self, offset: usize) -> u64 {
        match offset.checked_sub(self.classes.bytes) {
            None => self.classes.address + offset as u64,
            Some(behind) => self.created.address + behind as u64,
        }
    }
}

/// Why a front cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// Of another layout.
    Version(u64),
    /// A word that cannot be.
    Word(&'static str, u64),
}

impl Front {
    /// The part that holds a front's words.
    pub(crate) fn part(at: u64) -> MemoryPart {
        MemoryPart { address: at, bytes: HEADER_WORDS * 8 }
    }

    /// True if a front begins here.
    pub(crate) fn begins(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// A front from its words, the magic's included.
    pub(crate) fn decode(at: u64, words: Vec<u64>) -> Result<Front, Unusable> {
        let get = |word: Word| words.get(word.index()).copied().unwrap_or(0);
        let version = get(Word::Version);
        if version != VERSION {
            return Err(Unusable::Version(version));
        }
        let within = |word: Word, least: u64, most: u64| {
            let number = get(word);
            let name = slabyard_abi::region::WORDS[word as usize].1;
            let fits = (least..=most).contains(&number);
            fits.then_some(number).ok_or(Unusable::Word(name, number))
        };
        // An address from which so many bytes can be counted.
        let place = |word: Word, bytes: u64| within(word, 1, (u64::MAX >> 1) - bytes);
        let small = |word, least, most| within(word, least, most).map(|n| n as usize);
        let page_bytes = within(Word::PageBytes, GRANULE as u64, 1 << 20)?;
        if !page_bytes.is_power_of_two() {
            return Err(Unusable::Word("PageBytes", page_bytes));
        }
        let granules = within(Word::Granules, 1, MOST_GRANULES)?;
        let cache_stride = small(Word::CacheStride, CACHE_WORDS.len() as u64 * 8, MOST_STRIDE)?;
        let rows = place(Word::Rows, MOST_ROWS * row::STRIDE as u64)?;
        let nodes = small(Word::Nodes, 0, NodeTable::MOST as u64)?;
        let nodes = match nodes {
            0 | 1 => None,
            nodes => {
                let offset = small(Word::NodeWords, 0, cache_stride as u64)?;
                let stride = small(Word::NodeStride, 0, cache_stride as u64)?;
                let table = NodeTable { nodes, offset, stride };
                let fits = table.end() <= cache_stride && offset.is_multiple_of(8);
                Some(table).filter(|_| fits && stride.is_multiple_of(8))
            }
        };
        let front = Front {
            at,
            mode: get(Word::Mode),
            engine: get(Word::Engine),
            page_bytes,
            rows,
            nr_rows: small(Word::NrRows, 1, MOST_ROWS)?,
            elements: within(Word::Elements, rows, u64::MAX >> 1)?,
            sheaves: within(Word::Sheaves, 1, MOST_SHEAVES)?,
            region: place(Word::Region, granules * GRANULE as u64)?,
            granules,
            descriptors: place(Word::Descriptors, granules * 64)?,
            caches: place(Word::Caches, MOST_CACHES * MOST_STRIDE)?,
            nr_caches: small(Word::NrCaches, 0, MOST_CACHES)?,
            cache_stride,
            gate: place(Word::Gate, MOST_STRIPES * MOST_STRIDE)?,
            nr_stripes: small(Word::NrStripes, 0, MOST_STRIPES)?,
            stripe_bytes: small(Word::StripeBytes, 4, MOST_STRIDE)?,
            fixed_metadata: get(Word::FixedMetadata),
            nodes,
            words,
        };
        Ok(front)
    }

    /// Bytes of a cache's words, its nodes' included.
    pub(crate) fn words_bytes(&self) -> usize {
        (CACHE_WORDS.len() * 8).max(self.nodes.map_or(0, NodeTable::end))
    }

    /// The memory node of a granule.
    pub(crate) fn node_of(&self, granule: u64) -> u32 {
        self.nodes.map_or(0, |nodes| nodes.node_of(granule))
    }

    /// A word that does not change; 0 where the yard does not tell it.
    pub(crate) fn word(&self, word: Word) -> u64 {
        self.words.get(word.index()).copied().unwrap_or(0)
    }

    /// Address of a word that changes; `None` where the yard does not tell it.
    pub(crate) fn address(&self, word: Word) -> Option<u64> {
        let address = self.word(word);
        (address != 0 && address < u64::MAX >> 1).then_some(address)
    }

    /// A granule is smaller than a page of the machine by this many orders.
    pub(crate) fn page_order(&self) -> u32 {
        (self.page_bytes / GRANULE as u64).ilog2()
    }

    /// Granules before the first that is ever used.
    pub(crate) fn unit(&self) -> u64 {
        self.page_bytes / GRANULE as u64
    }

    /// Bytes of each row that are in use now.
    pub(crate) fn row_bytes(&self, memory: &dyn Memory) -> Result<usize, Fault> {
        let Some(address) = self.address(Word::RowBytesAt) else {
            return Ok(LEAST_ROW_BYTES);
        };
        let bytes = memory::read(memory, &[MemoryPart { address, bytes: 8 }])?;
        let bytes = memory::words(&bytes).next().unwrap_or(0);
        Ok((bytes as usize / 8 * 8).clamp(LEAST_ROW_BYTES, row::STRIDE))
    }

    /// The words of all caches: of malloc's classes, and of all caches created so far, whose
    /// numbers follow.
    pub(crate) fn caches(&self, memory: &dyn Memory) -> Result<Tables, Fault> {
        let classes =
            MemoryPart { address: self.caches, bytes: self.nr_caches * self.cache_stride };
        let none = Tables { classes, created: MemoryPart { address: self.caches, bytes: 0 } };
        let words = [Word::CreatedAt, Word::NrCreatedAt].map(|word| self.address(word));
        let [Some(address), Some(count)] = words else { return Ok(none) };
        let bytes =
            memory::read(memory, &[address, count].map(|at| MemoryPart { address: at, bytes: 8 }))?;
        let mut numbers = memory::words(&bytes);
        let (address, count) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if address == 0 {
            return Ok(none);
        }
        if address > u64::MAX >> 1 {
            return Err(Fault::Absent(address));
        }
        let count = count.min(MOST_CACHES - self.nr_caches as u64) as usize;
        Ok(Tables { created: MemoryPart { address, bytes: count * self.cache_stride }, ..none })
    }

    /// So many bytes of each of the first rows, one part each.
    pub(crate) fn rows(&self, first: usize, bytes: usize) -> impl Iterator<Item = MemoryPart> + '_ {
        let part = move |row| MemoryPart { address: self.entry(row, 0), bytes };
        (0..first.min(self.nr_rows)).map(part)
    }

    /// Address of an entry.
    pub(crate) fn entry(&self, row_number: usize, slot: usize) -> u64 {
        self.rows + (row_number * row::STRIDE + slot * row::ENTRY_BYTES) as u64
    }

    /// What an entry's top says.
    pub(crate) fn top(&self, top: u32) -> Top {
        if top == 0 {
            return Top::None;
        }
        if top == row::STOPPED {
            return Top::Stopped;
        }
        let Some(bytes) = (self.rows + u64::from(top) * 8).checked_sub(self.elements) else {
            return Top::Odd;
        };
        let (mut bytes, mut begin) = (bytes, self.elements);
        for one in sheaf::BYTES.map(|one| one as u64) {
            if bytes >= self.sheaves * one {
                bytes -= self.sheaves * one;
                begin += self.sheaves * one;
                continue;
            }
            let within = bytes % one;
            let count = (within / 8).checked_sub(sheaf::GUARD as u64 / 8);
            let most = (one - sheaf::OBJECTS as u64) / 8;
            return match count {
                Some(objects) if within.is_multiple_of(8) && objects <= most => {
                    Top::Stack { begin: begin + bytes - within, objects }
                }
                _ => Top::Odd,
            };
        }
        Top::Odd
    }
}

/// More sheaves than any yard has room for: their elements have numbers of 32 bits.
const MOST_SHEAVES: u64 = 1 << 22;

/// What an entry's top says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Top {
    /// There is no stack.
    None,
    /// There is a stack, in a sheaf.
    Stack {
        /// Address of its sheaf.
        begin: u64,
        /// How many objects are on it.
        objects: u64,
    },
    /// Stopped: how many it holds is unknown.
    Stopped,
    /// No index of a sheaf.
    Odd,
}
