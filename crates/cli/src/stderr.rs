//! Standard error, for messages to people. A closed standard error is no reason to fail, so nothing
//! here uses `eprintln`.

use std::io::{self, Write};

/// Writes a message in a line of its own, behind the command's name.
pub fn say(message: &str) {
    let _ = writeln!(io::stderr(), "slabyard: {message}");
}

/// Writes text as it is.
pub fn write(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
