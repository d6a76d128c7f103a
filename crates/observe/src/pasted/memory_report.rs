//! What a kernel's log tells of all memory when there was too little: the lines behind `Mem-Info:`
//! and `Unreclaimable slab info:`, the latter since 4.15.
//!
//! ```text
//!  slab_reclaimable:161 slab_unreclaimable:49697              pages
//! Node 0 DMA32: 16*4kB (UM) 17*8kB (UM) ... = 4616kB          free blocks; the first is a page
//! 65406 pages RAM
//! Name                      Used          Total
//! msg_msg-2k            191300KB     191300KB
//! ```

use super::found::{Outcome, Pasted};
use super::lines::{self, Line};
use super::log::{self, Message};
use crate::snapshot::FreeBlocks;
use crate::value::Value;

/// Words of the lines behind `Mem-Info:` and the totals that they are, in pages.
const COUNTS: [(&str, &str); 3] = [
    ("slab_reclaimable", "slab_reclaimable"),
    ("slab_unreclaimable", "slab_unreclaimable"),
    ("free", "mem_free"),
];

/// Lines that a mail may have made of one of free blocks.
const MOST_LINES: usize = 4;

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let messages = log::messages(lines);
    let mut found = false;
    for (at, message) in messages.iter().enumerate() {
        if let Some((blocks, page_bytes)) = zone(&messages, at) {
            found = true;
            pasted.snapshot.machine.page_bytes.get_or_insert(page_bytes);
            let zones = &mut pasted.snapshot.free_blocks;
            if !zones.iter().any(|z| (z.node, &z.zone) == (blocks.node, &blocks.zone)) {
                zones.push(blocks);
            }
        }
        found |= counts(message.text, pasted);
        if let Some(release) = log::release(message.text) {
            pasted.snapshot.source.release.get_or_insert(release);
        }
        if message.text.starts_with("Unreclaimable slab info:") {
            found |= caches(&messages, at + 1, pasted);
        }
    }
    let reports = messages.iter().filter(|message| message.text == "Mem-Info:").count();
    if reports > 1 {
        pasted.miss("memory reports", format!("the log has {reports}, and the first is shown"));
    }
    if found { Outcome::Read } else { Outcome::Absent }
}

/// Counts of pages in one line; true if it has some.
fn counts(text: &str, pasted: &mut Pasted) -> bool {
    let mut found = false;
    let is_slab = text.contains("slab_reclaimable:") || text.starts_with("free:");
    for word in text.split_whitespace().filter(|_| is_slab) {
        let Some((key, pages)) = word.split_once(':') else { continue };
        let total = COUNTS.iter().find(|(name, _)| *name == key);
        // Those of a zone have a unit, and are parts of these.
        if let (Some((_, total)), Ok(pages)) = (total, pages.parse()) {
            pasted.pages(total, pages);
            found = true;
        }
    }
    let number = |end: &str| text.strip_suffix(end)?.trim().parse::<u64>().ok();
    if let Some(pages) = number("pages RAM") {
        pasted.pages("mem_total", pages);
    }
    if let Some(pages) = number("total pagecache pages") {
        pasted.pages("page_cache", pages);
    }
    found
}

/// "Node 0 DMA32: 16*4kB (UM) 17*8kB (UM) ... = 4616kB": free blocks, and the bytes of a page.
fn zone(messages: &[Message<'_>], at: usize) -> Option<(FreeBlocks, u64)> {
    let first = messages.get(at)?.text;
    let (name, blocks) = first.split_once(": ")?;
    let mut words: Vec<&str> = name.split_whitespace().collect();
    let zone = words.pop()?;
    let node = match words[..] {
        [] => 0,
        ["Node", number] => number.parse().ok()?,
        _ => return None,
    };
    if !blocks.contains("kB") || !blocks.contains('*') {
        return None;
    }
    let mut blocks = blocks.to_owned();
    for next in messages.get(at + 1..)?.iter().take(MOST_LINES) {
        if blocks.contains('=') {
            break;
        }
        blocks = format!("{blocks} {}", next.text);
    }
    let (blocks, sum) = blocks.split_once('=')?;
    let mut counts = Vec::new();
    let (mut page, mut total) = (None, 0u64);
    for word in blocks.split_whitespace().filter(|word| !word.starts_with('(')) {
        let (count, kb) = word.split_once('*')?;
        let (count, kb): (u64, u64) = (count.parse().ok()?, kb.strip_suffix("kB")?.parse().ok()?);
        let page: u64 = *page.get_or_insert(kb);
        if Some(kb) != page.checked_shl(counts.len().try_into().ok()?) {
            return None;
        }
        total = total.checked_add(count.checked_mul(kb)?)?;
        counts.push(count);
    }
    let told: u64 = sum.trim().split("kB").next()?.parse().ok()?;
    let page = page.filter(|page| page.is_power_of_two() && told == total)?;
    Some((FreeBlocks { node, zone: lines::clean(zone), blocks: counts }, page.checked_mul(1024)?))
}

/// The table of unreclaimable caches; true if it has rows.
fn caches(messages: &[Message<'_>], from: usize, pasted: &mut Pasted) -> bool {
    let mut found = false;
    for message in messages.iter().skip(from) {
        let words: Vec<&str> = message.text.split_whitespace().collect();
        if words == ["Name", "Used", "Total"] {
            continue;
        }
        let kb = |word: &str| word.strip_suffix("KB")?.parse::<u64>().ok()?.checked_mul(1024);
        let row = match words[..] {
            [ref name @ .., used, total] if !name.is_empty() => {
                kb(used).zip(kb(total)).map(|row| (name.join(" "), row))
            }
            _ => None,
        };
        let Some((name, (used, total))) = row else {
            let is_end = message.text.is_empty() || message.text.starts_with("Tasks state");
            if found && !is_end && words.iter().any(|word| kb(word).is_some()) {
                let line = [Line { number: message.number, text: message.text }];
                lines::strange(&line)
                    .into_iter()
                    .for_each(|why| pasted.miss("unreclaimable slab", why));
            }
            return found;
        };
        let cache = pasted.cache_named(&name);
        if cache.value("bytes").is_none() && cache.value("slabs").is_none() {
            cache.set("bytes", total);
            // Of active objects, of which some may be parked.
            cache.set("live_bytes", Value::between(0, used));
            cache.set("reclaim_account", 0);
        }
        found = true;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    const TEXT: &str = "\
[ 1.22] nommu: whatever
[ 1.22]  slab_reclaimable:38 slab_unreclaimable:459
[ 1.22]  free:861 free_pcp:0 free_cma:0
[ 1.31] DMA32: 15*16kB (U) 9*32kB (U) 0*64kB
(U) = 528kB
[ 1.32] 33 total pagecache pages
[ 1.32] Unreclaimable slab info:
[ 1.32] Name                      Used          Total
[ 1.32] kmalloc-64              12KB         16KB
[ 1.32] odd name              7KB         9KB
[ 1.32] Tasks state (memory values in pages):
";

    #[test]
    fn pages_blocks_and_caches_are_read() {
        let found = read(TEXT, 0).unwrap();
        assert_eq!(found.machine.page_bytes, Some(16384));
        assert_eq!(found.total("slab_unreclaimable"), Some(&Value::Exact(459 * 16384)));
        assert_eq!(found.total("mem_free"), Some(&Value::Exact(861 * 16384)));
        assert_eq!(found.free_blocks[0].blocks, [15, 9, 0]);
        let names: Vec<_> = found.caches.iter().map(|cache| cache.name.as_str()).collect();
        assert_eq!(names, ["kmalloc-64", "odd name"]);
        assert_eq!(found.caches[0].exact("bytes"), Some(16 << 10));
        assert_eq!(found.caches[0].value("live_bytes"), Some(&Value::Range(0, 12 << 10)));
        assert_eq!(found.missing, []);
    }

    #[test]
    fn blocks_that_do_not_add_up_are_none() {
        for wrong in ["= 529kB", "", "= kB"] {
            let text = TEXT.replace("= 528kB", wrong);
            let found = read(&text, 0).unwrap();
            assert_eq!(found.machine.page_bytes, None, "{wrong}");
            assert!(found.missing[0].what.contains("slab_unreclaimable"), "{:?}", found.missing);
        }
    }

    #[test]
    fn a_cut_table_is_named() {
        let text = TEXT.replace("7KB         9KB", "7KB");
        assert_eq!(read(&text, 0).unwrap().missing[0].what, "unreclaimable slab");
    }
}
