//! Compiles the protocol without a protoc binary.

use std::error::Error;

const PROTO: &str = "tenure/lease/v1/lease.proto";
const ROOT: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}/{PROTO}");
    let files = protox::compile([PROTO], [ROOT])?;
    tonic_prost_build::configure().bytes(".").compile_fds(files)?;
    Ok(())
}
