//! Settings of this machine, read from the kernel's files.
//!
//! Invariant: a value that cannot be read is replaced by the simplest machine's, so the commands
//! also work in a sandbox.

use super::{Machine, NodeSet, count_and_last};
use std::fs;

const AT_NULL: u64 = 0;
const AT_PAGESZ: u64 = 6;

impl Machine {
    /// The machine that this runs on.
    #[must_use]
    pub fn here() -> Machine {
        let cpus = |which: &str| {
            let list = fs::read_to_string(format!("/sys/devices/system/cpu/{which}")).ok()?;
            count_and_last(&list)
        };
        let running = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let online = cpus("online").map_or(running, |(count, _)| count);
        let present = cpus("present").map_or(online, |(count, _)| count).max(online);
        let nodes = |which: &str| {
            fs::read_to_string(format!("/sys/devices/system/node/{which}")).unwrap_or_default()
        };
        let online_nodes = nodes("online");
        Machine {
            page_size: page_size().unwrap_or(4096),
            // The kernel's nr_cpu_ids: there may be holes below the last one.
            possible_cpus: cpus("possible").map_or(present, |(_, last)| last + 1).max(present),
            present_cpus: present,
            online_cpus: online,
            nodes: count_and_last(&online_nodes).map_or(1, |(count, _)| count),
            memoryless: NodeSet::without_memory(&online_nodes, &nodes("has_normal_memory")),
            memory_bytes: memory().unwrap_or(0),
        }
    }
}

/// The version of the kernel that runs, as `uname -r` prints it.
#[must_use]
pub fn running_kernel() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(text.trim().into())
}

/// From the auxiliary vector, which needs no call into C.
fn page_size() -> Option<u32> {
    let vector = fs::read("/proc/self/auxv").ok()?;
    let words: Vec<u64> = vector
        .chunks_exact(size_of::<usize>())
        .map(|word| word.try_into().map_or(AT_NULL, |w| usize::from_ne_bytes(w) as u64))
        .collect();
    let pair = words.chunks_exact(2).find(|pair| pair[0] == AT_PAGESZ)?;
    u32::try_from(pair[1]).ok()
}

fn memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kb: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kb.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_a_possible_one() {
        let machine = Machine::here();
        assert!(machine.page_size.is_power_of_two());
        assert!((1..=machine.present_cpus).contains(&machine.online_cpus));
        assert!(machine.present_cpus <= machine.possible_cpus);
        assert!(machine.nodes >= 1);
    }
}
