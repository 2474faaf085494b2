//! A supervisor that panics.

use tenure_keeper::OsEntropy;
use tenure_lease::{Holder, Phase, Store};
use tenure_meet_rpc::Keyring;
use tenure_meet_wire::binding::MasterSecret;
use tenure_meet_wire::jwt::{Checker, Jwks, KeySet};
use tenure_store::Local;

use super::*;
use crate::MeetingKeys;
use crate::actor::{NoControllers, NoGlobalController, ScriptedHandlers};

fn options(store: &Arc<dyn Store>) -> Options {
    let limit = RateLimit { burst: 10, per_second: 10 };
    let shared = ControllerState {
        store: store.clone(),
        breaker: Arc::default(),
        mc_id: "mc-1".to_owned(),
        latency: Arc::default(),
    };
    Options {
        shared,
        keeper: Keeper::new(store.clone(), Holder::new("mc-1").unwrap()),
        lease_ttl: Ttl::from_secs(9).unwrap(),
        lease_renew: Duration::from_secs(3),
        max_meetings: 10,
        max_participants: 100,
        secrets: Secrets::new(MasterSecret::new(vec![7; 32]).unwrap()),
        keyring: Keyring::local(store.clock(), || Checker::new(KeySet::from(&Jwks { keys: Vec::new() }))),
        entropy: Arc::new(OsEntropy),
        media_handlers: Arc::new(ScriptedHandlers::ACCEPTING),
        global_controller: Arc::new(NoGlobalController),
        controllers: Arc::new(NoControllers),
        join_limit: limit,
        request_limit: limit,
    }
}

#[tokio::test]
async fn after_a_panic_of_the_supervisor_meetings_are_released_and_nothing_more_is_accepted() {
    let store: Arc<dyn Store> = Arc::new(Local::memory());
    let (controller, running) = Controller::start(options(&store));
    let meeting = MeetingId::parse("abc").unwrap();
    let assignment = Assignment {
        meeting: meeting.clone(),
        settings: Settings::default(),
        handlers: Vec::new(),
        instead_of: None,
    };
    assert!(matches!(controller.assign(assignment.clone()).await, Assigned::Accepted { .. }));
    controller.mailbox.send(ControllerMessage::Panic).await.unwrap();
    controller.panicked().await;
    assert!(controller.is_draining(), "health says so at once");
    let lease = MeetingKeys::new(&meeting).lease().unwrap();
    assert_eq!(store.inspect(&lease).await.unwrap().phase, Phase::Free, "flushed and released");
    assert_eq!(controller.assign(assignment).await, Assigned::Rejected(Rejection::Draining));
    assert_eq!(running.wait().await, Exit::Panicked("a defect of the supervisor".to_owned()));
}
