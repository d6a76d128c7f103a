//! Frees that a handler deferred, requests of other processes, seals of blocks.
#![cfg(loom)]

use slabyard::cache::{CacheId, CacheSettings};
use slabyard::calls::help::help_answer;
use slabyard::child::mark_child;
use slabyard::created::abandoned::Owner;
use slabyard::mail::forget_mail;
use slabyard::slab::ObjectFn;
use slabyard::yard::{Settings, Yard};
use slabyard_models::{Data, Modelled, keep, model, spawn, watch, watch_touched};
use slabyard_platform::sync::Ordering;
use slabyard_platform::{PerCpu, Threads};

/// The bit of a thread's depth word that says that it is in a slow path.
const IN_SLOW_PATH: u32 = 1;

fn yard() -> &'static Yard<Modelled> {
    let yard: &Yard<Modelled> = keep(Yard::new(Modelled::new()));
    assert!(yard.init(Settings { reserve_bytes: 64 << 20, decay_ms: 250 }));
    yard
}

/// Frees as a handler does that interrupted a slow path.
fn free_in_handler(yard: &Yard<Modelled>, address: usize) {
    let depth = &yard.platform().thread().depth;
    depth.store(IN_SLOW_PATH, Ordering::Relaxed);
    assert!(yard.free(address).is_ok());
    depth.store(0, Ordering::Relaxed);
}

/// A cache whose constructor writes to `data`, and its destructor, too: whoever frees a deferred object
/// makes it anew, and whoever destroys the cache unmakes it.
fn cache(yard: &Yard<Modelled>, data: &'static Data) -> CacheId {
    fn make(_: usize, data: usize) {
        // SAFETY: the model keeps it.
        unsafe { &*(data as *const Data) }.write(2);
    }
    let constructor = ObjectFn { function: make, word: std::ptr::from_ref(data) as usize };
    let [constructor, destructor] = [Some(constructor); 2];
    let settings = CacheSettings { constructor, destructor, ..CacheSettings::of(64) };
    yard.create_cache("model", &settings).expect("a cache")
}

/// Who frees what was deferred comes after who deferred it.
#[test]
fn a_deferred_free_comes_after_its_handler() {
    model(2, || {
        let yard = yard();
        let object: &Data = keep(Data::new());
        let id = cache(yard, object);
        let address = yard.alloc_from(id).expect("memory");
        watch_touched(&["waiting/deferred.rs"], || {
            let other = yard.alloc_from(id).expect("memory");
            free_in_handler(yard, other);
            help_answer(yard);
        });
        let handler = spawn(move || {
            object.write(1);
            free_in_handler(yard, address);
        });
        help_answer(yard);
        handler.join().unwrap();
    });
}

/// A cache ends after all of its deferred frees, which another thread may make: where the kernel
/// refuses the fences of all threads, which would order more.
#[test]
fn a_cache_ends_after_its_deferred_frees() {
    model(2, || {
        let yard = yard();
        let id = cache(yard, keep(Data::new()));
        let address = yard.alloc_from(id).expect("memory");
        watch_touched(&["waiting/deferred.rs"], || {
            let other = yard.alloc_from(id).expect("memory");
            free_in_handler(yard, other);
            help_answer(yard);
            let other = cache(yard, keep(Data::new()));
            // SAFETY: no object of it is live.
            assert!(unsafe { yard.destroy_cache(other) }.is_ok());
        });
        yard.platform().refuse_fences();
        free_in_handler(yard, address);
        let other = spawn(move || help_answer(yard));
        // SAFETY: nobody calls the cache any more.
        assert!(unsafe { yard.destroy_cache(id) }.is_ok(), "no object is live");
        other.join().unwrap();
    });
}

/// The last of an owner's users frees its block: after all others' last look at it.
#[test]
fn the_last_user_has_the_block() {
    model(2, || {
        let owner = keep(Owner::new());
        let block: &Data = keep(Data::new());
        owner.add_mapping();
        watch(owner);
        let leave = move || {
            // What a user does with its part of the block.
            block.read();
            if owner.leave() {
                block.write(1);
            }
        };
        let other = spawn(leave);
        leave();
        other.join().unwrap();
    });
}

/// A request is read whole, and its answer, too.
#[test]
fn a_request_and_its_answer_are_whole() {
    use slabyard_abi::region::{Mail, Outcome, Request, WHOLE_YARD, check};
    model(2, || {
        let yard = yard();
        let header = yard.platform().rows().header();
        let word = |mail: Mail| &header[mail.index()];
        for mail in
            [Mail::Asked, Mail::What, Mail::Cache, Mail::Check, Mail::Answered, Mail::Result]
        {
            watch(word(mail));
        }
        let requester = spawn(move || {
            let request = [1, Request::Shrink as u64, WHOLE_YARD, 0, 0, 0];
            for (mail, value) in
                [(Mail::What, request[1]), (Mail::Cache, request[2]), (Mail::Check, check(request))]
            {
                word(mail).store(value, Ordering::Relaxed);
            }
            // A system call, which orders what it writes.
            word(Mail::Asked).store(1, Ordering::SeqCst);
            if word(Mail::Answered).load(Ordering::Acquire) == 1 {
                let outcome = word(Mail::Result).load(Ordering::Relaxed);
                assert!(Outcome::of(outcome).is_some());
            }
        });
        help_answer(yard);
        requester.join().unwrap();
    });
}

/// Who asked the child of a fork, before it forgot its parent's requests, reads no old outcome.
#[test]
fn a_forgotten_request_has_no_outcome() {
    use slabyard_abi::region::{FORGOTTEN, Mail, Outcome};
    model(2, || {
        let yard = yard();
        let header = yard.platform().rows().header();
        let [asked, answered, result] =
            [Mail::Asked, Mail::Answered, Mail::Result].map(|mail| &header[mail.index()]);
        asked.store(1, Ordering::Relaxed);
        result.store(Outcome::Done as u64, Ordering::Relaxed);
        [asked, answered, result].into_iter().for_each(watch);
        let requester = spawn(move || {
            if answered.load(Ordering::Acquire) == 1 {
                assert_eq!(result.load(Ordering::Relaxed), FORGOTTEN);
            }
        });
        forget_mail(yard);
        requester.join().unwrap();
    });
}

/// In the child of a fork all slow paths come after the repair, which one of them makes.
#[test]
fn a_slow_path_comes_after_a_childs_repair() {
    model(2, || {
        let yard = yard();
        let p = yard.platform();
        watch(p.birth());
        mark_child(p);
        let other = spawn(move || help_answer(yard));
        help_answer(yard);
        other.join().unwrap();
    });
}
