//! A host against a page that ignores every mute.

use serde_json::{Value, json};
use tenure_testkit::Chromium;

use crate::console::{hook, unauthenticated};
use crate::media::{Sender, counts, frugal_guest, stats, turn_on};
use crate::person::{Person, tile};
use crate::up::Up;

/// Makes the page that joins next ignore mutes of the controller and of the handler, and what the handler needs. Its media run
/// in the page instead of in a worker, where they can be changed.
const IGNORE: &str =
    "Promise.all([import('/mediaengine.js'), import('/mediacamera.js'), import('/meetmedia.js')]).then(([{ MediaEngine }, { PictureSource }, { RoomMedia }]) => {
  MediaEngine.prototype.setMuted = () => {};
  PictureSource.prototype.wanted = function () { return new Set(this.encoders.keys()); };
  const sync = RoomMedia.prototype.sync;
  RoomMedia.prototype.sync = function (own) { return sync.call(this, own && { ...own, mute: {} }); };
  const Real = Worker;
  globalThis.Worker = function (url, options) {
    if (options.name !== 'media') return new Real(url, options);
    const engine = new MediaEngine((data) => this.onmessage?.({ data }));
    const acts = {
      servers: ({ servers }) => engine.setServers(servers), watch: ({ wanted }) => engine.watch(wanted), forget() {},
      speakers: ({ port }) => engine.setSpeakers(port), picture: ({ name, readable }) => engine.setPicture(name, readable),
      sound: ({ name, port }) => engine.setSound(name, port), close: () => engine.close(),
      stats: ({ id }) => this.onmessage({ data: { kind: 'stats', id, stats: engine.stats() } }),
    };
    this.postMessage = (message) => acts[message.kind](message);
  };
})";

/// Makes the host's page go on to ask for pictures of muted participants, and keeps the last word on enforcement.
const WATCH: &str =
    "Promise.all([import('/meetstage.js'), import('/meetroom.js')]).then(([{ Stage }, { Room }]) => {
  const { showPicture } = Stage.prototype, { report } = Room.prototype;
  Stage.prototype.showPicture = function (tile, person, local) { return showPicture.call(this, tile, { ...person, mute: {} }, local); };
  Room.prototype.report = function (message, step) {
    if (message.mute_enforced) globalThis.enforced = message.mute_enforced.enforced;
    return report.call(this, message, step);
  };
})";

/// What arrived at a page from others.
fn arrived(person: &Person) -> Value {
    let stats = stats(person);
    let sums = ["groups", "datagrams"].map(|kind| {
        let sessions = stats["sessions"].as_array().unwrap();
        sessions.iter().map(|session| session[kind].as_u64().unwrap()).sum::<u64>()
    });
    json!({ "streams and datagrams": sums, "voices": stats["voices"].as_object().map(packets), "pictures": stats["pictures"].as_object().map(frames) })
}

fn packets(voices: &serde_json::Map<String, Value>) -> Vec<Value> {
    voices.values().map(|voice| voice["packets"].clone()).collect()
}

fn frames(pictures: &serde_json::Map<String, Value>) -> Vec<Value> {
    pictures.values().map(|picture| picture["frames"].clone()).collect()
}

/// Waits until a page sent so many packets and frames more.
fn sends(person: &Person, more: (u64, u64)) {
    let sent = "[stats.sources.audio.sequence, stats.sources.video.renditions.reduce((sum, { frames }) => sum + frames, 0)]";
    let now = stats(person);
    let renditions = now["sources"]["video"]["renditions"].as_array().unwrap();
    let video: u64 = renditions.iter().map(|one| one["frames"].as_u64().unwrap()).sum();
    let audio = now["sources"]["audio"]["sequence"].as_u64().unwrap();
    let (audio, video) = (audio + more.0, video + more.1);
    counts(person, &format!("(([audio, video]) => audio > {audio} && video > {video})({sent})"));
}

#[test]
fn a_page_that_ignores_a_mute_reaches_no_one_once_it_is_enforced_and_a_removed_one_stops() {
    let (up, _proxy) = Up::with_meetings();
    let chromium = Chromium::builder().camera().start().unwrap();
    let (ada, link) = Person::host(&chromium, &up);
    ada.evaluate(WATCH).unwrap();
    let bob = frugal_guest(&chromium, &link);
    bob.evaluate(IGNORE).unwrap();
    bob.enter("Bob");
    turn_on(&bob);
    let id = bob.id();
    Sender { watcher: &ada, id: id.clone() }.is_seen_and_heard();
    for kind in ["audio", "video"] {
        ada.evaluate("globalThis.enforced = null").unwrap();
        ada.chooses(&id, &format!("participant-mute-{kind}"));
        ada.waits("globalThis.enforced === true");
    }
    ada.waits_for(&tile(&id, "[data-audio=host][data-video=host]"));
    // What was on its way when the handler confirmed arrives; then nothing more does, though the page goes on sending.
    sends(&bob, (10, 1));
    let before = arrived(&ada);
    sends(&bob, (100, 10));
    assert_eq!(arrived(&ada), before);
    // Removed, the page has nothing to send, says why, and does not offer the lobby.
    bob.evaluate(
        "globalThis.camera = document.querySelector('[data-own] video').srcObject.getTracks()[0]; 0",
    )
    .unwrap();
    ada.chooses(&id, "participant-remove");
    ada.click("[data-test=remove-dialog] [data-test=confirm]").unwrap();
    bob.waits_for("[data-test=over][data-code=KICKED]");
    bob.sees_words(&hook("over"), "A host removed you");
    assert_eq!(
        bob.evaluate("[document.querySelector('[data-test=back]'), camera.readyState]").unwrap(),
        json!([null, "ended"])
    );
    ada.sees_people(1);
    for person in [&ada, &bob] {
        person.is_calm_but(unauthenticated);
    }
}
