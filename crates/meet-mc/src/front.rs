//! Where clients arrive: bounded in number, and in how many have not joined yet.

use std::sync::Arc;

use lease::Clock;
use meet_wire::transport::{Listener, Offer};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::actor::Controller;
use crate::metric;

/// Where clients ask for a session.
pub const PATH: &str = "/wt/mc";
/// How many are turned away at once with a word; more are dropped.
const TURNED: usize = 64;
/// What a client is told that there is no room for.
const NO_ROOM: u16 = 503;

/// The bounds of a front.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Connections at once.
    pub connections: usize,
    /// Connections at once that have not joined.
    pub waiting: usize,
}

/// Takes clients in and hands them to a controller.
pub struct Front {
    controller: Controller,
    clock: Arc<dyn Clock>,
    connections: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    turned: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl Front {
    /// Before this controller.
    pub fn new(controller: Controller, clock: Arc<dyn Clock>, room: Room) -> Self {
        Self {
            controller,
            clock,
            connections: Arc::new(Semaphore::new(room.connections.min(Semaphore::MAX_PERMITS))),
            waiting: Arc::new(Semaphore::new(room.waiting.min(Semaphore::MAX_PERMITS))),
            turned: Arc::new(Semaphore::new(TURNED)),
            tasks: TaskTracker::new(),
        }
    }

    /// Takes clients in until it is told to stop or nobody arrives any more, then waits for those that are there: the end of the controller
    /// is theirs.
    pub async fn serve(self, listener: Arc<dyn Listener>, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                offer = listener.offer() => match offer {
                    Some(offer) => self.take(offer),
                    None => break,
                },
            }
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn take(&self, offer: Box<dyn Offer>) {
        let room = self.connections.clone().try_acquire_owned().ok();
        let Some((place, wait)) = room.zip(self.waiting.clone().try_acquire_owned().ok()) else {
            return self.refuse(offer, "rejected");
        };
        if self.controller.is_draining() {
            return self.refuse(offer, "draining");
        }
        let (controller, clock) = (self.controller.clone(), self.clock.clone());
        let traceparent = offer.connect().traceparent.clone();
        self.tasks.spawn(async move {
            let late = clock.sleep_until(clock.now() + meet_wire::limits::HANDSHAKE);
            let session = tokio::select! {
                session = offer.accept() => session.ok(),
                () = late => None,
            };
            let Some(session) = session else { return metric::connected("failed") };
            metric::connected("accepted");
            controller.attend(session, traceparent.as_deref(), Some(wait)).await;
            drop(place);
        });
    }

    fn refuse(&self, offer: Box<dyn Offer>, status: &'static str) {
        metric::connected(status);
        let Ok(turn) = self.turned.clone().try_acquire_owned() else { return };
        let (clock, refused) = (self.clock.clone(), offer.reject(NO_ROOM));
        self.tasks.spawn(async move {
            tokio::select! {
                () = refused => {}
                () = clock.sleep_until(clock.now() + meet_wire::limits::HANDSHAKE) => {}
            }
            drop(turn);
        });
    }
}
