//! What each test uses: the command, a directory of its own, and a preloaded library that writes a
//! known report, so that no engine is needed.

use crate::skipped::skip;
use slabyard_abi::counters::{CacheCounters, YardCounters};
use slabyard_abi::report::Writer;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The command's path.
pub const SLABYARD: &str = env!("CARGO_BIN_EXE_slabyard");

/// A directory with a report to leave and room for temporary files.
pub struct Stage {
    pub directory: TempDir,
    compiled: &'static Compiled,
}

struct Compiled {
    library: PathBuf,
    program: PathBuf,
    ends: PathBuf,
    holds: PathBuf,
    cases: PathBuf,
    /// `None` without a C library to link statically.
    static_ends: Option<PathBuf>,
}

impl Stage {
    /// `None`, said aloud, on a machine without a C compiler.
    pub fn new() -> Option<Stage> {
        let compiled = compiled()?;
        let stage = Stage { directory: TempDir::new_in(built()).unwrap(), compiled };
        std::fs::create_dir(stage.path("tmp")).unwrap();
        stage.leave(report().as_bytes());
        Some(stage)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn library(&self) -> &Path {
        &self.compiled.library
    }

    /// A program that runs a shell script and leaves a report.
    pub fn program(&self) -> &Path {
        &self.compiled.program
    }

    /// A program that ends as it is told.
    pub fn ends(&self) -> &Path {
        &self.compiled.ends
    }

    /// The same, statically linked; `None`, said aloud, where that cannot be.
    pub fn static_ends(&self) -> Option<&Path> {
        if self.compiled.static_ends.is_none() {
            skip("static programs: there is no static C library");
        }
        self.compiled.static_ends.as_deref()
    }

    /// The bytes that the program is to leave as its report.
    pub fn leave(&self, report: &[u8]) {
        std::fs::write(self.path("left"), report).unwrap();
    }

    /// `slabyard` in this stage's surroundings.
    pub fn slabyard(&self) -> Command {
        let mut command = Command::new(SLABYARD);
        self.surround(&mut command);
        command
    }

    /// The same with another library.
    pub fn slabyard_on(&self, library: &Path) -> Command {
        let mut command = self.slabyard();
        command.env("SLABYARD_LIB", library);
        command
    }

    /// Gives a command this stage's surroundings.
    pub fn surround(&self, command: &mut Command) {
        command
            .env("SLABYARD_LIB", self.library())
            .env("FAKE_REPORT", self.path("left"))
            .env("TMPDIR", self.path("tmp"))
            .env_remove("LD_PRELOAD")
            .env_remove("SLABYARD_OBSERVABLE")
            .env_remove("SLABYARD_ENGINE")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
    }

    /// `slabyard run OPTIONS -- PROGRAM SCRIPT`, to its end.
    pub fn run(&self, options: &[&str], script: &str) -> Output {
        let mut command = self.slabyard();
        command.arg("run").args(options).arg("--").arg(self.program()).arg(script);
        command.output().unwrap()
    }

    /// `slabyard run OPTIONS -- sh -c SCRIPT`, to its end.
    pub fn sh(&self, options: &[&str], script: &str) -> Output {
        let mut command = self.slabyard();
        command.arg("run").args(options).args(["--", "sh", "-c", script]);
        command.output().unwrap()
    }

    /// True if nothing was left where temporary files go.
    pub fn is_clean(&self) -> bool {
        std::fs::read_dir(self.path("tmp")).unwrap().next().is_none()
    }
}

/// The caches' and the yard's numbers in the known report.
pub fn report() -> String {
    let cache = |slabs: u64, live: u64| CacheCounters {
        object_size: 64,
        slab_size: 64,
        objs_per_slab: 64,
        slabs,
        total_objects: slabs * 64,
        live,
        free_partial: slabs * 64 - live,
        bytes: slabs * 4096,
        ..Default::default()
    };
    let yard = YardCounters {
        live: 80 * 64,
        free_partial: 3 * 4096 - 80 * 64,
        metadata: 4096,
        committed: 4 * 4096,
        resident: 1 << 20,
        ..Default::default()
    };
    let mut text = String::new();
    let mut writer = Writer::new(&mut text).unwrap();
    writer.process(4711).unwrap();
    writer.yard(&yard).unwrap();
    writer.cache("malloc-32", &cache(0, 0)).unwrap();
    writer.cache("malloc-64", &cache(1, 16)).unwrap();
    writer.cache("malloc-96", &cache(2, 64)).unwrap();
    writer.end().unwrap();
    text
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The command with these bytes as its standard input, by a pipe.
pub fn piped(args: &[&str], bytes: &[u8]) -> Output {
    let mut command = Command::new(SLABYARD);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // One that refuses before it reads is none the worse.
    let _ = child.stdin.take().unwrap().write_all(bytes);
    child.wait_with_output().unwrap()
}

/// Where what is compiled goes, and the stages: on one file system with the
/// command, so that it can be linked into them.
fn built() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The library as users have it, of this build's profile; of the release build beside tests of `tested`.
/// Cargo does not build it for these tests, so it is asked to.
pub fn real_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| cargo_builds("malloc"))
}

/// The same with all engines in it.
pub fn real_engines() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| cargo_builds("engines"))
}

fn cargo_builds(name: &str) -> PathBuf {
    // <target>/<profile>/slabyard
    let profile_dir = Path::new(SLABYARD).parent().unwrap();
    let target_dir = profile_dir.parent().unwrap();
    let (profile, folder) = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => ("dev", "debug"),
        Some("tested") => ("release", "release"),
        Some(name) => (name, name),
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--profile", profile, "--package"]);
    cargo.arg(format!("slabyard-{name}"));
    cargo.arg("--target-dir").arg(target_dir);
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
    assert!(status.success(), "the library does not build");
    target_dir.join(folder).join(format!("libslabyard_{name}.so"))
}

/// The program `holds.c`; `None`, said aloud, without a C compiler.
pub fn holds() -> Option<&'static Path> {
    compiled().map(|compiled| compiled.holds.as_path())
}

/// The program `cases.c`; `None`, said aloud, without a C compiler.
pub fn cases() -> Option<&'static Path> {
    compiled().map(|compiled| compiled.cases.as_path())
}

fn compiled() -> Option<&'static Compiled> {
    static COMPILED: OnceLock<Option<Compiled>> = OnceLock::new();
    let compiled = COMPILED.get_or_init(compile).as_ref();
    if compiled.is_none() {
        // Of each test, and aloud once.
        println!("skipped: there is no C compiler");
    }
    compiled
}

fn compile() -> Option<Compiled> {
    let all = || -> std::io::Result<Compiled> {
        Ok(Compiled {
            library: cc("fake.c", "libfake.so", &["-shared", "-fPIC"])?,
            program: cc("program.c", "program", &[])?,
            ends: cc("ends.c", "ends", &["-pthread"])?,
            holds: cc("holds.c", "holds", &[])?,
            cases: cc("cases.c", "cases", &["-pthread", "-O1", "-g"])?,
            static_ends: cc("ends.c", "static-ends", &["-pthread", "-static"]).ok(),
        })
    };
    match all() {
        Ok(compiled) => Some(compiled),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("cc: {error}"),
        Err(error) => {
            skip(&format!("every test with a program: cc: {error}"));
            None
        }
    }
}

fn cc(source: &str, output: &str, flags: &[&str]) -> std::io::Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli").join(source);
    // Put in place as a whole: other runs of these tests may be under way.
    let fresh = built().join(format!("{output}.{}", std::process::id()));
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-fno-builtin"]).args(flags).arg("-o").arg(&fresh).arg(&source);
    let status = cc.status()?;
    if !status.success() {
        return Err(std::io::Error::other(format!("{}: {status}", source.display())));
    }
    std::fs::rename(&fresh, built().join(output))?;
    Ok(built().join(output))
}
