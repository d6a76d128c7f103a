//! Tests of the machine itself: the same seed gives the same schedule, and the faults that the
//! machine must report are reported.

use super::*;
use crate::write_word;
use slabyard_platform::sync::{Lock, Rank};
use slabyard_platform::{Memory, Park, Stretch, Use};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Text of the panic that `body` ends with.
fn panic_of(body: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("it must panic");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().map(|s| String::from(*s)).expect("a text"),
    }
}

fn counted(seed: u64) -> (u64, u64) {
    let machine = Machine::new(Config { seed, cpus: 3, ..Config::default() });
    let lock = Lock::new(Rank::List, 0);
    machine.run(
        (0..4)
            .map(|_| -> Body<'_> {
                Box::new(|m| {
                    for _ in 0..50 {
                        let mut guard = lock.lock(m);
                        let seen = *guard;
                        m.step();
                        *guard = seen + 1;
                    }
                })
            })
            .collect(),
    );
    assert_eq!(*lock.lock(&machine), 200);
    (machine.trace(), machine.interruptions())
}

#[test]
fn same_seed_same_schedule() {
    let (trace, interruptions) = counted(7);
    assert_eq!((trace, interruptions), counted(7));
    assert_ne!(trace, counted(8).0);
    assert!(interruptions > 10, "{interruptions} interruptions");
}

#[test]
fn deadlock_is_reported() {
    let locks = [const { Lock::new(Rank::Barn, ()) }; 2];
    let machine = Machine::new(Config { preemption: 500, max_steps: 20_000, ..Config::default() });
    let body = |first: usize| -> Body<'_> {
        let locks = &locks;
        Box::new(move |m| {
            for _ in 0..1000 {
                let _first = locks[first].lock(m);
                // As if the ranks did not forbid it.
                m.held().store(0, Ordering::Relaxed);
                let _second = locks[1 - first].lock(m);
            }
        })
    };
    let text = panic_of(|| machine.run(std::vec![body(0), body(1)]));
    assert!(text.contains("deadlock") && text.contains("thread 2 on CPU"), "{text}");
}

#[test]
fn forgotten_wake_is_reported() {
    let word = AtomicU32::new(1);
    let machine = Machine::new(Config { preemption: 0, ..Config::default() });
    let text = panic_of(|| {
        machine.run(std::vec![
            Box::new(|m| while word.load(Ordering::Relaxed) == 1 {
                m.wait(&word, 1);
            }),
            Box::new(|m| {
                m.step();
                word.store(2, Ordering::Relaxed);
            }),
            Box::new(|m| while word.load(Ordering::Relaxed) != 7 {
                m.wait(&word, 1);
                m.wait(&word, 2);
            }),
        ]);
    });
    assert!(text.contains("sleeps on"), "{text}");
}

#[test]
fn a_thread_s_panic_ends_the_run() {
    let lock = Lock::new(Rank::List, ());
    let machine = Machine::new(Config::default());
    let text = panic_of(|| {
        machine.run(std::vec![
            Box::new(|m| loop {
                let _guard = lock.lock(m);
            }),
            Box::new(|m| {
                let _guard = lock.lock(m);
                panic!("found it");
            }),
            Box::new(|m| loop {
                let _guard = lock.lock(m);
            }),
        ]);
    });
    assert_eq!(text, "found it");
    // The machine can be used again.
    machine.run(std::vec![Box::new(|m| drop(lock.lock(m)))]);
}

#[test]
fn an_endless_run_is_reported() {
    let machine = Machine::new(Config { max_steps: 1000, ..Config::default() });
    let text = panic_of(|| {
        machine.run(std::vec![Box::new(|m| loop {
            m.step();
        })])
    });
    assert!(text.contains("no end after 1000 steps"), "{text}");
}

#[test]
fn memory_is_counted_and_limited() {
    let config = Config { page_bytes: 16384, memory_bytes: 16384 * 3, ..Config::default() };
    let machine = Machine::new(config);
    let arena = machine.reserve(1 << 30, 1 << 21, Use::Arena).expect("address space");
    assert!(arena.is_multiple_of(1 << 21));
    assert!(machine.commit(arena, 16384));
    assert!(machine.commit(arena + 16384, 16384));
    assert_eq!(machine.committed_bytes(), 32768);
    assert!(!machine.commit(arena + 65536, 32768), "beyond the machine's memory");
    assert_eq!(machine.committed_bytes(), 32768);
    let mapping = machine.map(1, 1).expect("the last page");
    assert_eq!((machine.map(1, 1), machine.remap(mapping, 1, 16385)), (None, None));
    machine.unmap(mapping, 1);
    assert_eq!((machine.mapped_bytes(), machine.requests()), (0, 6));
    machine.give_back(&mut [Stretch { address: arena, bytes: 32768 }]);
    assert_eq!((machine.committed_bytes(), machine.given_back_bytes()), (32768, 32768));
}

#[test]
fn wrong_use_of_memory_is_reported() {
    let machine = Machine::new(Config::default());
    let arena = machine.reserve(1 << 20, 4096, Use::Arena).expect("address space");
    let mapping = machine.map(8192, 4096).expect("memory");
    // SAFETY: on purpose there is no memory; the machine's words have none.
    let text = panic_of(|| unsafe { write_word(&machine, arena, 1) });
    assert!(text.contains("no object's memory"), "{text}");
    assert!(
        panic_of(|| machine.give_back(&mut [Stretch { address: arena, bytes: 4096 }]))
            .contains("not committed")
    );
    assert!(panic_of(|| machine.unmap(mapping, 4096)).contains("has 8192 bytes"));
    machine.unmap(mapping, 8192);
    assert!(panic_of(|| machine.unmap(mapping, 8192)).contains("no mapping begins"));
    assert!(panic_of(|| assert!(machine.commit(arena, 1 << 21))).contains("in no reservation"));
}

#[test]
fn every_request_can_be_refused() {
    for n in 0..4 {
        let machine = Machine::new(Config { refuse_commit: Some(n), ..Config::default() });
        let arena = machine.reserve(1 << 20, 4096, Use::Arena).expect("address space");
        let succeeded: Vec<bool> = (0..4).map(|i| machine.commit(arena + i * 4096, 4096)).collect();
        let nr_refused = succeeded.iter().filter(|g| !**g).count();
        assert!(nr_refused == 1 && !succeeded[usize::try_from(n).unwrap()], "{succeeded:?}");
        assert_eq!(machine.committed_bytes(), 3 * 4096);
    }
}

#[test]
#[cfg(debug_assertions)]
fn a_system_call_under_a_lists_lock_is_reported() {
    use slabyard_platform::PerCpu;
    let machine = Machine::new(Config::default());
    let table = machine.reserve(GRANULE, GRANULE, Use::Table).expect("memory");
    let lists = Lock::new(Rank::List, ());
    let _guard = lists.lock(&machine);
    for call in [
        &(|| _ = machine.commit(table, GRANULE)) as &dyn Fn(),
        &|| machine.give_back(&mut [Stretch { address: table, bytes: GRANULE }]),
        &|| _ = machine.map(GRANULE, GRANULE),
        &|| assert!(machine.fence()),
    ] {
        assert!(panic_of(call).starts_with("a system call while holding"));
    }
}
