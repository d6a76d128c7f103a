//! Sets `object_caches`, by which the sources that this package has in common with
//! `slabyard-malloc` choose what serves object caches, and the name by which programs find the
//! library.
//!
//! Once loaded the library stays, as that of `slabyard-malloc`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=object_caches");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete,-soname,libslabyard.so.0");
}
