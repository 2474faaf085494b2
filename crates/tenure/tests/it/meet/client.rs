//! The Rust client against the built binary: REST, real QUIC, real handlers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tenure_keeper::OsEntropy;
use tenure_lease::Clock;
use tenure_meet_client::join_api::{RestJoinApi, create};
use tenure_meet_client::{Client, Ending, Event, Events, News, Options, View};
use tenure_meet_wire::transport::quic::{Dialer, Timing};
use tenure_store::BootClock;
use tenure_testkit::wait;

use crate::harness::LIMIT;
use crate::meet::installation::{Installation, TOKEN};

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(super) async fn join(join_api: RestJoinApi, name: &str) -> (Client, Events) {
    let dialer = Dialer::new(ANY, Timing::default()).unwrap();
    let options = Options::new(name, Arc::new(BootClock), Arc::new(OsEntropy));
    Client::join(Arc::new(join_api), Arc::new(dialer), options).await.unwrap()
}

pub(super) async fn sees(client: &Client, what: &str, look: impl Fn(&View) -> bool) {
    wait::until_async(what, LIMIT, async || client.view(&look)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_and_a_guest_meet_and_handlers_enforce_a_mute() {
    let installation = Installation::new();
    let server = installation.start(&["up", "--only", "meet"]);
    let clock: Arc<dyn Clock> = Arc::new(BootClock);
    let made = create(&server.address, TOKEN, "Tea", &BootClock).await.unwrap();
    let code = &made.meeting_code;
    let host = RestJoinApi::user(&server.address, code, TOKEN, clock.clone()).unwrap();
    let (ada, mut events) = join(host, "Ada").await;
    let (eve, _) = join(RestJoinApi::guest(&server.address, code, "Eve", clock).unwrap(), "Eve").await;
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
