//! Kernels some of whose files may not be read: the readable ones are shown, and the others are
//! named.

use super::tree::{Kernel, scratch};
use slabyard_observe::kernel::{self, Error};
use slabyard_observe::{ReadScope, Snapshot};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

#[test]
fn without_anything_the_error_says_what_to_do() {
    let root = scratch();
    let error = kernel::sample(root.path(), ReadScope::default()).unwrap_err();
    assert!(matches!(error, Error::Nothing { .. }));
    let text = error.to_string();
    for part in ["/proc/slabinfo: it is not there", "/sys/kernel/slab: it is not there", "as root"]
    {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn slabinfo_alone_is_enough() {
    let kernel = Kernel::of_dump("x86_612_4k_smp4_hb_nehalem.json.zst", Some("boot"));
    let root = scratch();
    kernel.write(root.path());
    fs::remove_dir_all(root.path().join("sys/kernel")).unwrap();
    let snapshot = kernel::sample(root.path(), ReadScope { all: true, slabs: false }).unwrap();
    let cache = snapshot.cache("dentry").unwrap();
    assert_eq!(cache.exact("slabs"), Some(kernel.number("dentry", "slabs")));
    assert!(named(&snapshot, "/sys/kernel/slab").contains("not there"));
}

#[test]
fn files_that_cannot_be_read_leave_the_names() {
    let kernel = Kernel::of_dump("x86_618_4k_smp2.json.zst", None);
    let root = scratch();
    kernel.write_sysfs(root.path());
    for id in kernel.caches.keys() {
        let directory = root.path().join("sys/kernel/slab").join(id);
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
        }
    }
    let snapshot = kernel::sample(root.path(), ReadScope::default()).unwrap();
    assert_eq!(snapshot.caches.len(), kernel.caches.len());
    assert!(snapshot.caches.iter().all(|c| c.readings.is_empty()));
    assert_eq!(snapshot.total("maybe_parked"), None);
    assert!(named(&snapshot, "/proc/slabinfo").contains("not there"));
    assert!(named(&snapshot, "object_size").contains("directory"));
    // Merged caches have their names all the same.
    let merged = snapshot.cache("Acpi-Namespace").unwrap();
    assert!(merged.id.as_deref().is_some_and(|id| id.starts_with(':')));
}

const AS_USER: &str = "SLABYARD_TEST_AS_USER";

/// The kernel that runs, as anybody sees it. As root this test runs itself again as
/// another user.
#[test]
fn who_is_not_root_sees_names_and_is_told_why() {
    if !Path::new("/sys/kernel/slab").is_dir() {
        println!("skipped: this kernel has no /sys/kernel/slab");
        return;
    }
    let root = rustix::process::geteuid().is_root();
    if root && std::env::var_os(AS_USER).is_none() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        let name = "kernel::refused::who_is_not_root_sees_names_and_is_told_why";
        again.args(["--exact", name, "--nocapture"]).env(AS_USER, "1").current_dir("/");
        match again.uid(65534).gid(65534).output() {
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stdout);
                assert!(output.status.success(), "{text}");
                assert!(text.contains("1 passed"), "{text}");
            }
            Err(e) => println!("skipped: another user cannot run this test: {e}"),
        }
        return;
    }
    assert!(!root, "the child is another user");
    let snapshot = kernel::sample(Path::new("/"), ReadScope::default()).unwrap();
    if fs::read("/proc/slabinfo").is_ok() {
        println!("skipped: anybody may read /proc/slabinfo here");
        return;
    }
    assert!(snapshot.caches.len() > 10);
    assert_eq!(named(&snapshot, "/proc/slabinfo"), "permission denied; run as root");
    let attributes = snapshot.missing.iter().find(|m| m.what.contains("/sys/kernel/slab/*"));
    let attributes = attributes.expect("attributes are named together");
    assert!(attributes.what.contains("object_size") && attributes.what.contains("cpu_slabs"));
    assert_eq!(attributes.why, "permission denied; run as root");
    assert!(snapshot.total("mem_total").is_some(), "meminfo is for everybody");
    let shrunk = kernel::shrink(Path::new("/"), "dentry").unwrap_err().to_string();
    assert!(shrunk.contains("permission denied; run as root"), "{shrunk}");
}

fn named(snapshot: &Snapshot, what: &str) -> String {
    let row = snapshot.missing.iter().find(|m| m.what == what);
    row.unwrap_or_else(|| panic!("{what} is not among {:?}", snapshot.missing)).why.clone()
}
