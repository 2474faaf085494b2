//! The messages generated from `proto/tenure/meet/relay/v1/relay.proto`.

#![allow(
    clippy::all,
    clippy::unwrap_used,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
#![allow(unreachable_pub, unused_qualifications, missing_docs, reason = "generated code")]

tonic::include_proto!("tenure.meet.relay.v1");
