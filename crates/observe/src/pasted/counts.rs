//! Files of `/proc` and outputs of a few lines: meminfo, buddyinfo, `fs/dentry-state`,
//! `fs/file-nr`, cgroups, sockstat, `uname`, and `ls -l /sys/kernel/slab`, which tells merged names.
//!
//! Neighbour: [`crate::kernel`] reads the same of a running kernel.

use super::found::{Outcome, Pasted};
use super::lines::{self, Line};
use crate::kernel::machine;
use crate::value::Value;
use std::collections::BTreeMap;

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let mut found = false;
    let before = pasted.snapshot.totals.len();
    for (at, line) in lines.iter().enumerate() {
        let text = line.text.trim();
        let next = lines.get(at + 1).map_or("", |line| line.text.trim());
        if let Some((name, bytes)) = machine::meminfo_line(text).and_then(machine::total) {
            pasted.total(name, bytes);
        }
        found |= named(text, next, pasted).is_some();
        found |= cgroups(text, pasted).is_some();
        found |= sockets(text, pasted).is_some();
        if let Some(release) = release(text, next) {
            pasted.snapshot.source.release.get_or_insert(release);
        }
        if let Some(blocks) = machine::free_blocks(text) {
            let known = |free: &crate::snapshot::FreeBlocks| {
                (free.node, free.zone.as_str()) == (blocks.node, blocks.zone.as_str())
            };
            if !pasted.snapshot.free_blocks.iter().any(known) {
                pasted.snapshot.free_blocks.push(blocks);
                found = true;
            }
        }
    }
    found |= pasted.snapshot.totals.len() > before;
    found |= aliases(lines, pasted);
    if found { Outcome::Read } else { Outcome::Absent }
}

/// A number of `fs/dentry-state` or `fs/file-nr`: on the line behind one that names the file, or
/// behind the name as sysctl(8) prints it.
fn named(text: &str, next: &str, pasted: &mut Pasted) -> Option<()> {
    const FILES: [(&str, &[(usize, &str)]); 2] = [
        ("dentry-state", &[(0, "dentries"), (1, "dentries_unused"), (4, "dentries_negative")]),
        ("file-nr", &[(0, "open_files")]),
    ];
    let (file, totals) = FILES.iter().find(|(file, _)| text.contains(file))?;
    let (_, behind) = text.rsplit_once(file)?;
    let numbers =
        [behind.trim().trim_start_matches(['=', ':']), next].into_iter().find_map(numbers)?;
    for (at, name) in *totals {
        let number = *numbers.get(*at)?;
        // Kernels to 4.20 print 0 where later ones count negative dentries.
        if number > 0 || *name != "dentries_negative" {
            pasted.total(name, number);
        }
    }
    Some(())
}

/// Three numbers or more, and nothing else.
fn numbers(text: &str) -> Option<Vec<u64>> {
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() >= 3)
}

/// "memory  9  61874  1" of `/proc/cgroups`.
fn cgroups(text: &str, pasted: &mut Pasted) -> Option<()> {
    let mut words = text.split_whitespace();
    words.next().filter(|word| *word == "memory")?;
    let numbers: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [_hierarchy, cgroups, 0 | 1] = numbers[..] else { return None };
    pasted.total("memory_cgroups", cgroups);
    Some(())
}

/// Lines of `/proc/net/sockstat`.
fn sockets(text: &str, pasted: &mut Pasted) -> Option<()> {
    if let Some(used) = text.strip_prefix("sockets: used ") {
        pasted.total("sockets", used.trim().parse::<u64>().ok()?);
        return Some(());
    }
    let rest = text.strip_prefix("TCP: inuse ")?;
    let (_, pages) = rest.split_once(" mem ")?;
    pasted.pages("tcp_queues", pages.trim().parse().ok()?);
    Some(())
}

/// What `uname -r`, `uname -a` and `/proc/version` print of the release.
fn release(text: &str, next: &str) -> Option<String> {
    let looks_so = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.split('.').nth(1).is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()))
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "._+-~".contains(c))
    };
    let word = if text.ends_with("uname -r") {
        Some(next)
    } else if let Some(rest) = text.strip_prefix("Linux version ") {
        rest.split_whitespace().next()
    } else {
        let is_uname = text.starts_with("Linux ") && text.contains(" #");
        text.split_whitespace().nth(2).filter(|_| is_uname)
    };
    word.filter(looks_so).map(lines::clean)
}

/// Names that `ls -l` shows as links to a cache's directory, such as `filp -> :0000256`.
fn aliases(lines: &[Line<'_>], pasted: &mut Pasted) -> bool {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines {
        let link = line.text.split_once(" -> ");
        let Some((left, target)) = link.filter(|(left, _)| left.trim_start().starts_with('l'))
        else {
            continue;
        };
        let id = target.trim().rsplit('/').next().filter(|id| id.starts_with(':'));
        let name = left.split_whitespace().next_back().and_then(|name| name.rsplit('/').next());
        if let (Some(id), Some(name)) = (id, name) {
            names.entry(lines::clean(id)).or_default().push(lines::clean(name));
        }
    }
    let mut found = false;
    for (id, names) in names {
        let caches = &mut pasted.snapshot.caches;
        let Some(cache) = caches.iter_mut().find(|cache| names.contains(&cache.name)) else {
            continue;
        };
        cache.aliases = names.into_iter().filter(|name| *name != cache.name).collect();
        cache.set("aliases", Value::Exact(cache.aliases.len() as u64));
        cache.id = Some(id);
        found = true;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    fn total(text: &str, name: &str) -> Option<u64> {
        read(text, 0).ok()?.total(name)?.exact()
    }

    #[test]
    fn files_of_few_numbers_are_found_by_their_names() {
        for text in [
            "# cat /proc/sys/fs/dentry-state\n30\t28\t45\t0\t29\t0\n",
            "fs.dentry-state = 30 28 45 0 29 0",
            "/proc/sys/fs/dentry-state: 30 28 45 0 29 0",
        ] {
            let all = ["dentries", "dentries_unused", "dentries_negative"];
            assert_eq!(all.map(|name| total(text, name)), [Some(30), Some(28), Some(29)], "{text}");
        }
        assert_eq!(total("$ cat file-nr\n9\t0\t100", "open_files"), Some(9));
        assert_eq!(total("memory\t9\t61874\t1", "memory_cgroups"), Some(61_874));
        assert_eq!(total("sockets: used 3120", "sockets"), Some(3120));
        for text in ["dentry-state is high", "memory 9 61874 7", "memory 1 2", "TCP: inuse 2 mem x"]
        {
            assert!(read(text, 0).is_err(), "{text}");
        }
    }

    #[test]
    fn of_several_meminfos_the_first_is_believed() {
        let text = "Slab:      100 kB\nSReclaimable:  60 kB\nfoo: 7 kB\nSlab:   200 kB\n";
        let found = read(text, 0).unwrap();
        assert_eq!(found.total("slab"), Some(&Value::Exact(100 << 10)));
        assert_eq!(found.totals.len(), 2);
        assert!(read("foo: 7 kB\n", 0).is_err());
    }

    #[test]
    fn pages_need_the_size_of_a_page() {
        let found = read("TCP: inuse 2711 orphan 0 tw 88 alloc 2790 mem 100", 0).unwrap();
        assert_eq!(
            (found.total("tcp_queues"), found.missing[0].what.as_str()),
            (None, "tcp_queues")
        );
    }

    #[test]
    fn a_release_and_merged_names_are_read() {
        let row = "kmalloc-256 9 16 256 16 1 : tunables 0 0 0 : slabdata 1 1 0\n";
        let links = "lrwxrwxrwx 1 root root 0 Mar  3 10:11 filp -> :0000256\n\
                     lrwxrwxrwx 1 root root 0 Mar  3 10:11 kmalloc-256 -> ../slab/:0000256\n\
                     lrwxrwxrwx 1 root root 0 Mar  3 10:11 libc.so -> libc.so.6\n";
        let found = read(&format!("$ uname -r\n4.18.0-305.el8.x86_64\n{row}{links}"), 0).unwrap();
        assert_eq!(found.source.release.as_deref(), Some("4.18.0-305.el8.x86_64"));
        let cache = found.cache("filp").unwrap();
        assert_eq!((cache.name.as_str(), cache.id.as_deref()), ("kmalloc-256", Some(":0000256")));
        let uname =
            "Linux box 6.1.0-9-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.27-1 x86_64 GNU/Linux";
        assert_eq!(release(uname, "").as_deref(), Some("6.1.0-9-amd64"));
        assert_eq!(release("Linux is 2.x #", ""), None);
    }
}
