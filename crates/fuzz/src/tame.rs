//! Where the targets print to: it takes nothing that steers a terminal.
//!
//! Neighbours: every target. Invariant: what was read from strangers is printed without control
//! characters, whatever they wrote. (Errors that quote it are cleaned where the command says them.)

use std::io::{self, Write};

/// A view's reader: ends of lines are the only control characters that it takes.
#[derive(Default)]
pub struct Tame {
    /// The last byte, where that begins a character of two.
    first: Option<u8>,
}

impl Write for Tame {
    /// # Panics
    /// A control character: a finding.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for &byte in bytes {
            // In UTF-8 U+0080 to U+009F are 0xc2 and that byte.
            let is_wide = self.first == Some(0xc2) && byte < 0xa0;
            assert!(
                !is_wide && (byte >= b' ' || byte == b'\n') && byte != 0x7f,
                "{byte:#x} is printed"
            );
            self.first = Some(byte);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The same of a text that a view made.
pub fn printed(text: &str) {
    Tame::default().write_all(text.as_bytes()).expect("it takes all");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn what_steers_a_terminal_is_refused() {
        printed("größe \u{2014} a line\nand another");
        for text in ["\x1b[2J", "\u{9b}31m", "a\rb", "\x7f", "\t"] {
            assert!(catch_unwind(|| printed(text)).is_err(), "{text:?}");
        }
    }
}
