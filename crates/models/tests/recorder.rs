//! The rings that a recorded program writes and a recorder reads.
//!
//! The file is compiled here beside a stand-in for the system, because the library's crate exports
//! `malloc` and nothing else. What the recorder does by system calls, a thread of the model does.
#![cfg(loom)]

use slabyard_abi::recording::{Call, ENTRY, MAGIC, PAGE, VERSION, bytes, header, ring, ring_at};
use slabyard_models::{Data, keep, model, prepare, spawn, watch, watch_touched};
use slabyard_platform::sync::{AtomicU64, Ordering};

#[path = "../../recorder/src/rings.rs"]
#[allow(dead_code)]
mod rings;

mod sync {
    pub use slabyard_platform::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
}

/// A program whose file of rings is memory of the model, and whose threads are on one CPU.
#[allow(clippy::missing_safety_doc)]
mod system {
    use slabyard_models::Data;
    use slabyard_platform::sync::AtomicU64;
    use std::ffi::{c_char, c_int, c_long, c_void};
    use std::ptr::null;
    use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

    pub const O_RDWR: c_int = 2;
    pub const O_CLOEXEC: c_int = 0;
    pub const PROT_READ_WRITE: c_int = 3;
    pub const MAP_SHARED: c_int = 1;

    /// The file's first word, and what its mapping writes and its use reads; null: nothing is recorded.
    static FILE: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
    static MAPPED: AtomicPtr<Data> = AtomicPtr::new(std::ptr::null_mut());

    pub fn is_recorded_in(file: &'static [AtomicU64], mapped: &'static Data) {
        FILE.store(file.as_ptr().cast_mut(), Relaxed);
        MAPPED.store(std::ptr::from_ref(mapped).cast_mut(), Relaxed);
    }

    fn mapped() -> &'static Data {
        // SAFETY: the model keeps it, and calls this while a file is there.
        unsafe { &*MAPPED.load(Relaxed) }
    }

    pub unsafe fn getenv(name: *const c_char) -> *const c_char {
        if FILE.load(Relaxed).is_null() { null() } else { name }
    }

    pub unsafe fn open(_: *const c_char, _: c_int) -> c_int {
        3
    }

    pub unsafe fn close(_: c_int) -> c_int {
        0
    }

    pub unsafe fn mmap(
        _: *mut c_void,
        _: usize,
        _: c_int,
        _: c_int,
        _: c_int,
        _: c_long,
    ) -> *mut c_void {
        mapped().write(1);
        FILE.load(Relaxed).cast()
    }

    pub unsafe fn pthread_atfork(
        _: Option<extern "C" fn()>,
        _: Option<extern "C" fn()>,
        _: Option<extern "C" fn()>,
    ) -> c_int {
        0
    }

    pub unsafe fn getpid() -> c_int {
        1
    }

    pub fn nap() {
        slabyard_models::yield_now();
    }

    /// Of a call that is recorded: the rings are used.
    pub fn cpu() -> u16 {
        mapped().read();
        0
    }

    pub fn thread() -> u32 {
        1
    }
}

/// A file of one ring of so many entries.
fn file(entries: usize) -> &'static [AtomicU64] {
    let words = (0..bytes(1, entries).div_ceil(8) + PAGE).map(|_| AtomicU64::new(0));
    let file: &Vec<AtomicU64> = keep(words.collect());
    for (word, value) in [
        (header::MAGIC, MAGIC),
        (header::VERSION, VERSION),
        (header::RINGS, 1),
        (header::ENTRIES, entries as u64),
    ] {
        file[word].store(value, Ordering::Relaxed);
    }
    system::is_recorded_in(file, keep(Data::new()));
    file
}

/// The words of the ring of a program that is recorded.
fn recorded(entries: usize) -> &'static [AtomicU64] {
    let file = file(entries);
    watch_whether_recorded();
    prepare(|| rings::start());
    &file[ring_at(0, entries) / 8..]
}

/// Watches the word that says where the rings are: no call is recorded yet.
fn watch_whether_recorded() {
    watch_touched(&["recorder/src/rings.rs"], || record(4096));
}

fn record(address: usize) {
    rings::record_call(false, address, 64, 1 << 20);
}

/// A thread that finds that calls are recorded finds the rings mapped.
#[test]
fn rings_that_are_found_are_mapped() {
    model(2, || {
        file(2);
        watch_whether_recorded();
        let other = spawn(|| rings::start());
        record(4096);
        other.join().unwrap();
    });
}

/// Threads that write to one ring write one after the other.
#[test]
fn calls_of_two_threads_are_two_entries() {
    model(2, || {
        let ring = recorded(2);
        watch(&ring[ring::WRITTEN]);
        watch(&ring[ring::LOCK]);
        let other = spawn(|| record(4096));
        record(8192);
        other.join().unwrap();
        assert_eq!(ring[ring::WRITTEN].load(Ordering::Relaxed), 2);
    });
}

/// The recorder finds an entry whole that is counted.
#[test]
fn an_entry_is_whole_before_it_is_counted() {
    model(2, || {
        let ring = recorded(2);
        watch(&ring[ring::WRITTEN]);
        let entry = &ring[PAGE / 8..][..ENTRY / 8];
        entry.iter().for_each(watch);
        let other = spawn(|| record(4096));
        if ring[ring::WRITTEN].load(Ordering::Acquire) == 1 {
            let words = std::array::from_fn(|nth| entry[nth].load(Ordering::Relaxed));
            let Call { address, bytes, .. } = Call::of(words);
            assert_eq!((address, bytes), (4096, 64));
        }
        other.join().unwrap();
    });
}

/// An entry is written again when the recorder has read it.
#[test]
fn an_entry_is_read_before_the_next() {
    model(2, || {
        let ring = recorded(1);
        prepare(|| record(4096));
        let entry: &Data = keep(Data::new());
        watch(&ring[ring::READ]);
        let recorder = spawn(move || {
            entry.read();
            ring[ring::READ].store(1, Ordering::Release);
        });
        record(8192);
        assert_eq!(ring[ring::WRITTEN].load(Ordering::Relaxed), 2);
        entry.write(2);
        recorder.join().unwrap();
    });
}
