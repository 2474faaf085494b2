//! Calls of meeting controllers to a handler.

use tenure_meet_mh::RefuseMeetings;
use tenure_meet_wire::internal::{
    MediaSeat, MhRejectionReason, RegisterMeetingRequest, ReleaseMeetingRequest,
};
use tenure_meet_wire::jwt::ServiceType;

use crate::harness::{abc, harness, id, seat};

#[tokio::test(start_paused = true)]
async fn only_the_current_owner_registers_a_meeting() {
    let harness = harness(10);
    assert!(harness.register(7).await.accepted);
    let stale = harness.register(6).await;
    assert_eq!((stale.accepted, stale.rejection_reason()), (false, MhRejectionReason::StaleGeneration));
    assert!(harness.register(8).await.accepted);
    assert_eq!(harness.handler.meeting(&abc()).unwrap().owner.generation, 8);
    let mut mc = harness.as_part(ServiceType::MeetingController);
    let release = |generation| ReleaseMeetingRequest { meeting_id: "abc".to_owned(), generation };
    mc.release_meeting(release(7)).await.unwrap();
    assert_eq!(harness.handler.meeting_count(), 1, "an older owner is ignored");
    mc.release_meeting(release(8)).await.unwrap();
    assert_eq!(harness.handler.meeting_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_mute_is_acknowledged_with_the_current_epoch() {
    let harness = harness(10);
    assert!(!harness.mute_as(7, 1, 1, true, false).await.enforced, "the meeting is not registered");
    harness.register(7).await;
    let entry = harness.mute_as(7, 1, 2, true, false).await;
    assert_eq!((entry.enforced, entry.mute_epoch), (true, 2));
    let older = harness.mute_as(7, 1, 1, false, false).await;
    assert_eq!((older.enforced, older.mute_epoch), (false, 2));
    let stale = harness.mute_as(6, 1, 9, false, false).await;
    assert_eq!((stale.enforced, stale.rejection_reason()), (false, MhRejectionReason::StaleGeneration));
    assert!(harness.handler.meeting(&abc()).unwrap().mask(id(1)).unwrap().audio);
}

#[tokio::test(start_paused = true)]
async fn a_refusing_handler_accepts_no_new_meeting_and_keeps_its_own() {
    let harness = harness(10);
    for (refuse, reason) in [
        (RefuseMeetings::AtCapacity, MhRejectionReason::AtCapacity),
        (RefuseMeetings::Draining, MhRejectionReason::Draining),
    ] {
        harness.handler.set_refuse(refuse);
        let answer = harness.register(1).await;
        assert_eq!((answer.accepted, answer.rejection_reason()), (false, reason));
    }
    harness.handler.set_refuse(RefuseMeetings::Nothing);
    assert!(harness.register(1).await.accepted);
    harness.handler.set_refuse(RefuseMeetings::Draining);
    assert!(harness.register(2).await.accepted, "its next owner finds it");
}

#[tokio::test(start_paused = true)]
async fn only_controllers_with_valid_ids_are_accepted() {
    let harness = harness(10);
    let request = RegisterMeetingRequest { meeting_id: "abc".to_owned(), ..Default::default() };
    for stranger in [ServiceType::GlobalController, ServiceType::MediaHandler] {
        let refused = harness.as_part(stranger).register_meeting(request.clone()).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    }
    let mut mc = harness.as_part(ServiceType::MeetingController);
    let bad = RegisterMeetingRequest { meeting_id: String::new(), ..request.clone() };
    let odd_seat = MediaSeat { participant_id: "bob".to_owned(), ..seat(1) };
    let seats = RegisterMeetingRequest { seats: vec![odd_seat], ..request.clone() };
    let short_key = RegisterMeetingRequest { handler_key: vec![vec![1; 31].into()], ..request.clone() };
    for bad in [bad, seats, short_key] {
        assert_eq!(mc.register_meeting(bad).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    }
    assert_eq!(harness.handler.meeting_count(), 0);
}
