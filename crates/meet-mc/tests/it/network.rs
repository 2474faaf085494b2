//! A controller over real QUIC, on loopback.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Store};
use tenure_meet_wire::jwt::Role;
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ChatRequest, ClientMessage, ServerMessage};
use tenure_meet_wire::transport::certificate::Pair;
use tenure_meet_wire::transport::quic::{Dialer, Listener, Timing};
use tenure_meet_wire::transport::{Closed, Listener as _, MessageReader, MessageWriter, Session};
use tenure_store::{BootClock, Local};
use tokio::task::JoinSet;

use crate::harness::Harness;

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Long, since a busy machine may pause a test.
const PATIENT: Timing = Timing { idle: Duration::from_secs(60), keep_alive: Duration::from_secs(5) };

struct ClientConnection {
    session: Arc<dyn Session>,
    writer: MessageWriter,
    reader: MessageReader,
}

impl ClientConnection {
    async fn ask(&mut self, seq: u64, ask: ClientPayload) {
        let message = ClientMessage { payload: Some(ask), seq, ..ClientMessage::default() };
        self.writer.send(&message).await.unwrap();
    }

    async fn next(&mut self) -> ServerMessage {
        self.reader.next().await.unwrap().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn participants_meet_over_the_network_and_a_newer_connection_takes_the_seat() {
    let store: Arc<dyn Store> = Arc::new(Local::memory());
    let harness = Harness::open(&store, "mc-1");
    harness.assign().await;
    let pair = Pair::new(&["127.0.0.1".to_owned()], BootClock.wall()).unwrap();
    let (der, key) = (pair.current().der().unwrap(), pair.current().private_key().unwrap());
    let listener = Listener::bind(ANY, vec![der], key, Arc::new(BootClock), PATIENT).unwrap();
    let url = format!("https://{}/wt/mc", listener.address().unwrap());
    let (controller, mut tasks) = (harness.controller.clone(), JoinSet::new());
    tasks.spawn(async move {
        let mut sessions = JoinSet::new();
        while let Some(offer) = listener.offer().await {
            let (session, controller) = (offer.accept().await.unwrap(), controller.clone());
            sessions.spawn(async move { controller.serve(session).await });
        }
    });
    let dialer = Dialer::new(ANY, PATIENT).unwrap();
    let hashes: Vec<Vec<u8>> = pair.hashes().unwrap().iter().map(|hash| hash.to_vec()).collect();
    let join = async |request| {
        let session = dialer.dial(&url, &hashes, None).await.unwrap();
        let (send, receive) = session.open_bi().await.unwrap();
        let (writer, reader) = (MessageWriter::new(send), MessageReader::new(receive));
        let mut line = ClientConnection { session, writer, reader };
        line.ask(1, ClientPayload::JoinRequest(request)).await;
        let Some(Payload::JoinResponse(answer)) = line.next().await.payload else { panic!("no welcome") };
        (line, answer)
    };
    let (mut ada, first) = join(harness.request("ada", Role::Host)).await;
    let (mut bob, second) = join(harness.request("bob", Role::Participant)).await;
    assert_eq!(second.existing_participants.len(), 1);
    assert!(matches!(ada.next().await.payload, Some(Payload::ParticipantJoined(_))));
    bob.ask(2, ClientPayload::ChatRequest(ChatRequest { text: "hello".to_owned() })).await;
    let heard = ada.next().await;
    assert!(matches!(heard.payload, Some(Payload::ChatMessage(chat)) if chat.text == "hello"));
    let mut again = harness.request("ada", Role::Host);
    again.correlation_id = first.correlation_id;
    again.binding_token = first.binding_token;
    again.last_event_seq = 2;
    let (mut newer, back) = join(again).await;
    assert!(back.resumed && back.replay && back.participant_id == first.participant_id);
    assert_eq!(ada.session.closed().await, Closed::Code(4001));
    assert_eq!(newer.next().await.event_seq, 3, "the chat is replayed to a client that has seen two events");
    tasks.shutdown().await;
}
