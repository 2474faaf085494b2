//! Compiles the protocol without a protoc binary.

use std::error::Error;

const PROTOS: [&str; 2] =
    ["tenure/meet/signaling/v1/signaling.proto", "tenure/meet/internal/v1/internal.proto"];
const ROOT: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    for proto in PROTOS {
        println!("cargo::rerun-if-changed={ROOT}/{proto}");
    }
    let files = protox::compile(PROTOS, [ROOT])?;
    tonic_prost_build::configure().bytes(".").compile_fds(files)?;
    Ok(())
}
