//! Nodes in one process, on stores in memory.

#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod clock;
mod http;
mod node;
mod scale;
