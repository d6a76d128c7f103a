//! Runs C and C++ programs under the preload library, one process each.
//!
//! [`library`] and [`engines`] build the libraries under test; [`Program`] compiles a test program
//! once; [`Program::run`] runs it in a [`Mode`] and returns an [`Outcome`], which [`expectation`]
//! judges. Neighbours: `process.rs` (programs that must pass) and `misuse.rs` (programs that must
//! be stopped).
//!
//! Invariants: neither a run nor any of its children outlives its time limit; an output is compiled
//! under a temporary name and renamed, so that tests that run at the same time never see half a
//! file.

pub mod expectation;

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

/// The time that a program gets.
pub const LIMIT: Duration = Duration::from_secs(180);

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;
const SIGSEGV: i32 = 11;
/// A stopped process goes on.
pub const SIGCONT: i32 = 18;
/// A process stops.
pub const SIGSTOP: i32 = 19;

/// How a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The library on the C library's rseq area.
    Rseq,
    /// The library on its own rseq area.
    OwnRseq,
    /// The library with a private slot for each thread.
    Slots,
    /// The engine `tiny`, of the library of all engines, on the C library's rseq area.
    TinyRseq,
    /// The same with a private slot for each thread.
    TinySlots,
    /// SLOB, on the C library's rseq area.
    SlobRseq,
    /// CPU slabs of a release, whose lists count in this way, and which count slow paths.
    CpuSlabs(&'static str, &'static str),
    /// The same with a private slot for each thread.
    CpuSlabsSlots(&'static str),
    /// Sheaves over CPU slabs, whose lists count in this way.
    Mixed(&'static str),
    /// The engine slab, on the C library's rseq area.
    SlabRseq,
    /// The same with a private slot for each thread.
    SlabSlots,
    /// The engine slab on two memory nodes, on the C library's rseq area.
    SlabNodes,
    /// As this, of the engine slub with sheaves.
    SlubNodes,
    /// Without the library: the programs request only what any malloc guarantees.
    Libc,
}

impl Mode {
    /// The mode of a test's name.
    pub fn named(name: &str) -> Mode {
        match name {
            "rseq" => Mode::Rseq,
            "own_rseq" => Mode::OwnRseq,
            "slots" => Mode::Slots,
            "tiny_rseq" => Mode::TinyRseq,
            "tiny_slots" => Mode::TinySlots,
            "slab_rseq" => Mode::SlabRseq,
            "slab_slots" => Mode::SlabSlots,
            "slab_nodes" => Mode::SlabNodes,
            "slub_nodes" => Mode::SlubNodes,
            "slob_rseq" => Mode::SlobRseq,
            "libc" => Mode::Libc,
            _ => panic!("no mode is named {name}"),
        }
    }

    /// True if each thread has a private slot.
    pub fn has_slots(self) -> bool {
        matches!(self, Mode::Slots | Mode::TinySlots | Mode::SlabSlots | Mode::CpuSlabsSlots(_))
    }

    /// True if CPUs have slabs, and no sheaves.
    pub fn has_cpu_slabs(self) -> bool {
        matches!(self, Mode::CpuSlabs(..) | Mode::CpuSlabsSlots(_))
    }

    /// True if CPUs have array caches.
    pub fn has_arrays(self) -> bool {
        matches!(self, Mode::SlabRseq | Mode::SlabSlots | Mode::SlabNodes)
    }

    /// True if nothing is parked: the engine `tiny` serves, or SLOB.
    pub fn parks_nothing(self) -> bool {
        matches!(self, Mode::TinyRseq | Mode::TinySlots | Mode::SlobRseq)
    }

    fn set_up(self, command: &mut Command) {
        let word = match self {
            // As users run it: without an option the yard starts at the first call.
            Mode::Rseq => {
                command.env("LD_PRELOAD", library());
                return;
            }
            Mode::Libc => return,
            Mode::TinyRseq | Mode::SlabRseq | Mode::SlobRseq => "rseq",
            Mode::CpuSlabs(..) | Mode::Mixed(_) | Mode::SlabNodes | Mode::SlubNodes => "rseq",
            Mode::OwnRseq => {
                command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
                "own-rseq"
            }
            Mode::Slots | Mode::TinySlots | Mode::SlabSlots | Mode::CpuSlabsSlots(_) => "slots",
        };
        let mut cpu_slabs = |front, release, accounting| {
            command.env("SLABYARD_FRONT", front).env("SLABYARD_RELEASE", release);
            command.env("SLABYARD_ACCOUNTING", accounting).env("SLABYARD_COUNT", "1");
            engines()
        };
        let library = match self {
            Mode::CpuSlabs(release, accounting) => cpu_slabs("cpu-slabs", release, accounting),
            Mode::CpuSlabsSlots(release) => cpu_slabs("cpu-slabs", release, "release"),
            Mode::Mixed(accounting) => cpu_slabs("mixed", "6.18", accounting),
            Mode::TinyRseq | Mode::TinySlots => {
                command.env("SLABYARD_ENGINE", "tiny");
                engines()
            }
            Mode::SlabRseq | Mode::SlabSlots => {
                command.env("SLABYARD_ENGINE", "slab");
                engines()
            }
            Mode::SlabNodes => {
                command.env("SLABYARD_ENGINE", "slab").env("SLABYARD_NODES", "2");
                engines()
            }
            Mode::SlubNodes => {
                command.env("SLABYARD_NODES", "2");
                engines()
            }
            Mode::SlobRseq => {
                command.env("SLABYARD_ENGINE", "slob");
                engines()
            }
            _ => library(),
        };
        command.env("LD_PRELOAD", library).env("SLABYARD_MODE", word);
    }
}

/// The directory of the tests' sources.
pub fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The library under test: `SLABYARD_LIB`, or the one of this build's profile; of the release build beside
/// tests of `tested`.
/// Cargo does not build a `cdylib` for its own integration tests, so it is
/// asked to; when nothing has changed this is quick.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let library = match std::env::var_os("SLABYARD_LIB") {
            Some(path) => PathBuf::from(path),
            None => build_library("malloc"),
        };
        fs::canonicalize(&library).unwrap_or_else(|e| panic!("{}: {e}", library.display()))
    })
}

/// The library of all engines, of this build's profile.
pub fn engines() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build_library("engines"))
}

fn build_library(name: &str) -> PathBuf {
    // <target>/<profile>/deps/<this test>
    let me = std::env::current_exe().expect("the test's own path");
    let profile_dir = me.ancestors().nth(2).expect("a profile's directory");
    let target_dir = profile_dir.parent().expect("a target directory");
    let (profile, folder) = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => ("dev", "debug"),
        Some("tested") => ("release", "release"),
        Some(name) => (name, name),
    };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", &format!("slabyard-{name}"), "--profile", profile])
        .arg("--target-dir")
        .arg(target_dir)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo");
    assert!(status.success(), "the library does not build");
    target_dir.join(folder).join(format!("libslabyard_{name}.so"))
}

/// A program of the tests, compiled.
#[derive(Clone)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// Compiles `source`, a path below `tests/`; `None` if the compiler is not
    /// installed, which is said on stdout.
    pub fn compile(source: &str, arguments: &[String]) -> Option<Program> {
        let path = output(source, "");
        build(source, &path, arguments, None).then_some(Program { path })
    }

    /// As [`Program::compile`], by musl's compiler, linked with the library: musl has not all
    /// of its functions.
    pub fn compile_for_musl(source: &str) -> Option<Program> {
        let stem = Path::new(source).file_stem()?.to_str()?;
        let path = output(source, &format!("{stem}.musl"));
        let library = library().display().to_string();
        // What the library needs of another C library is weak.
        let arguments = [library, "-Wl,--allow-shlib-undefined".to_owned()];
        build(source, &path, &arguments, Some("musl-gcc")).then_some(Program { path })
    }
    /// Starts the program with these variables, and with pipes for stdin and stdout; who starts it
    /// ends it.
    pub fn start_with(&self, mode: Mode, arguments: &[&str], variables: &[(&str, &str)]) -> Child {
        let mut command = self.command();
        mode.set_up(&mut command);
        if mode == Mode::Rseq {
            // With an option it has a yard before its first call.
            command.env("SLABYARD_MODE", "rseq");
        }
        command.envs(variables.iter().copied());
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().expect("the program starts")
    }

    /// The file's location.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The program, without what would change its allocator.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("SLABYARD_") {
                command.env_remove(variable);
            }
        }
        command.env_remove("LD_PRELOAD").env_remove("GLIBC_TUNABLES");
        command
    }

    /// Runs the program until its end, at most for `limit`; on a machine that is said to be slower, for
    /// so many times as long.
    pub fn run(&self, mode: Mode, variables: &[(&str, &str)], limit: Duration) -> Outcome {
        static NR_RUNS: AtomicUsize = AtomicUsize::new(0);
        let run = NR_RUNS.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}.{}.{run}", self.path.display(), std::process::id());
        // Files, not pipes: a grandchild that lives on does not hold them up.
        let (out, err) = (format!("{name}.out"), format!("{name}.err"));

        let mut command = self.command();
        mode.set_up(&mut command);
        let mut child = command
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(File::create(&out).expect("a file for stdout"))
            .stderr(File::create(&err).expect("a file for stderr"))
            .process_group(0)
            .spawn()
            .expect("the program starts");

        let end = Instant::now() + limit * slower();
        let mut status = child.try_wait().expect("wait");
        while status.is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
            status = child.try_wait().expect("wait");
        }
        // Its process group: children that it left behind end as well.
        kill(SIGKILL, &child, true);
        if status.is_none() {
            child.wait().expect("wait");
        }

        let take = |path: &str| {
            let text = String::from_utf8_lossy(&fs::read(path).expect("output")).into_owned();
            let _ = fs::remove_file(path);
            text
        };
        Outcome { status, stdout: take(&out), stderr: take(&err) }
    }
}

/// How many times slower than a machine of today this one is said to be, as `check.h` reads it.
fn slower() -> u32 {
    std::env::var("TESTS_SLOWER").map_or(1, |told| told.parse().expect("TESTS_SLOWER is a number"))
}

/// Sends a signal to a process, or to its group; whether there is one.
pub fn kill(signal: i32, to: &Child, group: bool) -> bool {
    unsafe extern "C" {
        #[link_name = "kill"]
        safe fn send(to: i32, signal: i32) -> i32;
    }
    let to = i32::try_from(to.id()).expect("Linux's numbers are positive");
    send(if group { -to } else { to }, signal) == 0
}

/// Compiles a shared library from `source`; its path.
pub fn shared_library(source: &str, name: &str, arguments: &[&str]) -> Option<PathBuf> {
    let path = output(source, name);
    let mut all = vec!["-shared".to_owned(), "-fPIC".to_owned()];
    all.extend(arguments.iter().map(|&a| a.to_owned()));
    build(source, &path, &all, None).then_some(path)
}

/// How a program ended.
#[derive(Debug)]
pub struct Outcome {
    /// `None`: it was killed at its time limit.
    pub status: Option<ExitStatus>,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it and the library wrote to stderr.
    pub stderr: String,
}

impl Outcome {
    /// It ended by itself, with exit code 0.
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// It ended by itself, with whatever exit code.
    pub fn ended(&self) -> bool {
        self.status.is_some_and(|status| status.code().is_some())
    }

    /// It ended by `abort`.
    pub fn aborted(&self) -> bool {
        self.status.and_then(|status| status.signal()) == Some(SIGABRT)
    }

    /// It used memory that is not there.
    pub fn faulted(&self) -> bool {
        self.status.and_then(|status| status.signal()) == Some(SIGSEGV)
    }

    /// The lines that the library wrote.
    pub fn messages(&self) -> impl Iterator<Item = &str> {
        self.stderr.lines().filter_map(|line| line.strip_prefix("slabyard: "))
    }
}

fn output(source: &str, name: &str) -> PathBuf {
    let source = Path::new(source);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("programs")
        .join(source.parent().expect("a directory"));
    fs::create_dir_all(&directory).expect("a directory for programs");
    if name.is_empty() {
        directory.join(source.file_stem().expect("a name"))
    } else {
        directory.join(name)
    }
}

/// Compiles once in this process, and not at all if an earlier one's output is
/// newer than all sources. False if there is no compiler.
fn build(source: &str, path: &Path, arguments: &[String], compiler: Option<&str>) -> bool {
    type Done = Arc<OnceLock<bool>>;
    static DONE: OnceLock<Mutex<HashMap<PathBuf, Done>>> = OnceLock::new();
    let done = DONE.get_or_init(Mutex::default);
    let done =
        Arc::clone(done.lock().expect("no test panics here").entry(path.to_owned()).or_default());
    *done.get_or_init(|| compile(source, path, arguments, compiler))
}

fn compile(source: &str, path: &Path, arguments: &[String], compiler: Option<&str>) -> bool {
    let source = tests().join(source);
    let for_another = compiler.is_some();
    let compiler = match (compiler, source.extension().and_then(|e| e.to_str())) {
        (Some(compiler), _) => compiler.to_owned(),
        (_, Some("cc")) => std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned()),
        _ => std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()),
    };
    // For musl the library is linked, which may be another one now.
    if !for_another && is_current(&source, path) {
        return true;
    }
    let aside = path.with_extension(format!("{}.new", std::process::id()));
    let mut command = Command::new(&compiler);
    if source.extension().is_some_and(|e| e == "cc") {
        command.arg("-std=c++17");
    }
    // The misuse is intended: `-w`. The calls must be made: `-fno-builtin`.
    command.args(["-O1", "-g", "-w", "-fno-builtin", "-pthread"]);
    command.arg(&source).arg("-o").arg(&aside).args(arguments).arg("-ldl");
    match command.output() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: {compiler} is not installed");
            false
        }
        Err(e) => panic!("{compiler}: {e}"),
        Ok(done) => {
            let text = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{} does not compile:\n{text}", source.display());
            fs::rename(&aside, path).expect("the output moves to its place");
            true
        }
    }
}

fn is_current(source: &Path, path: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    let Some(built) = time(path) else {
        return false;
    };
    let directory = source.parent().expect("a directory");
    let newest = fs::read_dir(directory)
        .expect("the sources")
        .filter_map(|entry| time(&entry.expect("an entry").path()))
        .chain(time(&tests().join("process_runner/mod.rs")))
        .max();
    newest.unwrap_or(SystemTime::UNIX_EPOCH) < built
}
