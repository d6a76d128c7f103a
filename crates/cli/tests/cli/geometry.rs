//! `slabyard geometry`: sizes, settings and snapshots of kernels.

use crate::stage::{self, SLABYARD, text};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

const PLAIN: [&str; 7] = ["geometry", "--release", "6.18", "--page-size", "4k", "--cpus", "2"];

fn slabyard(args: &[&str]) -> Output {
    Command::new(SLABYARD).args(args).output().unwrap()
}

fn plain(args: &[&str]) -> Output {
    slabyard(&[&PLAIN, args].concat())
}

fn parsed(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn json_has_the_kernels_names_for_the_numbers() {
    let rows = parsed(&plain(&["--json", "192", "8k", "100"]));
    let keys: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    for key in [
        "size",
        "order",
        "objs_per_slab",
        "waste",
        "cpu_partial",
        "cpu_partial_slabs",
        "min_partial",
    ] {
        assert!(keys.iter().any(|k| *k == key), "{key}: {keys:?}");
    }
    let pick = |row: &Value| {
        ["size", "slab_size", "order", "objs_per_slab", "waste", "cpu_partial_slabs"]
            .map(|key| row[key].clone())
    };
    assert_eq!(pick(&rows[0]), [192, 192, 0, 21, 64, 12].map(Value::from));
    assert_eq!(pick(&rows[1]), [8192, 8192, 3, 4, 0, 3].map(Value::from));
    assert_eq!(pick(&rows[2]), [100, 104, 0, 39, 40, 7].map(Value::from));
    let old = parsed(&slabyard(&["geometry", "--release=5.9", "--cpus=2", "--json", "192"]));
    assert_eq!((&old[0]["cpu_partial"], &old[0]["cpu_partial_slabs"]), (&json!(30), &Value::Null));
}

#[test]
fn the_table_has_units_and_the_machine() {
    let output = plain(&["9856", "--page-size=64k", "--cpus=64"]);
    assert_eq!(output.status.code(), Some(2), "an option twice");
    let options = ["geometry", "--release=6.18", "--page-size=64k", "--cpus=64", "9856"];
    let table = slabyard(&options);
    let table = text(&table.stdout);
    for part in ["release 6.18, pages of 64 KiB, 64 CPUs", "9856 B", "512 KiB", " 53 "] {
        assert!(table.contains(part), "{part}: {table}");
    }
    // Without sizes: the kmalloc size classes, 8 bytes to two pages.
    let rows = parsed(&plain(&["--json"]));
    assert_eq!((rows.as_array().unwrap().len(), &rows[12]["size"]), (13, &json!(8192)));
}

/// kmalloc-256 is the size class of the vector of its own slabs; behind three objects of 9856 bytes
/// there is room for one, which 7.0 uses.
#[test]
fn the_vector_of_charged_objects_is_in_the_slab_or_in_a_size_class() {
    let ext = |release: &str| {
        let options = ["geometry", "--page-size=4k", "--cpus=8", "--json", "256", "9856"];
        let rows = parsed(&slabyard(&[&options[..], &["--release", release]].concat()));
        [0, 1].map(|nth: usize| rows[nth]["obj_ext"].as_u64().unwrap())
    };
    assert_eq!((ext("6.18"), ext("7.3")), ([256, 32], [256, 0]));
}

#[test]
fn another_version_is_told_to_follow_a_preset() {
    let output = slabyard(&["geometry", "--release", "6.12.107", "--json", "64"]);
    parsed(&output);
    assert_eq!(text(&output.stderr), "slabyard: kernel 6.12.107 follows the preset 6.8\n");
}

#[test]
fn settings_change_the_numbers() {
    let order =
        |keys: &[&str]| parsed(&plain(&[&["--json", "4k"], keys].concat()))[0]["order"].clone();
    assert_eq!((order(&[]), order(&["--set", "max_order=1"])), (json!(3), json!(1)));
    assert_eq!(order(&["--set=max_order=1", "--set=slub_max_order=2"]), json!(2));
    let auto = |page: &str| {
        let args = ["--release=6.12", "--page-size", page, "--cpus=16", "--set=order_rule=auto"];
        text(&slabyard(&[&["geometry", "16k"][..], &args].concat()).stdout).to_owned()
    };
    assert!(auto("64k").contains("order_rule auto: order 0 at most"), "{}", auto("64k"));
    assert!(auto("4k").contains("order_rule auto: order 3 at most"), "{}", auto("4k"));
    let machine = ["geometry", "--release=5.9", "--page-size=4k", "--cpus=2", "--json", "256"];
    let objects =
        |more: &[&str]| parsed(&slabyard(&[&machine, more].concat()))[0]["objs_per_slab"].clone();
    assert_eq!((objects(&[]), objects(&["--possible-cpus=64"])), (json!(16), json!(32)));
}

/// Of a program on the library of all engines, too.
#[test]
fn classes_of_malloc_have_the_orders_that_were_chosen() {
    let Some(program) = stage::holds() else { return };
    let orders = |rule: &str| -> Vec<u64> {
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", stage::real_engines()).env("SLABYARD_OBSERVABLE", "1");
        command.env("SLABYARD_ORDER_RULE", rule).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let list = parsed(&slabyard(&["list", &child.id().to_string(), "--all", "--json"]));
        drop(child.stdin.take());
        child.wait().unwrap();
        let caches = list["caches"].as_array().unwrap();
        caches.iter().map(|cache| cache["order"].as_u64().unwrap()).collect()
    };
    let (table, auto) = (orders("default"), orders("auto"));
    assert_eq!(table.len(), auto.len());
    assert!(auto.iter().max() < table.iter().max(), "{auto:?} {table:?}");
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    for (args, words) in [
        (&["--set", "max_order=12"][..], "max_order takes an order from 0 to 10"),
        (&["--cpus", "0"], "it must be from 1 to 8192"),
        (&["--page-size", "5k"], "5120 bytes; it must be 4096"),
        (&["--cpus=4", "--possible-cpus=2"], "4 present of 2 possible"),
        (&["--set", "max_ordr=1"], "did you mean `max_order`?"),
        (&["--set", "max_order"], "KEY=VALUE"),
        (&["--set", "nomerge=1"], "nomerge changes nothing: "),
        (&["--set", "slab_nomerge"], "expected KEY=VALUE"),
        (&["--set", "slub_merge=1"], "merge changes nothing: "),
        (&["--set", "multiplier=2", "--set", "min_objects=8"], "multiplier counts where"),
        (&["--release", "4.19"], "older than the oldest preset"),
        (&["--release", "new"], "no kernel version"),
        (&["--release", "7.1", "--set", "cpu_partial=30"], "release 7.1"),
        (&["--release", "6.18", "--set", "sheaf_capacity=8"], "a size requests nothing"),
        (&["12x"], "expected bytes"),
        (&["0"], "8 bytes or more"),
        (&["1000M"], "does not fit into a slab of order 10"),
        (&["--against", "kernel", "64"], "cannot be used with"),
    ] {
        let output = slabyard(&[&["geometry"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(words), "{args:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

/// A kernel with two caches, of which the second is as `cpu_partial` says.
fn snapshot(cpu_partial: u32) -> tempfile::NamedTempFile {
    let cache = |size: u32, objects: u32, order: u32, cpu_partial: u32| {
        json!({ "slab_size": size, "objs_per_slab": objects, "order": order,
            "cpu_partial": cpu_partial, "min_partial": 5, "slabs": "7 N0=7" })
    };
    let kernel = json!({
        "kernel": "6.18.44", "page_size": 4096, "possible_cpus": "0-1", "online_cpus": "0-1",
        "cmdline": "quiet slub_max_order=0",
        "slab": { "dentry": cache(192, 21, 0, 120), "kmalloc-1k": cache(1024, 4, 0, cpu_partial) },
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kernel.to_string()).unwrap();
    file
}

#[test]
fn a_snapshot_that_follows_the_rules_is_success_and_another_is_1() {
    let compare = |file: &tempfile::NamedTempFile, more: &[&str]| {
        slabyard(&[&["geometry", "--against", file.path().to_str().unwrap()], more].concat())
    };
    let right = compare(&snapshot(24), &[]);
    assert_eq!(right.status.code(), Some(0), "{}", text(&right.stderr));
    assert_eq!(text(&right.stdout), "kernel 6.18.44, rules of 6.18: 2 caches, 0 differences\n");
    let wrong = compare(&snapshot(12), &[]);
    assert_eq!(wrong.status.code(), Some(1));
    assert_eq!(
        text(&wrong.stdout),
        "kmalloc-1k (1 KiB): cpu_partial is 24 by the rules, 12 in the kernel\n\
         kernel 6.18.44, rules of 6.18: 2 caches, 1 difference\n"
    );
    let json = compare(&snapshot(12), &["--json"]);
    assert_eq!(json.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json[0]["differences"][0]["cache"], "kmalloc-1k");
    // What is typed goes before what the snapshot says.
    assert_eq!(compare(&snapshot(24), &["--release", "5.9"]).status.code(), Some(1));
    assert_eq!(compare(&snapshot(24), &["--set", "max_order=3"]).status.code(), Some(1));
    assert_eq!(compare(&snapshot(12), &["--set", "cpu_partial=1024:12"]).status.code(), Some(0));
}

#[test]
fn what_is_no_snapshot_cannot_be_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "t_us,cpu,pid\n").unwrap();
    for (path, words) in [(file.path().to_str().unwrap(), "no JSON"), ("/no/such/file", "No such")]
    {
        let output = slabyard(&["geometry", "--against", path]);
        assert_eq!(output.status.code(), Some(3), "{path}");
        let message = text(&output.stderr);
        assert_eq!(message.matches(words).count(), 1, "{message}");
    }
}

#[test]
fn the_running_kernel_follows_the_rules() {
    let output = slabyard(&["geometry", "--against", "kernel"]);
    if output.status.code() == Some(3) {
        return eprintln!("skipped: {}", text(&output.stderr));
    }
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).ends_with(" 0 differences\n"));
}

#[test]
fn help_has_examples_and_every_key() {
    let help = slabyard(&["geometry", "--help"]);
    for part in ["Examples:", "--against kernel", "min_partial: ", "5.9, 5.16", "Exit codes"] {
        assert!(text(&help.stdout).contains(part), "{part}");
    }
}

#[test]
fn the_release_that_was_asked_for_is_the_one_that_is_told() {
    for (release, told) in [
        ("6.4", "release 6.4 (by the preset 6.1), "),
        ("6.1", "release 6.1, "),
        ("9.9", "release 9.9 ("),
    ] {
        let table = slabyard(&["geometry", "--release", release, "192"]);
        assert!(text(&table.stdout).starts_with(told), "{}", text(&table.stdout));
    }
}

#[test]
fn help_is_of_this_command() {
    let help = slabyard(&["geometry", "--help"]);
    assert!(!text(&help.stdout).contains("trace,") && !text(&help.stdout).contains("traced"));
}

#[test]
fn a_dump_of_a_file_is_picked_by_its_name() {
    let files = tempfile::TempDir::new().unwrap();
    let path = files.path().join("dumps.json");
    let dump = |order: u32| {
        json!({ "slab": { "x": { "slab_size": 192, "objs_per_slab": 21 << order,
            "order": order, "slabs": 1 } } })
    };
    let dumps = json!({ "kernel": "6.18", "page_size": 4096, "online_cpus": "0-1",
        "dumps": { "boot": dump(0), "hb": dump(1) } });
    std::fs::write(&path, dumps.to_string()).unwrap();
    let named = |dump: &str| format!("{}#{dump}", path.display());
    for (dump, code) in [("boot", 0), ("hb", 1), ("none", 2)] {
        let output = slabyard(&["geometry", "--against", &named(dump)]);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    }
    for (dump, order) in [("boot", "0"), ("hb", "1")] {
        let list = slabyard(&["list", &named(dump), "--csv", "-o", "order"]);
        assert_eq!(text(&list.stdout), format!("name,order\nx,{order}\n"));
    }
    let none = slabyard(&["list", &named("none")]);
    assert_eq!(none.status.code(), Some(3));
    assert!(text(&none.stderr).contains("holds no such dump: it holds boot, hb"));
    let absent = slabyard(&["list", "/no/such#dump"]);
    assert!(text(&absent.stderr).contains("cannot read /no/such:"), "{}", text(&absent.stderr));
}

#[test]
fn slab_has_rules_of_its_own() {
    let slab = ["geometry", "--engine=slab", "--page-size=4k", "--cpus=2", "--set", "max_order=1"];
    let rows = parsed(&slabyard(&[&slab[..], &["--json", "16", "192", "2624", "8k"]].concat()));
    let pick = |row: &Value| {
        let keys = ["slab_size", "order", "objs_per_slab", "limit", "sharedfactor", "free_limit"];
        keys.map(|key| row[key].clone())
    };
    assert_eq!(pick(&rows[0]), [16, 0, 240, 120, 8, 3 * 60 + 240].map(Value::from));
    assert_eq!(pick(&rows[1]), [192, 0, 21, 120, 8, 3 * 60 + 21].map(Value::from));
    assert_eq!(pick(&rows[2]), [2624, 1, 3, 24, 8, 3 * 12 + 3].map(Value::from));
    assert_eq!(pick(&rows[3]), [8192, 1, 1, 8, 0, 3 * 4 + 1].map(Value::from));
    assert_eq!(
        (&rows[0]["index"], &rows[1]["index"]),
        (&json!("on the slab"), &json!("in an object"))
    );
    let table = slabyard(&slab);
    assert!(text(&table.stdout).contains("SLAB of release 6.1"), "{}", text(&table.stdout));
    for (more, says) in [
        (&["--release=6.8"][..], "SLAB was removed in 6.8"),
        (&["--set", "min_objects=4"], "takes max_order"),
        (&["--against", "kernel"], "SLUB's rules alone"),
    ] {
        let refused = slabyard(&[&slab[..], more].concat());
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(says), "{}", text(&refused.stderr));
    }
}
