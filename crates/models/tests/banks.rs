//! CPU slabs below sheaves: banks, and their arrays, which one thread has at a time.
#![cfg(loom)]

use slabyard::engine::Inspect;
use slabyard::engine::cpu_slabs::{CpuSlabs, Front, OnCpus, Rules};
use slabyard::yard::{Settings, Yard};
use slabyard_models::{Data, Modelled, keep, model, spawn, watch_touched};

const BYTES: usize = 64;

fn yard() -> &'static Yard<Modelled, OnCpus> {
    let yard: &Yard<Modelled, OnCpus> = keep(Yard::new(Modelled::new()));
    let below = Rules::kinds().find(|rules| rules.front == Front::SheavesOverCpuSlabs);
    let rules = below.expect("rules");
    yard.caches().classes().iter().for_each(|cache| cache.engine.follow(&rules));
    assert!(yard.init(Settings { reserve_bytes: 64 << 20, decay_ms: 250 }));
    yard
}

/// Who finds the banks may use their memory.
#[test]
fn banks_that_are_found_are_there() {
    model(2, || {
        let yard = yard();
        let cache = yard.cache(yard.class_for(BYTES, 8).expect("a class"));
        let is_there = move || {
            let on = cache.engine.on(cache.on(&yard.heap));
            on.check_out_slab().is_ok_and(|slab| {
                assert!(slab.is_none(), "this CPU has none");
                true
            })
        };
        watch_touched(&["cpu_slabs/below.rs"], || assert!(!is_there()));
        yard.platform().await_memory();
        let other = spawn(move || assert!(yard.alloc(BYTES, 8).is_some()));
        if is_there() {
            yard.platform().use_memory();
        }
        other.join().unwrap();
    });
}

/// Who takes an array out of a bank comes after who had it before.
#[test]
fn an_array_of_a_bank_passes_whole() {
    model(2, || {
        let yard = yard();
        // This CPU has a slab then.
        let address = yard.alloc(BYTES, 8).expect("memory");
        let cache = yard.cache(yard.heap.class_at(address).expect("a class"));
        let array: &Data = keep(Data::new());
        let use_own = move || {
            let on = cache.engine.on(cache.on(&yard.heap));
            let Ok(Some(slab)) = on.check_out_slab() else { return false };
            array.write(1);
            assert!(on.check_in_slab(slab).is_none());
            true
        };
        let words = watch_touched(&["cpu_slabs/below.rs"], || assert!(use_own()));
        assert_eq!(words.len(), 2, "the banks, and an element");
        let other = spawn(move || {
            cache.engine.each_parked(cache.on(&yard.heap), |_| array.write(2));
        });
        use_own();
        other.join().unwrap();
    });
}
