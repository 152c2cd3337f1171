//! Compiles the protocol, without protoc. The client side is generic over messages and needs no generated one.

use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo names no OUT_DIR")?);
    compile("proto", &["storage_backend.proto", "health.proto"], &out)?;
    // What tests write a backend from, as somebody else would.
    compile("tests/proto", &["original.proto"], &out.join("original"))
}

fn compile(directory: &str, files: &[&str], out: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={directory}");
    std::fs::create_dir_all(out)?;
    let descriptors = protox::compile(files, [directory])?;
    tonic_prost_build::configure()
        .out_dir(out)
        .build_client(false)
        .build_transport(false)
        .bytes(".")
        // Messages hold values: they must not be shown.
        .skip_debug(["."])
        .compile_fds(descriptors)?;
    Ok(())
}
