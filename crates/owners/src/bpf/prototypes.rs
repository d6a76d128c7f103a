//! What differs between kernels, by their own type information: at which index a tracepoint has the
//! cache, the number of the memory controller, and where in a file system's inode the kernel's is.

use btfparse::{Error, ErrorKind, Offset, Readable, TypeInformation, TypeVariant};
use std::collections::HashMap;
use std::fs;

/// Where the kernel describes itself.
pub(super) const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
/// For programs: there is none.
pub(super) const NONE: u32 = 255;

/// Looked up in the kernel's types.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prototypes {
    /// Index of the cache in `kmem_cache_alloc` and `kmem_cache_free`.
    pub alloc_cache: u32,
    pub free_cache: u32,
    /// Index of the bytes and flags in `kmalloc`.
    pub kmalloc_bytes: u32,
    pub kmalloc_flags: u32,
    pub memory_controller: u32,
    /// The number of the function that tells an object's cache.
    pub cache_of: Option<u32>,
    /// By the bytes of a structure that contains a `struct inode`: where in it that is.
    pub inodes: HashMap<u32, u32>,
}

/// What the parser reads.
struct Bytes(Vec<u8>);

impl Readable for Bytes {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> btfparse::Result<()> {
        let from = usize::try_from(offset).ok();
        let piece = from.and_then(|from| self.0.get(from..)?.get(..buffer.len()));
        let piece = piece.ok_or_else(|| Error::new(ErrorKind::IOError, "it is cut off"))?;
        buffer.copy_from_slice(piece);
        Ok(())
    }
}

impl Prototypes {
    /// The running kernel's; why not, in words.
    pub(super) fn of_kernel() -> Result<Prototypes, String> {
        let bytes = fs::read(VMLINUX).map_err(|error| format!("{VMLINUX}: {error}"))?;
        let types = TypeInformation::new(&Bytes(bytes))
            .map_err(|error| format!("{VMLINUX}: {}", error.message()))?;
        Prototypes::of(&types)
    }

    fn of(types: &TypeInformation) -> Result<Prototypes, String> {
        let index = |event: &str, wanted: &str| {
            let arguments = arguments(types, event)?;
            arguments.iter().position(|it| it == wanted).map(|at| at as u32)
        };
        let cache = |event: &str| index(event, "*kmem_cache").unwrap_or(NONE);
        let lacks = |event: &str| format!("the kernel's types have no tracepoint {event}");
        arguments(types, "kmem_cache_free").ok_or_else(|| lacks("kmem_cache_free"))?;
        let kmalloc = arguments(types, "kmalloc").ok_or_else(|| lacks("kmalloc"))?;
        // Requested and allocated bytes are two arguments of one type.
        let bytes =
            kmalloc.iter().rposition(|it| it == "size_t").ok_or_else(|| lacks("kmalloc"))?;
        let alloc_cache = cache("kmem_cache_alloc");
        if alloc_cache == NONE {
            return Err("the tracepoint kmem_cache_alloc does not tell the cache".into());
        }
        Ok(Prototypes {
            alloc_cache,
            free_cache: cache("kmem_cache_free"),
            kmalloc_bytes: bytes as u32,
            kmalloc_flags: index("kmalloc", "gfp_t").unwrap_or(NONE),
            memory_controller: controller(types).unwrap_or(NONE),
            cache_of: function(types, "bpf_get_kmem_cache"),
            inodes: inodes(types),
        })
    }
}

/// The types of a tracepoint's arguments, without the first, which is the tracepoint's own.
fn arguments(types: &TypeInformation, event: &str) -> Option<Vec<String>> {
    let name = format!("btf_trace_{event}");
    let all = types.get();
    let of = |id: &u32| all.get(id);
    let prototype = all.values().find_map(|variant| match variant {
        TypeVariant::Typedef(it) if it.name().as_deref() == Some(&name) => match of(it.tid())? {
            TypeVariant::Ptr(pointer) => match of(pointer.tid())? {
                TypeVariant::FuncProto(prototype) => Some(prototype),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })?;
    let word = |mut id: u32| {
        let mut stars = String::new();
        loop {
            match of(&id) {
                Some(TypeVariant::Ptr(it)) => {
                    stars.push('*');
                    id = *it.tid();
                }
                Some(TypeVariant::Const(it)) => id = *it.tid(),
                Some(TypeVariant::Typedef(it)) => {
                    return stars + it.name().as_deref().unwrap_or_default();
                }
                Some(TypeVariant::Struct(it)) => {
                    return stars + it.name().as_deref().unwrap_or_default();
                }
                _ => return stars,
            }
        }
    };
    Some(prototype.parameter_list().iter().skip(1).map(|parameter| word(parameter.tid())).collect())
}

/// The number of a function.
fn function(types: &TypeInformation, name: &str) -> Option<u32> {
    let is_it = |variant: &TypeVariant| matches!(variant, TypeVariant::Func(it) if it.name().as_deref() == Some(name));
    types.get().iter().find(|(_, variant)| is_it(variant)).map(|(number, _)| *number)
}

/// `memory_cgrp_id`.
fn controller(types: &TypeInformation) -> Option<u32> {
    types.get().values().find_map(|variant| match variant {
        TypeVariant::Enum(it) if it.name().as_deref() == Some("cgroup_subsys_id") => it
            .named_value_list()
            .iter()
            .position(|value| value.name == "memory_cgrp_id")
            .map(|at| at as u32),
        _ => None,
    })
}

/// The structures that have a `struct inode` inside, by their bytes. Where two of one size differ,
/// neither is known.
fn inodes(types: &TypeInformation) -> HashMap<u32, u32> {
    let is_inode = |id: u32| matches!(types.get().get(&id), Some(TypeVariant::Struct(it)) if it.name().as_deref() == Some("inode"));
    let mut found: HashMap<u32, Option<u32>> = HashMap::new();
    for variant in types.get().values() {
        let TypeVariant::Struct(it) = variant else { continue };
        let Some(member) = it.member_list().iter().find(|member| is_inode(member.tid())) else {
            if it.name().as_deref() == Some("inode") {
                found.insert(*it.size() as u32, Some(0));
            }
            continue;
        };
        let Offset::ByteOffset(at) = member.offset() else { continue };
        let known = found.entry(*it.size() as u32).or_insert(Some(at));
        if *known != Some(at) {
            *known = None;
        }
    }
    found.into_iter().filter_map(|(size, at)| Some((size, at?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_tells_its_tracepoints() {
        let Ok(found) = Prototypes::of_kernel() else {
            eprintln!("skipped: the kernel does not describe its types");
            return;
        };
        assert_eq!((found.alloc_cache, found.free_cache), (2, 2));
        assert_eq!((found.kmalloc_bytes, found.kmalloc_flags), (3, 4));
        assert!(!found.inodes.is_empty());
    }
}
