//! The headers of a core file: its memory segments, and the notes in which the kernel described the
//! process.
//!
//! Neighbour: [`super::dump`] reads memory through these segments.

use super::error::Error;
use crate::symbols::Loaded;
use object::elf::{ET_CORE, FileHeader64, NT_FILE, NT_PRPSINFO, PF_R, PF_W, PT_LOAD};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{FileKind, LittleEndian, ReadCache};
use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A segment of memory, and where the file holds it.
pub(super) struct Segment {
    pub(super) memory: Range<u64>,
    pub(super) offset: u64,
    pub(super) writable: bool,
}

/// What the kernel noted of the process that it wrote down.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) pid: Option<u32>,
    pub(super) program: Option<String>,
    /// Files in its memory.
    pub(super) loaded: Vec<Loaded>,
}

/// The headers of a core file of a little-endian 64-bit program.
pub(super) struct Headers<'a> {
    path: &'a Path,
    file: &'a ReadCache<File>,
    header: &'a FileHeader64<LittleEndian>,
    endian: LittleEndian,
}

impl<'a> Headers<'a> {
    /// Refuses what is no such core.
    pub(super) fn parse(path: &'a Path, file: &'a ReadCache<File>) -> Result<Self, Error> {
        let machine = |what| Error::Machine { path: path.to_owned(), what };
        match FileKind::parse(file) {
            Ok(FileKind::Elf64) => {}
            Ok(FileKind::Elf32) => return Err(machine("32-bit")),
            _ => return Err(not_core(path, "it does not begin as an ELF file does")),
        }
        // The header's magic was seen above: what this refuses is the other byte order.
        let header = FileHeader64::<LittleEndian>::parse(file).map_err(|e| damaged(path, e))?;
        let endian = header.endian().map_err(|_| machine("big-endian"))?;
        if header.e_type.get(endian) != ET_CORE {
            return Err(not_core(path, "it is a program or a library"));
        }
        Ok(Headers { path, file, header, endian })
    }

    /// The segments of memory by address, and the bytes that the file must have for all segments.
    pub(super) fn segments(&self) -> Result<(Vec<Segment>, u64), Error> {
        let endian = self.endian;
        let mut segments = Vec::new();
        let mut wants = 0;
        for segment in self.program_headers()? {
            let (offset, bytes) = segment.file_range(endian);
            wants = wants.max(offset.saturating_add(bytes));
            let address = segment.p_vaddr(endian);
            if segment.p_type(endian) == PT_LOAD && bytes > 0 {
                let both = PF_R | PF_W;
                segments.push(Segment {
                    memory: address..address.saturating_add(bytes),
                    offset,
                    writable: segment.p_flags(endian) & both == both,
                });
            }
        }
        segments.sort_by_key(|segment| segment.memory.start);
        Ok((segments, wants))
    }

    /// What the file notes; nothing of notes that are damaged.
    pub(super) fn notes(&self) -> Result<Notes, Error> {
        let mut told = Notes::default();
        for segment in self.program_headers()? {
            let Ok(Some(mut notes)) = segment.notes(self.endian, self.file) else { continue };
            while let Ok(Some(note)) = notes.next() {
                match note.n_type(self.endian) {
                    _ if note.name() != b"CORE" => {}
                    NT_PRPSINFO => (told.pid, told.program) = process_of(note.desc()),
                    NT_FILE => told.loaded = loaded_of(note.desc()).unwrap_or_default(),
                    _ => {}
                }
            }
        }
        Ok(told)
    }

    fn program_headers(&self) -> Result<&'a [object::elf::ProgramHeader64<LittleEndian>], Error> {
        let headers = self.header.program_headers(self.endian, self.file);
        headers.map_err(|why| damaged(self.path, why))
    }
}

/// A file that is something else.
pub(super) fn not_core(path: &Path, what: &str) -> Error {
    Error::NotCore { path: path.to_owned(), what: what.to_owned() }
}

fn damaged(path: &Path, why: object::Error) -> Error {
    not_core(path, &format!("its headers are damaged: {why}"))
}

/// Id and name of the process, from `struct elf_prpsinfo` of a 64-bit machine.
fn process_of(desc: &[u8]) -> (Option<u32>, Option<String>) {
    const PID: usize = 24;
    const NAME: Range<usize> = 40..56;
    let pid = desc.get(PID..).and_then(|rest| rest.first_chunk::<4>());
    let pid = pid.map(|bytes| u32::from_le_bytes(*bytes));
    let name = desc.get(NAME).map(|name| {
        let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        let text = String::from_utf8_lossy(&name[..end]);
        text.chars().filter(|c| !c.is_control()).collect::<String>()
    });
    (pid, name.filter(|name| !name.is_empty()))
}

/// Files in memory, from the note of a 64-bit machine: how many, the unit of offsets, begin, end and
/// offset of each, and their paths, each with a 0 at its end.
fn loaded_of(desc: &[u8]) -> Option<Vec<Loaded>> {
    let word = |nth: usize| {
        let bytes = desc.get(nth.checked_mul(8)?..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    };
    let (nr, unit) = (usize::try_from(word(0)?).ok()?, word(1)?);
    let names = desc.get(nr.checked_mul(24)?.checked_add(16)?..)?;
    let files = names.split(|byte| *byte == 0).take(nr).enumerate().map(|(nth, name)| {
        Some(Loaded {
            memory: word(2 + 3 * nth)?..word(3 + 3 * nth)?,
            offset: word(4 + 3 * nth)?.checked_mul(unit)?,
            path: PathBuf::from(OsStr::from_bytes(name)),
        })
    });
    files.collect()
}
