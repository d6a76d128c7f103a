//! Read-copy-update in user space: readers never wait in their sections, and a grace period ends
//! only when every section that was open at its start is over.
//!
//! ```text
//! epoch word    | epoch:48 | 1 | FENCED:1 | 0:14    |   of the yard
//! place's word  | epoch:48 | 1 | FENCED:1 | nest:14 |   of a thread; 0: nobody's place
//! ```
//!
//! * A reader that opens its outermost section copies the epoch word into its thread's place, with
//!   a nest count of 1; opening and closing an inner section add and subtract 1. That takes one
//!   load and one store, no locked instruction and no fence.
//! * A [grace](periods) period increments the epoch, fences all threads by one system call, and
//!   then polls each place until it shows no section, or one of the new epoch. A reader's store may
//!   still be in its store buffer when the epoch rises: either the fence makes it visible before
//!   the polling, or the reader's loads come after the fence and see the unlinking.
//! * If the kernel refuses the fence, now or later, the epoch word has the bit FENCED from then on,
//!   and readers execute fences of their own. A place whose word has FENCED belongs to a thread
//!   that has seen the bit. As long as some place's word lacks it, a grace period waits
//!   [`DELIVERY_MS`] between the increment and the polling: far longer than a CPU delays a store.
//! * A thread without a place (no memory, too many threads, or no way to detect the thread's exit)
//!   counts its sections in the yard's two counters ([`slow`]), as sleepable RCU does.
//!
//! Epochs are Fraser's ("Practical lock-freedom", 2004). Desnoyers, McKenney, Stern, Dagenais and
//! Walpole replaced one side's fence by a system call ("User-level implementations of read-copy
//! update", IEEE TPDS 23, 2012); their grace periods need two phases because their counter has one
//! bit. Ours has 48 bits, so one phase suffices: an old epoch in a place only makes later grace
//! periods wait.
//!
//! Neighbours: [`crate::platform`] keeps the readers' words and fences; [`crate::waiting`] frees
//! objects after readers and has the functions that programs call; `pages::held` has the slabs that
//! wait. Invariants: the epoch rises only under the grace lock; `completed` <= the epoch; while a
//! place belongs to a thread, only that thread changes its word.

pub mod grace;
mod periods;
pub mod readers;
mod slow;

pub use grace::{DELIVERY_MS, Epoch};
pub use readers::{MOST_PLACES, Rcu};
