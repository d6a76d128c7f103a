//! Texts in the shape of public threads (`tests/pasted/index.toml`), and copies of folders: each is
//! read, whole and cut at any line.

use crate::kernel::tree::Kernel;
use crate::skipped::skip;
use slabyard_observe::file;
use slabyard_observe::incident::{IncidentKind, SiteRole};
use slabyard_observe::snapshot::{Snapshot, SourceKind};
use slabyard_observe::value::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const SLABINFO: &str = "slabinfo - version: 2.1\n\
     dentry 3 4 192 21 1 : tunables 0 0 0 : slabdata 1 1 0\n";

fn texts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pasted")
}

fn open(name: &str) -> Snapshot {
    file::open(&texts().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn bytes(snapshot: &Snapshot, name: &str) -> Option<u64> {
    snapshot.total(name)?.exact()
}

fn largest(snapshot: &Snapshot) -> &str {
    let of = |name: &str| slabyard_observe::fields::field(name).unwrap();
    let size = |cache: &&slabyard_observe::Cache| {
        slabyard_observe::fields::value(of("bytes"), snapshot, cache).and_then(|value| value.high())
    };
    &snapshot.caches.iter().max_by_key(size).expect("caches").name
}

#[test]
fn each_text_of_the_index_is_read_and_says_what_the_thread_is_about() {
    let index = fs::read_to_string(texts().join("index.toml")).unwrap();
    let files: Vec<&str> = index
        .lines()
        .filter_map(|line| line.strip_prefix("file = \"")?.strip_suffix('"'))
        .collect();
    assert!(files.len() >= 20);
    for file in files {
        let snapshot = open(file);
        assert!(!snapshot.source.formats.is_empty(), "{file}");
        let told = snapshot.caches.len() + snapshot.totals.len() + snapshot.incidents.len();
        assert!(told > 0, "{file}");
    }
    for (file, cache) in [
        ("dentry-negative.txt", "dentry"),
        ("kmalloc-64-leak.txt", "kmalloc-64"),
        ("ebitmap-node.txt", "ebitmap_node"),
        ("kmalloc-2048-oom.txt", "kmalloc-2k"),
        ("dnode-sparse.txt", "dnode_t"),
        ("filp-merged.txt", "kmalloc-256"),
        ("buffer-head.txt", "buffer_head"),
        ("task-struct-forks.txt", "task_struct"),
        ("radix-tree-node.txt", "radix_tree_node"),
        ("inode-caches.txt", "xfs_inode"),
        ("proc-inode-cache.txt", "proc_inode_cache"),
        ("skbuff-queues.txt", "kmalloc-1k"),
        ("oom-unreclaimable.txt", "msg_msg-2k"),
    ] {
        assert_eq!(largest(&open(file)), cache, "{file}");
    }
}

#[test]
fn the_numbers_of_kernels_texts_are_there() {
    let negative = open("dentry-negative.txt");
    assert_eq!(bytes(&negative, "dentries_negative"), Some(29_871_203));
    assert_eq!(negative.cache("dentry").unwrap().exact("slab_size"), Some(192));
    assert!(bytes(&negative, "slab_reclaimable") > bytes(&negative, "slab_unreclaimable"));
    let leak = open("kmalloc-64-leak.txt");
    assert!(leak.missing.is_empty() && leak.caches.len() == 35, "{:?}", leak.missing);
    let merged = open("filp-merged.txt");
    assert_eq!(merged.cache("filp").unwrap().name, "kmalloc-256");
    assert_eq!(bytes(&merged, "open_files"), Some(18_794_416));
    assert_eq!(merged.source.release.as_deref(), Some("4.18.0-305.el8.x86_64"));
    let dead = open("zombie-memcg.txt");
    assert_eq!(bytes(&dead, "memory_cgroups"), Some(61_874));
    assert!(dead.cache("dentry(4000:cron.service)").is_some());
    let queues = open("skbuff-queues.txt");
    assert_eq!(bytes(&queues, "tcp_queues"), Some(1_311_402 * 4096));
    let top = open("inode-caches.txt");
    assert_eq!(top.machine.page_bytes, Some(4096), "with carriage returns");
}

#[test]
fn the_reports_of_logs_are_incidents() {
    let oom = open("oom-unreclaimable.txt");
    assert_eq!(oom.incidents[0].kind, IncidentKind::OutOfMemory);
    assert_eq!(oom.incidents[0].program.as_deref(), Some("worker"));
    assert!(oom.incidents[0].sites[0].stack.iter().any(|f| f.starts_with("load_msg+")));
    assert_eq!(bytes(&oom, "slab_unreclaimable"), Some(49_697 * 4096));
    assert_eq!(bytes(&oom, "mem_total"), Some(65_406 * 4096));
    assert_eq!(oom.cache("msg_msg-2k").unwrap().exact("bytes"), Some(191_300 << 10));
    assert_eq!((oom.free_blocks.len(), oom.free_blocks[1].blocks[0]), (2, 16));
    let journal = open("kmalloc-2048-oom.txt");
    assert!(journal.incidents[0].sites[0].stack.iter().any(|f| f.starts_with("cas_alloc_io+")));
    assert_eq!(journal.source.release.as_deref(), Some("6.1.0-56-cloud-amd64"));

    let failure = open("page-allocation-failure.txt");
    let [incident] = &failure.incidents[..] else { panic!("{:?}", failure.incidents) };
    assert_eq!((incident.order, incident.min_order), (Some(1), Some(1)));
    assert!(failure.free_blocks.iter().all(|zone| zone.blocks[1..].iter().all(|n| *n == 0)));
    assert_eq!(failure.cache("kmalloc-1024").unwrap().exact("objects"), Some(6514));

    let fork = open("fork-order-7.txt");
    assert_eq!(
        (fork.incidents[0].order, fork.incidents[0].program.as_deref()),
        (Some(7), Some("sh"))
    );
    assert_eq!(
        fork.free_blocks[0].blocks,
        [15, 9, 7, 6, 11, 6, 6, 0, 0, 0, 0],
        "lines are wrapped"
    );
    assert_eq!(bytes(&fork, "slab_unreclaimable"), Some(459 * 4096));

    let redzone = open("slab-debug-redzone.txt");
    let sites = &redzone.incidents[0].sites;
    let roles: Vec<_> = sites.iter().map(|site| site.role).collect();
    assert_eq!(roles, [SiteRole::Allocated, SiteRole::Freed, SiteRole::Reported]);
    assert_eq!(sites[0].function, "sensor_probe+0x5c/0x1b0 [hwsensor]");
    assert_eq!((sites[0].pid, sites[1].age_jiffies), (Some(611), Some(48_230)));
}

#[test]
fn the_numbers_of_other_allocators_are_there() {
    let heaps =
        ["jemalloc-retained.txt", "glibc-arenas.xml", "mimalloc-segments.txt", "smaps-outside.txt"];
    let [jemalloc, glibc, mimalloc, smaps] = heaps.map(open);
    for (snapshot, file) in [&jemalloc, &glibc, &mimalloc, &smaps].into_iter().zip(heaps) {
        assert_eq!(snapshot.source.kind, SourceKind::Heap, "{file}");
    }
    assert_eq!(bytes(&jemalloc, "returned"), Some(49_294_519_296));
    assert_eq!(jemalloc.total("live"), Some(&Value::Range(8_602_153_888, 8_602_173_088)));
    assert_eq!(jemalloc.caches.len(), 24);
    let bin = jemalloc.cache("bin 2048").unwrap();
    assert_eq!((bin.exact("slabs"), bin.exact("partial")), (Some(1793), Some(1743)));
    assert_eq!(glibc.caches.len(), 32);
    let sum: u64 = glibc.caches.iter().filter_map(|arena| arena.exact("live_bytes")).sum();
    assert_eq!(bytes(&glibc, "live"), Some(sum));
    assert_eq!(bytes(&mimalloc, "segments_abandoned"), Some(96));
    let mib = |name| bytes(&smaps, name).map(|bytes| bytes >> 20);
    assert_eq!((mib("resident_brk"), mib("resident_other")), (Some(115), Some(13_746)));
}

#[test]
fn a_text_that_ends_at_any_line_is_an_error_or_a_part_of_the_whole() {
    for entry in fs::read_dir(texts()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let whole = file::read(text.as_bytes(), &path).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let step = (lines.len() / 40).max(1);
        for end in (0..lines.len()).step_by(step) {
            let mut cut: String = lines[..end].concat();
            // Within the next line, too.
            cut.push_str(lines[end].get(..lines[end].len() / 2).unwrap_or_default());
            let Ok(part) = file::read(cut.as_bytes(), &path) else { continue };
            assert!(part.caches.len() <= whole.caches.len(), "{path:?} to line {end}");
            for cache in &part.caches {
                let of_whole = whole.cache(&cache.name);
                // A name may be cut as well: that of the last one.
                let last = part.caches.last().is_some_and(|last| last.name == cache.name);
                assert!(of_whole.is_some() || last, "{path:?} to line {end}: {}", cache.name);
            }
        }
    }
}

#[test]
fn what_is_no_such_text_is_refused_with_what_was_looked_for() {
    let error = |bytes: &[u8]| file::read(bytes, Path::new("it")).unwrap_err().to_string();
    let foreign = error(b"Dear all,\nsee you at noon.\n");
    for words in ["no JSON object", "slabinfo", "slabtop", "jemalloc", "line 1 is `Dear all,`"] {
        assert!(foreign.contains(words), "{foreign}");
    }
    let damaged = error(b"slabinfo - version: 2.1\ndentry many\n");
    assert!(damaged.contains("it is damaged: looked for slabinfo"), "{damaged}");
    assert!(damaged.contains("line 2 is `dentry many`"), "{damaged}");
    assert!(error(b"\xfd7zXZ\0abc").contains("packed by xz; unpack it"));
    assert!(error(&[&[0; 257][..], b"ustar\0"].concat()).contains("tar xf"));
    assert!(error(b"a\0b").contains("no text"));
    assert!(error(b"").contains("it is empty"));
}

/// The folder as tar packs it; false, said aloud, without the packer.
fn archive(folder: &Path, to: &Path, how: &[&str]) -> bool {
    let mut tar = Command::new("tar");
    tar.args(how).arg("-cf").arg(to).arg("-C").arg(folder.parent().unwrap());
    let done = tar.arg(folder.file_name().unwrap()).status().is_ok_and(|status| status.success());
    if !done {
        skip(&format!("tar {how:?} does not work here"));
    }
    done
}

/// The block of a tar archive in front of a file, or of what else a kind of entry has.
fn head(name: &str, kind: u8, size: &str) -> Vec<u8> {
    let mut head = vec![0; 512];
    for (at, bytes) in [
        (0, name.as_bytes()),
        (124, size.as_bytes()),
        (148, b"        "),
        (156, &[kind]),
        (257, b"ustar  "),
    ] {
        head[at..at + bytes.len()].copy_from_slice(bytes);
    }
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    head
}

#[test]
fn archives_are_read_as_the_folders_that_are_in_them() {
    let kernel = Kernel::of_dump("x86_618_4k_smp2.json.zst", None);
    let directory = tempfile::tempdir().unwrap();
    // Names that do not fit into the oldest kind of archive.
    let folder = directory.path().join(format!("sosreport-{}-2026", "box".repeat(30)));
    kernel.write(&folder);
    // Some of its caches, among them merged ones, whose names are links.
    for entry in fs::read_dir(folder.join("sys/kernel/slab")).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let (is_link, path) = (entry.file_type().unwrap().is_symlink(), entry.path());
        let target = if is_link { fs::read_link(&path).unwrap() } else { name.clone().into() };
        if ["dentry", "kmalloc-64", ":0000256"].iter().all(|kept| target != Path::new(kept)) {
            if is_link { fs::remove_file(path) } else { fs::remove_dir_all(path) }.unwrap();
        }
    }
    fs::create_dir_all(folder.join("var/log")).unwrap();
    fs::write(folder.join("var/log/messages"), vec![b'x'; 1 << 20]).unwrap();
    let whole = file::open(&folder).unwrap();
    assert!(whole.caches.len() > 1 && whole.caches.iter().any(|cache| !cache.aliases.is_empty()));
    let packed = directory.path().join("packed");
    for how in [&["--format=gnu"][..], &["--format=pax"], &["-z"], &["-J"], &["--zstd"]] {
        if !archive(&folder, &packed, how) {
            continue;
        }
        let opened = file::open(&packed).unwrap();
        assert_eq!(opened.caches, whole.caches, "{how:?}");
        assert_eq!(opened.source.release, whole.source.release);
    }
    if archive(&folder.join("sys/kernel/slab"), &packed, &["-z"]) {
        let tree = file::open(&folder.join("sys/kernel/slab")).unwrap();
        assert_eq!(file::open(&packed).unwrap().cache("dentry"), tree.cache("dentry"));
    }
    // A text alone.
    let text = folder.join("slabinfo.txt");
    fs::write(&text, SLABINFO).unwrap();
    let plain = file::open(&text).unwrap();
    for packer in ["gzip", "xz"] {
        let out = File::create(&packed).unwrap();
        if Command::new(packer).arg("-c").arg(&text).stdout(out).status().is_ok() {
            assert_eq!(file::open(&packed).unwrap().caches, plain.caches, "{packer}");
        }
    }
}

#[test]
fn archives_that_are_damaged_or_large_or_lead_elsewhere_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let error = |bytes: &[u8]| {
        fs::write(path("it"), bytes).unwrap();
        file::open(&path("it")).unwrap_err().to_string()
    };
    // What a link leads to is not read.
    let folder = path("a");
    fs::create_dir_all(folder.join("proc")).unwrap();
    fs::write(path("secret"), SLABINFO).unwrap();
    std::os::unix::fs::symlink(path("secret"), folder.join("proc/slabinfo")).unwrap();
    assert!(archive(&folder, &path("link"), &[]));
    let link = error(&fs::read(path("link")).unwrap());
    assert!(link.contains("there is no proc/slabinfo"), "{link}");
    // 1 GiB of slabinfo, and a name of 8 GiB.
    let large = error(&head("a/proc/slabinfo", b'0', "10000000000"));
    assert!(large.contains("larger than any machine's"), "{large}");
    let long = error(&head("././@LongLink", b'L', "77777777777"));
    assert!(long.contains("longer than any path"), "{long}");
    // Cut off, plain and packed.
    let cut = error(&head("a/proc/slabinfo", b'0', "00000001000"));
    assert!(cut.contains("truncated") || cut.contains("damaged"), "{cut}");
    assert!(archive(&folder, &path("packed"), &["-z"]));
    let packed = fs::read(path("packed")).unwrap();
    let cut = error(&packed[..packed.len() / 2]);
    assert!(cut.contains("truncated"), "{cut}");
    let damaged = error(b"\xfd7zXZ\0abc");
    assert!(damaged.contains("truncated") || damaged.contains("damaged"), "{damaged}");
}

#[test]
fn copied_folders_are_read_as_the_kernel_they_are_of() {
    let kernel = Kernel::of_dump("x86_618_4k_smp2.json.zst", None);
    let directory = tempfile::tempdir().unwrap();
    let unpacked = directory.path().join("sosreport-box-2026");
    kernel.write(&unpacked);
    fs::remove_file(unpacked.join("proc/sys/kernel/osrelease")).unwrap();
    let commands = unpacked.join("sos_commands/kernel");
    fs::create_dir_all(&commands).unwrap();
    fs::write(commands.join("uname_-a"), "Linux box 6.18.15 #1 SMP x86_64 GNU/Linux\n").unwrap();
    fs::create_dir_all(unpacked.join("proc/sys/fs")).unwrap();
    fs::write(unpacked.join("proc/sys/fs/dentry-state"), "30\t28\t45\t0\t29\t0\n").unwrap();
    let oom = "[9.1] a invoked oom-killer: gfp_mask=0x0, order=2, oom_score_adj=0\n";
    fs::write(commands.join("dmesg"), oom).unwrap();
    // The folder, the one that the archive made it in, and the tree of caches alone.
    let whole = file::open(&unpacked).unwrap();
    assert_eq!(file::open(directory.path()).unwrap().caches, whole.caches);
    assert_eq!(whole.source.release.as_deref(), Some("6.18.15"));
    assert_eq!(bytes(&whole, "dentries_negative"), Some(29));
    assert_eq!(whole.incidents[0].order, Some(2));
    assert!(whole.caches.len() > 50 && whole.machine.page_bytes == Some(4096));
    let tree = file::open(&unpacked.join("sys/kernel/slab")).unwrap();
    let slabs = |snapshot: &Snapshot, name: &str| snapshot.cache(name)?.exact("slabs");
    assert_eq!(slabs(&tree, "dentry"), slabs(&whole, "dentry"));
    assert!(tree.missing.iter().any(|missing| missing.what.starts_with("/proc")));
    // Only copies of files of /proc.
    let proc = directory.path().join("sosreport-box-2026/proc");
    assert_eq!(slabs(&file::open(&proc).unwrap(), "dentry"), slabs(&whole, "dentry"));
    let empty = tempfile::tempdir().unwrap();
    let error = file::open(empty.path()).unwrap_err().to_string();
    assert!(error.contains("no proc/slabinfo, sys/kernel/slab or sos_commands in it"), "{error}");
}
