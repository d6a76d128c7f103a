//! Compares the lists read from the running kernel, if they can be read, with the kernel's own
//! counts.

use slabyard_lab::lists::ListsError;
use slabyard_lab::lists::bpf::Bpf;
use slabyard_lab::lists::layout::Layout;
use slabyard_lab::lists::memory::Memory;
use slabyard_lab::lists::walk::{self, Machine};
use std::fs;
use std::time::Instant;

/// The ways in, or what is lacking.
fn open() -> Result<(Layout, Bpf), ListsError> {
    let layout = Layout::of_kernel()?;
    let mut memory = Bpf::new()?;
    memory.caches(&layout)?;
    Ok((layout, memory))
}

/// Slabs on nodes' lists, as the kernel counts them.
fn counted(cache: &str) -> Option<usize> {
    let text = fs::read_to_string(format!("/sys/kernel/slab/{cache}/partial")).ok()?;
    text.split(' ').next()?.trim().parse().ok()
}

#[test]
fn the_lists_of_this_kernel_are_as_long_as_it_says() {
    let (layout, mut memory) = match open() {
        Ok(open) => open,
        Err(lack) => {
            eprintln!("skipped: {lack}");
            return;
        }
    };
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let cpus = possible.trim().rsplit(['-', ',']).next().unwrap().parse::<u32>().unwrap() + 1;
    let machine = Machine { page_size: rustix::param::page_size() as u64, cpus, nodes: 1 };
    let caches = fs::read_dir("/sys/kernel/slab").unwrap().flatten();
    let names: Vec<String> = caches.filter_map(|it| it.file_name().into_string().ok()).collect();
    let count = || names.iter().map(|name| counted(name)).collect::<Vec<_>>();
    let begin = Instant::now();
    let before = count();
    let clock = || begin.elapsed().as_nanos() as u64;
    let lists = walk::lists(&mut memory, &layout, machine, &|_| true, &clock).unwrap();
    let after = count();
    assert!(lists.caches.len() > 20, "{} caches", lists.caches.len());
    let (mut same, mut other) = (0, Vec::new());
    for cache in &lists.caches {
        let Some(at) = names.iter().position(|name| *name == cache.name) else { continue };
        if before[at].is_none() || before[at] != after[at] {
            continue;
        }
        let read = cache.nodes.iter().map(Vec::len).sum::<usize>();
        match Some(read) == before[at] {
            true => same += 1,
            false => other.push((cache.name.clone(), read, before[at])),
        }
        for slab in cache.each() {
            let free = slab.free.iter().flat_map(|free| (0..1 << 15).filter(|nth| free.has(*nth)));
            assert!(free.max().is_none_or(|nth| nth < slab.objects), "{}: {slab:?}", cache.name);
        }
    }
    // Lists that the kernel changed there and back again in between are few.
    assert!(same > 20 && other.len() * 10 <= same, "{same} as it says, others {other:?}");
}
