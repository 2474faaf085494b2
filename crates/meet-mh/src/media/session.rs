//! The tasks of one session.

use std::sync::Arc;

use tenure_meet_wire::media::Alias;
use tenure_meet_wire::media::message::{MediaEvent, MediaRequest};
use tenure_meet_wire::transport::{Closed, MessageReader, MessageWriter, ReadError};
use tenure_meet_wire::{CloseCode, Id};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::audio::read_datagrams;
use super::incoming::Publisher;
use super::ingest::accept_groups;
use super::meeting::Meeting;
use super::member::Link;
use super::pump::Pump;
use super::subscribe::PumpStart;
use super::viewing::Viewing;
use crate::limits;

/// A session of a member.
pub(crate) struct SessionStart {
    pub(crate) participant: Id,
    pub(crate) serial: u64,
    pub(crate) link: Arc<Link>,
    pub(crate) reader: MessageReader,
    pub(crate) writer: MessageWriter,
    pub(crate) events: mpsc::Receiver<MediaEvent>,
}

/// Serves a member until its session ends. Returns how it ended.
pub(crate) async fn run(meeting: Arc<Meeting>, mut start: SessionStart) -> Closed {
    let (who, link) = ((start.participant, start.serial), start.link.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(write_events(start.writer, start.events));
    let source = Arc::new(Publisher { meeting: meeting.clone(), who, link: link.clone() });
    tasks.spawn(accept_groups(meeting.clone(), source, link.session.clone(), limits::INCOMING_GROUPS));
    tasks.spawn(read_datagrams(meeting.clone(), who, link.clone()));
    let mut pumps = JoinSet::new();
    let session = link.session.clone();
    let closed = session.closed();
    tokio::pin!(closed);
    let ended = loop {
        tokio::select! {
            ended = &mut closed => break ended,
            () = meeting.cancel.cancelled() => break Closed::Code(CloseCode::Done.number()),
            request = start.reader.next::<MediaRequest>() => match request {
                Ok(Some(request)) => {
                    if let Some(pump) = meeting.request(who, request) {
                        start_pump(&mut pumps, &meeting, who, &link, pump);
                    }
                }
                Ok(None) | Err(ReadError::Transport(_)) => {
                    link.session.close_for(CloseCode::Done);
                    break closed.await;
                }
                Err(ReadError::Frame(_) | ReadError::Cut) => {
                    link.session.close_for(CloseCode::Protocol);
                    break closed.await;
                }
            },
            Some(_) = pumps.join_next() => {}
        }
    };
    meeting.leave(who.0, who.1);
    ended
}

fn start_pump(
    pumps: &mut JoinSet<()>,
    meeting: &Arc<Meeting>,
    who: (Id, u64),
    link: &Arc<Link>,
    start: PumpStart,
) {
    let Some(alias) = Alias::new(start.alias.into()) else { return };
    let (meeting, session) = (meeting.clone(), link.session.clone());
    let feed = Viewing { meeting: meeting.clone(), who, alias: start.alias, link: link.clone() };
    let (feed, order, kind) = (Box::new(feed), start.order, start.kind);
    pumps.spawn(Pump { meeting, feed, session, alias, order, kind }.run());
}

/// Writes events to the control stream in their order.
async fn write_events(mut writer: MessageWriter, mut events: mpsc::Receiver<MediaEvent>) {
    while let Some(event) = events.recv().await {
        if writer.send(&event).await.is_err() {
            return;
        }
    }
}
