//! Reads the core file of a process on Slabyard, and yields the same numbers as [`crate::process`]
//! for a live one.
//!
//! Memory is read from the file's loadable segments; if one is shorter than its header says, the
//! file was truncated and is rejected.

mod dump;
mod elf;
mod error;

pub use error::Error;

use crate::process::memory::Fault;
use crate::process::sites;
use crate::process::yards::{self, Unreadable};
use crate::snapshot::{Snapshot, Source, SourceKind};
use crate::symbols;
use crate::traces::Traces;
use crate::want::ReadScope;
use dump::CoreDump;
use std::path::Path;

/// What a process held when its core was written.
///
/// # Errors
/// If the file is no core file, is truncated, or holds no yard.
pub fn sample(path: &Path, want: ReadScope) -> Result<Snapshot, Error> {
    let core = CoreDump::open(path)?;
    let mut source = Source::of(SourceKind::Core);
    source.path = Some(path.display().to_string());
    (source.pid, source.program) = (core.notes.pid, core.notes.program.clone());
    let mut snapshot = yards::sample(&core, want, source).map_err(|why| error_of(path, why))?;
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
    let core = CoreDump::open(path)?;
    let mut told = sites::read(&core, cache, None).map_err(|why| error_of(path, why))?;
    if let Some(traces) = &mut told {
        symbols::name(traces, &core.notes.loaded, None);
    }
    Ok(told)
}

fn error_of(path: &Path, why: Unreadable) -> Error {
    let path = path.to_owned();
    match why {
        Unreadable::NoYard => Error::NoYard { path },
        Unreadable::Layout { found, known } => Error::Layout { path, found, known },
        Unreadable::Damaged(what) => Error::Damaged { path, what },
        Unreadable::Fault(Fault::Io(source)) => Error::Io { path, source },
        Unreadable::Fault(why @ (Fault::Absent(_) | Fault::Denied | Fault::Gone)) => {
            Error::Damaged { path, what: why.to_string() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::planted::{FRONT, PlantedTarget};
    use crate::value::Value;
    use slabyard_abi::region::{VERSION, Word};

    const HEADER: usize = 64;
    const PROGRAM_HEADER: usize = 56;

    /// An ELF file of a type, with the planted yard as segments and one note.
    fn elf(kind: u16, planted: &PlantedTarget) -> Vec<u8> {
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
        sample(&path, ReadScope { all: false, slabs: true })
    }

    fn refusal(bytes: &[u8]) -> String {
        sample_of(bytes).expect_err("no core with a yard").to_string()
    }

    #[test]
    fn a_core_tells_what_its_process_held() {
        let planted = PlantedTarget::yard();
        let snapshot = sample_of(&elf(4, &planted)).expect("a core");
        assert_eq!(crate::identity::check(&snapshot), []);
        let live =
            yards::sample(&planted, ReadScope { all: false, slabs: true }, snapshot.source.clone());
        let live = live.expect("a yard");
        assert_eq!((snapshot.caches, &snapshot.totals), (live.caches, &live.totals));
        assert_eq!(snapshot.source.kind, SourceKind::Core);
        assert_eq!(snapshot.source.pid, Some(4321));
        assert_eq!(snapshot.source.program.as_deref(), Some("loader"));
        assert_eq!(snapshot.totals.get("mode"), Some(&Value::Exact(1)));
        assert!(!snapshot.totals.contains_key("resident"));
    }

    #[test]
    fn a_core_without_the_end_is_truncated() {
        let file = elf(4, &PlantedTarget::yard());
        for left in [file.len() - 1, file.len() / 2] {
            let text = refusal(&file[..left]);
            let sizes = format!("truncated: it has {left} bytes and speaks of {}", file.len());
            assert!(text.contains(&sizes), "{text}");
        }
        assert!(refusal(&file[..HEADER + 10]).contains("headers are damaged"));
    }

    #[test]
    fn what_is_no_core_is_refused() {
        let planted = PlantedTarget::yard();
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
        let text = sample(&me, ReadScope::default()).expect_err("a program").to_string();
        assert!(text.contains("is not a core file: it is a program"), "{text}");
        let text =
            sample(Path::new("/"), ReadScope::default()).expect_err("a directory").to_string();
        assert!(text.contains("no regular file"), "{text}");
    }

    #[test]
    fn a_core_without_a_yard_of_this_layout_is_refused() {
        let planted = PlantedTarget::yard();
        planted.word(Word::Version, VERSION + 1);
        let text = format!("has layout {}; this slabyard reads {VERSION}", VERSION + 1);
        assert!(refusal(&elf(4, &planted)).contains(&text));
        planted.put(FRONT, 0);
        assert!(refusal(&elf(4, &planted)).contains("holds no yard"));
        let planted = PlantedTarget::yard();
        planted.word(Word::Caches, 0x9999_0000);
        assert!(refusal(&elf(4, &planted)).contains("damaged: nothing to read at 0x99990000"));
    }
}
