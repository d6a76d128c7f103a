//! Once loaded, the library must stay mapped: threads may be in its restartable sequences (rseq),
//! and the C library keeps the addresses of its handlers (fork, a thread's end). So `dlclose` must
//! not unmap it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
