//! Passes the linker the script that says where an image is in its machine's memory.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=image.ld");
    println!("cargo::rerun-if-changed=pc.ld");
    // Which engine the smallest example has, for its size.
    println!("cargo::rerun-if-env-changed=YARD_ENGINE");
    println!("cargo::rustc-check-cfg=cfg(engine, values(any()))");
    if let Ok(engine) = var("YARD_ENGINE") {
        println!("cargo::rustc-cfg=engine=\"{engine}\"");
    }
    if var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return;
    }
    let root = var("CARGO_MANIFEST_DIR").expect("cargo says it");
    let is_pc = var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64");
    let script = if is_pc { "pc.ld" } else { "image.ld" };
    for kind in ["bins", "examples"] {
        println!("cargo::rustc-link-arg-{kind}=-T{root}/{script}");
        if is_pc {
            println!("cargo::rustc-link-arg-{kind}=--no-pie");
        }
    }
}
