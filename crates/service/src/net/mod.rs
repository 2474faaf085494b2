//! Addresses of clients and servers: ranges, and clients behind proxies.

mod cidr;
mod client;
mod proxies;

pub use cidr::{Cidr, ParseCidrError};
pub use client::ClientAddress;
pub use proxies::{MAX_HOPS, TrustedProxies};
