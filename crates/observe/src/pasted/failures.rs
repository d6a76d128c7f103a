//! Reports of allocations that failed: calls of the OOM killer, page allocation failures, and what
//! SLUB and SLAB say when they get no slab.
//!
//! ```text
//! eat invoked oom-killer: gfp_mask=0x40cc0(GFP_KERNEL|__GFP_COMP), order=0, oom_score_adj=0
//! nginx: page allocation failure: order:1, mode:0x204020
//! nommu: Allocation of length 491520 from process 1 (sh) failed
//! SLUB: Unable to allocate memory on node -1 (gfp=0x20)
//!   cache: kmalloc-1024, object size: 1024, buffer size: 1024, default order: 2, min order: 1
//!   node 0: slabs: 412, objs: 6514, free: 0
//! ```

use super::found::{Outcome, Pasted};
use super::lines::{self, Line};
use super::log::{self, Message};
use crate::incident::{Incident, IncidentKind, IncidentSite};
use crate::value::{Reading, Value};

/// Of a log of many reports as many are kept.
const MOST: usize = 100;

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let messages = log::messages(lines);
    let mut incidents: Vec<Incident> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if let Some(mut incident) = failure(message.text, pasted.snapshot.machine.page_bytes) {
            incident.sites = reported(&messages, at).into_iter().collect();
            incidents.push(incident);
        } else if message.text.contains(": Unable to allocate memory on ") {
            let Some(told) = NoSlab::parse(&messages, at + 1) else {
                let next =
                    messages.get(at + 1).map_or("nothing".into(), |next| lines::shown(next.text));
                let why = format!("behind line {} is no cache but {next}", message.number);
                pasted.miss("SLUB's report", why);
                continue;
            };
            // The page allocator reported the same failure before, unless it was told not to.
            let last = incidents.last_mut().filter(|last| {
                last.kind == IncidentKind::AllocationFailure && last.cache.is_none()
            });
            match last {
                Some(last) => told.name_in(last),
                None => {
                    let text = lines::clean(message.text);
                    let mut incident = Incident::new(IncidentKind::AllocationFailure, text);
                    told.name_in(&mut incident);
                    incidents.push(incident);
                }
            }
            told.store(pasted);
        }
    }
    if incidents.is_empty() {
        return Outcome::Absent;
    }
    let all = incidents.len();
    if all > MOST {
        incidents.truncate(MOST);
        pasted.miss(
            "reports of failures",
            format!("the log has {all}, and the first {MOST} are kept"),
        );
    }
    pasted.snapshot.incidents.extend(incidents);
    Outcome::Read
}

fn failure(text: &str, page_bytes: Option<u64>) -> Option<Incident> {
    let (program, rest) = text
        .split_once(" invoked oom-killer:")
        .or_else(|| text.split_once(": page allocation failure"))
        .or_else(|| text.split_once("nommu: Allocation of length "))?;
    let kind = if text.contains(" invoked oom-killer:") {
        IncidentKind::OutOfMemory
    } else {
        IncidentKind::AllocationFailure
    };
    let mut incident = Incident::new(kind, lines::clean(text));
    let small = |order: u64| u32::try_from(order).ok().filter(|order| *order < u64::BITS);
    incident.order =
        log::number_behind(rest, "order:").or(log::number_behind(rest, "order=")).and_then(small);
    incident.program = Some(lines::clean(program)).filter(|program| !program.is_empty());
    if text.starts_with("nommu: ") {
        let (bytes, behind) = rest.split_once(" from process ")?;
        let pages = bytes.parse::<u64>().ok()?.div_ceil(page_bytes.unwrap_or(4096));
        incident.order = Some(pages.checked_next_power_of_two()?.ilog2());
        let name = behind.split_once('(').and_then(|(_, behind)| behind.split_once(')'));
        incident.program = name.map(|(name, _)| lines::clean(name));
    }
    Some(incident)
}

/// Where the kernel was: the stack that follows within a few lines.
fn reported(messages: &[Message<'_>], at: usize) -> Option<IncidentSite> {
    const NEAR: usize = 6;
    let near = messages.iter().skip(at + 1).take(NEAR);
    let trace = near.take_while(|message| failure(message.text, None).is_none());
    let begin = at + 1 + trace.into_iter().position(|message| log::is_trace(message.text))?;
    IncidentSite::reported(log::stack(messages.get(begin..)?))
}

/// What SLUB tells of the cache that got no slab.
struct NoSlab {
    cache: String,
    numbers: Vec<(&'static str, u64)>,
    min_order: Option<u32>,
    /// Node, slabs, objects, free ones.
    nodes: Vec<(u32, [u64; 3])>,
}

impl NoSlab {
    fn parse(messages: &[Message<'_>], at: usize) -> Option<NoSlab> {
        const KEYS: [(&str, &str); 4] = [
            ("object size", "object_size"),
            ("buffer size", "slab_size"),
            ("default order", "order"),
            // SLAB has one order.
            ("order", "order"),
        ];
        let line = messages.get(at)?.text.strip_prefix("cache: ")?;
        let mut parts = line.split(", ");
        let cache = lines::clean(parts.next()?);
        let pairs: Vec<(&str, u64)> = parts
            .filter_map(|part| part.split_once(": "))
            .filter_map(|(key, value)| Some((key, value.trim().parse().ok()?)))
            .collect();
        let field = |(key, value): &(&str, u64)| {
            KEYS.iter().find(|(name, _)| name == key).map(|(_, field)| (*field, *value))
        };
        let min_order = pairs.iter().find(|(key, _)| *key == "min order").map(|(_, order)| *order);
        let mut nodes = Vec::new();
        for message in messages.get(at + 1..)? {
            // "NAME debugging increased min order, use slab_debug=O to disable."
            if message.text.contains("debugging increased min order") {
                continue;
            }
            let Some(node) = node(message.text) else { break };
            nodes.push(node);
        }
        Some(NoSlab {
            cache,
            numbers: pairs.iter().filter_map(field).collect(),
            min_order: min_order.and_then(|order| u32::try_from(order).ok()),
            nodes,
        })
    }

    fn name_in(&self, incident: &mut Incident) {
        incident.cache = Some(self.cache.clone());
        incident.min_order = self.min_order;
    }

    fn store(self, pasted: &mut Pasted) {
        let cache = pasted.cache_named(&self.cache);
        for (name, value) in self.numbers {
            if cache.value(name).is_none() {
                cache.set(name, value);
            }
        }
        if self.nodes.is_empty() || cache.value("slabs").is_some() {
            return;
        }
        let by_node = |of: fn([u64; 3]) -> u64| {
            let sum = self.nodes.iter().fold(0u64, |sum, (_, told)| sum.saturating_add(of(*told)));
            let nodes = self.nodes.iter().map(|(node, told)| (*node, Value::Exact(of(*told))));
            Reading { nodes: nodes.collect(), ..Reading::from(sum) }
        };
        cache.set("slabs", by_node(|[slabs, ..]| slabs));
        cache.set("total_objects", by_node(|[_, objects, _]| objects));
        cache.set("objects", by_node(|[_, objects, free]| objects.saturating_sub(free)));
    }
}

/// "node 0: slabs: 412, objs: 6514, free: 0"; SLAB writes "4/5" for used ones of all.
fn node(text: &str) -> Option<(u32, [u64; 3])> {
    let (node, rest) = text.strip_prefix("node ")?.split_once(": ")?;
    let mut told = [0; 3];
    for (key, number) in ["slabs: ", "objs: ", "free: "].into_iter().zip(&mut told) {
        let part = rest.split(", ").find_map(|part| part.strip_prefix(key))?;
        let all = part.rsplit('/').next().unwrap_or(part);
        *number = all.trim().parse().ok()?;
    }
    Some((node.parse().ok()?, told))
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    const SLUB: &str = "\
[9.1] nginx: page allocation failure: order:1, mode:0x204020
[9.1] CPU: 3 PID: 1180 Comm: nginx Not tainted 3.16.0-6-amd64 #1
[9.1] Call Trace:
[9.1]  <IRQ>  [<ffffffff8151a5f1>] ? dump_stack+0x5d/0x78
[9.1]  [<ffffffff8114603f>] ? warn_alloc_failed+0xdf/0x130
[9.1] Mem-Info:
[9.2] SLUB: Unable to allocate memory on node -1 (gfp=0x20)
[9.2]   cache: kmalloc-1024, object size: 1024, buffer size: 1024, default order: 2, min order: 1
[9.2]   node 0: slabs: 412, objs: 6514, free: 3
[9.2]   node 1: slabs: 1, objs: 8, free: 0
";

    #[test]
    fn the_page_allocators_report_and_slubs_are_one() {
        let found = read(SLUB, 0).unwrap();
        let [incident] = &found.incidents[..] else { panic!("{:?}", found.incidents) };
        assert_eq!(incident.program.as_deref(), Some("nginx"));
        assert_eq!((incident.order, incident.min_order), (Some(1), Some(1)));
        assert_eq!(incident.cache.as_deref(), Some("kmalloc-1024"));
        assert_eq!(
            incident.sites[0].stack,
            ["dump_stack+0x5d/0x78", "warn_alloc_failed+0xdf/0x130"]
        );
        let cache = found.cache("kmalloc-1024").unwrap();
        let all = ["order", "object_size", "slabs", "total_objects", "objects"];
        assert_eq!(all.map(|name| cache.exact(name).unwrap()), [2, 1024, 413, 6522, 6519]);
        assert_eq!(found.source.release.as_deref(), Some("3.16.0-6-amd64"));
        let of_arm64 = read(&SLUB.replace("Call Trace:", "Call trace:"), 0).unwrap();
        assert_eq!(of_arm64.incidents, found.incidents);
    }

    #[test]
    fn slub_alone_the_oom_killer_and_nommu_are_incidents() {
        let of = |text: &str| read(text, 0).unwrap().incidents.remove(0);
        let alone = of(&SLUB[SLUB.find("[9.2] SLUB").unwrap()..]);
        assert_eq!((alone.cache.as_deref(), alone.order), (Some("kmalloc-1024"), None));
        let oom =
            of("a b invoked oom-killer: gfp_mask=0x40cc0(GFP_KERNEL), order=3, oom_score_adj=0");
        assert_eq!(
            (oom.kind, oom.program.as_deref(), oom.order),
            (IncidentKind::OutOfMemory, Some("a b"), Some(3))
        );
        let nommu = of("nommu: Allocation of length 491520 from process 1 (sh) failed");
        assert_eq!((nommu.program.as_deref(), nommu.order), (Some("sh"), Some(7)));
        let slab = "SLAB: Unable to allocate memory on node 0 (gfp=0xd0)\n  cache: size-64, object size: 64, order: 0\n  node 0: slabs: 4/5, objs: 90/100, free: 2\n";
        let found = read(slab, 0).unwrap();
        assert_eq!(found.caches[0].exact("total_objects"), Some(100));
    }

    #[test]
    fn a_cut_report_is_named() {
        let found = read(&SLUB[..SLUB.find("[9.2]   cache").unwrap()], 0).unwrap();
        assert!(
            found.missing.iter().any(|m| m.what == "SLUB's report" && m.why.contains("nothing"))
        );
    }
}
