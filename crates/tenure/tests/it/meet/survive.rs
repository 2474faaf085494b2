//! Meetings that survive: real processes are killed, and the store stands still.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::Clock;
use tenure_meet_client::join_api::{RestJoinApi, create};
use tenure_meet_client::{Event, State};
use tenure_store::BootClock;
use tenure_testkit::wait;

use crate::harness::LIMIT;
use crate::meet::cluster::TestCluster;
use crate::meet::installation::TOKEN;
use crate::meet::split_brain::Guest;

/// The bound for participants of a killed controller, also on a busy machine.
const BACK: Duration = Duration::from_secs(15);

/// A host and guests in one meeting; returns its id as well.
async fn party(cluster: &TestCluster, guests: usize) -> (String, Vec<Guest>) {
    let clock: Arc<dyn Clock> = Arc::new(BootClock);
    let made = create(&cluster.gc.address, TOKEN, "Tea", &BootClock).await.unwrap();
    let code = made.meeting_code.as_str();
    let host = RestJoinApi::user(&cluster.gc.address, code, TOKEN, clock.clone()).unwrap();
    let mut party = vec![Guest::join(host, "Ada").await];
    for number in 0..guests {
        let name = format!("Guest {number}");
        let guest = RestJoinApi::guest(&cluster.gc.address, code, &name, clock.clone()).unwrap();
        party.push(Guest::join(guest, &name).await);
    }
    (made.meeting_id, party)
}

/// Waits until a participant has its seat again; returns when.
async fn resumed(guest: &mut Guest) -> Duration {
    loop {
        if let Event::Connected { resumed, .. } = guest.events.recv().await.unwrap() {
            assert!(resumed, "the same seat");
            return Duration::from_nanos(BootClock.now().as_nanos());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_participants_of_a_killed_controller_are_back_in_their_seats_within_seconds() {
    // Leases of 30 s: the meeting is taken over by the fence, not by expiry.
    let cluster = TestCluster::start(&["mc-one", "mc-two"], "warn,tenure::meet=info", &[]).await;
    let (id, mut party) = party(&cluster, 19).await;
    let seats: Vec<String> = party.iter().map(Guest::id).collect();
    party[0].client.chat("before").await.unwrap();
    for guest in &mut party {
        guest.hears("before").await;
        guest.listen();
    }
    let owner = cluster.kept(&id, "mc");
    let killed = cluster.mcs.iter().find(|mc| mc.id == owner).unwrap();
    killed.server.process.kill9().unwrap();
    let began = Duration::from_nanos(BootClock.now().as_nanos());
    let mut times = Vec::new();
    for guest in &mut party {
        times.push(resumed(guest).await.saturating_sub(began));
    }
    times.sort();
    let p95 = times[times.len() * 95 / 100 - 1];
    println!("back in their seats: p50 {:?}, p95 {p95:?}, last {:?}", times[times.len() / 2], times.last());
    assert!(times.iter().all(|time| *time < BACK), "{times:?}");
    assert_eq!(party.iter().map(Guest::id).collect::<Vec<_>>(), seats);
    for (number, guest) in party.iter().enumerate() {
        guest.client.chat(&format!("after {number}")).await.unwrap();
    }
    for guest in &mut party {
        guest.hears("after 19").await;
        guest.listen();
        let words = guest.words();
        assert_eq!(words.iter().filter(|word| word.starts_with("after")).count(), 20, "each once: {words:?}");
    }
    let written = cluster.written(&id).await;
    assert!(written.windows(2).all(|pair| pair[1] == pair[0] + 1), "no gap: {written:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn meetings_go_on_without_the_global_controller_and_without_the_store_for_five_seconds() {
    let cluster = TestCluster::start(&["mc-one"], "warn,tenure::meet=info", &[]).await;
    let (_, party) = party(&cluster, 3).await;
    let seats: Vec<String> = party.iter().map(Guest::id).collect();
    let redis = cluster.installation.redis.as_ref().unwrap();
    redis.pause().unwrap();
    BootClock.sleep_until(BootClock.now() + Duration::from_secs(5)).await;
    redis.resume().unwrap();
    let said = async || party[0].client.chat("after the store").await.is_ok();
    wait::until_async("chat is accepted", LIMIT, said).await.unwrap();
    party[3].hears("after the store").await;
    cluster.gc.process.kill9().unwrap();
    party[1].client.chat("without a global controller").await.unwrap();
    for guest in &party {
        guest.hears("without a global controller").await;
        assert_eq!(guest.client.state(), State::Connected);
    }
    assert_eq!(party.iter().map(Guest::id).collect::<Vec<_>>(), seats);
}
