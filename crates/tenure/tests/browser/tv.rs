//! The TV page: playback, two tuners, and a third channel.

use serde_json::json;
use tenure_testkit::{Chromium, ColourScheme, PageError};

use crate::console::{Console, hook, unauthenticated};
use crate::screenshots::take;
use crate::up::Up;

/// Signs in with the administrator's token and opens the page.
fn open(chromium: &Chromium, up: &Up) -> Console {
    let console = Console::open(chromium, &up.url);
    console.sees_element(&hook("login"));
    console.sign_in(&up.token);
    console.wait_until_live();
    console.navigate(&format!("{}/tv.html", up.url)).unwrap();
    console.wait_until_live();
    console.sees("document.querySelectorAll('[data-test=channel]').length > 2");
    console
}

fn channel(number: u32) -> String {
    format!("[data-test=channels] li:nth-child({number}) button")
}

fn screen(state: &str) -> String {
    format!("[data-test=screen][data-state={state}]")
}

fn tuner(number: u32, busy: bool) -> String {
    format!("[data-test=tuner][data-slot=\"Tuner {number}\"][data-busy={busy}]")
}

/// Waits until playback advances.
fn moves(page: &Console) {
    page.sees_element(&screen("playing"));
    page.evaluate("window.before = document.querySelector('[data-test=video]').currentTime; 0").unwrap();
    page.sees("document.querySelector('[data-test=video]').currentTime > before + 0.5");
    page.sees("document.querySelector('[data-test=video]').videoWidth > 0");
}

/// What a session that ended answers to those who still ask.
fn gone(page_error: &PageError) -> bool {
    unauthenticated(page_error) || page_error.text.contains("410") || page_error.text.contains("404")
}

#[test]
fn a_channel_plays_until_it_is_stopped_and_a_third_finds_no_tuner() {
    let up = Up::with_tv();
    let chromium = Chromium::start().unwrap();
    let page = open(&chromium, &up);
    page.sees_words(&hook("free"), "2 of 2 tuners free");
    page.click(&channel(1)).unwrap();
    moves(&page);
    page.sees_element(&tuner(1, true));
    page.sees_words(&hook("free"), "1 of 2 tuners free");
    page.click(&channel(2)).unwrap();
    page.sees_element(&tuner(2, true));
    page.sees(&format!("document.querySelector({:?}).ariaCurrent === 'true'", channel(2)));
    moves(&page);
    page.sees_words(&hook("free"), "no tuner free");

    page.click(&channel(3)).unwrap();
    page.sees_words(&hook("refusal"), "Both tuners are in use; stop another channel first.");
    page.sees_element(&screen("ended"));
    // The list may have been asked for before the refusal, and then shows it as waiting until it is asked for again.
    page.sees("document.querySelectorAll('[data-test=tuner][data-busy=true]').length === 2");

    // The first channel was never stopped: go back to it, and end it from there.
    page.click(&format!("{} [data-test=watch]", tuner(1, true))).unwrap();
    moves(&page);
    page.click(&hook("stop")).unwrap();
    page.sees_element(&screen("ended"));
    page.sees_words(&hook("curtain"), "Stopped.");
    page.sees_element(&tuner(1, false));
    page.sees("document.querySelector('[data-test=refusal]').hidden");
    page.click(&channel(3)).unwrap();
    moves(&page);
    page.click(&format!("{} [data-test=end]", tuner(2, true))).unwrap();
    page.sees_element(&tuner(2, false));
    page.sees_words(&hook("free"), "1 of 2 tuners free");
    page.is_calm_but(gone);
}

#[test]
fn the_page_follows_changes_by_others_and_works_with_the_keyboard() {
    let up = Up::with_tv();
    let chromium = Chromium::start().unwrap();
    let page = open(&chromium, &up);
    page.evaluate("document.querySelector('[data-test=channel]').focus(); 0").unwrap();
    page.press("Enter").unwrap();
    moves(&page);
    page.press("m").unwrap();
    page.sees("document.querySelector('[data-test=video]').muted");
    let (_, list) = up.http("GET", "/api/v3/sessions", None);
    let session = list["sessions"][0]["sessionId"].as_str().unwrap().to_owned();
    let lease = up.one("lease:tuner:0");
    assert_eq!(lease["holder"], json!(session));
    up.revoke("lease:tuner:0", lease["generation"].as_str().unwrap(), 0);
    page.sees_words(&hook("refusal"), "The tuner lease was lost");
    page.sees_element(&tuner(1, false));
    page.is_calm_but(gone);
}

#[test]
fn screenshot_of_the_tv_page() {
    let up = Up::with_tv();
    let chromium = Chromium::start().unwrap();
    let page = open(&chromium, &up);
    page.click(&channel(2)).unwrap();
    moves(&page);
    page.click(&channel(1)).unwrap();
    page.sees_element(&tuner(2, true));
    moves(&page);
    page.colour_scheme(ColourScheme::Light).unwrap();
    page.screen(1120, 760, 1.0, false).unwrap();
    take(&page, "tv.png");
    page.colour_scheme(ColourScheme::Dark).unwrap();
    take(&page, "tv-dark.png");
    page.screen(390, 844, 1.5, true).unwrap();
    page.evaluate("scrollTo(0, 0)").unwrap();
    let wide = page.evaluate("document.documentElement.scrollWidth <= 390").unwrap();
    assert_eq!(wide, json!(true), "nothing scrolls sideways on a phone");
    take(&page, "tv-phone.png");
    page.is_calm_but(gone);
}
