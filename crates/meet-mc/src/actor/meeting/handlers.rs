//! Calls to the meeting's media handlers. Their results come back to the actor.
//!
//! Handlers know a meeting by its registration, which has all seats with their mutes and is renewed every few seconds.
//! So a handler that restarted, or missed a call, learns everything again. In between, single calls say what changed:
//! the mask of a seat, a participant that left.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tenure_lease::Tick;
use tenure_lease::breaks::{Break, broken};
use tenure_meet_wire::Id;
use tenure_meet_wire::binding::Secrets;
use tenure_meet_wire::media::grant::HandlerKeys;
use tokio::task::JoinSet;

use super::handler_set::{HandlerHealths, replaced, to_replace};
use crate::actor::limits;
use crate::actor::remote::{
    MediaHandlers, MuteOrder, MuteOutcome, ParticipantRelease, RegisterOutcome, Registration, Replacement,
    SeatMask,
};
use crate::actor::trace::RequestTrace;
use crate::meeting::{HandlerInfo, Input, LeaveReason, Meeting, Mutes, Presence};

/// The result of a call.
pub(super) enum HandlerResult {
    Registered {
        outcomes: Vec<(String, RegisterOutcome)>,
        attempts: usize,
    },
    Muted {
        order: Box<MuteOrder>,
        by: Option<Id>,
        outcomes: Vec<MuteOutcome>,
        /// Whether the order was sent again after a registration.
        repeated: bool,
    },
    Replaced {
        failed: Vec<String>,
        offered: Option<Vec<HandlerInfo>>,
    },
    Released,
    /// The call panicked.
    Failed,
}

/// Three replacements in a minute: more would only move clients around.
#[derive(Default)]
struct ReplacementBudget {
    since: Option<Tick>,
    used: u32,
}

impl ReplacementBudget {
    const PERIOD: Duration = Duration::from_secs(60);

    fn take(&mut self, now: Tick) -> bool {
        if self.since.is_none_or(|since| now >= since + Self::PERIOD) {
            (self.since, self.used) = (Some(now), 0);
        }
        self.used += 1;
        self.used <= limits::REPLACEMENTS
    }
}

pub(super) struct HandlerCalls {
    client: Arc<dyn MediaHandlers>,
    generation: u64,
    calls: JoinSet<HandlerResult>,
    healths: HandlerHealths,
    /// The handlers at which this owner registered last.
    registered: Vec<String>,
    /// Whether a registration is in progress.
    registering: bool,
    /// When the registration is renewed.
    renew_at: Option<Tick>,
    /// Mute orders for handlers that did not know the meeting: sent again after the registration.
    unregistered: Vec<(MuteOrder, Option<Id>)>,
    replacing: bool,
    replacements: ReplacementBudget,
}

impl HandlerCalls {
    pub(super) fn new(client: Arc<dyn MediaHandlers>, generation: u64) -> Self {
        Self {
            client,
            generation,
            calls: JoinSet::new(),
            healths: HandlerHealths::new(),
            registered: Vec::new(),
            registering: false,
            renew_at: None,
            unregistered: Vec::new(),
            replacing: false,
            replacements: ReplacementBudget::default(),
        }
    }

    /// The result of the next finished call; none while no call is running.
    pub(super) async fn next_result(&mut self) -> Option<HandlerResult> {
        let finished = self.calls.join_next().await?;
        Some(finished.unwrap_or(HandlerResult::Failed))
    }

    /// When [`HandlerCalls::renew`] has something to do.
    pub(super) fn next_wake(&self) -> Option<Tick> {
        self.renew_at.filter(|_| !self.registering)
    }

    /// Registers the meeting unless this owner already has, at the same handlers.
    pub(super) fn register_once(&mut self, state: &Meeting, secrets: &Secrets) {
        if !state.handlers.iter().map(|handler| &handler.id).eq(&self.registered) {
            self.healths.retain(|id, _| state.handlers.iter().any(|handler| handler.id == *id));
            self.register(state, secrets, limits::REGISTER_ATTEMPTS);
        }
    }

    /// Renews the registration if it is due.
    pub(super) fn renew(&mut self, state: &Meeting, secrets: &Secrets, now: Tick) {
        if self.next_wake().is_some_and(|at| now >= at) {
            self.register(state, secrets, 1);
        }
    }

    /// Postpones the renewal: this owner may not act now.
    pub(super) fn postpone(&mut self, now: Tick) {
        if self.next_wake().is_some_and(|at| now >= at) {
            self.renew_at = Some(now + limits::RETRY);
        }
    }

    /// Continues under another generation: registers again, since handlers refuse orders of the old one.
    pub(super) fn set_generation(&mut self, generation: u64, now: Tick) {
        self.generation = generation;
        self.register_soon(now);
    }

    /// Registers again as soon as possible.
    pub(super) fn register_soon(&mut self, now: Tick) {
        if !self.registered.is_empty() {
            self.renew_at = Some(now);
        }
    }

    fn register(&mut self, state: &Meeting, secrets: &Secrets, attempts: usize) {
        self.registered = state.handlers.iter().map(|handler| handler.id.clone()).collect();
        if self.registering {
            // What it sends may be outdated: another one follows.
            self.renew_at = Some(Tick::from_nanos(0));
            return;
        }
        (self.registering, self.renew_at) = (true, None);
        let keys = |handler: &HandlerInfo| HandlerKeys::derive(secrets, &state.id, &handler.id);
        let handlers: Vec<_> =
            state.handlers.iter().map(|handler| (handler.clone(), keys(handler))).collect();
        let ids = self.registered.clone();
        let call = self.client.register(Registration {
            meeting: state.id.clone(),
            generation: self.generation,
            handlers,
            seats: state
                .seats
                .values()
                .filter(|_| !broken(Break::RegistersWithoutSeats))
                .map(SeatMask::from)
                .collect(),
            attempts,
        });
        self.spawn(async move {
            let outcomes = ids.into_iter().zip(call.await).collect();
            HandlerResult::Registered { outcomes, attempts }
        });
    }

    fn spawn(&mut self, call: impl Future<Output = HandlerResult> + Send + 'static) {
        self.calls.spawn(RequestTrace::current().run(call));
    }

    fn is_full(&self) -> bool {
        self.calls.len() >= limits::HANDLER_CALLS
    }

    /// Has a mute enforced. `by` is the host that waits for the outcome.
    pub(super) fn enforce_mute(&mut self, state: &Meeting, participant: Id, mutes: &Mutes, by: Option<Id>) {
        let order = MuteOrder {
            meeting: state.id.clone(),
            generation: self.generation,
            participant,
            mutes: mutes.clone(),
            handlers: state.handlers.clone(),
        };
        self.send_mute(order, by, false);
    }

    fn send_mute(&mut self, order: MuteOrder, by: Option<Id>, repeated: bool) {
        if self.is_full() {
            let outcomes = vec![MuteOutcome::Failed; order.handlers.len()];
            let order = Box::new(order);
            self.spawn(std::future::ready(HandlerResult::Muted { order, by, outcomes, repeated: true }));
            return;
        }
        let call = self.client.enforce_mute(order.clone());
        self.spawn(async move {
            let outcomes = call.await;
            HandlerResult::Muted { order: Box::new(order), by, outcomes, repeated }
        });
    }

    /// Has the sessions of a participant ended. If the call is lost, the next registration lacks the seat.
    pub(super) fn release_participant(
        &mut self,
        state: &Meeting,
        participant: Id,
        epoch: u64,
        reason: LeaveReason,
    ) {
        if self.is_full() || self.registered.is_empty() {
            return;
        }
        let call = self.client.release_participant(ParticipantRelease {
            meeting: state.id.clone(),
            generation: self.generation,
            participant,
            epoch,
            reason,
            handlers: state.handlers.clone(),
        });
        self.spawn(async move {
            call.await;
            HandlerResult::Released
        });
    }

    /// Records what a client says about its connection to a handler. A failure makes the controller look for itself.
    pub(super) fn report(&mut self, state: &Meeting, user: &str, url: &str, connected: bool, now: Tick) {
        let handler = state.handlers.iter().find(|handler| handler.webtransport_endpoint == url);
        let Some(handler) = handler else { return };
        let news = self.healths.entry(handler.id.clone()).or_default().report(user, connected);
        if news && !connected {
            self.register_soon(now);
        }
    }

    /// Takes the result of a call; returns the input that it leads to.
    pub(super) fn accept(&mut self, result: HandlerResult, state: &Meeting, now: Tick) -> Option<Input> {
        match result {
            HandlerResult::Registered { outcomes, attempts } => {
                self.registering = false;
                let again = self.renew_at.take().is_some();
                self.renew_at = Some(if again { now } else { now + limits::RENEWAL });
                for (id, outcome) in outcomes {
                    self.healths.entry(id).or_default().record(outcome, attempts);
                }
                for (order, by) in std::mem::take(&mut self.unregistered) {
                    self.send_mute(order, by, true);
                }
                self.replace_lost(state, now);
                None
            }
            HandlerResult::Muted { order, by, outcomes, repeated } => {
                if !repeated && outcomes.contains(&MuteOutcome::NotRegistered) {
                    self.unregistered.push((*order, by));
                    self.register_soon(now);
                    return None;
                }
                if by.is_none() && outcomes.contains(&MuteOutcome::Failed) {
                    // The registration has the mask as well.
                    self.register_soon(now);
                }
                let handlers = order.handlers.iter().zip(outcomes);
                let missing = handlers.filter(|(_, outcome)| *outcome != MuteOutcome::Enforced);
                let missing = missing.map(|(handler, _)| handler.id.clone()).collect();
                let (participant, epoch) = (order.participant, order.mutes.epoch);
                by.map(|by| Input::MuteEnforced { participant, epoch, by, missing })
            }
            HandlerResult::Replaced { failed, offered } => {
                self.replacing = false;
                replaced(&state.handlers, &failed, offered?).map(Input::Handlers)
            }
            HandlerResult::Released => None,
            HandlerResult::Failed => {
                (self.registering, self.replacing) = (false, false);
                self.register_soon(now);
                None
            }
        }
    }

    /// Asks for other handlers in place of those that are lost.
    fn replace_lost(&mut self, state: &Meeting, now: Tick) {
        let connected = state.seats.values().filter(|seat| seat.presence == Presence::Connected);
        let users: BTreeSet<&str> = connected.map(|seat| seat.user.as_str()).collect();
        let lost = to_replace(&state.handlers, &self.healths, users.len());
        let Some((failed, reason)) = lost else { return };
        if self.replacing || !self.replacements.take(now) {
            return;
        }
        self.replacing = true;
        let kept = state.handlers.iter().map(|handler| handler.id.clone());
        let kept = kept.filter(|id| !failed.contains(id)).collect();
        let meeting = state.id.clone();
        let call = self.client.replace(Replacement { meeting, failed: failed.clone(), kept, reason });
        self.spawn(async move { HandlerResult::Replaced { failed, offered: call.await } });
    }

    /// Cancels running calls.
    pub(super) async fn stop(&mut self) {
        self.calls.shutdown().await;
    }

    /// Releases the meeting at the handlers that know it.
    pub(super) async fn release(&self, state: &Meeting) {
        if !self.registered.is_empty() {
            self.client.release(&state.id, self.generation, &state.handlers).await;
        }
    }
}
