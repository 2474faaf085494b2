//! Nodes in one process, on stores in memory and on a Redis.

#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod channel;
mod clock;
mod doubt;
mod foreign;
mod http;
mod node;
mod scale;
