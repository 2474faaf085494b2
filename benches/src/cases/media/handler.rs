//! A process with one media handler and one registered meeting.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tenure_lease::{Clock as _, Store};
use tenure_meet_wire::binding::MasterSecret;
use tenure_meet_wire::internal::{EnforceMuteRequest, MediaSeat, RegisterMeetingRequest};
use tenure_meet_wire::media::grant::HandlerKey;
use tenure_meet_wire::media::message::MediaGrant;
use tenure_meet_wire::transport::quic::Timing;
use tenure_meet_wire::{Id, MeetingId};
use tenure_store::{BootClock, Local};
use tenure_testkit_meet::TestHandlers;

use crate::clock::{Moment, pause};
use crate::report;

const HANDLER: &str = "mh-bench";
const MEETING: &str = "bench";
/// Participants that have a seat.
pub(super) const SEATS: usize = 400;
const LEASE: Duration = Duration::from_secs(60);
const GRANT: Duration = Duration::from_secs(60);
pub(super) const TIMING: Timing =
    Timing { idle: Duration::from_secs(30), keep_alive: Duration::from_secs(5) };

fn key() -> Result<HandlerKey> {
    let secret = MasterSecret::new(vec![9; 32]).map_err(|error| anyhow::anyhow!("{error:?}"))?;
    Ok(HandlerKey::derive(&secret, &MeetingId::parse(MEETING).context("meeting id")?, HANDLER))
}

/// The id of a participant.
pub(super) fn participant(number: usize) -> Result<Id> {
    Id::parse(&format!("018bcfe5-6801-7000-8000-{number:012x}")).context("participant id")
}

/// A grant that admits a participant once.
pub(super) fn grant(number: usize, serial: u64) -> Result<bytes::Bytes> {
    let issued_at_ms = BootClock.wall().as_millis();
    let mut grant_id = [0; 16];
    grant_id[..8].copy_from_slice(&serial.to_be_bytes());
    grant_id[8..].copy_from_slice(&(number as u64).to_be_bytes());
    Ok(key()?.seal(&MediaGrant {
        meeting_id: MEETING.to_owned(),
        participant_id: participant(number)?.to_string(),
        user_id: format!("u{number}"),
        epoch: 1,
        may_send_audio: true,
        may_send_video: true,
        may_receive: true,
        mute_epoch: 1,
        issued_at_ms,
        expires_at_ms: issued_at_ms + GRANT.as_millis() as u64,
        handler_id: HANDLER.to_owned(),
        generation: 1,
        grant_id: grant_id.to_vec().into(),
    }))
}

fn seat(number: usize) -> Result<MediaSeat> {
    Ok(MediaSeat {
        participant_id: participant(number)?.to_string(),
        user_id: format!("u{number}"),
        epoch: 1,
        mute_epoch: 1,
        may_send_audio: true,
        may_send_video: true,
        may_receive: true,
        ..MediaSeat::default()
    })
}

/// Serves until standard input is closed. A line `mute N EPOCH 0|1` mutes or unmutes the video of a participant.
pub(crate) fn serve(runtime: &tokio::runtime::Runtime) -> Result<()> {
    let _inside = runtime.enter();
    let store: Arc<dyn Store> = Arc::new(Local::memory());
    let mut handlers = TestHandlers::new(&store)?;
    handlers.add_on_loopback(HANDLER, TIMING, Ok)?;
    let request = RegisterMeetingRequest {
        meeting_id: MEETING.to_owned(),
        mc_id: "mc-bench".to_owned(),
        mc_grpc_endpoint: "inproc:mc-bench".to_owned(),
        generation: 1,
        handler_key: vec![key()?.expose().to_vec().into()],
        lease_ms: LEASE.as_millis() as u32,
        seats: (0..SEATS).map(seat).collect::<Result<_>>()?,
        ..RegisterMeetingRequest::default()
    };
    let mut controller = handlers.client(HANDLER)?;
    runtime.block_on(controller.register_meeting(request.clone()))?;
    let mut renewals = controller.clone();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn_on(
        async move {
            // Masks are set by orders; a renewal without seats keeps them.
            let renewal = RegisterMeetingRequest { seats: Vec::new(), ..request };
            loop {
                pause(LEASE / 4).await;
                let _again_later = renewals.register_meeting(renewal.clone()).await;
            }
        },
        runtime.handle(),
    );
    let info = &handlers.list()[0].info;
    let hash: String = info.certificates[0].iter().map(|byte| format!("{byte:02x}")).collect();
    report::line(&format!("ready {} {hash}", info.webtransport_endpoint));
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let numbers: Vec<u64> =
            line.split(' ').skip(1).map(str::parse).collect::<Result<_, _>>().context("order")?;
        let [number, mute_epoch, muted] = numbers[..] else { anyhow::bail!("unknown order {line:?}") };
        let request = EnforceMuteRequest {
            participant_id: participant(number as usize)?.to_string(),
            audio_muted: false,
            video_muted: muted == 1,
            meeting_id: MEETING.to_owned(),
            generation: 1,
            mute_epoch,
        };
        let began = Moment::now();
        let enforced = runtime.block_on(controller.enforce_mute(request))?.into_inner().enforced;
        report::line(&format!("muted {enforced} {}", began.passed().as_nanos()));
    }
    Ok(())
}
