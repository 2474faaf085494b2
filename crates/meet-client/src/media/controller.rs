//! The controller of the meeting, as media needs it.

use std::sync::Arc;

use async_trait::async_trait;
use tenure_meet_wire::signaling::client_message::Payload;
use tenure_meet_wire::signaling::{
    MediaConnectionUpdate, MediaGrantRequest, MediaServerInfo, MhConnectionStatus,
};
use tokio::sync::{mpsc, oneshot, watch};

use crate::driver::Shared;
use crate::options::State;
use crate::request::PendingRequest;

/// Supplies grants for handlers and learns how they are reached.
#[async_trait]
pub trait MediaController: Send + Sync + 'static {
    /// Asks for new grants. They arrive with the next change of the handlers.
    async fn request_grants(&self);

    /// Reports the state of sessions. Best effort.
    async fn report(&self, statuses: Vec<MhConnectionStatus>);
}

/// The controller behind a participant.
pub(crate) struct ClientController {
    pub(crate) asked: mpsc::Sender<PendingRequest>,
}

impl ClientController {
    async fn ask(&self, payload: Payload) {
        let (answer, answered) = oneshot::channel();
        if self.asked.send(PendingRequest { payload, answer }).await.is_ok() {
            // A request that failed is repeated when it is due again.
            let _outcome = answered.await;
        }
    }
}

#[async_trait]
impl MediaController for ClientController {
    async fn request_grants(&self) {
        self.ask(Payload::MediaGrantRequest(MediaGrantRequest {})).await;
    }

    async fn report(&self, statuses: Vec<MhConnectionStatus>) {
        self.ask(Payload::MediaConnectionUpdate(MediaConnectionUpdate { statuses })).await;
    }
}

/// Passes the handlers of a participant's view on until the participant ends.
pub(crate) async fn follow_servers(shared: Arc<Shared>, servers: watch::Sender<Vec<MediaServerInfo>>) {
    let mut version = shared.version.subscribe();
    let mut state = shared.state.subscribe();
    loop {
        version.mark_unchanged();
        let now = shared.view.lock().media_servers.clone();
        servers.send_if_modified(|kept| {
            let changed = *kept != now;
            if changed {
                *kept = now;
            }
            changed
        });
        if matches!(*state.borrow_and_update(), State::Over(_)) {
            return;
        }
        tokio::select! {
            changed = version.changed() => if changed.is_err() { return },
            changed = state.changed() => if changed.is_err() { return },
            () = servers.closed() => return,
        }
    }
}
