//! What meeting controllers ask of a handler.

use meet_mh::Refuse;
use meet_wire::MeetingId;
use meet_wire::internal::{MhRejectionReason, RegisterMeetingRequest, ReleaseMeetingRequest};
use meet_wire::jwt::ServiceType;

use crate::house::house;

fn abc() -> MeetingId {
    MeetingId::parse("abc").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_meeting_is_registered_by_its_owner_and_not_by_one_that_was() {
    let house = house(10);
    assert!(house.register(7).await.accepted);
    let stale = house.register(6).await;
    assert_eq!((stale.accepted, stale.rejection_reason()), (false, MhRejectionReason::StaleGeneration));
    assert!(house.register(8).await.accepted);
    assert_eq!(house.handler.meeting(&abc()).unwrap().generation, 8);
    let mut mc = house.as_part(ServiceType::MeetingController);
    let release = |generation| ReleaseMeetingRequest { meeting_id: "abc".to_owned(), generation };
    mc.release_meeting(release(7)).await.unwrap();
    assert_eq!(house.handler.meetings(), 1, "the word of an older owner counts for nothing");
    mc.release_meeting(release(8)).await.unwrap();
    assert_eq!(house.handler.meetings(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_mute_is_acknowledged_with_the_epoch_that_is_held() {
    let house = house(10);
    assert!(!house.mute(7, 1, true).await.enforced, "nobody registered the meeting");
    house.register(7).await;
    let held = house.mute(7, 2, true).await;
    assert_eq!((held.enforced, held.mute_epoch), (true, 2));
    let older = house.mute(7, 1, false).await;
    assert_eq!((older.enforced, older.mute_epoch), (false, 2));
    let stale = house.mute(6, 9, false).await;
    assert_eq!((stale.enforced, stale.rejection_reason()), (false, MhRejectionReason::StaleGeneration));
    let bob = meet_wire::Id::parse(crate::house::BOB).unwrap();
    assert!(house.handler.meeting(&abc()).unwrap().mask(bob).unwrap().audio);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_was_told_to_refuse_takes_no_new_meeting_and_keeps_those_it_has() {
    let house = house(10);
    for (refuse, reason) in
        [(Refuse::AtCapacity, MhRejectionReason::AtCapacity), (Refuse::Draining, MhRejectionReason::Draining)]
    {
        house.handler.refuse(refuse);
        let answer = house.register(1).await;
        assert_eq!((answer.accepted, answer.rejection_reason()), (false, reason));
    }
    house.handler.refuse(Refuse::Nothing);
    assert!(house.register(1).await.accepted);
    house.handler.refuse(Refuse::Draining);
    assert!(house.register(2).await.accepted, "its next owner finds it");
}

#[tokio::test(start_paused = true)]
async fn only_controllers_are_heard_and_only_with_ids_that_can_be() {
    let house = house(10);
    let request = RegisterMeetingRequest { meeting_id: "abc".to_owned(), ..Default::default() };
    for stranger in [ServiceType::GlobalController, ServiceType::MediaHandler] {
        let refused = house.as_part(stranger).register_meeting(request.clone()).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    }
    let mut mc = house.as_part(ServiceType::MeetingController);
    let bad = RegisterMeetingRequest { meeting_id: String::new(), ..request };
    assert_eq!(mc.register_meeting(bad).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    assert_eq!(house.handler.meetings(), 0);
}
