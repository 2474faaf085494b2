//! Serving the sessions of clients.

use std::sync::Arc;

use tenure_lease::Tick;
use tenure_meet_wire::signaling::ErrorCode;
use tenure_meet_wire::transport::Session;
use tenure_meet_wire::{CloseCode, TraceParent};

use super::Found;
use crate::actor::admission::{JoinRejected, read_join_request, reject, verify_token};
use crate::actor::connection::SeatedClient;
use crate::actor::exit::supervise;
use crate::actor::mailbox::Mailbox;
use crate::actor::meeting::Envelope;
use crate::actor::moving::{MeetingWaiter, TicketCheck};
use crate::actor::{ActorType, Controller, limits};
use crate::convert::UnverifiedJoin;
use crate::meeting::Join;
use crate::{PendingPermit, metric};

impl Controller {
    /// Serves one session until it ends. A panic of its actor ends only this connection.
    pub async fn serve(&self, session: Arc<dyn Session>) {
        self.serve_session(session, None, None).await;
    }

    /// Like [`Controller::serve`], within a trace. `pending` is dropped once the client has joined.
    pub async fn serve_session(
        &self,
        session: Arc<dyn Session>,
        traceparent: Option<&str>,
        pending: Option<PendingPermit>,
    ) {
        metric::connections(1.0);
        let parent = traceparent.and_then(TraceParent::parse);
        let served = supervise(ActorType::Connection, async {
            // Boxed: the memory of the admission is freed before the client is served.
            let client = Box::pin(self.admit(&session, parent, pending)).await;
            if let Some(client) = client {
                client.serve(&*session, &*self.admission.clock).await;
            }
        });
        tokio::select! {
            biased;
            _ = served => {}
            // Meetings close their own clients; a client without a seat is closed here.
            () = self.cancel.cancelled() => session.close_for(CloseCode::Draining),
        }
        metric::connections(-1.0);
        // Kept until the close is delivered: a session that is dropped earlier loses its close code.
        session.close_for(CloseCode::Done);
        session.closed().await;
    }

    async fn admit(
        &self,
        session: &Arc<dyn Session>,
        parent: Option<TraceParent>,
        mut pending: Option<PendingPermit>,
    ) -> Option<SeatedClient> {
        let clock = &*self.admission.clock;
        let mut client = match read_join_request(&**session, clock).await {
            Ok(client) => client,
            Err((writer, rejected)) => {
                reject(&**session, clock, writer, 0, rejected).await;
                return None;
            }
        };
        client.traceparent = client.traceparent.or(parent);
        let began = clock.now();
        let (status, rejected) = match self.authorize(&client.join, session, began, &mut pending).await {
            Ok((join, meeting)) => {
                return client.take_seat(session, clock, (join, began), meeting, pending).await;
            }
            Err(rejected) => rejected,
        };
        metric::joined(status, clock.now().since(began));
        client.reject(&**session, clock, rejected).await;
        None
    }

    /// Verifies the token, checks the rate limit and finds the meeting. An error has the status for the metric.
    async fn authorize(
        &self,
        request: &UnverifiedJoin,
        session: &Arc<dyn Session>,
        now: Tick,
        pending: &mut Option<PendingPermit>,
    ) -> Result<(Join, Mailbox<Envelope>), (&'static str, JoinRejected)> {
        let join = verify_token(request, &self.admission).await;
        let join = join.map_err(|rejected| ("unauthorized", rejected))?;
        if !self.admission.join_limiter.lock().take(&join.user, now) {
            let message = "too many joins of this user; retry later";
            return Err(("rate_limited", JoinRejected::error(ErrorCode::RateLimited, message)));
        }
        let meeting = match self.find(&request.meeting).await {
            Found::Running { mailbox, .. } => Some(mailbox),
            Found::Opening(waiter) => self.wait_for_opening(waiter, request, session, pending).await,
            Found::Nowhere => None,
        };
        match meeting {
            Some(meeting) => Ok((join, meeting)),
            None => {
                let message = "the meeting does not run on this controller";
                Err(("not_found", JoinRejected::error(ErrorCode::NotFound, message)))
            }
        }
    }

    /// Waits for a meeting that is being opened: for long only with a ticket for its move.
    async fn wait_for_opening(
        &self,
        waiter: MeetingWaiter,
        request: &UnverifiedJoin,
        session: &Arc<dyn Session>,
        pending: &mut Option<PendingPermit>,
    ) -> Option<Mailbox<Envelope>> {
        let (clock, secrets) = (&self.admission.clock, self.secrets.read().clone());
        let check = TicketCheck { mc_id: self.id(), secrets: &secrets, now: clock.wall() };
        let has_ticket = waiter.has_ticket(request, &check);
        let limit = if has_ticket { limits::PARKED } else { limits::OPENING };
        if has_ticket {
            drop(pending.take());
        }
        tokio::select! {
            biased;
            meeting = waiter.wait(has_ticket) => meeting,
            _ = session.closed() => None,
            () = clock.sleep_until(clock.now() + limit) => None,
        }
    }
}
