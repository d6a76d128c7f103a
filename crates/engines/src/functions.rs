//! The functions of C and C++, whose frees first ask whether the object belongs to the stack's
//! slab, because a CPU slab's stack takes objects of one slab alone.

use crate::state::AnyEngine;

slabyard_process::malloc_functions! {
    AnyEngine,
    push: { slabyard::rseq_push_if!("rsi", "eax", "rax", "r8") },
    push_sized: { slabyard::rseq_push_if!("r8", "eax", "rax", "r10") },
}
