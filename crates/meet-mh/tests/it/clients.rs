//! Clients of a handler.

use std::sync::Arc;
use std::time::Duration;

use tenure_meet_mh::{PATH, SessionAcceptor};
use tenure_meet_wire::signaling::mh_client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::mh_server_message::Payload;
use tenure_meet_wire::signaling::{ErrorCode, MhClientMessage, MhConnectRequest, MhServerMessage};
use tenure_meet_wire::transport::memory::{self, Dialer, Session};
use tenure_meet_wire::transport::{Closed, Connect, MessageReader, MessageWriter, Paths, Session as _};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::harness::{BOB, Harness, harness};

struct Hall {
    dialer: Dialer,
    stop: CancellationToken,
    _tasks: JoinSet<()>,
}

fn hall(harness: &Harness) -> Hall {
    let (listener, dialer) = memory::listener();
    let mut paths = Paths::new(Arc::new(listener));
    let way = Arc::new(paths.way(PATH));
    let (front, stop) = (SessionAcceptor::new(harness.handler.clone()), CancellationToken::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(paths.run());
    tasks.spawn(front.serve(way, stop.clone()));
    Hall { dialer, stop, _tasks: tasks }
}

struct Client {
    session: Arc<Session>,
    reader: MessageReader,
    _writer: MessageWriter,
}

impl Hall {
    async fn dial(&self) -> Option<Arc<Session>> {
        self.dialer.dial(Connect { path: PATH.to_owned(), ..Connect::default() }).await.ok()
    }

    async fn connect(&self, join_token: String) -> Client {
        let session = self.dial().await.unwrap();
        let (send, receive) = session.open_bi().await.unwrap();
        let (mut writer, reader) = (MessageWriter::new(send), MessageReader::new(receive));
        let request = MhConnectRequest { join_token, participant_id: BOB.to_owned() };
        let payload = Some(ClientPayload::ConnectRequest(request));
        writer.send(&MhClientMessage { payload, seq: 1, ..MhClientMessage::default() }).await.unwrap();
        Client { session, reader, _writer: writer }
    }
}

impl Client {
    async fn next(&mut self) -> Payload {
        self.reader.next::<MhServerMessage>().await.unwrap().unwrap().payload.unwrap()
    }

    async fn error(&mut self) -> ErrorCode {
        match self.next().await {
            Payload::Error(error) => error.code(),
            other => panic!("no error but {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_of_a_registered_meeting_is_admitted_without_media() {
    let harness = harness(10);
    let hall = hall(&harness);
    harness.register(1).await;
    let mut bob = hall.connect(harness.token("abc")).await;
    let Payload::ConnectResponse(answer) = bob.next().await else { panic!("no welcome") };
    assert!(answer.waiting_for_mute_mask, "no mask is known");
    assert_eq!(bob.error().await, ErrorCode::StreamError);
    harness.mute(1, 1, true).await;
    let mut again = hall.connect(harness.token("abc")).await;
    let Payload::ConnectResponse(answer) = again.next().await else { panic!("no welcome") };
    assert!(!answer.waiting_for_mute_mask);
    hall.stop.cancel();
    assert_eq!(bob.session.closed().await, Closed::Code(4003));
}

#[tokio::test(start_paused = true)]
async fn a_connection_to_an_unregistered_meeting_ends_after_fifteen_seconds() {
    let harness = harness(10);
    let hall = hall(&harness);
    let began = harness.now();
    let mut bob = hall.connect(harness.token("abc")).await;
    assert_eq!(bob.error().await, ErrorCode::NotFound);
    assert_eq!(harness.now().since(began).as_secs(), 15);
    assert_eq!(bob.session.closed().await, Closed::Code(0));
}

#[tokio::test(start_paused = true)]
async fn a_client_is_admitted_once_its_meeting_is_registered() {
    let harness = harness(10);
    let hall = hall(&harness);
    let mut bob = hall.connect(harness.token("abc")).await;
    harness.pass(Duration::from_secs(10)).await;
    harness.register(1).await;
    assert!(matches!(bob.next().await, Payload::ConnectResponse(_)));
}

#[tokio::test(start_paused = true)]
async fn bad_tokens_silence_and_garbage_are_refused() {
    let harness = harness(10);
    let hall = hall(&harness);
    harness.register(1).await;
    let mut forged = hall.connect("a.b.c".to_owned()).await;
    assert_eq!(forged.error().await, ErrorCode::Unauthorized);
    let silent = hall.dial().await.unwrap();
    assert_eq!(silent.closed().await, Closed::Code(4005));
    let odd = hall.dial().await.unwrap();
    let (send, _receive) = odd.open_bi().await.unwrap();
    MessageWriter::new(send).send(&MhClientMessage { seq: 1, ..Default::default() }).await.unwrap();
    assert_eq!(odd.closed().await, Closed::Code(4005));
}

#[tokio::test(start_paused = true)]
async fn a_full_handler_refuses_the_next_client_and_the_next_meeting() {
    let harness = harness(1);
    let hall = hall(&harness);
    let first = hall.dial().await.unwrap();
    assert!(hall.dial().await.is_none());
    assert!(!harness.register(1).await.accepted);
    first.wire().cut();
    while hall.dial().await.is_none() {
        harness.pass(Duration::from_millis(10)).await;
    }
}
