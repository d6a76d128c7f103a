//! Looks at large blocks against changes of these.
#![cfg(loom)]

use slabyard::yard::looks::Looks;
use slabyard_models::{Data, Modelled, keep, model, spawn, watch, watch_touched};
use slabyard_platform::sync::{AtomicU32, Ordering};

const BLOCK: usize = 8;

/// Whom nobody looks at yet, and the machine.
fn looks() -> (&'static Modelled, &'static Looks) {
    let (p, looks): (&Modelled, &Looks) = (keep(Modelled::new()), keep(Looks::new()));
    watch_touched(&["yard/looks.rs"], || {
        let _ = looks.look(p, BLOCK, &mut 0, || Some(()), |()| ());
        drop(looks.change());
    });
    (p, looks)
}

/// What a look found is from before a change or from after it.
#[test]
fn a_look_finds_no_half_of_a_change() {
    model(2, || {
        let (p, looks) = looks();
        let seal: &[AtomicU32; 2] = keep([AtomicU32::new(0), AtomicU32::new(0)]);
        seal.iter().for_each(watch);
        let look = spawn(move || {
            let read = || Some([0, 1].map(|half| seal[half].load(Ordering::Relaxed)));
            if let Some([a, b]) = looks.look(p, BLOCK, &mut 0, read, |_| ()) {
                assert_eq!(a, b);
            }
        });
        let change = looks.change();
        seal[0].store(1, Ordering::Relaxed);
        seal[1].store(1, Ordering::Relaxed);
        drop(change);
        look.join().unwrap();
    });
}

/// Who frees a block takes its pages away only where no look reads them.
#[test]
fn a_block_that_is_looked_at_keeps_its_pages() {
    model(2, || {
        let (p, looks) = looks();
        let (live, pages): (&AtomicU32, &Data) = (keep(AtomicU32::new(1)), keep(Data::new()));
        watch(live);
        let changer = spawn(|| {
            let _change = looks.change();
            live.store(0, Ordering::Relaxed);
            if !looks.is_at(BLOCK) {
                pages.write(1);
            }
        });
        let read = || {
            if live.load(Ordering::Relaxed) == 1 {
                assert_eq!(pages.read(), 0);
            }
            Some(())
        };
        let _ = looks.look(p, BLOCK, &mut 0, read, |()| ());
        changer.join().unwrap();
    });
}
