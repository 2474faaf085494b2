//! Registration of a node under virtual time, with a scripted global controller.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_keeper::{Keeper, OsEntropy, Terms};
use tenure_lease::{Claim, Clock, Holder, Key, Phase, Revoke, RevokeReason, Store, Tick, Token, Ttl};
use tenure_meet_rpc::node::{
    Listing, Member, Node, ProcessProof, RegistrationState, Report, ReportIntervals,
};
use tenure_meet_rpc::{Kind, NodeInfo};
use tenure_store::{Local, TokioClock};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::Status;

const INTERVALS: ReportIntervals =
    ReportIntervals { fast: Duration::from_secs(10), full: Some(Duration::from_secs(30)) };

/// What GC received, and its next responses.
struct Script {
    clock: Arc<TokioClock>,
    registered: Mutex<Vec<Tick>>,
    reported: Mutex<Vec<(Report, Tick)>>,
    registrations: Mutex<VecDeque<Status>>,
    reports: Mutex<VecDeque<Status>>,
    due: Notify,
    listing: Listing,
}

#[async_trait]
impl Member for Script {
    fn node_info(&self) -> NodeInfo {
        self.listing.node_info()
    }

    async fn register(&self, _node_info: &NodeInfo) -> Result<ReportIntervals, Status> {
        self.registered.lock().push(self.clock.now());
        self.registrations.lock().pop_front().map_or(Ok(INTERVALS), Err)
    }

    async fn report(&self, report: Report) -> Result<(), Status> {
        self.reported.lock().push((report, self.clock.now()));
        self.reports.lock().pop_front().map_or(Ok(()), Err)
    }

    async fn report_due(&self) {
        self.due.notified().await;
    }

    async fn changed(&self, node_info: &NodeInfo) {
        self.listing.changed(node_info).await;
    }
}

struct Fixture {
    clock: Arc<TokioClock>,
    store: Arc<dyn Store>,
    script: Arc<Script>,
    certificates: watch::Sender<Vec<Vec<u8>>>,
    registration: watch::Receiver<RegistrationState>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

fn fixture(registrations: Vec<Status>) -> Fixture {
    let clock = Arc::new(TokioClock::default());
    fixture_on(clock.clone(), Arc::new(Local::memory_on(clock)), registrations, None)
}

fn fixture_on(
    clock: Arc<TokioClock>,
    store: Arc<dyn Store>,
    registrations: Vec<Status>,
    proof: Option<ProcessProof>,
) -> Fixture {
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
        due: Notify::new(),
        listing,
    });
    let keeper = Keeper::new(store.clone(), Holder::new("mc-1").unwrap());
    let terms = Terms::new(Ttl::from_secs(9).unwrap());
    let node = Node::new(Kind::Controller, keeper, "mc-1", terms, script.clone()).unwrap().proving(proof);
    let (registration, stop) = (node.registration_state(), CancellationToken::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(node.run(stop.clone()));
    Fixture { clock, store, script, certificates, registration, stop, tasks }
}

impl Fixture {
    async fn is(&mut self, wanted: RegistrationState) {
        self.registration.wait_for(|registration| *registration == wanted).await.unwrap();
    }

    async fn pass(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }

    fn key() -> Key {
        Key::new("mc:mc-1").unwrap()
    }
}

/// The gaps between instants, in rounded seconds.
fn gaps(ticks: &[Tick]) -> Vec<u64> {
    ticks.windows(2).map(|pair| (pair[1].since(pair[0]).as_millis() as u64 + 500) / 1_000).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_publishes_its_info_in_its_lease_then_registers_and_reports() {
    let mut fixture = fixture(Vec::new());
    fixture.is(RegistrationState::Registered).await;
    let lease = fixture.store.inspect(&Fixture::key()).await.unwrap();
    assert_eq!(lease.holder.unwrap().as_str(), "mc-1");
    let node_info = NodeInfo::read(&lease.meta).unwrap();
    assert_eq!((node_info.region.as_str(), node_info.raw_certificates().len()), ("here", 1));
    fixture.pass(Duration::from_secs(61)).await;
    let reported = fixture.script.reported.lock().clone();
    let kinds: Vec<Report> = reported.iter().map(|(report, _)| *report).collect();
    let (fast, full) = (Report::Fast, Report::Full);
    assert_eq!(kinds, [fast, fast, full, fast, fast, full]);
    let times: Vec<Tick> = reported.iter().map(|(_, at)| *at).collect();
    assert_eq!(gaps(&times), [10; 5]);
    assert_eq!(fixture.script.registered.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_registration_is_retried_with_backoff_before_any_report() {
    let refusals = vec![Status::unavailable("no"); 7];
    let mut fixture = fixture(refusals);
    fixture.is(RegistrationState::LeaseHeld).await;
    fixture.is(RegistrationState::Registered).await;
    assert_eq!(gaps(&fixture.script.registered.lock()), [1, 2, 4, 8, 16, 30, 30]);
    assert!(fixture.script.reported.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_registers_again_when_gc_forgot_it_and_ignores_other_report_errors() {
    let mut fixture = fixture(Vec::new());
    fixture.is(RegistrationState::Registered).await;
    fixture.script.reports.lock().extend([Status::unavailable("busy"), Status::not_found("unknown node")]);
    fixture.pass(Duration::from_secs(11)).await;
    assert_eq!(
        fixture.script.registered.lock().len(),
        1,
        "one failed report does not trigger a registration"
    );
    fixture.pass(Duration::from_secs(10)).await;
    assert_eq!(fixture.script.registered.lock().len(), 2);
    fixture.is(RegistrationState::Registered).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_is_reported_at_once() {
    let mut fixture = fixture(Vec::new());
    fixture.is(RegistrationState::Registered).await;
    fixture.pass(Duration::from_secs(1)).await;
    fixture.script.due.notify_one();
    fixture.pass(Duration::from_millis(10)).await;
    assert_eq!(fixture.script.reported.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_lease_reacquires_it_with_a_greater_generation() {
    let mut fixture = fixture(Vec::new());
    fixture.is(RegistrationState::Registered).await;
    let before = fixture.store.inspect(&Fixture::key()).await.unwrap().generation.unwrap();
    let revoke = Revoke {
        key: Fixture::key(),
        generation: before,
        delay: Some(Duration::ZERO),
        reason: RevokeReason::default(),
    };
    fixture.store.revoke(revoke).await.unwrap();
    fixture.is(RegistrationState::LeaseLost).await;
    fixture.is(RegistrationState::Registered).await;
    let after = fixture.store.inspect(&Fixture::key()).await.unwrap();
    assert!(after.generation.unwrap() > before && after.phase == Phase::Held);
    assert_eq!(fixture.script.registered.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_certificate_is_published_in_the_lease() {
    let mut fixture = fixture(Vec::new());
    fixture.is(RegistrationState::Registered).await;
    fixture.certificates.send_replace(vec![vec![1; 32], vec![2; 32]]);
    loop {
        let lease = fixture.store.inspect(&Fixture::key()).await.unwrap();
        if NodeInfo::read(&lease.meta)
            .is_some_and(|node_info| node_info.raw_certificates() == [vec![1; 32], vec![2; 32]])
        {
            break;
        }
        fixture.pass(Duration::from_millis(10)).await;
    }
    fixture.is(RegistrationState::Registered).await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_node_releases_its_lease() {
    let mut fixture = fixture(Vec::new());
    fixture.is(RegistrationState::Registered).await;
    fixture.stop.cancel();
    fixture.tasks.join_next().await.unwrap().unwrap();
    assert_eq!(fixture.store.inspect(&Fixture::key()).await.unwrap().phase, Phase::Free);
}

/// A lease that a predecessor under the same id left behind, described as this process.
async fn left_behind(store: &Arc<dyn Store>, process: &str) {
    let meta = NodeInfo { process: process.to_owned(), ..NodeInfo::default() }.meta().unwrap();
    let token = Token::random(&OsEntropy);
    let ttl = Ttl::from_secs(9).unwrap();
    let claim = Claim::new(Fixture::key(), Holder::new("mc-1").unwrap(), token, ttl).meta(meta);
    store.acquire(claim).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_restarted_node_registers_at_once_after_a_process_that_is_proven_dead() {
    for (process, seconds) in [("dead", 0), ("alive", 9), ("", 9)] {
        let clock = Arc::new(TokioClock::default());
        let store: Arc<dyn Store> = Arc::new(Local::memory_on(clock.clone()));
        left_behind(&store, process).await;
        let began = clock.now();
        let is_dead = Arc::new(|process: &str| process == "dead");
        let proof = ProcessProof { process: "me".to_owned(), is_dead };
        let mut node = fixture_on(clock.clone(), store.clone(), Vec::new(), Some(proof));
        node.is(RegistrationState::Registered).await;
        let waited = clock.now().since(began).as_millis();
        assert!((seconds * 1_000..=seconds * 1_000 + 20).contains(&waited), "{process:?}: {waited} ms");
        let status = store.inspect(&Fixture::key()).await.unwrap();
        assert_eq!(NodeInfo::read(&status.meta).unwrap().process, "me");
    }
}
