//! Media through real handlers: in memory under virtual time, and over QUIC.

mod failover;
mod network;
mod stage;
mod streams;
