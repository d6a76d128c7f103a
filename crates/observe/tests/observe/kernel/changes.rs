//! Shrinking and setting, on copies of a kernel's files.

use super::tree::{Kernel, scratch};
use slabyard_observe::kernel::{self, Change, Error, set, shrink};
use slabyard_observe::{ReadScope, fields};
use std::fs;
use tempfile::TempDir;

fn tree() -> TempDir {
    let root = scratch();
    Kernel::of_dump("x86_618_4k_smp2.json.zst", None).write(root.path());
    root
}

#[test]
fn a_value_is_set_and_both_are_told() {
    let root = tree();
    let change = set(root.path(), "dentry", "cpu_partial", "9").unwrap();
    assert_eq!(change, Change { old: "120".into(), new: "9".into() });
    let all = ReadScope { all: true, slabs: false };
    let snapshot = kernel::sample(root.path(), all).unwrap();
    assert_eq!(snapshot.cache("dentry").unwrap().exact("cpu_partial"), Some(9));
    // An alias and the id name the same cache.
    let id = snapshot.cache("Acpi-Namespace").unwrap().id.clone().unwrap();
    set(root.path(), "Acpi-Namespace", "min_partial", " 8 ").unwrap();
    let change = set(root.path(), &id, "min_partial", "5").unwrap();
    assert_eq!(change, Change { old: "8".into(), new: "5".into() });
}

#[test]
fn shrink_writes_to_the_caches_own_file() {
    let root = tree();
    let file = |id: &str| {
        fs::read_to_string(root.path().join("sys/kernel/slab").join(id).join("shrink")).unwrap()
    };
    let snapshot = kernel::sample(root.path(), ReadScope::default()).unwrap();
    let id = snapshot.cache("Acpi-Namespace").unwrap().id.clone().unwrap();
    assert_eq!((file("dentry").trim(), file(&id).trim()), ("", ""));
    shrink(root.path(), "Acpi-Namespace").unwrap();
    assert_eq!((file("dentry").trim(), file(&id).trim()), ("", "1"));
}

#[test]
fn unknown_caches_are_refused_with_a_hint() {
    let root = tree();
    let error = shrink(root.path(), "sock_inode").unwrap_err();
    assert!(matches!(&error, Error::UnknownCache { like, .. } if like == &["sock_inode_cache"]));
    assert!(error.to_string().contains("is it sock_inode_cache?"), "{error}");
    for name in ["", ".", "..", "../slab/dentry", "dentry/", "/"] {
        let error = set(root.path(), name, "min_partial", "5").unwrap_err();
        assert!(matches!(error, Error::UnknownCache { .. }), "{name}: {error}");
    }
}

#[test]
fn what_cannot_be_set_lists_what_can() {
    let root = tree();
    for (key, why) in [
        ("order", "cannot be set"),
        ("shrink", "cannot be set"),
        ("colour", "is no attribute"),
        ("../dentry/min_partial", "is no attribute"),
        ("", "cannot be set"),
    ] {
        let text = set(root.path(), "dentry", key, "1").unwrap_err().to_string();
        assert!(text.contains(why), "{key}: {text}");
        assert!(text.ends_with("this kernel: cpu_partial, min_partial"), "{text}");
    }
    for value in ["", "  ", "1\n2"] {
        let error = set(root.path(), "dentry", "min_partial", value).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{value:?}");
    }
    // What can be set is a tunable on the screen.
    let unset = |name| fields::field(name).unwrap().kind == fields::FieldKind::Tunable;
    assert!(unset("min_partial") && unset("cpu_partial") && !unset("order"));
}
