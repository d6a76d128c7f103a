//! Computes where a cache's objects are on slabs of another size, under other limits, or on other
//! CPUs.
//!
//! Live objects are conserved; what is not in CPU slabs and on lists fills slabs. Where a snapshot
//! is silent, these assumptions hold. None is fitted to a total, but the last was chosen among a
//! half, three quarters and one; the errors on guests are in [`super::measured`].
//!
//! - The live objects of a CPU slab are from 1 to all, each order of magnitude as likely, and none
//!   are as likely as one: of `n`, `n / (1 + H(n))`, with the harmonic number `H`.
//! - A slab on a CPU's partial list has a tenth of its objects live (3 to 14 % on guests).
//! - Of the slabs on a node's list, one for each CPU was its CPU slab and was used from its start: on
//!   slabs of another size it is half full at most. The others are what is left of full slabs, whose
//!   objects were freed in any order: those without a live object are gone.
//! - CPUs' lists have as many free objects with slabs of another size, and grow with the square root
//!   of a limit that is set, as the load bounds them as well.
//! - CPUs use a cache at random. From the share of CPUs that have a CPU slab follows how often, and
//!   from this, how many of other CPUs would. All CPUs have one: five uses for each. The live
//!   objects of their CPU slabs are theirs: with fewer such CPUs there are fewer.
//! - A node's list that has as many slabs as it may keep empty ones gets three quarters of those that
//!   it may keep in addition.
//! - A CPU with sheaves holds free as many objects as a sheaf has, of each cache that it uses, and
//!   not more than there are. On other CPUs it is three quarters of a sheaf for each CPU: a shrink of
//!   guests of 7.1 freed 0.8 of a sheaf more for each CPU more, as barns do not grow with the CPUs.

/// What CPUs hold objects in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuKeeps {
    /// CPU slabs, and lists of so many slabs at most; `None` without lists.
    Slabs(Option<u32>),
    /// Sheaves of so many objects.
    Sheaves(u32),
    /// A kernel whose calls all go to slabs, as SLUB_TINY.
    Nothing,
}

/// What decides on a cache's slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Objects in a slab.
    pub objects: u32,
    /// In which form CPUs hold free objects.
    pub kept: CpuKeeps,
    /// Slabs below which a node keeps an empty one.
    pub min_partial: u32,
    /// CPUs that run.
    pub cpus: u32,
}

/// Slabs by where they are, and the live objects in those that are not full.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Places {
    /// Objects in a slab.
    pub objects: u32,
    /// Full slabs.
    pub full: f64,
    /// CPU slabs.
    pub cpu: f64,
    /// Live objects in these.
    pub cpu_objects: f64,
    /// Slabs on CPUs' partial lists.
    pub cpu_list: f64,
    /// Live objects in these.
    pub listed_objects: f64,
    /// Slabs with live objects on nodes' lists.
    pub node_list: f64,
    /// Live objects in these.
    pub node_objects: f64,
    /// Empty slabs on nodes' lists.
    pub empty: f64,
    /// CPUs that have sheaves of the cache, which hold that many times their capacity.
    pub sheaf_users: f64,
}

/// Live objects that a CPU slab is assumed to have.
pub(super) fn in_cpu_slab(objects: u32) -> f64 {
    let harmonic: f64 = match objects {
        0..1000 => (1..=objects).map(|nth| 1.0 / f64::from(nth)).sum(),
        _ => f64::from(objects).ln() + 0.577_215_664_9,
    };
    f64::from(objects) / (harmonic + 1.0)
}

/// The share of live objects in a slab of a CPU's list.
pub(super) const LIVE_ON_LISTS: f64 = 0.1;
/// Uses of a cache for each CPU, where all use it.
const USES: f64 = 5.0;
/// The share of a sheaf that is held for each CPU more: barns stay.
const MORE_HELD: f64 = 0.75;
/// Full sheaves that a barn may have.
const BARN: f64 = 10.0;
/// Of the empty slabs that a node may keep in addition, so many are there.
const KEPT: f64 = 0.75;

/// CPUs that use a cache of which `users` of `cpus` have something.
fn users_of(users: f64, cpus: u32, others: u32) -> f64 {
    if cpus == others || users <= 0.0 {
        return users;
    }
    let (cpus, others) = (f64::from(cpus), f64::from(others));
    let uses = match users < cpus {
        true => (1.0 - users / cpus).ln() / (1.0 - 1.0 / cpus).ln(),
        false => USES * cpus,
    };
    others * (1.0 - (1.0 - 1.0 / others).powf(uses))
}

/// Slabs of `to` objects with the same live objects as `slabs` of `from`, which have `live` each.
///
/// Of slabs that were full, each object is live with the same chance, and those without any are
/// gone: the chance `p` follows from the mean of a binomial distribution without its zero,
/// `live = from * p / (1 - (1 - p)^from)`.
fn slabs_of_scattered(live: f64, slabs: f64, from: u32, to: u32) -> f64 {
    let with_any = |p: f64, objects: u32| 1.0 - (1.0 - p).powi(objects as i32);
    let (mut low, mut high) = (1e-6, 1.0);
    for _ in 0..40 {
        let p = f64::midpoint(low, high);
        match f64::from(from) * p / with_any(p, from) < live {
            true => low = p,
            false => high = p,
        }
    }
    live * slabs * with_any(low, to) / (low * f64::from(to))
}

impl Places {
    /// The sum over all places.
    #[must_use]
    pub fn slabs(&self) -> f64 {
        self.full + self.cpu + self.cpu_list + self.node_list + self.empty
    }

    /// Live objects, without those that the sheaves of each user hold.
    #[must_use]
    pub fn live(&self, of_user: f64) -> f64 {
        let full = self.full * f64::from(self.objects);
        let held = self.sheaf_users * of_user;
        (full + self.cpu_objects + self.listed_objects + self.node_objects - held).max(0.0)
    }

    /// The places of the same objects, and `gained` more, from one shape to another.
    #[must_use]
    pub fn laid_out(&self, from: &Shape, to: &Shape, gained: f64) -> Places {
        if from == to && gained == 0.0 {
            return *self;
        }
        let capacity = |shape: &Shape| match (shape.kept, from.kept, to.kept) {
            (CpuKeeps::Sheaves(size), CpuKeeps::Sheaves(_), CpuKeeps::Sheaves(_)) => {
                f64::from(size) * MORE_HELD
            }
            (CpuKeeps::Sheaves(size), ..) => f64::from(size),
            _ => 0.0,
        };
        let mut new = Places { objects: to.objects, ..Places::default() };
        let users_there = match from.kept {
            CpuKeeps::Slabs(_) if matches!(to.kept, CpuKeeps::Sheaves(_)) => {
                self.cpu.max(self.node_list.min(f64::from(from.cpus)))
            }
            CpuKeeps::Slabs(_) => self.cpu,
            _ => self.sheaf_users,
        };
        let users = users_of(users_there, from.cpus, to.cpus);
        let of_users = match from.kept {
            CpuKeeps::Slabs(_) => (users - users_there) * self.in_cpu_slab_of(self.objects),
            _ => 0.0,
        };
        let live = (self.live(capacity(from)) + of_users + gained).max(0.0);
        // Of a cache with few objects, sheaves hold less than they could.
        let could = users_there * capacity(from);
        let held = if could > 0.0 { (self.live(0.0) / could).min(1.0) } else { 1.0 };
        match to.kept {
            CpuKeeps::Slabs(limit) => {
                new.cpu = users;
                new.cpu_objects = users * self.in_cpu_slab_of(to.objects);
                self.lay_out_list(from, to.objects, limit, users, &mut new);
            }
            CpuKeeps::Sheaves(_) => new.sheaf_users = users,
            CpuKeeps::Nothing => {}
        }
        self.lay_out_node(from, to, &mut new);
        let mut parked = users * capacity(to) * held;
        if let (CpuKeeps::Slabs(_), CpuKeeps::Sheaves(capacity)) = (from.kept, to.kept) {
            // Objects that came and went: they filled the barn first.
            let free = (self.cpu_list + self.node_list + self.empty) * f64::from(self.objects);
            parked += free.min(BARN * f64::from(capacity));
        }
        let placed = new.cpu_objects + new.listed_objects + new.node_objects;
        new.full = ((live + parked - placed) / f64::from(to.objects)).max(0.0);
        if new.cpu == 0.0 && new.node_list == 0.0 {
            // What is left over has no other slab.
            new.full = (new.full - 1e-6).ceil().max(0.0);
        }
        new
    }

    /// Live objects of one CPU slab among slabs of so many objects.
    fn in_cpu_slab_of(&self, objects: u32) -> f64 {
        let usual = in_cpu_slab(objects);
        if self.cpu <= 0.0 {
            return usual;
        }
        let now = self.cpu_objects / self.cpu;
        match objects <= self.objects {
            true if objects == self.objects => now,
            true => now.min(usual),
            false => now * usual / in_cpu_slab(self.objects),
        }
    }

    fn lay_out_list(
        &self,
        from: &Shape,
        objects: u32,
        limit: Option<u32>,
        users: f64,
        new: &mut Places,
    ) {
        let (CpuKeeps::Slabs(Some(own)), Some(limit)) = (from.kept, limit) else { return };
        let of_cpus = match self.cpu > 0.0 {
            true => users / self.cpu,
            false => 1.0,
        };
        let ratio = f64::from(self.objects) / f64::from(objects);
        let resized = match objects == self.objects {
            true => f64::from(own),
            false => (f64::from(own) * ratio).ceil(),
        };
        let unset = self.cpu_list * of_cpus.sqrt() * ratio;
        // On average a list is half as long as it may be, and one slab is always on it.
        let length = |slabs: f64| slabs.max(1.0) + 1.0;
        new.cpu_list = unset * (length(f64::from(limit)) / length(resized)).sqrt();
        let share = self.listed_objects / (self.cpu_list * f64::from(self.objects)).max(1.0);
        new.listed_objects = new.cpu_list * share * f64::from(objects);
        // What the lists no longer hold, nodes keep as far as they may.
        new.empty = (unset - new.cpu_list).max(0.0);
    }

    fn lay_out_node(&self, from: &Shape, to: &Shape, new: &mut Places) {
        if matches!(to.kept, CpuKeeps::Sheaves(_)) && matches!(from.kept, CpuKeeps::Slabs(_)) {
            // Refills take whole slabs: one is left that is partly full.
            new.node_list = self.slabs().min(1.0);
            new.node_objects = new.node_list * f64::from(to.objects) / 2.0;
            return;
        }
        // One slab for each CPU: they were CPU slabs.
        let of_cpus = self.node_list.min(f64::from(from.cpus));
        let scattered = self.node_list - of_cpus;
        let of_cpus = match from.kept {
            CpuKeeps::Slabs(_) => users_of(of_cpus, from.cpus, to.cpus),
            _ => of_cpus,
        };
        let objects = self.node_objects / self.node_list.max(1.0);
        let (in_these, in_others) = match to.objects == self.objects {
            true => (objects, scattered),
            false => (
                objects.min(f64::from(to.objects) / 2.0),
                slabs_of_scattered(objects, scattered, self.objects, to.objects),
            ),
        };
        new.node_list = of_cpus + in_others;
        new.node_objects = of_cpus * in_these + scattered * objects;
        let (own, wanted) = (f64::from(from.min_partial), f64::from(to.min_partial));
        let all = self.node_list + self.empty;
        let is_at_limit = self.cpu_list > 0.0 && all >= own - 1.0;
        let kept = match wanted > own {
            true if is_at_limit => self.empty + (wanted - own) * KEPT,
            true => self.empty,
            false => self.empty.min((wanted - 1.0).max(0.0)),
        };
        let room = (wanted - 1.0 - new.node_list - kept).max(0.0);
        new.empty = kept + new.empty.min(room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape =
        Shape { objects: 16, kept: CpuKeeps::Slabs(Some(4)), min_partial: 5, cpus: 4 };

    fn places() -> Places {
        let (cpu_objects, node_objects) = (in_cpu_slab(16) * 4.0, 9.0);
        let (listed_objects, objects) = (6.0 * 1.6, 16);
        let (full, cpu, cpu_list, node_list, empty) = (20.0, 4.0, 6.0, 3.0, 2.0);
        Places {
            objects,
            full,
            cpu,
            cpu_objects,
            cpu_list,
            listed_objects,
            node_list,
            node_objects,
            empty,
            sheaf_users: 0.0,
        }
    }

    #[test]
    fn what_changes_nothing_changes_no_slab() {
        assert_eq!(places().laid_out(&SHAPE, &SHAPE, 0.0), places());
    }

    #[test]
    fn live_objects_are_conserved() {
        let live = places().live(0.0);
        for objects in [2, 8, 16, 64, 512] {
            let to = Shape { objects, ..SHAPE };
            let new = places().laid_out(&SHAPE, &to, 0.0);
            // CPU slabs and lists may be assumed to hold more than there is.
            assert!(new.live(0.0) >= live - 1e-6, "{objects}: {new:?}");
            assert!(new.full == 0.0 || (new.live(0.0) - live).abs() < 1e-6, "{objects}: {new:?}");
        }
        let more = places().laid_out(&SHAPE, &SHAPE, 160.0);
        assert!((more.slabs() - places().slabs() - 10.0).abs() < 1e-9, "{more:?}");
    }

    #[test]
    fn limits_move_slabs_the_way_they_should() {
        let slabs = |to: Shape| places().laid_out(&SHAPE, &to, 0.0).slabs();
        let limit = |slabs| Shape { kept: CpuKeeps::Slabs(Some(slabs)), ..SHAPE };
        assert!(slabs(limit(0)) < slabs(limit(2)) && slabs(limit(2)) < slabs(SHAPE));
        assert!(slabs(limit(40)) > slabs(SHAPE));
        let kept = |min_partial| Shape { min_partial, ..SHAPE };
        assert!(slabs(kept(0)) < slabs(SHAPE) && slabs(kept(30)) > slabs(SHAPE));
    }

    #[test]
    fn more_cpus_use_a_cache_and_never_more_than_there_are() {
        assert!((users_of(1.0, 4, 16) - 1.0).abs() < 0.2);
        assert!(users_of(4.0, 4, 16) > 8.0 && users_of(4.0, 4, 16) < 16.0);
        assert!(users_of(16.0, 16, 4) > 3.9 && users_of(16.0, 16, 4) <= 4.0);
        assert_eq!(users_of(1.0, 1, 1), 1.0);
        assert!(users_of(1.0, 1, 2) > 1.5);
    }
}
