//! Texts in the shape of public threads: the first finding is what the thread arrived at, or the
//! doctor says that it cannot tell, and why.

use serde::Deserialize;
use slabyard_doctor::{Look, Outcome, examine};
use slabyard_observe::source::SourceName;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Index {
    text: Vec<Pasted>,
}

/// A text, and what its thread arrived at.
#[derive(Deserialize)]
struct Pasted {
    file: PathBuf,
    finding: String,
    subject: String,
    #[serde(default)]
    also: Vec<String>,
}

/// What threads arrived at, in the words of the index, and the rules that say so.
const RULES: [(&str, &str); 17] = [
    ("negative dentries", "kernel.negative-dentries"),
    ("unreclaimable objects in use", "kernel.unreclaimable"),
    ("out of memory by unreclaimable slab", "kernel.out-of-memory"),
    ("sparse slabs", "kernel.sparse"),
    ("merged cache", "kernel.merged"),
    ("dead cgroups", "kernel.dead-cgroups"),
    ("simply live", "live"),
    ("many tasks", "kernel.tasks"),
    ("inodes of one file system", "kernel.cached-files"),
    ("packets in queues of sockets", "kernel.packets"),
    ("address space without memory", "address-space"),
    ("many arenas", "hoard.arenas"),
    ("free and not given back", "fragmented.heap"),
    ("pages abandoned by threads that ended", "hoard.abandoned"),
    ("memory outside the heap", "outside.mappings"),
    ("no free block of the order", "kernel.no-block"),
    ("memory corruption", "kernel.corruption"),
];

#[test]
fn each_text_is_found_to_be_what_its_thread_arrived_at() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../observe/tests/pasted");
    let index = std::fs::read_to_string(folder.join("index.toml")).expect("the index");
    let index: Index = toml::from_str(&index).expect("the index");
    assert!(index.text.len() >= 20);
    let mut wrong = Vec::new();
    for pasted in &index.text {
        let path = folder.join(&pasted.file);
        let look = Look::take(&SourceName::File(path)).expect("a text that is read");
        let found = examine(&[look], None);
        let is_note = ["simply live", "address space without memory"].contains(&&*pasted.finding);
        let first = if is_note { found.notes.first() } else { found.findings.first() };
        let right = first.is_some_and(|first| {
            let subjects = || std::iter::once(&pasted.subject).chain(&pasted.also);
            let named = subjects().any(|it| first.says.contains(it) || first.caches.contains(it));
            named
                && match pasted.finding.strip_prefix("cannot tell, because ") {
                    Some(_) => first.says.contains("Cannot tell whose it is, because"),
                    None => RULES.contains(&(&pasted.finding, first.id)),
                }
        });
        let outcome = if is_note { Outcome::NothingFound } else { Outcome::Found };
        if !right || found.outcome != outcome {
            let says = first.map(|first| (first.id, first.says.clone()));
            wrong.push(format!("{}: {}: {says:?}", pasted.file.display(), pasted.finding));
        }
        let sum: i64 = found.verdict.parts.iter().map(|part| part.bytes).sum();
        assert_eq!(sum, i64::try_from(found.verdict.bytes).unwrap(), "{}", pasted.file.display());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
