//! Parses events as `perf script` and `trace-cmd report` print them, one per line.
//!
//! ```text
//! make  1234 [001]  100.123456789: kmem:kmem_cache_alloc: call_site=getname_flags+0x4f ptr=0xffff88... name=names_cache bytes_req=4096 bytes_alloc=4096 gfp_flags=GFP_KERNEL node=-1 accounted=false
//! make-1234  [001] d.h1.   100.123456: kfree:  call_site=skb_free_head+0x48 ptr=0xffff88...
//! ```
//!
//! [`super::csv`] parses the CSV form. Lines of other events are skipped; a `kmem` line that cannot
//! be parsed is reported as damage. Names of flags are those of kernels since 6.10
//! (`include/trace/events/mmflags.h`); an unknown name leaves its bit unset.

use super::error::{Damage, Error, Harm};
use super::header::Header;
use super::names::{NO_NAME, Names};
use super::rows::RowError;
use super::times::RowTimes;
use super::unnamed::{marked, name_all};
use super::whole::Trace;
use crate::event::{ANY_NODE, Event, EventKind};
use std::io::BufRead;

const EVENTS: [(&str, EventKind); 8] = [
    ("kmem_cache_alloc", EventKind::CacheAlloc),
    ("kmem_cache_alloc_node", EventKind::CacheAlloc),
    ("kmem_cache_free", EventKind::CacheFree),
    ("kmalloc", EventKind::Kmalloc),
    ("kmalloc_node", EventKind::Kmalloc),
    ("kfree", EventKind::Kfree),
    ("mm_page_alloc", EventKind::PageAlloc),
    ("mm_page_free", EventKind::PageFree),
];

/// Bits of `gfp_flags` by their names.
const FLAGS: [(&str, u32); 30] = [
    ("GFP_TRANSHUGE", 0x34_24ca),
    ("GFP_TRANSHUGE_LIGHT", 0x34_20ca),
    ("GFP_HIGHUSER_MOVABLE", 0x10_0cca),
    ("GFP_HIGHUSER", 0x10_0cc2),
    ("GFP_USER", 0x10_0cc0),
    ("GFP_KERNEL_ACCOUNT", 0x40_0cc0),
    ("GFP_KERNEL", 0xcc0),
    ("GFP_NOFS", 0xc40),
    ("GFP_NOIO", 0xc00),
    ("GFP_ATOMIC", 0x820),
    ("GFP_NOWAIT", 0x800),
    ("GFP_DMA", 0x1),
    ("__GFP_DMA", 0x1),
    ("__GFP_HIGHMEM", 0x2),
    ("GFP_DMA32", 0x4),
    ("__GFP_MOVABLE", 0x8),
    ("__GFP_RECLAIMABLE", 0x10),
    ("__GFP_HIGH", 0x20),
    ("__GFP_IO", 0x40),
    ("__GFP_FS", 0x80),
    ("__GFP_ZERO", 0x100),
    ("__GFP_DIRECT_RECLAIM", 0x400),
    ("__GFP_KSWAPD_RECLAIM", 0x800),
    ("__GFP_WRITE", 0x1000),
    ("__GFP_NOWARN", 0x2000),
    ("__GFP_NORETRY", 0x1_0000),
    ("__GFP_MEMALLOC", 0x2_0000),
    ("__GFP_COMP", 0x4_0000),
    ("__GFP_HARDWALL", 0x10_0000),
    ("__GFP_ACCOUNT", 0x40_0000),
];
/// Places that are reported one by one.
const MOST_TOLD: usize = 20;
const ADDRESS: u64 = (1 << 48) - 1;
/// No object is below.
const LOWEST_ADDRESS: u64 = 4096;

/// Whether text that begins so can be of these: a line of an event of `kmem`, or the head of a report.
#[must_use]
pub fn begins(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.lines().take(40).any(|line| event_of(line).is_some())
        || text.starts_with("cpus=") && text.lines().count() <= 1
}

/// Reads all lines. Times begin with the first event.
///
/// # Errors
/// The text cannot be read.
pub fn read(input: impl BufRead) -> Result<Trace, Error> {
    let (mut names, mut events, mut damaged) = (Names::new(), Vec::new(), Vec::new());
    let (mut lost, mut cpus, mut times) = (0, None, RowTimes::default());
    for (line, number) in input.split(b'\n').zip(1u64..) {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if let Some(n) = line.strip_prefix("cpus=") {
            cpus = n.trim().parse().ok();
        }
        lost = u64::saturating_add(lost, lost_of(&line));
        let Some((kind, event)) = event_of(&line) else { continue };
        let row = row(&line, kind, event, &mut names);
        let near = |row: Option<Event>| match row {
            Some(event) if !times.takes(event.time) => Err(RowError::Astray),
            row => Ok(row),
        };
        match row.and_then(near) {
            Ok(row) => events.extend(row),
            Err(what) if damaged.len() < MOST_TOLD => {
                damaged.push(Damage { at: number, events: Some(1), what: Harm::Rows(what) });
            }
            Err(_) => {
                if let Some(Damage { events: Some(n), .. }) = damaged.last_mut() {
                    *n += 1;
                }
            }
        }
    }
    events.sort_by_key(|event: &Event| event.time);
    let first = events.first().map_or(0, |event| event.time);
    events.iter_mut().for_each(|event| event.time -= first);
    let mut header = Header::detect(&events);
    header.cpus = cpus.or(header.cpus);
    let mut trace = Trace { events, names, header, damaged, lost, attached: Vec::new() };
    name_all(&mut trace);
    Ok(trace)
}

/// `CPU:1 [LOST 300 EVENTS]` of a report.
fn lost_of(line: &str) -> u64 {
    let Some((_, rest)) = line.split_once("[LOST ") else { return 0 };
    rest.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// The event that the line describes, and where in the line that begins.
fn event_of(line: &str) -> Option<(EventKind, usize)> {
    let mut from = 0;
    while let Some(at) = line[from..].find(": ") {
        let word = line[..from + at].rsplit([' ', ':', '\t']).next()?;
        if let Some((_, kind)) = EVENTS.iter().find(|(name, _)| *name == word) {
            return Some((*kind, from + at + 2));
        }
        from += at + 2;
    }
    None
}

fn wrong(column: &'static str, found: &str, wanted: &'static str) -> RowError {
    RowError::Value { column, found: found.into(), wanted }
}

fn row(
    line: &str,
    kind: EventKind,
    at: usize,
    names: &mut Names,
) -> Result<Option<Event>, RowError> {
    let (head, fields) = line.split_at(at);
    let (before, after) =
        head.split_once('[').ok_or_else(|| wrong("cpu", head, "a number in brackets"))?;
    let (cpu, after) =
        after.split_once(']').ok_or_else(|| wrong("cpu", after, "a number in brackets"))?;
    let cpu = cpu.trim().parse().map_err(|_| wrong("cpu", cpu, "a number"))?;
    let pid = before.trim_end().rsplit([' ', '-']).next().unwrap_or("");
    let time = after.split_whitespace().find_map(|word| nanoseconds(word.strip_suffix(':')?));
    let time = time.ok_or_else(|| wrong("time", after, "seconds with a point"))?;
    let field = |name: &str| {
        let words = fields.split_whitespace();
        words
            .filter_map(|word| word.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    };
    let hex = |name: &'static str| {
        let value = field(name).ok_or_else(|| wrong(name, "nothing", "a number"))?;
        // As the C library prints a null pointer.
        let value = if value == "(nil)" { "0" } else { value };
        let digits = value.strip_prefix("0x").unwrap_or(value);
        u64::from_str_radix(digits, 16).map_err(|_| wrong(name, value, "a hexadecimal number"))
    };
    let number = |name: &str| field(name).and_then(|value| value.parse::<u32>().ok()).unwrap_or(0);
    let is_page = matches!(kind, EventKind::PageAlloc | EventKind::PageFree);
    let address = if is_page { hex("pfn")? } else { hex("ptr")? };
    if address == u64::MAX || !is_page && address < LOWEST_ADDRESS {
        return Ok(None);
    }
    let site = field("call_site").unwrap_or("");
    let site = site.split('+').next().unwrap_or(site);
    let name = match kind {
        EventKind::CacheAlloc | EventKind::CacheFree => match (field("name"), kind) {
            (Some(name), _) => names.intern(name),
            (None, EventKind::CacheAlloc) => names.intern(&marked(site)),
            (None, _) => return Err(wrong("name", "nothing", "the cache's name")),
        },
        EventKind::Kmalloc | EventKind::Kfree => names.intern(site),
        _ => NO_NAME,
    };
    let has_site = kind == EventKind::CacheAlloc && !site.is_empty();
    let site = if has_site { names.intern(site) } else { NO_NAME };
    let gfp = field("gfp_flags").map_or(0, flags);
    let node = field("node").or(field("migratetype")).and_then(|node| node.parse().ok());
    Ok(Some(Event {
        time,
        address: if is_page { address } else { address & ADDRESS },
        name,
        site,
        pid: pid.parse().unwrap_or(0),
        requested: number("bytes_req"),
        allocated: number("bytes_alloc"),
        gfp,
        cpu,
        node: node.unwrap_or(ANY_NODE),
        order: field("order").and_then(|order| order.parse().ok()).unwrap_or(0),
        kind,
        accounted: field("accounted").is_some_and(|value| value == "true" || value == "1"),
    }))
}

fn nanoseconds(seconds: &str) -> Option<u64> {
    let (whole, part) = seconds.split_once('.')?;
    if part.is_empty() || part.len() > 9 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part = part.parse::<u64>().ok()? * 10u64.pow(9 - part.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
}

fn flags(words: &str) -> u32 {
    let one = |word: &str| match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).unwrap_or(0),
        None => FLAGS.iter().find(|(name, _)| *name == word).map_or(0, |(_, bits)| *bits),
    };
    words.split('|').map(one).fold(0, |all, bits| all | bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERF: &str = "\
        sh  8126 [001]  100.000001500: kmem:kmem_cache_alloc: call_site=getname_flags+0x4f ptr=0xffff8881aad15cc0 name=names_cache bytes_req=4096 bytes_alloc=4096 gfp_flags=GFP_KERNEL node=-1 accounted=false\n\
        Web Content 77 [000]  100.000000500: kmem:kmalloc: call_site=alloc_pipe_info+0x9f ptr=0xffff888104d28d80 bytes_req=168 bytes_alloc=192 gfp_flags=GFP_KERNEL_ACCOUNT|__GFP_ZERO node=-1 accounted=true\n\
        sh  8126 [001]  100.000002: sched:sched_switch: prev_comm=sh\n\
        sh  8126 [001]  100.000003000: kmem:kfree: call_site=x+0x1 ptr=(nil)\n\
        sh  8126 [001]  100.000004000: kmem:kfree: call_site=x+0x1 ptr=0x0\n\
        sh  8126 [001]  100.000005000: kmem:kfree: call_site=x+0x1 ptr=lost\n";
    const REPORT: &str = "cpus=2\n\
        CPU:1 [LOST 300 EVENTS]\n\
        hack-bench-9321  [001] d..2.    77.000001: mm_page_alloc:        page=0x5 pfn=0x217bd8 order=3 migratetype=0 gfp_flags=GFP_KERNEL|__GFP_COMP\n";

    #[test]
    fn lines_of_perf_are_events() {
        assert!(begins(PERF.as_bytes()) && !begins(b"hello: world\n"));
        let trace = read(PERF.as_bytes()).unwrap();
        let told: Vec<_> = trace.events.iter().map(|e| (e.time, e.cpu, e.pid, e.gfp)).collect();
        assert_eq!(told, [(0, 0, 77, 0x40_0dc0), (1000, 1, 8126, 0xcc0)]);
        assert_eq!(trace.names.get(trace.events[0].name), "alloc_pipe_info");
        assert_eq!(trace.events[1].address, 0x8881_aad1_5cc0);
        assert!(trace.events[0].accounted && trace.events[0].allocated == 192);
        assert_eq!(trace.damaged.len(), 1, "a pointer in words; null is not one");
    }

    #[test]
    fn lines_of_a_report_are_events_and_tell_what_was_lost() {
        assert!(begins(REPORT.as_bytes()));
        let trace = read(REPORT.as_bytes()).unwrap();
        let page = trace.events[0];
        assert_eq!(
            (page.kind, page.address, page.order, page.cpu),
            (EventKind::PageAlloc, 0x21_7bd8, 3, 1)
        );
        assert_eq!((page.pid, page.gfp), (9321, 0x4_0cc0));
        assert_eq!((trace.lost, trace.header.cpus), (300, Some(2)));
    }
}
