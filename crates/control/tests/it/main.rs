//! The service over real sockets, on a real server, with real stores.

#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod abuse;
mod authority;
mod device;
mod gate;
mod golden;
mod inputs;
mod lease;
mod matrix;
mod rig;
mod stream;
