//! Read-copy-update in user space: readers wait for nothing in their sections, and at the end of a
//! grace period every section is over that was open when it began.
//!
//! ```text
//! epoch word    | epoch:48 | 1 | FENCED:1 | 0:14    |   of the yard
//! place's word  | epoch:48 | 1 | FENCED:1 | nest:14 |   of a thread; 0: nobody's place
//! ```
//!
//! * A reader that opens its outermost section copies the epoch word into its slot, with one
//!   section; an inner section and the end of one add and subtract one. That is a load and a
//!   store, with no locked instruction and no fence.
//! * A [grace](periods) period raises the epoch, fences all threads by one system call, and then looks at
//!   each place until it has no section, or one of a newer epoch. A reader's store may be on
//!   its way when the epoch rises: the fence delivers it before the look, or else the reader's
//!   loads come after the fence, and see what was unlinked before.
//! * If the system refuses the fence, now or later, the epoch word says FENCED from then on, and
//!   readers use fences of their own. A place that shows FENCED belongs to a thread that has seen
//!   it. As long as one slot does not, a grace period waits [`DELIVERY_MS`] between the raise and
//!   the look: far longer than a CPU holds a store back.
//! * A thread without a place (no memory, too many threads, no way to find the thread's end)
//!   counts its sections in the yard's two counters ([`slow`]), as sleepable RCU does.
//!
//! Epochs are Fraser's ("Practical lock-freedom", 2004); that one side of the fence can be a
//! system call is from Desnoyers, McKenney, Stern, Dagenais and Walpole ("User-level
//! implementations of read-copy update", IEEE TPDS 23, 2012), whose readers need two phases
//! because their counter has one bit. Ours has 48 bits, and one phase does: an old epoch in a
//! place only makes later grace periods wait.
//!
//! Neighbours: [`crate::platform`] announces and fences; [`crate::waiting`] frees after readers
//! and has the functions that programs call; `pages::held` has the slabs that wait.
//! Invariants: the epoch rises under the grace lock only; `completed` <= the epoch; a word is
//! changed by its thread alone while the place is the thread's.

pub mod grace;
mod periods;
pub mod readers;
mod slow;
mod word;

pub use grace::{DELIVERY_MS, Epoch};
pub use readers::{MOST_PLACES, Rcu};
