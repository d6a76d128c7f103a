//! The C and C++ functions. Their frees push without checking the object's slab.

use crate::preload::Preload;

slabyard_process::malloc_functions! {
    Preload,
    takes: each,
}
