//! The client's event loop: connect, exchange messages, reconnect.

mod connection_watch;
mod enter;
mod liveness;
mod parking;

use std::sync::Arc;

use parking_lot::Mutex;
use tenure_lease::Tick;
use tenure_meet_wire::signaling::client_message::Payload as Ask;
use tenure_meet_wire::signaling::{ClientMessage, ServerMessage};
use tenure_meet_wire::{CloseCode, Id};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::backoff;
use crate::connection::{Connection, ConnectionLost};
use crate::dial::{Dial, Endpoint};
use crate::join_api::{Admission, Home, JoinApi, UnreachableReason};
use crate::limits;
use crate::options::{Ending, Options, State};
use crate::request::{InFlightRequest, PendingRequest, Verdict};
use crate::view::{self, Step, View};
use crate::{Event, News};

use connection_watch::ConnectionWatch;
use parking::{Parking, Switch};

/// State shared by the driver and the handle.
pub(crate) struct Shared {
    pub(crate) view: Mutex<View>,
    pub(crate) state: watch::Sender<State>,
    /// Incremented for every applied message.
    pub(crate) version: watch::Sender<u64>,
}

/// The credentials for resuming the participant.
#[derive(Clone)]
struct Proof {
    correlation: String,
    token: String,
}

/// Why an attempt failed.
enum Setback {
    /// No further attempt is made.
    Final(Ending),
    /// Retry. Carries the reason, and whether to retry at once.
    Again(String, bool),
    /// The controller did not answer: report it, then retry.
    Unreachable(UnreachableReason, String),
}

/// Ends the client; a caller that still waits for the first join learns why.
fn end(joined: Option<oneshot::Sender<Result<(), Ending>>>, ending: Ending) -> Ending {
    if let Some(joined) = joined {
        let _receiver_dropped = joined.send(Err(ending.clone()));
    }
    ending
}

/// How a connection came to its end.
enum TalkEnd {
    Lost(ConnectionLost),
    /// The meeting moved, and another connection continues.
    Moved(Box<Switch>),
}

pub(crate) struct Driver {
    pub(crate) join_api: Arc<dyn JoinApi>,
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) options: Options,
    pub(crate) shared: Arc<Shared>,
    pub(crate) asked: mpsc::Receiver<PendingRequest>,
    pub(crate) events: Option<mpsc::Sender<Event>>,
    pub(crate) cancel: CancellationToken,
    trace: String,
    proof: Option<Proof>,
    /// The attempt id, stable until a join succeeds.
    attempt: String,
    /// The admission of the last attempt.
    admission: Option<Admission>,
    /// The home for the next attempt, from a decision about a lost controller.
    home: Option<Home>,
    redirect: Option<Endpoint>,
    parking: Parking,
    /// The meeting accepts no changes: it moves. Requests wait.
    frozen: bool,
    flying: Option<InFlightRequest>,
    seq: u64,
    unauthorized: u32,
    /// Whether the last connection was closed with `Done`.
    done: bool,
    /// Whether the client left the meeting.
    left: bool,
}

impl Driver {
    pub(crate) fn new(
        join_api: Arc<dyn JoinApi>,
        dial: Arc<dyn Dial>,
        options: Options,
        shared: Arc<Shared>,
        asked: mpsc::Receiver<PendingRequest>,
        events: Option<mpsc::Sender<Event>>,
        cancel: CancellationToken,
    ) -> Self {
        let fresh = || Id::new(options.clock.wall(), &*options.entropy).to_string();
        let trace = options.traceparent.clone().unwrap_or_else(|| enter::trace(&*options.entropy));
        let attempt = fresh();
        Self {
            join_api,
            dial,
            options,
            shared,
            asked,
            events,
            cancel,
            trace,
            proof: None,
            attempt,
            admission: None,
            home: None,
            redirect: None,
            parking: Parking::default(),
            frozen: false,
            flying: None,
            seq: 0,
            unauthorized: 0,
            done: false,
            left: false,
        }
    }

    /// Runs until the client ends. `joined` receives the outcome of the first join.
    pub(crate) async fn run(mut self, joined: oneshot::Sender<Result<(), Ending>>) {
        let cancel = self.cancel.clone();
        let ending = tokio::select! {
            biased;
            () = cancel.cancelled() => Ending::Left,
            ending = self.live(joined) => ending,
        };
        self.asked.close();
        if let Some(flying) = self.flying.take() {
            flying.over(&ending);
        }
        while let Ok(asked) = self.asked.try_recv() {
            InFlightRequest::new(asked).over(&ending);
        }
        self.shared.state.send_replace(State::Over(ending.clone()));
        if let Some(events) = &self.events {
            // If the event queue is full, the state still carries the ending.
            let _full = events.try_send(Event::Over(ending));
        }
    }

    async fn live(&mut self, joined: oneshot::Sender<Result<(), Ending>>) -> Ending {
        let (mut joined, mut number) = (Some(joined), 0);
        let mut since = self.options.clock.now();
        loop {
            match self.enter().await {
                Ok(connection) => {
                    number = 0;
                    if let Some(joined) = joined.take() {
                        let _receiver_dropped = joined.send(Ok(()));
                    }
                    let loss = self.talk_and_move(connection).await;
                    since = self.options.clock.now();
                    match self.lost(&loss) {
                        Some(ending) => return ending,
                        None => self.reconnecting(format!("{loss:?}")).await,
                    }
                    if let Some(reason) = loss.unreachable() {
                        self.report_loss(reason).await;
                    }
                }
                Err(setback) => {
                    let (why, at_once) = match setback {
                        Setback::Final(ending) => return end(joined, ending),
                        Setback::Again(why, at_once) => (why, at_once),
                        // Not dialed again before the decision about it.
                        Setback::Unreachable(reason, why) => (why, self.report_loss(reason).await),
                    };
                    if self.options.clock.now().since(since) >= self.options.give_up {
                        return end(joined, Ending::GaveUp(why));
                    }
                    tracing::debug!(target: "meet_client", why, number, "not joined yet");
                    if !at_once {
                        let wait = backoff::wait(number, &*self.options.entropy);
                        self.options.clock.sleep_until(self.options.clock.now() + wait).await;
                    }
                    number += 1;
                }
            }
        }
    }

    /// Talks over one connection after another while the meeting moves from controller to controller.
    async fn talk_and_move(&mut self, mut connection: Connection) -> ConnectionLost {
        loop {
            let session = connection.session.clone();
            let ended = self.talk(connection).await;
            session.close_for(CloseCode::Done);
            match ended {
                TalkEnd::Lost(loss) => {
                    self.parking.stop();
                    self.frozen = false;
                    return loss;
                }
                TalkEnd::Moved(switch) => {
                    if let Some(flying) = &mut self.flying {
                        flying.send_at_once();
                    }
                    self.admission = Some(switch.admission);
                    connection = switch.connection;
                    self.welcomed(switch.answer).await;
                }
            }
        }
    }

    async fn reconnecting(&mut self, why: String) {
        self.shared.state.send_replace(State::Reconnecting);
        self.publish_event(Event::Reconnecting { why }).await;
    }

    /// Decides whether the end of a connection ends the client (`Some`) or leads to another attempt.
    fn lost(&mut self, loss: &ConnectionLost) -> Option<Ending> {
        if self.left {
            return Some(Ending::Left);
        }
        let over = self.shared.view.lock().over.clone();
        if let Some(reason) = over {
            // The event may overtake the response to the request that caused it.
            let _settled = self.farewell();
            return Some(Ending::MeetingOver(reason));
        }
        self.done = *loss == ConnectionLost::Code(CloseCode::Done.number());
        // A leaving client does not reconnect to confirm. If the request was lost, the participant's grace period ends it.
        if (self.done || self.is_leaving())
            && let Some(ending) = self.farewell()
        {
            return Some(ending);
        }
        let ConnectionLost::Code(number) = loss else { return None };
        match CloseCode::from_number(*number) {
            Some(CloseCode::Superseded) => Some(Ending::Superseded),
            Some(CloseCode::Kicked) => Some(Ending::Kicked),
            Some(CloseCode::Protocol) => Some(Ending::Protocol),
            _ => None,
        }
    }

    async fn publish_event(&self, event: Event) {
        if let Some(events) = &self.events {
            let _receiver_dropped = events.send(event).await;
        }
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Exchanges messages until the connection ends, or the meeting has moved to the connection that waits.
    async fn talk(&mut self, mut connection: Connection) -> TalkEnd {
        let mut watch = ConnectionWatch::new(self.options.clock.now());
        loop {
            if let Err(loss) = self.send_due(&mut connection).await {
                return TalkEnd::Lost(loss);
            }
            let clock = self.options.clock.clone();
            let watch_at = watch.next();
            let due = self.flying.as_ref().filter(|_| !self.frozen).and_then(InFlightRequest::due);
            let wake = async {
                match due {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                came = connection.next() => match came {
                    Ok(message) => {
                        watch.received(&message, clock.now());
                        if let Err(loss) = self.heard(message).await {
                            return TalkEnd::Lost(loss);
                        }
                    }
                    // A controller that moved the meeting may close before its client has switched.
                    Err(loss) => return self.moved_or_lost(loss).await,
                },
                switch = self.parking.next() => match switch {
                    Some(switch) => return TalkEnd::Moved(Box::new(switch)),
                    None if self.redirect.is_some() => {
                        return TalkEnd::Lost(ConnectionLost::Abandoned("meeting moved"));
                    }
                    // The current controller redirects this client later.
                    None => {}
                },
                home = watch.answered() => if let Some(home) = home.filter(|home| self.moved_to(home)) {
                    self.home = Some(home);
                    return TalkEnd::Lost(ConnectionLost::Abandoned("the meeting has another owner"));
                },
                () = wake => {}
                () = clock.sleep_until(watch_at) => {
                    if let Err(loss) = self.on_watch(&mut watch, &mut connection).await {
                        return self.moved_or_lost(loss).await;
                    }
                }
                Some(asked) = self.asked.recv(), if self.flying.is_none() => {
                    // The caller no longer waits, so the request is dropped.
                    self.flying = (!asked.answer.is_closed()).then(|| InFlightRequest::new(asked));
                }
            }
        }
    }

    /// The connection was lost: the one that waits continues, if the meeting was moving.
    async fn moved_or_lost(&mut self, loss: ConnectionLost) -> TalkEnd {
        let clock = self.options.clock.clone();
        if !self.frozen || !self.parking.is_waiting() {
            return TalkEnd::Lost(loss);
        }
        // Whichever way the move ends, it ends soon.
        tokio::select! {
            biased;
            Some(switch) = self.parking.next() => TalkEnd::Moved(Box::new(switch)),
            () = clock.sleep_until(clock.now() + limits::SWITCH) => TalkEnd::Lost(loss),
        }
    }

    /// Sends the request that is due, if any.
    async fn send_due(&mut self, connection: &mut Connection) -> Result<(), ConnectionLost> {
        let now: Tick = self.options.clock.now();
        if self.frozen || !self.flying.as_ref().is_some_and(|flying| flying.is_due(now)) {
            return Ok(());
        }
        let seq = self.next_seq();
        let Some(flying) = &mut self.flying else { return Ok(()) };
        flying.sent_as(seq);
        let message = ClientMessage {
            payload: Some(flying.asked.payload.clone()),
            seq,
            acknowledged_event_seq: self.shared.view.lock().event_seq,
            ..ClientMessage::default()
        };
        self.send(connection, &message).await?;
        if let Some(notification) = self.flying.take_if(|flying| flying.is_notification()) {
            let _receiver_dropped = notification.asked.answer.send(Ok(()));
        }
        Ok(())
    }

    async fn heard(&mut self, message: ServerMessage) -> Result<(), ConnectionLost> {
        let step = view::apply(&mut self.shared.view.lock(), &message);
        self.shared.version.send_modify(|version| *version += 1);
        match step {
            Step::New(news) => {
                let over = matches!(news, News::Ended(_));
                if news == News::MediaServers {
                    // It may answer a request for grants.
                    self.answered(message.seq, None);
                }
                let durable = message.durable != Some(false);
                self.publish_event(Event::News { seq: message.event_seq, durable, news }).await;
                if over {
                    return Err(ConnectionLost::Abandoned("meeting ended"));
                }
            }
            Step::Answer(error) => self.answered(message.seq, error.as_ref()),
            Step::Prepare(prepare) => self.park(&prepare),
            Step::Frozen => self.frozen = true,
            Step::Thawed => {
                self.frozen = false;
                self.parking.stop();
                if let Some(flying) = &mut self.flying {
                    flying.send_at_once();
                }
            }
            Step::Redirect(redirect) => {
                let hashes = redirect.certificate_sha256.iter().map(|hash| hash.to_vec()).collect();
                self.redirect = Some(Endpoint { url: redirect.new_mc_endpoint, hashes });
                // The connection that waits at the next controller gets its answer at any moment.
                if !self.parking.is_waiting() {
                    return Err(ConnectionLost::Abandoned("meeting moved"));
                }
            }
            Step::Gap => return Err(ConnectionLost::Abandoned("gap in the events")),
            Step::Rewritten => {
                // The view contains events that were not persisted. Request a full snapshot.
                self.shared.view.lock().missing = u32::MAX;
                return Err(ConnectionLost::Abandoned("received events were not persisted"));
            }
            Step::Welcome { .. } | Step::Roster | Step::Repeated | Step::Nothing => {}
        }
        Ok(())
    }

    fn answered(&mut self, seq: u64, error: Option<&tenure_meet_wire::signaling::ErrorMessage>) {
        let Some(flying) = self.flying.take() else { return };
        let verdict = flying.answered(seq, error, self.options.clock.now());
        self.settle(verdict);
    }

    fn settle(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Done(asked, outcome) => {
                self.left |= outcome.is_ok() && matches!(asked.payload, Ask::LeaveRequest(_));
                let _receiver_dropped = asked.answer.send(outcome);
            }
            Verdict::Later(flying) | Verdict::Other(flying) => self.flying = Some(flying),
        }
    }

    fn is_leaving(&self) -> bool {
        self.flying.as_ref().is_some_and(|flying| matches!(flying.asked.payload, Ask::LeaveRequest(_)))
    }

    /// A close may overtake the response to the request that caused it.
    fn farewell(&mut self) -> Option<Ending> {
        let ending = match self.flying.as_ref()?.asked.payload {
            Ask::LeaveRequest(_) => Ending::Left,
            Ask::EndMeetingRequest(_) => Ending::MeetingOver("a host ended it".to_owned()),
            _ => return None,
        };
        let _receiver_dropped = self.flying.take()?.asked.answer.send(Ok(()));
        Some(ending)
    }
}
