//! The service over real WebSockets and HTTP, with real stores.

#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod abuse;
mod authority;
mod device;
mod fixture;
mod gate;
mod golden;
mod inputs;
mod lease;
mod matrix;
mod stream;
