//! The programs: how each is found, and how it is run on its input.
//!
//! A program is one process that does the same work each time and writes the same output. Where a
//! program does otherwise by default, options set here prevent it: hash seeds, codegen units, the
//! destination of the output.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::prepared::{Prepared, installed};
use super::{inputs, postgres, redis};
use crate::allocators::{Bench, without_settings};

pub struct Program {
    /// Its name in tables.
    pub name: &'static str,
    /// The Debian package that it comes with.
    pub package: &'static str,
    pub words: &'static str,
    /// Writes its input, and says how it is run.
    pub prepare: fn(&Bench) -> Result<Prepared>,
}

const fn program(
    name: &'static str,
    package: &'static str,
    words: &'static str,
    prepare: fn(&Bench) -> Result<Prepared>,
) -> Program {
    Program { name, package, words, prepare }
}

pub const PROGRAMS: [Program; 11] = [
    program("python-json", "python3", "builds, writes and reads JSON", python_json),
    program("python-pure", "python3", "messages, text, graphs, search, pickles", python_pure),
    program("cc1", "gcc", "gcc's compiler, -O2, a C file of 600 functions", cc1),
    program("sqlite3", "sqlite3", "inserts, indices and selects in memory", sqlite3),
    program(
        "redis-server",
        "redis-server",
        "120 000 commands, then redis-benchmark, by a Unix socket",
        redis::redis,
    ),
    program(
        "postgres",
        "postgresql",
        "fills tables, 2000 transactions of pgbench, aggregates",
        postgres::postgres,
    ),
    program("lua", "lua5.4", "tables, strings and closures", lua),
    program("gs", "ghostscript", "renders twenty pages of PostScript", gs),
    program("node", "nodejs", "objects, JSON, maps and buffers", node),
    program("z3", "z3", "ten pigeons in nine holes", z3),
    program("rustc", "rustc", "-O, a small crate of generic structures", rustc),
];

/// The path that a program prints, of an existing file.
fn told(program: &Path, args: &[&str]) -> Result<PathBuf> {
    let name = program.display();
    let out = without_settings(program).args(args).output().with_context(|| name.to_string())?;
    ensure!(out.status.success(), "{name}: {}", out.status);
    let path = PathBuf::from(String::from_utf8(out.stdout)?.trim());
    ensure!(path.exists(), "{name} tells of {}, which is not there", path.display());
    Ok(path)
}

/// The interpreter itself: `python3` may be a script that finds it.
fn python() -> Result<PathBuf> {
    told(&installed("python3")?, &["-c", "import sys; print(sys.executable)"])
}

fn python_json(bench: &Bench) -> Result<Prepared> {
    let script = bench.program("json_rounds.py").into_os_string();
    Ok(Prepared::new(python()?, [script, "--no-peak".into()]).setting("PYTHONHASHSEED", "0"))
}

fn python_pure(bench: &Bench) -> Result<Prepared> {
    let script = bench.unpack("pure.py", inputs::PURE)?;
    Ok(Prepared::new(python()?, [script]).setting("PYTHONHASHSEED", "0"))
}

/// The compiler proper, without the driver: one process.
fn cc1(bench: &Bench) -> Result<Prepared> {
    let compiler = told(&installed("gcc")?, &["-print-prog-name=cc1"])?;
    let source = bench.unpack("functions.c", inputs::c_source().as_bytes())?;
    let args = ["-quiet".into(), "-O2".into(), source.into_os_string()];
    Ok(Prepared::new(compiler, args).output("-o", bench.program("functions.s")))
}

fn sqlite3(bench: &Bench) -> Result<Prepared> {
    let script = bench.unpack("rows.sql", inputs::SQL)?;
    let read = format!(".read {}", script.display());
    Ok(Prepared::new(installed("sqlite3")?, ["-batch".to_owned(), ":memory:".to_owned(), read]))
}

fn lua(bench: &Bench) -> Result<Prepared> {
    let script = bench.unpack("objects.lua", inputs::LUA)?;
    Ok(Prepared::new(installed("lua5.4").or_else(|_| installed("lua"))?, [script]))
}

fn gs(bench: &Bench) -> Result<Prepared> {
    let script = bench.unpack("pages.ps", inputs::POSTSCRIPT)?;
    let args = ["-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-r100", "-sDEVICE=pgmraw"];
    let mut gs =
        Prepared::new(installed("gs")?, args).output("-sOutputFile=", bench.program("pages.pgm"));
    gs.args.push(script.into());
    Ok(gs)
}

fn node(bench: &Bench) -> Result<Prepared> {
    let script = bench.unpack("objects.js", inputs::JAVASCRIPT)?;
    Ok(Prepared::new(installed("node")?, [script]))
}

fn z3(bench: &Bench) -> Result<Prepared> {
    let problem = bench.unpack("holes.smt2", inputs::smt().as_bytes())?;
    Ok(Prepared::new(installed("z3")?, [problem]))
}

/// The compiler itself, not rustup's chooser: the first that does not bring an
/// allocator of its own, as Rust's official builds do.
fn rustc(bench: &Bench) -> Result<Prepared> {
    let named = installed("rustc").and_then(|rustc| {
        let sysroot = told(&rustc, &["--print", "sysroot"])?;
        Ok(sysroot.join("bin/rustc"))
    });
    let system = PathBuf::from("/usr/bin/rustc");
    let candidates = [Some(system), named.ok()].into_iter().flatten().filter(|path| path.exists());
    let mut own = false;
    for compiler in candidates {
        match defines_malloc(&compiler) {
            Ok(false) => {
                let source = bench.unpack("structures.rs", inputs::rust_source().as_bytes())?;
                let mut args: Vec<OsString> = vec![source.into()];
                args.extend(
                    ["--edition=2021", "--crate-type=lib", "--emit=obj", "-O", "-Ccodegen-units=1"]
                        .map(OsString::from),
                );
                let object = bench.program("structures.o");
                return Ok(Prepared::new(compiler, args).output("-o", object));
            }
            Ok(true) => own = true,
            Err(error) => return Err(error),
        }
    }
    // Where it lies on this machine is of no use elsewhere.
    ensure!(!own, "rustc has an allocator of its own linked in");
    bail!("no rustc")
}

/// True if a program defines the symbol that a preload would: then a preload
/// has no effect on it.
fn defines_malloc(program: &Path) -> Result<bool> {
    let out = Command::new("nm").args(["-D", "--defined-only"]).arg(program).output();
    let out = out.context("nm, of Debian's package binutils")?;
    ensure!(out.status.success(), "nm {}: {}", program.display(), out.status);
    let symbols = String::from_utf8_lossy(&out.stdout);
    Ok(symbols.lines().any(|line| line.split_whitespace().last() == Some("malloc")))
}
