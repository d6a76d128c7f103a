//! What a yard counts against limits of address space: what it uses, from its begin on; and the
//! end of what there is, a mapping of others behind its own.

use crate::in_own_process;
use slabyard::platform::GRANULE;
use slabyard::platform::linux::Linux;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::{read_word, write_word};

static YARD: Yard<Linux> = Yard::new(Linux::new());

fn mapped_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmSize:")).expect("VmSize");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("KiB")
}

/// Objects of so many bytes in all, each with its number in it.
fn take(bytes: usize, all: &mut Vec<usize>) {
    let mut taken = 0;
    while taken < bytes {
        let size = 16 + all.len() * 37 % 3000;
        let object = YARD.alloc_fast(size, 16).expect("memory");
        // SAFETY: the object is ours, and has 16 bytes and more.
        unsafe { write_word(YARD.platform(), object, all.len()) };
        all.push(object);
        taken += size;
    }
}

#[test]
fn a_heap_maps_what_it_uses_and_ends_at_what_is_others() {
    in_own_process("grows::a_heap_maps_what_it_uses_and_ends_at_what_is_others", grow_to_the_end);
}

fn grow_to_the_end() {
    let before = mapped_kib();
    assert!(YARD.platform().init(None));
    assert!(YARD.init(Settings { reserve_bytes: 1 << 40, decay_ms: 250 }));
    let begin = mapped_kib() - before;
    assert!(begin < 8 << 10, "{begin} KiB at the begin");
    let mut all = Vec::new();
    take(5 << 20, &mut all);
    let small = mapped_kib() - before;
    assert!(small < 16 << 10, "{small} KiB are mapped");
    let theirs: Vec<Vec<u8>> = (0..40).map(|n| vec![n; 1 << 20]).collect();
    take(150 << 20, &mut all);
    let region = &YARD.heap.region;
    assert!(region.top() <= region.reach() && region.reach() <= 2 * region.top());
    for (nr, object) in all.iter().enumerate() {
        // SAFETY: live, written above.
        assert_eq!(unsafe { read_word(YARD.platform(), *object) }, nr);
        assert!(region.granule_of(*object).is_some(), "it grew no more");
    }
    assert!(matches!(YARD.verify(), Some(Ok(_))), "not sound");
    for object in all {
        assert_eq!(YARD.free_fast(object), Ok(()));
    }
    assert!(YARD.trim());
    assert!(theirs.iter().enumerate().all(|(n, bytes)| bytes.iter().all(|b| *b == n as u8)));
    // The end of what there is: refused, and nothing else.
    let wall = region.address(region.top() as u32).next_multiple_of(2 << 20) + (64 << 20);
    // SAFETY: a fresh mapping, where nothing is.
    let made = unsafe {
        libc::mmap(
            wall as *mut _,
            GRANULE,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    assert_eq!(made as usize, wall);
    let mut runs = Vec::new();
    while let Some(run) = YARD.heap.alloc_run(1 << 20, 16) {
        runs.push(run);
    }
    assert!(runs.len() > 150 && runs.iter().all(|run| *run < wall), "{} runs", runs.len());
    for run in runs {
        assert_eq!(YARD.free(run), Ok(()));
    }
    assert!(matches!(YARD.verify(), Some(Ok(_))), "not sound");
}
