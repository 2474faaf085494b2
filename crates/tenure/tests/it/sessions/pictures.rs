//! Real pictures: ffmpeg between a receiver that the test starts and whoever watches.

use serde_json::json;
use testkit::{Receiver, wait};

use super::house::{House, channel};
use super::life::play;
use super::loss::{GUARD, until_free, workers_for};
use crate::rig::{LIMIT, code};

/// Waits until nothing works for a session any more.
fn until_gone(session: &str) {
    wait::until("its pipeline is gone", LIMIT, || workers_for(session).is_empty()).unwrap();
}

fn with_receiver(house: House, receiver: &Receiver) -> House {
    house.with("RECEIVER_URL", receiver.url()).with("FIRST_SEGMENT_TIMEOUT_MS", "60000")
}

#[tokio::test]
async fn a_receiver_is_watched_through_ffmpeg_until_it_stalls() {
    let receiver = Receiver::start().unwrap();
    let house = with_receiver(House::embedded(), &receiver).with("STALL_TIMEOUT_MS", "6000");
    let door = house.up();
    door.until_ready().await;
    let (session, _) = door.watch(1, "copy").await;
    let ready = door.until(&session, "READY").await;
    play(&door, ready["playbackUrl"].as_str().unwrap()).await;
    assert!(!workers_for(&session).is_empty() && receiver.watchers() == 1);
    receiver.stall(true);
    let over = door.until(&session, "FAILED").await;
    assert_eq!(
        (&over["reason"], &over["reason_detail"]),
        (&json!("R_UPSTREAM_CORRUPT"), &json!("UPSTREAM_STALLED")),
        "{over}"
    );
    assert_eq!(workers_for(&session), [""; 0], "what is over has no process");
    assert!(!house.dir.path().join("hls").join(&session).exists());
    assert_eq!(door.holder("lease:tuner:0").await, None);

    receiver.stall(false);
    let (again, _) = door.watch(1, "copy").await;
    door.until(&again, "READY").await;
    door.stop(&again).await;
    let over = door.until(&again, "STOPPED").await;
    assert_eq!(over["reason"], "R_CLIENT_STOP");
    assert_eq!(workers_for(&again), [""; 0]);

    // The end of the process is the end of its pictures, however it comes.
    let (last, _) = door.watch(2, "copy").await;
    door.until(&last, "READY").await;
    door.process.kill9().unwrap();
    until_gone(&last);
}

/// What the newest segment of a session holds: the codec and height of its picture, the codec and channels of its tone.
fn probed(house: &House, session: &str) -> Vec<String> {
    let folder = house.dir.path().join("hls").join(session);
    let playlist = std::fs::read_to_string(folder.join("index.m3u8")).unwrap();
    let newest = playlist.lines().rfind(|line| line.ends_with(".m4s")).unwrap();
    let whole =
        [folder.join("init.mp4"), folder.join(newest)].map(|part| std::fs::read(part).unwrap()).concat();
    let file = house.dir.path().join(format!("{session}.mp4"));
    std::fs::write(&file, whole).unwrap();
    let mut command = std::process::Command::new("ffprobe");
    command.args(["-v", "error", "-show_entries", "stream=codec_name,height,channels", "-of", "csv=p=0"]);
    let output = command.arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_channel_is_made_anew_in_high_and_in_low() {
    let receiver = Receiver::with_pace(2.0).unwrap();
    let house = with_receiver(House::embedded(), &receiver).with("STALL_TIMEOUT_MS", "60000");
    let door = house.up();
    door.until_ready().await;
    // One after the other: two encoders at once are much for a small machine.
    for (number, profile, picture) in [(1, "high", "h264,120"), (2, "low", "h264,480")] {
        let (session, _) = door.watch(number, profile).await;
        let ready = door.until(&session, "READY").await;
        assert_eq!(ready["profile"], profile);
        play(&door, ready["playbackUrl"].as_str().unwrap()).await;
        assert_eq!(probed(&house, &session), [picture, "aac,2"]);
        door.stop(&session).await;
        door.until(&session, "STOPPED").await;
        until_gone(&session);
    }
}

#[tokio::test]
async fn a_recording_plays_from_its_folder_without_a_tuner() {
    let receiver = Receiver::start().unwrap();
    let house = House::embedded();
    let recordings = house.dir.path().join("recordings");
    std::fs::create_dir(&recordings).unwrap();
    // Long enough to be met while it plays, however slow the machine.
    testkit::make_film(&recordings.join("rec-1.ts"), 120).unwrap();
    let house = with_receiver(house, &receiver).with("RECORDINGS_DIR", recordings.display());
    let door = house.up();
    door.until_ready().await;
    let wish = |id: &str, start: u64| json!({ "recordingId": id, "startMs": start, "profileID": "copy" });
    let answer = door.intent(&wish("rec-1", 10_000)).await;
    let session = answer.body["sessionId"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned();
    let same = door.intent(&wish("rec-1", 10_900)).await.body;
    assert_eq!((&same["sessionId"], &same["status"]), (&json!(session), &json!("idempotent_replay")));
    let ready = door.until(&session, "READY").await;
    assert_eq!((&ready["mode"], &ready["tunerSlot"]), (&json!("RECORDING"), &json!(null)), "{ready}");
    play(&door, ready["playbackUrl"].as_str().unwrap()).await;
    assert_eq!(door.holder("lease:recording:rec-1:10").await.as_ref(), Some(&session));
    assert_eq!(door.metric("xg2g_tuners_in_use", "").await, 0.0);
    let missing = door.intent(&wish("rec-2", 0)).await.body["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(door.until(&missing, "FAILED").await["reason"], "R_NOT_FOUND");
    door.stop(&session).await;
    door.until(&session, "STOPPED").await;
}

#[tokio::test]
async fn a_frozen_worker_loses_its_pictures_in_time_and_writes_nothing_when_it_wakes() {
    let receiver = Receiver::start().unwrap();
    let house = with_receiver(House::redis().living(9_000, 1_000), &receiver);
    let door = house.start("api", &["session-api"]);
    let frozen = house.start("worker", &["session-worker"]);
    frozen.until_ready().await;
    let (session, _) = door.watch(1, "copy").await;
    door.until(&session, "READY").await;
    frozen.process.pause().unwrap();
    until_free(&door, &format!("lease:service:{}", channel(1))).await;
    assert_eq!(
        workers_for(&session),
        [""; 0],
        "its picture is gone before anybody else can have the channel"
    );
    until_free(&door, GUARD).await;
    let second = house.start("second", &["session-worker"]);
    second.until_ready().await;
    assert_eq!(door.session(&session).await["reason"], "R_PROCESS_ENDED");
    let (again, _) = door.watch(1, "copy").await;
    door.until(&again, "READY").await;
    frozen.process.resume().unwrap();
    assert_ne!(code(&frozen.process), 0, "{}", frozen.said());
    let now = door.session(&session).await;
    assert_eq!((&now["state"], &now["reason"]), (&json!("FAILED"), &json!("R_PROCESS_ENDED")));
    assert_eq!(door.session(&again).await["state"], "READY", "who woke up touched nothing");
    assert_eq!(door.holder("lease:tuner:0").await.as_ref(), Some(&again));
}

#[test]
fn without_ffmpeg_it_says_what_to_install() {
    let house = House::embedded().with("RECEIVER_URL", "http://127.0.0.1:9/{serviceRef}");
    let house = house.with("FFMPEG", "no-such-program");
    let (code, said) = house.refused("up", &["up", "--only", "lease,sessions"]);
    assert_eq!(code, 69, "{said}");
    assert!(said.contains("no-such-program") && said.contains("pattern"), "{said}");
}
