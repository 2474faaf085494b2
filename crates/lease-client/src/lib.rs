//! The network client of Tenure: [`tenure_lease::Leases`] and [`tenure_lease::Records`] over gRPC.
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use tenure_client::{Client, ClientOptions};
//! use tenure_lease::{Key, Leases};
//!
//! let options = ClientOptions::default().token("token of a server");
//! let client = Client::connect("tenure://127.0.0.1:7400", options).await?;
//! println!("{:?}", client.inspect(&Key::new("tuner/0")?).await?);
//! # Ok(()) }
//! ```
//!
//! It compiles without an HTTP server and without any engine.

mod address;
mod call;
mod channel_pool;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    //! What the fuzz targets need to see.

    /// The address of a server as an HTTP URI.
    pub fn address(url: &str) -> tenure_lease::Result<String> {
        crate::address::Address::parse(url).map(|address| address.uri())
    }
}
mod headers;
mod keep_alive;
mod keep_alive_pool;
mod leases;
mod options;
mod records;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_executor::ConnectionExecutor;
use tenure_lease::{Capabilities, Clock, Error, Result};
use tenure_lease_wire::proto::leases_client::LeasesClient;
use tenure_lease_wire::proto::records_client::RecordsClient;
use tenure_lease_wire::{ENGINE, MAX_MESSAGE_BYTES, proto};
use tonic::transport::Channel;

use crate::address::Address;
use crate::channel_pool::ChannelPool;
use crate::error::CallError;
use crate::headers::RequestHeaders;
use crate::keep_alive::KeepAliveStream;
use crate::keep_alive_pool::KeepAlivePool;
pub use crate::options::{ClientOptions, InjectHeaders};

/// A store on a Tenure server. Clones share its connections.
///
/// Renewals, claims and releases share one keep-alive stream, or two under load. Watches, and waiting claims beyond
/// the first thousand, have connections of their own. Broken connections are re-established.
///
/// A call that was not sent is retried within its time limit; one that was lost on the way only if repeating it is
/// harmless: claims, renewals and releases are identified by their tokens, commits and announcements are not. A call
/// that may have happened is [`Error::Unknown`].
#[derive(Clone)]
pub struct Client(Arc<ClientState>);

struct ClientState {
    address: Address,
    headers: RequestHeaders,
    clock: Arc<dyn Clock>,
    call_timeout: Duration,
    capabilities: Capabilities,
    warnings: Vec<String>,
    leases: LeasesClient<Channel>,
    records: RecordsClient<Channel>,
    waiting_channels: ChannelPool,
    keep_alive: KeepAlivePool,
}

impl Client {
    /// Connects to `tenure://HOST:PORT` (`tenures://HOST:PORT` with TLS) and reads the capabilities of its store.
    pub async fn connect(url: &str, options: ClientOptions) -> Result<Self> {
        let address = Address::parse(url)?;
        let headers = RequestHeaders::new(options.token.as_deref(), options.inject_headers.clone())?;
        let executor = ConnectionExecutor::default();
        let channel = options.channel_on(executor.clone(), &address)?;
        let leases = LeasesClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let records = RecordsClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let stream = KeepAliveStream::start(leases.clone(), headers.clone(), executor);
        let first_call = call::once(&*options.clock, options.call_timeout, async {
            let request = headers.request(proto::CapabilitiesRequest {});
            Ok(leases.clone().capabilities(request).await?.into_inner())
        });
        let mut stated = first_call.await.map_err(|error| explain(&address, &headers, error))?;
        let warnings = std::mem::take(&mut stated.warnings);
        let capabilities = stated.try_into()?;
        let waiting_channels = ChannelPool::new(&options, &address)?;
        let keep_alive = KeepAlivePool::new(stream, options.clone(), address.clone(), headers.clone());
        let ClientOptions { clock, call_timeout, .. } = options;
        Ok(Self(Arc::new(ClientState {
            address,
            headers,
            clock,
            call_timeout,
            capabilities,
            warnings,
            leases,
            records,
            waiting_channels,
            keep_alive,
        })))
    }
}

/// Adds advice to the error of the first call.
fn explain(address: &Address, headers: &RequestHeaders, error: CallError) -> Error {
    match error {
        CallError::Rejected(Error::Invalid { what: "credentials", why }) if !headers.have_token() => {
            let hint = "`tenure up` keeps one in the file `token` of its data directory";
            Error::invalid("token", format!("{address} requires a token ({why}); {hint}"))
        }
        CallError::Rejected(Error::Invalid { what: "credentials", why }) => Error::invalid(
            "token",
            format!("{address} rejects this token ({why}); it needs at least the scope lease:read"),
        ),
        CallError::Rejected(error) => error,
        CallError::NotSent(cause) => {
            let tls = if address.tls {
                "does it use TLS with a certificate that is trusted here"
            } else {
                "is `tenure up` running there, and without TLS (otherwise use tenures://)"
            };
            let why = format!("no Tenure server at {address}: {tls}? Are host and port right?");
            Error::unavailable(ENGINE, why).because(cause)
        }
        CallError::Lost(cause) => {
            let tls = if address.tls { "" } else { " If it uses TLS, write tenures://." };
            let why = format!("the server at {address} is not a Tenure server: is the port right?{tls}");
            Error::unavailable(ENGINE, why).because(cause)
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({}, {})", self.0.address, self.0.capabilities.engine)
    }
}
