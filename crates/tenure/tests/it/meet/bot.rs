//! `tenure meet bot` against the built binary.

use std::sync::Arc;
use std::time::Duration;

use tenure_keeper::OsEntropy;
use tenure_meet_client::join_api::RestJoinApi;
use tenure_meet_client::media::VideoRequest;
use tenure_meet_client::{Client, Options};
use tenure_meet_wire::transport::quic::{Dialer, Timing};
use tenure_store::BootClock;
use tenure_testkit::Process;

use crate::harness::{LIMIT, code, run_command, tenure};
use crate::meet::installation::{Installation, TOKEN};

const ANY: &str = "127.0.0.1:0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_bots_than_one_user_may_have_seats_are_seen_and_heard_and_leave_cleanly() {
    let installation = Installation::new();
    let server = installation.start(&["up", "--only", "meet"]);
    let args = ["meet", "bot", "--people", "10", "--watch", "--url", &server.address, "--api-token", TOKEN];
    let bots = Process::spawn(tenure(installation.dir.path(), &args)).unwrap();
    let link = bots.wait_for_line(|line| line.contains("/meet/"), LIMIT).unwrap();
    let meeting = link.rsplit('/').next().unwrap();
    let join_api = RestJoinApi::user(&server.address, meeting, TOKEN, Arc::new(BootClock)).unwrap();
    let timing = Timing { idle: LIMIT, keep_alive: Duration::from_secs(1) };
    let dialer = Arc::new(Dialer::new(ANY.parse().unwrap(), timing).unwrap());
    let options = Options::new("Ada", Arc::new(BootClock), Arc::new(OsEntropy));
    let (ada, _events) = Client::join(Arc::new(join_api), dialer.clone(), options).await.unwrap();
    let bot = ada.until(|view| {
        let sends = |person: &&tenure_meet_wire::signaling::Participant| person.streams.len() == 2;
        let all = view.others().filter(sends).count() == 10;
        all.then(|| view.others().next().unwrap().participant_id.clone())
    });
    let bot = bot.await.unwrap();
    let media = ada.open_media(dialer);
    let mut picture = media.watch(&VideoRequest::camera(&bot, "2")).await.unwrap();
    let mut sound = media.listen().await.unwrap();
    let first = picture.next().await.unwrap();
    assert!(first.key && first.payload.starts_with(&[0, 0, 0, 1, 9]), "an access unit in Annex B");
    for _ in 0..40 {
        assert!(!picture.next().await.unwrap().payload.is_empty());
        assert!(sound.next().await.unwrap().payload.len() > 8);
    }
    let line =
        bots.wait_for_line(|line| line.contains("people 10") && line.contains("received"), LIMIT).unwrap();
    assert!(line.contains("frames") && line.contains("packets"), "{line}");
    bots.terminate().unwrap();
    assert_eq!(ada.until(|view| (view.people.len() == 1).then_some(())).await, Some(()));
    assert_eq!(code(&bots), 0);
}

#[test]
fn what_cannot_be_sent_or_joined_is_a_clear_error() {
    let installation = Installation::new();
    let server = installation.start(&["up", "--only", "meet"]);
    let bot = |args: &[&str]| {
        let fixed = ["meet", "bot", "--url", &server.address, "--api-token", TOKEN];
        run_command(tenure(installation.dir.path(), &[&fixed[..], args].concat()))
    };
    let missing = bot(&["--publish", "no-such-file.mp4"]);
    assert_eq!(missing.code, 2, "{}", missing.err);
    assert!(missing.err.contains("no-such-file.mp4 is not a file"), "{}", missing.err);
    let unknown = bot(&["--meeting", "abc-unknown"]);
    assert_eq!(unknown.code, 1, "{}", unknown.err);
    assert!(unknown.err.contains("not found"), "{}", unknown.err);
    let alone = run_command(tenure(installation.dir.path(), &["meet", "bot", "--data-dir", "elsewhere"]));
    assert_eq!(alone.code, 69, "{}", alone.err);
}
