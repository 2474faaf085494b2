//! Real QUIC on loopback, through proxies that lose and delay packets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tenure_keeper::OsEntropy;
use tenure_lease::{Clock, Store};
use tenure_meet_client::media::{
    AudioStats, AudioSubscription, MediaClient, VideoRequest, VideoSubscription,
};
use tenure_meet_client::{Client, Dial, Endpoint, Options};
use tenure_meet_wire::jwt::Role;
use tenure_meet_wire::transport::quic::{Dialer, Timing};
use tenure_meet_wire::transport::{Session, TransportError};
use tenure_store::{BootClock, Local};
use tenure_testkit::UdpProxy;
use tenure_testkit_meet::{ScriptedJoinApi, TestHandlers, TestMeeting};

use super::stage::{Camera, Microphone};

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const LIMIT: Duration = Duration::from_secs(60);
/// Generous, because a busy machine can stall a test.
const PATIENT: Timing = Timing { idle: Duration::from_secs(60), keep_alive: Duration::from_secs(5) };

/// A meeting whose handler is behind a proxy. Only the viewer's path is impaired.
struct Net {
    meeting: TestMeeting,
    endpoint: Endpoint,
    handlers: TestHandlers,
    /// In front of the handler.
    proxy: UdpProxy,
    direct: SocketAddr,
}

/// Dials the handler itself instead of its proxy.
struct Direct {
    dialer: Dialer,
    proxy: SocketAddr,
    direct: SocketAddr,
}

#[async_trait::async_trait]
impl Dial for Direct {
    async fn dial(&self, place: &Endpoint, trace: &str) -> Result<Arc<dyn Session>, TransportError> {
        let url = place.url.replace(&self.proxy.to_string(), &self.direct.to_string());
        Dial::dial(&self.dialer, &Endpoint { url, ..place.clone() }, trace).await
    }
}

impl Net {
    async fn new() -> Self {
        let store: Arc<dyn Store> = Arc::new(Local::memory());
        let mut handlers = TestHandlers::new(&store).unwrap();
        let mut proxy = None;
        let through_proxy = |address| {
            let (started, _) = proxy.insert((UdpProxy::start(address)?, address));
            Ok(started.addr())
        };
        handlers.add_on_loopback("mh-1", PATIENT, through_proxy).unwrap();
        let mut meeting = TestMeeting::with_handlers(&store, "mc-1", &handlers).unwrap();
        meeting.assign_to(handlers.list().iter().map(|it| it.info.clone()).collect()).await.unwrap();
        let (_, endpoint) = meeting.on_loopback(PATIENT).unwrap();
        let (proxy, direct) = proxy.unwrap();
        Self { meeting, endpoint, handlers, proxy, direct }
    }

    /// Joins as one that sends, past the proxy.
    async fn sender(&self) -> (Client, MediaClient) {
        let dialer = Dialer::new(ANY, PATIENT).unwrap();
        let direct = Direct { dialer, proxy: self.proxy.addr(), direct: self.direct };
        self.join("ada", Arc::new(direct)).await
    }

    /// Joins as one that receives, through the proxy.
    async fn viewer(&self) -> (Client, MediaClient) {
        self.join("bob", Arc::new(Dialer::new(ANY, PATIENT).unwrap())).await
    }

    async fn join(&self, user: &str, media: Arc<dyn Dial>) -> (Client, MediaClient) {
        let join_api = ScriptedJoinApi::new(self.meeting.tokens(), user, Role::Host, self.endpoint.clone());
        let options = Options::new(user, Arc::new(BootClock), Arc::new(OsEntropy)).bare();
        let dialer = Arc::new(Dialer::new(ANY, PATIENT).unwrap());
        let (client, _) = Client::join(join_api, dialer, options).await.unwrap();
        let media = client.open_media(media);
        assert!(media.active().await);
        (client, media)
    }
}

fn id(client: &Client) -> String {
    client.view(|view| view.me.clone())
}

/// Takes what arrives until `enough` says so.
async fn receive(
    picture: &mut VideoSubscription,
    sound: &mut AudioSubscription,
    enough: impl Fn(u8, AudioStats) -> bool,
) {
    let late = BootClock.sleep_until(BootClock.now() + LIMIT);
    tokio::pin!(late);
    let mut rendition = u8::MAX;
    while !enough(rendition, sound.stats()) {
        tokio::select! {
            Some(frame) = picture.next() => rendition = frame.rendition,
            Some(_) = sound.next() => {}
            () = &mut late => panic!("{rendition} {:?} {:?}", picture.stats(), sound.stats()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audio_stays_intelligible_while_two_percent_of_packets_are_lost() {
    let net = Net::new().await;
    let ((ada, camera), (_bob, viewer)) = (net.sender().await, net.viewer().await);
    let mut picture = viewer.watch(&VideoRequest::camera(&id(&ada), "2")).await.unwrap();
    let mut sound = viewer.listen().await.unwrap();
    let _camera = Camera::start(&camera, Arc::new(BootClock), 1).await;
    let _microphone = Microphone::start(&camera, Arc::new(BootClock)).await;
    receive(&mut picture, &mut sound, |_, sound| sound.packets > 20).await;
    net.proxy.impair(20, Duration::ZERO);
    let before = sound.stats();
    receive(&mut picture, &mut sound, |_, sound| sound.packets > before.packets + 400).await;
    let after = sound.stats();
    let (lost, heard) = (after.lost - before.lost, after.packets - before.packets);
    // A player conceals these.
    assert!(lost > 0 && lost * 100 < heard * 10, "{lost} of {heard} lost, {} recovered", after.recovered);
    assert!(net.proxy.lost() > 0 && picture.stats().frames > 0);
    drop(net.handlers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn video_goes_down_in_steps_and_audio_goes_on_when_the_path_is_bad() {
    let net = Net::new().await;
    let ((ada, camera), (_bob, viewer)) = (net.sender().await, net.viewer().await);
    let mut picture = viewer.watch(&VideoRequest::camera(&id(&ada), "2")).await.unwrap();
    let mut sound = viewer.listen().await.unwrap();
    let _camera = Camera::start(&camera, Arc::new(BootClock), 3).await;
    let _microphone = Microphone::start(&camera, Arc::new(BootClock)).await;
    receive(&mut picture, &mut sound, |rendition, _| rendition == 2).await;
    net.proxy.impair(200, Duration::from_millis(150));
    receive(&mut picture, &mut sound, |rendition, _| rendition < 2).await;
    let before = sound.stats().packets;
    receive(&mut picture, &mut sound, |_, sound| sound.packets > before + 50).await;
    // Reports come once a second, and over the same path.
    let mut state = viewer.state();
    state.wait_for(|state| state.report.as_ref().is_some_and(|report| report.rtt_ms >= 150)).await.unwrap();
    net.proxy.impair(0, Duration::ZERO);
    let before = sound.stats().packets;
    receive(&mut picture, &mut sound, |_, sound| sound.packets > before + 20).await;
}
