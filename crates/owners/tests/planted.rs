//! Growth that is planted on this machine is found, with who planted it. Needs root and BPF, and
//! says what it skips.

use slabyard_owners::{Activity, Means, Options, Rates, Watch, watch};
use std::fmt::Debug;
use std::fs::{self, File};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a child of this program plants, and where.
const PLANT: &str = "SLABYARD_TEST_PLANT";
const LASTS: Duration = Duration::from_secs(3);
/// Who looks names up leaves a file for so many.
const NAMES: usize = 2000;

/// This program again, as a process that plants.
fn planter(what: &str, directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "plant", "--nocapture"])
        .env(PLANT, format!("{what} {}", directory.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Does nothing unless this program was started to plant; then it goes on until it is killed.
#[test]
fn plant() {
    let Ok(words) = std::env::var(PLANT) else { return };
    let (what, directory) = words.split_once(' ').unwrap();
    let directory = Path::new(directory);
    let start = Instant::now();
    let (mut kept, mut sockets) = (Vec::new(), Vec::new());
    for nth in 0.. {
        if start.elapsed() > LASTS * 3 {
            break;
        }
        match what {
            "names" if nth < 60_000 => {
                drop(fs::metadata(directory.join(format!("no-{nth}"))));
                if nth % NAMES == 0 {
                    drop(File::create(directory.join(format!("names-{nth}"))));
                }
            }
            // The place is a queue's number here.
            "messages" => {
                let queue = directory.to_str().unwrap().trim_matches('/').parse().unwrap();
                send_and_receive(queue);
            }
            "datagrams" if nth < 150 => sockets.push(full_socket()),
            "files" if nth < 900 => kept.push(File::open("/dev/null").unwrap()),
            // What others allocate and free.
            "churn" => drop(File::open("/dev/null")),
            _ => sleep(Duration::from_millis(100)),
        }
        if nth % 20 == 0 {
            sleep(Duration::from_millis(1));
        }
    }
}

/// A pair whose kernel buffers are full of datagrams that nobody reads, of 4 KiB each.
fn full_socket() -> (UnixDatagram, UnixDatagram) {
    let pair = UnixDatagram::pair().unwrap();
    pair.0.set_nonblocking(true).unwrap();
    while pair.0.send(&[7; 3000]).is_ok() {}
    pair
}

#[repr(C)]
struct Message {
    kind: libc::c_long,
    text: [u8; 200],
}

fn send_and_receive(queue: i32) {
    let mut message = Message { kind: 1, text: [7; 200] };
    let text = (&raw mut message).cast();
    // SAFETY: the kernel reads and writes 200 bytes behind `kind`, which the message has.
    unsafe {
        libc::msgsnd(queue, text, 200, libc::IPC_NOWAIT);
        libc::msgrcv(queue, text, 200, 0, libc::IPC_NOWAIT);
    }
}

/// Tests that plant would be one another's noise.
static PLANTS: Mutex<()> = Mutex::new(());

/// With the planters' process ids.
fn watched(directory: &Path, plants: &[&str], best: Means) -> Option<(Watch, Vec<u32>)> {
    let _alone = PLANTS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut children: Vec<Child> = Vec::new();
    // More than by default: other tests may keep this machine busy.
    let options = Options { budget: 0.2, best, ..Options::new(LASTS) };
    let found = watch(options, |since| {
        if children.is_empty() && since > Duration::from_millis(300) {
            children = plants.iter().map(|what| planter(what, directory)).collect();
        }
        true
    });
    let pids = children.iter().map(Child::id).collect();
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    if found.means != best {
        skip(&found.missing);
        return None;
    }
    Some((found, pids))
}

/// Programs that count, while no other test plants.
fn counting(budget: f64) -> Option<(MutexGuard<'static, ()>, Rates)> {
    let alone = PLANTS.lock().unwrap_or_else(PoisonError::into_inner);
    let rates = Rates::start(budget).map_err(|why| skip(&why)).ok()?;
    Some((alone, rates))
}

/// Says why a test does not run. On a kernel that should let it, that is a failure.
fn skip(why: &dyn Debug) {
    let why = format!("{why:?}");
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map_while(|it| it.parse::<u32>().ok());
    let version = (numbers.next(), numbers.next());
    let is_tested = version >= (Some(6), Some(12));
    // Debian's 6.12 does not, 6.18 does.
    let lacks_caches = version < (Some(6), Some(18))
        && why.contains("the event kmem_cache_alloc does not tell the cache");
    let refusals =
        ["not permitted", "ermission denied", "not implemented", "CONFIG_TRACING is off"];
    // SAFETY: it only returns a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    let is_refused = !is_root
        || lacks_caches
        || !Path::new("/sys/kernel/btf/vmlinux").exists()
        || refusals.iter().any(|refusal| why.contains(refusal));
    assert!(is_refused || !is_tested, "{why}");
    eprintln!("skipped: {why}");
}

#[test]
fn the_process_and_the_directory_of_planted_growth_are_named() {
    // Not in `/tmp`, which may be a tmpfs: that keeps no names of files that do not exist.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some((found, pids)) = watched(directory.path(), &["names", "files", "churn"], Means::Bpf)
    else {
        return;
    };
    for owner in found.owners.iter().take(6) {
        eprintln!("{owner:?}");
    }
    for directory in found.directories.iter().take(3) {
        eprintln!("{directory:?}");
    }
    eprintln!("{:?} {:?} one in {}", found.cost, found.lost, found.one_in);
    let [names, files, churn] = pids[..] else { panic!("{pids:?}") };
    let most = found.owners.iter().find(|owner| owner.cache == "dentry").unwrap();
    assert_eq!(most.process.pid, names);
    assert!(most.process.command.as_ref().unwrap().contains("plant"), "{:?}", most.process);
    let first = &found.directories[0];
    assert!(first.path.ends_with(directory.path().to_str().unwrap()), "{}", first.path);
    assert_eq!(first.process.pid, names);
    assert!(first.negative * 10 > first.entries * 9, "{first:?}");
    // The sample has some of the files, and none of those that were freed.
    let kept = |pid| {
        let files = found.owners.iter().filter(|it| it.process.pid == pid && it.cache == "filp");
        files.map(|owner| owner.objects).sum::<u64>()
    };
    assert!((300..3000).contains(&kept(files)), "{}", kept(files));
    assert!(kept(churn) < kept(files) / 4, "{}", kept(churn));
    let filp = found.caches.iter().find(|cache| cache.cache == "filp").unwrap();
    assert!(filp.allocations.unwrap() > 900 && filp.frees.unwrap() > 900, "{filp:?}");
    let cost = found.cost.unwrap();
    assert!(cost.events > 1000 && cost.ns_per_event > 0.0, "{cost:?}");
}

#[test]
fn the_rates_of_a_process_that_opens_and_closes_files_are_told() {
    let Some((_alone, mut rates)) = counting(0.2) else { return };
    let mut child = planter("churn", Path::new("/"));
    sleep(Duration::from_millis(500));
    rates.look().unwrap();
    sleep(LASTS / 2);
    let found = rates.look().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    eprintln!("{:?} {:?} one in {}", found.cost, found.lost, found.one_in);
    let of = |site: &&slabyard_owners::Site| site.process.pid == child.id() && site.cache == "filp";
    let site = found.sites.iter().find(of).unwrap();
    eprintln!("{site:?}");
    // It opens 20 files each 1 to 2 milliseconds, or as many as a busy machine lets it.
    assert!((20.0..25_000.0).contains(&found.a_second(site.allocations)), "{site:?}");
    assert!(site.bytes > site.allocations * 100, "{site:?}");
    assert!(
        site.frees * 10 > site.allocations * 8 && site.frees < site.allocations * 2,
        "{site:?}"
    );
    let cache = found.caches.iter().find(|cache| cache.cache == "filp").unwrap();
    // Both are read one after the other, while files are opened.
    assert!(cache.allocations.unwrap() * 100 >= site.allocations * 99, "{cache:?}");
    assert!((LASTS / 2..LASTS * 2).contains(&Duration::from_nanos(found.took_ns)), "{found:?}");
    let cost = found.cost.unwrap();
    assert!(cost.events > 1000 && cost.cpu_share > 0.0, "{cost:?}");
    // What was counted is not counted again.
    sleep(LASTS / 2);
    let after = rates.look().unwrap();
    let again: u64 = after.sites.iter().filter(of).map(|site| site.allocations).sum();
    assert!(again * 10 < site.allocations, "{again}");
}

#[test]
fn a_kernel_that_loads_no_programs_names_the_process_by_its_events() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some((found, pids)) = watched(directory.path(), &["names", "churn"], Means::Tracefs) else {
        return;
    };
    for owner in found.owners.iter().take(4) {
        eprintln!("{owner:?}");
    }
    eprintln!("{:?} {:?} one in {}", found.cost, found.lost, found.one_in);
    let most = found.owners.iter().find(|owner| owner.cache == "dentry").unwrap();
    assert_eq!((most.process.pid, &*most.site), (pids[0], "__d_alloc"));
    // Of as many as a busy machine let it look up; what the cache grew by has those of others, too.
    let names = (NAMES * fs::read_dir(directory.path()).unwrap().count()) as u64;
    assert!((names / 4..names * 4).contains(&most.objects), "{most:?} {names}");
    let churn = found.sites.iter().find(|it| it.process.pid == pids[1] && it.cache == "filp");
    // A few of one event in many say nothing about each other.
    let churn = churn.filter(|site| site.allocations > 20 * found.one_in);
    assert!(churn.is_none_or(|site| site.frees * 2 > site.allocations), "{churn:?}");
    let lacks = |what: &str| found.missing.iter().any(|it| it.what.contains(what));
    assert!(lacks("BPF") && lacks("clock of trace events"), "{:?}", found.missing);
    assert!(found.directories.is_empty() && found.cost.unwrap().events > 100, "{:?}", found.cost);
    // Nothing is left behind.
    let ours = format!("slabyard-{}-", std::process::id());
    let left = fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    let left = left.filter(|it| it.file_name().to_string_lossy().starts_with(&ours)).count();
    assert_eq!(left, 0);
}

#[test]
fn a_kernel_that_shows_no_events_tells_which_caches_and_cgroups_grew() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some((found, _)) = watched(directory.path(), &["names"], Means::Sizes) else { return };
    let grew = found.caches.iter().find(|it| it.cache == "dentry").unwrap();
    assert!(grew.grew_objects.unwrap() > 1000 && grew.allocations.is_none(), "{grew:?}");
    assert!(found.owners.is_empty() && found.sites.is_empty());
    let lacks: Vec<&str> = found.missing.iter().map(|it| &*it.what).collect();
    assert_eq!(lacks, ["BPF programs on the kernel's tracepoints", "events of tracefs"]);
}

#[test]
fn without_the_caches_the_totals_are_told() {
    // Names would fill what earlier ones left free in the slabs of dentries, and no total would grow.
    // Whoever frees meanwhile takes as much from the machine's total.
    let grew = (0..4).find_map(|_| {
        let watched = watched(Path::new("/"), &["datagrams"], Means::Totals);
        let Some((found, _)) = watched else { return Some(None) };
        let machine = &found.growth[0];
        assert!(machine.cgroup.is_none() && machine.bytes > 1 << 20, "{machine:?}");
        eprintln!("{:?}", found.growth);
        // About 30 MiB, which are charged to a cgroup where this machine has any.
        let most = found.growth.get(1).map_or(0, |it| it.grew_bytes);
        (machine.grew_bytes.max(most) > 4 << 20).then_some(Some(found))
    });
    let Some(found) = grew.expect("growth in one of four watches") else { return };
    assert!(found.caches.is_empty() && found.missing.len() == 3, "{:?}", found.missing);
}

/// Messages have kmalloc caches of their own, `msg_msg-256` (`kmem_buckets_create`).
#[test]
fn kmalloc_caches_of_a_site_are_told_by_their_names() {
    let types = fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    let name = b"\0bpf_get_kmem_cache\0";
    let caches = fs::read_to_string("/proc/slabinfo").unwrap_or_default();
    if !types.windows(name.len()).any(|it| it == name) || !caches.contains("\nmsg_msg-256 ") {
        eprintln!("skipped: the kernel has no such caches, or does not tell an object's");
        return;
    }
    let Some((_alone, mut rates)) = counting(0.2) else { return };
    // SAFETY: numbers alone.
    let queue = unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) };
    let mut child = planter("messages", &Path::new("/").join(queue.to_string()));
    sleep(LASTS / 2);
    let found = rates.look().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // SAFETY: it reads nothing for this command.
    unsafe { libc::msgctl(queue, libc::IPC_RMID, std::ptr::null_mut()) };
    let of = |site: &&slabyard_owners::Site| site.process.pid == child.id();
    let site = found.sites.iter().filter(of).find(|site| site.cache == "msg_msg-256");
    let site = site.unwrap_or_else(|| panic!("{:?}", found.sites.iter().find(of)));
    eprintln!("{site:?}");
    // Sent and received at once: who frees is told the cache, too.
    let cache = found.caches.iter().find(|cache| cache.cache == "msg_msg-256").unwrap();
    let (allocations, frees) = (cache.allocations.unwrap(), cache.frees.unwrap());
    assert!(allocations > 500 && frees * 2 > allocations && frees < allocations * 2, "{cache:?}");
}

/// What a process opened a second: while all was counted, at which cost, and at each of 16 looks whose budget
/// is a part of this cost.
fn rates_of_a_part(mut rates: Rates, pid: u32) -> Option<(f64, f64, Vec<Activity>)> {
    rates.look().unwrap();
    sleep(LASTS / 2);
    let first = rates.look().unwrap();
    let Some(cost) = first.cost else {
        eprintln!("skipped: the kernel does not measure what programs take");
        return None;
    };
    // What it has counted would cost the next.
    drop(rates);
    // What is left of the cost when few objects are followed, is another part of it on each machine.
    let mut looks = Vec::new();
    for part in [16.0, 64.0, 256.0] {
        let mut rates = Rates::start((cost.cpu_share / part).clamp(0.0005, 0.2)).unwrap();
        let look = |_| {
            sleep(LASTS / 10);
            rates.look().unwrap()
        };
        looks = (0..16).map(look).collect();
        if looks.iter().any(is_of_a_part) {
            break;
        }
    }
    let all_the_time = opened_a_second(&first, pid).expect("it opens files");
    Some((all_the_time, cost.cpu_share, looks))
}

/// A rate of the time around it would be a fifth of its own or less.
fn is_of_a_part(found: &Activity) -> bool {
    found.counted < 0.2
}

fn opened_a_second(found: &Activity, pid: u32) -> Option<f64> {
    let of = |site: &&slabyard_owners::Site| site.process.pid == pid && site.cache == "filp";
    Some(found.a_second(found.sites.iter().find(of)?.allocations))
}

#[test]
fn rates_that_cost_more_than_the_budget_are_counted_in_a_part_of_the_time() {
    let Some((_alone, rates)) = counting(0.5) else { return };
    let mut child = planter("churn", Path::new("/"));
    let pid = child.id();
    let found = rates_of_a_part(rates, pid);
    child.kill().unwrap();
    child.wait().unwrap();
    let Some((all_the_time, cost, looks)) = found else { return };
    if looks.iter().all(|it| it.counted == looks[0].counted) {
        eprintln!("skipped: another read of the tables would cost more than the budget");
        return;
    }
    let parts: Vec<&Activity> = looks.iter().filter(|it| is_of_a_part(it)).collect();
    let of_parts: Vec<f64> = parts.iter().filter_map(|it| opened_a_second(it, pid)).collect();
    let counted: Vec<f64> = looks.iter().map(|it| it.counted).collect();
    eprintln!("{all_the_time} {of_parts:?} {counted:?} {cost}");
    let is_alike = |rate: &f64| (all_the_time / 3.0..all_the_time * 3.0).contains(rate);
    assert!(of_parts.iter().any(is_alike), "{all_the_time} {of_parts:?} of {}", parts.len());
}
