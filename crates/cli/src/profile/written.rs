//! Writes a profile's files, each at once: what is there under its name is whole.

use crate::failure::Failure;
use crate::stderr::say;
use anyhow::Context;
use slabyard_observe::profile::{Profile, ProfileSite, collapsed as stacks, pprof as encoded};
use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;

/// What collapsed stacks count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Counted {
    /// Bytes that live
    Live,
    /// Objects that live
    LiveObjects,
    /// Bytes that were allocated
    Allocated,
    /// Objects that were allocated
    AllocatedObjects,
}

impl Counted {
    fn of(self, site: &ProfileSite) -> f64 {
        match self {
            Counted::Live => site.live_bytes,
            Counted::LiveObjects => site.live_objects,
            Counted::Allocated => site.alloc_bytes,
            Counted::AllocatedObjects => site.alloc_objects,
        }
    }
}

/// Writes the file for pprof.
pub fn pprof(profile: &Profile, path: &Path) -> Result<(), Failure> {
    whole(path, |out| encoded::write(profile, out))
}

/// Writes the file for flame graphs.
pub fn collapsed(profile: &Profile, count: Counted, path: &Path) -> Result<(), Failure> {
    whole(path, |mut out| stacks::write(profile, |site| count.of(site), &mut out))
}

/// Writes beside the file, and then in its place.
fn whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let written = || {
        let mut file = tempfile::Builder::new()
            // As any new file: the umask takes its part.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)?;
        let mut out = BufWriter::new(file.as_file_mut());
        write(&mut out)?;
        out.flush()?;
        drop(out);
        file.persist(path)?;
        io::Result::Ok(())
    };
    Ok(written().with_context(|| path.display().to_string())?)
}

/// The exit code; says what is missing.
pub fn doubt(profile: &Profile) -> ExitCode {
    let Profile { lost_samples, lost_frees, cut_stacks, .. } = profile;
    if *cut_stacks > 0 {
        say(&format!("{cut_stacks} stacks are deeper than what is copied of them, and are cut"));
    }
    if *lost_samples == 0 && *lost_frees == 0 {
        return ExitCode::SUCCESS;
    }
    say(&format!(
        "{lost_samples} samples and {lost_frees} frees were lost: there were more than could be \
         taken; sample less with a larger --rate"
    ));
    ExitCode::from(1)
}
