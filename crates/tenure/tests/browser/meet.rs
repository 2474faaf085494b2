//! The page of meetings: three people, a host's controls, and a network that goes away.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tenure_testkit::{Chromium, ColourScheme, has_udp_port};

use crate::console::{hook, unauthenticated};
use crate::person::{Person, tile};
use crate::screenshots::take;
use crate::up::Up;

/// Whether a connection is of this browser: each who is cut off has one of their own.
fn of(chromium: &Chromium) -> impl Fn(SocketAddr) -> bool + Send + Sync + 'static {
    let group = chromium.pid();
    move |client| has_udp_port(group, client.port())
}

/// The host mutes one, who asks and is unmuted. All participants see it.
fn mute_and_unmute(ada: &Person, bob: &Person, participants: [&Person; 3]) {
    let id = bob.id();
    ada.chooses(&id, "participant-mute-audio");
    for person in participants {
        person.waits_for(&tile(&id, "[data-audio=host]"));
    }
    bob.click(&hook("ask-unmute")).unwrap();
    ada.click(&tile(&id, " [data-test=allow]")).unwrap();
    for person in participants {
        // No microphone was ever turned on: the host's mute is gone, and the device is shown as it is.
        person.waits_for(&tile(&id, "[data-audio=self]"));
    }
}

/// While one is away, others write, and so does the one that is away: it waits, and says so. Returns all messages.
fn write_meanwhile(ada: &Person, bob: &Person, refused: bool) -> [String; 3] {
    bob.sees_words(&hook("banner"), "The connection is lost");
    let words = ["one", "two", "three"].map(|word| format!("{word}, refused: {refused}"));
    ada.says(&words[0]);
    ada.says(&words[1]);
    bob.fill(&hook("chat-text"), &words[2]).unwrap();
    bob.press("Enter").unwrap();
    bob.sees_words(&hook("pending"), "waits for the connection");
    words
}

/// What cannot be undone is asked for first. A removed guest learns of it and is not offered the lobby, also after a
/// reload.
fn remove(ada: &Person, eve: &Person, link: &str) {
    for answer in ["cancel", "confirm"] {
        ada.sees_people(3);
        ada.chooses(&eve.id(), "participant-remove");
        ada.click(&format!("[data-test=remove-dialog] [data-test={answer}]")).unwrap();
    }
    for _ in 0..2 {
        eve.waits_for("[data-test=over][data-code=KICKED]");
        eve.sees_words(&hook("over"), "A host removed you");
        assert_eq!(eve.evaluate("document.querySelector('[data-test=back]')").unwrap(), Value::Null);
        eve.navigate(link).unwrap();
    }
}

#[test]
fn three_participants_meet_and_one_resumes_its_seat_twice() {
    let (up, proxy) = Up::with_meetings();
    let (chromium, bobs) = (Chromium::start().unwrap(), Chromium::start().unwrap());
    let (ada, link) = Person::host(&chromium, &up);
    let eve = Person::guest(&chromium, &link, "Eve");
    let bob = Person::guest(&bobs, &link, "Bob");
    let (id, participants) = (bob.id(), [&ada, &eve, &bob]);
    for person in participants {
        person.sees_people(3);
    }
    mute_and_unmute(&ada, &bob, participants);
    // The network of one goes away: once without a word, once with a refusal of every packet.
    let mut said = Vec::new();
    for refused in [false, true] {
        if refused {
            let theirs = proxy.clients().into_iter().filter(|client| of(&bobs)(*client));
            theirs.for_each(|client| proxy.refuse(client).unwrap());
            bob.waits_for("[data-test=connection][data-state=reconnecting]");
        }
        // Other participants that reconnect because the machine is busy get through.
        proxy.lose_those(of(&bobs));
        proxy.accept().unwrap();
        for person in [&ada, &eve] {
            person.waits_for(&tile(&id, "[data-presence=away]"));
        }
        bob.waits_for("[data-test=connection][data-state=reconnecting]");
        said.extend(write_meanwhile(&ada, &bob, refused));
        proxy.pass();
        bob.waits_for("[data-test=connection][data-state=live]");
        bob.waits("document.querySelector('[data-test=banner]').hidden");
        bob.waits("!document.querySelector('[data-test=pending]')");
        for person in participants {
            person.waits_for(&tile(&id, "[data-presence=here]"));
            assert_eq!(person.heard(said.len()), json!(said), "each once, in order");
        }
        assert_eq!(bob.id(), id, "the same participant");
    }
    // A reload comes back to it as well.
    bob.navigate(&link).unwrap();
    bob.waits_for("[data-test=connection][data-state=live]");
    assert_eq!((bob.id(), bob.heard(said.len())), (id, json!(said)));
    // One leaves, one is removed, and the meeting ends for all.
    eve.click(&hook("leave")).unwrap();
    eve.waits_for("[data-test=over][data-code=LEFT]");
    ada.sees_people(2);
    eve.click(&hook("back")).unwrap();
    eve.enter("Eve");
    remove(&ada, &eve, &link);
    ada.click(&hook("more")).unwrap();
    ada.click(&hook("end")).unwrap();
    ada.click("[data-test=end-dialog] [data-test=confirm]").unwrap();
    for person in [&ada, &bob] {
        person.waits_for("[data-test=over][data-code=OVER]");
    }
    for person in participants {
        person.is_calm_but(|trouble| unauthenticated(trouble) || trouble.text.contains("/wt/"));
    }
}

#[test]
fn screenshot_of_a_meeting() {
    let (up, proxy) = Up::with_meetings();
    let chromium = Chromium::builder().camera().start().unwrap();
    let (ada, link) = Person::host(&chromium, &up);
    let eve = Person::guest(&chromium, &link, "Eve Moneypenny");
    let bobs = Chromium::start().unwrap();
    let bob = Person::guest(&bobs, &link, "Bob");
    let zoe = Person::lobby(&chromium, &link);
    zoe.screen(1120, 700, 1.0, false).unwrap();
    zoe.click(&hook("preview-audio")).unwrap();
    zoe.click(&hook("preview-video")).unwrap();
    zoe.waits("document.querySelector('[data-test=preview]').videoWidth > 0");
    zoe.waits("document.querySelectorAll('[data-test=camera] option').length === 2");
    zoe.fill(&hook("join-name"), "Zoe").unwrap();
    zoe.colour_scheme(ColourScheme::Light).unwrap();
    take(&zoe, "meet-lobby.png");
    zoe.click(&hook("join")).unwrap();
    zoe.waits_for("[data-test=connection][data-state=live]");
    zoe.says("Hello from the garden");
    eve.says("Please bring biscuits");
    ada.chooses(&eve.id(), "participant-mute-audio");
    eve.click(&hook("ask-unmute")).unwrap();
    ada.waits_for(&tile(&eve.id(), " [data-test=ask]:not([hidden])"));
    let id = bob.id();
    proxy.lose_those(of(&bobs));
    ada.screen(1120, 800, 1.4, false).unwrap();
    ada.colour_scheme(ColourScheme::Light).unwrap();
    ada.waits_for(&tile(&id, "[data-presence=away]"));
    ada.waits("document.querySelector('.away:not([hidden])').textContent.includes('kept for')");
    ada.click(&hook("mute-video")).unwrap();
    ada.waits_for("[data-test=participant][data-own][data-video=no]");
    ada.says("Bob will be back in a moment");
    ada.evaluate("document.activeElement.blur(); scrollTo(0, 0)").unwrap();
    take(&ada, "meet.png");
    ada.colour_scheme(ColourScheme::Dark).unwrap();
    take(&ada, "meet-dark.png");
    eve.screen(390, 780, 2.0, true).unwrap();
    eve.colour_scheme(ColourScheme::Light).unwrap();
    eve.click(&hook("panel-close")).unwrap();
    take(&eve, "meet-phone.png");
    // Nothing is wider than a phone.
    eve.sees("document.documentElement.scrollWidth <= innerWidth");
    for person in [&ada, &eve, &zoe] {
        person.is_calm_but(unauthenticated);
    }
}

#[test]
fn a_meeting_works_with_the_keyboard_alone() {
    let (up, _proxy) = Up::with_meetings();
    let chromium = Chromium::start().unwrap();
    let ada = Person::signed_in(&chromium, &up);
    ada.evaluate("document.querySelector('[data-test=create-name]').focus()").unwrap();
    ada.press("Enter").unwrap();
    ada.waits("document.activeElement?.dataset.test === 'join-name'");
    ada.evaluate("document.activeElement.value = 'Ada'").unwrap();
    ada.press("Enter").unwrap();
    ada.waits_for("[data-test=connection][data-state=live]");
    // Every control is reached by the key, and has a name.
    let mut reached = Vec::new();
    for _ in 0..40 {
        ada.press("Tab").unwrap();
        let focus = ada.evaluate("document.activeElement.dataset.test ?? ''").unwrap();
        reached.push(focus.as_str().unwrap().to_owned());
    }
    for control in
        ["mute-audio", "mute-video", "share", "more", "leave", "chat-text", "chat-send", "link", "tile-menu"]
    {
        assert!(reached.iter().any(|one| one == control), "{control} is not among {reached:?}");
    }
    let unnamed = ada.evaluate(
        "[...document.querySelectorAll('button, input, select, video')].filter((one) => one.checkVisibility())
           .filter((one) => !(one.textContent.trim() || one.ariaLabel || one.labels?.length)).map((one) => one.outerHTML)",
    );
    assert_eq!(unnamed.unwrap(), json!([]));
    ada.evaluate("document.querySelector('[data-test=chat-text]').focus()").unwrap();
    ada.says("hello");
    // A menu opens with the key, moves with the arrows, and gives the focus back.
    ada.evaluate("document.querySelector('[data-test=more]').focus()").unwrap();
    ada.press("Enter").unwrap();
    ada.waits("document.activeElement.dataset.test === 'view-grid'");
    ada.press("ArrowDown").unwrap();
    ada.waits("document.activeElement.dataset.test === 'view-speaker'");
    ada.press("Escape").unwrap();
    ada.waits("document.activeElement.dataset.test === 'more'");
    // Letters are shortcuts outside of fields.
    ada.press("p").unwrap();
    ada.waits_for("[data-test=person]");
    ada.is_calm_but(unauthenticated);
}

#[test]
fn device_states_are_true_and_a_refused_device_has_its_sentence() {
    let (up, _proxy) = Up::with_meetings();
    let (chromium, without) = (Chromium::builder().camera().start().unwrap(), Chromium::start().unwrap());
    let (ada, link) = Person::host(&chromium, &up);
    let bob = Person::guest(&without, &link, "Bob");
    let (own, other) = (ada.id(), bob.id());
    // Devices that were never turned on are off for all participants.
    for person in [&ada, &bob] {
        person.waits_for(&tile(&own, "[data-audio=self][data-video=self]"));
        person.waits_for(&tile(&other, "[data-audio=self][data-video=self]"));
    }
    ada.click(&hook("mute-audio")).unwrap();
    ada.click(&hook("mute-video")).unwrap();
    bob.waits_for(&tile(&own, "[data-audio=no][data-video=no]"));
    ada.waits("document.querySelector('[data-own] video').videoWidth > 0");
    bob.click(&hook("mute-video")).unwrap();
    bob.sees_words(&hook("notice"), "camera");
    bob.waits_for(&tile(&other, "[data-video=self]"));
    // A camera that goes away is off, and says so.
    ada.evaluate("document.querySelector('[data-own] video').srcObject.getTracks()[0].dispatchEvent(new Event('ended')); 0").unwrap();
    ada.sees_words(&hook("notice"), "The camera is gone");
    bob.waits_for(&tile(&own, "[data-audio=no][data-video=self]"));
    // Another one is chosen in the meeting.
    ada.click(&hook("choose-video")).unwrap();
    ada.waits("document.querySelectorAll('[data-test=device]').length === 2");
    ada.press("Escape").unwrap();
    for person in [&ada, &bob] {
        person.is_calm_but(unauthenticated);
    }
}

#[test]
fn a_guest_waits_until_a_host_lets_it_in_and_raises_its_hand() {
    let (up, _proxy) = Up::with_meetings();
    let chromium = Chromium::start().unwrap();
    let ada = Person::signed_in(&chromium, &up);
    ada.click(&hook("create-waiting")).unwrap();
    ada.click(&hook("create")).unwrap();
    ada.enter("Ada");
    let link = ada.evaluate("location.href").unwrap();
    let [eve, bob] = ["Eve", "Bob"].map(|name| {
        let person = Person::lobby(&chromium, link.as_str().unwrap());
        person.waits_for(&hook("join-name"));
        person.fill(&hook("join-name"), name).unwrap();
        person.click(&hook("join")).unwrap();
        person.sees_words(&hook("waiting-room"), "Waiting for a host");
        person
    });
    ada.sees_words("[data-test=show-people] .badge", "2");
    ada.click(&hook("show-people")).unwrap();
    ada.click("[data-test=waiting] li:first-child [data-test=admit]").unwrap();
    eve.waits_for(&hook("room"));
    // One is turned away, after a question, and learns of it.
    ada.click("[data-test=waiting] li:first-child [data-test=refuse]").unwrap();
    ada.click("[data-test=refuse-dialog] [data-test=confirm]").unwrap();
    bob.sees_words(&hook("over"), "did not let you in");
    ada.waits("document.querySelectorAll('[data-test=lift-ban]').length === 1");
    // Hands come first in the list of people; a host may lower one.
    eve.click(&hook("raise-hand")).unwrap();
    let id = eve.id();
    ada.waits_for(&tile(&id, " [data-test=hand]:not([hidden])"));
    ada.waits(&format!("document.querySelector('[data-test=person]').dataset.id === '{id}'"));
    ada.chooses(&id, "lower-hand");
    eve.waits_for(&tile(&id, " [data-test=hand][hidden]"));
    for person in [&ada, &eve] {
        person.is_calm_but(unauthenticated);
    }
}
