//! The program for Linux: the same loads, in memory laid out like the image's.

use slabyard_firmware::{MEMORY_BYTES, Machine, Tables, report};
use std::alloc::{Layout, alloc};
use std::fmt;
use std::io::{Write, stdout};
use std::process::ExitCode;

const HELP: &str = "\
Serves boot-like and random loads by each engine of a yard without a system, and prints
what came of them: what the images for machines without a system print.

Usage: slabyard-firmware [--plant]

  --plant   one number differs, for the test of the comparison

Examples:
  slabyard-firmware | grep booted      free pages and free blocks after each boot
  slabyard-firmware | grep order-7     blocks of 512 KiB that are left at the end
";

struct Program {
    memory: *mut u8,
    plants: bool,
}

impl fmt::Write for Program {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let text = if self.plants { text.replace("shrunk", "shrunk:") } else { text.into() };
        stdout().write_all(text.as_bytes()).map_err(|_| fmt::Error)
    }
}

impl Machine for Program {
    fn memory(&mut self) -> *mut u8 {
        self.memory
    }

    fn tables(&mut self) -> &'static mut Tables {
        Box::leak(Box::new(Tables::new()))
    }

    fn instructions(&self) -> Option<u64> {
        None
    }
}

pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let plants = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--plant"] => true,
        ["--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("slabyard-firmware: it takes --plant alone\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let layout = Layout::from_size_align(MEMORY_BYTES, 4096).expect("a layout");
    // SAFETY: the size is not 0.
    let memory = unsafe { alloc(layout) };
    match report(&mut Program { memory, plants }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
