//! Of what the bytes from one object of a kernel's cache to the next consist, by the cache's flags.
//!
//! SLUB adds to an object, in this order: a round to a word, a red zone behind it, a word for the free
//! pointer where it may not lie in the object, two tracks and the size that was asked for, KASAN's
//! metadata, a red zone before it, and a round to the alignment (the kernel's
//! `Documentation/mm/slub.rst` shows them in its reports).
//!
//! Neighbours: [`crate::kernel`] reads the flags from sysfs; `slabyard geometry --explain` prints the
//! parts. Invariant: the parts add up to the cache's `slab_size`.

use crate::release::Release;
use crate::snapshot::{Cache, Snapshot};
use crate::value::Value;
use serde::Serialize;
use thiserror::Error;

const WORD: u64 = 8;
/// A track since 5.19: an address, a handle of the stack, a CPU, a process and a time.
const TRACK: u64 = 32;
/// A track before, which had the stack's 16 addresses inside.
const OLD_TRACK: u64 = 152;

/// What some bytes of a stride are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StridePart {
    /// Before the object, as long as the alignment asks for.
    LeftRedZone,
    /// What the cache was created for.
    Object,
    /// To the next word.
    Word,
    /// Behind the object, or behind the round to a word.
    RightRedZone,
    /// Of a free object, outside of it.
    FreePointer,
    /// Who allocated and who freed the object.
    Tracks,
    /// The size that `kmalloc` was called with.
    RequestedSize,
    /// What no flag explains.
    Unexplained,
    /// A word that is checked, behind all that.
    Padding,
    /// To the next multiple of the alignment.
    Alignment,
}

impl StridePart {
    /// What it is, and what asks for it.
    #[must_use]
    pub fn help(self) -> &'static str {
        match self {
            StridePart::LeftRedZone => {
                "red zone before the object, as long as its alignment (slab_debug Z)"
            }
            StridePart::Object => "the object",
            StridePart::Word => "to the next word",
            StridePart::RightRedZone => "red zone behind the object (slab_debug Z)",
            StridePart::FreePointer => {
                "free pointer behind the object (poison, constructor, RCU readers)"
            }
            StridePart::Tracks => "who allocated and who freed it (slab_debug U)",
            StridePart::RequestedSize => "the size that kmalloc was called with (slab_debug U)",
            StridePart::Unexplained => "what no flag in sysfs explains, such as metadata of KASAN",
            StridePart::Padding => "padding that is checked (slab_debug Z)",
            StridePart::Alignment => "to the next multiple of the alignment",
        }
    }
}

/// The bytes from one object to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In the order of their addresses, none of 0 bytes.
    pub parts: Vec<(StridePart, u64)>,
    /// What objects and their parts are aligned to.
    pub align: u64,
    /// The stride without `slab_debug`.
    pub without_debugging: u64,
}

/// Why a stride is not taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The snapshot lacks a number of the cache, or it is none that a kernel has.
    #[error("its {0} is not known, or none that a kernel has; flags are in /sys/kernel/slab alone")]
    Unknown(&'static str),
    /// The kernel lays its objects out by other rules.
    #[error("its flags ask for {parts} bytes an object, and its objects are {stride} apart")]
    Short {
        /// Bytes of the parts, without a round to the alignment.
        parts: u64,
        /// Bytes from one object to the next.
        stride: u64,
    },
}

/// A cache's layout.
///
/// # Errors
/// The snapshot lacks its sizes or flags, or they contradict each other.
pub fn of(snapshot: &Snapshot, cache: &Cache) -> Result<Layout, Error> {
    let known = |name| cache.exact(name).ok_or(Error::Unknown(name));
    // Sizes are an `unsigned int` in the kernel.
    let bytes = |name| u32::try_from(known(name)?).map_err(|_| Error::Unknown(name)).map(u64::from);
    let is = |name| known(name).map(|value| value != 0);
    let size = bytes("object_size")?;
    let flags = Flags {
        size,
        align: bytes("align").unwrap_or(WORD).max(WORD),
        red_zone: is("red_zone")?,
        poison: is("poison")?,
        tracks: is("store_user")?,
        has_constructor: matches!(cache.value("ctor"), Some(Value::Text(name)) if !name.is_empty()),
        for_readers: is("destroy_by_rcu").unwrap_or(false),
        is_kmalloc: cache.names().any(|name| name.contains("kmalloc-")),
        release: snapshot.source.release.as_deref().and_then(Release::parse),
    };
    let stride = bytes("slab_size")?;
    // Since 6.12 a cache may name a field of its objects for the free pointer, which sysfs hides. Where
    // the alignment would take as much without a pointer, that is what the bytes are for.
    let inside = if flags.since(6, 12) {
        Flags { has_constructor: false, for_readers: false, ..flags }
    } else {
        flags
    };
    let fits = |flags: &Flags| sum(&flags.parts()) == stride;
    let fitting = [inside, flags].into_iter().find(fits).unwrap_or(inside);
    let mut parts = fitting.parts();
    if !fits(&fitting) {
        parts.retain(|(part, _)| *part != StridePart::Alignment);
        let short = Error::Short { parts: sum(&parts), stride };
        let rest = stride.checked_sub(sum(&parts)).ok_or(short)?;
        let alignment = rest % flags.align;
        let at = parts.iter().position(|(part, _)| *part == StridePart::Padding);
        parts.insert(at.unwrap_or(parts.len()), (StridePart::Unexplained, rest - alignment));
        parts.push((StridePart::Alignment, alignment));
    }
    parts.retain(|(_, bytes)| *bytes > 0);
    // Poison takes a word for the pointer in any case, and hides where it is without.
    let pointer = if flags.poison { flags } else { fitting };
    let plain = Flags { red_zone: false, poison: false, tracks: false, ..pointer };
    let without_debugging =
        if flags.is_debugged() { sum(&plain.parts()).min(stride) } else { stride };
    Ok(Layout { parts, align: flags.align, without_debugging })
}

fn sum(parts: &[(StridePart, u64)]) -> u64 {
    parts.iter().map(|(_, bytes)| bytes).sum()
}

/// What decides of a layout.
#[derive(Clone, Copy)]
struct Flags {
    size: u64,
    align: u64,
    red_zone: bool,
    poison: bool,
    tracks: bool,
    has_constructor: bool,
    for_readers: bool,
    is_kmalloc: bool,
    release: Option<Release>,
}

impl Flags {
    fn is_debugged(self) -> bool {
        self.red_zone || self.poison || self.tracks
    }

    /// True if its kernel is as new, or not known.
    fn since(self, major: u32, minor: u32) -> bool {
        self.release.is_none_or(|it| it.is_at_least(major, minor))
    }

    fn parts(self) -> Vec<(StridePart, u64)> {
        let since = |major, minor| self.since(major, minor);
        let if_so = |so: bool, bytes: u64| if so { bytes } else { 0 };
        let word = self.size.next_multiple_of(WORD) - self.size;
        // The size that was asked for is kept since 6.1, and is a word since 6.19.
        let keeps_size = self.tracks && self.is_kmalloc && since(6, 1);
        let outside = self.poison
            || self.has_constructor
            || self.for_readers
            || (self.red_zone && (self.size < WORD || (keeps_size && since(6, 2))));
        let track = if since(5, 19) { TRACK } else { OLD_TRACK };
        let mut parts = vec![
            (StridePart::LeftRedZone, if_so(self.red_zone, WORD.next_multiple_of(self.align))),
            (StridePart::Object, self.size),
            (StridePart::Word, word),
            (StridePart::RightRedZone, if_so(self.red_zone && word == 0, WORD)),
            (StridePart::FreePointer, if_so(outside, WORD)),
            (StridePart::Tracks, if_so(self.tracks, 2 * track)),
            (StridePart::RequestedSize, if_so(keeps_size, if since(6, 19) { WORD } else { 4 })),
            (StridePart::Padding, if_so(self.red_zone, WORD)),
        ];
        let sum = sum(&parts);
        parts.push((StridePart::Alignment, sum.next_multiple_of(self.align) - sum));
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Source, SourceKind};

    /// A cache as its kernel's files tell it: `name object_size slab_size align` and flags.
    fn explained(release: &str, line: &str) -> Result<Layout, Error> {
        let mut words = line.split(' ');
        let mut cache = Cache::new(words.next().unwrap());
        for name in ["object_size", "slab_size", "align"] {
            cache.set(name, words.next().unwrap().parse::<u64>().unwrap());
        }
        let flags: Vec<&str> = words.collect();
        for name in ["red_zone", "poison", "store_user", "destroy_by_rcu"] {
            cache.set(name, u64::from(flags.contains(&name)));
        }
        let constructor = if flags.contains(&"ctor") { "init_once+0x0/0x50" } else { "" };
        cache.set("ctor", Value::Text(constructor.into()));
        let mut snapshot = Snapshot::new(Source::of(SourceKind::Kernel));
        snapshot.source.release = Some(release.into());
        of(&snapshot, &cache)
    }

    fn layout_of(release: &str, line: &str) -> Layout {
        explained(release, line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    #[test]
    fn a_debugged_kmalloc_takes_three_times_its_size() {
        let layout = layout_of("6.18.15", "kmalloc-1k 1024 3072 1024 red_zone poison store_user");
        assert_eq!(
            layout.parts,
            [
                (StridePart::LeftRedZone, 1024),
                (StridePart::Object, 1024),
                (StridePart::RightRedZone, 8),
                (StridePart::FreePointer, 8),
                (StridePart::Tracks, 64),
                (StridePart::RequestedSize, 4),
                (StridePart::Padding, 8),
                (StridePart::Alignment, 932),
            ]
        );
        assert_eq!(layout.without_debugging, 1024);
    }

    #[test]
    fn a_plain_cache_is_its_object_and_its_alignment() {
        let layout = layout_of("6.18", "dentry 192 192 8");
        assert_eq!(
            (layout.parts, layout.without_debugging),
            (vec![(StridePart::Object, 192)], 192)
        );
        let filp = layout_of("6.18", "filp 184 192 64 destroy_by_rcu");
        assert_eq!(filp.parts, [(StridePart::Object, 184), (StridePart::Alignment, 8)]);
        let mutexes = layout_of("6.1", "inode_cache 600 608 8 ctor");
        assert_eq!(mutexes.parts, [(StridePart::Object, 600), (StridePart::FreePointer, 8)]);
        let before_fields = layout_of("6.1", "filp 184 192 64 destroy_by_rcu");
        assert_eq!(before_fields.parts, [(StridePart::Object, 184), (StridePart::FreePointer, 8)]);
        // It names a field of its objects for the pointer.
        let names_field = layout_of("6.18", "filp 192 192 64 destroy_by_rcu");
        assert_eq!(names_field.parts, [(StridePart::Object, 192)]);
        let debugged = layout_of("6.12", "filp 192 384 64 destroy_by_rcu red_zone store_user");
        assert_eq!(debugged.without_debugging, 192);
    }

    #[test]
    fn what_no_flag_explains_is_said() {
        let kasan = layout_of("6.18", "kmalloc-64 64 128 64");
        assert_eq!(kasan.parts, [(StridePart::Object, 64), (StridePart::Unexplained, 64)]);
        let more = layout_of("6.18", "task_struct 4160 4288 64");
        assert_eq!(more.parts, [(StridePart::Object, 4160), (StridePart::Unexplained, 128)]);
    }

    #[test]
    fn a_stride_below_its_parts_and_numbers_of_no_kernel_are_errors() {
        let short = explained("6.18", "kmalloc-64 64 72 8 red_zone");
        assert_eq!(short, Err(Error::Short { parts: 88, stride: 72 }));
        let large = explained("6.18", "kmalloc-64 18446744073709551615 72 8");
        assert_eq!(large, Err(Error::Unknown("object_size")));
    }

    /// Caches of kernels that were booted with other `slab_debug`, as their sysfs tells them.
    #[test]
    fn the_flags_explain_every_byte_of_booted_kernels() {
        let mut release = "";
        let mut kernels = std::collections::BTreeMap::new();
        for line in include_str!("../tests/strides.txt").lines() {
            match line.strip_prefix("# ") {
                Some(kernel) => release = kernel,
                None => {
                    let parts = layout_of(release.split(' ').next().unwrap(), line).parts;
                    let is_whole = parts.iter().all(|(part, _)| *part != StridePart::Unexplained);
                    assert!(is_whole, "{release}: {line}: {parts:?}");
                    *kernels.entry(release).or_insert(0) += 1;
                }
            }
        }
        assert!(kernels.len() == 6 && kernels.values().all(|caches| *caches >= 20), "{kernels:?}");
    }
}
