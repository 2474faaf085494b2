//! Work that must not outlive its lease and is not in our process.
//!
//! A small process of our own binary stands between the holder and the work. It leads a session of its own, so
//! nothing a terminal does reaches it; it holds a socket from the holder and the times at which the work must
//! stop and be gone, on the clock that counts suspend. When a time passes without a later one, or the holder's
//! end of the socket closes, it kills the work's process group and whatever else runs in the session. It needs nothing from the holder to do so: a
//! holder that hangs, is stopped or is killed sends no later time, and that is enough.
//!
//! It never extends anything by itself and never speaks to a store.

mod alarm;
mod leash;
mod line;
mod plan;
mod session;
mod work;

pub(crate) use leash::{Desk, Leash, OURSELVES};
pub(crate) use line::{Report, Why};
pub(crate) use plan::Times;
pub(crate) use work::{Args, run};
