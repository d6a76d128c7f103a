//! The slab word and the bits: frees of other CPUs, takes under the list lock, slabs that end.
#![cfg(loom)]

use slabyard::pages::{GranuleKind, PageHeap};
use slabyard::slab::{Geometry, Word, freeset, frozen};
use slabyard::yard::{Settings, Yard};
use slabyard_models::{Data, Modelled, keep, model, model_by_words, spawn, watch, watch_range};
use slabyard_platform::sync::Ordering;

const SLOT: u16 = 18;
const OBJECTS: u32 = 4;

struct Slab {
    heap: &'static PageHeap<Modelled>,
    slab: u32,
    geometry: Geometry,
}

/// A slab of four objects, which are all free.
fn slab() -> &'static Slab {
    let yard: &Yard<Modelled> = keep(Yard::new(Modelled::new()));
    assert!(yard.init(Settings { reserve_bytes: 64 << 20, decay_ms: 250 }));
    let heap = &yard.heap;
    let geometry = Geometry::new(1024, 0);
    assert_eq!(geometry.objects, OBJECTS);
    let slab = heap.take_run(1, 1).expect("a page");
    freeset::begin_slab(heap, slab, &geometry, SLOT);
    let it = keep(Slab { heap, slab, geometry });
    let descriptor = heap.region.descriptor(slab);
    watch(&descriptor.word);
    watch(&descriptor.bits[0]);
    // The kind.
    watch_range(std::ptr::from_ref(descriptor).addr(), 1, 4);
    it
}

impl Slab {
    fn put(&self, object: u32) -> freeset::Put {
        let (word, bit) = Word::of(object);
        freeset::put(self.heap, self.slab, word, bit)
    }

    fn take(&self, most: u32) -> Vec<u32> {
        let mut taken = Vec::new();
        freeset::take(self.heap, self.slab, most, false, |word, mask| {
            taken.extend((0..64).filter(|bit| mask >> bit & 1 == 1).map(|bit| word.index_of(bit)));
        });
        taken
    }

    /// Frees an object as a CPU slab's engine does, which leaves the slab frozen or thawed as it is.
    fn put_by_exchange(&self, object: u32) -> frozen::Exchanged {
        let (word, bit) = Word::of(object);
        frozen::put_with(self.heap, self.slab, word, bit, |_, new| new).0
    }

    fn take_frozen(&self, most: u32) -> Vec<u32> {
        let mut taken = Vec::new();
        let _ = frozen::take_frozen(self.heap, self.slab, most, |word, mask| {
            taken.extend((0..64).filter(|bit| mask >> bit & 1 == 1).map(|bit| word.index_of(bit)));
        });
        taken
    }
}

/// One memory cell for each object.
fn objects() -> &'static [Data; OBJECTS as usize] {
    keep(std::array::from_fn(|_| Data::new()))
}

/// Who takes an object that another thread freed sees what that one wrote.
#[test]
fn a_take_comes_after_the_free() {
    model(2, || {
        let (slab, objects) = (slab(), objects());
        assert_eq!(slab.take(OBJECTS).len(), 4);
        let other = spawn(|| {
            objects[2].write(1);
            let put = slab.put(2);
            assert_eq!((put.added, put.twice), (1, 0));
        });
        for taken in slab.take(1) {
            assert_eq!(taken, 2);
            objects[2].write(2);
        }
        other.join().unwrap();
    });
}

/// Of two frees the one that has set its bit may be taken by the other's count: it is over, too.
#[test]
fn a_take_comes_after_a_free_that_is_not_counted() {
    model_by_words(2, || {
        let (slab, objects) = (slab(), objects());
        assert_eq!(slab.take(OBJECTS).len(), 4);
        let others = [1, 3].map(|object| {
            spawn(move || {
                objects[object as usize].write(1);
                let _ = slab.put(object);
            })
        });
        for _ in 0..2 {
            for taken in slab.take(1) {
                objects[taken as usize].write(2);
            }
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Two threads free the last objects: the one that makes the slab empty ends it, and may use all
/// of its memory.
#[test]
fn who_empties_a_slab_has_all_of_it() {
    model(2, || {
        let (slab, objects) = (slab(), objects());
        let taken = slab.take(2);
        assert_eq!(taken, [0, 1]);
        let free = move |object: u32| {
            objects[object as usize].write(1);
            let put = slab.put(object);
            if put.before + put.added == OBJECTS {
                objects[0].write(2);
                objects[1].write(2);
                freeset::end_slab(&slab.heap.region, slab.slab, &slab.geometry);
            }
        };
        let other = spawn(move || free(0));
        free(1);
        other.join().unwrap();
        assert_eq!(slab.heap.region.descriptor(slab.slab).kind(), GranuleKind::None);
    });
}

/// A slab that ended and begins anew at the same page: who sees its version sees its bits.
#[test]
fn a_slab_is_whole_when_its_version_is_seen() {
    model(2, || {
        let slab = slab();
        let (old, _) = freeset::free_of(&slab.heap.region, slab.slab);
        let other = spawn(move || {
            freeset::end_slab(&slab.heap.region, slab.slab, &slab.geometry);
            freeset::begin_slab(slab.heap, slab.slab, &Geometry::new(2048, 0), SLOT);
        });
        let (version, free) = freeset::free_of(&slab.heap.region, slab.slab);
        if version != old && free == 2 {
            assert_eq!(freeset::bits_of(slab.heap, slab.slab, &Geometry::new(2048, 0)), 2);
        }
        other.join().unwrap();
    });
}

/// Of a frozen slab: its CPU takes what another one freed.
#[test]
fn a_frozen_slab_gives_what_was_freed() {
    model(2, || {
        let (slab, objects) = (slab(), objects());
        assert_eq!(slab.take_frozen(OBJECTS).len(), 4);
        let other = spawn(|| {
            objects[2].write(1);
            let put = slab.put_by_exchange(2);
            assert_eq!(put.free(), 1);
        });
        for taken in slab.take_frozen(1) {
            assert_eq!(taken, 2);
            objects[2].write(2);
        }
        other.join().unwrap();
    });
}

/// As of the free set: one frees with its bit set, the other has counted.
#[test]
fn a_frozen_take_comes_after_a_free_that_is_not_counted() {
    model_by_words(2, || {
        let (slab, objects) = (slab(), objects());
        assert_eq!(slab.take_frozen(OBJECTS).len(), 4);
        let others = [1, 3].map(|object| {
            spawn(move || {
                objects[object as usize].write(1);
                let _ = slab.put_by_exchange(object);
            })
        });
        for taken in slab.take_frozen(1) {
            objects[taken as usize].write(2);
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// A CPU returns objects to its slab and thaws it; another one frees into it and takes.
#[test]
fn a_thawed_slab_gives_what_was_returned() {
    model_by_words(2, || {
        let (slab, objects) = (slab(), objects());
        assert_eq!(slab.take_frozen(OBJECTS).len(), 4);
        let others = [
            spawn(|| {
                objects[1].write(1);
                let mut masks = [0; _];
                masks[0] = 0b10;
                let _ = frozen::thaw_with(slab.heap, slab.slab, &mut masks);
            }),
            spawn(|| {
                objects[3].write(1);
                let _ = slab.put_by_exchange(3);
            }),
        ];
        for taken in slab.take_frozen(1) {
            objects[taken as usize].write(2);
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Two frees by exchanges, of which one empties the slab.
#[test]
fn who_empties_a_frozen_slab_has_all_of_it() {
    model(2, || {
        let (slab, objects) = (slab(), objects());
        assert_eq!(slab.take_frozen(2), [0, 1]);
        let free = move |object: u32| {
            objects[object as usize].write(1);
            if slab.put_by_exchange(object).free() == OBJECTS {
                objects[0].write(2);
                objects[1].write(2);
            }
        };
        let other = spawn(move || free(0));
        free(1);
        other.join().unwrap();
    });
}

/// A slab that is parked gets a version of its own, which the free that empties it sees.
#[test]
fn a_free_sees_what_was_done_before_the_slab_was_parked() {
    model(2, || {
        let slab = slab();
        let list: &Data = keep(Data::new());
        let _ = slab.take_frozen(1);
        let other = spawn(move || {
            list.write(1);
            let _ = frozen::park_slab(slab.heap, slab.slab);
        });
        let put = slab.put_by_exchange(0);
        if put.old & frozen::PARKED != 0 {
            assert_eq!(list.read(), 1);
        }
        other.join().unwrap();
    });
}

/// Who sees that a slab begins at a page sees its word and its cache's slot.
#[test]
fn a_kind_shows_what_begins_there() {
    model(2, || {
        let slab = slab();
        let heap = slab.heap;
        freeset::end_slab(&heap.region, slab.slab, &slab.geometry);
        let other = spawn(move || freeset::begin_slab(heap, slab.slab, &slab.geometry, SLOT));
        let descriptor = heap.region.descriptor(slab.slab);
        if descriptor.kind() == GranuleKind::Slab {
            assert_eq!(descriptor.slot(), SLOT);
            assert_eq!(descriptor.bits[0].load(Ordering::Relaxed), 0b1111);
            assert_ne!(descriptor.word.load(Ordering::Relaxed), 0);
        }
        other.join().unwrap();
    });
}

/// Who finds that a run was freed finds how large it had grown.
#[test]
fn a_freed_run_shows_its_granules() {
    model(2, || {
        let slab = slab();
        let heap = slab.heap;
        let run = heap.alloc_run(8192, 4096).expect("a run");
        let granule = heap.region.granule_of(run).expect("a granule");
        let descriptor = heap.region.descriptor(granule);
        watch_range(std::ptr::from_ref(descriptor).addr(), 2, 4);
        let other = spawn(move || {
            assert!(heap.grow_run(run, 16384).is_some());
            assert!(heap.free_live_run(run).is_some());
        });
        if !matches!(descriptor.kind(), GranuleKind::Run) {
            assert_eq!(descriptor.granules.load(Ordering::Relaxed), 4);
        }
        other.join().unwrap();
    });
}

/// A live run that two threads free is freed once.
#[test]
fn a_run_is_freed_once() {
    model(2, || {
        let slab = slab();
        let heap = slab.heap;
        let run = heap.alloc_run(8192, 4096).expect("a run");
        let granule = heap.region.granule_of(run).expect("a granule");
        watch_range(std::ptr::from_ref(heap.region.descriptor(granule)).addr(), 1, 4);
        let other = spawn(move || heap.free_live_run(run).is_some());
        let freed = heap.free_live_run(run).is_some();
        assert_ne!(other.join().unwrap(), freed);
    });
}
