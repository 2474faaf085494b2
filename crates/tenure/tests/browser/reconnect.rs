//! A page that stays open while the server or the way to it is gone.

use std::net::SocketAddr;

use tenure_testkit::{Chromium, PageError, Proxy, free_port};

use crate::console::{Console, hook, row, unauthenticated};
use crate::up::{LONG, Up};

/// A request that failed because the server was down.
fn away(page_error: &PageError) -> bool {
    page_error.text.contains("net::ERR_")
}

#[test]
fn when_the_way_to_the_server_is_back_the_page_is_live_again_by_itself() {
    let port = free_port().unwrap();
    let server = SocketAddr::from(([127, 0, 0, 1], port));
    let proxy = Proxy::start(server).unwrap();
    let up = Up::listening(&server.to_string(), vec![proxy.url_for_http()]);
    up.acquire("tuner/1", "node-a", LONG);
    let chromium = Chromium::start().unwrap();
    let console = Console::open(&chromium, &up.link.replace(&up.url, &proxy.url_for_http()));
    console.wait_until_live();
    console.sees_element(&row("tuner/1"));

    proxy.refuse().unwrap();
    proxy.cut().unwrap();
    console.sees_element("[data-test=connection][data-state=reconnecting]");
    console.sees_words(&hook("list-error"), "Showing the last known state");
    console.sees_element(&row("tuner/1"));
    up.acquire("tuner/2", "node-b", LONG);

    proxy.accept().unwrap();
    console.wait_until_live();
    console.sees_element(&row("tuner/2"));
    console.sees("!document.querySelector('[data-test=list-error]').checkVisibility()");
    up.acquire("tuner/3", "node-c", LONG);
    console.sees_element(&row("tuner/3"));
    console.is_calm_but(away);
}

/// The server was killed, so what it knows of the session is what it had written before it answered.
#[test]
fn after_a_restart_the_page_goes_on_with_the_lease_that_survived_and_nobody_signs_in_again() {
    let up = Up::start();
    let grant = up.acquire("tuner/1", "node-a", LONG);
    let chromium = Chromium::start().unwrap();
    let console = Console::signed_in(&chromium, &up);
    console.open_lease("tuner/1");
    console.evaluate("window.same = true").unwrap();

    up.kill9();
    console.sees_element("[data-test=connection][data-state=reconnecting]");
    console.sees_words(&hook("lease-error"), "Showing the last known state");
    let up = up.restart();
    console.sees_words(&hook("lease-key"), "tuner/1");
    console.wait_until_live();
    console.sees_words(&hook("holder"), "node-a");
    console.sees_words(&hook("generation"), &grant.generation);
    assert_eq!(console.evaluate("window.same").unwrap(), true, "the page was not reloaded");

    console.click(&hook("back")).unwrap();
    console.sees_element(&row("tuner/1"));
    console.wait_until_live();
    assert_eq!(up.renew(&grant, LONG), "renewed");
    up.acquire("tuner/2", "node-b", LONG);
    console.sees_element(&row("tuner/2"));
    console.is_calm_but(away);
}

#[test]
fn when_a_restart_has_lost_the_sessions_the_page_asks_to_sign_in_and_goes_on_where_it_was() {
    let up = Up::start();
    up.acquire("tuner/1", "node-a", LONG);
    let chromium = Chromium::start().unwrap();
    let console = Console::signed_in(&chromium, &up);
    console.open_lease("tuner/1");
    up.kill9();
    up.damage_sessions();
    let up = up.restart();
    console.sees_words(&hook("login-error"), "Your session has expired");
    console.sign_in(&up.token);
    console.sees_words(&hook("lease-key"), "tuner/1");
    console.wait_until_live();
    console.is_calm_but(|page_error| away(page_error) || unauthenticated(page_error));
}
