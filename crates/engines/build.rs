//! Sets `any_engine`, by which the shared sources choose the enum of all engines. A package
//! sets it and no feature does: a build of the whole workspace would unify features, and put
//! every engine into the preload library as well.
//!
//! Once loaded the library stays, as that of `slabyard-malloc`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=any_engine");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
