//! Reads `alloc_traces` and `free_traces` of a cache in debugfs, which a kernel has for caches with
//! `slab_debug=U` (since 5.15, with stacks since 5.18).
//!
//! A site is a line of figures, the functions of its stack in a line each, and an empty line:
//!
//! ```text
//!       3 alloc_empty_file+0x5c/0x110 age=12/40/68 pid=1-77 cpus=0-1
//!         kmem_cache_alloc_noprof+0x2f4/0x340
//!         alloc_empty_file+0x5c/0x110
//! ```
//!
//! Ages are in jiffies, whose length no file tells. Neighbour: [`crate::traces`].

use super::error::Error;
use crate::traces::{Frame, Site, Traces};
use std::fs;
use std::io;
use std::path::Path;

/// Where they are, below a root.
const BELOW: &str = "sys/kernel/debug/slab";

/// The sites of a cache, by the name of its directory; `None` if the kernel keeps none of it.
///
/// # Errors
/// What the kernel says.
pub(crate) fn traces(root: &Path, cache: &str) -> Result<Option<Traces>, Error> {
    let directory = root.join(BELOW).join(cache);
    let read = |file: &str| {
        let path = directory.join(file);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::File { path, error }),
        }
    };
    let Some(alloc) = read("alloc_traces")? else { return Ok(None) };
    let free = read("free_traces")?.unwrap_or_default();
    let (alloc, free) = (parse(&alloc), parse(&free));
    let objects = alloc.iter().map(|site| site.objects).sum();
    Ok(Some(Traces { cache: cache.into(), objects, alloc, free, ..Traces::default() }))
}

/// The sites of a text; lines that are not as expected belong to none.
fn parse(text: &str) -> Vec<Site> {
    let mut sites: Vec<Site> = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        match (first.parse::<u64>(), sites.last_mut()) {
            (Ok(objects), _) => {
                let mut site = Site { objects, ..Site::default() };
                for word in words {
                    figure(&mut site, word);
                }
                sites.push(site);
            }
            (Err(_), Some(site)) => site.frames.extend(frame(first)),
            (Err(_), None) => {}
        }
    }
    // Where there are no stacks the line itself names the function.
    sites
        .iter_mut()
        .filter(|site| site.frames.len() > 1)
        .for_each(|site| _ = site.frames.remove(0));
    sites
}

/// A word of a line of figures.
fn figure(site: &mut Site, word: &str) {
    let Some((key, value)) = word.split_once('=') else {
        site.frames.extend(frame(word));
        return;
    };
    let numbers: Vec<u32> = value.split(['-', ',']).filter_map(|n| n.parse().ok()).collect();
    let hull = numbers.iter().min().copied().zip(numbers.iter().max().copied());
    match key {
        "age" => {
            let ages: Vec<u64> = value.split('/').filter_map(|n| n.parse().ok()).collect();
            site.age_jiffies = match ages[..] {
                [one] => Some((one, one, one)),
                [least, mean, most] => Some((least, mean, most)),
                _ => None,
            };
        }
        "pid" => site.threads = hull,
        "cpus" => site.cpus = hull,
        _ => {}
    }
}

/// `function+0x5c/0x110`, and the module of the function as another word, which is left out.
fn frame(word: &str) -> Option<Frame> {
    let (function, offset) = word.split_once('+')?;
    let offset = offset.split('/').next()?.strip_prefix("0x")?;
    let offset = u64::from_str_radix(offset, 16).ok()?;
    Some(Frame { function: Some(function.into()), offset, ..Frame::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "     41 alloc_empty_file+0x5c/0x110 age=12/40/68 pid=1-77 cpus=0-1
        kmem_cache_alloc_noprof+0x2f4/0x340
        alloc_empty_file+0x5c/0x110
        path_openat+0x3b/0x1200 [ext4]

      2 <not-available> age=4294678432

";

    #[test]
    fn sites_have_their_figures_and_stacks() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join(BELOW).join("filp");
        assert!(traces(root.path(), "filp").unwrap().is_none());
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("alloc_traces"), TEXT).unwrap();
        fs::write(directory.join("free_traces"), "No data\n").unwrap();
        let found = traces(root.path(), "filp").unwrap().unwrap();
        assert_eq!((found.objects, found.alloc.len(), found.free.len()), (43, 2, 0));
        let site = &found.alloc[0];
        assert_eq!((site.age_jiffies, site.threads), (Some((12, 40, 68)), Some((1, 77))));
        assert_eq!(site.cpus, Some((0, 1)));
        let functions: Vec<_> =
            site.frames.iter().map(|f| f.function.as_deref().unwrap()).collect();
        assert_eq!(functions, ["kmem_cache_alloc_noprof", "alloc_empty_file", "path_openat"]);
        assert_eq!(site.frames[0].offset, 0x2f4);
        assert!(found.alloc[1].frames.is_empty());
    }

    #[test]
    fn a_kernel_without_stacks_names_the_function() {
        let sites = parse("      7 getname_flags+0x4d/0x1e0 age=9 pid=5 cpus=0,3\n");
        assert_eq!(sites[0].frames[0].function.as_deref(), Some("getname_flags"));
        assert_eq!((sites[0].threads, sites[0].cpus), (Some((5, 5)), Some((0, 3))));
    }
}
