//! Real servers for tests, and a proxy that cuts, delays and drops.
//!
//! All methods are synchronous, so that they work in a `#[test]` and in a `#[tokio::test]`. Nothing depends on the runtime
//! of the caller: proxies have their own, so a test that blocks its only thread does not starve them.

mod child;
mod chromium;
mod clock;
mod datagrams;
mod disk;
mod etcd;
mod launch;
mod lines;
mod ports;
mod process;
mod proxy;
mod receiver;
mod redis;
mod resp;
mod sockets;
pub mod wait;

pub use chromium::{Chromium, ChromiumBuilder, ColourScheme, Page, PageError, PageErrorKind};
pub use datagrams::UdpProxy;
pub use disk::SmallDisk;
pub use etcd::{EtcdBuilder, EtcdServer};
pub use ports::free_port;
pub use process::{Process, helper_bin};
pub use proxy::{Direction, Mode, Proxy, Traffic};
pub use receiver::{Receiver, make_film};
pub use redis::{AppendFsync, RedisBuilder, RedisServer};
pub use resp::{Reply, RespClient};
pub use sockets::has_udp_port;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, ignoring poisoning: a failing test must still be able to kill its servers.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
