//! Reports of speakers to the meeting's controller.

use std::sync::Arc;
use std::time::Duration;

use tenure_meet_wire::Id;
use tenure_meet_wire::internal::media_coordination_service_server::{
    MediaCoordinationService, MediaCoordinationServiceServer,
};
use tenure_meet_wire::internal::{
    MediaNotificationResponse, MeetingSpeakers, MhLoadNotification, ParticipantMediaConnected,
    ParticipantMediaDisconnected,
};
use tenure_meet_wire::transport::memory::Session;
use tokio::sync::{Semaphore, mpsc};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::client::{MediaClient, microphone};
use crate::harness::{Harness, harness, id};

/// A controller that records what it receives, and answers as often as it is allowed to.
pub(crate) struct Controller {
    speakers: mpsc::Sender<MeetingSpeakers>,
    loads: mpsc::Sender<MhLoadNotification>,
    answers: Arc<Semaphore>,
}

/// What a controller received.
pub(crate) struct Heard {
    pub(crate) speakers: mpsc::Receiver<MeetingSpeakers>,
    pub(crate) loads: mpsc::Receiver<MhLoadNotification>,
    pub(crate) answers: Arc<Semaphore>,
}

fn acknowledged() -> Result<Response<MediaNotificationResponse>, Status> {
    Ok(Response::new(MediaNotificationResponse { acknowledged: true }))
}

#[tonic::async_trait]
impl MediaCoordinationService for Controller {
    async fn notify_participant_connected(
        &self,
        _request: Request<ParticipantMediaConnected>,
    ) -> Result<Response<MediaNotificationResponse>, Status> {
        acknowledged()
    }

    async fn notify_participant_disconnected(
        &self,
        _request: Request<ParticipantMediaDisconnected>,
    ) -> Result<Response<MediaNotificationResponse>, Status> {
        acknowledged()
    }

    async fn notify_load(
        &self,
        request: Request<MhLoadNotification>,
    ) -> Result<Response<MediaNotificationResponse>, Status> {
        self.loads.try_send(request.into_inner()).unwrap();
        acknowledged()
    }

    async fn notify_speakers(
        &self,
        request: Request<MeetingSpeakers>,
    ) -> Result<Response<MediaNotificationResponse>, Status> {
        self.speakers.try_send(request.into_inner()).unwrap();
        self.answers.acquire().await.unwrap().forget();
        acknowledged()
    }
}

/// Serves the controller that the harness registers the meeting for.
pub(crate) fn controller(harness: &Harness, answers: usize) -> Heard {
    let ((speakers, heard), (loads, received)) = (mpsc::channel(100), mpsc::channel(100));
    let answers = Arc::new(Semaphore::new(answers));
    let controller = Controller { speakers, loads, answers: answers.clone() };
    harness.channels.offer("mc-1", Routes::new(MediaCoordinationServiceServer::new(controller)));
    Heard { speakers: heard, loads: received, answers }
}

fn ids(speakers: &MeetingSpeakers) -> Vec<Id> {
    speakers.participant_ids.iter().map(|id| Id::parse(id).unwrap()).collect()
}

async fn join_speaker(harness: &Harness, n: u8) -> MediaClient<Session> {
    let mut speaker = harness.join(n).await;
    speaker.publish(microphone(6)).await;
    speaker
}

#[tokio::test(start_paused = true)]
async fn the_controller_learns_who_speaks_when_the_order_changes() {
    let harness = harness(100);
    let mut heard = controller(&harness, 100);
    harness.open(2).await;
    let (one, two) = (join_speaker(&harness, 1).await, join_speaker(&harness, 2).await);
    for sequence in 0..20 {
        one.speak(6, sequence, 40);
        harness.pass(Duration::from_millis(20)).await;
    }
    let first = heard.speakers.recv().await.unwrap();
    assert_eq!((first.meeting_id.as_str(), first.handler_id.as_str()), ("abc", "mh-1"));
    assert_eq!(ids(&first), [id(1)]);
    for sequence in 20..50 {
        one.speak(6, sequence, 60);
        two.speak(6, sequence, 20);
        harness.pass(Duration::from_millis(20)).await;
    }
    let mut last = first;
    while let Ok(next) = heard.speakers.try_recv() {
        last = next;
    }
    assert_eq!(ids(&last), [id(2), id(1)]);
    harness.pass(Duration::from_secs(2)).await;
    let last = heard.speakers.recv().await.unwrap();
    assert!(last.participant_ids.is_empty(), "silence is a change");
}

#[tokio::test(start_paused = true)]
async fn one_report_is_in_progress_at_a_time_and_the_next_one_has_the_newest_order() {
    let harness = harness(100);
    let mut heard = controller(&harness, 0);
    harness.open(2).await;
    let (one, two) = (join_speaker(&harness, 1).await, join_speaker(&harness, 2).await);
    for sequence in 0..60 {
        // The order changes while the first call is in progress.
        let (a, b) = if sequence < 20 { (20, 80) } else { (80, 20) };
        one.speak(6, sequence, a);
        two.speak(6, sequence, b);
        harness.pass(Duration::from_millis(20)).await;
    }
    assert!(heard.speakers.try_recv().is_ok() && heard.speakers.try_recv().is_err(), "one call in progress");
    heard.answers.add_permits(100);
    harness.pass(Duration::from_millis(300)).await;
    assert_eq!(ids(&heard.speakers.recv().await.unwrap()), [id(2), id(1)], "the newest order");
}

#[tokio::test(start_paused = true)]
async fn reports_leave_at_most_four_times_a_second_and_a_new_owner_gets_one() {
    let harness = harness(100);
    let mut heard = controller(&harness, 1_000);
    harness.open(2).await;
    let (one, two) = (join_speaker(&harness, 1).await, join_speaker(&harness, 2).await);
    for sequence in 0..200 {
        let (a, b) = if sequence / 25 % 2 == 0 { (20, 100) } else { (100, 20) };
        one.speak(6, sequence, a);
        two.speak(6, sequence, b);
        harness.pass(Duration::from_millis(20)).await;
    }
    let mut count = 0;
    while heard.speakers.try_recv().is_ok() {
        count += 1;
    }
    assert!((4..=17).contains(&count), "{count} in four seconds");
    for sequence in 200..230 {
        one.speak(6, sequence, 40);
        harness.pass(Duration::from_millis(20)).await;
        if sequence == 220 {
            while heard.speakers.try_recv().is_ok() {}
            let seats = vec![crate::harness::seat(1), crate::harness::seat(2)];
            assert!(harness.register_seats(2, seats).await.accepted);
        }
    }
    assert_eq!(ids(&heard.speakers.recv().await.unwrap())[0], id(1));
}

#[tokio::test(start_paused = true)]
async fn a_handler_with_standby_sessions_alone_reports_nothing() {
    let harness = harness(100);
    let mut heard = controller(&harness, 100);
    harness.open(1).await;
    let mut speaker = harness.join_standby(1).await;
    speaker.publish(microphone(6)).await;
    for sequence in 0..50 {
        speaker.speak(6, sequence, 40);
        harness.pass(Duration::from_millis(20)).await;
    }
    assert!(heard.speakers.try_recv().is_err());
}
