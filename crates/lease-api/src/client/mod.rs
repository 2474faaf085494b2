//! A store behind a network: [`lease::Leases`] and [`lease::Records`] over gRPC.

mod address;
mod bearer;
mod call;
mod dial;
mod fault;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing {
    //! What the fuzz targets need to see.

    pub(crate) fn address(url: &str) -> lease::Result<String> {
        super::address::Address::parse(url).map(|address| address.uri())
    }
}
mod lanes;
mod leases;
mod line;
mod lines;
mod records;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lease::{Capabilities, Clock, Error, Result};
use service::Convoy;
use tonic::transport::Channel;

use self::address::Address;
use self::bearer::Bearer;
pub use self::dial::Dial;
use self::fault::Fault;
use self::lanes::Lanes;
use self::line::Line;
use self::lines::Lines;
use crate::convert::ENGINE;
use crate::wire::leases_client::LeasesClient;
use crate::wire::records_client::RecordsClient;
use crate::{MESSAGE, wire};

/// A store on a Tenure server. Clones share its connections.
///
/// Renewals, claims and releases travel on one stream; while many claim and release at once, on two. Watches, and
/// claims that wait beyond the first thousand, have connections of their own. A connection that broke is made again.
/// A call that was not sent is sent again within its time; one that was lost on the way only if repeating it is
/// harmless: claims, renewals and releases are told apart by their tokens, commits are not. What may have happened is
/// [`Error::Unknown`], never guessed.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    address: Address,
    bearer: Bearer,
    clock: Arc<dyn Clock>,
    call_timeout: Duration,
    capabilities: Capabilities,
    leases: LeasesClient<Channel>,
    records: RecordsClient<Channel>,
    lanes: Lanes,
    lines: Lines,
}

impl Client {
    /// Connects to `tenure://HOST:PORT` (or `tenures://HOST:PORT` with TLS) with a bearer token, and asks what
    /// the store behind it promises.
    pub async fn connect(url: &str, token: Option<String>) -> Result<Self> {
        Self::dial(url, Dial { token, ..Dial::default() }).await
    }

    /// Connects as `dial` says.
    pub async fn dial(url: &str, dial: Dial) -> Result<Self> {
        let address = Address::parse(url)?;
        let bearer = Bearer::new(dial.token.as_deref())?;
        let convoy = Convoy::default();
        let channel = dial.channel_in(convoy.clone(), &address)?;
        let leases = LeasesClient::new(channel.clone()).max_decoding_message_size(MESSAGE);
        let records = RecordsClient::new(channel).max_decoding_message_size(MESSAGE);
        let line = Line::start(leases.clone(), bearer.clone(), convoy);
        let asking = leases.clone();
        let asked = call::once(&*dial.clock, dial.call_timeout, async {
            let request = bearer.on(wire::CapabilitiesRequest {});
            Ok(asking.clone().capabilities(request).await?.into_inner())
        });
        let capabilities = asked.await.map_err(|fault| advice(&address, &bearer, fault))?.try_into()?;
        let lanes = Lanes::new(&dial, &address)?;
        let lines = Lines::new(line, dial.clone(), address.clone(), bearer.clone());
        let Dial { clock, call_timeout, .. } = dial;
        Ok(Self(Arc::new(Inner {
            address,
            bearer,
            clock,
            call_timeout,
            capabilities,
            leases,
            records,
            lanes,
            lines,
        })))
    }
}

/// What to do about a first call that failed.
fn advice(address: &Address, bearer: &Bearer, fault: Fault) -> Error {
    match fault {
        Fault::Answered(Error::Invalid { what: "credentials", why }) if bearer.is_none() => Error::invalid(
            "token",
            format!(
                "{address} wants a token ({why}); `tenure up` keeps one in the file `token` of its data directory"
            ),
        ),
        Fault::Answered(Error::Invalid { what: "credentials", why }) => Error::invalid(
            "token",
            format!("{address} does not take this token ({why}); it needs at least the scope lease:read"),
        ),
        Fault::Answered(error) => error,
        Fault::NotSent(cause) => {
            let tls = if address.tls {
                "does it speak TLS with a certificate that is trusted here"
            } else {
                "is `tenure up` running there, and without TLS (else write tenures://)"
            };
            let why =
                format!("no Tenure server can be reached at {address}: {tls}? Are host and port right?");
            Error::unavailable(ENGINE, why).because(cause)
        }
        Fault::Lost(cause) => {
            let tls = if address.tls { "" } else { " If it speaks TLS, write tenures://." };
            let why = format!("what answers at {address} is not a Tenure server: is the port right?{tls}");
            Error::unavailable(ENGINE, why).because(cause)
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({}, {})", self.0.address, self.0.capabilities.engine)
    }
}
