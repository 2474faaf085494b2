//! Accepts the WebTransport sessions of clients, within bounds.

use std::net::SocketAddr;
use std::sync::Arc;

use tenure_lease::Clock;
use tenure_lease::breaks::{Break, broken};
use tenure_meet_wire::transport::{AddressLimit, AddressPermit, Listener, Offer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::actor::Controller;
use crate::metric;

/// The path of sessions.
pub const PATH: &str = "/wt/mc";
/// Sessions refused with a status at once; more are dropped.
const MAX_REFUSALS: usize = 64;
/// The HTTP status of a refused session.
const SERVICE_UNAVAILABLE: u16 = 503;

/// The bounds of an acceptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcceptLimits {
    /// Open sessions.
    pub connections: usize,
    /// Open sessions that have not joined.
    pub pending: usize,
    /// Open sessions of one address that have not joined.
    pub pending_per_address: usize,
}

/// The place of a session that has not joined.
pub struct PendingPermit {
    _pending: OwnedSemaphorePermit,
    _address: AddressPermit,
}

/// Accepts sessions and hands them to a controller.
pub struct SessionAcceptor {
    controller: Controller,
    clock: Arc<dyn Clock>,
    connections: Arc<Semaphore>,
    pending: Arc<Semaphore>,
    addresses: AddressLimit,
    refusals: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl SessionAcceptor {
    /// An acceptor in front of this controller.
    pub fn new(controller: Controller, clock: Arc<dyn Clock>, limits: AcceptLimits) -> Self {
        let connections = if broken(Break::NoConnectionLimit) { usize::MAX } else { limits.connections };
        Self {
            controller,
            clock,
            connections: Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS))),
            pending: Arc::new(Semaphore::new(limits.pending.min(Semaphore::MAX_PERMITS))),
            addresses: AddressLimit::new(limits.pending_per_address),
            refusals: Arc::new(Semaphore::new(MAX_REFUSALS)),
            tasks: TaskTracker::new(),
        }
    }

    /// Accepts sessions until `stop` or the end of the listener, then waits for the open sessions: the controller ends them.
    pub async fn serve(self, listener: Arc<dyn Listener>, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                offer = listener.offer() => match offer {
                    Some(offer) => self.accept(offer),
                    None => break,
                },
            }
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn accept(&self, offer: Box<dyn Offer>) {
        let connection = self.connections.clone().try_acquire_owned().ok();
        let permits = connection.zip(self.pending_permit(offer.remote()));
        let Some((connection, pending)) = permits else {
            return self.refuse(offer, "rejected");
        };
        // While it drains, clients still resume, and join meetings that have not moved yet.
        if self.controller.is_stopped() {
            return self.refuse(offer, "draining");
        }
        let (controller, clock) = (self.controller.clone(), self.clock.clone());
        let traceparent = offer.connect().traceparent.clone();
        self.tasks.spawn(async move {
            let timeout = clock.sleep_until(clock.now() + tenure_meet_wire::limits::HANDSHAKE);
            let session = tokio::select! {
                biased;
                session = offer.accept() => session.ok(),
                () = timeout => None,
            };
            let Some(session) = session else { return metric::connected("failed") };
            metric::connected("accepted");
            controller.serve_session(session, traceparent.as_deref(), Some(pending)).await;
            drop(connection);
        });
    }

    /// A place for a session that has not joined: bounded over all, so that they do not displace participants, and per
    /// address, so that one client does not take all places.
    fn pending_permit(&self, address: Option<SocketAddr>) -> Option<PendingPermit> {
        let _address = self.addresses.take(address)?;
        Some(PendingPermit { _pending: self.pending.clone().try_acquire_owned().ok()?, _address })
    }

    fn refuse(&self, offer: Box<dyn Offer>, status: &'static str) {
        metric::connected(status);
        let Ok(permit) = self.refusals.clone().try_acquire_owned() else { return };
        let (clock, refused) = (self.clock.clone(), offer.reject(SERVICE_UNAVAILABLE));
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = refused => {}
                () = clock.sleep_until(clock.now() + tenure_meet_wire::limits::HANDSHAKE) => {}
            }
            drop(permit);
        });
    }
}
