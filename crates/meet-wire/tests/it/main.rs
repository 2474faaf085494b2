//! WebTransport over real QUIC, on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic on failure")]

mod quic;
