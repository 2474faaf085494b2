//! Nodes in one process, on in-memory stores and on Redis.

#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod channel;
mod clock;
mod foreign;
mod http;
mod node;
mod scale;
mod uncertain;
