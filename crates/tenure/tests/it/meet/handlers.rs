//! Two media handlers as real processes: one is killed, or drains, while participants see and hear each other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_keeper::OsEntropy;
use tenure_lease::{Clock, Tick};
use tenure_meet_client::join_api::{RestJoinApi, create};
use tenure_meet_client::media::{
    AudioPublication, AudioSubscription, MediaClient, OutgoingFrame, OutgoingPacket, VideoFormat,
    VideoPublication, VideoRequest, VideoSubscription,
};
use tenure_meet_client::{Client, Options};
use tenure_meet_wire::media::message::Rendition;
use tenure_meet_wire::transport::quic::{Dialer, Timing};
use tenure_store::BootClock;
use tenure_testkit::{RedisServer, free_port, wait};
use tokio::task::JoinSet;

use crate::harness::{LIMIT, code};
use crate::meet::installation::{Installation, MC_SECRET, MH_SECRET, ServerProcess, StartOptions, TOKEN};

/// A gap that a person would call a failure, with room for a loaded machine.
const FAILURE: Duration = Duration::from_secs(3);

struct Cluster {
    gc: ServerProcess,
    _mc: ServerProcess,
    /// Each with the port of its sessions.
    handlers: Vec<(ServerProcess, u16)>,
    _installation: Installation,
}

impl Cluster {
    fn start() -> Self {
        let installation = Installation::on(RedisServer::start().unwrap());
        let store = || Some(installation.redis.as_ref().unwrap().url());
        let grpc = ("TENURE_MEET__GRPC_BIND_ADDRESS", "127.0.0.1:0");
        let gc = installation.start_with(&["gc"], &[grpc]);
        let (ac, gc_url) = (gc.address.clone(), gc.grpc.clone().unwrap());
        let part = |folder: &str, role: &str, port: u16, client: (&str, &str)| {
            let bind = format!("127.0.0.1:{port}");
            let variables = [
                grpc,
                ("MC_ID", folder),
                ("MC_WEBTRANSPORT_BIND_ADDRESS", bind.as_str()),
                ("AC_ENDPOINT", ac.as_str()),
                ("GC_GRPC_URL", gc_url.as_str()),
                ("MC_CLIENT_ID", client.0),
                ("MC_CLIENT_SECRET", client.1),
            ];
            let begin = StartOptions { folder, store: store(), log: None };
            installation.start_as(begin, &[role], &variables)
        };
        let handlers = ["mh-one", "mh-two"].map(|folder| {
            let port = free_port().unwrap();
            (part(folder, "mh", port, ("media-handler", MH_SECRET)), port)
        });
        let mc = part("mc-one", "mc", 0, ("meeting-controller", MC_SECRET));
        wait::until("the controller is ready", LIMIT, || {
            mc.get_blocking("/ready").is_some_and(|(status, _)| status == 200)
        })
        .unwrap();
        Self { gc, _mc: mc, handlers: handlers.into(), _installation: installation }
    }

    async fn join(&self, meeting: &str) -> (Client, MediaClient) {
        let join_api = RestJoinApi::user(&self.gc.address, meeting, TOKEN, Arc::new(BootClock)).unwrap();
        let timing = Timing { idle: Duration::from_secs(10), keep_alive: Duration::from_secs(1) };
        let dialer = Arc::new(Dialer::new("127.0.0.1:0".parse().unwrap(), timing).unwrap());
        let options = Options::new("A", Arc::new(BootClock), Arc::new(OsEntropy)).bare();
        let (client, _) = Client::join(Arc::new(join_api), dialer.clone(), options).await.unwrap();
        let media = client.open_media(dialer);
        (client, media)
    }

    /// Two participants of a meeting that both handlers serve.
    async fn pair(&self) -> [(Client, MediaClient); 2] {
        let pair = loop {
            let made = create(&self.gc.address, TOKEN, "two", &BootClock).await.unwrap();
            let pair = [self.join(&made.meeting_code).await, self.join(&made.meeting_code).await];
            // Handlers register within seconds of their start.
            if pair[0].0.view(|view| view.media_servers.len()) == 2 {
                break pair;
            }
        };
        for (_, media) in &pair {
            let mut state = media.state();
            state.wait_for(|it| it.active.is_some() && it.standby.len() == 1).await.unwrap();
        }
        pair
    }

    /// The handler that carries the media of a participant.
    fn active(&self, media: &MediaClient) -> &ServerProcess {
        let url = media.state().borrow().active.clone().unwrap();
        &self.handlers.iter().find(|(_, port)| url.contains(&format!(":{port}/"))).unwrap().0
    }
}

/// Sends 25 frames and 50 packets a second until it is dropped.
async fn publish(media: &MediaClient) -> (VideoPublication, JoinSet<()>) {
    let renditions = vec![Rendition { max_bitrate: 400_000, max_fps: 25, ..Rendition::default() }];
    let (stream_id, codec) = ("2".to_owned(), "avc1.42C01F".to_owned());
    let format = VideoFormat { stream_id, screen: false, codec, renditions, temporal_layers: 1 };
    let picture = media.publish_video(format).await.unwrap();
    let sound = media.publish_audio("1").await.unwrap();
    let (mut sender, demand, mut tasks) = (picture.sender(0), picture.demand(), JoinSet::new());
    tasks.spawn(async move {
        let (began, mut answered) = (BootClock.now(), None);
        for number in 1_u32.. {
            BootClock.sleep_until(began + Duration::from_millis(40) * number).await;
            let asked = Some(demand.borrow().keyframes[0]);
            let key = answered != asked || number % 50 == 0;
            let timestamp_us = BootClock.now().since(began).as_micros() as u64;
            let payload = Bytes::from(vec![1; 1_000]);
            let frame = OutgoingFrame { timestamp_us, key, discardable: false, temporal: 0, payload };
            answered = if sender.send(frame).await.is_ok() { asked } else { None };
        }
    });
    tasks.spawn(speak(sound));
    (picture, tasks)
}

async fn speak(mut sound: AudioPublication) {
    let began = BootClock.now();
    for number in 1_u32.. {
        BootClock.sleep_until(began + Duration::from_millis(20) * number).await;
        let payload = Bytes::from(vec![2; 60]);
        sound.send(OutgoingPacket { timestamp_us: u64::from(number) * 20_000, level: 30, payload });
    }
}

/// The longest gaps in picture and sound over a time.
async fn gaps(
    picture: &mut VideoSubscription,
    sound: &mut AudioSubscription,
    time: Duration,
) -> (Duration, Duration) {
    let (began, mut dark, mut quiet) = (BootClock.now(), Duration::ZERO, Duration::ZERO);
    let (mut seen, mut heard): (Tick, Tick) = (began, began);
    let mut over = BootClock.sleep_until(began + time);
    loop {
        tokio::select! {
            Some(frame) = picture.next() => {
                dark = dark.max(frame.received_at.since(seen));
                seen = frame.received_at.max(seen);
            }
            Some(packet) = sound.next() => {
                quiet = quiet.max(packet.received_at.since(heard));
                heard = packet.received_at.max(heard);
            }
            () = &mut over => break,
        }
    }
    (dark.max(BootClock.now().since(seen)), quiet.max(BootClock.now().since(heard)))
}

/// The gaps while the active handler ends, by a signal that it cannot handle or by one that it can.
async fn gaps_while_a_handler_ends(killed: bool) -> (Duration, Duration) {
    let cluster = Cluster::start();
    let [(ada, from), (_bob, to)] = cluster.pair().await;
    let (_picture, _tasks) = publish(&from).await;
    let id = ada.own().unwrap().participant_id;
    let mut picture = to.watch(&VideoRequest::camera(&id, "2")).await.unwrap();
    let mut sound = to.listen().await.unwrap();
    assert!(picture.next().await.is_some() && sound.next().await.is_some());
    gaps(&mut picture, &mut sound, Duration::from_secs(2)).await;
    let (handler, before) = (cluster.active(&to), to.state().borrow().active.clone());
    match killed {
        true => handler.process.kill9().unwrap(),
        false => handler.process.terminate().unwrap(),
    }
    let found = gaps(&mut picture, &mut sound, Duration::from_secs(7)).await;
    assert_ne!(to.state().borrow().active, before);
    if !killed {
        assert_eq!(code(&handler.process), 0, "a graceful shutdown");
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn picture_and_sound_go_on_when_a_handler_is_killed() {
    let (dark, quiet) = gaps_while_a_handler_ends(true).await;
    assert!(dark < FAILURE && quiet < FAILURE, "no picture for {dark:?}, no sound for {quiet:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn picture_and_sound_go_on_when_a_handler_drains() {
    let (dark, quiet) = gaps_while_a_handler_ends(false).await;
    assert!(dark < FAILURE && quiet < FAILURE, "no picture for {dark:?}, no sound for {quiet:?}");
}
