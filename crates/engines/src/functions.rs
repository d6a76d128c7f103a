//! The functions of C and C++, whose frees ask first whether the object is of the stack's slab:
//! some engines' stacks take the objects of one.

use crate::state::AnyEngine;

slabyard_process::malloc_functions! {
    AnyEngine,
    push: { slabyard::rseq_push_if!("rsi", "eax", "rax", "r8") },
    push_sized: { slabyard::rseq_push_if!("r8", "eax", "rax", "r10") },
}
