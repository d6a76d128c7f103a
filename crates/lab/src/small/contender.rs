//! The allocators that are compared on small machines, with their settings.
//!
//! [`super::kernel`] creates caches by these settings.

/// An allocator and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// `mm/slob.c`.
    Slob,
    /// `mm/slab.c`; of machines above 32 MiB slabs may be of order 1, else of 0.
    Slab {
        /// The kernel's parameter `slab_max_order`.
        max_order: u8,
    },
    /// `mm/slub.c`.
    Slub {
        /// The kernel's parameter `slub_max_order`.
        max_order: u8,
        /// What a node keeps: the kernel's, or no empty slab.
        empties: Empties,
        /// Lists of partial slabs on CPUs (`CONFIG_SLUB_CPU_PARTIAL`).
        lists: Lists,
    },
    /// SLUB_TINY.
    Tiny {
        /// `slub_max_order`.
        max_order: u8,
    },
}

/// Empty slabs of a node's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empties {
    /// As many as the kernel keeps (`min_partial`).
    Kept,
    /// None.
    Ended,
}

/// Lists of partial slabs on CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// `CONFIG_SLUB_CPU_PARTIAL=y`.
    OnCpus,
    /// None has.
    Off,
}

impl Contender {
    /// Those of the thread's tables, by order: SLOB, SLAB, SLUB as it is, without empty slabs,
    /// with lists on CPUs, and SLUB_TINY, each with the highest orders 0 to 3.
    #[must_use]
    pub fn all() -> Vec<Contender> {
        let mut all = vec![Contender::Slob, Contender::Slab { max_order: 0 }];
        let orders = || (0..4).rev();
        let slub = |empties, lists| {
            orders().map(move |max_order| Contender::Slub { max_order, empties, lists })
        };
        all.extend(slub(Empties::Kept, Lists::Off));
        all.extend(slub(Empties::Ended, Lists::Off));
        all.extend(slub(Empties::Kept, Lists::OnCpus));
        all.extend(orders().map(|max_order| Contender::Tiny { max_order }));
        all
    }

    /// As tables name it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Contender::Slob => "slob".into(),
            Contender::Slab { max_order } => format!("slab max_order={max_order}"),
            Contender::Slub { max_order, empties, lists } => {
                let empties = if *empties == Empties::Ended { " min_partial=0" } else { "" };
                let lists = if *lists == Lists::OnCpus { " cpu_partial" } else { "" };
                format!("slub max_order={max_order}{empties}{lists}")
            }
            Contender::Tiny { max_order } => format!("tiny max_order={max_order}"),
        }
    }
}
