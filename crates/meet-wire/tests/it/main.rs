//! WebTransport over real QUIC, on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends in a panic")]

mod quic;
