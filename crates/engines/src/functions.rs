//! The C and C++ functions. Their frees first check that the object belongs to the stack's slab,
//! because a CPU slab's stack accepts only objects of one slab.

use crate::state::AnyEngine;

slabyard_process::malloc_functions! {
    AnyEngine,
    push: { slabyard::rseq_push_if!("rsi", "eax", "rax", "r8") },
    push_sized: { slabyard::rseq_push_if!("r8", "eax", "rax", "r10") },
}
