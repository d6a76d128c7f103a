//! The slabs of object sizes by a kernel's rules, a row each.
//!
//! Neighbours: `slabyard_lab::geometry` and `slabyard_lab::slab` have SLUB's and SLAB's rules;
//! [`crate::wanted`] says whose hold. Invariant: numbers have the names that the kernel gives them.

use crate::{Error, Listener, Wanted};
use serde::Serialize;
use slabyard_lab::geometry::{self, Geometry};
use slabyard_lab::rules::{Front, Machine, SLAB_REMOVED, Settings, running_kernel, version_of};
use slabyard_lab::slab::{self, Request, Rules};
use slabyard_lab::snapshot::UnknownRules;

/// What a row tells of its slabs, whatever the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slabs {
    /// Bytes of an object, as asked for.
    pub size: u32,
    /// Bytes from one object to the next.
    pub slab_size: u32,
    /// A slab is 2^order pages.
    pub order: u8,
    /// Objects of a slab.
    pub objs_per_slab: u32,
    /// Bytes behind the last object of each slab.
    pub waste: u32,
}

/// One size by SLUB's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SlubRow {
    /// How the objects lie.
    #[serde(flatten)]
    pub slabs: Slabs,
    /// Free objects wanted on a CPU's partial list.
    pub cpu_partial: u32,
    /// Slabs that it may have, where the release counts slabs.
    pub cpu_partial_slabs: Option<u32>,
    /// Empty slabs that a node keeps.
    pub min_partial: u32,
    /// Objects of a sheaf; 0 without sheaves.
    pub sheaf_capacity: u32,
    /// Bytes of a slab that say to whom each object is charged.
    pub obj_ext: u32,
}

/// One size by SLAB's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SlabRow {
    /// How the objects lie.
    #[serde(flatten)]
    pub slabs: Slabs,
    /// Where the numbers of a slab's free objects are.
    pub index: &'static str,
    /// Offsets at which a slab's first object may be.
    pub colours: u32,
    /// Bytes between them.
    pub colour_offset: u32,
    /// Objects that a CPU's array may hold.
    pub limit: u32,
    /// Objects moved into a CPU's array, or out of it, at once.
    pub batchcount: u32,
    /// Batches that the node's shared array may hold.
    pub sharedfactor: u32,
    /// Free objects that a node keeps.
    pub free_limit: u32,
}

/// The rules of a version that is known, without keys that change no geometry; and what to tell people
/// of the version.
///
/// # Errors
/// [`Error::Usage`]: as [`Wanted::settings`], or no version is known.
pub fn settings(
    wanted: &Wanted,
    version: Option<&str>,
    machine: Machine,
    boot: impl FnOnce(&mut Settings) -> Result<(), UnknownRules>,
) -> Result<(Settings, Option<String>), Error> {
    let unknown = || Error::Usage("the kernel's version is not known; give --release".into());
    let (settings, note) = wanted.settings(version.ok_or_else(unknown)?, machine, boot)?;
    match settings.typed_of_calls() {
        None => Ok((settings, note)),
        Some(key) => Err(Error::Usage(format!(
            "{key} changes no geometry, but what calls do; it is for `slabyard replay --set`"
        ))),
    }
}

/// The slabs of each size by SLUB's rules, on this machine unless another one is wanted; without sizes
/// those of the kmalloc caches.
///
/// # Errors
/// [`Error::Usage`]: settings that cannot be, or a size without slabs.
pub fn slub(
    wanted: &Wanted,
    sizes: &[u32],
    listener: &dyn Listener,
) -> Result<(Settings, Vec<SlubRow>), Error> {
    let version = wanted.release.clone().or_else(running_kernel);
    let machine = wanted.on(Machine::here());
    let (settings, note) = settings(wanted, version.as_deref(), machine, |_| Ok(()))?;
    if settings.is_typed("sheaf_capacity") && settings.front() == Front::SheavesOnRequest {
        let text = "sheaf_capacity changes nothing here: only caches that request sheaves have them \
                    before 7.0, and a size requests nothing; name a snapshot with --against, or a \
                    release from 7.0 on";
        return Err(Error::Usage(text.into()));
    }
    note.iter().for_each(|note| listener.say(note));
    let classes = geometry::kmalloc_sizes(settings.machine.page_size);
    let sizes = if sizes.is_empty() { &classes[..] } else { sizes };
    let rows =
        sizes.iter().map(|size| slub_row(*size, &settings)).collect::<Result<Vec<_>, _>>()?;
    Ok((settings, rows))
}

fn slub_row(size: u32, settings: &Settings) -> Result<SlubRow, Error> {
    // Objects begin at multiples of a word.
    let slab_size = size.checked_next_multiple_of(8).unwrap_or(size);
    let found = geometry::of(slab_size, settings).map_err(Error::usage)?;
    let Geometry { order, objects, waste, cpu_partial, cpu_partial_slabs, .. } = found;
    let Geometry { min_partial, sheaf_capacity, .. } = found;
    Ok(SlubRow {
        slabs: Slabs { size, slab_size, order, objs_per_slab: objects, waste },
        cpu_partial,
        cpu_partial_slabs,
        min_partial,
        sheaf_capacity,
        obj_ext: found.obj_ext(settings),
    })
}

/// As [`slub`], by SLAB's rules and of the release that is wanted, else of the last one that had SLAB.
///
/// # Errors
/// As [`slub`].
pub fn slab(wanted: &Wanted, sizes: &[u32]) -> Result<(Rules, Vec<SlabRow>), Error> {
    let release = wanted.release.as_deref().unwrap_or(slab::last_release().name);
    match version_of(release) {
        None => return Err(Error::Usage(format!("{release} is no version; such as 6.1"))),
        Some(version) if version >= SLAB_REMOVED => {
            return Err(Error::Usage(format!("SLAB was removed in 6.8; {release} has SLUB alone")));
        }
        Some(_) => {}
    }
    let machine = wanted.on(Machine::here());
    let mut rules = Rules::of(&machine);
    for setting in &wanted.set {
        let order = setting.strip_prefix("max_order=").and_then(|n| n.parse().ok());
        let order = order.filter(|order| *order <= 10).ok_or_else(|| {
            Error::Usage(format!("`{setting}`: of SLAB, --set takes max_order, from 0 to 10"))
        })?;
        rules.max_order = order;
    }
    let classes = slab::kmalloc_sizes(machine.page_size);
    let sizes = if sizes.is_empty() { &classes[..] } else { sizes };
    let rows = sizes.iter().map(|size| slab_row(*size, &rules)).collect::<Result<Vec<_>, _>>()?;
    Ok((rules, rows))
}

fn slab_row(size: u32, rules: &Rules) -> Result<SlabRow, Error> {
    let found = slab::of(&Request::of(size), rules).map_err(Error::usage)?;
    let slab::Geometry { order, objects, waste, index, colours, colour_offset, .. } = found;
    Ok(SlabRow {
        slabs: Slabs { size, slab_size: found.size, order, objs_per_slab: objects, waste },
        index: index.name(),
        colours,
        colour_offset,
        limit: found.limits.limit,
        batchcount: found.limits.batchcount,
        sharedfactor: found.limits.sharedfactor,
        free_limit: found.free_limit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    fn wanted(release: &str, set: &[&str]) -> Wanted {
        Wanted {
            release: Some(release.into()),
            page_size: Some(65536),
            cpus: Some(64),
            set: set.iter().map(|text| (*text).into()).collect(),
            ..Wanted::default()
        }
    }

    #[test]
    fn rows_are_those_of_the_thread_about_64_kib_pages() {
        for (max_order, objects, order) in [("3", 53, 3), ("2", 26, 2), ("1", 13, 1)] {
            let wanted = wanted("5.9", &[&format!("max_order={max_order}")]);
            let (_, rows) = slub(&wanted, &[9856], &Silent).expect("a row");
            let slabs = rows[0].slabs;
            assert_eq!((slabs.objs_per_slab, slabs.order), (objects, order));
        }
        let (_, rows) = slab(&wanted("6.1", &[]), &[192]).expect("a row");
        assert_eq!(rows[0].slabs.slab_size, 192);
    }

    #[test]
    fn what_changes_no_geometry_is_refused() {
        let usage = |wanted: &Wanted| match slub(wanted, &[192], &Silent) {
            Err(Error::Usage(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(usage(&wanted("6.12", &["freezing=eager"])).contains("changes no geometry"));
        assert!(usage(&wanted("6.18", &["sheaf_capacity=8"])).contains("only caches that request"));
        let error = slab(&wanted("6.8", &[]), &[]).expect_err("no SLAB").to_string();
        assert!(error.contains("SLAB was removed in 6.8"), "{error}");
        let error = slab(&wanted("6.1", &["cpu_partial=1"]), &[]).expect_err("a key").to_string();
        assert!(error.contains("--set takes max_order"), "{error}");
    }
}
