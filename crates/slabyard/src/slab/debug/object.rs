//! One object with debugging: fills and checks its parts, and changes its state.
//!
//! ```text
//! state, in memory                         Free --claim--> Busy --hand out--> Live
//! 63      40 39   32 31   30 29       0      ^                                 |
//! +---------+-------+-------+-----------+    +--release-- Busy <----claim------+
//! |  check  | state | maker | requested |
//! +---------+-------+-------+-----------+
//! ```
//!
//! The check field is a checksum of the other bits and the address, so that a program's write to
//! the word is detected. A thread that changes the state from Free or Live to Busy owns the object
//! and fills its parts; of two concurrent frees, only one makes this change. A [check](wrong_of) of
//! an object that other threads may use reads its state before and after.

use super::layout::WORD;
use super::{Layout, TrackKind};
use crate::pages::finding::{Bytes, FindingKind};
use crate::platform::Platform;
use crate::slab::debug::track;
use crate::sync::{AtomicU64, Ordering, fence};
use slabyard_abi::debug::DebugFlags;
use slabyard_abi::region::debugging;

const RED_FREE: u8 = 0xbb;
const RED_LIVE: u8 = 0xcc;
pub(super) const POISON_NEW: u8 = 0x5a;
const POISON_FREE: u8 = 0x6b;
const POISON_END: u8 = 0xa5;

/// Who may write to an object: see the picture above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Not handed out: in its slab, or in quarantine.
    Free = 0x1f,
    /// Handed out.
    Live = debugging::LIVE,
    /// A call is about to change it.
    Busy = 0x3d,
}

/// The function that allocated, by which its owner must free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Maker {
    /// `malloc` and its like.
    Malloc,
    /// `operator new`.
    New,
    /// `operator new[]`.
    NewArray,
}

impl Maker {
    pub(super) fn of(bits: u64) -> Option<Maker> {
        [Maker::Malloc, Maker::New, Maker::NewArray].get(bits as usize).copied()
    }
}

/// Where the maker's bits begin in a state.
const MAKER: u32 = 30;

/// A state, and how much was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// As it was when the word was read.
    pub state: State,
    /// Bytes that were requested.
    pub requested: u32,
    /// Of a live object, which function allocated it.
    pub maker: Maker,
}

impl Known {
    /// A state that does not say who allocated.
    pub const fn new(state: State, requested: u32) -> Known {
        Known { state, requested, maker: Maker::Malloc }
    }

    fn word(self, object: usize) -> u64 {
        let low = u64::from(self.state as u8) << 32
            | u64::from(self.maker as u8) << MAKER
            | u64::from(self.requested);
        check_of(low, object) << 40 | low
    }

    fn of(word: u64, object: usize, most: u32) -> Option<Known> {
        let low = word & ((1 << 40) - 1);
        let state = match (low >> debugging::WHAT) as u8 {
            0x1f => State::Free,
            debugging::LIVE => State::Live,
            0x3d => State::Busy,
            _ => return None,
        };
        let requested = low as u32 & ((1 << MAKER) - 1);
        let known = Known { state, requested, maker: Maker::of(low >> MAKER & 3)? };
        (check_of(low, object) == word >> 40 && known.requested <= most).then_some(known)
    }
}

/// 24 bits (Fibonacci hashing: Knuth, TAOCP 6.4).
pub(super) fn check_of(low: u64, object: usize) -> u64 {
    (low ^ (object as u64).rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40
}

fn state_word<'a, P: Platform>(p: &'a P, layout: &Layout, object: usize) -> &'a AtomicU64 {
    // SAFETY: the layout keeps a word there behind each object of a slab, which is committed,
    // and only this module uses it.
    unsafe { p.word(object + layout.state()) }
}

/// Where the link of a deferred free is.
pub fn link_of(layout: &Layout, object: usize) -> usize {
    object + layout.right as usize
}

/// The state of an object; `None` if a program wrote over it.
pub fn read_state<P: Platform>(p: &P, layout: &Layout, object: usize) -> Option<Known> {
    // Acquire pairs with the Release in `set_state`: who sees Free or Live sees the parts.
    let word = state_word(p, layout, object).load(Ordering::Acquire);
    Known::of(word, object, layout.object)
}

fn set_state<P: Platform>(p: &P, layout: &Layout, object: usize, state: State, requested: u32) {
    let word = Known::new(state, requested).word(object);
    state_word(p, layout, object).store(word, Ordering::Release);
}

/// Makes an object that is `from` ours. False if it is not, or not any more.
pub fn claim<P: Platform>(p: &P, layout: &Layout, object: usize, from: Known) -> bool {
    let to = Known { state: State::Busy, ..from };
    // Acquire pairs with the Release in `set_state`: the parts are as the one before left them.
    let (set, seen) = (Ordering::Acquire, Ordering::Relaxed);
    let claimed = state_word(p, layout, object)
        .compare_exchange(from.word(object), to.word(object), set, seen)
        .is_ok();
    // Pairs with the fence in `is_still`: who saw a part that is filled from here on sees Busy.
    fence(Ordering::Release);
    claimed
}

/// True if the state of an object is what it was before its parts were looked at: nobody has
/// changed them meanwhile.
pub fn is_still<P: Platform>(p: &P, layout: &Layout, object: usize, known: Known) -> bool {
    fence(Ordering::Acquire);
    read_state(p, layout, object) == Some(known)
}

/// An object that is ours becomes free: zones, poison, state.
pub fn release<P: Platform>(p: &P, layout: &Layout, object: usize) {
    fill_zones(p, layout, object, 0, RED_FREE);
    if layout.body > 0 {
        let bytes = layout.body as usize;
        // SAFETY: the object is ours.
        unsafe { p.fill(object, bytes - 1, POISON_FREE) };
        // SAFETY: as above.
        unsafe { p.fill(object + bytes - 1, 1, POISON_END) };
    }
    set_state(p, layout, object, State::Free, 0);
}

/// An object that is ours becomes live: zones, poison, state.
pub fn hand_out<P: Platform>(p: &P, layout: &Layout, object: usize, requested: u32) {
    // SAFETY: the object is ours.
    unsafe { p.fill(object, layout.body as usize, POISON_NEW) };
    fill_zones(p, layout, object, requested, RED_LIVE);
    set_state(p, layout, object, State::Live, requested);
}

/// Left and right zone. Of a free object nothing is requested, and the object is no zone.
fn fill_zones<P: Platform>(p: &P, layout: &Layout, object: usize, requested: u32, value: u8) {
    if !layout.flags.has(DebugFlags::RED_ZONE) {
        return;
    }
    let (at, bytes) = right_zone(layout, value, requested);
    // SAFETY: zones of an object that is ours.
    unsafe { p.fill(object - layout.left as usize, layout.left as usize, value) };
    // SAFETY: as above.
    unsafe { p.fill(object + at, bytes, value) };
}

/// Another part than these bytes, if there is one.
pub(super) fn wrong_in<P: Platform>(
    p: &P,
    begin: usize,
    bytes: usize,
    expected: u8,
) -> Option<Bytes> {
    // SAFETY: parts of an object of a slab, which is committed.
    let (first, found) = unsafe { p.first_other(begin, bytes, expected) }?;
    let mut last = first;
    let end = begin + bytes;
    while last + 1 < end {
        // SAFETY: as above.
        match unsafe { p.first_other(last + 1, end - last - 1, expected) } {
            Some((next, _)) => last = next,
            None => break,
        }
    }
    Some(Bytes { first, last, found, expected })
}

fn wrong_zone<P: Platform>(
    p: &P,
    layout: &Layout,
    object: usize,
    known: Known,
) -> Option<(FindingKind, Bytes)> {
    if !layout.flags.has(DebugFlags::RED_ZONE) {
        return None;
    }
    let value = if known.state == State::Free { RED_FREE } else { RED_LIVE };
    let left = layout.left as usize;
    if let Some(bytes) = wrong_in(p, object - left, left, value) {
        return Some((FindingKind::LeftRedZone, bytes));
    }
    let (at, bytes) = right_zone(layout, value, known.requested);
    let wrong = wrong_in(p, object + at, bytes, value)?;
    Some((FindingKind::RightRedZone, wrong))
}

/// What is wrong with the parts of an object that was known to be free or live.
pub fn wrong_of<P: Platform>(
    p: &P,
    layout: &Layout,
    object: usize,
    known: Known,
) -> Option<(FindingKind, Bytes)> {
    let zone = wrong_zone(p, layout, object, known);
    if zone.is_some() || !layout.flags.has(DebugFlags::POISON) {
        return zone;
    }
    let (at, bytes) = layout.padding();
    if let Some(bytes) = wrong_in(p, object + at, bytes, POISON_NEW) {
        return Some((FindingKind::Padding, bytes));
    }
    if known.state != State::Free || layout.body == 0 {
        return None;
    }
    let end = object + layout.body as usize - 1;
    let body = wrong_in(p, object, layout.body as usize - 1, POISON_FREE);
    let wrong = body.or_else(|| wrong_in(p, end, 1, POISON_END))?;
    Some((FindingKind::Poison, wrong))
}

/// Restores the parts of an object after what is wrong was reported.
pub fn repair<P: Platform>(p: &P, layout: &Layout, object: usize, known: Known) {
    if layout.flags.has(DebugFlags::POISON) {
        let (at, bytes) = layout.padding();
        // SAFETY: padding, of which no owner uses a byte.
        unsafe { p.fill(object + at, bytes, POISON_NEW) };
    }
    match known.state {
        State::Free => release(p, layout, object),
        _ => fill_zones(p, layout, object, known.requested, RED_LIVE),
    }
}

/// Writes the state of an object again that a program wrote over.
pub fn restore_state<P: Platform>(p: &P, layout: &Layout, object: usize, known: Known) {
    state_word(p, layout, object).store(known.word(object), Ordering::Release);
}

/// Notes who allocated a live object, which its owner is about to get.
pub fn note_maker<P: Platform>(p: &P, layout: &Layout, object: usize, maker: Maker) {
    if let Some(known) = read_state(p, layout, object).filter(|k| k.state == State::Live) {
        restore_state(p, layout, object, Known { maker, ..known });
    }
}

/// Who used an object last.
pub fn tracks<P: Platform>(
    p: &P,
    layout: &Layout,
    object: usize,
) -> [Option<crate::pages::finding::Track>; 2] {
    [TrackKind::Alloc, TrackKind::Free].map(|which| track::track(p, layout, object, which))
}

/// Begin and bytes of the right zone: of a live object all that was not requested.
fn right_zone(layout: &Layout, value: u8, requested: u32) -> (usize, usize) {
    let begin = if value == RED_LIVE { requested } else { layout.object };
    (begin as usize, (layout.right - begin) as usize)
}

const _: () = assert!(WORD as usize == size_of::<u64>());
