//! Function names: finds the symbol that covers an address, in the file that was mapped there.
//!
//! Neighbours: [`crate::process`] and [`crate::corefile`] say which files are mapped where.
//! Invariants: a file is read as far as it is well-formed, and at most [`MOST_BYTES`] of it; a file
//! that was deleted or replaced yields no names or wrong ones, but never an error. Names are read
//! when they are asked for: a file has thousands, and a profile shows some.

use crate::traces::{Frame, Traces};
use object::elf::{FileHeader64, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::{FileKind, LittleEndian, ReadCache, ReadRef as _};
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
    /// Where each begins, its bytes, and where its name begins in `names`.
    functions: Vec<(u64, u64, u64)>,
    /// Bytes of the file.
    names: Range<u64>,
    file: Option<ReadCache<File>>,
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
        let sections = header.sections(endian, &cache).ok()?;
        // Static functions are in the table of symbols alone, which a stripped file has not.
        let tables = [SHT_SYMTAB, SHT_DYNSYM].map(|kind| sections.symbols(endian, &cache, kind));
        let table = tables.into_iter().flatten().find(|table| !table.is_empty())?;
        let names = sections.section(table.string_section()).ok()?;
        let names =
            names.sh_offset(endian)..names.sh_offset(endian).checked_add(names.sh_size(endian))?;
        let functions = table.iter().filter(|it| {
            it.st_type() == STT_FUNC
                && it.is_definition(endian, table.strings())
                && it.st_value(endian) != 0
        });
        let mut functions: Vec<_> = functions
            .map(|it| (it.st_value(endian), it.st_size(endian).max(1), it.st_name(endian).into()))
            .collect();
        functions.sort_unstable();
        Some(Symbols { segments, functions, names, file: Some(cache) })
    }

    /// The function around a byte of the file, and the bytes from its start; without one the
    /// address.
    pub(crate) fn around(&self, at: u64) -> (Option<String>, u64) {
        let segment = self.segments.iter().find(|(bytes, _)| bytes.contains(&at));
        let address = segment.map_or(at, |(bytes, address)| at - bytes.start + address);
        let after = self.functions.partition_point(|(begin, ..)| *begin <= address);
        let mut around = self.functions[..after].iter().rev().take(8);
        let Some(found) = around.find(|(begin, bytes, _)| address - begin < *bytes) else {
            return (None, address);
        };
        // It may have several names.
        let same = self.functions[..after].iter().rev().skip_while(|it| *it != found);
        let same = same.take_while(|it| (it.0, it.1) == (found.0, found.1));
        match same.filter_map(|it| self.name(it.2)).max() {
            Some(name) => (Some(shown(&name)), address - found.0),
            None => (None, address),
        }
    }

    fn name(&self, at: u64) -> Option<String> {
        let begin = self.names.start.checked_add(at)?;
        let name = self.file.as_ref()?.read_bytes_at_until(begin..self.names.end, 0).ok()?;
        Some(std::str::from_utf8(name).ok()?.to_owned())
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
