//! Connects a meeting to its other handlers. Of two handlers, the one with the lower id dials.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_meet_wire::CloseCode;
use tenure_meet_wire::media::relay::relay_message::Payload;
use tenure_meet_wire::media::relay::{RelayHello, RelayMessage};
use tenure_meet_wire::transport::{MessageReader, MessageWriter, Session};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::super::meeting::Meeting;
use super::RelayDialer;
use super::link::{self, Connected};
use crate::registry::HandlerPeer;
use crate::{limits, metric};

/// Keeps the links of a meeting: dials the handlers that are named and have a greater id.
pub(crate) async fn run(meeting: Arc<Meeting>, dialer: Arc<dyn RelayDialer>) {
    let mut called = meeting.called.subscribe();
    let mut dialing: HashMap<HandlerPeer, CancellationToken> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        called.borrow_and_update();
        let named = meeting.state.lock().control.peers().to_vec();
        let wanted: Vec<HandlerPeer> = named.into_iter().filter(|peer| meeting.shared.id < peer.id).collect();
        dialing.retain(|peer, cancel| {
            let keep = wanted.contains(peer);
            if !keep {
                cancel.cancel();
            }
            keep
        });
        for peer in wanted {
            dialing.entry(peer).or_insert_with_key(|peer| {
                let cancel = meeting.cancel.child_token();
                tasks.spawn(keep_link(meeting.clone(), dialer.clone(), peer.clone(), cancel.clone()));
                cancel
            });
        }
        tokio::select! {
            () = meeting.cancel.cancelled() => break,
            _ = called.changed() => {}
            Some(_) = tasks.join_next() => {}
        }
    }
    while tasks.join_next().await.is_some() {}
}

/// Connects to one handler while the meeting has members here, again and again.
async fn keep_link(
    meeting: Arc<Meeting>,
    dialer: Arc<dyn RelayDialer>,
    peer: HandlerPeer,
    cancel: CancellationToken,
) {
    let mut occupied = meeting.state.lock().occupied.subscribe();
    let mut pause = limits::RELAY_RETRY.0;
    while !cancel.is_cancelled() {
        tokio::select! {
            () = cancel.cancelled() => return,
            occupied = occupied.wait_for(|occupied| *occupied) => if occupied.is_err() { return },
        }
        let clock = meeting.shared.clock.clone();
        let connecting = connect(&meeting, &*dialer, &peer, &cancel);
        let connected = tokio::select! {
            () = cancel.cancelled() => return,
            connected = connecting => connected,
            () = clock.sleep_until(clock.now() + limits::RELAY_CONNECT) => Err("no answer".to_owned()),
        };
        match connected {
            Ok(connected) => {
                metric::relay_connected("connected");
                pause = limits::RELAY_RETRY.0;
                link::run(meeting.clone(), connected).await;
            }
            Err(error) => {
                metric::relay_connected("failed");
                tracing::warn!(target: metric::TARGET, meeting = %meeting.id, peer = peer.id, error, "no relay");
            }
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = clock.sleep_until(clock.now() + pause) => {}
        }
        pause = next_pause(pause);
    }
}

fn next_pause(pause: Duration) -> Duration {
    (pause * 2).min(limits::RELAY_RETRY.1)
}

/// Dials a handler, which shows its certificate before anything is sent, and introduces this one.
async fn connect(
    meeting: &Meeting,
    dialer: &dyn RelayDialer,
    peer: &HandlerPeer,
    cancel: &CancellationToken,
) -> Result<Connected, String> {
    let service_token = meeting.shared.channels.bearer().await.map_err(|error| error.to_string())?;
    let dialled = dialer.dial(&peer.endpoint, &peer.certificates).await;
    let session = dialled.map_err(|error| error.to_string())?;
    let greeted = greet(meeting, peer, service_token, &session).await;
    if greeted.is_err() {
        session.close_for(CloseCode::Protocol);
    }
    let (reader, writer) = greeted?;
    Ok(Connected { handler: peer.id.clone(), session, reader, writer, cancel: cancel.child_token() })
}

async fn greet(
    meeting: &Meeting,
    peer: &HandlerPeer,
    service_token: String,
    session: &Arc<dyn Session>,
) -> Result<(MessageReader, MessageWriter), String> {
    let (send, receive) = session.open_bi().await.map_err(|error| error.to_string())?;
    let (mut writer, mut reader) = (MessageWriter::new(send), MessageReader::new(receive));
    let (meeting_id, handler_id) = (meeting.id.to_string(), meeting.shared.id.clone());
    let hello = Payload::Hello(RelayHello { service_token, meeting_id, handler_id });
    let sent = writer.send(&RelayMessage { payload: Some(hello) }).await;
    sent.map_err(|error| error.to_string())?;
    let answer: Option<RelayMessage> = reader.next().await.map_err(|error| error.to_string())?;
    match answer.and_then(|answer| answer.payload) {
        Some(Payload::Welcome(welcome)) if welcome.handler_id == peer.id => Ok((reader, writer)),
        _ => Err("the other handler did not accept".to_owned()),
    }
}
