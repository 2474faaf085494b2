//! The life of a client: connect, talk, lose the connection, come back.

mod enter;

use std::sync::Arc;

use lease::Tick;
use meet_wire::signaling::client_message::Payload as Ask;
use meet_wire::signaling::{ClientMessage, ServerMessage};
use meet_wire::{CloseCode, Id};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::backoff;
use crate::dial::{Dial, Place};
use crate::door::Door;
use crate::line::{Line, Loss};
use crate::options::{Ending, Options, State};
use crate::request::{Asked, Flying, Verdict};
use crate::view::{self, Step, View};
use crate::{Event, News};

/// What a client and its handle share.
pub(crate) struct Shared {
    pub(crate) view: Mutex<View>,
    pub(crate) state: watch::Sender<State>,
    /// Rises with every message that was taken.
    pub(crate) version: watch::Sender<u64>,
}

/// The proof of a seat.
#[derive(Clone)]
struct Proof {
    correlation: String,
    token: String,
}

/// Why there is no connection.
enum Setback {
    /// There will be none.
    Final(Ending),
    /// Perhaps with the next attempt; the reason, and whether to try at once.
    Again(String, bool),
}

pub(crate) struct Life {
    pub(crate) door: Arc<dyn Door>,
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) options: Options,
    pub(crate) shared: Arc<Shared>,
    pub(crate) asked: mpsc::Receiver<Asked>,
    pub(crate) events: Option<mpsc::Sender<Event>>,
    pub(crate) cancel: CancellationToken,
    trace: String,
    proof: Option<Proof>,
    /// The same until it has led to a seat.
    attempt: String,
    redirect: Option<Place>,
    flying: Option<Flying>,
    seq: u64,
    unauthorized: u32,
    /// The last close said that the controller was done with this client.
    done: bool,
    /// The seat was given up.
    left: bool,
}

impl Life {
    pub(crate) fn new(
        door: Arc<dyn Door>,
        dial: Arc<dyn Dial>,
        options: Options,
        shared: Arc<Shared>,
        asked: mpsc::Receiver<Asked>,
        events: Option<mpsc::Sender<Event>>,
        cancel: CancellationToken,
    ) -> Self {
        let fresh = || Id::new(options.clock.wall(), &*options.entropy).to_string();
        let trace = options.traceparent.clone().unwrap_or_else(|| enter::trace(&*options.entropy));
        let attempt = fresh();
        Self {
            door,
            dial,
            options,
            shared,
            asked,
            events,
            cancel,
            trace,
            proof: None,
            attempt,
            redirect: None,
            flying: None,
            seq: 0,
            unauthorized: 0,
            done: false,
            left: false,
        }
    }

    /// Runs to the end. `joined` hears of the first seat, or why there is none.
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
            Flying::new(asked).over(&ending);
        }
        self.shared.state.send_replace(State::Over(ending.clone()));
        if let Some(events) = &self.events {
            // Whoever has not taken the last ones does not need this one: the state says it too.
            let _full = events.try_send(Event::Over(ending));
        }
    }

    async fn live(&mut self, joined: oneshot::Sender<Result<(), Ending>>) -> Ending {
        let (mut joined, mut number) = (Some(joined), 0);
        let mut since = self.options.clock.now();
        loop {
            match self.enter().await {
                Ok(line) => {
                    number = 0;
                    if let Some(joined) = joined.take() {
                        let _nobody_waits = joined.send(Ok(()));
                    }
                    let session = line.session.clone();
                    let loss = self.talk(line).await;
                    session.close_for(CloseCode::Done);
                    since = self.options.clock.now();
                    match self.lost(&loss) {
                        Some(ending) => return ending,
                        None => self.reconnecting(format!("{loss:?}")).await,
                    }
                }
                Err(Setback::Final(ending)) => {
                    if let Some(joined) = joined.take() {
                        let _nobody_waits = joined.send(Err(ending.clone()));
                    }
                    return ending;
                }
                Err(Setback::Again(why, at_once)) => {
                    if self.options.clock.now().since(since) >= self.options.give_up {
                        let ending = Ending::GaveUp(why);
                        if let Some(joined) = joined.take() {
                            let _nobody_waits = joined.send(Err(ending.clone()));
                        }
                        return ending;
                    }
                    tracing::debug!(target: "meet_client", why, number, "no seat yet");
                    if !at_once {
                        let wait = backoff::wait(number, &*self.options.entropy);
                        self.options.clock.sleep_until(self.options.clock.now() + wait).await;
                    }
                    number += 1;
                }
            }
        }
    }

    async fn reconnecting(&mut self, why: String) {
        self.shared.state.send_replace(State::Reconnecting);
        self.tell(Event::Reconnecting { why }).await;
    }

    /// What the end of a connection means: the end of the client, or another attempt.
    fn lost(&mut self, loss: &Loss) -> Option<Ending> {
        if self.left {
            return Some(Ending::Left);
        }
        let over = self.shared.view.lock().over.clone();
        if let Some(reason) = over {
            // The news may overtake the answer to who asked for it.
            let _settled = self.farewell();
            return Some(Ending::MeetingOver(reason));
        }
        self.done = *loss == Loss::Code(CloseCode::Done.number());
        // Who wants to leave does not come back to say so: if it was not heard, the seat ends by its time.
        if (self.done || self.is_leaving())
            && let Some(ending) = self.farewell()
        {
            return Some(ending);
        }
        let Loss::Code(number) = loss else { return None };
        match CloseCode::from_number(*number) {
            Some(CloseCode::Superseded) => Some(Ending::Superseded),
            Some(CloseCode::Kicked) => Some(Ending::Kicked),
            Some(CloseCode::Protocol) => Some(Ending::Protocol),
            _ => None,
        }
    }

    async fn tell(&self, event: Event) {
        if let Some(events) = &self.events {
            let _nobody_listens = events.send(event).await;
        }
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Talks until the connection ends.
    async fn talk(&mut self, mut line: Line) -> Loss {
        loop {
            if let Err(loss) = self.send_due(&mut line).await {
                return loss;
            }
            let clock = self.options.clock.clone();
            let due = self.flying.as_ref().and_then(Flying::due);
            let wake = async {
                match due {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                came = line.next() => match came {
                    Ok(message) => if let Err(loss) = self.heard(message).await {
                        return loss;
                    },
                    Err(loss) => return loss,
                },
                () = wake => {}
                Some(asked) = self.asked.recv(), if self.flying.is_none() => {
                    // Who does not wait any more does not want it.
                    self.flying = (!asked.answer.is_closed()).then(|| Flying::new(asked));
                }
            }
        }
    }

    /// Sends the request that is due, if one is.
    async fn send_due(&mut self, line: &mut Line) -> Result<(), Loss> {
        let now: Tick = self.options.clock.now();
        if !self.flying.as_ref().is_some_and(|flying| flying.is_due(now)) {
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
        Ok(line.writer.send(&message).await?)
    }

    async fn heard(&mut self, message: ServerMessage) -> Result<(), Loss> {
        let step = view::apply(&mut self.shared.view.lock(), &message);
        self.shared.version.send_modify(|version| *version += 1);
        match step {
            Step::New(news) => {
                let over = matches!(news, News::Ended(_));
                let durable = message.durable != Some(false);
                self.tell(Event::News { seq: message.event_seq, durable, news }).await;
                if over {
                    return Err(Loss::Lost("the meeting is over".to_owned()));
                }
            }
            Step::Answer(error) => self.answered(message.seq, error.as_ref()),
            Step::Redirect(redirect) => {
                let hashes = redirect.certificate_sha256.iter().map(|hash| hash.to_vec()).collect();
                self.redirect = Some(Place { url: redirect.new_mc_endpoint, hashes });
                return Err(Loss::Lost("the meeting moved".to_owned()));
            }
            Step::Gap => return Err(Loss::Lost("events are missing".to_owned())),
            Step::Rewritten => {
                // Asks for everything anew: what is known is not what happened.
                self.shared.view.lock().missing = u32::MAX;
                return Err(Loss::Lost("what was told did not happen".to_owned()));
            }
            Step::Welcome { .. } | Step::Roster | Step::Repeated | Step::Nothing => {}
        }
        Ok(())
    }

    fn answered(&mut self, seq: u64, error: Option<&meet_wire::signaling::ErrorMessage>) {
        let Some(flying) = self.flying.take() else { return };
        let verdict = flying.answered(seq, error, self.options.clock.now());
        self.settle(verdict);
    }

    fn settle(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Done(asked, outcome) => {
                self.left |= outcome.is_ok() && matches!(asked.payload, Ask::LeaveRequest(_));
                let _nobody_waits = asked.answer.send(outcome);
            }
            Verdict::Later(flying) | Verdict::Other(flying) => self.flying = Some(flying),
        }
    }

    fn is_leaving(&self) -> bool {
        self.flying.as_ref().is_some_and(|flying| matches!(flying.asked.payload, Ask::LeaveRequest(_)))
    }

    /// A close may overtake the answer to the request that asked for it.
    fn farewell(&mut self) -> Option<Ending> {
        let ending = match self.flying.as_ref()?.asked.payload {
            Ask::LeaveRequest(_) => Ending::Left,
            Ask::EndMeetingRequest(_) => Ending::MeetingOver("a host ended it".to_owned()),
            _ => return None,
        };
        let _nobody_waits = self.flying.take()?.asked.answer.send(Ok(()));
        Some(ending)
    }
}
