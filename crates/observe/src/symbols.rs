//! Function names: finds the symbol that covers an address, in the file that was mapped there.
//!
//! Neighbours: [`crate::process`] and [`crate::corefile`] say which files are mapped where.
//! Invariants: a file is read as far as it is well-formed, and at most [`MOST_BYTES`] of it; a file
//! that was deleted or replaced yields no names or wrong ones, but never an error.

use crate::traces::{Frame, Traces};
use object::elf::FileHeader64;
use object::read::elf::{ElfFile, FileHeader as _, ProgramHeader as _};
use object::{FileKind, LittleEndian, Object as _, ObjectSymbol as _, ObjectSymbolTable as _};
use object::{ReadCache, SymbolKind};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Most bytes of a file in which symbols are looked up.
const MOST_BYTES: u64 = 4 << 30;

/// A file in the memory of a target.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// Addresses at which the file is mapped.
    pub(crate) memory: Range<u64>,
    /// The byte of the file at its start.
    pub(crate) offset: u64,
    /// Its path, as the target names it.
    pub(crate) path: PathBuf,
}

/// Names all frames of the sites; `root` is where the target's paths begin.
pub(crate) fn name(traces: &mut Traces, loaded: &[Loaded], root: Option<&Path>) {
    let mut files: BTreeMap<&Path, Symbols> = BTreeMap::new();
    for site in traces.alloc.iter_mut().chain(&mut traces.free) {
        let named = site.stack.iter().map(|address| {
            // The call lies before the address to which it returns.
            let call = address.saturating_sub(1);
            let found = loaded.iter().find(|it| it.memory.contains(&call));
            let Some(found) = found else { return Frame { address: *address, ..Frame::default() } };
            let path = found.path.as_path();
            let symbols = files.entry(path).or_insert_with(|| Symbols::of(path, root));
            let at = call - found.memory.start + found.offset;
            let (function, offset) = symbols.around(at);
            Frame {
                address: *address,
                function,
                offset: offset + 1,
                file: Some(path.display().to_string()),
            }
        });
        site.frames = named.collect();
    }
}

/// The functions of a file, by address.
#[derive(Default)]
pub(crate) struct Symbols {
    /// Of each loadable segment: bytes in the file, and the address of the first.
    segments: Vec<(Range<u64>, u64)>,
    /// Where each begins, its bytes, its name.
    functions: Vec<(u64, u64, String)>,
}

impl Symbols {
    /// Those of a file, as far as they can be read.
    pub(crate) fn of(path: &Path, root: Option<&Path>) -> Symbols {
        let in_root = root.and_then(|root| Some(root.join(path.strip_prefix("/").ok()?)));
        let tries = in_root.into_iter().chain([path.to_owned()]);
        tries.filter_map(|path| Symbols::read(&path)).next().unwrap_or_default()
    }

    fn read(path: &Path) -> Option<Symbols> {
        let facts = std::fs::metadata(path).ok()?;
        if !facts.is_file() || facts.len() > MOST_BYTES {
            return None;
        }
        let cache = ReadCache::new(File::open(path).ok()?);
        if FileKind::parse(&cache).ok()? != FileKind::Elf64 {
            return None;
        }
        let header = FileHeader64::<LittleEndian>::parse(&cache).ok()?;
        let endian = header.endian().ok()?;
        let headers = header.program_headers(endian, &cache).ok()?;
        let load = headers.iter().filter(|it| it.p_type(endian) == object::elf::PT_LOAD);
        let segments = load.map(|it| {
            let (offset, bytes) = it.file_range(endian);
            (offset..offset.saturating_add(bytes), it.p_vaddr(endian))
        });
        let segments = segments.collect();
        let file = ElfFile::<FileHeader64<LittleEndian>, _>::parse(&cache).ok()?;
        // Static functions are in the table of symbols alone, which a stripped file has not.
        let table = file.symbol_table().or_else(|| file.dynamic_symbol_table())?;
        let functions = table.symbols().filter(|it| it.kind() == SymbolKind::Text);
        let named = functions.filter(|it| it.is_definition() && it.address() != 0);
        let mut functions: Vec<(u64, u64, String)> = named
            .filter_map(|it| Some((it.address(), it.size().max(1), it.name().ok()?.to_owned())))
            .collect();
        functions.sort();
        Some(Symbols { segments, functions })
    }

    /// The function around a byte of the file, and the bytes from its start; without one the
    /// address.
    pub(crate) fn around(&self, at: u64) -> (Option<String>, u64) {
        let segment = self.segments.iter().find(|(bytes, _)| bytes.contains(&at));
        let address = segment.map_or(at, |(bytes, address)| at - bytes.start + address);
        let after = self.functions.partition_point(|(begin, ..)| *begin <= address);
        let around = self.functions[..after].iter().rev().take(8);
        let mut around = around.filter(|(begin, bytes, _)| address - begin < *bytes);
        match around.next() {
            Some((begin, _, name)) => (Some(shown(name)), address - begin),
            None => (None, address),
        }
    }
}

/// A name from elsewhere as its source has it, without what could steer a terminal.
fn shown(name: &str) -> String {
    let of_cxx = || {
        let parsed = cpp_demangle::Symbol::new(name).ok()?;
        name.starts_with("_Z").then(|| parsed.demangle().ok())?
    };
    let name = match rustc_demangle::try_demangle(name) {
        Ok(name) => format!("{name:#}"),
        Err(_) => of_cxx().unwrap_or_else(|| name.to_owned()),
    };
    name.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
