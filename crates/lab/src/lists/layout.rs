//! The offsets of fields in the kernel's structures, taken only from the kernel's own description
//! (BTF).
//!
//! [`super::walk`] reads structures at these offsets. A field that the kernel lacks causes an error
//! that names it ([`ListsError::NoField`]), or is `None` if only some kernels have it.

use super::error::ListsError;
use btfparse::{Error, ErrorKind, Offset, Readable, TypeInformation, TypeVariant};
use std::fs;

/// Where the kernel describes itself.
const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// Some bits of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Of the structure.
    pub first: u32,
    /// How many.
    pub bits: u32,
}

impl Bits {
    /// Takes them out of the structure's bytes.
    #[must_use]
    pub fn get(self, bytes: &[u8]) -> u64 {
        let at = (self.first / 8) as usize;
        let mut word = [0; 8];
        let piece = &bytes[at..bytes.len().min(at + 8)];
        word[..piece.len()].copy_from_slice(piece);
        let word = u64::from_le_bytes(word) >> (self.first % 8);
        if self.bits >= 64 { word } else { word & ((1 << self.bits) - 1) }
    }
}

/// Offsets in bytes, but for bit fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Of `struct kmem_cache`, all of it that is read.
    pub cache: CacheLayout,
    /// Of `struct slab`.
    pub slab: SlabLayout,
    /// Of `struct kmem_cache_node`.
    pub node: NodeLayout,
    /// Of `struct kmem_cache_cpu`; `None` since 7.0.
    pub cpu: Option<CpuLayout>,
    /// Of sheaves and barns; since 6.18.
    pub sheaves: Option<SheafLayout>,
    /// Bytes of a `struct page`, which describes a page frame.
    pub page_struct: u32,
    /// `pptrs` of `struct bpf_array`: how CPUs' memory is found by BPF.
    pub array_pptrs: Option<u32>,
    /// The BTF id of the function that iterates over caches; since 6.13.
    pub iterator: Option<u32>,
}

/// Of `struct kmem_cache`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheLayout {
    /// Its bytes up to the nodes' addresses.
    pub bytes: u32,
    /// The name's address.
    pub name: u32,
    /// Bytes from one object to the next.
    pub size: u32,
    /// Where in a free object the address of the next one is.
    pub offset: u32,
    /// The order and number of objects of a slab.
    pub oo: u32,
    /// The same where memory is short.
    pub min: u32,
    /// What addresses of free objects are mixed with, if they are.
    pub random: Option<u32>,
    /// The variable of each CPU.
    pub cpu_slab: Option<u32>,
    /// The address of the first node.
    pub node: u32,
    /// Bytes from one node's address to the next: since 7.1 the barns' addresses are in between.
    pub node_stride: u32,
    /// The links by which `slab_caches` has the cache.
    pub list: u32,
}

/// Of `struct slab`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabLayout {
    /// Of a whole one, which is as large as a `struct page`.
    pub bytes: u32,
    /// The address of the `struct kmem_cache`.
    pub cache: u32,
    /// Its links in a node's list.
    pub list: u32,
    /// The next on a CPU's list.
    pub next: Option<u32>,
    /// The first free object.
    pub freelist: u32,
    /// Objects in use.
    pub inuse: Bits,
    /// How many the slab has room for.
    pub objects: Bits,
}

/// Of `struct kmem_cache_node`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLayout {
    /// The list of partial slabs.
    pub partial: u32,
    /// Its length.
    pub nr_partial: u32,
}

/// Of `struct kmem_cache_cpu`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuLayout {
    /// The CPU's own free objects.
    pub freelist: u32,
    /// The address of the slab that the CPU allocates from; 0 without one.
    pub slab: u32,
    /// Its list.
    pub partial: Option<u32>,
}

/// Of `struct slub_percpu_sheaves`, `struct slab_sheaf` and `struct node_barn`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SheafLayout {
    /// Of a cache: the variable of each CPU.
    pub variable: u32,
    /// Of a cache: objects in a full sheaf; 0 in one without sheaves.
    pub capacity: u32,
    /// Where the address of a node's barn is.
    pub barn: BarnPlace,
    /// Of a CPU: the addresses of the sheaf that it allocates from, of the other one, and of that for
    /// objects that wait for RCU's readers.
    pub of_cpu: [u32; 3],
    /// Of a sheaf: the links by which a barn has it.
    pub list: u32,
    /// Of a sheaf: the address of its cache.
    pub cache: u32,
    /// Of a sheaf: how many objects it has.
    pub size: u32,
    /// Of a sheaf: their addresses, the next to be allocated last.
    pub objects: u32,
    /// Of a barn: the list of full sheaves.
    pub full: u32,
    /// Of a barn: its length.
    pub nr_full: u32,
    /// Of a barn: how many empty sheaves it has.
    pub nr_empty: u32,
}

/// Where the address of a node's barn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarnPlace {
    /// In the `struct kmem_cache_node`, up to 7.0.
    OfNode(u32),
    /// In the `struct kmem_cache`, that of the first node; the others are as far apart as the nodes'.
    OfCache(u32),
}

impl Layout {
    /// The running kernel's.
    ///
    /// # Errors
    /// It does not describe itself, or lacks a field.
    pub fn of_kernel() -> Result<Layout, ListsError> {
        let error = |error: String| ListsError::NoTypes { path: VMLINUX, error };
        let bytes = fs::read(VMLINUX).map_err(|e| error(e.to_string()))?;
        let types = TypeInformation::new(&Bytes(bytes)).map_err(|e| error(e.message().into()))?;
        Layout::of(&types)
    }

    /// Of what a kernel says.
    ///
    /// # Errors
    /// It lacks a field.
    pub fn of(types: &TypeInformation) -> Result<Layout, ListsError> {
        let field = |of: &str, path: &str| offset(types, of, path);
        let byte = |name: &'static str| {
            let (of, path) = name.split_once('.').unwrap_or((name, ""));
            field(of, path).map(|bits| bits.first / 8).ok_or(ListsError::NoField(name))
        };
        let bits = |name: &'static str| {
            let (of, path) = name.split_once('.').unwrap_or((name, ""));
            field(of, path).ok_or(ListsError::NoField(name))
        };
        let size = |name: &'static str| size_of(types, name).ok_or(ListsError::NoField(name));
        let node = byte("kmem_cache.per_node[0].node").or_else(|_| byte("kmem_cache.node"))?;
        // A kernel for a single node has but one.
        let second = byte("kmem_cache.per_node[1].node").or_else(|_| byte("kmem_cache.node[1]"));
        let barn = byte("kmem_cache.per_node[0].barn").map(BarnPlace::OfCache);
        let cpu_slab = byte("kmem_cache.cpu_slab").ok();
        let cpu = match cpu_slab {
            None => None,
            Some(_) => Some(CpuLayout {
                freelist: byte("kmem_cache_cpu.freelist")?,
                slab: byte("kmem_cache_cpu.slab")?,
                partial: byte("kmem_cache_cpu.partial").ok(),
            }),
        };
        let sheaves = match byte("kmem_cache.cpu_sheaves") {
            Err(_) => None,
            Ok(variable) => Some(SheafLayout {
                variable,
                capacity: byte("kmem_cache.sheaf_capacity")?,
                barn: barn.or_else(|_| byte("kmem_cache_node.barn").map(BarnPlace::OfNode))?,
                of_cpu: [
                    byte("slub_percpu_sheaves.main")?,
                    byte("slub_percpu_sheaves.spare")?,
                    byte("slub_percpu_sheaves.rcu_free")?,
                ],
                list: byte("slab_sheaf.barn_list")?,
                cache: byte("slab_sheaf.cache")?,
                size: byte("slab_sheaf.size")?,
                objects: byte("slab_sheaf.objects")?,
                full: byte("node_barn.sheaves_full")?,
                nr_full: byte("node_barn.nr_full")?,
                nr_empty: byte("node_barn.nr_empty")?,
            }),
        };
        Ok(Layout {
            cache: CacheLayout {
                bytes: node,
                name: byte("kmem_cache.name")?,
                size: byte("kmem_cache.size")?,
                offset: byte("kmem_cache.offset")?,
                oo: byte("kmem_cache.oo")?,
                min: byte("kmem_cache.min")?,
                random: byte("kmem_cache.random").ok(),
                cpu_slab,
                node,
                node_stride: second.map_or(8, |second| second - node),
                list: byte("kmem_cache.list")?,
            },
            // Up to 5.16 it is a part of `struct page`.
            slab: SlabLayout {
                bytes: size("slab").or_else(|_| size("page"))?,
                cache: byte("slab.slab_cache").or_else(|_| byte("page.slab_cache"))?,
                list: byte("slab.slab_list").or_else(|_| byte("page.slab_list"))?,
                next: byte("slab.next").or_else(|_| byte("page.next")).ok(),
                freelist: byte("slab.freelist").or_else(|_| byte("page.freelist"))?,
                inuse: bits("slab.inuse").or_else(|_| bits("page.inuse"))?,
                objects: bits("slab.objects").or_else(|_| bits("page.objects"))?,
            },
            node: NodeLayout {
                partial: byte("kmem_cache_node.partial")?,
                nr_partial: byte("kmem_cache_node.nr_partial")?,
            },
            cpu,
            sheaves,
            page_struct: size("page")?,
            array_pptrs: byte("bpf_array.pptrs").ok(),
            iterator: function(types, "bpf_iter_kmem_cache"),
        })
    }
}

/// What the parser reads.
pub struct Bytes(pub Vec<u8>);

impl Readable for Bytes {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> btfparse::Result<()> {
        let from = usize::try_from(offset).ok();
        let piece = from.and_then(|from| self.0.get(from..)?.get(..buffer.len()));
        let piece = piece.ok_or_else(|| Error::new(ErrorKind::IOError, "it is cut off"))?;
        buffer.copy_from_slice(piece);
        Ok(())
    }
}

fn structure(types: &TypeInformation, name: &str) -> Option<u32> {
    // A function or a variable may have the same name.
    let is_it = |variant: &TypeVariant| matches!(variant, TypeVariant::Struct(it) if it.name().as_deref() == Some(name) && *it.size() > 0);
    types.get().iter().find(|(_, variant)| is_it(variant)).map(|(id, _)| *id)
}

fn offset(types: &TypeInformation, of: &str, path: &str) -> Option<Bits> {
    let (member, offset) = types.offset_of(structure(types, of)?, path).ok()?;
    Some(match offset {
        Offset::ByteOffset(at) => {
            Bits { first: at * 8, bits: types.size_of(member).map_or(64, |size| size as u32 * 8) }
        }
        Offset::BitOffsetAndSize(first, bits) => Bits { first, bits },
    })
}

fn size_of(types: &TypeInformation, name: &str) -> Option<u32> {
    u32::try_from(types.size_of(structure(types, name)?).ok()?).ok()
}

fn function(types: &TypeInformation, name: &str) -> Option<u32> {
    let is_it = |variant: &TypeVariant| matches!(variant, TypeVariant::Func(it) if it.name().as_deref() == Some(name));
    types.get().iter().find(|(_, variant)| is_it(variant)).map(|(id, _)| *id)
}
