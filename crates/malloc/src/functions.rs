//! The functions of C and C++, whose frees push by the plain sequence.

use crate::preload::Preload;

slabyard_process::malloc_functions! {
    Preload,
    push: { slabyard::rseq_push!("rsi") },
    push_sized: { slabyard::rseq_push!("r8") },
}
