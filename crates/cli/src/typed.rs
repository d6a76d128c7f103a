//! Words as a shell takes them, for commands that are shown.

use slabyard_observe::view::cell::clean;
use std::ffi::OsString;

/// A command as a shell would take it.
pub fn command(words: &[OsString]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=,:+@%".contains(c);
    let word = |word: &OsString| match word.to_string_lossy() {
        word if !word.is_empty() && word.chars().all(plain) => word.into_owned(),
        word => format!("'{}'", word.replace('\'', "'\\''")),
    };
    clean(&words.iter().map(word).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_shown_as_a_shell_takes_it() {
        let words = ["a", "", "b c", "it's", "x=1"].map(OsString::from);
        assert_eq!(command(&words), r"a '' 'b c' 'it'\''s' x=1");
    }
}
