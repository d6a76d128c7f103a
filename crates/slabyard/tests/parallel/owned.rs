//! Objects with an owner, who writes its token to their first and last word, and what passes them
//! from thread to thread.

use slabyard::engine::Engine;
use slabyard::sync::{AtomicUsize, Ordering};
use slabyard::yard::Yard;
use slabyard_testkit::parallel::Parallel;

/// An object that its holder alone may use.
#[derive(Debug)]
#[must_use]
pub struct Owned {
    pub address: usize,
    bytes: usize,
    token: u64,
}

impl Owned {
    /// The owner signs what it got. Nobody else may use it now: else this is a race.
    pub fn new(address: usize, bytes: usize, token: u64) -> Owned {
        let owned = Owned { address, bytes: bytes.max(8), token };
        for at in owned.words() {
            // SAFETY: an aligned word of an object that was allocated for us.
            unsafe { at.write(token) };
        }
        owned
    }

    pub fn alloc<E: Engine>(yard: &Yard<Parallel, E>, bytes: usize, token: u64) -> Option<Owned> {
        yard.alloc_fast(bytes.max(8), 8).map(|address| Owned::new(address, bytes, token))
    }

    fn words(&self) -> [*mut u64; 2] {
        [self.address, self.address + (self.bytes - 8) / 8 * 8].map(|at| at as *mut u64)
    }

    /// The token is still there; it is taken away, and the object is no one's. Returns its address.
    pub fn end(self) -> usize {
        for at in self.words() {
            // SAFETY: as in `new`; whether the object is still ours alone is the question.
            assert_eq!(unsafe { at.read() }, self.token, "another wrote to {self:x?}");
        }
        for at in self.words() {
            // SAFETY: as above.
            unsafe { at.write(0) };
        }
        self.address
    }

    pub fn free<E: Engine>(self, yard: &Yard<Parallel, E>) {
        assert_eq!(yard.free_fast(self.end()), Ok(()));
    }
}

/// Room for one object that a thread hands to another: nothing else orders the two.
#[derive(Default)]
pub struct Hand(AtomicUsize);

impl Hand {
    /// Gives the object, or returns it if there is no room.
    pub fn give(&self, object: Box<Owned>) -> Result<(), Box<Owned>> {
        let object = Box::into_raw(object);
        // Release pairs with the Acquire in `take`; here nothing is read.
        match self.0.compare_exchange(
            0,
            object.expose_provenance(),
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => Ok(()),
            // SAFETY: it is still ours.
            Err(_) => Err(unsafe { Box::from_raw(object) }),
        }
    }

    pub fn take(&self) -> Option<Box<Owned>> {
        match self.0.swap(0, Ordering::Acquire) {
            0 => None,
            // SAFETY: it came from `give`, and is ours from now on.
            object => Some(unsafe { Box::from_raw(object as *mut Owned) }),
        }
    }
}
