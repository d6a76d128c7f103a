//! What a test does not test here, said aloud.

use std::io::Write;

/// Says it at once, which a harness that swallows what tests print does not swallow, and as what the
/// test printed, so that who asks for that knows whose line it is.
pub fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
    println!("skipped: {why}");
}
