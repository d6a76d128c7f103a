//! What each test stands on: the command, a directory of its own, and a
//! preloaded library that leaves a known report, so that no engine is needed.

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
}

impl Stage {
    /// `None`, said aloud, on a machine without a C compiler.
    pub fn new() -> Option<Stage> {
        static COMPILED: OnceLock<Option<Compiled>> = OnceLock::new();
        let compiled = COMPILED.get_or_init(compile).as_ref()?;
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

    /// Gives a command this stage's surroundings.
    pub fn surround(&self, command: &mut Command) {
        command
            .env("SLABYARD_LIB", self.library())
            .env("FAKE_REPORT", self.path("left"))
            .env("TMPDIR", self.path("tmp"))
            .env_remove("LD_PRELOAD")
            .env_remove("SLABYARD_OBSERVABLE")
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

/// Where what is compiled goes, and the stages: on one file system with the
/// command, so that it can be linked into them.
fn built() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn compile() -> Option<Compiled> {
    let built = cc("fake.c", "libfake.so", &["-shared", "-fPIC"])
        .and_then(|library| Ok(Compiled { library, program: cc("program.c", "program", &[])? }));
    match built {
        Ok(compiled) => Some(compiled),
        Err(error) => {
            // Not eprintln, whose output is swallowed where a test passes.
            let mut stderr = std::io::stderr();
            writeln!(stderr, "SKIPPED: every test with a program: cc: {error}").unwrap();
            None
        }
    }
}

fn cc(source: &str, output: &str, flags: &[&str]) -> std::io::Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli").join(source);
    // Put in place as a whole: other runs of these tests may be under way.
    let fresh = built().join(format!("{output}.{}", std::process::id()));
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror"]).args(flags).arg("-o").arg(&fresh).arg(source);
    let status = cc.status()?;
    assert!(status.success(), "cc: {status}");
    std::fs::rename(&fresh, built().join(output))?;
    Ok(built().join(output))
}
