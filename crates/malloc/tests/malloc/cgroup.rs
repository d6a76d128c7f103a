//! The watch of a cgroup of version 2, on made-up file trees with the contents that
//! `Documentation/admin-guide/cgroup-v2.rst` and `Documentation/accounting/psi.rst` describe: the
//! library's own code finds the tree by `mountinfo` and `cgroup` in a process's directory, opens
//! the files, waits, and says whether memory is short.
//!
//! Such a tree cannot show what only the kernel does: that poll(2) returns when `memory.events`
//! changes, and whether a trigger is accepted or refused. Instead, a byte written to a pipe ends
//! each wait.

use slabyard_abi::pressure::parse;
use slabyard_process::malloc::pressure::files;
use slabyard_process::malloc::pressure::sources::{Sources, WaitOutcome};
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

const EVENTS: &str = "low 3\nhigh 7\nmax 2\noom 1\noom_kill 0\noom_group_kill 0\n";
const STALLS: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n\
                      full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";

/// A process's directory, and where its cgroups seem to be mounted.
struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Files of a process whose cgroup is `own`, in a hierarchy of which `part` is mounted.
    fn new(name: &str, part: &str, own: &str) -> Tree {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cgroup {name}"));
        let _ = fs::remove_dir_all(&root);
        for dir in ["process", "second", "first"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        let tree = Tree { root };
        tree.put("process/mountinfo", &tree.mounts(part));
        tree.put("process/cgroup", &format!("0::{own}\n"));
        tree
    }

    /// The line of the second version, behind others; a blank is written as the kernel does.
    fn mounts(&self, part: &str) -> String {
        let second = self.root.join("second").to_str().unwrap().replace(' ', "\\040");
        format!(
            "23 1 0:22 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw\n\
             30 23 0:26 {part} {second} rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 \
             rw,nsdelegate,memory_recursiveprot\n"
        )
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The files of a cgroup of the second version.
    fn group(self, dir: &str, current: u64, max: &str) -> Tree {
        self.put(&format!("second{dir}/memory.current"), &format!("{current}\n"));
        self.put(&format!("second{dir}/memory.max"), &format!("{max}\n"));
        self.put(&format!("second{dir}/memory.events"), EVENTS);
        self.put(&format!("second{dir}/memory.events.local"), EVENTS);
        self.put(&format!("second{dir}/memory.pressure"), STALLS);
        self
    }

    fn without(self, file: &str) -> Tree {
        fs::remove_file(self.root.join(file)).unwrap();
        self
    }

    /// What the library says on standard error as it opens what is wanted, and what `f` makes of
    /// it. A thread of its own, because the watch closes all files of its table.
    fn watch<R: Send>(
        &self,
        wanted: &str,
        f: impl FnOnce(Option<Sources>) -> R + Send,
    ) -> (String, R) {
        unsafe extern "C" {
            safe fn dup2(from: i32, to: i32) -> i32;
        }
        let said = self.root.join("said");
        let work = || {
            assert!(files::part(), "a table of files");
            assert_eq!(dup2(fs::File::create(&said).unwrap().as_raw_fd(), 2), 2);
            let process = self.root.join("process");
            let wanted = parse(wanted.as_bytes()).expect("a watch");
            let mut sources = Sources::open(&wanted, process.to_str().unwrap());
            if let Some(sources) = &mut sources {
                assert!(files::write(sources.bell(), &[0]), "the bell");
            }
            f(sources)
        };
        let result = std::thread::scope(|scope| scope.spawn(work).join());
        let said = fs::read_to_string(&said).unwrap();
        (said, result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    /// The same where it must be opened without a word.
    fn watched<R: Send>(&self, wanted: &str, f: impl FnOnce(Sources) -> R + Send) -> R {
        let (said, result) = self.watch(wanted, |sources| f(sources.expect("a watch")));
        assert_eq!(said, "");
        result
    }

    /// What it says where it must not be opened.
    fn refused(&self, wanted: &str) -> String {
        let (said, is_open) = self.watch(wanted, |sources| sources.is_some());
        assert!(!is_open, "something is watched: {said}");
        said
    }
}

/// True if a look says that the cgroup's memory is short.
fn is_short(sources: &mut Sources) -> bool {
    match sources.wait() {
        WaitOutcome::Nothing => false,
        WaitOutcome::Short(why) => {
            assert!(why.cgroup && !why.stalled);
            true
        }
        WaitOutcome::Refused | WaitOutcome::Gone => panic!("the watch ended"),
    }
}

/// A file, what is written into it, and whether that is an event.
type Change = (&'static str, &'static str, bool);

/// Changes of one cgroup, one after the other.
const CHANGES: &[Change] = &[
    ("memory.events", EVENTS, false),
    ("memory.events", "low 9\nhigh 7\nmax 2\noom 4\noom_kill 3\noom_group_kill 1\n", false),
    ("memory.events", "low 9\nhigh 7\nmax 3\noom 4\noom_kill 3\noom_group_kill 1\n", true),
    ("memory.events", "low 9\nhigh 7\nmax 3\noom 4\noom_kill 3\noom_group_kill 1\n", false),
    ("memory.events", "low 9\nhigh 8\nmax 3\noom 4\noom_kill 3\noom_group_kill 1\n", true),
    // Written by a kernel that has a line more.
    (
        "memory.events",
        "low 9\nhigh 8\nmax 3\noom 4\noom_kill 3\noom_group_kill 1\nsock_throttled 5\n",
        false,
    ),
    ("memory.events", "low 9\nhigh 18446744073709551615\nmax 3\noom 4\n", true),
    ("memory.events", "", false),
    // The cgroup's own, without those of its descendants, which are in the file above.
    ("memory.events.local", "low 0\nhigh 90\nmax 90\noom 0\noom_kill 0\noom_group_kill 0\n", false),
    ("memory.pressure", "some avg10=99.00 avg60=50.00 avg300=9.00 total=99999999\n", false),
    ("memory.current", "99000000\n", false),
];

/// The changes for which the watch and the table differ.
fn differences(name: &str, changes: &[Change]) -> Vec<usize> {
    let tree = Tree::new(name, "/", "/app.slice/one").group("/app.slice/one", 9 * MIB, "max");
    tree.watched("cgroup", |mut sources| {
        let differs = |nth: &usize| {
            let (file, text, is_event) = changes[*nth];
            tree.put(&format!("second/app.slice/one/{file}"), text);
            is_short(&mut sources) != is_event
        };
        (0..changes.len()).filter(differs).collect()
    })
}

#[test]
fn new_events_of_high_and_max_alone_are_events() {
    assert_eq!(differences("events", CHANGES), Vec::<usize>::new());
}

#[test]
fn an_event_of_what_did_not_rise_would_be_found() {
    let mut planted = CHANGES.to_vec();
    // The counter rises where the table says that nothing did, and stands where it says a rise.
    planted[0].1 = CHANGES[2].1;
    planted[2].1 = CHANGES[1].1;
    // Then the third line's rise comes one change later.
    assert_eq!(differences("planted", &planted), [0, 2, 3]);
}

#[test]
fn usage_above_a_share_of_the_limit_is_an_event() {
    let tree = Tree::new("usage", "/", "/one").group("/one", 70 * MIB, &(100 * MIB).to_string());
    let set = |bytes: u64| tree.put("second/one/memory.current", &format!("{bytes}\n"));
    tree.watched("cgroup", |mut sources| {
        assert!(!is_short(&mut sources), "70 % is below 80 %");
        set(80 * MIB - 1);
        assert!(!is_short(&mut sources), "one byte below");
        set(80 * MIB);
        assert!(is_short(&mut sources), "the level");
        sources.drained();
        set(81 * MIB - 1);
        assert!(!is_short(&mut sources), "one byte less than the growth that counts");
        set(81 * MIB);
        assert!(is_short(&mut sources), "it grew");
        sources.drained();
        let looks: Vec<bool> = (0..20).map(|_| is_short(&mut sources)).collect();
        assert_eq!(looks.iter().filter(|it| **it).count(), 2, "each tenth look: {looks:?}");
        set(10 * MIB);
        assert!(!is_short(&mut sources), "it fell");
    });
}

#[test]
fn a_level_in_bytes_needs_no_limit() {
    let tree = Tree::new("bytes", "/", "/one").group("/one", 4 * MIB, "max");
    tree.watched("cgroup:5M", |mut sources| {
        assert!(!is_short(&mut sources));
        tree.put("second/one/memory.current", "5242880\n");
        assert!(is_short(&mut sources));
    });
    let tree = tree.without("second/one/memory.max").without("second/one/memory.events");
    // It grew before the watch began.
    tree.put("second/one/memory.current", "6291456\n");
    tree.watched("cgroup:5M", |mut sources| assert!(is_short(&mut sources)));
}

#[test]
fn the_directory_is_found_below_what_is_mounted() {
    // Part of the hierarchy that is mounted, the process's cgroup, and where that lies.
    for (nth, (part, own, dir)) in [
        ("/", "/", ""),
        ("/", "/a b/c:d", "/a b/c:d"),
        ("/docker/f00", "/docker/f00", ""),
        ("/docker/f00", "/docker/f00/app", "/app"),
        // Not below it: a namespace's own root.
        ("/docker/f00", "/docker/f001", ""),
        ("/docker/f00", "/", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let tree = Tree::new(&format!("found {nth}"), part, own).group(dir, 5 * MIB, "max");
        tree.watched("cgroup:4M", |mut sources| {
            assert!(is_short(&mut sources), "{own} of {part}");
        });
    }
}

#[test]
fn the_trigger_goes_into_the_cgroups_own_file() {
    for (nth, (own, dir)) in [("/one", "/one"), ("/", "")].into_iter().enumerate() {
        let tree = Tree::new(&format!("stalls {nth}"), "/", own).group(dir, 0, "max");
        tree.watched("psi:full 70000 1000000", |_| ());
        let text = fs::read(tree.root.join(format!("second{dir}/memory.pressure"))).unwrap();
        assert!(text.starts_with(b"full 70000 1000000\0"), "{text:?}");
    }
}

#[test]
fn a_tree_without_its_files_is_refused_with_a_sentence() {
    let begin = "slabyard: the cgroup's memory is not watched: ";
    let none = format!("{begin}no cgroup of this process with memory is mounted\n");
    let full = |name: &str| Tree::new(name, "/", "/one").group("/one", 4 * MIB, "max");

    let tree = full("without usage").without("second/one/memory.current");
    assert_eq!(tree.refused("cgroup"), none);
    let tree = full("not mounted");
    tree.put("process/mountinfo", "23 1 0:22 / /sys rw shared:7 - sysfs sysfs rw\n");
    assert_eq!(tree.refused("cgroup"), none);
    let tree = full("of no cgroup");
    tree.put("process/cgroup", "2:cpu:/one\n");
    assert_eq!(tree.refused("cgroup"), none);
    assert_eq!(full("without a process").without("process/cgroup").refused("cgroup"), none);

    let tree = full("without events").without("second/one/memory.events");
    let events = format!("{begin}it has no limit, and its events cannot be read\n");
    assert_eq!(tree.refused("cgroup"), events);
    let tree = tree.without("second/one/memory.max");
    assert_eq!(tree.refused("cgroup:70%"), events, "without the file of the limit");
}

#[test]
fn version_1_serves_where_version_2_has_no_memory() {
    let tree = Tree::new("hybrid", "/", "/one");
    let first = tree.root.join("first").to_str().unwrap().replace(' ', "\\040");
    let second = tree.mounts("/");
    let line = format!("35 31 0:32 / {first} rw,relatime shared:1 - cgroup cgroup rw,memory\n");
    tree.put("process/mountinfo", &(second + &line));
    tree.put("process/cgroup", "4:memory:/two\n0::/one\n");
    tree.put("second/one/cgroup.procs", "");
    tree.put("first/two/memory.usage_in_bytes", "8388608\n");
    tree.put("first/two/memory.limit_in_bytes", "9223372036854771712\n");
    let said = tree.refused("cgroup");
    assert!(said.ends_with(": it has no limit; a level in bytes needs none\n"), "{said}");
    tree.put("first/two/memory.limit_in_bytes", "10485760\n");
    tree.watched("cgroup:70%", |mut sources| assert!(is_short(&mut sources)));
}
