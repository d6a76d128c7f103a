//! The core file of a process that ran on Slabyard: the numbers of
//! [`crate::process`], post mortem.
//!
//! Memory is what the file's loadable segments hold; a segment of which the file holds
//! less than it claims is a truncated core, and refused.

use crate::process::memory::{Fault, Memory, Part};
use crate::process::sites;
use crate::process::yards::{self, Lost};
use crate::snapshot::{Kind, Snapshot, Source};
use crate::symbols::{self, Loaded};
use crate::traces::Traces;
use crate::want::Want;
use object::elf::{ET_CORE, FileHeader64, NT_FILE, NT_PRPSINFO, PF_R, PF_W, PT_LOAD};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{FileKind, LittleEndian, ReadCache};
use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Why a core file cannot be read, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is something else.
    #[error("{} is not a core file: {what}", path.display())]
    NotCore {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// Of a machine that is not read here.
    #[error(
        "{} is the core file of a {what} program; those of little-endian 64-bit programs \
         can be read",
        path.display()
    )]
    Machine {
        /// The file.
        path: PathBuf,
        /// Which.
        what: &'static str,
    },
    /// It ends too early.
    #[error(
        "{} is truncated: it has {has} bytes and speaks of {wants}; make it again with room \
         enough (`ulimit -c unlimited`, or `gcore PID`)",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes that it has.
        has: u64,
        /// Bytes that it should have.
        wants: u64,
    },
    /// No yard in it.
    #[error(
        "{} holds no yard: the program did not run on Slabyard, or its private memory was not \
         dumped (see coredump_filter)",
        path.display()
    )]
    NoYard {
        /// The file.
        path: PathBuf,
    },
    /// Of another version.
    #[error(
        "the yard in {} has layout {found}; this slabyard reads {known}; use the slabyard that \
         came with its library",
        path.display()
    )]
    Layout {
        /// The file.
        path: PathBuf,
        /// The version that was found.
        found: u64,
        /// The version that is known.
        known: u64,
    },
    /// Numbers that cannot be.
    #[error("the yard in {} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
}

/// What a process held when its core was written.
///
/// # Errors
/// If the file is no core file, is truncated, or holds no yard.
pub fn sample(path: &Path, want: Want) -> Result<Snapshot, Error> {
    let core = Core::open(path)?;
    let mut source = Source::of(Kind::Core);
    source.path = Some(path.display().to_string());
    (source.pid, source.program) = (core.pid, core.program.clone());
    let mut snapshot = yards::sample(&core, want, source).map_err(|why| lost(path, why))?;
    if let Some(ms) = core.written_at_ms {
        snapshot.taken_at_ms = ms;
    }
    Ok(snapshot)
}

/// Who allocated the live objects of a cache; `None` if it keeps no tracks. Functions are named
/// where the files that were loaded are here.
///
/// # Errors
/// As [`sample`].
pub fn traces(path: &Path, cache: &str) -> Result<Option<Traces>, Error> {
    let core = Core::open(path)?;
    let mut told = sites::read(&core, cache, None).map_err(|why| lost(path, why))?;
    if let Some(traces) = &mut told {
        symbols::name(traces, &core.loaded, None);
    }
    Ok(told)
}

fn lost(path: &Path, why: Lost) -> Error {
    let path = path.to_owned();
    match why {
        Lost::NoYard => Error::NoYard { path },
        Lost::Layout { found, known } => Error::Layout { path, found, known },
        Lost::Damaged(what) => Error::Damaged { path, what },
        Lost::Fault(Fault::Io(source)) => Error::Io { path, source },
        Lost::Fault(why @ (Fault::Absent(_) | Fault::Denied | Fault::Gone)) => {
            Error::Damaged { path, what: why.to_string() }
        }
    }
}

/// A segment of memory, and where the file holds it.
struct Segment {
    memory: Range<u64>,
    offset: u64,
    writable: bool,
}

struct Core {
    file: File,
    /// By address.
    segments: Vec<Segment>,
    pid: Option<u32>,
    program: Option<String>,
    written_at_ms: Option<u64>,
    /// Files in its memory.
    loaded: Vec<Loaded>,
}

impl Core {
    fn open(path: &Path) -> Result<Core, Error> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let not = |what: &str| Error::NotCore { path: path.to_owned(), what: what.to_owned() };
        let file = File::open(path).map_err(io)?;
        let facts = file.metadata().map_err(io)?;
        if !facts.is_file() {
            return Err(not("it is no regular file"));
        }
        let written = facts.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let mut core = Core {
            segments: Vec::new(),
            pid: None,
            program: None,
            written_at_ms: written.and_then(|d| u64::try_from(d.as_millis()).ok()),
            loaded: Vec::new(),
            file,
        };
        let cache = ReadCache::new(core.file.try_clone().map_err(io)?);
        match FileKind::parse(&cache) {
            Ok(FileKind::Elf64) => {}
            Ok(FileKind::Elf32) => {
                return Err(Error::Machine { path: path.to_owned(), what: "32-bit" });
            }
            _ => return Err(not("it does not begin as an ELF file does")),
        }
        let damaged = |why: object::Error| not(&format!("its headers are damaged: {why}"));
        // The header's magic was seen above: what this refuses is the other byte order.
        let header = FileHeader64::<LittleEndian>::parse(&cache).map_err(damaged)?;
        let endian = header
            .endian()
            .map_err(|_| Error::Machine { path: path.to_owned(), what: "big-endian" })?;
        if header.e_type.get(endian) != ET_CORE {
            return Err(not("it is a program or a library"));
        }
        let mut wants = 0;
        for segment in header.program_headers(endian, &cache).map_err(damaged)? {
            let (offset, bytes) = segment.file_range(endian);
            wants = wants.max(offset.saturating_add(bytes));
            let address = segment.p_vaddr(endian);
            if segment.p_type(endian) == PT_LOAD && bytes > 0 {
                let both = PF_R | PF_W;
                core.segments.push(Segment {
                    memory: address..address.saturating_add(bytes),
                    offset,
                    writable: segment.p_flags(endian) & both == both,
                });
            }
        }
        if wants > facts.len() {
            return Err(Error::Truncated { path: path.to_owned(), has: facts.len(), wants });
        }
        for segment in header.program_headers(endian, &cache).map_err(damaged)? {
            let Ok(Some(mut notes)) = segment.notes(endian, &cache) else { continue };
            while let Ok(Some(note)) = notes.next() {
                if note.n_type(endian) == NT_PRPSINFO && note.name() == b"CORE" {
                    (core.pid, core.program) = process_of(note.desc());
                }
                if note.n_type(endian) == NT_FILE && note.name() == b"CORE" {
                    core.loaded = loaded_of(note.desc()).unwrap_or_default();
                }
            }
        }
        core.segments.sort_by_key(|s| s.memory.start);
        Ok(core)
    }
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

impl Memory for Core {
    fn read(&self, parts: &[Part], into: &mut [u8]) -> Result<(), Fault> {
        let mut rest = into;
        for part in parts {
            let (mut now, later) = rest.split_at_mut(part.bytes);
            rest = later;
            let mut at = part.address;
            // A part may go over segments that lie side by side.
            while !now.is_empty() {
                let after = self.segments.partition_point(|s| s.memory.start <= at);
                let segment = after.checked_sub(1).map(|i| &self.segments[i]);
                let Some(segment) = segment.filter(|s| s.memory.contains(&at)) else {
                    return Err(Fault::Absent(at));
                };
                let here = usize::try_from(segment.memory.end - at).unwrap_or(usize::MAX);
                let (bytes, others) = now.split_at_mut(here.min(now.len()));
                let offset = segment.offset + (at - segment.memory.start);
                self.file.read_exact_at(bytes, offset)?;
                at += bytes.len() as u64;
                now = others;
            }
        }
        Ok(())
    }

    fn mappings(&self) -> Result<Vec<Range<u64>>, Fault> {
        let writable = self.segments.iter().filter(|s| s.writable);
        Ok(writable.map(|s| s.memory.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::planted::{FRONT, Planted};
    use crate::value::Value;
    use slabyard_abi::region::{VERSION, Word};

    const HEADER: usize = 64;
    const PROGRAM_HEADER: usize = 56;

    /// An ELF file of a type, with the planted yard as segments and one note.
    fn elf(kind: u16, planted: &Planted) -> Vec<u8> {
        let segments = planted.segments();
        let mut note = Vec::new();
        for number in [5u32, 136, 3] {
            note.extend(number.to_le_bytes());
        }
        note.extend(b"CORE\0\0\0\0");
        let mut desc = [0u8; 136];
        desc[24..28].copy_from_slice(&4321u32.to_le_bytes());
        desc[40..46].copy_from_slice(b"loader");
        note.extend(desc);

        let mut file = vec![0; HEADER];
        file[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
        file[16..18].copy_from_slice(&kind.to_le_bytes());
        file[18..20].copy_from_slice(&62u16.to_le_bytes());
        file[20..24].copy_from_slice(&1u32.to_le_bytes());
        file[32..40].copy_from_slice(&(HEADER as u64).to_le_bytes());
        file[52..54].copy_from_slice(&(HEADER as u16).to_le_bytes());
        file[54..56].copy_from_slice(&(PROGRAM_HEADER as u16).to_le_bytes());
        file[56..58].copy_from_slice(&(segments.len() as u16 + 1).to_le_bytes());

        let mut offset = HEADER + (segments.len() + 1) * PROGRAM_HEADER;
        let mut header = |kind: u32, address: u64, bytes: usize| {
            file.extend(kind.to_le_bytes());
            file.extend(6u32.to_le_bytes());
            for word in [offset as u64, address, 0, bytes as u64, bytes as u64, 4] {
                file.extend(word.to_le_bytes());
            }
            offset += bytes;
        };
        header(4, 0, note.len());
        segments.iter().for_each(|(at, bytes)| header(1, *at, bytes.len()));
        file.extend(note);
        segments.iter().for_each(|(_, bytes)| file.extend(bytes));
        file
    }

    fn sample_of(bytes: &[u8]) -> Result<Snapshot, Error> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("core");
        std::fs::write(&path, bytes).expect("a file");
        sample(&path, Want { all: false, slabs: true })
    }

    fn refusal(bytes: &[u8]) -> String {
        sample_of(bytes).expect_err("no core with a yard").to_string()
    }

    #[test]
    fn a_core_tells_what_its_process_held() {
        let planted = Planted::yard();
        let snapshot = sample_of(&elf(4, &planted)).expect("a core");
        assert_eq!(crate::identity::check(&snapshot), []);
        let live =
            yards::sample(&planted, Want { all: false, slabs: true }, snapshot.source.clone());
        let live = live.expect("a yard");
        assert_eq!((snapshot.caches, &snapshot.totals), (live.caches, &live.totals));
        assert_eq!(snapshot.source.kind, Kind::Core);
        assert_eq!(snapshot.source.pid, Some(4321));
        assert_eq!(snapshot.source.program.as_deref(), Some("loader"));
        assert_eq!(snapshot.totals.get("mode"), Some(&Value::Exact(1)));
        assert!(!snapshot.totals.contains_key("resident"));
    }

    #[test]
    fn a_core_without_the_end_is_truncated() {
        let file = elf(4, &Planted::yard());
        for left in [file.len() - 1, file.len() / 2] {
            let text = refusal(&file[..left]);
            let sizes = format!("truncated: it has {left} bytes and speaks of {}", file.len());
            assert!(text.contains(&sizes), "{text}");
        }
        assert!(refusal(&file[..HEADER + 10]).contains("headers are damaged"));
    }

    #[test]
    fn what_is_no_core_is_refused() {
        let planted = Planted::yard();
        assert!(refusal(&elf(3, &planted)).contains("it is a program or a library"));
        assert!(refusal(b"slabs").contains("does not begin as an ELF file"));
        assert!(refusal(b"").contains("does not begin as an ELF file"));
        let mut narrow = elf(4, &planted);
        narrow[4] = 1;
        assert!(refusal(&narrow).contains("of a 32-bit program"));
        let mut big = elf(4, &planted);
        big[5] = 2;
        let text = refusal(&big);
        assert!(text.contains("big-endian"), "{text}");
        let me = std::env::current_exe().expect("this test");
        let text = sample(&me, Want::default()).expect_err("a program").to_string();
        assert!(text.contains("is not a core file: it is a program"), "{text}");
        let text = sample(Path::new("/"), Want::default()).expect_err("a directory").to_string();
        assert!(text.contains("no regular file"), "{text}");
    }

    #[test]
    fn a_core_without_a_yard_of_this_layout_is_refused() {
        let planted = Planted::yard();
        planted.word(Word::Version, VERSION + 1);
        let text = format!("has layout {}; this slabyard reads {VERSION}", VERSION + 1);
        assert!(refusal(&elf(4, &planted)).contains(&text));
        planted.put(FRONT, 0);
        assert!(refusal(&elf(4, &planted)).contains("holds no yard"));
        let planted = Planted::yard();
        planted.word(Word::Caches, 0x9999_0000);
        assert!(refusal(&elf(4, &planted)).contains("damaged: nothing to read at 0x99990000"));
    }
}
