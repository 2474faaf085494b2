//! The watchdog: ends a child process before the lease that it runs under expires.
//!
//! A small process of the same binary sits between the holder and the work. It leads its own session, so no terminal signal
//! reaches it. It has a socket to the holder, and the times at which the work must stop and be killed, on the clock that
//! counts suspend. When a time passes without a later one, or the holder closes the socket, it kills the process group of
//! the work and the rest of the session. It needs nothing from the holder for that: a holder that hangs, is stopped or is
//! killed sends no later time.
//!
//! It never extends a time by itself and never connects to a store.

mod alarm;
mod handle;
mod message;
mod plan;
mod process;
mod session;

pub(crate) use handle::{OWN_EXECUTABLE, WatchdogHandle, WorkIo};
pub(crate) use message::{EndReason, WorkReport};
pub(crate) use process::{Args, run};
