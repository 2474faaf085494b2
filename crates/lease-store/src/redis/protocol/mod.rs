//! The scripts that the engine calls, how a call is encoded, and how its reply is decoded.
//!
//! Nothing here does I/O or reads a clock: the engine sends these calls to a server, and the simulator runs the same
//! scripts on a model of one.
#![cfg_attr(
    not(feature = "lockstep"),
    allow(unreachable_pub, dead_code, unused_imports, reason = "public for the simulator only")
)]

pub mod acquire;
pub mod call;
pub mod header;
pub mod lease;
pub mod record;
pub mod release;
pub mod reply;
pub mod script;
pub mod server;
pub mod status;

pub use redis::Value;

pub use self::call::ScriptCall;
pub use self::script::Script;
pub use self::server::ServerIdentity;

/// An engine process, and the end of the name of its wake-up channel: 16 hexadecimal digits.
pub type Instance = [u8; 16];

/// The id of a waiting claim: 16 hexadecimal digits.
pub type WaiterId = [u8; 16];

/// The channel on which a process learns that its waiting claims were granted.
pub fn wake_up_channel(instance: &Instance) -> String {
    format!("tenure:c:{}", String::from_utf8_lossy(instance))
}
