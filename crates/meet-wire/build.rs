//! Compiles the protocol without a protoc binary.

use std::error::Error;

const PROTOS: [&str; 2] =
    ["tenure/meet/signaling/v1/signaling.proto", "tenure/meet/internal/v1/internal.proto"];
const MEDIA: &str = "tenure/meet/media/v1/media.proto";
const RELAY: &str = "tenure/meet/relay/v1/relay.proto";
const ROOT: &str = "../../proto";

/// Messages with secrets. `redacted.rs` has their debug output.
const SECRET: [&str; 9] = [
    ".tenure.meet.signaling.v1.JoinRequest",
    ".tenure.meet.signaling.v1.JoinResponse",
    ".tenure.meet.signaling.v1.MediaServerInfo",
    ".tenure.meet.signaling.v1.PrepareMove",
    ".tenure.meet.signaling.v1.MhConnectRequest",
    ".tenure.meet.internal.v1.RegisterMeetingRequest",
    ".tenure.meet.internal.v1.ReportMcUnreachableRequest",
    ".tenure.meet.media.v1.Hello",
    ".tenure.meet.relay.v1.RelayHello",
];

fn main() -> Result<(), Box<dyn Error>> {
    for proto in PROTOS.iter().chain([&MEDIA, &RELAY]) {
        println!("cargo::rerun-if-changed={ROOT}/{proto}");
    }
    let configure = || tonic_prost_build::configure().bytes(".").skip_debug(SECRET);
    // A call that a server does not implement answers UNIMPLEMENTED.
    configure().generate_default_stubs(true).compile_fds(protox::compile(PROTOS, [ROOT])?)?;
    // Media uses messages of signaling, and relays those of media. Their packages do not nest like our modules, so their
    // paths are given.
    configure()
        .extern_path(".tenure.meet.signaling.v1", "crate::signaling")
        .compile_fds(protox::compile([MEDIA], [ROOT])?)?;
    configure()
        .extern_path(".tenure.meet.signaling.v1", "crate::signaling")
        .extern_path(".tenure.meet.media.v1", "crate::media::message")
        .compile_fds(protox::compile([RELAY], [ROOT])?)?;
    Ok(())
}
