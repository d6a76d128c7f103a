//! `slabyard export --as slabinfo` and `--as sysfs`: a source as the files of a kernel.
//!
//! Neighbour: `observe::kernel::files` makes the texts. Invariant: a folder has all its files before
//! it has its name.

use crate::failure::Failure;
use crate::stderr::say;
use crate::{look, stdout};
use anyhow::{Context, anyhow};
use slabyard_observe::kernel::files::{self, Entry};
use slabyard_observe::snapshot::Missing;
use slabyard_observe::source::{ReadScope, SourceName};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::ExitCode;

/// Prints the text of slabinfo.
pub(super) fn slabinfo(source: &SourceName) -> Result<ExitCode, Failure> {
    let snapshot = look::sample(source, ReadScope::default())?;
    let (text, missing) = files::slabinfo(&snapshot);
    tell(source, &missing, snapshot.caches.len())?;
    stdout::print(text.as_bytes())
}

/// Writes the folder.
pub(super) fn tree(source: &SourceName, to: &Path) -> Result<ExitCode, Failure> {
    let is_free = match fs::read_dir(to) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if !is_free {
        let text = format!("{} is not empty; name a new folder with --output", to.display());
        return Err(Failure::Usage(text));
    }
    let snapshot = look::sample(source, ReadScope { all: true, slabs: false })?;
    let (_, missing) = files::slabinfo(&snapshot);
    tell(source, &missing, snapshot.caches.len())?;
    write(&files::tree(&snapshot), to).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Says which caches have no row; fails if none has one.
fn tell(source: &SourceName, missing: &[Missing], caches: usize) -> Result<(), Failure> {
    let Some(first) = look::first_of(missing) else { return Ok(()) };
    if missing.len() == caches {
        return Err(anyhow!("{source}: no cache of it has a row in slabinfo: {first}").into());
    }
    say(&format!("slabinfo: {first}"));
    Ok(())
}

fn write<'a>(
    entries: impl IntoIterator<Item = (&'a std::path::PathBuf, &'a Entry)>,
    to: &Path,
) -> io::Result<()> {
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let folder = tempfile::Builder::new().prefix(".slabyard-").tempdir_in(parent)?;
    for (path, entry) in entries {
        let path = folder.path().join(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        match entry {
            Entry::File(text) => fs::write(&path, text)?,
            Entry::Link(target) => symlink(target, &path)?,
        }
    }
    // As any new folder, as far as a temporary one permits.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    // Over an empty folder, too.
    fs::rename(folder.path(), to)?;
    let _ = folder.keep();
    Ok(())
}
