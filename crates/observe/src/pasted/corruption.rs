//! Reports of SLUB's checks (`slab_debug`): which object is not as it was left, and who allocated
//! and freed it (Documentation/mm/slab.rst of the kernel).
//!
//! ```text
//! BUG kmalloc-64 (Tainted: G           OE    ): Right Redzone overwritten
//! 0xffff8881053e4c40-0xffff8881053e4c43 @offset=3136. First byte 0x0 instead of 0xcc
//! Allocated in sensor_probe+0x5c/0x1b0 [hwsensor] age=48211 cpu=2 pid=611
//!  kmem_cache_alloc_trace+0x1c4/0x2f0
//! Freed in kobject_uevent_env+0x12c/0x6d0 age=48230 cpu=2 pid=611
//! Slab 0xffffea000414f900 objects=21 used=19 fp=0xffff8881053e4e00 flags=0x17ffffc0000200
//! ```
//!
//! Kernels to 5.11 write `INFO: ` before most lines.

use super::found::{Outcome, Pasted};
use super::lines::{self, Line};
use super::log::{self, Message};
use crate::incident::{Incident, IncidentKind, IncidentSite, SiteRole};

/// Of a log of many reports as many are kept.
const MOST: usize = 100;

/// Words of which SLUB's reports have one behind the cache.
const REPORTS: [&str; 11] = [
    "overwritten",
    "already free",
    "corrupt",
    "Freelist",
    "freelist",
    "Freepointer",
    "Invalid",
    "invalid",
    "Wrong",
    "Objects remaining",
    "disabled since",
];

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let messages = log::messages(lines);
    let begins: Vec<usize> =
        (0..messages.len()).filter(|at| bug(messages[*at].text).is_some()).collect();
    if begins.is_empty() {
        return Outcome::Absent;
    }
    for (nth, at) in begins.iter().enumerate().take(MOST) {
        let end = begins.get(nth + 1).copied().unwrap_or(messages.len());
        let Some(cache) = bug(messages[*at].text) else { continue };
        let (incident, objects) = report(&messages[*at..end], cache);
        let cache = pasted.cache_named(cache);
        if let Some(objects) = objects.filter(|_| cache.value("objs_per_slab").is_none()) {
            cache.set("objs_per_slab", objects);
        }
        pasted.snapshot.incidents.push(incident);
    }
    if begins.len() > MOST {
        let why = format!("the log has {}, and the first {MOST} are kept", begins.len());
        pasted.miss("slab_debug reports", why);
    }
    Outcome::Read
}

/// The cache of "BUG NAME (Not tainted): Poison overwritten", in which old kernels have no brackets.
fn bug(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("BUG ")?;
    let (name, report) = match rest.split_once(" (") {
        Some((name, behind)) => (name, behind.split_once("): ")?.1),
        None => rest.split_once(": ")?,
    };
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    (is_name && REPORTS.iter().any(|word| report.contains(word))).then_some(name)
}

/// One report, and how many objects its slab has.
fn report(messages: &[Message<'_>], cache: &str) -> (Incident, Option<u64>) {
    let text = messages.first().map_or("", |message| message.text);
    let mut incident = Incident::new(IncidentKind::Corruption, lines::clean(text));
    incident.cache = Some(lines::clean(cache));
    let mut objects = None;
    for (at, message) in messages.iter().enumerate().skip(1) {
        let text = message.text.strip_prefix("INFO: ").unwrap_or(message.text);
        let below = messages.get(at + 1..).unwrap_or_default();
        if let Some((_, first)) = text.split_once("First byte ")
            && text.starts_with("0x")
            && !incident.text.contains("first byte")
        {
            incident.text = lines::clean(&format!("{}; first byte {first}", incident.text));
        }
        let roles = [("Allocated in ", SiteRole::Allocated), ("Freed in ", SiteRole::Freed)];
        for (begin, role) in roles {
            if let Some(rest) = text.strip_prefix(begin) {
                incident.sites.extend(site(role, rest, below));
            }
        }
        if text.starts_with("Slab 0x") {
            objects = objects.or(log::number_behind(text, "objects="));
        }
        if log::is_trace(text) {
            incident.sites.extend(IncidentSite::reported(log::stack(below)));
            break;
        }
        if let Some((_, behind)) = text.split_once("Comm: ") {
            let name = behind.split_whitespace().next().map(lines::clean);
            incident.program = incident.program.take().or(name);
        }
    }
    (incident, objects)
}

/// `sensor_probe+0x5c/0x1b0 [hwsensor] age=48211 cpu=2 pid=611`, and its callers below.
fn site(role: SiteRole, text: &str, below: &[Message<'_>]) -> Option<IncidentSite> {
    let (function, _) = text.split_once(" age=")?;
    let small = |key: &str| log::number_behind(text, key).and_then(|n| u32::try_from(n).ok());
    Some(IncidentSite {
        role,
        function: lines::clean(function),
        age_jiffies: log::number_behind(text, " age="),
        cpu: small(" cpu="),
        pid: small(" pid="),
        stack: log::stack(below),
    })
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    const OLD: &str = "\
[1.1] BUG kmalloc-512 (Not tainted): Redzone overwritten
[1.1] INFO: 0xadb51e08-0xadb51e0c. First byte 0x40 instead of 0xcc
[1.1] INFO: Allocated in platform_device_alloc+0x34/0x78 age=11951 cpu=0 pid=1
[1.1] \t__kmalloc+0x240/0x274
[1.1] \tplatform_device_alloc+0x34/0x78
[1.1] INFO: Slab 0xae3d1740 objects=21 used=19 fp=0x  (null) flags=0x4081
[1.1] CPU: 2 PID: 3120 Comm: rmmod Not tainted 5.4.0 #1
[1.1] Call Trace:
[1.1]  check_object+0x24d/0x2a0
[1.1] FIX kmalloc-512: Restoring 0xadb51e08-0xadb51e0c=0xcc
";

    #[test]
    fn the_cache_and_both_sites_are_known() {
        for text in [OLD.to_owned(), OLD.replace("INFO: ", "")] {
            let found = read(&text, 0).unwrap();
            let [incident] = &found.incidents[..] else { panic!("{:?}", found.incidents) };
            assert_eq!(
                incident.text,
                "BUG kmalloc-512 (Not tainted): Redzone overwritten; first byte 0x40 instead of 0xcc"
            );
            assert_eq!(
                (incident.cache.as_deref(), incident.program.as_deref()),
                (Some("kmalloc-512"), Some("rmmod"))
            );
            let site = &incident.sites[0];
            assert_eq!(
                (site.role, site.age_jiffies, site.pid),
                (SiteRole::Allocated, Some(11951), Some(1))
            );
            assert_eq!(site.stack.len(), 2);
            assert_eq!(incident.sites[1].role, SiteRole::Reported);
            assert_eq!(found.caches[0].exact("objs_per_slab"), Some(21));
        }
    }

    #[test]
    fn other_bugs_are_not_slubs() {
        for text in
            ["BUG: kernel NULL pointer dereference", "BUG in my program: it is wrong", "BUG x (y"]
        {
            assert!(read(text, 0).is_err(), "{text}");
        }
        assert_eq!(bug("BUG kmalloc-2048: Poison overwritten"), Some("kmalloc-2048"));
    }
}
