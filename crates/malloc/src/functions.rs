//! The C and C++ functions, whose frees use the push without a check of the object's slab.

use crate::preload::Preload;

slabyard_process::malloc_functions! {
    Preload,
    push: { slabyard::rseq_push!("rsi") },
    push_sized: { slabyard::rseq_push!("r8") },
}
