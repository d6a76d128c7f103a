//! What a process's mappings are for, as far as their addresses, names and neighbours tell.
//!
//! Neighbour: `slabyard_observe::smaps` reads them. Invariant: each mapping is of one kind, so the
//! kinds add up to the resident bytes of the process.

use crate::look::ProcessLook;
use slabyard_observe::smaps::Mapping;
use std::collections::{BTreeMap, HashSet};

/// The use of memory outside of a yard, and the yard itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MappingKind {
    /// Slabyard's region and tables.
    Yard,
    /// Behind the program's data (`brk`): the C library's first heap.
    Heap,
    /// Further heaps of the C library, one for some threads each.
    Arena,
    /// The stack of a thread.
    Stack,
    /// Variables of programs and libraries that are zero at the start.
    Static,
    /// The code and data of programs and libraries.
    Program,
    /// Files that the program maps as data.
    File,
    /// Memory that processes can share.
    Shared,
    /// Anonymous memory that the program, or a runtime in it, mapped for itself.
    Own,
    /// Of the kernel.
    System,
}

/// Sums over all of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindSum {
    /// Bytes in memory.
    pub resident: u64,
    /// How many there are with such bytes.
    pub count: u64,
    /// The largest of them by resident bytes: its name or its address, and these bytes.
    pub largest: Option<(String, u64)>,
}

/// Bytes that the C library aligns its further heaps to (glibc on 64 bits).
const ARENA: u64 = 64 << 20;
/// Guard pages of stacks are not larger.
const MOST_GUARD: u64 = 1 << 20;
/// A mapping with stack pointers of so many threads is no larger than so many such stacks.
const MOST_STACK: u64 = 64 << 20;
/// Mappings behind a guard page that are smaller are no stacks.
const LEAST_STACK: u64 = 16 << 10;

/// The mappings of a process by kind; blocks of the yard in mappings of their own are counted in
/// none of them.
#[must_use]
pub fn by_kind(process: &ProcessLook) -> BTreeMap<MappingKind, KindSum> {
    let mut sums: BTreeMap<MappingKind, KindSum> = BTreeMap::new();
    let blocks = process.residence.iter().flat_map(|residence| residence.blocks.iter().flatten());
    let blocks: Vec<_> = blocks.collect();
    for (mapping, kind) in process.mappings.iter().zip(kinds(process)) {
        let from = blocks.partition_point(|block| block.range.end <= mapping.range.start);
        let inside = blocks[from..].iter().take_while(|block| mapping.meets(&block.range));
        let of_blocks: u64 = inside.map(|block| block.resident).sum();
        let resident = mapping.resident.saturating_sub(of_blocks);
        if resident == 0 {
            continue;
        }
        let sum = sums.entry(kind).or_default();
        sum.resident += resident;
        sum.count += 1;
        if sum.largest.as_ref().is_none_or(|(_, bytes)| *bytes < resident) {
            let name = match mapping.name.as_str() {
                "" => format!("{:x}-{:x}", mapping.range.start, mapping.range.end),
                name => name.chars().filter(|c| !c.is_control()).collect(),
            };
            sum.largest = Some((name, resident));
        }
    }
    sums
}

/// The kind of each mapping, in their order.
fn kinds(process: &ProcessLook) -> Vec<MappingKind> {
    let all = &process.mappings;
    let code: HashSet<&str> =
        all.iter().filter(|it| it.mode.contains('x')).map(|it| it.name.as_str()).collect();
    let no_ranges = Vec::new();
    let yards = process.residence.as_ref().map_or(&no_ranges, |residence| &residence.ranges);
    let mut kinds = Vec::with_capacity(all.len());
    for (nth, mapping) in all.iter().enumerate() {
        let before = nth.checked_sub(1).map(|nth| &all[nth]);
        let before = before.filter(|before| before.range.end == mapping.range.start);
        let after = all.get(nth + 1).filter(|after| after.range.start == mapping.range.end);
        let name = mapping.name.as_str();
        let kind = if yards.iter().any(|range| mapping.meets(range)) {
            MappingKind::Yard
        } else if let Some(kind) = named(mapping, &code) {
            kind
        } else if is_arena(mapping, after) {
            MappingKind::Arena
        } else if is_stack(mapping, before, &process.stack_pointers) {
            MappingKind::Stack
        } else if name.is_empty() && before.is_some_and(|it| is_data(it, &code)) {
            MappingKind::Static
        } else {
            MappingKind::Own
        };
        kinds.push(kind);
    }
    kinds
}

/// By the name that the kernel gives it.
fn named(mapping: &Mapping, code: &HashSet<&str>) -> Option<MappingKind> {
    let name = mapping.name.as_str();
    Some(match name {
        "" => return None,
        "[heap]" => MappingKind::Heap,
        "[vdso]" | "[vvar]" | "[vvar_vclock]" | "[vsyscall]" | "[uprobes]" => MappingKind::System,
        _ if name.starts_with("[stack") || name.starts_with("[anon: glibc: pthread") => {
            MappingKind::Stack
        }
        _ if name.starts_with("[anon: glibc: malloc") => MappingKind::Arena,
        _ if name.starts_with("[anon_shmem") => MappingKind::Shared,
        _ if name.starts_with('[') => MappingKind::Own,
        _ if code.contains(name) => MappingKind::Program,
        _ if ["/dev/zero", "/dev/shm/", "/memfd:", "/SYSV"]
            .iter()
            .any(|it| name.starts_with(it)) =>
        {
            MappingKind::Shared
        }
        _ => MappingKind::File,
    })
}

/// A further heap of the C library begins at a multiple of its size, and what it does not use yet
/// is reserved behind it.
fn is_arena(mapping: &Mapping, after: Option<&Mapping>) -> bool {
    let reserved = after.filter(|after| after.mode.starts_with("---") && after.name.is_empty());
    mapping.mode == "rw-p"
        && mapping.range.start.is_multiple_of(ARENA)
        && reserved.is_some_and(|after| after.range.end == mapping.range.start + ARENA)
}

/// A stack has a guard below it, or a thread's stack pointer in it.
fn is_stack(mapping: &Mapping, before: Option<&Mapping>, pointers: &[u64]) -> bool {
    if !mapping.mode.starts_with("rw") || !mapping.name.is_empty() {
        return false;
    }
    let guard =
        |it: &Mapping| it.mode.starts_with("---") && it.name.is_empty() && it.bytes() <= MOST_GUARD;
    let inside = pointers.iter().filter(|pointer| mapping.range.contains(pointer)).count() as u64;
    let size = mapping.bytes();
    (size >= LEAST_STACK && before.is_some_and(guard))
        || (inside > 0 && size <= inside * MOST_STACK)
}

/// Writable data of a program or library, behind which its zeros are.
fn is_data(mapping: &Mapping, code: &HashSet<&str>) -> bool {
    mapping.mode.starts_with("rw") && code.contains(mapping.name.as_str())
}

/// A runtime with a heap of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// What people call it.
    pub name: &'static str,
    /// How to see into its heap.
    pub look: &'static str,
}

/// Programs and libraries by the beginning of their file's name, and the runtime that they are.
const RUNTIMES: [(&str, Runtime); 12] = [
    ("python", PYTHON),
    ("libpython", PYTHON),
    ("node", V8),
    ("libnode", V8),
    ("chrome", V8),
    ("libv8", V8),
    ("libjvm", Runtime { name: "the Java machine", look: "`jcmd PID VM.native_memory`" }),
    ("libcoreclr", Runtime { name: "the .NET runtime", look: "`dotnet-counters monitor -p PID`" }),
    ("beam.smp", Runtime { name: "the Erlang machine", look: "`erlang:memory()`" }),
    ("php", Runtime { name: "PHP", look: "`memory_get_usage(true)`" }),
    ("libphp", Runtime { name: "PHP", look: "`memory_get_usage(true)`" }),
    ("luajit", Runtime { name: "LuaJIT", look: "`collectgarbage(\"count\")`" }),
];
const PYTHON: Runtime = Runtime {
    name: "Python, whose objects of up to 512 bytes are in arenas that it maps itself",
    look: "`sys._debugmallocstats()`; started with PYTHONMALLOC=malloc it uses malloc alone",
};
const V8: Runtime = Runtime { name: "V8", look: "`process.memoryUsage()`" };

/// The runtime of a process that is known to map memory for objects of its own.
#[must_use]
pub fn runtime(process: &ProcessLook) -> Option<Runtime> {
    let files = process.mappings.iter().filter(|it| it.mode.contains('x') && it.inode != 0);
    let mut names = files.filter_map(|it| it.name.rsplit('/').next());
    let of_file = names.find_map(|name| {
        RUNTIMES.iter().find(|(start, _)| name.starts_with(start)).map(|(_, runtime)| *runtime)
    });
    // Go's first heap arena has this address on 64 bits, and a name in newer releases.
    let is_go =
        |it: &Mapping| it.range.start == 0xc0_0000_0000 || it.name.starts_with("[anon: Go:");
    let go = Runtime { name: "Go", look: "`runtime/metrics` and pprof" };
    of_file.or_else(|| process.mappings.iter().any(is_go).then_some(go))
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_observe::smaps;

    const SMAPS: &str = "\
55d0c4a00000-55d0c4a10000 r-xp 00000000 fe:00 1234       /usr/bin/a program
Rss:                  40 kB
55d0c4a10000-55d0c4a11000 rw-p 00000000 fe:00 1234       /usr/bin/a program
Rss:                   4 kB
55d0c4a11000-55d0c4a20000 rw-p 00000000 00:00 0 
Rss:                  12 kB
55d0c5000000-55d0c5100000 rw-p 00000000 00:00 0          [heap]
Rss:                 100 kB
7f0000000000-7f0000100000 rw-p 00000000 00:00 0 
Rss:                 512 kB
7f0000100000-7f0004000000 ---p 00000000 00:00 0 
Rss:                   0 kB
7f1000000000-7f1000001000 ---p 00000000 00:00 0 
Rss:                   0 kB
7f1000001000-7f1000801000 rw-p 00000000 00:00 0 
Rss:                  64 kB
7f2000001000-7f2000801000 rw-p 00000000 00:00 0 
Rss:                  24 kB
7f3000001000-7f3000801000 rw-p 00000000 00:00 0 
Rss:                  48 kB
7f4000000000-7f4000100000 r--s 00000000 fe:00 77         /var/data
Rss:                 300 kB
7f5000000000-7f5000100000 rw-s 00000000 00:01 78         /memfd:ring (deleted)
Rss:                   8 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0          [stack]
Rss:                  16 kB
7ffc00030000-7ffc00032000 r-xp 00000000 00:00 0          [vdso]
Rss:                   4 kB
";

    fn process() -> ProcessLook {
        ProcessLook {
            mappings: smaps::parse(SMAPS).expect("smaps"),
            stack_pointers: vec![0x7f20_0000_2000],
            ..ProcessLook::default()
        }
    }

    #[test]
    fn each_mapping_is_of_the_kind_that_its_place_and_name_say() {
        let sums = by_kind(&process());
        let kib = |kind| sums.get(&kind).map(|sum| sum.resident >> 10);
        for (kind, resident) in [
            (MappingKind::Program, 44),
            (MappingKind::Static, 12),
            (MappingKind::Heap, 100),
            (MappingKind::Arena, 512),
            (MappingKind::Stack, 64 + 24 + 16),
            (MappingKind::Own, 48),
            (MappingKind::File, 300),
            (MappingKind::Shared, 8),
            (MappingKind::System, 4),
        ] {
            assert_eq!(kib(kind), Some(resident), "{kind:?}");
        }
        let all: u64 = process().mappings.iter().map(|it| it.resident).sum();
        assert_eq!(sums.values().map(|sum| sum.resident).sum::<u64>(), all);
    }

    #[test]
    fn a_runtime_is_known_by_its_files() {
        assert_eq!(runtime(&process()), None);
        let mut python = process();
        python.mappings[0].name = "/usr/bin/python3.13".into();
        assert_eq!(runtime(&python), Some(PYTHON));
    }
}
