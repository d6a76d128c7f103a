//! What a kernel prints when it finds no free block of the requested order, in the kernel's format.
//!
//! Neighbour: [`super::served`] computes the outcomes. Invariant: the report lacks pages that
//! belong to no slab and that the load did not request; a number that the model does not have is
//! left out.

use super::served::ServedLoads;
use slabyard_lab::small::{FailedBlock, SmallMachine};
use std::fmt::Write;

pub(super) fn of_first(small: SmallMachine, all: &[ServedLoads]) -> String {
    let mut text = String::new();
    for served in all {
        let failed = served
            .outcomes
            .iter()
            .enumerate()
            .find_map(|(nth, it)| it.failed.first().map(|failed| (nth, failed)));
        match failed {
            Some((nth, failed)) => {
                let _ = writeln!(text, "\n{}, load {}:", served.contender.name(), nth + 1);
                text.push_str(&report(small, failed));
            }
            None => {
                let _ = writeln!(text, "\n{}: no request failed", served.contender.name());
            }
        }
    }
    text
}

fn report(small: SmallMachine, failed: &FailedBlock) -> String {
    let look = &failed.look;
    let kb = |pages: u32| u64::from(pages) * u64::from(small.page_size >> 10);
    let mut text = format!(
        "page allocation failure: order:{}, step {}\n\
         \x20slab_reclaimable:{} slab_unreclaimable:{}\n\
         \x20free:{}\n\
         DMA32 free:{}kB present:{}kB managed:{}kB\n\
         DMA32: ",
        failed.order,
        failed.step,
        look.reclaimable,
        look.unreclaimable,
        look.free_pages,
        kb(look.free_pages),
        kb(small.pages),
        kb(small.pages - small.reserved),
    );
    for (order, blocks) in look.free_blocks.iter().enumerate() {
        let _ = write!(text, "{blocks}*{}kB ", kb(1 << order));
    }
    let _ = writeln!(text, "= {}kB", kb(look.free_pages));
    let _ = writeln!(
        text,
        "{:.0} % of what is free lies in blocks below order {}",
        100.0 * look.fragmentation(failed.order),
        failed.order
    );
    text
}
