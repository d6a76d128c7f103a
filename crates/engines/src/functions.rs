//! The C and C++ functions. Their frees first check that the object belongs to the stack's slab,
//! because a CPU slab's stack accepts only objects of one slab.

use crate::state::AnyEngine;

slabyard_process::malloc_functions! {
    AnyEngine,
    takes: tagged,
}
