//! Handlers that fall silent, close, drain, or are not reached.

use std::time::Duration;

use tenure_lease::Clock;
use tenure_meet_client::media::VideoRequest;
use tenure_meet_wire::jwt::Role;

use super::stage::{Camera, Microphone, Stage};

const PRIMARY: &str = "https://mh-1/wt/mh";
const BACKUP: &str = "https://mh-2/wt/mh";

/// The longest pause between frames and between packets, from now on until `time` has passed.
macro_rules! gaps {
    ($stage:expr, $picture:expr, $sound:expr, $time:expr) => {{
        let clock = $stage.clock.clone();
        let until = clock.now() + $time;
        let (mut seen, mut heard) = (clock.now(), clock.now());
        let (mut dark, mut quiet) = (Duration::ZERO, Duration::ZERO);
        loop {
            tokio::select! {
                Some(frame) = $picture.next() => {
                    if !frame.repeat {
                        dark = dark.max(clock.now().since(seen));
                        seen = clock.now();
                    }
                }
                Some(_) = $sound.next() => {
                    quiet = quiet.max(clock.now().since(heard));
                    heard = clock.now();
                }
                () = clock.sleep_until(until) => break,
            }
        }
        (dark.max(clock.now().since(seen)), quiet.max(clock.now().since(heard)))
    }};
}

/// How a handler fails.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Failure {
    /// Its connections close.
    Closes,
    /// Nothing arrives any more.
    FallsSilent,
}

async fn backup_takes_over(failure: Failure) {
    let mut stage = Stage::new(&["mh-1", "mh-2"]).await;
    let ada = stage.join("ada", Role::Host).await;
    let bob = stage.join("bob", Role::Participant).await;
    let _camera = Camera::start(&ada.media, stage.clock.clone(), 1).await;
    let _microphone = Microphone::start(&ada.media, stage.clock.clone()).await;
    let mut picture = bob.media.watch(&VideoRequest::camera(&ada.id(), "2")).await.unwrap();
    let mut sound = bob.media.listen().await.unwrap();
    for actor in [&ada, &bob] {
        actor.stands_by(1).await;
        assert_eq!(actor.active().as_deref(), Some(PRIMARY));
    }
    let calm = gaps!(stage, picture, sound, Duration::from_secs(2));
    assert!(calm.0 <= Duration::from_millis(60) && calm.1 <= Duration::from_millis(30), "{calm:?}");
    for actor in [&ada, &bob] {
        match failure {
            Failure::Closes => actor.transport.cut_route(PRIMARY),
            Failure::FallsSilent => actor.transport.silence_route(PRIMARY, stage.clock.clone()),
        }
    }
    let (dark, quiet) = gaps!(stage, picture, sound, Duration::from_secs(3));
    assert!(dark < Duration::from_millis(500), "no picture for {dark:?} when it {failure:?}");
    assert!(quiet < Duration::from_millis(450), "no sound for {quiet:?} when it {failure:?}");
    for actor in [&ada, &bob] {
        assert_eq!(actor.active().as_deref(), Some(BACKUP));
    }
}

#[tokio::test(start_paused = true)]
async fn the_backup_takes_over_when_the_primary_closes() {
    backup_takes_over(Failure::Closes).await;
}

#[tokio::test(start_paused = true)]
async fn the_backup_takes_over_when_the_primary_falls_silent() {
    backup_takes_over(Failure::FallsSilent).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_drains_is_left_without_a_gap() {
    let mut stage = Stage::new(&["mh-1", "mh-2"]).await;
    let ada = stage.join("ada", Role::Host).await;
    let bob = stage.join("bob", Role::Participant).await;
    let _camera = Camera::start(&ada.media, stage.clock.clone(), 1).await;
    let _microphone = Microphone::start(&ada.media, stage.clock.clone()).await;
    let mut picture = bob.media.watch(&VideoRequest::camera(&ada.id(), "2")).await.unwrap();
    let mut sound = bob.media.listen().await.unwrap();
    for actor in [&ada, &bob] {
        actor.stands_by(1).await;
    }
    gaps!(stage, picture, sound, Duration::from_secs(1));
    stage.handlers.drain("mh-1").unwrap();
    let (dark, quiet) = gaps!(stage, picture, sound, Duration::from_secs(8));
    assert!(dark <= Duration::from_millis(110), "no picture for {dark:?}");
    assert!(quiet <= Duration::from_millis(30), "no sound for {quiet:?}");
    assert_eq!(bob.active().as_deref(), Some(BACKUP));
    assert_eq!(sound.stats().lost, 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_replaced_with_a_new_grant() {
    let mut stage = Stage::new(&["mh-1"]).await;
    let ada = stage.join("ada", Role::Host).await;
    let bob = stage.join("bob", Role::Participant).await;
    let _camera = Camera::start(&ada.media, stage.clock.clone(), 1).await;
    let mut picture = bob.media.watch(&VideoRequest::camera(&ada.id(), "2")).await.unwrap();
    assert!(picture.next().await.is_some());
    for _ in 0..3 {
        let mut state = bob.media.state();
        let before = state.borrow_and_update().activations;
        bob.transport.cut();
        state.wait_for(|state| state.activations > before).await.unwrap();
        let frames = picture.stats().frames;
        while picture.stats().frames < frames + 5 {
            assert!(picture.next().await.is_some());
        }
    }
    assert_eq!(bob.transport.dials().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_backup_serves_while_the_primary_cannot_be_reached() {
    let mut stage = Stage::new(&["mh-1", "mh-2"]).await;
    stage.handlers.stop_listening("mh-1").unwrap();
    let ada = stage.join("ada", Role::Host).await;
    assert_eq!(ada.active().as_deref(), Some(BACKUP));
}
