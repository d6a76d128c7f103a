//! The operations on a cache's slabs that the policy needs, and the rules by which it uses them.
//!
//! Each part of the policy is written once, for the trait that it needs: [`super::partial`] for
//! [`Slabs`], [`super::flush`] for [`FlushTarget`], [`super::sheaves`] for [`Stacks`].
//! [`super::PageSlabs`] implements all of them for a yard, with bitmaps, stacks and locks. The
//! model implements the traits with counts (`CountedSlabs`): an object is just its slab's number,
//! and a slab takes 24 bytes. The differences between our sheaves and the kernel's are in one row
//! of [`Rules`], which is a constant in a yard.
//!
//! Invariant: without preemption both implementations give the same counts for the same calls
//! (`crates/lab/tests/one_policy.rs`).

use super::{Counter, Header, Shape};
use crate::engine::node_words::NodeWords;
use crate::engine::partial_list::Partial;
use crate::pages::Descriptor;
use crate::platform::stack::Tag;
use crate::platform::{Park, Slot, Stopped};
use crate::slab::{Geometry, Put, Version, Word};
use crate::sync::{AtomicUsize, Lock, Ordering};

/// From which slabs a refill takes, and how many objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refill {
    /// A sheaf to the half, from slabs that stay listed while they have free objects, by
    /// whole words of their bitmaps. New slabs only if these had none, or the cache is busy.
    Half,
    /// A whole sheaf, from slabs that leave the list first; what it does not need of the last one
    /// returns to the list's tail. New slabs for the rest (7.x). See [`Slabs::MAY_DETACH`].
    Whole,
    /// A whole sheaf, from [below](FlushTarget::alloc_below), one object at a time (6.18).
    Below,
}

/// What is flushed where spare and barn are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// A piece of the main sheaf, from its top, grouped by bitmap word.
    Piece,
    /// The whole spare sheaf, [down](FlushTarget::free_all_below).
    Spare,
}

/// Which of two full sheaves goes to the barn; the other one is the spare then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It was filled first.
    Spare,
    /// It was filled last: its objects are warm.
    Main,
}

/// Which slabs on the list a slab that became empty counts, before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// All but the slab itself.
    Others,
    /// All: itself, too, if it is listed.
    All,
}

/// The rules of sheaves: where ours and the kernel's differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How a sheaf is refilled.
    pub refill: Refill,
    /// How many objects leave a full stack.
    pub flush: Flush,
    /// True: what a refill puts back counts as a free ([`Refill::Whole`]).
    pub counts_surplus: bool,
    /// What the barn is offered.
    pub offered: Offered,
    /// What `min_partial` is compared with.
    pub counted: Counted,
    /// True: the barn's limit of full sheaves follows use, and larger objects may bypass full
    /// sheaves. False: the limit is fixed.
    pub adapts: bool,
}

impl Rules {
    /// Ours.
    pub const SLABYARD: Rules = Rules {
        refill: Refill::Half,
        flush: Flush::Piece,
        counts_surplus: false,
        offered: Offered::Spare,
        counted: Counted::Others,
        adapts: true,
    };
    /// The kernel's from 7.0 on.
    pub const KERNEL: Rules = Rules {
        refill: Refill::Whole,
        flush: Flush::Spare,
        counts_surplus: true,
        offered: Offered::Main,
        counted: Counted::All,
        adapts: false,
    };
}

/// Objects of one bitmap word, which are to be put into their slab by one operation. Slabs of
/// numbers have no bits: there, the mask has as many bits as there are objects.
#[derive(Clone, Copy)]
pub struct Group {
    /// By its first granule.
    pub slab: u32,
    /// Which 64 objects of the slab they are among.
    pub word: Word,
    /// Their bits.
    pub mask: u64,
}

/// A slab's part of the partial list, under the list's lock.
pub trait Links {
    /// The slab behind it.
    fn next(&self) -> u32;
    /// Changes what is behind it.
    fn set_next(&self, next: u32);
    /// The slab in front of it.
    fn prev(&self) -> u32;
    /// Changes what is in front of it.
    fn set_prev(&self, prev: u32);
    /// True if it is on the list.
    fn is_listed(&self) -> bool;
    /// Says whether it is.
    fn set_listed(&self, is_listed: bool);
    /// True if it is there among the empty ones, of a list that keeps them apart
    /// ([`super::array_cache`]).
    fn is_apart(&self) -> bool {
        false
    }
    /// Says whether it is, where a list does that.
    fn set_apart(&self, _is_apart: bool) {}
}

/// Value of a slab descriptor's `time` while the slab is on the partial list.
const LISTED: u32 = 1;

impl Links for Descriptor {
    #[inline]
    fn next(&self) -> u32 {
        self.next.load(Ordering::Relaxed)
    }

    #[inline]
    fn set_next(&self, next: u32) {
        self.next.store(next, Ordering::Relaxed);
    }

    #[inline]
    fn prev(&self) -> u32 {
        self.prev.load(Ordering::Relaxed)
    }

    #[inline]
    fn set_prev(&self, prev: u32) {
        self.prev.store(prev, Ordering::Relaxed);
    }

    #[inline]
    fn is_listed(&self) -> bool {
        self.time.load(Ordering::Relaxed) == LISTED
    }

    #[inline]
    fn set_listed(&self, is_listed: bool) {
        self.time.store(if is_listed { LISTED } else { 0 }, Ordering::Relaxed);
    }

    #[inline]
    fn is_apart(&self) -> bool {
        self.apart.load(Ordering::Relaxed) != 0
    }

    #[inline]
    fn set_apart(&self, is_apart: bool) {
        self.apart.store(is_apart.into(), Ordering::Relaxed);
    }
}

/// A cache at one node: its header, its rules, and the list of its partial slabs.
#[doc(hidden)] // For `slabyard-fixed` and `slabyard-model`.
pub trait NodeList: Copy {
    /// A slab's part of the list.
    type Links: Links;
    /// Who waits for locks.
    type Park: Park;
    /// The cache: shape, tunables, published words, partial list.
    fn cache(&self) -> &Header;
    /// Its partial slabs: the cache's own list, but where it has several nodes.
    #[inline]
    fn list(&self) -> &Lock<Partial> {
        &self.cache().partial
    }
    /// Publishes the node's list, under its lock.
    #[inline]
    fn publish(&self, list: &Partial) {
        list.publish(self.cache());
    }
    /// The node's published counts, where a cache has several nodes.
    #[inline]
    fn shown_node(&self) -> Option<NodeWords<'_>> {
        None
    }
    /// Who waits for its locks.
    fn park(&self) -> &Self::Park;
    /// The rules of its sheaves.
    fn rules(&self) -> Rules;
    /// Counts what was done.
    fn count(self, counter: Counter, n: u32);
    /// Nanoseconds of a clock, where waiting is to be timed: a model in which waiting takes time
    /// has its own.
    fn clock(self) -> Option<u64> {
        None
    }
    /// Where a slab is linked to its neighbours on the list.
    fn links(&self, slab: u32) -> &Self::Links;
    /// A slab may be needed soon.
    fn fetch_ahead(self, _slab: u32) {}
}

/// Slabs that begin, end, and give and take objects: what the policy of partial lists asks.
#[doc(hidden)] // For `slabyard-fixed` and `slabyard-model`.
pub trait Slabs: NodeList {
    /// A free object in transit.
    type Object: Copy;
    /// Objects of one bitmap word that were taken.
    type Taken: Copy;
    /// True where one call is under way at a time, so that a refill may take slabs off the
    /// list before their objects ([`Refill::Whole`]): on pages, a free that makes such a slab
    /// empty would end it.
    const MAY_DETACH: bool;
    /// Begins a slab whose objects are all free, in no list; `None` without memory. The caller
    /// has the shape at hand, here and below.
    fn begin(self, shape: &Shape) -> Option<u32>;
    /// The slabs of the node that a new slab is of: another one where this node has no memory.
    fn of_slab(self, _slab: u32) -> Self {
        self
    }
    /// The slabs of other nodes, from which a whole refill takes what its own node lacks.
    fn remotes(self) -> impl Iterator<Item = Self> {
        core::iter::empty()
    }
    /// Ends an empty slab that is on no list, under the list's lock.
    fn end(self, shape: &Shape, slab: u32);
    /// Gives the pages of a discarded slab back, under no lock.
    fn give_back(self, shape: &Shape, slab: u32);
    /// As [`Slabs::give_back`], of a slab that no CPU used of late.
    #[inline(always)]
    fn give_back_cold(self, shape: &Shape, slab: u32) {
        self.give_back(shape, slab);
    }
    /// A slab's version and free objects.
    fn free_of(self, slab: u32) -> (Version, u32);
    /// Objects of a slab, free or not: the shape's, but in a slab of a lower order.
    #[inline(always)]
    fn objects_in(self, shape: &Shape, _slab: u32) -> u32 {
        shape.geometry.objects
    }
    /// Takes free objects, up to `most`; with `whole`, whole words alone. `f` gets those of
    /// one word at a time. Returns how many it took, and how many are left. The caller holds
    /// the list's lock, or nobody else knows the slab.
    fn take(
        self,
        shape: &Shape,
        slab: u32,
        most: u32,
        whole: bool,
        f: impl FnMut(Self::Taken),
    ) -> (u32, u32);
    /// Puts objects of one word into their slab by one operation; says which of them were free
    /// already, which the caller [reports](Slabs::report_twice).
    fn put(self, shape: &Shape, group: &Group) -> Put;
    /// Reports objects of a word that were free already: bits of [`Put::twice`]. Under no lock.
    fn report_twice(self, shape: &Shape, slab: u32, word: Word, twice: u64);
    /// Objects were put into a slab: lists it, or ends it, as the engine does.
    fn freed(self, shape: &Shape, slab: u32, put: &Put);
    /// The first of the objects that were taken.
    fn first(taken: Self::Taken) -> Self::Object;
}

/// Slabs below sheaves and arrays: a flush asks which of them the objects lie in.
#[doc(hidden)] // For `slabyard-fixed` and `slabyard-model`.
pub trait FlushTarget: Slabs {
    /// An object as a stack or sheaf holds it.
    type Element;
    /// The object that an element holds.
    fn load(element: &Self::Element) -> Self::Object;
    /// The slab that an object would be in, and the word; `None` if it is in none.
    fn word_of(self, geometry: &Geometry, object: Self::Object) -> Option<(u32, Word)>;
    /// The slab that an object would be in, unchecked, may be needed soon.
    fn fetch_object_ahead(self, _geometry: &Geometry, _object: Self::Object) {}
    /// True if a slab of this cache begins there.
    fn is_slab(self, shape: &Shape, slab: u32) -> bool;
    /// Moves the last objects into a group, as long as they are in its word; returns the others.
    fn group<'e>(
        self,
        shape: &Shape,
        geometry: &Geometry,
        group: &mut Group,
        objects: &'e [Self::Element],
    ) -> &'e [Self::Element];
    /// Reports what is no object of this cache.
    fn report(self, shape: &Shape, object: Self::Object);
    /// Allocates one object from what is below the sheaves.
    fn alloc_below(self) -> Option<Self::Object>;
    /// Frees one object to what is below the sheaves.
    fn free_below(self, object: Self::Object);
    /// Frees all objects of a sheaf to what is below.
    fn free_all_below(self, objects: &[Self::Element]) {
        objects.iter().for_each(|object| self.free_below(Self::load(object)));
    }
}

/// An array of objects that its holder alone reaches.
pub trait Held {
    /// Objects in it.
    fn len(&self) -> u32;
    /// True without objects.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Sheaves that a slow path has out of their stacks, and a barn's lists of them.
#[doc(hidden)] // For `slabyard-fixed` and `slabyard-model`.
pub trait SheafAccess: FlushTarget {
    /// A sheaf out of its stack.
    type Sheaf: Held;
    /// A list of sheaves in a barn.
    type Chain;
    /// An empty sheaf with room for this many objects; `None` without memory.
    fn new_sheaf(self, objects: u32) -> Option<Self::Sheaf>;
    /// Takes an empty sheaf back.
    fn give_sheaf(self, sheaf: Self::Sheaf);
    /// Objects that it has room for.
    fn room(self, sheaf: &Self::Sheaf) -> u32;
    /// Pushes an object; the caller has checked that there is room.
    fn push(self, sheaf: &mut Self::Sheaf, object: Self::Object);
    /// Takes the top object.
    fn pop(self, sheaf: &mut Self::Sheaf) -> Option<Self::Object>;
    /// True if this object is on top: it is free already.
    fn is_top(self, sheaf: &Self::Sheaf, object: Self::Object) -> bool;
    /// Reports an object that was free already.
    fn report_double_free(self, object: Self::Object);
    /// Begins to add what is taken, the last bit of a word first.
    fn filling<'s>(&'s self, sheaf: &'s mut Self::Sheaf) -> impl FnMut(Self::Taken) + 's;
    /// Its elements, the top one last.
    fn elements<'s>(&'s self, sheaf: &'s Self::Sheaf) -> &'s [Self::Element];
    /// Takes this many objects off the top, which the caller has.
    fn shorten(self, sheaf: &mut Self::Sheaf, objects: u32);
    /// Puts a sheaf into a list, under its lock.
    fn link(self, chain: &mut Self::Chain, sheaf: Self::Sheaf);
    /// Takes the sheaf out that was put in last, under its lock.
    fn unlink(self, chain: &mut Self::Chain) -> Option<Self::Sheaf>;
    /// What readers outside find as the list's head.
    fn head(chain: &Self::Chain) -> u32;
    /// Calls `f` with each object in a list's sheaves, under its lock.
    fn each_linked(self, chain: &Self::Chain, f: impl FnMut(Self::Object));
}

/// Slabs, and the stacks of a CPU in front of them: what the policy of sheaves asks.
#[doc(hidden)] // For `slabyard-fixed` and `slabyard-model`.
pub trait Stacks: SheafAccess {
    /// Bytes in all barns.
    fn node_bytes(&self) -> &AtomicUsize;
    /// Most bytes in all barns.
    fn node_limit(self) -> usize;
    /// The tag of this CPU's stacks, where pushes ask for one: they take the objects of its node.
    #[inline]
    fn tag(self) -> Option<Tag> {
        None
    }
    /// A sheaf that was in this CPU's stack; `None` if its objects are of another node, which keeps
    /// them then. (A thread that moves from one CPU to another during a slow path may leave a sheaf
    /// behind that is of its former node.)
    #[inline]
    fn near(self, sheaf: Self::Sheaf) -> Option<Self::Sheaf> {
        Some(sheaf)
    }
    /// An object of another node, if a cache whose node has no free ones may take it.
    #[inline]
    fn alloc_elsewhere(self) -> Option<Self::Object> {
        None
    }
    /// Checks the sheaf out of this CPU's stack.
    ///
    /// # Errors
    /// [`Stopped`] if the stack is stopped, or this thread has none.
    fn check_out(self, slot: Slot) -> Result<Option<Self::Sheaf>, Stopped>;
    /// Checks a sheaf in to this CPU's stack, with room for pushes up to `capacity`. Returns
    /// the one that was found there meanwhile; the same one, if the stack is stopped. Where
    /// pushes ask for a tag, `tag` is the stack's.
    fn check_in(
        self,
        slot: Slot,
        sheaf: Self::Sheaf,
        capacity: u32,
        tag: Option<Tag>,
    ) -> Option<Self::Sheaf>;
    /// Objects in this CPU's spare sheaf, as of a moment ago; `None` without one.
    fn spare_len(self) -> Option<u32>;
    /// True if both sheaves of this CPU have `capacity` objects, as of a moment ago, and this
    /// object is not on top of the main one.
    fn is_full(self, shape: &Shape, capacity: u32, object: Self::Object) -> bool;
}
