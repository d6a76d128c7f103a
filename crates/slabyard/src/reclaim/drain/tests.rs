use super::*;
use crate::cache::classes;
use crate::cache::slots::slot_of;
use crate::platform::PerCpu;
use crate::yard::Settings;
use slabyard_testkit::machine::{Config, Machine};

const BYTES: usize = 64;

/// Objects that the stack of the only row holds.
fn parked(yard: &Yard<Machine>) -> Option<u32> {
    let slot = slot_of(classes::class_for(BYTES).unwrap());
    yard.heap.sheaves.count_of(yard.platform().rows().entry(0, slot).top())
}

/// Otherwise a thread would wait in each of its slow paths for one that trims in a loop.
#[test]
fn the_answer_to_a_request_waits_for_no_other_drain() {
    let config = Config { cpus: 1, can_stop: false, ..Config::default() };
    let yard: Yard<Machine> = Yard::new(Machine::new(config));
    assert!(yard.init(Settings { reserve_bytes: 64 << 20, decay_ms: 1000 }));
    let objects = [(); 100].map(|()| yard.alloc_fast(BYTES, 16).unwrap());
    yard.free_fast(objects[0]).unwrap();
    assert!(parked(&yard) > Some(0));
    request_drains(&yard);
    {
        // This thread as another: a wait for this lock would end the test.
        let _other = yard.drain.lock(yard.platform());
        objects[1..50].iter().for_each(|object| yard.free_fast(*object).unwrap());
        assert!(parked(&yard) > Some(40));
    }
    yard.free_fast(objects[50]).unwrap();
    assert!(parked(&yard) <= Some(1), "{:?}", parked(&yard));
    objects[51..].iter().for_each(|object| yard.free_fast(*object).unwrap());
    yard.verify().expect("no slow path is under way").expect("a sound yard");
}
