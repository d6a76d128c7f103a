//! The peers that take long to build: snmalloc, jemalloc, rpmalloc and Google's tcmalloc. Each is
//! built from the sources in its Rust crate, in the way that its own build system builds the library
//! meant for preloading; tcmalloc, whose has none, from all its sources in one library.
//!
//! The crates are dependencies of a target that does not exist: so `Cargo.lock` has their versions
//! and cargo fetches them, but their bindings and build scripts, which build other variants, never
//! run. `cargo metadata` reports where the sources are.
//!
//! A peer that cannot be built does not fail the build: the table written for `src/peers.rs` gives
//! the reason, and so does a warning.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::{Language, compiler, compiler_version};

struct Recipe {
    name: &'static str,
    /// The crate that holds its sources.
    package: &'static str,
    /// What takes the switches.
    tool: &'static str,
    flags: &'static [&'static str],
    build: fn(&Sources, &Path) -> Result<(), String>,
}

/// A crate's sources, and where to build.
struct Sources<'a> {
    recipe: &'a Recipe,
    version: String,
    /// The directory of the crate's manifest.
    root: PathBuf,
    out: &'a Path,
}

const RECIPES: &[Recipe] = &[
    Recipe {
        name: "snmalloc",
        package: "snmalloc-sys",
        tool: "c++",
        // What `CMakeLists.txt` gives `snmallocshim` in its release build.
        flags: &[
            "-O3",
            "-DNDEBUG",
            "-std=gnu++20",
            "-DMALLOC_USABLE_SIZE_QUALIFIER=const",
            "-DSNMALLOC_CHECK_LOADS=false",
            "-DSNMALLOC_EXPORT=__attribute__((visibility(\"default\")))",
            "-DSNMALLOC_HAS_LINUX_FUTEX_H",
            "-DSNMALLOC_HAS_LINUX_RANDOM_H",
            "-DSNMALLOC_NO_REALLOCARR",
            "-DSNMALLOC_NO_REALLOCARRAY",
            "-DSNMALLOC_PAGEID=false",
            "-DSNMALLOC_PLATFORM_HAS_GETENTROPY",
            "-DSNMALLOC_PTHREAD_ATFORK_WORKS",
            "-DSNMALLOC_USE_CXX11_THREAD_ATEXIT_DIRECT",
            "-DSNMALLOC_USE_WAIT_ON_ADDRESS=1",
            "-fPIC",
            "-fvisibility=hidden",
            "-fno-rtti",
            "-fomit-frame-pointer",
            "-ftls-model=initial-exec",
            "-ffunction-sections",
            #[cfg(target_arch = "x86_64")]
            "-mcx16",
            "-Wl,--no-undefined",
            "-static-libstdc++",
            "-shared",
            "-pthread",
        ],
        build: snmalloc,
    },
    Recipe {
        name: "jemalloc",
        package: "tikv-jemalloc-sys",
        tool: "configure",
        // Its defaults; all switches of the compiler are its own.
        flags: &["--enable-doc=no"],
        build: jemalloc,
    },
    Recipe {
        name: "rpmalloc",
        package: "rpmalloc-sys",
        tool: "cc",
        // What `configure.py` gives `rpmallocwrap` in its release build.
        flags: &[
            "-O3",
            "-std=c11",
            "-DRPMALLOC_COMPILE=1",
            "-DBUILD_RELEASE=1",
            "-DENABLE_PRELOAD=1",
            "-DENABLE_OVERRIDE=1",
            "-D_GNU_SOURCE=1",
            "-funit-at-a-time",
            "-fstrict-aliasing",
            "-funroll-loops",
            "-fvisibility=hidden",
            "-fno-stack-protector",
            "-fomit-frame-pointer",
            "-fno-math-errno",
            "-ffinite-math-only",
            "-funsafe-math-optimizations",
            "-fno-trapping-math",
            "-ffast-math",
            "-fPIC",
            "-w",
            "-shared",
            "-pthread",
        ],
        build: rpmalloc,
    },
    Recipe {
        name: "tcmalloc",
        package: "libtcmalloc-sys",
        tool: "c++",
        // What the crate's build script gives, with all functions of the C library.
        flags: &[
            "-O2",
            "-std=gnu++20",
            "-DNDEBUG",
            "-DTCMALLOC_INTERNAL_8K_PAGES",
            "-fPIC",
            "-fno-omit-frame-pointer",
            "-ftls-model=initial-exec",
            "-w",
            "-pthread",
        ],
        build: tcmalloc,
    },
];

const HOW: &str = "not built; `cargo build --release -p slabyard-bench --features peers` builds it";

/// Builds the requested peers, and writes `peers.rs`: an array of `Built`.
pub fn write_table(out: &Path) {
    let metadata = cfg!(feature = "peers").then(metadata);
    let rows = RECIPES.iter().map(|recipe| match &metadata {
        None => row(recipe, "", Err(HOW)),
        Some(Err(why)) => row(recipe, "", Err(why)),
        Some(Ok(packages)) => match sources(recipe, packages, out) {
            Err(why) => row(recipe, "", Err(&why)),
            Ok(sources) => match built(&sources) {
                Ok(file) => row(recipe, &sources.version, Ok(&file)),
                Err(why) => {
                    println!("cargo:warning={} could not be built: {why}", recipe.name);
                    row(recipe, &sources.version, Err(&why))
                }
            },
        },
    });
    let table = format!("&[\n{}]\n", rows.collect::<String>());
    fs::write(out.join("peers.rs"), table).expect("OUT_DIR can be written");
}

fn row(recipe: &Recipe, version: &str, library: Result<&str, &str>) -> String {
    let library = match library {
        Ok(file) => {
            format!("Ok(include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{file}\")).as_slice())")
        }
        Err(why) => format!("Err({why:?})"),
    };
    let Recipe { name, package, tool, flags, .. } = recipe;
    let flags = format!("{tool} {}", flags.join(" "));
    format!(
        "Built {{ name: {name:?}, package: {package:?}, version: {version:?}, \
         flags: {flags:?}, library: {library} }},\n"
    )
}

/// Names, versions and places of all packages.
fn metadata() -> Result<Value, String> {
    let cargo = env::var_os("CARGO").expect("cargo sets CARGO");
    let manifest = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it") + "/Cargo.toml";
    let out = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--manifest-path", &manifest])
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !out.status.success() {
        return Err(format!("cargo metadata: {}", last_line(&out.stderr)));
    }
    serde_json::from_slice(&out.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// The version of a package, and the directory of its manifest.
fn found(package: &str, metadata: &Value) -> Result<(String, PathBuf), String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut found = packages.filter(|it| it["name"] == package);
    let row = found.next().ok_or_else(|| format!("no package {package}"))?;
    let text = |key: &str| {
        row[key].as_str().ok_or_else(|| format!("cargo metadata: no {key} of {package}"))
    };
    let root = Path::new(text("manifest_path")?).parent().unwrap_or(Path::new("/")).to_owned();
    Ok((text("version")?.to_owned(), root))
}

/// The directory of a package's manifest.
pub fn root_of(package: &str) -> Result<PathBuf, String> {
    Ok(found(package, &metadata()?)?.1)
}

fn sources<'a>(recipe: &'a Recipe, metadata: &Value, out: &'a Path) -> Result<Sources<'a>, String> {
    let (version, root) = found(recipe.package, metadata)?;
    Ok(Sources { recipe, version, root, out })
}

/// The library's file in OUT_DIR; it is made anew only if its version, its
/// flags or the compiler changed.
fn built(sources: &Sources) -> Result<String, String> {
    let Recipe { name, flags, build, .. } = sources.recipe;
    let file = format!("lib{name}.so");
    let (library, stamp) = (sources.out.join(&file), sources.out.join(format!("{file}.stamp")));
    let compilers = [Language::C, Language::Cpp].map(compiler_version).join("\n");
    let wanted = format!("{}\n{compilers}\n{}\n", sources.version, flags.join(" "));
    if library.exists() && fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(file);
    }
    let _ = fs::remove_file(&stamp);
    build(sources, &library)?;
    fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(file)
}

fn snmalloc(sources: &Sources, to: &Path) -> Result<(), String> {
    let source = sources.root.join("upstream/src");
    let overrides = source.join("snmalloc/override");
    let mut command = compiler(Language::Cpp);
    command
        .args(sources.recipe.flags)
        .arg("-I")
        .arg(&source)
        .args([overrides.join("malloc.cc"), overrides.join("new.cc")])
        .arg("-o")
        .arg(to)
        .arg("-latomic");
    run(sources, &mut command)
}

fn rpmalloc(sources: &Sources, to: &Path) -> Result<(), String> {
    let source = sources.root.join("rpmalloc/rpmalloc");
    let mut command = compiler(Language::C);
    command
        .args(sources.recipe.flags)
        .arg("-I")
        .arg(&source)
        .arg(source.join("rpmalloc.c"))
        .arg("-o")
        .arg(to)
        .arg("-ldl");
    run(sources, &mut command)
}

/// The files that the crate's build script names, but with tcmalloc's own functions of the C library
/// for those that it makes for Rust.
fn tcmalloc(sources: &Sources, to: &Path) -> Result<(), String> {
    let script = sources.root.join("build.rs");
    let script =
        fs::read_to_string(&script).map_err(|error| format!("{}: {error}", script.display()))?;
    let is_source =
        |text: &&str| text.starts_with("c_src/") && (text.ends_with(".cc") || text.ends_with(".S"));
    let mut files: Vec<&str> = script.split('"').filter(is_source).collect();
    files.retain(|file| !file.contains("bridge"));
    files.push("c_src/tcmalloc/tcmalloc/tcmalloc.cc");
    let objects = sources.out.join("tcmalloc");
    let _ = fs::remove_dir_all(&objects);
    fs::create_dir_all(&objects).map_err(|error| format!("{}: {error}", objects.display()))?;
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let next = AtomicUsize::new(0);
    let some = || -> Result<(), String> {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let object = objects.join(file.replace('/', "-")).with_extension("o");
            let mut command = compiler(Language::Cpp);
            command.args(sources.recipe.flags).current_dir(&sources.root);
            command.args(["-Ic_src/abseil-cpp", "-Ic_src/tcmalloc", "-c", file, "-o"]).arg(object);
            run(sources, &mut command)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..jobs).map(|_| scope.spawn(some)).collect();
        jobs.into_iter().try_for_each(|job| job.join().expect("no job panics"))
    })?;
    let entries =
        fs::read_dir(&objects).map_err(|error| format!("{}: {error}", objects.display()))?;
    let mut command = compiler(Language::Cpp);
    command.args([
        "-shared",
        "-pthread",
        "-static-libstdc++",
        "-static-libgcc",
        "-Wl,--no-undefined",
    ]);
    command.args(entries.flatten().map(|entry| entry.path())).arg("-o").arg(to);
    run(sources, &mut command)?;
    let _ = fs::remove_dir_all(&objects);
    Ok(())
}

/// `configure` and `make` work in a copy: cargo's sources are not ours to
/// write to.
fn jemalloc(sources: &Sources, to: &Path) -> Result<(), String> {
    let copy = sources.out.join("jemalloc");
    let _ = fs::remove_dir_all(&copy);
    copy_tree(&sources.root.join("jemalloc"), &copy)?;
    // Git holds no `configure`, so the crate has it aside.
    let configure = sources.root.join("configure/configure");
    fs::copy(&configure, copy.join("configure"))
        .map_err(|error| format!("{}: {error}", configure.display()))?;
    let version = sources.version.split_once('+').map_or("", |(_, upstream)| upstream);
    let mut command = Command::new("sh");
    command
        .current_dir(&copy)
        .arg("configure")
        .arg(format!("--with-version={version}"))
        .args(sources.recipe.flags)
        .env("CC", compiler(Language::C).get_program())
        .env("CXX", compiler(Language::Cpp).get_program())
        .env_remove("CFLAGS")
        .env_remove("CXXFLAGS");
    run(sources, &mut command)?;
    let jobs = env::var("NUM_JOBS").unwrap_or_else(|_| "1".to_owned());
    let mut command = Command::new("make");
    // Cargo's own make flags name pipes that this make does not have.
    command.current_dir(&copy).args(["-j", &jobs, "build_lib_shared"]).env_remove("MAKEFLAGS");
    run(sources, &mut command)?;
    let library = copy.join("lib/libjemalloc.so.2");
    fs::copy(&library, to).map_err(|error| format!("{}: {error}", library.display()))?;
    let _ = fs::remove_dir_all(&copy);
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(told)?;
    for entry in fs::read_dir(from).map_err(told)? {
        let entry = entry.map_err(told)?;
        let target = to.join(entry.file_name());
        if entry.file_type().map_err(told)?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target).map_err(told)?;
        }
    }
    Ok(())
}

/// Runs one step with its output in a log beside the library.
fn run(sources: &Sources, command: &mut Command) -> Result<(), String> {
    let log = sources.out.join(format!("{}.log", sources.recipe.name));
    let told = |error: std::io::Error| format!("{}: {error}", log.display());
    let file = File::create(&log).map_err(told)?;
    command.stdout(file.try_clone().map_err(told)?).stderr(file);
    let program = command.get_program().to_owned();
    let program = Path::new(&program).file_name().unwrap_or(OsStr::new("?")).display();
    match command.status() {
        Err(error) => Err(format!("{program}: {error}")),
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            println!("cargo:warning=the log is {}", log.display());
            let text = fs::read(&log).unwrap_or_default();
            Err(format!("{program}: {status}: {}", last_line(&text)))
        }
    }
}

fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no words").trim().to_owned()
}
