//! Whatever the text: an error or a snapshot, and no panic.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Lines as formats have them, and parts of them.
fn fragments() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "slabinfo - version: 2.1",
        "slabinfo - version: 1.1",
        "slabinfo - version: 2.0 (statistics)",
        "dentry 9 21 192 21 1 : tunables 0 0 0 : slabdata 1 1 0",
        ": slabdata",
        ": tunables 1 2 3",
        "  OBJS ACTIVE  USE OBJ SIZE  SLABS OBJ/SLAB CACHE SIZE NAME",
        "21 9 42% 0.19K 1 21 4K dentry",
        " Active / Total Caches (% used)     : 124 / 235 (52.8%)",
        "Slab: 18446744073709551615 kB",
        "dentry-state",
        "1 2 3 4 5 6",
        "memory\t1\t2\t1",
        "TCP: inuse 1 mem 18446744073709551615",
        "Node 0, zone Normal 1 2 3",
        "Mem-Info:",
        " slab_reclaimable:1 slab_unreclaimable:18446744073709551615",
        "Node 0 DMA: 1*4kB (U) 0*8kB = 4kB",
        "DMA: 1*18446744073709551615kB = 0kB",
        "Unreclaimable slab info:",
        "Name                      Used          Total",
        "x 1KB 18446744073709551615KB",
        "a invoked oom-killer: gfp_mask=0, order=99999999999, x",
        "a: page allocation failure: order:1, mode:0",
        "nommu: Allocation of length 18446744073709551615 from process 1 (sh) failed",
        "Call Trace:",
        "SLUB: Unable to allocate memory on node -1 (gfp=0x20)",
        "  cache: x, object size: 1, default order: 9",
        "  node 0: slabs: 18446744073709551615, objs: 1, free: 2",
        "f+0x1/0x2",
        " ? f+0x1/0x2 [m]",
        "BUG kmalloc-64 (Not tainted): Redzone overwritten",
        "Allocated in f+0x1/0x2 age=1 cpu=2 pid=3",
        "Slab 0x1 objects=18446744073709551615 used=1",
        "x on 3:",
        "Cache                       Num  Total   Size  Pages",
        "dentry 18446744073709551615 2 3 18446744073709551615",
        "Name Objects Objsize Space Slabs/Part/Cpu  O/S O %Fr %Ef Flg",
        "x 18446744073709551615 2 0 18446744073709551615/1/1 18446744073709551615 31 0 98 a",
        "page=ff base=1 order=63 partial_pages=1 partial_objects=4294967295 objects=5 inuse=0",
        "1-2 rw-p 0 0:0 0 [heap]",
        "Rss: 18446744073709551615 kB",
        "1-2 rw-p 0 0:0 0 [rollup]",
        "Rss: 4 kB",
        "<malloc version=\"1\">",
        "<heap nr=\"0\">",
        "</heap>",
        "</malloc>",
        "<total type=\"fast\" count=\"0\" size=\"18446744073709551615\"/>",
        "<total type=\"rest\" size=\"1\"/>",
        "<system type=\"current\" size=\"1\"/>",
        "Arena 0:",
        "system bytes = 1",
        "in use bytes = 2",
        "Total (incl. mmap):",
        "arena = 1",
        "uordblks = 18446744073709551615",
        "fordblks = -1",
        "___ Begin jemalloc statistics ___",
        "Allocated: 1, active: 18446744073709551615, mapped: 18446744073709551615, retained: 1",
        "bins: size ind curregs curslabs regs pgs util",
        "0 1 18446744073709551615 4 18446744073709551615 9 0.1",
        "Page size: 18446744073709551615",
        "tcache_bytes: 5",
        "{\"jemalloc\":{}}",
        "{\"jemalloc\":",
        "{\"jemalloc\":{\"stats\":{\"allocated\":1},\"stats.arenas\":{\"0\":{}}}}",
        "heap stats: peak total current block total#",
        " committed: 1.0 GiB 1.0 GiB 99999999999999999999.9 PiB",
        "segments: 1 2 3",
        "-abandoned: 1",
        "process: user: 0.1 s, peak rss: 1 MiB",
        "subproc 0",
        "lrwxrwxrwx 1 root root 0 Mar 3 10:11 filp -> :0000256",
        "$ uname -r",
        "6.1.0",
        "",
        "> ",
    ]);
    prop_oneof![
        6 => known.prop_map(str::to_owned),
        1 => "\\PC{0,40}",
        1 => ".{0,20}",
        2 => "[a-z:]{1,9}( [0-9]{1,20}){0,8}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_text_is_a_panic(lines in prop::collection::vec(fragments(), 0..24), cut in 0.0f64..1.0) {
        let text = lines.join("\n");
        let _ = read(&text, 1);
        // As much, ended anywhere.
        let end = text.floor_char_boundary((text.len() as f64 * cut) as usize);
        let _ = read(&text[..end], 1);
    }

    #[test]
    fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&String::from_utf8_lossy(&bytes), 1);
    }
}

#[test]
fn a_reader_names_itself_once() {
    let names: BTreeSet<_> = FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(names.len(), FORMATS.len());
}
