//! The page of meetings: three people, a host's controls, and a network that goes away.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_testkit::{Chromium, ColourScheme, has_udp_port};

use crate::console::{Console, hook, unauthenticated};
use crate::screenshots::take;
use crate::up::Up;

/// A lost connection is noticed after seconds, on a loaded machine after more.
const LIMIT: Duration = Duration::from_secs(60);

/// A participant's page, with cookies and storage of its own.
pub(crate) struct Person(Console);

impl std::ops::Deref for Person {
    type Target = Console;

    fn deref(&self) -> &Console {
        &self.0
    }
}

impl Person {
    /// Signs in, makes a meeting and joins it: the host, and where others join.
    pub(crate) fn host(chromium: &Chromium, up: &Up) -> (Self, String) {
        let person = Self(Console::open_apart(chromium, &format!("{}/meet", up.url)));
        person.sees_element(&hook("login-token"));
        person.sign_in(&up.token);
        person.sees_element(&hook("create-name"));
        person.fill(&hook("create-name"), "Tea at five").unwrap();
        person.click(&hook("create")).unwrap();
        person.enter("Ada");
        let link = person.evaluate("location.href").unwrap();
        (person, link.as_str().unwrap().to_owned())
    }

    /// Joins by the link, without an account.
    pub(crate) fn guest(chromium: &Chromium, link: &str, name: &str) -> Self {
        let person = Self(Console::open_apart(chromium, link));
        person.enter(name);
        person
    }

    /// In the lobby, without an account.
    pub(crate) fn lobby(chromium: &Chromium, link: &str) -> Self {
        Self(Console::open_apart(chromium, link))
    }

    /// From the lobby into the meeting.
    pub(crate) fn enter(&self, name: &str) {
        self.waits_for(&hook("join-name"));
        self.fill(&hook("join-name"), name).unwrap();
        self.click(&hook("join")).unwrap();
        self.waits_for(&hook("room"));
        self.waits_for("[data-test=connection][data-state=live]");
    }

    pub(crate) fn waits_for(&self, selector: &str) {
        self.waits(&format!("document.querySelector({})", json!(selector)));
    }

    pub(crate) fn waits(&self, condition: &str) {
        if let Err(error) = self.wait_for(condition, LIMIT) {
            panic!("{error:#}");
        }
    }

    fn sees_people(&self, count: usize) {
        self.waits(&format!("document.querySelectorAll('[data-test=participant]').length === {count}"));
    }

    /// Chooses an entry of the menu of a tile, as a host does.
    pub(crate) fn chooses(&self, id: &str, entry: &str) {
        let menu = tile(id, " [data-test=tile-menu]");
        self.hover(&tile(id, "")).unwrap();
        self.click(&menu).unwrap();
        self.click(&hook(entry)).unwrap();
    }

    /// The participant id of this page.
    pub(crate) fn id(&self) -> String {
        let own =
            self.wait_for("document.querySelector('[data-test=participant][data-own]')?.dataset.id", LIMIT);
        own.unwrap().as_str().unwrap().to_owned()
    }

    fn says(&self, words: &str) {
        self.fill(&hook("chat-text"), words).unwrap();
        self.press("Enter").unwrap();
        let said = "[...document.querySelectorAll('[data-test=chat] li p')].some((p) => p.textContent === ";
        self.waits(&format!("{said}{})", json!(words)));
    }

    /// Everything that was said, once there is so much of it.
    fn heard(&self, count: usize) -> Value {
        self.waits(&format!("document.querySelectorAll('[data-test=chat] li[data-seq]').length >= {count}"));
        let said =
            "[...document.querySelectorAll('[data-test=chat] li[data-seq] p')].map((p) => p.textContent)";
        self.evaluate(said).unwrap()
    }
}

/// The selector of a participant's tile, or of something in it.
pub(crate) fn tile(id: &str, rest: &str) -> String {
    format!("[data-test=participant][data-id='{id}']{rest}")
}

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
        person.is_calm_but(|trouble| unauthenticated(trouble) || trouble.url.contains("/wt/"));
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
    let zoe = Person(Console::open_apart(&chromium, &link));
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
    let ada = Person(Console::open_apart(&chromium, &format!("{}/meet", up.url)));
    ada.sees_element(&hook("login-token"));
    ada.sign_in(&up.token);
    ada.sees_element(&hook("create-name"));
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

/// The bottom of an element, and the height of the window.
fn fits(person: &Person, selector: &str) {
    let inside = format!(
        "(() => {{ const box = document.querySelector({})?.getBoundingClientRect();
           return box && box.width > 0 && box.top >= 0 && box.bottom <= innerHeight && box.right <= innerWidth; }})()",
        json!(selector)
    );
    person.waits(&inside);
}

#[test]
fn on_a_phone_the_way_in_and_the_controls_are_in_view() {
    let (up, _proxy) = Up::with_meetings();
    let chromium = Chromium::builder().camera().start().unwrap();
    let (ada, link) = Person::host(&chromium, &up);
    let eve = Person(Console::open_apart(&chromium, &link));
    eve.screen(390, 664, 2.0, true).unwrap();
    eve.click(&hook("preview-video")).unwrap();
    eve.waits("document.querySelector('[data-test=preview]').videoWidth > 0");
    fits(&eve, &hook("join"));
    eve.enter("Eve");
    eve.sees_people(2);
    for control in ["mute-audio", "mute-video", "leave", "show-chat", "show-people", "more"] {
        fits(&eve, &hook(control));
    }
    fits(&eve, &tile(&ada.id(), ""));
    eve.sees("document.documentElement.scrollWidth <= innerWidth");
    // The chat covers the stage, counts what is missed, and goes away again.
    ada.says("unread");
    eve.sees_words("[data-test=show-chat] .badge", "1");
    eve.click(&hook("show-chat")).unwrap();
    assert_eq!(eve.heard(1), json!(["unread"]));
    eve.click(&hook("panel-close")).unwrap();
    fits(&eve, &tile(&ada.id(), ""));
    for person in [&ada, &eve] {
        person.is_calm_but(unauthenticated);
    }
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
fn twenty_five_tiles_fit_a_small_laptop_and_a_tile_can_be_pinned() {
    let (up, _proxy) = Up::with_meetings();
    let chromium = Chromium::start().unwrap();
    let (ada, _) = Person::host(&chromium, &up);
    ada.screen(1280, 800, 1.0, false).unwrap();
    // The people are made up: the stage does not know the difference.
    ada.evaluate("document.querySelector('[data-test=room]').meeting.pretend(25); 0").unwrap();
    ada.sees_people(25);
    let outside = ada.evaluate(
        "(() => { const stage = document.querySelector('[data-test=stage]').getBoundingClientRect();
           return [...document.querySelectorAll('[data-test=participant]')].map((one) => one.getBoundingClientRect())
             .filter((box) => box.width < 100 || box.top < stage.top || box.bottom > stage.bottom || box.left < stage.left || box.right > stage.right).length; })()",
    );
    assert_eq!(outside.unwrap(), json!(0));
    ada.evaluate("document.querySelector('[data-test=room]').meeting.pretend(30); 0").unwrap();
    ada.sees_words(&hook("page-place"), "1 of 2");
    ada.click(&hook("page-next")).unwrap();
    ada.sees_people(5);
    ada.chooses("pretended-29", "pin");
    ada.waits_for("[data-test=stage][data-view=speaker][data-pinned=pretended-29]");
    ada.chooses("pretended-29", "pin");
    ada.waits_for("[data-test=stage][data-view=grid]");
    ada.is_calm_but(unauthenticated);
}

#[test]
fn a_guest_waits_until_a_host_lets_it_in_and_raises_its_hand() {
    let (up, _proxy) = Up::with_meetings();
    let chromium = Chromium::start().unwrap();
    let ada = Person(Console::open_apart(&chromium, &format!("{}/meet", up.url)));
    ada.sees_element(&hook("login-token"));
    ada.sign_in(&up.token);
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
