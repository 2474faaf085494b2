//! Calls to the meeting's media handlers. Results come back to the actor as inputs.

use std::sync::Arc;

use tenure_meet_wire::Id;
use tokio::task::JoinSet;

use crate::actor::limits;
use crate::actor::remote::{MediaHandlers, MuteOrder};
use crate::actor::trace::RequestTrace;
use crate::meeting::{Input, Meeting, Mutes};

pub(super) struct HandlerCalls {
    client: Arc<dyn MediaHandlers>,
    generation: u64,
    calls: JoinSet<Option<Input>>,
    /// Whether this owner has registered at the current handlers.
    registered: bool,
    /// Registrations that may still ask for replacements.
    registrations: u32,
}

impl HandlerCalls {
    pub(super) fn new(client: Arc<dyn MediaHandlers>, generation: u64) -> Self {
        Self { client, generation, calls: JoinSet::new(), registered: false, registrations: 0 }
    }

    /// The result of the next finished call; none while no call is running. A call that failed has no input.
    pub(super) async fn next_result(&mut self) -> Option<Option<Input>> {
        let finished = self.calls.join_next().await?;
        Some(finished.ok().flatten())
    }

    /// Registers the meeting unless this owner already has. If no handler accepts it, others are used, a few times.
    pub(super) fn register_once(&mut self, state: &Meeting) {
        if self.registered {
            return;
        }
        self.registered = true;
        let call = self.client.register(&state.id, self.generation, &state.handlers);
        let may_replace = self.registrations < limits::REPLACEMENTS;
        self.registrations += 1;
        let done = async move { call.await.filter(|_| may_replace).map(Input::Handlers) };
        self.calls.spawn(RequestTrace::current().run(done));
    }

    /// The handlers were replaced: the next registration goes to the new ones.
    pub(super) fn forget_registration(&mut self) {
        self.registered = false;
    }

    pub(super) fn enforce_mute(&mut self, state: &Meeting, participant: Id, mutes: &Mutes, by: Id) {
        let order = MuteOrder {
            meeting: state.id.clone(),
            generation: self.generation,
            participant,
            mutes: mutes.clone(),
            handlers: state.handlers.clone(),
        };
        let epoch = mutes.epoch;
        let call = self.client.enforce_mute(order);
        self.calls.spawn(
            RequestTrace::current().run(async move {
                Some(Input::MuteEnforced { participant, epoch, by, missing: call.await })
            }),
        );
    }

    /// Cancels running calls.
    pub(super) async fn stop(&mut self) {
        self.calls.shutdown().await;
    }

    /// Releases the meeting at the handlers that know it.
    pub(super) async fn release(&self, state: &Meeting) {
        if self.registered {
            self.client.release(&state.id, self.generation, &state.handlers).await;
        }
    }
}
