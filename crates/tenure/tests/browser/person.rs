//! A participant's page.

use std::time::Duration;

use serde_json::{Value, json};
use tenure_testkit::Chromium;

use crate::console::{Console, hook};
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
        let person = Self::signed_in(chromium, up);
        person.fill(&hook("create-name"), "Tea at five").unwrap();
        person.click(&hook("create")).unwrap();
        person.enter("Ada");
        let link = person.evaluate("location.href").unwrap();
        (person, link.as_str().unwrap().to_owned())
    }

    /// On the start page, signed in.
    pub(crate) fn signed_in(chromium: &Chromium, up: &Up) -> Self {
        let person = Self(Console::open_apart(chromium, &format!("{}/meet", up.url)));
        person.sees_element(&hook("login-token"));
        person.sign_in(&up.token);
        person.sees_element(&hook("create-name"));
        person
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

    pub(crate) fn sees_people(&self, count: usize) {
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

    pub(crate) fn says(&self, words: &str) {
        self.fill(&hook("chat-text"), words).unwrap();
        self.press("Enter").unwrap();
        let said = "[...document.querySelectorAll('[data-test=chat] li p')].some((p) => p.textContent === ";
        self.waits(&format!("{said}{})", json!(words)));
    }

    /// Everything that was said, once there is so much of it.
    pub(crate) fn heard(&self, count: usize) -> Value {
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
