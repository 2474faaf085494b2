//! A node and its place in the registry, under virtual time, with a global controller that is scripted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease::{Clock, Holder, Key, Motive, Phase, Revoke, Store, Tick, Ttl};
use lease_keeper::{Keeper, Terms};
use lease_store::{Local, TokioClock};
use meet_rpc::node::{Duty, Listing, Member, Node, Report, Standing};
use meet_rpc::{Card, Kind};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::Status;

const DUTY: Duty = Duty { fast: Duration::from_secs(10), full: Some(Duration::from_secs(30)) };

/// What GC was told, and what it answers next.
struct Script {
    clock: Arc<TokioClock>,
    registered: Mutex<Vec<Tick>>,
    reported: Mutex<Vec<(Report, Tick)>>,
    registrations: Mutex<VecDeque<Status>>,
    reports: Mutex<VecDeque<Status>>,
    stir: Notify,
    listing: Listing,
}

#[async_trait]
impl Member for Script {
    fn card(&self) -> Card {
        self.listing.card()
    }

    async fn register(&self, _card: &Card) -> Result<Duty, Status> {
        self.registered.lock().push(self.clock.now());
        self.registrations.lock().pop_front().map_or(Ok(DUTY), Err)
    }

    async fn report(&self, report: Report) -> Result<(), Status> {
        self.reported.lock().push((report, self.clock.now()));
        self.reports.lock().pop_front().map_or(Ok(()), Err)
    }

    async fn stirred(&self) {
        self.stir.notified().await;
    }

    async fn changed(&self, card: &Card) {
        self.listing.changed(card).await;
    }
}

struct World {
    clock: Arc<TokioClock>,
    store: Arc<dyn Store>,
    script: Arc<Script>,
    certificates: watch::Sender<Vec<Vec<u8>>>,
    standing: watch::Receiver<Standing>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

fn world(registrations: Vec<Status>) -> World {
    let clock = Arc::new(TokioClock::default());
    let store: Arc<dyn Store> = Arc::new(Local::memory_on(clock.clone()));
    let (certificates, seen) = watch::channel(vec![vec![1; 32]]);
    let listing = Listing {
        region: "here".to_owned(),
        zone: "a".to_owned(),
        grpc_endpoint: "inproc:mc-1".to_owned(),
        webtransport_endpoint: "https://127.0.0.1:1/wt/mc".to_owned(),
        certificates: seen,
        version: "1".to_owned(),
    };
    let script = Arc::new(Script {
        clock: clock.clone(),
        registered: Mutex::default(),
        reported: Mutex::default(),
        registrations: Mutex::new(registrations.into()),
        reports: Mutex::default(),
        stir: Notify::new(),
        listing,
    });
    let keeper = Keeper::new(store.clone(), Holder::new("mc-1").unwrap());
    let terms = Terms::new(Ttl::from_secs(9).unwrap());
    let node = Node::new(Kind::Controller, keeper, "mc-1", terms, script.clone()).unwrap();
    let (standing, stop) = (node.standing(), CancellationToken::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(node.run(stop.clone()));
    World { clock, store, script, certificates, standing, stop, tasks }
}

impl World {
    async fn is(&mut self, wanted: Standing) {
        self.standing.wait_for(|standing| *standing == wanted).await.unwrap();
    }

    async fn pass(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }

    fn key() -> Key {
        Key::new("mc:mc-1").unwrap()
    }
}

/// Seconds between moments, rounded.
fn gaps(ticks: &[Tick]) -> Vec<u64> {
    ticks.windows(2).map(|pair| (pair[1].since(pair[0]).as_millis() as u64 + 500) / 1_000).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_holds_its_lease_with_its_card_before_it_registers_and_then_reports_as_told() {
    let mut world = world(Vec::new());
    world.is(Standing::Registered).await;
    let lease = world.store.inspect(&World::key()).await.unwrap();
    assert_eq!(lease.holder.unwrap().as_str(), "mc-1");
    let card = Card::read(&lease.meta).unwrap();
    assert_eq!((card.region.as_str(), card.raw_certificates().len()), ("here", 1));
    world.pass(Duration::from_secs(61)).await;
    let reported = world.script.reported.lock().clone();
    let kinds: Vec<Report> = reported.iter().map(|(report, _)| *report).collect();
    let (fast, full) = (Report::Fast, Report::Full);
    assert_eq!(kinds, [fast, fast, full, fast, fast, full]);
    let times: Vec<Tick> = reported.iter().map(|(_, at)| *at).collect();
    assert_eq!(gaps(&times), [10; 5]);
    assert_eq!(world.script.registered.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_is_refused_is_tried_again_ever_more_slowly_and_nothing_is_reported_before() {
    let refusals = vec![Status::unavailable("no"); 7];
    let mut world = world(refusals);
    world.is(Standing::Held).await;
    world.is(Standing::Registered).await;
    assert_eq!(gaps(&world.script.registered.lock()), [1, 2, 4, 8, 16, 30, 30]);
    assert!(world.script.reported.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_gc_that_has_forgotten_the_node_is_told_again_and_other_troubles_wait_for_the_next_report() {
    let mut world = world(Vec::new());
    world.is(Standing::Registered).await;
    world.script.reports.lock().extend([Status::unavailable("busy"), Status::not_found("who?")]);
    world.pass(Duration::from_secs(11)).await;
    assert_eq!(world.script.registered.lock().len(), 1, "one report that failed changes nothing");
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(world.script.registered.lock().len(), 2);
    world.is(Standing::Registered).await;
}

#[tokio::test(start_paused = true)]
async fn what_stirs_is_reported_at_once() {
    let mut world = world(Vec::new());
    world.is(Standing::Registered).await;
    world.pass(Duration::from_secs(1)).await;
    world.script.stir.notify_one();
    world.pass(Duration::from_millis(10)).await;
    assert_eq!(world.script.reported.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_lease_says_so_and_comes_back_with_a_greater_generation() {
    let mut world = world(Vec::new());
    world.is(Standing::Registered).await;
    let before = world.store.inspect(&World::key()).await.unwrap().generation.unwrap();
    let revoke = Revoke {
        key: World::key(),
        generation: before,
        delay: Some(Duration::ZERO),
        reason: Motive::default(),
    };
    world.store.revoke(revoke).await.unwrap();
    world.is(Standing::Lost).await;
    world.is(Standing::Registered).await;
    let after = world.store.inspect(&World::key()).await.unwrap();
    assert!(after.generation.unwrap() > before && after.phase == Phase::Held);
    assert_eq!(world.script.registered.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_certificate_is_read_in_the_lease_by_whoever_looks() {
    let mut world = world(Vec::new());
    world.is(Standing::Registered).await;
    world.certificates.send_replace(vec![vec![1; 32], vec![2; 32]]);
    loop {
        let lease = world.store.inspect(&World::key()).await.unwrap();
        if Card::read(&lease.meta).is_some_and(|card| card.raw_certificates() == [vec![1; 32], vec![2; 32]]) {
            break;
        }
        world.pass(Duration::from_millis(10)).await;
    }
    world.is(Standing::Registered).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_told_to_stop_gives_its_place_back() {
    let mut world = world(Vec::new());
    world.is(Standing::Registered).await;
    world.stop.cancel();
    world.tasks.join_next().await.unwrap().unwrap();
    assert_eq!(world.store.inspect(&World::key()).await.unwrap().phase, Phase::Free);
}
