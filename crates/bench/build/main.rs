//! Builds what the benchmark embeds: the load programs, and the peer allocators as libraries to
//! preload.
//!
//! All are always optimised, whatever the driver's profile, because a slow build of a peer would be
//! unfair. mimalloc is always built; the others, which take minutes, are built with the feature
//! `peers` (`peers.rs`).

mod peers;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A load calls `malloc` and `free` as any program does: through the PLT, and
/// without the compiler knowing what they do.
const LOAD_FLAGS: &[&str] = &[
    "-O2",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-builtin-malloc",
    "-fno-builtin-free",
    "-fPIE",
    "-pie",
    "-pthread",
];

/// The allocator that is broken on purpose.
const LIBRARY_FLAGS: &[&str] = &[
    "-O2",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-builtin-malloc",
    "-fno-builtin-free",
    "-fPIC",
    "-shared",
];

/// The switches and definitions of mimalloc's own release build of its shared
/// library.
const MIMALLOC_FLAGS: &[&str] = &[
    "-O3",
    "-std=gnu11",
    "-DNDEBUG",
    "-DMI_BUILD_RELEASE",
    "-DMI_MALLOC_OVERRIDE",
    "-DMI_SHARED_LIB",
    "-DMI_SHARED_LIB_EXPORT",
    "-DMI_HAS_UNISTDH=1",
    "-DMI_HAS_EXECINFOH=1",
    "-fPIC",
    "-fvisibility=hidden",
    "-ftls-model=initial-exec",
    "-fno-builtin-malloc",
    "-w",
    "-shared",
    "-pthread",
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));

    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=loads");
    println!("cargo:rerun-if-env-changed=CC");
    println!("cargo:rerun-if-env-changed=CXX");

    let load = ["loads/load.c", "loads/single.c", "loads/threads.c"];
    compile(LOAD_FLAGS, &[], &load.map(PathBuf::from), &out.join("load"));
    for name in ["hello", "burst", "launch", "rest", "latency"] {
        let source = PathBuf::from(format!("loads/{name}.c"));
        compile(LOAD_FLAGS, &[], &[source], &out.join(name));
    }
    compile(LOAD_FLAGS, &[], &sources_in("loads/life"), &out.join("life"));
    compile_walked(&out);
    let mut handed = sources_in("loads/handed");
    handed.push(PathBuf::from("loads/life/shared.c"));
    compile(LOAD_FLAGS, &[], &handed, &out.join("handed"));
    let mut kernel = sources_in("loads/kernel");
    kernel.push(PathBuf::from("loads/life/shared.c"));
    compile(LOAD_FLAGS, &[], &kernel, &out.join("kernel"));
    compile(LIBRARY_FLAGS, &[], &[PathBuf::from("loads/torn.c")], &out.join("libtorn.so"));

    let root = peers::root_of("rustfs-mimalloc-sys").unwrap_or_else(|why| panic!("{why}"));
    let [include, source] = ["include", "src"].map(|name| root.join("c_src/mimalloc").join(name));
    let all = source.join("static.c");
    compile(MIMALLOC_FLAGS, &[&include, &source], &[all], &out.join("libmimalloc.so"));
    println!("cargo:rustc-env=PEER_FLAGS={}", MIMALLOC_FLAGS.join(" "));
    println!("cargo:rustc-env=BENCH_CC={}", compiler_version(Language::C));

    peers::write_table(&out);
}

/// The loads of `life`, each of whose accesses goes through the model in `loads/walks`.
fn compile_walked(out: &Path) {
    let called = [
        "-fsanitize=kernel-address",
        "--param=asan-instrumentation-with-call-threshold=0",
        "--param=asan-stack=0",
        "--param=asan-globals=0",
        "-fno-builtin-memset",
        "-fno-builtin-memcpy",
    ];
    let mut objects = Vec::new();
    let model = sources_in("loads/walks").into_iter().map(|source| (source, &called[..0]));
    let loads = sources_in("loads/life").into_iter().map(|source| (source, &called[..]));
    for (source, more) in model.chain(loads) {
        let name = source.file_stem().expect("a C file").to_string_lossy().into_owned();
        let object = out.join(format!("walked-{name}.o"));
        compile(&[LOAD_FLAGS, more, &["-c"]].concat(), &[], &[source], &object);
        objects.push(object);
    }
    let linked = [LOAD_FLAGS, &["-Wl,--wrap=memset,--wrap=memcpy"]].concat();
    compile(&linked, &[], &objects, &out.join("walked"));
}

/// The C files of a directory, in the order of their names.
fn sources_in(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect(directory);
    let mut sources: Vec<PathBuf> = entries
        .map(|entry| entry.expect(directory).path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    sources.sort();
    sources
}

/// The compiler that `CC` or `CXX` and the target choose, without the
/// profile's flags.
fn compiler(language: Language) -> Command {
    cc::Build::new()
        .cpp(language == Language::Cpp)
        .no_default_flags(true)
        .cargo_metadata(false)
        .opt_level(0)
        .get_compiler()
        .to_command()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Cpp,
}

fn compile(flags: &[&str], includes: &[&Path], sources: &[PathBuf], to: &Path) {
    let mut command = compiler(Language::C);
    command.args(flags);
    for include in includes {
        command.arg("-I").arg(include);
    }
    command.args(sources).arg("-o").arg(to).args(["-lm", "-ldl"]);
    let status = command.status().expect("the C compiler starts");
    assert!(status.success(), "failed: {command:?}");
}

fn compiler_version(language: Language) -> String {
    let out = compiler(language).arg("--version").output();
    let text = out.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    let first = text.ok().and_then(|t| t.lines().next().map(str::to_owned));
    first.unwrap_or_else(|| "unknown".to_owned())
}
