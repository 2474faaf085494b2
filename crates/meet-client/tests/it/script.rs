//! A scripted controller, for behavior that the real one cannot be made to show.

use std::sync::Arc;
use std::time::Duration;

use tenure_keeper::OsEntropy;
use tenure_lease::Clock;
use tenure_meet_client::{Client, Ending, Event, Events, News, Options, Refused};
use tenure_meet_wire::CloseCode;
use tenure_meet_wire::jwt::Role;
use tenure_meet_wire::signaling::client_message::Payload as Ask;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{
    Accepted, ChatMessage, ClientMessage, ErrorCode, ErrorMessage, JoinRequest, JoinResponse, Participant,
    Ping, Pong, RedirectToMc, ServerMessage,
};
use tenure_meet_wire::transport::memory::{self, Listener};
use tenure_meet_wire::transport::{Listener as _, MessageReader, MessageWriter, Session};
use tenure_store::{Local, TokioClock};
use tenure_testkit_meet::{FlakyTransport, ScriptedJoinApi, TestMeeting};

use crate::party::{MC, connected};

pub(crate) struct Stage {
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) listener: Listener,
    pub(crate) transport: Arc<FlakyTransport>,
    pub(crate) join_api: Arc<ScriptedJoinApi>,
}

/// The controller's end of a connection.
pub(crate) struct Scene {
    session: Arc<dyn Session>,
    writer: MessageWriter,
    reader: MessageReader,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(TokioClock::default());
        let store: Arc<dyn tenure_lease::Store> = Arc::new(Local::memory_on(clock.clone()));
        // Used only to issue tokens.
        let tokens = TestMeeting::open(&store, "mc-1").unwrap().tokens();
        let (listener, dialer) = memory::listener();
        let transport = FlakyTransport::new();
        transport.add_route(MC, dialer);
        Self {
            clock,
            listener,
            transport,
            join_api: ScriptedJoinApi::in_memory(tokens, "ada", Role::Host, MC),
        }
    }

    async fn client(&self) -> Result<(Client, Events), Ending> {
        let options = Options::new("Ada", self.clock.clone(), Arc::new(OsEntropy));
        Client::join(self.join_api.clone(), self.transport.clone(), options).await
    }

    /// Accepts the next connection and its join request.
    pub(crate) async fn scene(&self) -> (Scene, JoinRequest, u64) {
        let session = self.listener.offer().await.unwrap().accept().await.unwrap();
        let (send, receive) = session.accept_bi().await.unwrap();
        let mut scene =
            Scene { session, writer: MessageWriter::new(send), reader: MessageReader::new(receive) };
        let first = scene.next().await;
        assert!(tenure_meet_wire::TraceParent::parse(&first.trace_parent).is_some());
        let Some(Ask::JoinRequest(join)) = first.payload else { panic!("not a join") };
        (scene, join, first.seq)
    }

    /// A joined client.
    pub(crate) async fn seated(&self) -> (Client, Events, Scene) {
        let (joined, scene) = tokio::join!(self.client(), async {
            let (mut scene, join, seq) = self.scene().await;
            assert!(join.binding_token.is_empty() && !join.attempt_id.is_empty());
            scene.say(seq, 0, Payload::JoinResponse(welcome("t1"))).await;
            scene
        });
        let (client, mut events) = joined.unwrap();
        assert_eq!(connected(&events.recv().await.unwrap()), Some((false, false)));
        (client, events, scene)
    }
}

impl Scene {
    /// The next message. Pings are answered.
    pub(crate) async fn next(&mut self) -> ClientMessage {
        loop {
            let message: ClientMessage = self.reader.next().await.unwrap().expect("a message");
            let Some(Ask::Ping(ping)) = &message.payload else { return message };
            self.say(message.seq, 0, Payload::Pong(Pong { nonce: ping.nonce })).await;
        }
    }

    /// Answers pings; never returns, also when the client leaves.
    pub(crate) async fn stay(&mut self) {
        while let Ok(Some(message)) = self.reader.next::<ClientMessage>().await {
            let Some(Ask::Ping(Ping { nonce })) = message.payload else { panic!("{message:?}") };
            let pong =
                ServerMessage { payload: Some(Payload::Pong(Pong { nonce })), ..ServerMessage::default() };
            // The client may have left meanwhile.
            let _client_gone = self.writer.send(&pong).await;
        }
        std::future::pending().await
    }

    pub(crate) async fn say(&mut self, seq: u64, event_seq: u64, payload: Payload) {
        let message = ServerMessage { payload: Some(payload), seq, event_seq, ..ServerMessage::default() };
        self.writer.send(&message).await.unwrap();
    }

    async fn accept(&mut self, seq: u64) {
        self.say(seq, 0, Payload::Accepted(Accepted {})).await;
    }

    async fn refuse(&mut self, seq: u64, code: ErrorCode) {
        let error = ErrorMessage { code: code.into(), message: "no".to_owned(), ..ErrorMessage::default() };
        self.say(seq, 0, Payload::Error(error)).await;
    }
}

fn welcome(token: &str) -> JoinResponse {
    JoinResponse {
        participant_id: "me".to_owned(),
        correlation_id: format!("c-{token}"),
        binding_token: token.to_owned(),
        event_seq: 7,
        self_state: Some(Participant { participant_id: "me".to_owned(), ..Participant::default() }),
        ..JoinResponse::default()
    }
}

pub(crate) fn resumed(token: &str, seen: u64, applied_seq: u64) -> Payload {
    let answer = JoinResponse { resumed: true, replay: true, event_seq: seen, applied_seq, ..welcome(token) };
    Payload::JoinResponse(answer)
}

fn said(text: &str) -> Payload {
    Payload::ChatMessage(ChatMessage { text: text.to_owned(), ..ChatMessage::default() })
}

#[tokio::test(start_paused = true)]
async fn a_request_is_retried_under_new_numbers_while_migrating_or_rate_limited() {
    let stage = Stage::new();
    let (client, _events, mut scene) = stage.seated().await;
    let (sent, numbers) = tokio::join!(client.chat("x"), async {
        let (mut numbers, mut at) = (Vec::new(), Vec::new());
        for code in [ErrorCode::Migrating, ErrorCode::Migrating, ErrorCode::RateLimited] {
            let seq = scene.next().await.seq;
            numbers.push(seq);
            at.push(stage.clock.now());
            scene.refuse(seq, code).await;
        }
        let seq = scene.next().await.seq;
        at.push(stage.clock.now());
        scene.accept(seq).await;
        numbers.push(seq);
        let waits: Vec<Duration> = at.windows(2).map(|two| two[1].since(two[0])).collect();
        assert!(waits[0] >= Duration::from_millis(500) && waits[2] >= Duration::from_secs(1), "{waits:?}");
        numbers
    });
    sent.unwrap();
    assert!(numbers.windows(2).all(|two| two[1] > two[0]), "{numbers:?}");
    let (no, ()) = tokio::join!(client.chat("y"), async {
        let seq = scene.next().await.seq;
        scene.refuse(seq, ErrorCode::Unavailable).await;
    });
    assert!(matches!(no, Err(Refused::No { code: ErrorCode::Unavailable, .. })));
}

#[tokio::test(start_paused = true)]
async fn after_a_loss_only_unapplied_requests_are_sent_again() {
    for applied in [true, false] {
        let stage = Stage::new();
        let (client, _events, mut scene) = stage.seated().await;
        let (sent, ()) = tokio::join!(client.chat("x"), async {
            let seq = scene.next().await.seq;
            stage.transport.cut();
            let (mut scene, join, join_seq) = stage.scene().await;
            assert_eq!((join.correlation_id.as_str(), join.binding_token.as_str()), ("c-t1", "t1"));
            assert_eq!(join.last_event_seq, 7);
            scene.say(join_seq, 0, resumed("t2", 7, if applied { seq } else { seq - 1 })).await;
            if !applied {
                let again = scene.next().await;
                assert!(again.seq > seq && matches!(again.payload, Some(Ask::ChatRequest(_))));
                scene.accept(again.seq).await;
            }
        });
        sent.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_resume_response_is_requested_again_as_the_same_attempt() {
    let stage = Stage::new();
    let (client, mut events, scene) = stage.seated().await;
    stage.transport.cut();
    drop(scene);
    let (_silent, first, _) = stage.scene().await;
    // Without a response, the client retries within the five seconds in which the same attempt gets the same response.
    let began = stage.clock.now();
    let (mut scene, second, seq) = stage.scene().await;
    assert!(stage.clock.now().since(began) < Duration::from_secs(5));
    assert_eq!((&first.attempt_id, &first.binding_token), (&second.attempt_id, &second.binding_token));
    scene.say(seq, 0, resumed("t2", 7, 0)).await;
    loop {
        if let Some(how) = connected(&events.recv().await.unwrap()) {
            assert_eq!(how, (true, true));
            break;
        }
    }
    stage.transport.cut();
    let (_scene, third, _) = stage.scene().await;
    assert_ne!(third.attempt_id, first.attempt_id, "another loss is another attempt");
    assert_eq!(third.binding_token, "t2");
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn losing_the_participant_leaves_a_request_in_flight_unknown() {
    let stage = Stage::new();
    let (client, _events, mut scene) = stage.seated().await;
    let (sent, _scene) = tokio::join!(client.chat("x"), async {
        scene.next().await;
        stage.transport.cut();
        let (mut scene, _, seq) = stage.scene().await;
        scene.say(seq, 0, Payload::JoinResponse(welcome("t9"))).await;
        scene
    });
    assert_eq!(sent, Err(Refused::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_not_applied_and_the_client_resumes_before_it() {
    let stage = Stage::new();
    let (client, mut events, mut scene) = stage.seated().await;
    scene.say(0, 8, said("eight")).await;
    scene.say(0, 10, said("ten")).await;
    let (mut scene, join, seq) = stage.scene().await;
    assert_eq!(join.last_event_seq, 8);
    scene.say(seq, 0, resumed("t2", 8, 0)).await;
    for (number, text) in [(8, "eight"), (9, "nine"), (10, "ten")] {
        scene.say(0, number, said(text)).await;
    }
    let mut chat = Vec::new();
    while chat.len() < 3 {
        if let Event::News { news: News::Chat(said), .. } = events.recv().await.unwrap() {
            chat.push(said.text);
        }
    }
    assert_eq!(chat, ["eight", "nine", "ten"]);
    assert_eq!(client.view(|view| view.event_seq), 10);
}

#[tokio::test(start_paused = true)]
async fn events_that_were_not_persisted_make_the_client_request_a_snapshot() {
    let stage = Stage::new();
    let (client, _events, mut scene) = stage.seated().await;
    let volatile = ServerMessage {
        payload: Some(said("maybe")),
        event_seq: 8,
        durable: Some(false),
        ..ServerMessage::default()
    };
    scene.writer.send(&volatile).await.unwrap();
    client.until(|view| (view.event_seq == 8).then_some(())).await;
    stage.transport.cut();
    let (mut scene, join, seq) = stage.scene().await;
    assert_eq!(join.last_event_seq, 7, "from before the unpersisted events");
    scene.say(seq, 0, resumed("t2", 7, 0)).await;
    scene.say(0, 8, said("something else")).await;
    let (mut scene, join, seq) = stage.scene().await;
    assert_eq!(join.last_event_seq, u64::MAX, "a number that requests a snapshot");
    let anew = JoinResponse { resumed: true, event_seq: 8, ..welcome("t3") };
    scene.say(seq, 0, Payload::JoinResponse(anew)).await;
    client
        .until(|view| (view.event_seq == 8 && view.is_whole() && view.lines.is_empty()).then_some(()))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_redirect_is_followed_with_its_certificates() {
    let stage = Stage::new();
    let (_client, _events, mut scene) = stage.seated().await;
    let (listener, dialer) = memory::listener();
    stage.transport.add_route("https://mc-9/wt/mc", dialer);
    let redirect =
        RedirectToMc { new_mc_endpoint: "https://mc-9/wt/mc".to_owned(), ..RedirectToMc::default() };
    scene.say(0, 0, Payload::RedirectToMc(redirect)).await;
    let offer = listener.offer().await.unwrap();
    assert!(offer.connect().traceparent.is_some());
    assert_eq!(stage.transport.dials().last().unwrap().0, "https://mc-9/wt/mc");
}

#[tokio::test(start_paused = true)]
async fn every_close_code_has_its_effect() {
    for code in CloseCode::ALL {
        let stage = Stage::new();
        let (client, _events, scene) = stage.seated().await;
        scene.session.close_for(code);
        let ending = match code {
            CloseCode::Superseded => Some(Ending::Superseded),
            CloseCode::Kicked => Some(Ending::Kicked),
            CloseCode::Protocol => Some(Ending::Protocol),
            CloseCode::Done | CloseCode::Fenced | CloseCode::Draining | CloseCode::TooSlow => None,
        };
        match ending {
            Some(ending) => assert_eq!(client.over().await, ending),
            None => {
                let (mut scene, join, seq) = stage.scene().await;
                assert_eq!(join.binding_token, "t1", "{code:?}: resumes");
                if code == CloseCode::Done {
                    scene.refuse(seq, ErrorCode::NotFound).await;
                    assert!(matches!(client.over().await, Ending::MeetingOver(_)));
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn garbage_from_a_controller_ends_the_connection_and_not_the_client() {
    let stage = Stage::new();
    let (client, _events, mut scene) = stage.seated().await;
    scene.writer.send_frame(bytes::Bytes::from_static(&[0, 0, 0, 2, 0xff, 0xff])).await.unwrap();
    let (mut scene, join, seq) = stage.scene().await;
    assert_eq!(join.binding_token, "t1");
    scene.say(seq, 0, resumed("t2", 7, 0)).await;
    scene.say(0, 8, said("fine")).await;
    client.until(|view| (view.event_seq == 8).then_some(())).await;
}
