//! Sets the soname by which programs find the library.
//!
//! Once loaded, the library must stay mapped, like that of `slabyard-malloc`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete,-soname,libslabyard.so.0");
}
