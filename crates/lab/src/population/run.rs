//! Lays out all caches of a population under given settings.

use super::layout::{CpuKeeps, Places, Shape};
use super::{CachePopulation, Population};
use crate::geometry::{self, Geometry, SHEAF_HEADER, SizeError};
use crate::rules::{Accounting, Front, Machine, Settings};
use std::collections::BTreeMap;

/// What a population takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Of all caches together.
    pub slab_kb: u64,
    /// In the order of the snapshot.
    pub caches: Vec<CacheOutcome>,
}

/// What a cache takes.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheOutcome {
    /// Its name in sysfs.
    pub id: String,
    /// Its slabs have 2^order pages.
    pub order: u8,
    /// Objects in a slab.
    pub objects: u32,
    /// How many there are, in all places.
    pub slabs: u64,
    /// Its share of [`Outcome::slab_kb`].
    pub slab_kb: u64,
    /// Where its slabs are.
    pub places: Places,
}

impl Population {
    /// Lays the population out on the machine and by the rules of `settings`, which are
    /// [valid](Settings::validate).
    ///
    /// # Errors
    /// A cache whose size has no geometry there.
    pub fn on(&self, settings: &Settings) -> Result<Outcome, SizeError> {
        let sheaves = self.sheaves_of(settings)?;
        let mut caches = Vec::new();
        for cache in &self.caches {
            let own = geometry::of_cache(&cache.request, &self.own)?;
            let new = geometry::of_cache(&cache.request, settings)?;
            let (from, to) =
                (cache.shape(&self.own, &own, None), cache.shape(settings, &new, Some(&own)));
            let gained = cache.gained(&self.own.machine, &settings.machine)
                + sheaves.get(&cache.id).copied().unwrap_or(0.0);
            let order = cache.order_on(&own, &new);
            let places = cache.places.laid_out(&from, &to, gained);
            let slabs = places.slabs().round() as u64;
            let slab_kb = (slabs * (u64::from(settings.machine.page_size) << order)) >> 10;
            let (id, objects) = (cache.id.clone(), places.objects);
            caches.push(CacheOutcome { id, order, objects, slabs, slab_kb, places });
        }
        Ok(Outcome { slab_kb: caches.iter().map(|cache| cache.slab_kb).sum(), caches })
    }

    /// Objects that the main sheaves of all caches are, one for each possible CPU, of each size
    /// class: how many more there are.
    fn sheaves_of(&self, settings: &Settings) -> Result<BTreeMap<String, f64>, SizeError> {
        let mut of_class = BTreeMap::new();
        for (settings, sign) in [(&self.own, -1.0), (settings, 1.0)] {
            if settings.front() != Front::Sheaves {
                continue;
            }
            for cache in &self.caches {
                let capacity = geometry::of_cache(&cache.request, settings)?.sheaf_capacity;
                if capacity > 0 {
                    let class = (SHEAF_HEADER + 8 * capacity).next_power_of_two();
                    let objects = of_class.entry(format!("kmalloc-{class}")).or_insert(0.0);
                    *objects += sign * f64::from(settings.machine.possible_cpus);
                }
            }
        }
        Ok(of_class)
    }
}

/// What was set in the snapshot's kernel stays, where the variant does not change the rule.
fn told_or_new(told: Option<u32>, own: u32, new: u32) -> u32 {
    if own == new { told.unwrap_or(new) } else { new }
}

impl CachePopulation {
    /// The shape by a geometry; that of the snapshot itself if there is no `own` one to differ from.
    fn shape(&self, settings: &Settings, geometry: &Geometry, own: Option<&Geometry>) -> Shape {
        let own = own.unwrap_or(geometry);
        let same = own.objects == geometry.objects && own.order == geometry.order;
        let objects = if same { self.places.objects } else { geometry.objects };
        let cpu_partial = told_or_new(self.cpu_partial, own.cpu_partial, geometry.cpu_partial);
        let list = match settings.accounting() {
            Accounting::Slabs => (2 * cpu_partial).div_ceil(objects),
            // Most slabs on lists are nearly empty.
            Accounting::Exact => cpu_partial.div_ceil(objects),
            Accounting::Objects => cpu_partial,
        };
        let kept = match settings.front() {
            _ if settings.tiny || self.request.debug => CpuKeeps::Nothing,
            Front::Sheaves if geometry.sheaf_capacity == 0 => CpuKeeps::Nothing,
            Front::Sheaves => CpuKeeps::Sheaves(geometry.sheaf_capacity),
            _ => CpuKeeps::Slabs(settings.has_cpu_partial_lists().then_some(list)),
        };
        let min_partial = told_or_new(self.min_partial, own.min_partial, geometry.min_partial);
        Shape { objects, kept, min_partial, cpus: settings.machine.online_cpus.max(1) }
    }

    /// The order of its slabs: the snapshot's, where the variant has the order of the own rules.
    fn order_on(&self, own: &Geometry, new: &Geometry) -> u8 {
        let same = own.objects == new.objects && own.order == new.order;
        if same { self.order } else { new.order }
    }

    /// Objects that the kernel has in addition on a machine with other CPUs.
    fn gained(&self, own: &Machine, new: &Machine) -> f64 {
        let more = |new: u32, own: u32| f64::from(new) - f64::from(own);
        self.for_present * more(new.present_cpus, own.present_cpus)
            + self.for_possible * more(new.possible_cpus, own.possible_cpus)
    }
}
