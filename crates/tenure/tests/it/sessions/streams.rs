//! Streams from a test receiver through ffmpeg.

use serde_json::json;
use tenure_testkit::{Receiver, wait};

use super::cluster::{TestCluster, channel};
use super::lifecycle::play;
use super::loss::{GUARD, processes_for, until_free};
use crate::harness::{LIMIT, code};

/// Waits until all processes of a session have exited.
fn until_gone(session: &str) {
    wait::until("its pipeline has exited", LIMIT, || processes_for(session).is_empty()).unwrap();
}

fn with_receiver(cluster: TestCluster, receiver: &Receiver) -> TestCluster {
    cluster.with("RECEIVER_URL", receiver.url()).with("FIRST_SEGMENT_TIMEOUT_MS", "60000")
}

#[tokio::test]
async fn a_receiver_is_streamed_through_ffmpeg_until_it_stalls() {
    let receiver = Receiver::start().unwrap();
    let cluster = with_receiver(TestCluster::embedded(), &receiver).with("STALL_TIMEOUT_MS", "6000");
    let server = cluster.up();
    server.until_ready().await;
    let (session, _) = server.watch(1, "copy").await;
    let ready = server.until(&session, "READY").await;
    play(&server, ready["playbackUrl"].as_str().unwrap()).await;
    assert!(!processes_for(&session).is_empty() && receiver.watchers() == 1);
    receiver.stall(true);
    let over = server.until(&session, "FAILED").await;
    assert_eq!(
        (&over["reason"], &over["reason_detail"]),
        (&json!("R_UPSTREAM_CORRUPT"), &json!("UPSTREAM_STALLED")),
        "{over}"
    );
    assert_eq!(processes_for(&session), [""; 0], "an ended session has no process");
    assert!(!cluster.dir.path().join("hls").join(&session).exists());
    assert_eq!(server.holder("lease:tuner:0").await, None);

    receiver.stall(false);
    let (again, _) = server.watch(1, "copy").await;
    server.until(&again, "READY").await;
    server.stop(&again).await;
    let over = server.until(&again, "STOPPED").await;
    assert_eq!(over["reason"], "R_CLIENT_STOP");
    assert_eq!(processes_for(&again), [""; 0]);

    // Pipelines end with the process, even after SIGKILL.
    let (last, _) = server.watch(2, "copy").await;
    server.until(&last, "READY").await;
    server.process.kill9().unwrap();
    until_gone(&last);
}

/// Probes the newest segment of a session: video codec and height, audio codec and channels.
fn probe_segment(cluster: &TestCluster, session: &str) -> Vec<String> {
    let folder = cluster.dir.path().join("hls").join(session);
    let playlist = std::fs::read_to_string(folder.join("index.m3u8")).unwrap();
    let newest = playlist.lines().rfind(|line| line.ends_with(".m4s")).unwrap();
    let whole =
        [folder.join("init.mp4"), folder.join(newest)].map(|part| std::fs::read(part).unwrap()).concat();
    let file = cluster.dir.path().join(format!("{session}.mp4"));
    std::fs::write(&file, whole).unwrap();
    let mut command = std::process::Command::new("ffprobe");
    command.args(["-v", "error", "-show_entries", "stream=codec_name,height,channels", "-of", "csv=p=0"]);
    let output = command.arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_channel_is_transcoded_in_high_and_low() {
    let receiver = Receiver::with_pace(2.0).unwrap();
    let cluster = with_receiver(TestCluster::embedded(), &receiver).with("STALL_TIMEOUT_MS", "60000");
    let server = cluster.up();
    server.until_ready().await;
    // Sequentially, because two encoders overload a small machine.
    for (number, profile, video) in [(1, "high", "h264,120"), (2, "low", "h264,480")] {
        let (session, _) = server.watch(number, profile).await;
        let ready = server.until(&session, "READY").await;
        assert_eq!(ready["profile"], profile);
        play(&server, ready["playbackUrl"].as_str().unwrap()).await;
        assert_eq!(probe_segment(&cluster, &session), [video, "aac,2"]);
        server.stop(&session).await;
        server.until(&session, "STOPPED").await;
        until_gone(&session);
    }
}

#[tokio::test]
async fn a_recording_plays_without_a_tuner() {
    let receiver = Receiver::start().unwrap();
    let cluster = TestCluster::embedded();
    let recordings = cluster.dir.path().join("recordings");
    std::fs::create_dir(&recordings).unwrap();
    // Long enough to be still playing on a slow machine.
    tenure_testkit::make_film(&recordings.join("rec-1.ts"), 120).unwrap();
    let cluster = with_receiver(cluster, &receiver).with("RECORDINGS_DIR", recordings.display());
    let server = cluster.up();
    server.until_ready().await;
    let intent = |id: &str, start: u64| json!({ "recordingId": id, "startMs": start, "profileID": "copy" });
    let answer = server.intent(&intent("rec-1", 10_000)).await;
    let session = answer.body["sessionId"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned();
    let same = server.intent(&intent("rec-1", 10_900)).await.body;
    assert_eq!((&same["sessionId"], &same["status"]), (&json!(session), &json!("idempotent_replay")));
    let ready = server.until(&session, "READY").await;
    assert_eq!((&ready["mode"], &ready["tunerSlot"]), (&json!("RECORDING"), &json!(null)), "{ready}");
    play(&server, ready["playbackUrl"].as_str().unwrap()).await;
    assert_eq!(server.holder("lease:recording:rec-1:10").await.as_ref(), Some(&session));
    assert_eq!(server.metric("xg2g_tuners_in_use", "").await, 0.0);
    let missing = server.intent(&intent("rec-2", 0)).await.body["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(server.until(&missing, "FAILED").await["reason"], "R_NOT_FOUND");
    server.stop(&session).await;
    server.until(&session, "STOPPED").await;
}

#[tokio::test]
async fn a_frozen_worker_loses_its_pipelines_in_time_and_writes_nothing_when_it_resumes() {
    let receiver = Receiver::start().unwrap();
    let cluster = with_receiver(TestCluster::redis().with_lease_times(9_000, 1_000), &receiver);
    let server = cluster.start("api", &["session-api"]);
    let frozen = cluster.start("worker", &["session-worker"]);
    frozen.until_ready().await;
    let (session, _) = server.watch(1, "copy").await;
    server.until(&session, "READY").await;
    frozen.process.pause().unwrap();
    until_free(&server, &format!("lease:service:{}", channel(1))).await;
    assert_eq!(processes_for(&session), [""; 0], "its pipeline exits before the channel can be leased again");
    until_free(&server, GUARD).await;
    let second = cluster.start("second", &["session-worker"]);
    second.until_ready().await;
    assert_eq!(server.session(&session).await["reason"], "R_PROCESS_ENDED");
    let (again, _) = server.watch(1, "copy").await;
    server.until(&again, "READY").await;
    frozen.process.resume().unwrap();
    assert_ne!(code(&frozen.process), 0, "{}", frozen.read_log());
    let now = server.session(&session).await;
    assert_eq!((&now["state"], &now["reason"]), (&json!("FAILED"), &json!("R_PROCESS_ENDED")));
    assert_eq!(server.session(&again).await["state"], "READY", "the resumed worker changed nothing");
    assert_eq!(server.holder("lease:tuner:0").await.as_ref(), Some(&again));
}

#[test]
fn without_ffmpeg_the_error_says_what_to_install() {
    let cluster = TestCluster::embedded().with("RECEIVER_URL", "http://127.0.0.1:9/{serviceRef}");
    let cluster = cluster.with("FFMPEG", "no-such-program");
    let (code, said) = cluster.run_to_exit("up", &["up", "--only", "lease,sessions"]);
    assert_eq!(code, 69, "{said}");
    assert!(said.contains("no-such-program") && said.contains("pattern"), "{said}");
}
