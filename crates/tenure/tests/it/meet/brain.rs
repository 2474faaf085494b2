//! Two controllers that both believe to own a meeting: real processes, one real Redis.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use lease::Clock;
use lease_keeper::OsEntropy;
use lease_store::BootClock;
use meet_client::door::{Rest, create};
use meet_client::{Client, Event, Events, News, Options, View};
use meet_wire::transport::Closed;
use meet_wire::transport::quic::{Dialer, Timing};
use testkit::{Direction, Mode, RedisServer, wait};

use crate::meet::cast::{Cast, Mc};
use crate::meet::house::{House, TOKEN};
use crate::meet::placed;
use crate::rig::LIMIT;

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Shorter than people would like, longer than a busy machine lets a process wait.
const LEASES: [(&str, &str); 4] = [
    ("TENURE_MEET__LEASE_TTL_MS", "6000"),
    ("TENURE_MEET__LEASE_RENEW_MS", "500"),
    ("TENURE_MEET__DISCONNECT_GRACE_MS", "600000"),
    ("TENURE_MEET__BINDING_TOKEN_TTL_MS", "600000"),
];

/// A participant, and all that it was told.
struct Guest {
    client: Client,
    events: Events,
    told: Vec<Event>,
}

impl Guest {
    async fn join(door: Rest, name: &str) -> Self {
        // It hears of the end of its connection from the controller, however long that stands still.
        let timing = Timing { idle: Duration::from_secs(60), keep_alive: Duration::from_secs(1) };
        let dialer = Dialer::new(ANY, timing).unwrap();
        let options = Options::new(name, Arc::new(BootClock), Arc::new(OsEntropy));
        let (client, events) = Client::join(Arc::new(door), Arc::new(dialer), options).await.unwrap();
        Self { client, events, told: Vec::new() }
    }

    fn id(&self) -> String {
        self.client.own().unwrap().participant_id
    }

    async fn sees(&self, what: &str, look: impl Fn(&View) -> bool) {
        wait::until_async(what, LIMIT, async || self.client.view(&look)).await.unwrap();
    }

    async fn hears(&self, text: &str) {
        self.sees(text, |view| view.lines.iter().any(|line| line.said.text == text)).await;
    }

    fn listen(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.told.push(event);
        }
    }

    /// The numbers of what happened, as it was told.
    fn numbers(&self) -> Vec<u64> {
        let number = |event: &Event| match event {
            Event::News { seq, .. } if *seq > 0 => Some(*seq),
            _ => None,
        };
        self.told.iter().filter_map(number).collect()
    }

    fn words(&self) -> Vec<&str> {
        self.told
            .iter()
            .filter_map(|event| match event {
                Event::News { news: News::Chat(chat), .. } => Some(chat.text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Why its connections ended, and whether it came back to its seat.
    fn losses(&self) -> (Vec<&str>, Vec<bool>) {
        let why = self.told.iter().filter_map(|event| match event {
            Event::Reconnecting { why } => Some(why.as_str()),
            _ => None,
        });
        let back = self.told.iter().filter_map(|event| match event {
            Event::Connected { resumed, .. } => Some(*resumed),
            _ => None,
        });
        (why.collect(), back.collect())
    }
}

/// Whether a write is on its way: the last word of the meeting's ledger is not that something waits.
fn is_writing(log: &str) -> bool {
    let last = log.lines().rfind(|line| line.contains("noted, to be written") || line.contains("writing"));
    last.is_some_and(|line| line.contains("writing"))
}

async fn counted(mc: &Mc, line: &str) {
    let shown = async || {
        let (_, metrics) = mc.door.ask("GET", "/metrics", None, None).await;
        metrics.as_str().unwrap().lines().any(|shown| shown == line)
    };
    wait::until_async(line, LIMIT, shown).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_stood_still_past_its_lease_is_fenced_out_and_everybody_goes_on_at_the_next() {
    stand_still(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_was_on_its_way_while_its_controller_stood_still_is_refused_when_it_arrives() {
    stand_still(true).await;
}

/// The owner of a meeting stands still past its lease, with a write on its way to the store or without.
async fn stand_still(on_its_way: bool) {
    let cast = Cast::start(&["mc-one", "mc-two"], "warn,tenure::meet=debug", &LEASES).await;
    let clock: Arc<dyn Clock> = Arc::new(BootClock);
    let made = create(&cast.gc.address, TOKEN, "Tea", &BootClock).await.unwrap();
    let (id, code) = (made.meeting_id.as_str(), made.meeting_code.as_str());
    let host = Rest::user(&cast.gc.address, code, TOKEN, clock.clone()).unwrap();
    let mut ada = Guest::join(host, "Ada").await;
    let mut bob =
        Guest::join(Rest::guest(&cast.gc.address, code, "Bob", clock.clone()).unwrap(), "Bob").await;
    let seats = (ada.id(), bob.id());
    bob.client.chat("before").await.unwrap();
    ada.hears("before").await;
    let (owner, generation) = (cast.kept(id, "mc"), cast.kept(id, "gen").parse::<u64>().unwrap());
    let stopped = cast.mcs.iter().find(|mc| mc.id == owner).unwrap();
    let other = cast.mcs.iter().find(|mc| mc.id != owner).unwrap();
    let before = cast.house.log(stopped.id).len();
    if on_its_way {
        // It arrives when somebody else owns the meeting.
        stopped.store.set(Direction::ToServer, Mode::Stall);
    } else {
        stopped.door.process.pause().unwrap();
    }
    let story = async {
        let path = format!("/api/v1/meetings/{code}");
        let eve = cast.gc.guest(code, "Eve").await;
        if on_its_way {
            let sent = async || is_writing(&cast.house.log(stopped.id)[before..]);
            wait::until_async("a write is on its way", LIMIT, sent).await.unwrap();
            stopped.door.process.pause().unwrap();
        }
        let moved = async || {
            let (status, answer) = cast.gc.ask("GET", &path, None, Some(&eve)).await;
            status == 200 && answer["mc_assignment"]["mc_id"] == other.id
        };
        wait::until_async("a join has made the other take the meeting", LIMIT, moved).await.unwrap();
        assert_eq!(cast.kept(id, "mc"), other.id);
        assert!(cast.kept(id, "gen").parse::<u64>().unwrap() > generation);
        let (_, answer) = cast.gc.ask("GET", &path, None, Some(&eve)).await;
        let (eve, _) = placed(&answer, &cast.gc).join("Eve").await;
        stopped.store.set(Direction::ToServer, Mode::Pass);
        stopped.door.process.resume().unwrap();
        eve
    };
    let (late, mut eve) = tokio::join!(ada.client.chat("late"), story);
    late.unwrap();
    bob.client.chat("after").await.unwrap();
    eve.hears("after").await;
    counted(stopped, "mc_fenced_out_total{reason=\"stale_generation\"} 1").await;
    counted(stopped, "mc_meetings_active 0").await;
    assert_eq!(cast.kept(id, "mc"), other.id, "nothing of the old owner was written");
    let last = *cast.written(id).await.last().unwrap();
    for guest in [&mut ada, &mut bob] {
        guest.hears("after").await;
        guest.sees("all that is written", |view| view.event_seq >= last && view.people.len() == 3).await;
        guest.listen();
        assert_eq!(guest.losses(), (vec!["Code(4002)"], vec![false, true]), "the way in, and back");
        assert_eq!(guest.words(), ["before", "late", "after"]);
        let numbers = guest.numbers();
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "each once, in order: {numbers:?}");
    }
    assert_eq!((ada.id(), bob.id()), seats, "their seats");
    let written = cast.written(id).await;
    assert!(written.windows(2).all(|pair| pair[1] == pair[0] + 1), "no gap: {written:?}");
    assert_eq!(written[0], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_controllers_name_under_the_same_generation_ends_the_ownership_at_once() {
    let house = House::on(RedisServer::start().unwrap());
    let redis = house.redis.as_ref().unwrap();
    let door = house.start_with(&["up", "--only", "meet"], &[("MC_ID", "mc-one")]);
    let made = door.create("two heads").await;
    let (id, code) = (made["meeting_id"].as_str().unwrap(), made["meeting_code"].as_str().unwrap());
    let (mut ada, _) = door.place(code, None).await.join("Ada").await;
    let guest = door.guest(code, "Bob").await;
    let (bob, welcome) = door.place(code, Some(&guest)).await.join("Bob").await;
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
    let (_, metrics) = door.ask("GET", "/metrics", None, None).await;
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("mc_fenced_out_total{reason=\"concurrent_write\"} 1"), "{metrics}");
    // The lease was given back: who joins has the meeting taken anew, and finds the seat.
    let place = door.place(code, Some(&guest)).await;
    let mut request = place.request("Bob");
    request.correlation_id = welcome.correlation_id;
    request.binding_token = welcome.binding_token;
    request.last_event_seq = welcome.event_seq;
    let (_bob, back) = place.join_with(request).await;
    assert!(back.resumed && back.participant_id == welcome.participant_id);
    assert_eq!(kept("mc"), "mc-one");
    assert!(kept("gen").parse::<u64>().unwrap() > generation);
}
