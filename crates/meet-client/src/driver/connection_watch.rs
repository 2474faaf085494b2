//! Watches one connection: pings, silence, a paused meeting, and reports about them.

use std::pin::Pin;

use tenure_lease::Tick;
use tenure_meet_wire::signaling::client_message::Payload as Ask;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ClientMessage, Ping, ServerMessage};

use crate::connection::{Connection, ConnectionLost};
use crate::driver::Driver;
use crate::driver::liveness::{Liveness, LivenessStep};
use crate::join_api::{Admission, Home, UnreachableReason, UnreachableReport};
use crate::limits;

/// A question about the owner of the meeting.
type Inquiry = Pin<Box<dyn Future<Output = Option<Home>> + Send>>;

/// What is known of one connection while it is used.
pub(super) struct ConnectionWatch {
    liveness: Liveness,
    /// When the join API is asked who owns a paused meeting.
    ask_owner_at: Option<Tick>,
    /// The question about the owner that is not answered yet; at most one.
    inquiry: Option<Inquiry>,
}

impl ConnectionWatch {
    pub(super) const fn new(now: Tick) -> Self {
        Self { liveness: Liveness::new(now), ask_owner_at: None, inquiry: None }
    }

    /// A message was received.
    pub(super) fn received(&mut self, message: &ServerMessage, now: Tick) {
        self.liveness.heard(now);
        if matches!(message.payload, Some(Payload::Paused(_))) {
            self.ask_owner_at.get_or_insert(now + limits::PAUSED);
        } else if message.event_seq > 0 && message.durable != Some(false) {
            // The store has taken an event: the meeting runs again.
            self.ask_owner_at = None;
        }
    }

    /// When [`Driver::on_watch`] has something to do.
    pub(super) fn next(&self) -> Tick {
        self.ask_owner_at.map_or(self.liveness.next(), |at| at.min(self.liveness.next()))
    }

    /// The answer to the question about the owner. Waits forever without one. Cancel safe.
    pub(super) async fn answered(&mut self) -> Option<Home> {
        match &mut self.inquiry {
            None => std::future::pending().await,
            Some(inquiry) => {
                let home = inquiry.await;
                self.inquiry = None;
                home
            }
        }
    }
}

impl Driver {
    /// Does what the watch is due to do. An error means that the connection is lost.
    pub(super) async fn on_watch(
        &mut self,
        watch: &mut ConnectionWatch,
        connection: &mut Connection,
    ) -> Result<(), ConnectionLost> {
        let now = self.options.clock.now();
        if watch.ask_owner_at.is_some_and(|at| now >= at) {
            watch.ask_owner_at = Some(now + limits::PAUSED);
            watch.inquiry.get_or_insert_with(|| self.ask_owner());
        }
        match watch.liveness.step(now) {
            Some(LivenessStep::Lost) => return Err(ConnectionLost::Silent),
            Some(LivenessStep::Suspect) => {
                let report = UnreachableReport { reason: UnreachableReason::Timeout, suspect: true };
                if let Some(admission) = self.admission.clone() {
                    watch.inquiry.get_or_insert_with(|| self.report(admission, report));
                }
            }
            Some(LivenessStep::Ping) => {
                let ping = ClientMessage {
                    payload: Some(Ask::Ping(Ping { nonce: now.as_nanos() })),
                    ..ClientMessage::default()
                };
                self.send(connection, &ping).await?;
            }
            None => {}
        }
        Ok(())
    }

    /// Sends a message. A controller that does not take it for [`limits::SILENCE`] is lost.
    pub(super) async fn send(
        &self,
        connection: &mut Connection,
        message: &ClientMessage,
    ) -> Result<(), ConnectionLost> {
        let clock = &self.options.clock;
        let late = clock.sleep_until(clock.now() + limits::SILENCE);
        tokio::select! {
            biased;
            sent = connection.writer.send(message) => Ok(sent?),
            () = late => Err(ConnectionLost::Silent),
        }
    }

    /// Reports a lost controller and waits for the decision: the next attempt goes to the home that it names. Returns
    /// whether that is another controller than the reported one.
    pub(super) async fn report_loss(&mut self, reason: UnreachableReason) -> bool {
        let Some(admission) = self.admission.clone().filter(|_| self.proof.is_some()) else { return false };
        let reported = admission.mc_id.clone();
        self.home = self.report(admission, UnreachableReport { reason, suspect: false }).await;
        self.home.as_ref().is_some_and(|home| home.mc_id != reported)
    }

    /// Whether the connection's controller is not the home any more.
    pub(super) fn moved_to(&self, home: &Home) -> bool {
        self.admission.as_ref().is_some_and(|admission| {
            home.generation > admission.generation || (home.generation == 0 && home.mc_id != admission.mc_id)
        })
    }

    fn report(&self, admission: Admission, report: UnreachableReport) -> Inquiry {
        let (join_api, clock) = (self.join_api.clone(), self.options.clock.clone());
        Box::pin(async move {
            let late = clock.sleep_until(clock.now() + limits::DECISION);
            let decided = tokio::select! {
                biased;
                decided = join_api.unreachable(&admission, report) => decided,
                () = late => return None,
            };
            decided
                .inspect_err(|error| tracing::debug!(target: "meet_client", %error, "report failed"))
                .ok()
                .flatten()
        })
    }

    fn ask_owner(&self) -> Inquiry {
        let join_api = self.join_api.clone();
        Box::pin(async move {
            let Admission { mc_id, place, generation, .. } = join_api.admit().await.ok()?;
            Some(Home { mc_id, place, generation })
        })
    }
}
