//! Picture and sound in the page: participants see and hear each other through `tenure up`, with fake devices.

use std::time::Duration;

use serde_json::{Value, json};
use tenure_testkit::Chromium;

use crate::console::{hook, unauthenticated};
use crate::person::{Person, tile};
use crate::up::Up;

const LIMIT: Duration = Duration::from_secs(90);

/// Everything that the page counts of its media. The page has no way in: the class of its media shows the instance.
const STATS: &str = "(globalThis.mediaOfTest ??= import('/media.js').then(({ Media }) => new Promise((done) => {
  const receive = Media.prototype.receive;
  Media.prototype.receive = function (message) { Media.prototype.receive = receive; done(this); return receive.call(this, message); };
}))).then((media) => media.stats())";

pub(crate) fn stats(person: &Person) -> Value {
    person.evaluate(STATS).unwrap()
}

/// Waits until an expression over `stats` is true.
pub(crate) fn counts(person: &Person, condition: &str) {
    // The page looks a few times a second: two cores have pictures to encode and to decode.
    let look = format!("{STATS}.then((stats) => {condition})");
    let script = format!(
        "(async () => {{ for (let turn = 0; turn < 10; turn++) {{
           if (await {look}) return true;
           await new Promise((done) => setTimeout(done, 200));
         }} return false; }})()"
    );
    if let Err(error) = person.wait_for(&script, LIMIT) {
        panic!("{error:#}\n{}", stats(person));
    }
}

/// A guest in the lobby that sends little: two cores encode and decode for all pages.
pub(crate) fn frugal_guest(chromium: &Chromium, link: &str) -> Person {
    let person = Person::lobby(chromium, link);
    person.evaluate("localStorage.setItem('meet-devices', JSON.stringify({ quality: 'low' })); 0").unwrap();
    person.navigate(link).unwrap();
    person
}

/// Turns on what is off.
pub(crate) fn turn_on(person: &Person) {
    for (device, button) in [("audio", "mute-audio"), ("video", "mute-video")] {
        let on = format!("[data-test=participant][data-own][data-{device}=no]");
        if person.evaluate(&format!("document.querySelector('{on}')")).unwrap().is_null() {
            person.click(&hook(button)).unwrap();
        }
        person.waits_for(&on);
    }
}

/// The share of green pixels of a picture: the fake camera's colour.
fn green(selector: &str) -> String {
    format!(
        "(() => {{ const copy = Object.assign(document.createElement('canvas'), {{ width: 64, height: 36 }}).getContext('2d');
           copy.drawImage(document.querySelector({}), 0, 0, 64, 36);
           const data = copy.getImageData(0, 0, 64, 36).data; let green = 0;
           for (let at = 0; at < data.length; at += 4) if (data[at + 1] > 90 && data[at] < 110 && data[at + 2] < 110) green += 4;
           return green / data.length; }})()",
        json!(selector)
    )
}

/// One person, as another sees and hears it.
pub(crate) struct Sender<'a> {
    pub(crate) watcher: &'a Person,
    pub(crate) id: String,
}

impl Sender<'_> {
    fn number(&self, pointer: &str) -> u64 {
        stats(self.watcher).pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
    }

    /// Waits until it was seen and heard for a while from now on.
    pub(crate) fn is_seen_and_heard(&self) {
        let id = &self.id;
        let (shown, packets) = (
            self.number(&format!("/pictures/{id}~12/shown")),
            self.number(&format!("/voices/{id}~11/packets")),
        );
        counts(
            self.watcher,
            &format!(
                "stats.pictures['{id}/2']?.shown > {} && stats.voices['{id}/1']?.packets > {}",
                shown + 20,
                packets + 50
            ),
        );
        self.watcher.waits(&format!("{} > 0.5", green(&tile(id, " [data-test=picture]"))));
    }
}

/// What others see of changes at the sender: camera off and on, another device, a reload.
fn changes_devices(bob: &Person, seen: &Sender<'_>, link: &str) {
    let picture = tile(&seen.id, " [data-test=picture]");
    bob.click(&hook("mute-video")).unwrap();
    seen.watcher.waits(&format!("!document.querySelector({})", json!(picture)));
    bob.click(&hook("mute-video")).unwrap();
    seen.watcher.waits_for(&picture);
    seen.is_seen_and_heard();
    let choose = |kind: &str| {
        bob.click(&hook(kind)).unwrap();
        bob.click("[data-test=device][aria-checked=false]").unwrap();
    };
    choose("choose-audio");
    // The second fake camera gives frames of a format that cannot be encoded. The page says so, and the first one works.
    choose("choose-video");
    bob.sees_words(&hook("notice"), "cannot encode the picture of this camera");
    choose("choose-video");
    seen.is_seen_and_heard();
    // A reload returns to the same seat, with the devices that were on where the browser does not ask again.
    bob.navigate(link).unwrap();
    bob.waits_for("[data-test=connection][data-state=live]");
    assert_eq!(bob.id(), seen.id);
    turn_on(bob);
    seen.watcher.waits_for(&picture);
    seen.is_seen_and_heard();
}

/// A page in the background hears and does not decode pictures, and does not look lost.
fn hides(ada: &Person, bob: &Person, seen: &Sender<'_>) {
    let set = |hidden: bool| {
        let script = format!(
            "Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }}); document.dispatchEvent(new Event('visibilitychange')); 0"
        );
        ada.evaluate(&script).unwrap();
    };
    let id = &seen.id;
    set(true);
    counts(ada, &format!("!stats.pictures['{id}/2']"));
    let packets = seen.number(&format!("/voices/{id}~11/packets"));
    // Longer than a silent connection is kept.
    counts(ada, &format!("stats.voices['{id}/1'].packets > {}", packets + 150));
    bob.waits_for(&tile(&ada.id(), "[data-presence=here]"));
    ada.waits_for("[data-test=connection][data-state=live]");
    set(false);
    seen.is_seen_and_heard();
}

/// A shared screen is large for others and not for oneself.
fn shares(ada: &Person, bob: &Person, id: &str) {
    bob.click(&hook("share")).unwrap();
    bob.waits_for(&format!("[data-test=participants] [data-test=screen][data-id='{id}']"));
    let screen = format!(".large [data-test=screen][data-id='{id}'] [data-test=picture]");
    ada.waits_for(&screen);
    counts(ada, &format!("stats.pictures['{id}/3']?.shown > 10"));
    ada.waits(&format!("{} > 0.5", green(&screen)));
    bob.click(&hook("share")).unwrap();
    ada.waits("!document.querySelector('[data-test=screen]')");
}

#[test]
fn three_participants_see_and_hear_each_other_and_one_shares_its_screen() {
    let (up, _proxy) = Up::with_meetings();
    let chromium = Chromium::builder().camera().start().unwrap();
    let (ada, link) = Person::host(&chromium, &up);
    let [bob, eve] = ["Bob", "Eve"].map(|name| {
        let person = frugal_guest(&chromium, &link);
        person.enter(name);
        turn_on(&person);
        person
    });
    for (watcher, sender) in [(&ada, &bob), (&ada, &eve), (&eve, &bob)] {
        Sender { watcher, id: sender.id() }.is_seen_and_heard();
    }
    let id = bob.id();
    let picture = format!("stats.pictures['{id}/2']");
    // The voice has its level, and goes with the picture.
    counts(&ada, "stats.loudness > 0.005");
    ada.waits(&format!(
        "Number(getComputedStyle(document.querySelector({})).getPropertyValue('--level')) > 0",
        json!(tile(&id, ""))
    ));
    counts(&ada, &format!("{picture}.skew !== null && Math.abs({picture}.skew) <= 80"));
    // Two are enough for the rest.
    eve.click(&hook("leave")).unwrap();
    eve.waits_for("[data-test=over][data-code=LEFT]");
    let seen = Sender { watcher: &ada, id: id.clone() };
    shares(&ada, &bob, &id);
    hides(&ada, &bob, &seen);
    // The details of the connection name the handler and the people.
    ada.click(&hook("more")).unwrap();
    ada.click(&hook("more-details")).unwrap();
    ada.sees_words(&hook("details"), "Bob, camera");
    ada.click(&hook("details-close")).unwrap();
    for person in [&ada, &bob, &eve] {
        person.is_calm_but(unauthenticated);
    }
}

#[test]
fn others_see_and_hear_a_participant_that_changes_devices_and_reloads() {
    let (up, _proxy) = Up::with_meetings();
    let chromium = Chromium::builder().camera().start().unwrap();
    let (ada, link) = Person::host(&chromium, &up);
    let bob = frugal_guest(&chromium, &link);
    bob.enter("Bob");
    turn_on(&bob);
    let seen = Sender { watcher: &ada, id: bob.id() };
    seen.is_seen_and_heard();
    changes_devices(&bob, &seen, &link);
    for person in [&ada, &bob] {
        person.is_calm_but(unauthenticated);
    }
}
