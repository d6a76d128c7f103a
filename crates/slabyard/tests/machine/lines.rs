//! CPUs that fill their sheaves at the same time share no cache line: a CPU that writes to
//! its object takes no line from another (Berger, McKinley, Blumofe and Wilson, "Hoard",
//! ASPLOS 2000).

use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};
use std::collections::HashMap;

const LINE: usize = 64;

/// Number of lines with objects of both CPUs, which take so many each, in turn.
fn shared_lines(bytes: usize, objects: usize) -> usize {
    let yard = <Yard<_>>::new(Machine::new(Config { cpus: 2, ..Config::default() }));
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 250 }));
    let mut users = HashMap::<usize, u32>::new();
    for nth in 0..2 * objects {
        let cpu = nth % 2;
        yard.platform().set_cpu(cpu);
        let object = yard.alloc_fast(bytes, 16).expect("memory");
        for line in object / LINE..=(object + bytes - 1) / LINE {
            *users.entry(line).or_default() |= 1 << cpu;
        }
    }
    users.values().filter(|users| **users == 3).count()
}

#[test]
fn cpus_share_no_line() {
    for bytes in (16..=256).step_by(16) {
        assert_eq!(shared_lines(bytes, 20_000), 0, "objects of {bytes} bytes");
    }
}
