//! Real QUIC on loopback, through a proxy that the test can break.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_keeper::OsEntropy;
use tenure_lease::Store;
use tenure_meet_client::{Client, Endpoint, Options};
use tenure_meet_wire::jwt::Role;
use tenure_meet_wire::signaling::client_message::Payload as Ask;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ChatRequest, ClientMessage, ErrorCode, Presence, ServerMessage};
use tenure_meet_wire::transport::quic::{Dialer, Timing};
use tenure_meet_wire::transport::{Closed, MessageReader, MessageWriter};
use tenure_store::{BootClock, Local};
use tenure_testkit::{UdpProxy, wait};
use tenure_testkit_meet::{ScriptedJoinApi, TestMeeting};

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const LIMIT: Duration = Duration::from_secs(60);
/// Generous, because a busy machine can stall a test.
const PATIENT: Timing = Timing { idle: Duration::from_secs(60), keep_alive: Duration::from_secs(5) };
/// A short idle timeout. A spurious loss only reconnects, so a slow machine does not fail the test.
const ALERT: Timing = Timing { idle: Duration::from_secs(2), keep_alive: Duration::from_millis(400) };

struct Net {
    meeting: TestMeeting,
    proxy: UdpProxy,
    /// Connected through the proxy.
    place: Endpoint,
    /// Connected directly.
    direct: Endpoint,
}

async fn net(timing: Timing) -> Net {
    let store: Arc<dyn Store> = Arc::new(Local::memory());
    let mut meeting = TestMeeting::open(&store, "mc-1").unwrap();
    meeting.assign().await.unwrap();
    let (address, mut place) = meeting.on_loopback(timing).unwrap();
    let (proxy, direct) = (UdpProxy::start(address).unwrap(), place.clone());
    place.url = format!("https://{}/wt/mc", proxy.addr());
    Net { meeting, proxy, place, direct }
}

impl Net {
    async fn join(&self, user: &str, role: Role, timing: Timing) -> Client {
        self.join_at(&self.place, user, role, timing).await
    }

    async fn join_at(&self, place: &Endpoint, user: &str, role: Role, timing: Timing) -> Client {
        let join_api = ScriptedJoinApi::new(self.meeting.tokens(), user, role, place.clone());
        let dialer = Arc::new(Dialer::new(ANY, timing).unwrap());
        let options = Options::new(user, Arc::new(BootClock), Arc::new(OsEntropy)).bare();
        let options = Options { lines: 100, ..options };
        Client::join(join_api, dialer, options).await.unwrap().0
    }
}

async fn sees(client: &Client, what: &str, check: impl Fn(&tenure_meet_client::View) -> bool) {
    wait::until_async(what, LIMIT, async || client.view(&check)).await.unwrap();
}

fn lines(client: &Client) -> Vec<String> {
    client.view(|view| view.lines.iter().map(|line| line.said.text.clone()).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_resumes_after_packet_loss_and_after_refused_packets() {
    let net = net(ALERT).await;
    let ada = net.join_at(&net.direct, "ada", Role::Host, ALERT).await;
    let bob = net.join("bob", Role::Participant, ALERT).await;
    let (id, mut expected) = (bob.own().unwrap().participant_id, Vec::new());
    for refuse in [false, true] {
        if refuse {
            net.proxy.clients().into_iter().for_each(|client| net.proxy.refuse(client).unwrap());
        } else {
            net.proxy.lose_those(|_| true);
        }
        sees(&ada, "the participant is disconnected", |view| {
            view.people.get(&id).is_some_and(|person| person.presence() == Presence::Disconnected)
        })
        .await;
        for word in ["one", "two"] {
            ada.chat(word).await.unwrap();
            expected.push(word.to_owned());
        }
        net.proxy.pass();
        net.proxy.accept().unwrap();
        sees(&ada, "the participant is connected again", |view| {
            view.people.get(&id).is_some_and(|person| person.presence() == Presence::Connected)
        })
        .await;
        sees(&bob, "all messages arrived", |view| view.lines.len() == expected.len()).await;
        assert_eq!(lines(&bob), expected);
    }
    assert_eq!(bob.own().unwrap().participant_id, id);
    assert_eq!(net.meeting.controller.counts().await.participants, 2);
    bob.leave().await;
    sees(&ada, "the participant left", |view| view.people.len() == 1).await;
}

struct Raw {
    session: Arc<dyn tenure_meet_wire::transport::Session>,
    writer: MessageWriter,
    reader: MessageReader,
}

async fn raw(net: &Net) -> Raw {
    let session =
        Dialer::new(ANY, PATIENT).unwrap().dial(&net.place.url, &net.place.hashes, None).await.unwrap();
    let (send, receive) = session.open_bi().await.unwrap();
    Raw { session, writer: MessageWriter::new(send), reader: MessageReader::new(receive) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_protocol_violation_closes_only_the_violating_client() {
    let net = net(PATIENT).await;
    let ada = net.join("ada", Role::Host, PATIENT).await;
    let garbage: [&'static [u8]; 4] = [&[0xff; 64], &[0; 8], &[0, 0, 0, 2, 0xff, 0xff], &[0, 1, 0, 1, 7]];
    for bytes in garbage {
        let mut raw = raw(&net).await;
        raw.writer.send_frame(Bytes::from_static(bytes)).await.unwrap();
        assert_eq!(raw.session.closed().await, Closed::Code(4005), "{bytes:?}");
    }
    let mut raw = raw(&net).await;
    let first = ClientMessage {
        payload: Some(Ask::ChatRequest(ChatRequest { text: "me first".to_owned() })),
        seq: 1,
        ..ClientMessage::default()
    };
    raw.writer.send(&first).await.unwrap();
    let answer: ServerMessage = raw.reader.next().await.unwrap().unwrap();
    assert!(
        matches!(answer.payload, Some(Payload::Error(error)) if error.code() == ErrorCode::InvalidRequest)
    );
    ada.chat("undisturbed").await.unwrap();
    assert_eq!(net.meeting.controller.counts().await.participants, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_share_one_socket() {
    let net = net(PATIENT).await;
    let dialer = Arc::new(Dialer::new(ANY, PATIENT).unwrap());
    let mut clients = Vec::new();
    for number in 0..8 {
        let user = format!("user-{number}");
        let join_api =
            ScriptedJoinApi::new(net.meeting.tokens(), &user, Role::Participant, net.place.clone());
        let options = Options::new(&user, Arc::new(BootClock), Arc::new(OsEntropy)).bare();
        clients.push(Client::join(join_api, dialer.clone(), options).await.unwrap().0);
    }
    clients[0].chat("hello").await.unwrap();
    for client in &clients {
        sees(client, "everything", |view| view.event_seq == 9 && view.people.len() == 8).await;
    }
    assert_eq!(net.proxy.clients().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_without_a_hash_needs_a_trusted_authority() {
    let mut net = net(PATIENT).await;
    let authority = net.meeting.certificate().unwrap();
    net.place.hashes.clear();
    let dialer = Dialer::new(ANY, PATIENT).unwrap();
    let refused = dialer.dial(&net.place.url, &net.place.hashes, None).await;
    assert!(refused.is_err());
    let trusting = Arc::new(dialer.trusting([authority]));
    let join_api = ScriptedJoinApi::new(net.meeting.tokens(), "ada", Role::Host, net.place.clone());
    let options = Options::new("ada", Arc::new(BootClock), Arc::new(OsEntropy));
    Client::join(join_api, trusting, options).await.unwrap();
}
