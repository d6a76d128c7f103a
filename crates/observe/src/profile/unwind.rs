//! Finds the call stack of a sample from its registers and the copy of its stack: by the tables of
//! `.eh_frame` in the files that the process has loaded, as compilers write them for exceptions,
//! and by frame pointers where a file has none or the code is no file's.
//!
//! Neighbour: the crate `framehop` unwinds. Invariants: frames of the library itself are left out;
//! what is damaged ends the stack, and nothing else.

use crate::symbols::Loaded;
#[cfg(target_arch = "aarch64")]
use framehop::aarch64::{CacheAarch64 as Cache, UnwinderAarch64 as ByTables};
#[cfg(not(target_arch = "aarch64"))]
use framehop::x86_64::{CacheX86_64 as Cache, UnwinderX86_64 as ByTables};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};
use object::elf::FileHeader64;
use object::read::elf::{ElfFile, ProgramHeader as _};
use object::{LittleEndian, Object as _, ObjectSection as _, ReadCache};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most frames of a stack.
const MOST_FRAMES: usize = 256;

/// Mapped memory in which frames are.
#[derive(Clone, Debug)]
pub(crate) struct ProfileMap {
    pub(crate) loaded: Loaded,
    pub(crate) build_id: Option<String>,
}

/// A frame: an address in the call, and the memory that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CallFrame {
    pub(super) address: u64,
    pub(super) map: Option<usize>,
}

/// The frames, the innermost first.
pub(super) type CallStack = Vec<CallFrame>;

/// Unwinds the stacks of one process.
pub(super) struct Unwinder {
    root: PathBuf,
    maps: Vec<ProfileMap>,
    /// Indices of those that the process has at the last look.
    now: Vec<usize>,
    /// Each file that the process has now; `None` for one without tables.
    files: HashMap<PathBuf, Option<ElfTables>>,
    /// Files and the address of their byte 0, which `inner` knows.
    known: HashSet<(PathBuf, u64)>,
    inner: ByTables<Arc<[u8]>>,
    cache: Cache,
}

impl Unwinder {
    pub(super) fn new(root: PathBuf) -> Unwinder {
        Unwinder {
            root,
            maps: Vec::new(),
            now: Vec::new(),
            files: HashMap::new(),
            known: HashSet::new(),
            inner: ByTables::new(),
            cache: Cache::new(),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// All memory of files so far.
    pub(super) fn maps(&self) -> &[ProfileMap] {
        &self.maps
    }

    /// The process has these files in memory now.
    pub(super) fn refresh(&mut self, loaded: Vec<Loaded>) {
        let is_same = |a: &Loaded, b: &Loaded| {
            (&a.memory, a.offset, &a.path) == (&b.memory, b.offset, &b.path)
        };
        let now: Vec<usize> = loaded
            .iter()
            .map(|one| {
                let known = self.maps.iter().position(|map| is_same(&map.loaded, one));
                known.unwrap_or_else(|| {
                    self.maps.push(ProfileMap { loaded: one.clone(), build_id: None });
                    self.maps.len() - 1
                })
            })
            .collect();
        if now == self.now {
            return;
        }
        // Another program may be there now, where other files were.
        self.inner = ByTables::new();
        self.cache = Cache::new();
        self.known.clear();
        self.files.retain(|path, _| loaded.iter().any(|one| one.path == *path));
        for map in &now {
            self.add(*map, &loaded);
        }
        self.now = now;
    }

    /// Adds the file of a map, once.
    fn add(&mut self, map: usize, loaded: &[Loaded]) {
        let one = self.maps[map].loaded.clone();
        let read = || ElfTables::read(&self.root, &one.path);
        let file = self.files.entry(one.path.clone()).or_insert_with(read);
        let Some(file) = file else { return };
        self.maps[map].build_id = file.build_id.clone();
        let Some(address) = file.address_of(one.offset) else { return };
        // Wraps for a file that asks for a high address and gets a low one.
        let base = one.memory.start.wrapping_sub(address);
        if !self.known.insert((one.path.clone(), base)) {
            return;
        }
        let of_file = loaded.iter().filter(|it| it.path == one.path && it.memory.end >= base);
        let end = of_file.map(|it| it.memory.end).max().unwrap_or(one.memory.end);
        let name = one.path.display().to_string();
        self.inner.add_module(Module::new(
            name,
            base.min(one.memory.start)..end,
            base,
            file.tables.clone(),
        ));
    }

    /// The map of an address.
    fn map_of(&self, address: u64) -> Option<usize> {
        self.now.iter().copied().find(|map| self.maps[*map].loaded.memory.contains(&address))
    }

    /// The call stack, and whether it goes on beyond the copy.
    pub(super) fn unwind(&mut self, registers: [u64; 3], stack: &[u8]) -> (CallStack, bool) {
        let [ip, sp, bp] = registers;
        let mut is_cut = false;
        let mut read = |address: u64| {
            let at = usize::try_from(address.wrapping_sub(sp)).map_err(|_| ())?;
            let word = stack.get(at..).and_then(|rest| rest.first_chunk::<8>());
            is_cut |= word.is_none() && address > sp;
            word.map(|word| u64::from_le_bytes(*word)).ok_or(())
        };
        let mut addresses = Vec::new();
        let mut frames =
            self.inner.iter_frames(ip, registers_of(ip, sp, bp), &mut self.cache, &mut read);
        while let Ok(Some(frame)) = frames.next() {
            addresses.push(frame.address_for_lookup());
            if addresses.len() == MOST_FRAMES {
                break;
            }
        }
        let ours = self.map_of(ip).map(|map| self.maps[map].loaded.path.clone());
        let frames: CallStack = addresses
            .into_iter()
            .map(|address| CallFrame { address, map: self.map_of(address) })
            .skip_while(|frame| {
                frame.map.is_some_and(|map| Some(&self.maps[map].loaded.path) == ours.as_ref())
            })
            .collect();
        (frames, is_cut)
    }
}

/// As they are on the processor on which both processes run.
#[cfg(not(target_arch = "aarch64"))]
fn registers_of(ip: u64, sp: u64, bp: u64) -> framehop::x86_64::UnwindRegsX86_64 {
    framehop::x86_64::UnwindRegsX86_64::new(ip, sp, bp)
}

/// Without a link register: the call in which they were read has it on its stack. Processors that sign
/// return addresses have the signature in bits that no address has: programs get addresses of at most
/// 48 bits where they ask for no higher one (the kernel's `Documentation/arch/arm64/memory.rst`).
#[cfg(target_arch = "aarch64")]
fn registers_of(_pc: u64, sp: u64, fp: u64) -> framehop::aarch64::UnwindRegsAarch64 {
    use framehop::aarch64::{PtrAuthMask, UnwindRegsAarch64};
    const ADDRESS_BITS: u32 = 48;
    let mask = PtrAuthMask::from_max_known_address((1 << ADDRESS_BITS) - 1);
    UnwindRegsAarch64::new_with_ptr_auth_mask(mask, 0, sp, fp)
}

/// What is needed of a file.
struct ElfTables {
    /// Of each loadable segment: bytes in the file, and the address of the first.
    segments: Vec<(Range<u64>, u64)>,
    tables: ExplicitModuleSectionInfo<Arc<[u8]>>,
    build_id: Option<String>,
}

impl ElfTables {
    fn read(root: &Path, path: &Path) -> Option<ElfTables> {
        let in_root = root.join(path.strip_prefix("/").ok()?);
        ElfTables::read_file(&in_root).or_else(|| ElfTables::read_file(path))
    }

    fn read_file(path: &Path) -> Option<ElfTables> {
        if !std::fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = ElfFile::<FileHeader64<LittleEndian>, _>::parse(&cache).ok()?;
        let endian = file.endian();
        let load = file.elf_program_headers().iter();
        let load = load.filter(|it| it.p_type(endian) == object::elf::PT_LOAD);
        let segments = load.map(|it| {
            let (offset, bytes) = it.file_range(endian);
            (offset..offset.saturating_add(bytes), it.p_vaddr(endian))
        });
        let segments = segments.collect();
        let section = |name| file.section_by_name(name);
        let range = |name| section(name).map(|it| it.address()..it.address() + it.size());
        let data = |name| section(name).and_then(|it| it.data().ok()).map(Arc::from);
        let tables = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: range(".text"),
            got_svma: range(".got"),
            eh_frame_svma: range(".eh_frame"),
            eh_frame: data(".eh_frame"),
            eh_frame_hdr_svma: range(".eh_frame_hdr"),
            eh_frame_hdr: data(".eh_frame_hdr"),
            ..ExplicitModuleSectionInfo::default()
        };
        let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect();
        let build_id = file.build_id().ok().flatten().map(hex);
        Some(ElfTables { segments, tables, build_id })
    }

    /// The address that the file asks for its byte of an offset.
    fn address_of(&self, offset: u64) -> Option<u64> {
        // A map begins at a page, before the segment, and perhaps where the one before ends.
        let contains = |bytes: &Range<u64>| (bytes.start & !0xfff..bytes.end).contains(&offset);
        let found = self.segments.iter().filter(|(bytes, _)| contains(bytes));
        let (bytes, address) = found.max_by_key(|(bytes, _)| bytes.start)?;
        Some(address.wrapping_add(offset).wrapping_sub(bytes.start))
    }
}
