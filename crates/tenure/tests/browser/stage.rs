//! The stage of a meeting: many tiles on a small screen, pages, pins, and a phone.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde_json::json;
use tenure_keeper::OsEntropy;
use tenure_meet_client::join_api::RestJoinApi;
use tenure_meet_client::{Client, Events, Options};
use tenure_meet_wire::transport::quic::{Dialer, Timing};
use tenure_store::BootClock;
use tenure_testkit::Chromium;
use tokio::runtime::Runtime;

use crate::console::{hook, unauthenticated};
use crate::person::{Person, tile};
use crate::up::Up;

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Guests without a page, who stay until they are dropped.
struct Guests {
    clients: Vec<(Client, Events)>,
    runtime: Runtime,
}

impl Guests {
    fn none() -> Self {
        tenure_service::install_crypto();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self { clients: Vec::new(), runtime: runtime.unwrap() }
    }

    /// Lets guests join until there are so many.
    fn grow(&mut self, up: &Up, link: &str, count: usize) {
        let code = link.rsplit('/').next().unwrap();
        while self.clients.len() < count {
            let name = format!("Person {}", self.clients.len() + 1);
            let join_api = RestJoinApi::guest(&up.url, code, &name, Arc::new(BootClock)).unwrap();
            let options = Options::new(&name, Arc::new(BootClock), Arc::new(OsEntropy));
            let joined = self.runtime.block_on(async {
                let dialer = Dialer::new(ANY, Timing::default()).unwrap();
                Client::join(Arc::new(join_api), Arc::new(dialer), options).await
            });
            self.clients.push(joined.unwrap());
        }
    }

    /// The participant id of the last one.
    fn last(&self) -> String {
        self.clients.last().unwrap().0.own().unwrap().participant_id
    }
}

#[test]
fn twenty_five_tiles_fit_a_small_laptop_and_a_tile_can_be_pinned() {
    let (up, _proxy) = Up::with_meetings();
    let chromium = Chromium::start().unwrap();
    let (ada, link) = Person::host(&chromium, &up);
    ada.screen(1280, 800, 1.0, false).unwrap();
    let mut guests = Guests::none();
    guests.grow(&up, &link, 24);
    ada.sees_people(25);
    let outside = ada.evaluate(
        "(() => { const stage = document.querySelector('[data-test=stage]').getBoundingClientRect();
           return [...document.querySelectorAll('[data-test=participant]')].map((one) => one.getBoundingClientRect())
             .filter((box) => box.width < 100 || box.top < stage.top || box.bottom > stage.bottom || box.left < stage.left || box.right > stage.right).length; })()",
    );
    assert_eq!(outside.unwrap(), json!(0));
    guests.grow(&up, &link, 27);
    ada.sees_words(&hook("page-place"), "1 of 2");
    ada.click(&hook("page-next")).unwrap();
    ada.sees_people(3);
    let id = guests.last();
    ada.chooses(&id, "pin");
    ada.waits_for(&format!("[data-test=stage][data-view=speaker][data-pinned='{id}']"));
    ada.chooses(&id, "pin");
    ada.waits_for("[data-test=stage][data-view=grid]");
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
    let eve = Person::lobby(&chromium, &link);
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
