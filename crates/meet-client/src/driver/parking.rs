//! Waiting at the controller that the meeting moves to, while the current one still serves this client.

use tenure_meet_wire::CloseCode;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ClientMessage, PrepareMove, ServerMessage};
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::dial::Endpoint;
use crate::driver::Driver;
use crate::join_api::{Admission, Home};
use crate::limits;

/// A connection at the next controller that resumed this client.
pub(super) struct Switch {
    pub(super) connection: Connection,
    /// Its welcome.
    pub(super) answer: ServerMessage,
    pub(super) admission: Admission,
}

/// The attempt to wait at the next controller; at most one.
#[derive(Default)]
pub(super) struct Parking {
    task: JoinSet<Option<Switch>>,
}

impl Parking {
    /// The connection to switch to; none if the attempt failed. Waits forever while there is no attempt.
    pub(super) async fn next(&mut self) -> Option<Switch> {
        match self.task.join_next().await {
            Some(attempt) => attempt.ok().flatten(),
            None => std::future::pending().await,
        }
    }

    /// Whether an attempt is in progress.
    pub(super) fn is_waiting(&self) -> bool {
        !self.task.is_empty()
    }

    /// Gives the attempt up: the move was aborted, or another one begins.
    pub(super) fn stop(&mut self) {
        self.task = JoinSet::new();
    }
}

impl Driver {
    /// Connects to the next controller and waits there for the meeting.
    pub(super) fn park(&mut self, prepare: &PrepareMove) {
        self.parking.stop();
        let (Some(admission), true) = (&self.admission, self.proof.is_some()) else { return };
        let place = Endpoint {
            url: prepare.new_mc_endpoint.clone(),
            hashes: prepare.certificate_sha256.iter().map(|hash| hash.to_vec()).collect(),
        };
        let (mc_id, generation) = (prepare.mc_id.clone(), prepare.generation);
        let admission = admission.at(Home { mc_id, place: place.clone(), generation });
        let seq = self.next_seq();
        let join = self.join_request(&admission, prepare.move_ticket.clone(), seq);
        let (dial, trace, clock) = (self.dial.clone(), self.trace.clone(), self.options.clock.clone());
        self.parking.task.spawn(async move {
            let arrive = async {
                let session = dial.dial(&place, &trace).await.ok()?;
                let connection = Connection::open(session).await.ok()?;
                wait_for_meeting(connection, join, admission).await
            };
            tokio::select! {
                biased;
                arrived = arrive => arrived,
                () = clock.sleep_until(clock.now() + limits::PARKED) => None,
            }
        });
    }
}

async fn wait_for_meeting(
    mut connection: Connection,
    join: ClientMessage,
    admission: Admission,
) -> Option<Switch> {
    connection.writer.send(&join).await.ok()?;
    let answer = connection.next().await.ok()?;
    match answer.payload {
        Some(Payload::JoinResponse(ref welcome)) if welcome.resumed => {
            Some(Switch { connection, answer, admission })
        }
        _ => {
            connection.session.close_for(CloseCode::Done);
            None
        }
    }
}
