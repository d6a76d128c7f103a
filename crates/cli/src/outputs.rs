//! Files that a command writes beside its result: none may be one that it reads.

use crate::failure::Failure;
use slabyard_ask::files::DASH;
use slabyard_observe::file;
use std::path::Path;

/// Refuses to write the file of an option over a file that is read, of which `FILE#DUMP` names a part,
/// or among the report. For the start of long work.
pub fn look_before<P: AsRef<Path>>(
    option: &str,
    to: &Path,
    inputs: impl IntoIterator<Item = P>,
) -> Result<(), Failure> {
    if to == Path::new(DASH) {
        let text = format!("standard output has the report; give {option} the name of a file");
        return Err(Failure::Usage(text));
    }
    let Ok(there) = to.canonicalize() else { return Ok(()) };
    for input in inputs {
        let (read, _) = file::dump_of(input.as_ref());
        if read.canonicalize().is_ok_and(|read| read == there) {
            return Err(Failure::Usage(format!(
                "{option} {} would write over {}, which is read",
                to.display(),
                read.display()
            )));
        }
    }
    Ok(())
}
