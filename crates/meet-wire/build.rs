//! Compiles the protocol without a protoc binary.

use std::error::Error;

const PROTOS: [&str; 2] =
    ["tenure/meet/signaling/v1/signaling.proto", "tenure/meet/internal/v1/internal.proto"];
const MEDIA: &str = "tenure/meet/media/v1/media.proto";
const ROOT: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    for proto in PROTOS.iter().chain([&MEDIA]) {
        println!("cargo::rerun-if-changed={ROOT}/{proto}");
    }
    // A call that a server does not implement answers UNIMPLEMENTED.
    tonic_prost_build::configure()
        .bytes(".")
        .generate_default_stubs(true)
        .compile_fds(protox::compile(PROTOS, [ROOT])?)?;
    // Media uses messages of signaling. Their package does not nest like our modules, so their path is given.
    tonic_prost_build::configure()
        .bytes(".")
        .extern_path(".tenure.meet.signaling.v1", "crate::signaling")
        .compile_fds(protox::compile([MEDIA], [ROOT])?)?;
    Ok(())
}
