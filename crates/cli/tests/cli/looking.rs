//! Commands on saved snapshots: what each prints, and its exit code.

use crate::stage::{SLABYARD, text};
use serde_json::Value as Json;
use slabyard_observe::snapshot::{Machine, Source, SourceKind};
use slabyard_observe::{Cache, Snapshot, Value, file};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Two snapshots of a process, the second with an object more.
struct Files {
    _directory: TempDir,
    old: PathBuf,
    new: PathBuf,
}

impl Files {
    fn new() -> Files {
        let directory = TempDir::new().unwrap();
        let save = |name: &str, live: u64| {
            let path = directory.path().join(name);
            file::save(&snapshot(live), &path).unwrap();
            path
        };
        let (old, new) = (save("old.json.zst", 1000), save("new.json", 1001));
        Files { _directory: directory, old, new }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.old.with_file_name(name)
    }
}

fn snapshot(live: u64) -> Snapshot {
    let mut source = Source::of(SourceKind::Process);
    source.pid = Some(4711);
    let mut snapshot = Snapshot::new(source);
    snapshot.taken_at_ms = 1_760_000_000_000;
    snapshot.machine = Machine { page_bytes: Some(4096), ..Machine::default() };
    for (name, order, slabs, live) in
        [("malloc-8", 0, 0, 0), ("malloc-64", 0, 20, live), ("malloc-1024", 3, 2, 33)]
    {
        let mut cache = Cache::new(name);
        let objs_per_slab = (4096 << order) / name[7..].parse::<u64>().unwrap();
        for (key, value) in [
            ("order", order),
            ("slabs", slabs),
            ("objs_per_slab", objs_per_slab),
            ("total_objects", slabs * objs_per_slab),
            ("slab_size", 4096 / (4096 / name[7..].parse::<u64>().unwrap())),
            ("live", live),
            ("parked_cpu", 7),
            ("parked_node", 0),
        ] {
            cache.set(key, value);
        }
        snapshot.caches.push(cache);
    }
    snapshot.totals.insert("committed".into(), Value::Exact(1 << 20));
    snapshot
}

fn slabyard<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    Command::new(SLABYARD).args(args).stdin(Stdio::null()).output().unwrap()
}

/// A command on a source.
fn on(command: &str, source: &Path, args: &[&str]) -> Output {
    let mut all = vec![command, source.to_str().unwrap()];
    all.extend(args);
    slabyard(all)
}

/// What it prints; it must have ended well and in silence.
fn printed(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// What it says; it must have ended with this code and printed nothing.
fn refused(output: &Output, code: i32) -> &str {
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    text(&output.stderr)
}

fn names(table: &str) -> Vec<&str> {
    table.lines().filter_map(|l| l.split_whitespace().next()).collect()
}

#[test]
fn list_sorts_picks_and_leaves_out() {
    let files = Files::new();
    let list = |args: &[&str]| on("list", &files.old, args);
    let plain = list(&[]);
    assert_eq!(names(printed(&plain))[..3], ["name", "malloc-64", "malloc-1024"]);
    assert!(printed(&plain).contains("1 cache without slabs is not shown"));
    let rows = |args: &[&str]| {
        let mut all = vec!["--no-header"];
        all.extend(args);
        names(printed(&list(&all))).join(" ")
    };
    assert_eq!(rows(&[]), "malloc-64 malloc-1024");
    assert_eq!(rows(&["--sort", "order"]), "malloc-1024 malloc-64");
    assert_eq!(rows(&["--sort", "order", "-r"]), "malloc-64 malloc-1024");
    assert_eq!(rows(&["--all", "--sort", "name"]), "malloc-1024 malloc-64 malloc-8");
    assert_eq!(rows(&["--top", "1"]), "malloc-64");
    assert_eq!(rows(&["malloc-?", "*24"]), "malloc-1024 malloc-8");
    let columns = list(&["--no-header", "-o", "live,parked_cpu,cpu_slabs", "malloc-64"]);
    let cells: Vec<_> = printed(&columns).split_whitespace().collect();
    assert_eq!(cells, ["malloc-64", "1000", "7", "-"]);
}

#[test]
fn list_for_programs() {
    let files = Files::new();
    let output = on("list", &files.old, &["--json"]);
    let value: Json = serde_json::from_str(printed(&output)).unwrap();
    let caches = value["caches"].as_array().unwrap();
    let of = |cache: &Json| cache["name"].as_str().unwrap().to_owned();
    assert_eq!(caches.iter().map(of).collect::<Vec<_>>(), ["malloc-8", "malloc-64", "malloc-1024"]);
    assert_eq!((&caches[1]["live"], &caches[1]["parked"]), (&1000.into(), &7.into()));
    assert_eq!(value["totals"]["committed"], 1 << 20);

    let output = on("list", &files.old, &["--csv", "--columns", "live,bytes"]);
    let want = "name,live,bytes\nmalloc-8,0,0\nmalloc-64,1000,81920\nmalloc-1024,33,65536\n";
    assert_eq!(printed(&output), want);

    let output = on("list", &files.old, &["--orders", "--csv"]);
    assert_eq!(printed(&output), "order,caches,slabs,bytes\n0,2,20,81920\n3,1,2,65536\n");
}

#[test]
fn wrong_usage_is_2_and_says_what_is_right() {
    let files = Files::new();
    for (args, hint) in [
        (&["--sort", "colour"][..], "unknown field `colour`; `slabyard list --help` names all"),
        (&["--sort", "liv"], "near it: live"),
        (&["--columns", "live,colour"], "unknown field `colour`"),
        (&["--json", "--csv"], "cannot be used with"),
        (&["[a"], "no pattern of names"),
        (&["--top", "many"], "invalid"),
    ] {
        let output = on("list", &files.old, args);
        assert!(refused(&output, 2).contains(hint), "{args:?}: {}", text(&output.stderr));
    }
    assert!(refused(&on("diff", &files.old, &[]), 2).contains("<B>"));
    let output = on("diff", &files.old, &["kernel", "--field", "colour"]);
    assert!(refused(&output, 2).contains("unknown field"));
    for setting in ["min_partial", "=1"] {
        assert!(refused(&slabyard(["set", "1", "c", setting]), 2).contains("KEY=VALUE"));
    }
    assert!(refused(&slabyard(["export", "--listen", "x"]), 2).contains("a port such as"));
}

#[test]
fn a_source_that_is_nothing_is_not_called_a_file() {
    let files = Files::new();
    for (command, args, code) in
        [("shrink", &[][..], 3), ("set", &["malloc-64", "min_partial=1"], 3), ("top", &[], 2)]
    {
        let said = on(command, Path::new("nosuch"), args);
        let said = refused(&said, code);
        let more = if code == 3 { " [slabyard explain E0302]" } else { "" };
        let want = format!(
            "slabyard: `nosuch` is neither `kernel` nor the id of a process, and there is no such \
             file{more}\n"
        );
        assert_eq!(said, want, "{command}");
        let output = on(command, &files.old, args);
        assert!(refused(&output, code).contains(" is a file: "), "{}", text(&output.stderr));
    }
    for (command, args) in [("list", &[][..]), ("show", &["malloc-64"]), ("export", &[])] {
        assert!(
            refused(&on(command, Path::new("nosuch"), args), 3).contains("nosuch: No such file")
        );
    }
}

#[test]
fn show_takes_the_patterns_of_list() {
    let files = Files::new();
    let names = |pattern: &str| -> Vec<String> {
        let output = on("show", &files.old, &[pattern, "--json"]);
        let values = serde_json::Deserializer::from_str(printed(&output)).into_iter::<Json>();
        values.map(|v| v.unwrap()["cache"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("malloc-64"), ["malloc-64"]);
    assert_eq!(names("malloc-*"), ["malloc-8", "malloc-64", "malloc-1024"]);
    assert_eq!(names("malloc-?"), ["malloc-8"]);
    assert_eq!(names("malloc-[68]*"), ["malloc-8", "malloc-64"]);
    let output = on("show", &files.old, &["malloc-*4"]);
    let table = printed(&output);
    assert!(table.starts_with("malloc-64\n") && table.contains("\n\nmalloc-1024\n"), "{table}");
    let output = on("show", &files.old, &["none-*"]);
    assert!(refused(&output, 3).contains("has no cache named `none-*`; "));
    assert!(refused(&on("show", &files.old, &["malloc-["]), 2).contains("no pattern of names"));
}

#[test]
fn what_cannot_be_is_3_and_says_why() {
    let files = Files::new();
    let other = files.path("other.json");
    std::fs::write(&other, "{}").unwrap();
    let mut sleeping = Command::new("sleep").arg("60").env_remove("LD_PRELOAD").spawn().unwrap();
    let stranger = sleeping.id().to_string();
    for (source, hint) in [
        (files.path("none.json").to_str().unwrap(), "none.json"),
        (other.to_str().unwrap(), "is not a snapshot"),
        ("4194305", "there is no process 4194305"),
        (&stranger, "does not run on Slabyard"),
    ] {
        for command in [&["list", source][..], &["show", source, "x"], &["export", source]] {
            let output = slabyard(command);
            assert!(refused(&output, 3).contains(hint), "{command:?}: {}", text(&output.stderr));
        }
    }
    sleeping.kill().unwrap();
    sleeping.wait().unwrap();
    let none = on("list", &files.old, &["none-*"]);
    assert!(refused(&none, 3).contains("has no cache named `none-*`"));
    let none = on("show", &files.old, &["lloc-1"]);
    assert!(refused(&none, 3).contains("names with it: malloc-1024"));
    assert!(refused(&on("shrink", &files.old, &[]), 3).contains("cannot be shrunk"));
    let past = on("set", &files.old, &["malloc-64", "min_partial=1"]);
    assert!(refused(&past, 3).contains("cannot be set"));
    assert!(refused(&slabyard(["set", "4194305", "c", "min_partial=1"]), 3).contains("4194305"));
    assert!(refused(&slabyard(["shrink", "4194305"]), 3).contains("4194305"));
}

#[test]
fn a_file_named_as_something_else_is_named_by_its_directory() {
    let files = Files::new();
    std::fs::copy(&files.old, files.path("kernel")).unwrap();
    let mut command = Command::new(SLABYARD);
    command.args(["list", "./kernel"]).current_dir(files.old.parent().unwrap());
    assert!(text(&command.output().unwrap().stdout).contains("malloc-64"));
}

#[test]
fn show_tells_one_cache() {
    let files = Files::new();
    let output = on("show", &files.old, &["malloc-64"]);
    assert!(printed(&output).starts_with("malloc-64\n\ngeometry\n"), "{}", printed(&output));
    let output = on("show", &files.old, &["malloc-64", "--json"]);
    let value: Json = serde_json::from_str(printed(&output)).unwrap();
    assert_eq!(value["cache"]["live"], 1000);
}

/// What a guest of 7.3 said, in which every cache has sheaves and none has CPU slabs.
#[test]
fn a_kernel_with_sheaves_is_listed_shown_and_has_its_geometry() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/tests/data");
    let kernel = data.join("x86_734_4k_smp2.json.zst");
    let list: Json =
        serde_json::from_str(printed(&on("list", &kernel, &["-a", "--json"]))).unwrap();
    let caches = list["caches"].as_array().unwrap();
    assert_eq!(caches.len(), 203);
    let without = |cache: &&Json| cache["sheaf_capacity"] == 0;
    let without: Vec<&Json> = caches.iter().filter(without).map(|cache| &cache["name"]).collect();
    assert_eq!(without, ["kmem_cache", "kmem_cache_node"]);
    assert!(caches.iter().all(|cache| cache["cpu_slabs"].is_null()));
    let shown = on("show", &kernel, &["filp"]);
    let bound = "3 sheaves of 60 on each of 2 CPUs at most 360";
    assert!(printed(&shown).contains(bound), "{}", printed(&shown));
    let against = slabyard([Path::new("geometry"), Path::new("--against"), &kernel]);
    let last = printed(&against).lines().last().unwrap();
    assert!(last.ends_with("rules of 7.3: 203 caches, 0 differences"), "{last}");
}

/// Where the kernel lets us read its memory.
#[test]
fn the_running_kernels_lists_are_shown_slab_by_slab_or_refused() {
    for (option, per_slab, count) in
        [("--cpu-partial", "partial_slabs", "slabs"), ("--sheaves", "slabs", "nr_slabs")]
    {
        let shown = slabyard(["show", "kernel", option, "--json"]);
        if shown.status.code() != Some(0) {
            let why = refused(&shown, 3);
            let known = ["cannot be read", "have no CPU partial lists", "have no sheaves", "root"];
            assert!(known.iter().any(|known| why.contains(known)), "{option}: {why}");
            continue;
        }
        let shown: Json = serde_json::from_slice(&shown.stdout).unwrap();
        let caches = shown["caches"].as_array().unwrap();
        let mut slabs = 0;
        for cache in caches {
            let places = if option == "--sheaves" { "sheaves" } else { "cpus" };
            let places = cache[places].as_array().unwrap();
            let counted: u64 = places.iter().map(|place| place[count].as_u64().unwrap()).sum();
            let listed = match option {
                "--sheaves" => places.iter().map(|of| of[per_slab].as_array().unwrap().len()).sum(),
                _ => cache[per_slab].as_array().unwrap().len(),
            };
            assert_eq!(counted, listed as u64, "{option}: {cache}");
            slabs += counted;
        }
        assert!(slabs > 0, "{option}: nothing in {} caches", caches.len());
    }
}

#[test]
fn a_snapshot_is_saved_and_compared() {
    let files = Files::new();
    let copy = files.path("copy.json.zst");
    assert_eq!(printed(&on("snapshot", &files.old, &["-o", copy.to_str().unwrap()])), "");
    assert_eq!(file::open(&copy).unwrap(), snapshot(1000));
    let output = on("snapshot", &files.old, &["-o", "-"]);
    let saved: Snapshot = serde_json::from_str(printed(&output)).unwrap();
    assert_eq!(saved, snapshot(1000));
    let nowhere = on("snapshot", &files.old, &["-o", "/nonexistent/x.json"]);
    assert!(refused(&nowhere, 3).contains("/nonexistent/x.json"));

    assert_eq!(printed(&on("diff", &files.old, &[copy.to_str().unwrap()])), "no difference\n");
    let output = on("diff", &files.old, &[files.new.to_str().unwrap(), "--field", "live"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "name       live\nmalloc-64    +1\n");
    let output = on("diff", &files.old, &[files.new.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let value: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["equal"], value["caches"].as_array().unwrap().len()), (&false.into(), 1));
    assert_eq!(value["caches"][0]["fields"]["live"]["difference"], 1);
    let others = ["--cache", "malloc-1024", "--json"];
    let output = on("diff", &files.old, &[&[files.new.to_str().unwrap()], &others[..]].concat());
    let value: Json = serde_json::from_str(printed(&output)).unwrap();
    assert_eq!(value["equal"], true);
}

#[test]
fn each_command_has_examples_and_exit_codes_in_its_help() {
    for command in ["list", "show", "snapshot", "diff", "export", "shrink", "set"] {
        for help in ["-h", "--help"] {
            let output = slabyard([command, help]);
            let help = text(&output.stdout);
            assert!(help.contains("Examples:\n  slabyard "), "{command}: {help}");
            assert!(help.contains("The exit code is 0"), "{command}: {help}");
        }
    }
    let help = slabyard(["list", "--help"]);
    assert!(text(&help.stdout).contains("  parked_node: free objects in full sheaves of barns"));
}

#[test]
fn a_reader_that_went_away_is_success() {
    let files = Files::new();
    let (old, new) = (files.old.to_str().unwrap(), files.new.to_str().unwrap());
    for args in [
        &["list", old][..],
        &["list", old, "--json"],
        &["list", old, "--csv"],
        &["show", old, "malloc-64"],
        &["snapshot", old, "-o", "-"],
        &["diff", old, new],
        &["export", old],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(SLABYARD);
        let output = command.args(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(output.stderr.is_empty(), "{args:?}: {}", text(&output.stderr));
    }
}

/// A path of the snapshot for other tests of the command.
pub fn saved() -> (TempDir, PathBuf) {
    let files = Files::new();
    (files._directory, files.old)
}
