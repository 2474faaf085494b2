//! Picture and sound in the page: participants see and hear each other through `tenure up`, with fake devices.

use std::time::Duration;

use serde_json::{Value, json};
use tenure_testkit::Chromium;

use crate::console::{hook, unauthenticated};
use crate::meet::{Person, tile};
use crate::up::Up;

const LIMIT: Duration = Duration::from_secs(90);

/// Everything that the page counts of its media.
const STATS: &str = "document.querySelector('[data-test=room]').meeting.media.media.stats()";

fn stats(person: &Person) -> Value {
    person.evaluate(STATS).unwrap()
}

/// Waits until an expression over `stats` is true.
fn counts(person: &Person, condition: &str) {
    let script = format!("{STATS}.then((stats) => {condition})");
    if let Err(error) = person.wait_for(&script, LIMIT) {
        panic!("{error:#}\n{}", stats(person));
    }
}

/// Sends little: two cores encode and decode for all pages.
fn saves_data(person: &Person, link: &str) {
    person.evaluate("localStorage.setItem('meet-devices', JSON.stringify({ quality: 'low' })); 0").unwrap();
    person.navigate(link).unwrap();
}

fn turn_on(person: &Person) {
    person.click(&hook("mute-audio")).unwrap();
    person.click(&hook("mute-video")).unwrap();
    person.waits_for("[data-test=participant][data-own][data-audio=no][data-video=no]");
}

/// The share of green pixels of a participant's picture: the fake camera's colour.
fn green(id: &str) -> String {
    format!(
        "(() => {{ const copy = Object.assign(document.createElement('canvas'), {{ width: 64, height: 36 }}).getContext('2d');
           copy.drawImage(document.querySelector({}), 0, 0, 64, 36);
           const data = copy.getImageData(0, 0, 64, 36).data; let green = 0;
           for (let at = 0; at < data.length; at += 4) if (data[at + 1] > 90 && data[at] < 110 && data[at + 2] < 110) green += 4;
           return green / data.length; }})()",
        json!(tile(id, " [data-test=picture]"))
    )
}

#[test]
fn two_participants_see_and_hear_each_other() {
    let (up, _proxy) = Up::with_meetings();
    let chromium = Chromium::builder().camera().start().unwrap();
    let (ada, link) = Person::host(&chromium, &up);
    let bob = Person::lobby(&chromium, &link);
    saves_data(&bob, &link);
    bob.enter("Bob");
    turn_on(&bob);
    let id = bob.id();
    ada.waits_for(&tile(&id, " [data-test=picture]"));
    let picture = format!("stats.pictures['{id}/2']");
    counts(&ada, &format!("{picture}?.shown > 20"));
    ada.waits(&format!("{} > 0.5", green(&id)));
    // The voice arrives, with its level.
    counts(&ada, &format!("stats.voices['{id}/1']?.packets > 50 && stats.loudness > 0.005"));
    ada.waits(&format!(
        "Number(getComputedStyle(document.querySelector({})).getPropertyValue('--level')) > 0",
        json!(tile(&id, ""))
    ));
    counts(&ada, &format!("{picture}.skew !== null && Math.abs({picture}.skew) <= 80"));
    // A camera that is turned off and on again is seen again.
    bob.click(&hook("mute-video")).unwrap();
    ada.waits(&format!("!document.querySelector({})", json!(tile(&id, " [data-test=picture]"))));
    bob.click(&hook("mute-video")).unwrap();
    ada.waits_for(&tile(&id, " [data-test=picture]"));
    ada.waits(&format!("{} > 0.5", green(&id)));
    // A host mutes: nothing more arrives.
    ada.chooses(&id, "participant-mute-audio");
    ada.waits_for(&tile(&id, "[data-audio=host]"));
    counts(&ada, "true");
    let before = stats(&ada)["voices"][format!("{id}/1")]["packets"].clone();
    counts(
        &ada,
        &format!(
            "{picture}.shown > {}",
            stats(&ada)["pictures"][format!("{id}/2")]["shown"].as_u64().unwrap() + 20
        ),
    );
    assert_eq!(stats(&ada)["voices"][format!("{id}/1")]["packets"], before);
    for person in [&ada, &bob] {
        person.is_calm_but(unauthenticated);
    }
}
