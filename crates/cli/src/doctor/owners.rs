//! Who allocates what stays in a kernel's caches while `slabyard doctor kernel --watch` looks.
//!
//! Neighbours: the crate `slabyard-owners` watches, in a thread beside the looks; [`Evidence`] gives
//! the doctor's findings their owners, and [`text`] prints who holds most, whatever is found.

use slabyard_doctor::Look;
use slabyard_doctor::owners::{Owner, Owners};
use slabyard_observe::view::cell::{clean, human};
use slabyard_owners::{self as owners, Means, Options, Watch};
use std::fmt::Write;
use std::panic::resume_unwind;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Owners of a cache that a finding names, and of all caches that are printed.
const NAMED: usize = 5;

/// A watch beside the looks.
pub struct Watching(JoinHandle<Watch>);

impl Watching {
    /// Starts it, for so long. It returns when the watch has begun: loading programs may take longer
    /// than the watch on a slow machine, and the looks are to be of the same time.
    pub fn start(duration: Duration, budget: f64) -> Watching {
        let options = Options { budget, ..Options::new(duration) };
        let (begin, begun) = sync_channel(1);
        let watching = thread::spawn(move || {
            owners::watch(options, |_| {
                // Nobody waits for the second.
                let _ = begin.try_send(());
                true
            })
        });
        // An end without a begin is a panic, which `end` passes on.
        let _ = begun.recv();
        Watching(watching)
    }

    /// What was seen.
    pub fn end(self) -> Watch {
        self.0.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// What findings ask for.
pub struct Evidence<'a> {
    watch: &'a Watch,
    looks: &'a [Look],
}

impl Evidence<'_> {
    pub fn of<'a>(watch: &'a Watch, looks: &'a [Look]) -> Evidence<'a> {
        Evidence { watch, looks }
    }

    /// Whether two names are of one cache, which may be merged.
    fn is_same(&self, a: &str, b: &str) -> bool {
        let snapshot = self.looks.last().and_then(|look| look.snapshot.as_ref());
        let cache = |name| snapshot.and_then(|it| it.cache(name)).map(|cache| &cache.name);
        a == b || cache(a).is_some_and(|name| Some(name) == cache(b))
    }
}

impl Owners for Evidence<'_> {
    fn of_cache(&self, cache: &str) -> Vec<Owner> {
        let mut found = Vec::new();
        if cache == "dentry" {
            found.extend(self.watch.directories.iter().take(2).map(|directory| Owner {
                who: format!("directory {}, by {}", directory.path, directory.process),
                site: Some(format!(
                    "{} of {} names do not exist",
                    directory.negative, directory.entries
                )),
                objects: directory.entries,
                bytes: directory.bytes,
            }));
        }
        let systems = self.watch.file_systems.iter().filter(|it| self.is_same(&it.cache, cache));
        found.extend(systems.take(2).map(|system| Owner {
            who: format!("file system {}, by {}", file_system(system), system.process),
            site: None,
            objects: system.inodes,
            bytes: system.bytes,
        }));
        let owners = self.watch.owners.iter().filter(|owner| self.is_same(&owner.cache, cache));
        found.extend(owners.take(NAMED).map(|owner| Owner {
            who: owners::who(&owner.process, owner.cgroup.as_ref()),
            site: Some(owner.site.clone()),
            objects: owner.objects,
            bytes: owner.bytes,
        }));
        found
    }
}

fn file_system(system: &owners::FileSystem) -> String {
    let place = system.mount.as_deref().unwrap_or(&system.id);
    format!("{} at {place}", system.file_system)
}

/// Whose slab memory grew.
fn growth(watch: &Watch) -> String {
    let mut text = String::new();
    if watch.growth.is_empty() {
        return text;
    }
    let _ = writeln!(text, "\nslab memory after {:.0} s", watch.took_ns as f64 / 1e9);
    for it in watch.growth.iter().take(NAMED) {
        let whose =
            it.cgroup.as_ref().map_or_else(|| "all".into(), |cgroup| clean(&cgroup.to_string()));
        let change = human(it.grew_bytes.unsigned_abs());
        let now = human(it.bytes);
        let _ = match u64::try_from(it.grew_unreclaimable) {
            _ if it.grew_bytes < 0 => writeln!(text, "  {whose}: {now}, {change} less"),
            Ok(kept) if kept > 0 => {
                writeln!(
                    text,
                    "  {whose}: {now}, {change} more; unreclaimable {} more",
                    human(kept)
                )
            }
            _ => writeln!(text, "  {whose}: {now}, {change} more"),
        };
    }
    text
}

/// Who allocates most, whatever stays.
fn busiest(watch: &Watch) -> String {
    if watch.sites.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nwho allocates most, whatever stays\n");
    let a_second = |count: u64| (count as f64 * 1e9 / watch.took_ns.max(1) as f64) as u64;
    for site in watch.sites.iter().take(NAMED) {
        let who = clean(&owners::who(&site.process, site.cgroup.as_ref()));
        let (objects, bytes) = (a_second(site.allocations), human(a_second(site.bytes)));
        let rates = format!("{objects} objects and {bytes} a second");
        let _ = writeln!(text, "  {who}: {rates} of {} at {}", site.cache, site.site);
    }
    text
}

/// Who holds most of what was allocated in the watch and stays, and what the watch cost.
pub fn text(watch: &Watch) -> String {
    let mut text = String::new();
    let seconds = watch.took_ns as f64 / 1e9;
    if watch.means <= Means::Tracefs {
        let _ = writeln!(text, "\nwho allocated in {seconds:.0} s what stays");
        if watch.owners.is_empty() {
            text.push_str("  nobody\n");
        }
    }
    for owner in watch.owners.iter().take(NAMED) {
        let held =
            format!("{} in {} objects of {}", human(owner.bytes), owner.objects, owner.cache);
        let _ = writeln!(
            text,
            "  {}: {held} at {}",
            clean(&owners::who(&owner.process, owner.cgroup.as_ref())),
            owner.site
        );
    }
    for directory in watch.directories.iter().take(2) {
        let owners::Directory { entries, negative, .. } = directory;
        let path = clean(&directory.path);
        let _ = writeln!(text, "  directory {path}: {entries} entries, {negative} negative");
    }
    for system in watch.file_systems.iter().take(2) {
        let place = clean(&file_system(system));
        let _ = writeln!(text, "  file system {place}: {} inodes", system.inodes);
    }
    text.push_str(&busiest(watch));
    if watch.means > Means::Bpf {
        text.push_str(&growth(watch));
    }
    if let Some(cost) = watch.cost {
        let _ = write!(
            text,
            "The watch took {:.2} % of one CPU: {} events of {:.0} ns",
            cost.cpu_share * 100.0,
            cost.events,
            cost.ns_per_event
        );
        let _ = match watch.one_in {
            1 => writeln!(text, "; every object was followed."),
            n => writeln!(text, "; one object in {n} was followed, and counts are estimates."),
        };
        if cost.cpu_share > cost.budget {
            let most = match watch.means {
                Means::Bpf => "the look at each event",
                _ => "reading events until fewer were let through",
            };
            let budget = cost.budget * 100.0;
            let _ = writeln!(
                text,
                "That is more than the {budget} % that it should take: most of it is {most}."
            );
        }
    }
    let owners::Losses { missed, objects, owners, .. } = watch.lost;
    if missed + objects + owners > 0 {
        let _ = writeln!(
            text,
            "Lost: {missed} events, {objects} objects and {owners} allocations for want of room."
        );
    }
    for lacking in &watch.missing {
        let _ = writeln!(
            text,
            "Without {} ({}) it does not tell {}.",
            lacking.what, lacking.why, lacking.adds
        );
    }
    text
}
