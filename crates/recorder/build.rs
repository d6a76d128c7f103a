//! Once loaded the library stays: threads may be in its sequences, and the C library keeps the
//! addresses of its handlers (fork, a thread's end). `dlclose` must not unmap it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
