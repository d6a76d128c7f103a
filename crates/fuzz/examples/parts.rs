//! The parts of a trace, for the corpora of the fuzzers that seal them: `parts FILE >SEED`.

use std::io::Write;
use std::{env, fs, io, process};

fn main() -> io::Result<()> {
    let Some(file) = env::args_os().nth(1) else {
        eprintln!("usage: parts FILE");
        process::exit(2);
    };
    match slabyard_fuzz::parts_of_trace(&fs::read(&file)?) {
        Some(parts) => io::stdout().write_all(&parts),
        None => Err(io::Error::other("no sound trace of short chunks")),
    }
}
