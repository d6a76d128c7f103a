//! A line of `trace_pipe`: who, when, and an event of `kmem` with its fields
//! (`Documentation/trace/ftrace.rst`, "Output format").

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    Allocated {
        /// The function that called the allocator.
        site: &'a str,
        /// None of a kmalloc.
        cache: Option<&'a str>,
        bytes: u32,
        flags: &'a str,
    },
    Freed {
        /// None of a `kfree`.
        cache: Option<&'a str>,
    },
}

/// A line of the four events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub comm: &'a str,
    pub tgid: u32,
    pub time_ns: u64,
    pub address: u64,
    pub event: Event<'a>,
}

/// Anything else, and what makes no sense, is none.
pub(super) fn parse(line: &str) -> Option<Line<'_>> {
    let (head, fields) = line.split_once(": call_site=")?;
    let (head, name) = head.rsplit_once(": ")?;
    // A task may have any name: what is behind it is read from the end.
    let (task, place) = head.rsplit_once('[')?;
    let time_ns = nanoseconds(place.rsplit(' ').next()?)?;
    let (task, tgid) = task.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    let (comm, thread) = task.trim().rsplit_once('-')?;
    // The kernel does not know the group of each thread.
    let tgid = tgid.trim().parse().or_else(|_| thread.parse()).ok()?;
    let (site, fields) = fields.split_once(" ptr=")?;
    let site = site.split_once('+').map_or(site, |(site, _)| site);
    let (address, fields) = fields.split_once(' ').unwrap_or((fields, ""));
    let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).ok()?;
    let field = |key: &str| {
        let from = fields.split_once(key)?.1;
        Some(from.split(' ').next().unwrap_or(from))
    };
    let bytes = || field("bytes_alloc=")?.parse().ok();
    let flags = field("gfp_flags=").unwrap_or_default();
    let event = match name {
        "kmem_cache_alloc" => {
            let name = fields.strip_prefix("name=")?.split_once(" bytes_req=")?.0;
            Event::Allocated { site, cache: Some(name), bytes: bytes()?, flags }
        }
        "kmalloc" => Event::Allocated { site, cache: None, bytes: bytes()?, flags },
        "kmem_cache_free" => Event::Freed { cache: fields.strip_prefix("name=") },
        "kfree" => Event::Freed { cache: None },
        _ => return None,
    };
    Some(Line { comm, tgid, time_ns, address, event })
}

/// How many events the kernel had no room for, by a line of its own.
pub(super) fn lost(line: &str) -> Option<u64> {
    line.split_once("[LOST ")?.1.split_once(" EVENTS]")?.0.parse().ok()
}

/// Seconds with six digits behind the point.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, rest) = text.split_once('.')?;
    let (seconds, rest): (u64, u64) = (seconds.parse().ok()?, rest.parse().ok()?);
    Some(seconds * 1_000_000_000 + rest * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_kernel_are_read() {
        let line = "   my [1] (x)-20488   (  20480) [001] ..... 88955.786911: kmem_cache_alloc: \
                    call_site=copy_process+0xa09/0x1c80 ptr=ffff8881a7600000 name=signal_cache \
                    bytes_req=1152 bytes_alloc=1152 gfp_flags=GFP_KERNEL|__GFP_ZERO node=-1 accounted=true";
        let found = parse(line).unwrap();
        assert_eq!(
            (found.comm, found.tgid, found.time_ns),
            ("my [1] (x)", 20480, 88_955_786_911_000)
        );
        assert_eq!(found.address, 0xffff_8881_a760_0000);
        let Event::Allocated { site, cache, bytes, flags } = found.event else {
            panic!("{found:?}")
        };
        assert_eq!((site, cache, bytes), ("copy_process", Some("signal_cache"), 1152));
        assert_eq!(flags, "GFP_KERNEL|__GFP_ZERO");

        let line = "  rustc-9  (-------) [001] d..1. 8.828976: kmalloc: call_site=f+0x34/0x120 [ext4] \
                    ptr=ffff888146220c00 bytes_req=84 bytes_alloc=96 gfp_flags=GFP_KERNEL node=-1 accounted=false";
        let found = parse(line).unwrap();
        assert_eq!((found.tgid, found.time_ns), (9, 8_828_976_000));
        let cache = Event::Allocated { site: "f", cache: None, bytes: 96, flags: "GFP_KERNEL" };
        assert_eq!(found.event, cache);

        let head = "  timeout-2 (  2) [000] ..... 8.1: ";
        let free = format!(
            "{head}kmem_cache_free: call_site=exit_mmap+0x1/0x2 ptr=ffff88 name=vm_area_struct"
        );
        assert_eq!(parse(&free).unwrap().event, Event::Freed { cache: Some("vm_area_struct") });
        let free = format!("{head}kfree: call_site=exit_mmap+0x1/0x2 ptr=ffff88");
        assert_eq!(parse(&free).unwrap().event, Event::Freed { cache: None });
    }

    #[test]
    fn what_was_lost_is_read_and_what_is_cut_off_is_not() {
        assert_eq!(lost("CPU:1 [LOST 123 EVENTS]"), Some(123));
        assert_eq!(lost("CPU:1 [LOST EVENTS]"), None);
        let whole = "a-1 (1) [0] . 8.1: kmalloc: call_site=f+0x1/0x2 ptr=ff bytes_req=8 bytes_alloc=8 gfp_flags=X";
        assert!(parse(whole).is_some());
        for end in 0..whole.find("bytes_alloc=8").unwrap() + 12 {
            assert_eq!(parse(&whole[..end]), None, "{}", &whole[..end]);
        }
    }
}
