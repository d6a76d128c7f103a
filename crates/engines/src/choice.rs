//! Chooses the engine that serves the process.
//!
//! Neighbours: `slabyard_kernels::settings` defines the options; [`crate::any`] calls this module
//! before the yard is created.

use crate::state::{AnyEngine, YARD};
use slabyard_abi::engines::EngineName;
use slabyard_kernels::OrderRule;
use slabyard_kernels::settings::choices::{NodeCount, PlantedBug, SlubFront};
use slabyard_kernels::settings::{EngineKey, Key};
use slabyard_process::debug;
use slabyard_process::options::Options;
use slabyard_process::say;

/// Chooses the engine, by its options.
pub(crate) fn choose(options: &Options) {
    use slabyard::engine::cpu_slabs::{Front, Rules};
    use slabyard_kernels::PageLists;
    if options.of_engines(EngineKey::Count) == 1 && !YARD.platform().count_slow_paths() {
        say!("SLABYARD_COUNT is not possible here: no memory for the counts");
    }
    let lists = options.of_engines(EngineKey::PageLists);
    let lists = PageLists::of_number(lists).unwrap_or_default();
    let engine = EngineName::of_word(options.get(Key::Engine)).unwrap_or(EngineName::Slub);
    let front = SlubFront::of_number(options.of_engines(EngineKey::Front));
    let front = front.unwrap_or(SlubFront::Sheaves);
    let nodes = NodeCount::of_number(options.of_engines(EngineKey::Nodes));
    let nodes = nodes.unwrap_or(NodeCount::One);
    if debug::is_wanted() {
        match engine {
            EngineName::Slob => {
                say!("SLABYARD_DEBUG is ignored: the engine `slob` has no caches of one size")
            }
            _ => debug::choose::<AnyEngine>(),
        }
    }
    let rule = OrderRule::of_number(options.of_engines(EngineKey::OrderRule)).unwrap_or_default();
    match engine {
        _ if rule == OrderRule::Default => {}
        EngineName::Slub => YARD.choose_orders(order_of(rule)),
        _ => {
            let name = engine.row().name;
            say!("SLABYARD_ORDER_RULE is ignored: the engine `{}` is not `slub`", name);
        }
    }
    let arrays = arrays(options);
    if nodes != NodeCount::One {
        let has_nodes = match engine {
            EngineName::Slub => front == SlubFront::Sheaves,
            EngineName::Slab => true,
            EngineName::Tiny | EngineName::Slob => false,
        };
        if has_nodes {
            if lists != PageLists::default() {
                say!("SLABYARD_PAGE_LISTS is ignored: with several nodes the yard has its own");
            }
            if arrays != Default::default() {
                say!("SLABYARD_RECLAIM and SLABYARD_ARRAYS are ignored with several nodes");
            }
            return choose_nodes(engine, nodes, options);
        }
        match engine {
            EngineName::Slub => say!("SLABYARD_NODES is ignored: CPU slabs have one node"),
            _ => say!("SLABYARD_NODES is ignored: the engine `{}` has one node", engine.row().name),
        }
    }
    slabyard_page_lists::choose(&YARD.heap, lists, options.of_engines(EngineKey::Zone));
    if engine == EngineName::Slab {
        YARD.choose_arrays(arrays);
    } else if arrays != Default::default() {
        let name = engine.row().name;
        say!(
            "SLABYARD_RECLAIM and SLABYARD_ARRAYS are ignored: the engine `{}` is not `slab`",
            name
        );
    }
    match front {
        SlubFront::Sheaves => YARD.choose(engine),
        _ if engine != EngineName::Slub => {
            say!("SLABYARD_FRONT is ignored: the engine `{}` has no front", engine.row().name);
            YARD.choose(engine);
        }
        SlubFront::CpuSlabs => YARD.choose_cpu_slabs(&cpu_slabs(options)),
        SlubFront::Mixed => {
            let rules = Rules { front: Front::SheavesOverCpuSlabs, ..cpu_slabs(options) };
            YARD.choose_cpu_slabs(&rules);
        }
    }
}

/// The order of slabs by the objects' bytes, in granules: by the kernel's formula from 6.7 on, with
/// its highest order by the rule.
fn order_of(rule: OrderRule) -> impl Fn(u32) -> u32 {
    use slabyard::platform::{GRANULE, Memory, PerCpu};
    use slabyard_kernels::orders::{Orders, wanted_objects};
    use slabyard_kernels::{OrderFormula, Release};
    let platform = YARD.platform();
    let page_bytes = platform.page_bytes() as u32;
    let page_order = (page_bytes / GRANULE as u32).ilog2();
    let Release { max_order, order_limit, .. } = Release::V6_18;
    let orders = Orders {
        page_bytes,
        min: 0,
        max: rule.max_order(max_order, page_bytes),
        limit: order_limit,
        wanted: wanted_objects(platform.rows().len() as u32, 4),
    };
    move |size| {
        let order = orders.of(size, OrderFormula::HalfWasted);
        page_order + u32::from(order.expect("the classes' largest objects have 32 KiB"))
    }
}

/// Chooses `slub` with sheaves, or `slab`, with several memory nodes.
fn choose_nodes(engine: EngineName, nodes: NodeCount, options: &Options) {
    use slabyard::engine::nodes::NodeSettings;
    use slabyard_kernels::settings::OF_ENGINE;
    if !YARD.platform().set_nodes(nodes as usize) {
        say!("SLABYARD_NODES is not possible here");
        YARD.choose(engine);
        return;
    }
    let own = if engine == EngineName::Slub { NodeSettings::SLUB } else { NodeSettings::SLAB };
    let remote_percent = match options.of_engines(EngineKey::RemoteNodeDefragRatio) {
        OF_ENGINE => own.remote_percent,
        percent => percent as u32,
    };
    let has_aliens = own.has_aliens && options.of_engines(EngineKey::AlienCache) == 1;
    YARD.caches().choose_on_nodes(engine, NodeSettings { remote_percent, has_aliens });
}

/// The rules of CPU slabs that the options request.
fn cpu_slabs(options: &Options) -> slabyard::engine::cpu_slabs::Rules {
    use slabyard::engine::cpu_slabs::{Planted, Rules};
    use slabyard_kernels::{Accounting, Freezing, Release};
    let option = |key| options.of_engines(key);
    let release = &Release::with_cpu_slabs()[option(EngineKey::Release) as usize];
    let freezing = Freezing::or_release(option(EngineKey::Freezing));
    let freezing = freezing.unwrap_or(release.freezing);
    let accounting = Accounting::or_release(option(EngineKey::Accounting));
    let accounting = accounting.unwrap_or(release.accounting);
    let planted = match PlantedBug::of_number(option(EngineKey::Planted)) {
        Some(PlantedBug::LostSlabs) => Planted::LoseExtraSlabs,
        Some(PlantedBug::None) | None => Planted::None,
    };
    let lists = option(EngineKey::CpuPartialLists) == 1;
    Rules { planted, ..Rules::of_kind(freezing, accounting, lists) }
}

/// The policy of SLAB's free slabs that the options request.
fn arrays(options: &Options) -> slabyard::engine::array_cache::Choice {
    use slabyard::engine::array_cache::Choice;
    use slabyard_kernels::Reclaim;
    let option = |key| options.of_engines(key);
    let reclaim = Reclaim::of_number(option(EngineKey::Reclaim)).unwrap_or_default();
    Choice { reclaim, has_arrays: option(EngineKey::Arrays) == 1 }
}
