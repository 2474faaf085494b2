//! Clients of a real controller: in memory under virtual time, and over QUIC.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic on failure")]

mod harness;
mod join_api;
mod loss;
mod media;
mod media_codec;
mod media_engine;
mod media_rules;
mod moves;
mod network;
mod page;
mod page_client;
mod party;
mod people;
mod script;
mod unreachable;
