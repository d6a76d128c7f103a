//! Parses the text of tracefs's file `trace` (`kmem` events of 6.1) into a trace and its markers.
//!
//! ```text
//!  init-1  [000] .....  0.604147: kmalloc: call_site=f+0x1/0x2 ptr=ffff... bytes_req=64 bytes_alloc=72 gfp_flags=GFP_KERNEL ...
//! ```
//!
//! Allocation events of these kernels do not name their cache; free events do. So objects of one
//! size from one call site are assigned to the cache that they were freed to or, if none was freed,
//! to a cache made for that call site.
//!
//! [`super::events`] turns the trace into a load. Invariant: lines that are not events are ignored.

use crate::event::{Event, EventKind};
use crate::trace::Trace;
use std::collections::HashMap;
use std::io::BufRead;

/// `__GFP_RECLAIMABLE`, of the flags that a text names the one that matters to caches.
pub const RECLAIMABLE: u32 = 0x10;

/// `__GFP_MOVABLE` and `__GFP_RECLAIMABLE`: the type of a page, by the kernel's number.
pub const MOBILITY: u32 = 0x18;

/// A trace as tracefs prints it, taken apart.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// The events.
    pub trace: Trace,
    /// What was written into the marker file of the trace, and when, in nanoseconds as the events' time.
    pub marks: Vec<(u64, String)>,
}

/// Reads a trace.
///
/// # Errors
/// The file cannot be read.
pub fn read(reader: impl BufRead) -> std::io::Result<Read> {
    let lines: Vec<String> = reader.lines().collect::<Result<_, _>>()?;
    let names = cache_names(&lines);
    let mut read = Read::default();
    read.trace.header.release = "6.1".into();
    read.trace.header.page_size = Some(4096);
    read.trace.header.cpus = Some(1);
    for line in lines.iter().filter_map(|line| Line::of(line)) {
        match line.kind {
            "tracing_mark_write" => read.marks.push((line.time, line.text.into())),
            kind => {
                let Some(mut event) = event(kind, line.text) else { continue };
                let site = line.field("call_site=").unwrap_or("");
                let name = match event.kind {
                    EventKind::CacheFree => line.field("name=").unwrap_or(site),
                    EventKind::CacheAlloc if line.field("name=").is_some() => {
                        line.field("name=").unwrap_or("")
                    }
                    EventKind::CacheAlloc => {
                        let named = names.get(&(site, event.requested)).copied();
                        named.unwrap_or_else(|| likely(site))
                    }
                    EventKind::Kmalloc | EventKind::Kfree => site,
                    _ => "",
                };
                event.name = read.trace.names.intern(name);
                event.time = line.time;
                read.trace.events.push(event);
            }
        }
    }
    // So that a trace in our format keeps them.
    let moments: Vec<String> =
        read.marks.iter().map(|(time, name)| format!("{name}@{time}")).collect();
    read.trace.header.source = format!("{MOMENTS}{}", moments.join(" "));
    Ok(read)
}

/// The moments that a trace's words of where it comes from end with.
#[must_use]
pub fn moments(trace: &Trace) -> Vec<(u64, String)> {
    let source = &trace.header.source;
    let told = source.find(MOMENTS).map_or("", |at| &source[at + MOMENTS.len()..]);
    let moment = |word: &str| {
        let (name, time) = word.rsplit_once('@')?;
        Some((time.parse().ok()?, name.into()))
    };
    told.split_whitespace().filter_map(moment).collect()
}

/// The text before the moments.
const MOMENTS: &str = "kmem events in text; moments ";

/// A line with an event.
pub(super) struct Line<'a> {
    pub(super) time: u64,
    pub(super) kind: &'a str,
    pub(super) text: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn of(line: &'a str) -> Option<Line<'a>> {
        let mut parts = line[line.find("] ")? + 2..].splitn(3, ": ");
        let time = parts.next()?.split_whitespace().next_back()?;
        let (seconds, fraction) = time.split_once('.')?;
        let (seconds, micros): (u64, u64) = (seconds.parse().ok()?, fraction.parse().ok()?);
        let time = seconds * 1_000_000_000 + micros * 10u64.pow(9 - fraction.len().min(9) as u32);
        Some(Line { time, kind: parts.next()?, text: parts.next()?.trim_end() })
    }

    fn field(&self, key: &str) -> Option<&'a str> {
        field(self.text, key)
    }
}

pub(super) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let rest = &text[text.find(key)? + key.len()..];
    Some(&rest[..rest.find(' ').unwrap_or(rest.len())])
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

fn event(kind: &str, text: &str) -> Option<Event> {
    let number = |key: &str| field(text, key)?.parse().ok();
    let object = || Some(hex(field(text, "ptr=")?)? & ((1 << 48) - 1)).filter(|at| *at != 0);
    let frame = || hex(field(text, "pfn=")?);
    let kind = match kind {
        "kmalloc" | "kmalloc_node" => EventKind::Kmalloc,
        "kmem_cache_alloc" | "kmem_cache_alloc_node" => EventKind::CacheAlloc,
        "kfree" => EventKind::Kfree,
        "kmem_cache_free" => EventKind::CacheFree,
        "mm_page_alloc" => EventKind::PageAlloc,
        "mm_page_free" => EventKind::PageFree,
        _ => return None,
    };
    let is_page = matches!(kind, EventKind::PageAlloc | EventKind::PageFree);
    let is_alloc = matches!(kind, EventKind::Kmalloc | EventKind::CacheAlloc);
    let mobility = match field(text, "migratetype=") {
        Some("1") => MOBILITY & !RECLAIMABLE,
        Some("2") => RECLAIMABLE,
        _ => 0,
    };
    Some(Event {
        address: if is_page { frame()? } else { object()? },
        requested: if is_alloc { number("bytes_req=")? } else { 0 },
        allocated: if is_alloc { number("bytes_alloc=")? } else { 0 },
        gfp: if text.contains("__GFP_RECLAIMABLE") { RECLAIMABLE } else { mobility },
        order: if is_page { number("order=")? as u8 } else { 0 },
        kind,
        ..Event::BLANK
    })
}

/// By call site and size: the cache that objects were freed to.
fn cache_names(lines: &[String]) -> HashMap<(&str, u32), &str> {
    let mut live: HashMap<u64, (&str, u32)> = HashMap::new();
    let mut named = HashMap::new();
    for line in lines.iter().filter_map(|line| Line::of(line)) {
        let Some(event) = event(line.kind, line.text) else { continue };
        if event.kind == EventKind::CacheAlloc {
            live.insert(event.address, (line.field("call_site=").unwrap_or(""), event.requested));
        } else if event.kind == EventKind::CacheFree
            && let (Some(key), Some(name)) = (live.remove(&event.address), line.field("name="))
        {
            named.insert(key, name);
        }
    }
    named
}

/// Sites whose objects nobody frees while a small machine runs; else the function's name.
fn likely(site: &str) -> &str {
    match site.split(['+', '.']).next().unwrap_or(site) {
        "alloc_inode" => "inode_cache",
        "__radix_tree_preload" | "radix_tree_node_alloc" => "radix_tree_node",
        "__proc_create" | "proc_create" => "proc_dir_entry",
        "alloc_vmap_area" => "vmap_area",
        "alloc_vfsmnt" => "mnt_cache",
        "__trace_define_field" => "ftrace_event_field",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# tracer: nop
 <idle>-0 [000] d.... 0.1: mm_page_alloc: page=ffffea00 pfn=0x10 order=1 migratetype=0 gfp_flags=none
 <idle>-0 [000] d.... 0.2: kmem_cache_alloc: call_site=d_alloc+0x1/0x2 ptr=ffff888000010040 bytes_req=192 bytes_alloc=192 gfp_flags=none node=-1 accounted=false
 <idle>-0 [000] d.... 0.2: kmalloc: call_site=f+0x1/0x2 ptr=ffff888000011000 bytes_req=100 bytes_alloc=128 gfp_flags=GFP_KERNEL|__GFP_RECLAIMABLE node=-1 accounted=false
 <idle>-0 [000] d.... 0.3: mm_page_alloc: page=ffffea00 pfn=0x20 order=2 migratetype=0 gfp_flags=none
 init-1 [000] ..... 0.4: tracing_mark_write: LOAD-BEGIN
 init-1 [000] ..... 0.5: kmem_cache_free: call_site=d_free+0x1/0x2 ptr=ffff888000010040 name=dentry
 init-1 [000] ..... 0.5: kfree: call_site=d_free+0x1/0x2 ptr=(null)
 init-1 [000] ..... 0.5: kfree: call_site=d_free+0x1/0x2 ptr=ffff888000099000
 init-1 [000] ..... 0.6: mm_page_free: page=ffffea00 pfn=0x20 order=2
";

    #[test]
    fn frees_name_the_caches() {
        let read = read(TEXT.as_bytes()).unwrap();
        let kinds: Vec<EventKind> = read.trace.events.iter().map(|event| event.kind).collect();
        use EventKind::{CacheAlloc, CacheFree, Kfree, Kmalloc, PageAlloc, PageFree};
        let want = [PageAlloc, CacheAlloc, Kmalloc, PageAlloc, CacheFree, Kfree, PageFree];
        assert_eq!(kinds, want, "a free of nothing is left out");
        assert_eq!(read.trace.names.get(read.trace.events[1].name), "dentry");
        assert_eq!(read.trace.events[2].gfp, RECLAIMABLE);
        assert_eq!(read.marks, [(400_000_000, "LOAD-BEGIN".into())]);
        assert_eq!(read.trace.events[1].time, 200_000_000);
        assert_eq!(moments(&read.trace), read.marks);
    }
}
