//! Standard error, for messages to people. A closed standard error is no reason to fail, so nothing
//! here uses `eprintln`.

use slabyard_observe::view::cell::clean;
use std::io::{self, Write};

/// Writes a message in a line of its own, behind the command's name. It may quote a file of strangers,
/// and goes to a terminal without what would steer that.
pub fn say(message: &str) {
    let lines: Vec<String> = message.split('\n').map(clean).collect();
    let _ = writeln!(io::stderr(), "slabyard: {}", lines.join("\n"));
}

/// Writes text as it is.
pub fn write(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
