//! The Rust client against the built binary: REST, real QUIC, real handlers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use lease::Clock;
use lease_keeper::OsEntropy;
use lease_store::BootClock;
use meet_client::door::{Rest, create};
use meet_client::{Client, Ending, Event, Events, News, Options, View};
use meet_wire::transport::quic::{Dialer, Timing};
use testkit::wait;

use crate::meet::house::{House, TOKEN};
use crate::rig::LIMIT;

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

async fn join(door: Rest, name: &str) -> (Client, Events) {
    let dialer = Dialer::new(ANY, Timing::default()).unwrap();
    let options = Options::new(name, Arc::new(BootClock), Arc::new(OsEntropy));
    Client::join(Arc::new(door), Arc::new(dialer), options).await.unwrap()
}

async fn sees(client: &Client, what: &str, look: impl Fn(&View) -> bool) {
    wait::until_async(what, LIMIT, async || client.view(&look)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_and_a_guest_of_the_rust_client_meet_and_a_mute_is_enforced_by_the_handlers() {
    let house = House::new();
    let door = house.start(&["up", "--only", "meet"]);
    let clock: Arc<dyn Clock> = Arc::new(BootClock);
    let made = create(&door.address, TOKEN, "Tea", &BootClock).await.unwrap();
    let code = &made.meeting_code;
    let host = Rest::user(&door.address, code, TOKEN, clock.clone()).unwrap();
    let (ada, mut events) = join(host, "Ada").await;
    let (eve, _) = join(Rest::guest(&door.address, code, "Eve", clock).unwrap(), "Eve").await;
    let id = eve.own().unwrap().participant_id;
    sees(&ada, "both are there", |view| view.people.len() == 2).await;
    ada.host_mute(&id, true, false, "noise").await.unwrap();
    let enforced = loop {
        if let Event::News { news: News::Enforced(enforced), .. } = events.recv().await.unwrap() {
            break enforced;
        }
    };
    assert!(enforced.enforced, "{enforced:?}");
    let muted = |view: &View| view.own().unwrap().mute.as_ref().is_some_and(|mute| mute.audio_host);
    sees(&eve, "muted", muted).await;
    eve.request_unmute(true, false).await.unwrap();
    sees(&ada, "it is asked for", |view| view.asks.contains_key(&id)).await;
    ada.answer_unmute(&id, true, false).await.unwrap();
    sees(&eve, "unmuted", |view| !muted(view)).await;
    eve.chat("thank you").await.unwrap();
    sees(&ada, "it was said", |view| view.lines.iter().any(|line| line.said.text == "thank you")).await;
    ada.end_meeting().await.unwrap();
    for client in [&ada, &eve] {
        let ending = client.over().await;
        assert!(matches!(ending, Ending::MeetingOver(_)), "{ending:?}");
    }
}
