//! Meetings that move between controllers while their participants talk.

use std::sync::Arc;
use std::time::Duration;

use tenure_keeper::OsEntropy;
use tenure_lease::{Clock, Key, Store};
use tenure_meet_client::{Client, Event, Events, News, Options, State};
use tenure_meet_mc::actor::{DrainOrder, DrainReason, MoveOutcome};
use tenure_meet_rpc::history::{DrainProgress, DrainState, MoveEntry, MoveReason, MoveResult};
use tenure_meet_wire::MeetingId;
use tenure_meet_wire::jwt::Role;
use tenure_store::{Local, TokioClock};
use tenure_testkit_meet::{
    FaultyStore, FlakyTransport, LocalControllers, MEETING, MoveCall, ScriptedJoinApi, TestMeeting,
    WriteFault,
};

const ROUNDS: usize = 20;

/// Controllers that move meetings to each other, and one transport to all of them.
struct World {
    clock: Arc<TokioClock>,
    store: Arc<dyn Store>,
    faults: Arc<FaultyStore>,
    others: LocalControllers,
    controllers: Vec<TestMeeting>,
    transport: Arc<FlakyTransport>,
}

struct Guest {
    client: Client,
    events: Events,
    join_api: Arc<ScriptedJoinApi>,
}

fn meeting() -> MeetingId {
    MeetingId::parse(MEETING).unwrap()
}

impl World {
    async fn new(ids: &[&str]) -> Self {
        let clock = Arc::new(TokioClock::default());
        let faults = FaultyStore::new(Arc::new(Local::memory_on(clock.clone())));
        let store: Arc<dyn Store> = faults.clone();
        let (others, transport) = (LocalControllers::default(), FlakyTransport::new());
        let mut controllers = Vec::new();
        for id in ids {
            let mut controller = TestMeeting::among(&store, id, &others).unwrap();
            transport.add_route(&format!("https://{id}/wt/mc"), controller.in_memory());
            controllers.push(controller);
        }
        controllers[0].assign().await.unwrap();
        Self { clock, store, faults, others, controllers, transport }
    }

    async fn join(&self, user: &str) -> Guest {
        let tokens = self.controllers[0].tokens();
        let place = format!("https://{}/wt/mc", self.controllers[0].controller.id());
        let join_api = ScriptedJoinApi::in_memory(tokens, user, Role::Participant, &place);
        let options = Options::new(user, self.clock.clone(), Arc::new(OsEntropy));
        let (client, events) = Client::join(join_api.clone(), self.transport.clone(), options).await.unwrap();
        Guest { client, events, join_api }
    }

    async fn party(&self) -> Vec<Guest> {
        let mut guests = Vec::new();
        for user in ["ada", "bob", "cyd"] {
            guests.push(self.join(user).await);
        }
        guests
    }

    async fn move_to(&self, target: &str) -> MoveOutcome {
        let to = Some(LocalControllers::destination(target));
        self.controllers[0].controller.move_meeting(&meeting(), to, MoveReason::Operator).await
    }

    async fn owner(&self) -> (String, u64) {
        let key = Key::new(format!("meeting:{MEETING}")).unwrap();
        let status = self.store.inspect(&key).await.unwrap();
        (status.holder.unwrap().to_string(), status.generation.unwrap().get())
    }

    async fn last_move(&self) -> MoveEntry {
        MoveEntry::read_all(&*self.store).await.unwrap().remove(0)
    }

    async fn pass(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }
}

impl Guest {
    /// Every chat message that arrived, in order.
    fn heard(&mut self) -> Vec<String> {
        let mut heard = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::News { news: News::Chat(chat), .. } => heard.push(chat.text),
                Event::Reconnecting { why } => panic!("the client noticed: {why}"),
                _ => {}
            }
        }
        heard
    }
}

/// Every client sends one message in each round, one message every 20 ms.
async fn talk(world: &World, guests: &[Guest]) {
    for round in 0..ROUNDS {
        for (number, guest) in guests.iter().enumerate() {
            guest.client.chat(&format!("{number}:{round}")).await.unwrap();
        }
        world.pass(Duration::from_millis(20)).await;
    }
}

/// Every participant has every message exactly once, in one order.
async fn check_chats(guests: &mut [Guest]) {
    let most = guests.len() * ROUNDS;
    for guest in guests.iter() {
        let all = guest.client.until(|view| (view.lines.len() >= most).then_some(())).await;
        assert_eq!(all, Some(()));
        assert_eq!(guest.client.state(), State::Connected);
    }
    let first = guests[0].heard();
    for guest in &mut guests[1..] {
        assert_eq!(guest.heard(), first);
    }
    let mut sorted = first.clone();
    sorted.sort();
    let mut expected: Vec<String> =
        (0..guests.len()).flat_map(|who| (0..ROUNDS).map(move |round| format!("{who}:{round}"))).collect();
    expected.sort();
    assert_eq!(sorted, expected);
}

#[tokio::test(start_paused = true)]
async fn a_meeting_moves_under_traffic_and_nothing_is_lost_or_doubled() {
    let world = World::new(&["mc-1", "mc-2"]).await;
    let (_, before) = world.owner().await;
    let mut guests = world.party().await;
    let moving = async {
        world.pass(Duration::from_millis(100)).await;
        world.move_to("mc-2").await
    };
    let ((), moved) = tokio::join!(talk(&world, &guests), moving);
    assert_eq!(moved, MoveOutcome::Moved);
    check_chats(&mut guests).await;
    let (owner, generation) = world.owner().await;
    assert!(owner == "mc-2" && generation == before + 1, "{owner} {generation}");
    assert!(guests.iter().all(|guest| guest.join_api.call_count() == 1), "no guest called the API again");
    let entry = world.last_move().await;
    assert_eq!((entry.result, entry.to_mc.as_deref()), (MoveResult::Completed, Some("mc-2")));
    assert!(entry.freeze_ms.unwrap() < 200, "{entry:?}");
    world.pass(Duration::from_secs(1)).await;
    assert!(!world.controllers[0].controller.owns(&meeting()).await);
    assert!(world.controllers[1].controller.owns(&meeting()).await);
}

#[tokio::test(start_paused = true)]
async fn a_meeting_moves_back_and_forth() {
    let world = World::new(&["mc-1", "mc-2"]).await;
    let mut guests = world.party().await;
    let moving = async {
        for (at, to) in [(0, "mc-2"), (1, "mc-1"), (0, "mc-2")] {
            world.pass(Duration::from_millis(50)).await;
            let to = Some(LocalControllers::destination(to));
            let controller = &world.controllers[at].controller;
            let moved = controller.move_meeting(&meeting(), to, MoveReason::Operator).await;
            assert_eq!(moved, MoveOutcome::Moved);
        }
    };
    tokio::join!(talk(&world, &guests), moving);
    check_chats(&mut guests).await;
    assert_eq!(world.owner().await.0, "mc-2");
}

#[tokio::test(start_paused = true)]
async fn a_move_to_a_target_that_dies_is_aborted_and_the_next_target_takes_the_meeting() {
    let world = World::new(&["mc-1", "mc-2", "mc-3"]).await;
    let (_, before) = world.owner().await;
    let mut guests = world.party().await;
    world.others.set_failing(MoveCall::Prepare, true);
    let moving = async {
        world.pass(Duration::from_millis(100)).await;
        let healing = async {
            // After the freeze for the first target.
            while MoveEntry::read_all(&*world.store).await.unwrap().is_empty() {
                world.pass(Duration::from_millis(5)).await;
            }
            world.others.remove("mc-2");
            world.others.set_failing(MoveCall::Prepare, false);
        };
        tokio::join!(world.move_to("mc-2"), healing).0
    };
    let ((), moved) = tokio::join!(talk(&world, &guests), moving);
    assert_eq!(moved, MoveOutcome::Moved);
    check_chats(&mut guests).await;
    assert_eq!(world.owner().await, ("mc-3".to_owned(), before + 1));
    let moves = MoveEntry::read_all(&*world.store).await.unwrap();
    assert_eq!(
        moves.iter().map(|entry| entry.result).collect::<Vec<_>>(),
        [MoveResult::Completed, MoveResult::Aborted]
    );
}

#[tokio::test(start_paused = true)]
async fn without_any_target_the_meeting_goes_on_where_it_is_under_the_same_generation() {
    let world = World::new(&["mc-1", "mc-2"]).await;
    let before = world.owner().await;
    let mut guests = world.party().await;
    world.others.set_failing(MoveCall::Prepare, true);
    let ((), moved) = tokio::join!(talk(&world, &guests), world.move_to("mc-2"));
    assert_eq!(moved, MoveOutcome::Stayed);
    check_chats(&mut guests).await;
    assert_eq!(world.owner().await, before);
}

#[tokio::test(start_paused = true)]
async fn a_transfer_without_an_answer_is_settled_either_way() {
    for (fault, owner) in [(WriteFault::ReplyLost, "mc-2"), (WriteFault::RequestLost, "mc-1")] {
        let world = World::new(&["mc-1", "mc-2"]).await;
        let (_, before) = world.owner().await;
        let mut guests = world.party().await;
        world.faults.fail_transfers(Some(fault));
        let ((), moved) = tokio::join!(talk(&world, &guests), world.move_to("mc-2"));
        let expected = if owner == "mc-2" { MoveOutcome::Moved } else { MoveOutcome::Stayed };
        assert_eq!(moved, expected, "{fault:?}");
        check_chats(&mut guests).await;
        let (holder, generation) = world.owner().await;
        assert!(holder == owner && generation == before + 1, "{fault:?}: {holder} {generation}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_cannot_open_the_meeting_gives_it_back() {
    let world = World::new(&["mc-1", "mc-2"]).await;
    let (_, before) = world.owner().await;
    let mut guests = world.party().await;
    world.faults.fail_generation(Some(before + 1));
    let ((), moved) = tokio::join!(talk(&world, &guests), world.move_to("mc-2"));
    assert_eq!(moved, MoveOutcome::Stayed);
    check_chats(&mut guests).await;
    assert_eq!(world.owner().await, ("mc-1".to_owned(), before + 2));
}

#[tokio::test(start_paused = true)]
async fn a_second_order_is_refused_while_the_meeting_moves() {
    let world = World::new(&["mc-1", "mc-2"]).await;
    let _guests = world.party().await;
    let (first, second) = tokio::join!(world.move_to("mc-2"), world.move_to("mc-2"));
    assert_eq!((first, second), (MoveOutcome::Moved, MoveOutcome::Conflict));
    assert_ne!(world.move_to("mc-2").await, MoveOutcome::Moved, "it has moved");
}

#[tokio::test(start_paused = true)]
async fn a_drain_moves_every_meeting_and_reports_it() {
    let world = World::new(&["mc-1", "mc-2", "mc-3"]).await;
    for number in 0..20 {
        world.controllers[0].assign_meeting(&format!("m{number}")).await.unwrap();
    }
    let mut guests = world.party().await;
    let order = DrainOrder { deadline: Duration::from_secs(60), reason: DrainReason::Maintenance };
    let began = world.clock.now();
    let draining = world.controllers[0].controller.drain_meetings(order);
    let ((), report) = tokio::join!(talk(&world, &guests), draining);
    assert_eq!((report.migrated, report.closed), (21, 0));
    assert!(world.clock.now().since(began) < Duration::from_secs(10));
    check_chats(&mut guests).await;
    assert_ne!(world.owner().await.0, "mc-1");
    assert_eq!(world.others.drained(), [report]);
    let record = world.store.get(&DrainProgress::key("mc-1").unwrap()).await.unwrap().unwrap();
    let progress = DrainProgress::read(&record.value).unwrap();
    assert_eq!((progress.state, progress.migrated, progress.left()), (DrainState::Drained, 21, 0));
}

#[tokio::test(start_paused = true)]
async fn a_controller_without_others_ends_its_drain_at_once() {
    let world = World::new(&["mc-1"]).await;
    let _guests = world.party().await;
    let order = DrainOrder { deadline: Duration::from_secs(60), reason: DrainReason::Unspecified };
    let began = world.clock.now();
    let report = world.controllers[0].controller.drain_meetings(order).await;
    assert_eq!((report.migrated, report.closed), (0, 1));
    assert!(world.clock.now().since(began) < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_cancelled_leaves_the_rest_where_it_is() {
    let world = World::new(&["mc-1", "mc-2"]).await;
    let mut guests = world.party().await;
    world.others.set_failing(MoveCall::Announce, true);
    let controller = world.controllers[0].controller.clone();
    let order = DrainOrder { deadline: Duration::from_secs(60), reason: DrainReason::ScaleDown };
    assert!(controller.start_drain(order));
    assert!(!controller.start_drain(order), "one at a time");
    let cancelling = async {
        world.pass(Duration::from_secs(1)).await;
        assert!(controller.is_draining());
        assert!(controller.cancel_drain().await);
        world.pass(Duration::from_secs(1)).await;
    };
    tokio::join!(talk(&world, &guests), cancelling);
    check_chats(&mut guests).await;
    assert!(!controller.is_draining() && !controller.cancel_drain().await);
    assert_eq!(world.owner().await.0, "mc-1");
}

#[tokio::test(start_paused = true)]
async fn without_gc_a_draining_controller_chooses_by_the_registry_after_half_of_its_time() {
    let world = World::new(&["mc-1", "mc-2"]).await;
    let mut guests = world.party().await;
    let _registered = register(&world, "mc-2").await;
    world.others.set_failing(MoveCall::Gc, true);
    let order = DrainOrder { deadline: Duration::from_secs(20), reason: DrainReason::Unspecified };
    let began = world.clock.now();
    let report = world.controllers[0].controller.drain_meetings(order).await;
    let took = world.clock.now().since(began);
    assert_eq!((report.migrated, report.closed), (1, 0));
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(18), "{took:?}");
    talk(&world, &guests).await;
    check_chats(&mut guests).await;
}

/// Holds the lease of a controller in the registry.
async fn register(world: &World, mc_id: &str) -> tenure_keeper::Guard {
    let place = LocalControllers::destination(mc_id);
    let info = tenure_meet_rpc::NodeInfo {
        grpc_endpoint: place.grpc_endpoint,
        webtransport_endpoint: place.webtransport_endpoint,
        ..Default::default()
    };
    let keeper = tenure_keeper::Keeper::new(world.store.clone(), tenure_lease::Holder::new(mc_id).unwrap());
    let terms = tenure_keeper::Terms::new(tenure_lease::Ttl::from_secs(9).unwrap());
    let key = tenure_meet_rpc::Kind::Controller.lease(mc_id).unwrap();
    keeper.try_acquire(key, terms.meta(info.meta().unwrap())).await.unwrap()
}
