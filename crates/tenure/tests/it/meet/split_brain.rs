//! Two controllers that both believe that they own a meeting: real processes on one Redis.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tenure_keeper::OsEntropy;
use tenure_lease::Clock;
use tenure_meet_client::join_api::{RestJoinApi, create};
use tenure_meet_client::{Client, Event, Events, News, Options, View};
use tenure_meet_wire::transport::Closed;
use tenure_meet_wire::transport::quic::{Dialer, Timing};
use tenure_store::BootClock;
use tenure_testkit::{Direction, Mode, RedisServer, wait};

use crate::harness::LIMIT;
use crate::meet::cluster::{Mc, TestCluster};
use crate::meet::installation::{Installation, TOKEN};
use crate::meet::placed;

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Shorter than in production, longer than the pauses of a busy machine.
const LEASES: [(&str, &str); 4] = [
    ("TENURE_MEET__LEASE_TTL_MS", "6000"),
    ("TENURE_MEET__LEASE_RENEW_MS", "500"),
    ("TENURE_MEET__DISCONNECT_GRACE_MS", "600000"),
    ("TENURE_MEET__BINDING_TOKEN_TTL_MS", "600000"),
];

/// A participant and the events that it received.
pub(crate) struct Guest {
    pub(crate) client: Client,
    pub(crate) events: Events,
    received: Vec<Event>,
}

impl Guest {
    pub(crate) async fn join(join_api: RestJoinApi, name: &str) -> Self {
        // Clients notice a paused controller by its silence, not by the network.
        let timing = Timing { idle: Duration::from_secs(60), keep_alive: Duration::from_secs(1) };
        let dialer = Dialer::new(ANY, timing).unwrap();
        let options = Options::new(name, Arc::new(BootClock), Arc::new(OsEntropy));
        let (client, events) = Client::join(Arc::new(join_api), Arc::new(dialer), options).await.unwrap();
        Self { client, events, received: Vec::new() }
    }

    pub(crate) fn id(&self) -> String {
        self.client.own().unwrap().participant_id
    }

    async fn sees(&self, what: &str, look: impl Fn(&View) -> bool) {
        wait::until_async(what, LIMIT, async || self.client.view(&look)).await.unwrap();
    }

    pub(crate) async fn hears(&self, text: &str) {
        self.sees(text, |view| view.lines.iter().any(|line| line.said.text == text)).await;
    }

    pub(crate) fn listen(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.received.push(event);
        }
    }

    /// The numbers of the received events.
    fn numbers(&self) -> Vec<u64> {
        let number = |event: &Event| match event {
            Event::News { seq, .. } if *seq > 0 => Some(*seq),
            _ => None,
        };
        self.received.iter().filter_map(number).collect()
    }

    pub(crate) fn words(&self) -> Vec<&str> {
        self.received
            .iter()
            .filter_map(|event| match event {
                Event::News { news: News::Chat(chat), .. } => Some(chat.text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Why its connections ended, and whether each connection resumed the seat.
    fn losses(&self) -> (Vec<&str>, Vec<bool>) {
        let why = self.received.iter().filter_map(|event| match event {
            Event::Reconnecting { why } => Some(why.as_str()),
            _ => None,
        });
        let back = self.received.iter().filter_map(|event| match event {
            Event::Connected { resumed, .. } => Some(*resumed),
            _ => None,
        });
        (why.collect(), back.collect())
    }
}

/// Whether a write is in flight: the ledger logged it last.
fn is_writing(log: &str) -> bool {
    let last = log.lines().rfind(|line| line.contains("queued") || line.contains("writing"));
    last.is_some_and(|line| line.contains("writing"))
}

async fn counted(mc: &Mc, line: &str) {
    let shown = async || {
        let (_, metrics) = mc.server.ask("GET", "/metrics", None, None).await;
        metrics.as_str().unwrap().lines().any(|shown| shown == line)
    };
    wait::until_async(line, LIMIT, shown).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_paused_past_its_lease_is_fenced_out_and_clients_resume_at_the_next() {
    pause_owner(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_delayed_past_its_lease_is_refused_on_arrival() {
    pause_owner(true).await;
}

/// The owner of a meeting is paused past its lease, with or without a write in flight.
async fn pause_owner(in_flight: bool) {
    let cluster = TestCluster::start(&["mc-one", "mc-two"], "warn,tenure::meet=debug", &LEASES).await;
    let clock: Arc<dyn Clock> = Arc::new(BootClock);
    let made = create(&cluster.gc.address, TOKEN, "Tea", &BootClock).await.unwrap();
    let (id, code) = (made.meeting_id.as_str(), made.meeting_code.as_str());
    let host = RestJoinApi::user(&cluster.gc.address, code, TOKEN, clock.clone()).unwrap();
    let mut ada = Guest::join(host, "Ada").await;
    let mut bob =
        Guest::join(RestJoinApi::guest(&cluster.gc.address, code, "Bob", clock.clone()).unwrap(), "Bob")
            .await;
    let seats = (ada.id(), bob.id());
    bob.client.chat("before").await.unwrap();
    ada.hears("before").await;
    let (owner, generation) = (cluster.kept(id, "mc"), cluster.kept(id, "gen").parse::<u64>().unwrap());
    let stopped = cluster.mcs.iter().find(|mc| mc.id == owner).unwrap();
    let other = cluster.mcs.iter().find(|mc| mc.id != owner).unwrap();
    let before = cluster.installation.log(stopped.id).len();
    if in_flight {
        // It arrives when another controller owns the meeting.
        stopped.store.set(Direction::ToServer, Mode::Stall);
    } else {
        stopped.server.process.pause().unwrap();
    }
    let story = async {
        let path = format!("/api/v1/meetings/{code}");
        let eve = cluster.gc.guest(code, "Eve").await;
        if in_flight {
            let sent = async || is_writing(&cluster.installation.log(stopped.id)[before..]);
            wait::until_async("a write is in flight", LIMIT, sent).await.unwrap();
            stopped.server.process.pause().unwrap();
        }
        let moved = async || {
            let (status, answer) = cluster.gc.ask("GET", &path, None, Some(&eve)).await;
            // Its first write follows the lease.
            status == 200
                && answer["mc_assignment"]["mc_id"] == other.id
                && cluster.kept(id, "mc") == other.id
        };
        wait::until_async("the other controller owns the meeting", LIMIT, moved).await.unwrap();
        assert!(cluster.kept(id, "gen").parse::<u64>().unwrap() > generation);
        let (_, answer) = cluster.gc.ask("GET", &path, None, Some(&eve)).await;
        let (eve, _) = placed(&answer, &cluster.gc).join("Eve").await;
        stopped.store.set(Direction::ToServer, Mode::Pass);
        stopped.server.process.resume().unwrap();
        eve
    };
    let (late, mut eve) = tokio::join!(ada.client.chat("late"), story);
    late.unwrap();
    bob.client.chat("after").await.unwrap();
    eve.hears("after").await;
    counted(stopped, "mc_fenced_out_total{reason=\"stale_generation\"} 1").await;
    counted(stopped, "mc_meetings_active 0").await;
    assert_eq!(cluster.kept(id, "mc"), other.id, "the old owner wrote nothing");
    let last = *cluster.written(id).await.last().unwrap();
    for guest in [&mut ada, &mut bob] {
        guest.hears("after").await;
        guest.sees("all persisted events", |view| view.event_seq >= last && view.people.len() == 3).await;
        guest.listen();
        let (losses, back) = guest.losses();
        assert!(
            !losses.is_empty() && !back[0] && back[1..].iter().all(|resumed| *resumed),
            "{losses:?}: {back:?}"
        );
        assert_eq!(guest.words(), ["before", "late", "after"]);
        let numbers = guest.numbers();
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "each once, in order: {numbers:?}");
    }
    assert_eq!((ada.id(), bob.id()), seats, "their seats");
    let written = cluster.written(id).await;
    assert!(written.windows(2).all(|pair| pair[1] == pair[0] + 1), "no gap: {written:?}");
    assert_eq!(written[0], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_controller_id_with_the_same_generation_ends_the_ownership() {
    let installation = Installation::on(RedisServer::start().unwrap());
    let redis = installation.redis.as_ref().unwrap();
    let server = installation.start_with(&["up", "--only", "meet"], &[("MC_ID", "mc-one")]);
    let made = server.create("two heads").await;
    let (id, code) = (made["meeting_id"].as_str().unwrap(), made["meeting_code"].as_str().unwrap());
    let (mut ada, _) = server.place(code, None).await.join("Ada").await;
    let guest = server.guest(code, "Bob").await;
    let (bob, welcome) = server.place(code, Some(&guest)).await.join("Bob").await;
    let kept = |part: &str| {
        let reply = redis.command(&["GET", &format!("meeting:{id}:{part}")]).unwrap();
        reply.text().unwrap().to_owned()
    };
    assert_eq!(kept("mc"), "mc-one");
    let generation = kept("gen").parse::<u64>().unwrap();
    redis.command(&["SET", &format!("meeting:{id}:mc"), "mc-nine"]).unwrap();
    ada.chat("who am I?").await;
    assert_eq!(ada.session.closed().await, Closed::Code(4002));
    assert_eq!(bob.session.closed().await, Closed::Code(4002));
    assert_eq!(kept("mc"), "mc-nine", "nothing was written over it");
    let (_, metrics) = server.ask("GET", "/metrics", None, None).await;
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("mc_fenced_out_total{reason=\"concurrent_write\"} 1"), "{metrics}");
    // The lease was released: the next join opens the meeting again and finds the seat.
    let place = server.place(code, Some(&guest)).await;
    let mut request = place.request("Bob");
    request.correlation_id = welcome.correlation_id;
    request.binding_token = welcome.binding_token;
    request.last_event_seq = welcome.event_seq;
    let (_bob, back) = place.join_with(request).await;
    assert!(back.resumed && back.participant_id == welcome.participant_id);
    assert_eq!(kept("mc"), "mc-one");
    assert!(kept("gen").parse::<u64>().unwrap() > generation);
}
