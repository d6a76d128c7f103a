//! Each target on the files that are kept for it: what a fuzzer found once is found again.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use slabyard_fuzz::TARGETS;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

/// Address space of the test: what the fuzzer grants.
const MOST_BYTES: u64 = 2 << 30;

#[test]
fn no_target_stumbles_over_what_is_kept() {
    // An allocation that is refused ends the test.
    let limit = Rlimit { current: Some(MOST_BYTES), ..getrlimit(Resource::As) };
    setrlimit(Resource::As, limit).expect("a process may take less");
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for &(name, target) in TARGETS {
        let mut files = 0;
        for entry in fs::read_dir(corpora.join(name)).expect("a corpus of each target") {
            let path = entry.expect("an entry").path();
            let bytes = fs::read(&path).expect("a file");
            assert!(catch_unwind(|| target(&bytes)).is_ok(), "{name}: {}", path.display());
            files += 1;
        }
        assert!(files > 0, "{name} has nothing to begin with");
    }
}
