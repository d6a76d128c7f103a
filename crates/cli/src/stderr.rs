//! Standard error, for messages to people. A closed standard error is no reason to fail, so nothing
//! here uses `eprintln`.

use slabyard_observe::view::cell::clean;
use std::io::{self, Write};

/// Writes a message in a line of its own, behind the command's name. It may quote a file of strangers,
/// and goes to a terminal without what would steer that.
pub fn say(message: &str) {
    let _ = writeln!(io::stderr(), "slabyard: {}", tame(message));
}

fn tame(message: &str) -> String {
    message.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

/// Writes text as it is.
pub fn write(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_its_lines_and_steers_no_terminal() {
        assert_eq!(tame("größe\nof `a`"), "größe\nof `a`");
        assert_eq!(tame("`\x1b[2J\u{9b}\r`\n\x07"), "`\u{fffd}[2J\u{fffd}\u{fffd}`\n\u{fffd}");
    }
}
