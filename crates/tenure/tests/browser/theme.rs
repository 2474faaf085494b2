//! Phones, colours, and what is too long.

use tenure_testkit::{Chromium, ColourScheme};

use crate::console::{Console, hook, row, unauthenticated};
use crate::up::{LONG, Up};

const PHONE: u32 = 360;

/// Fails, naming the culprits, when something is wider than the screen.
fn fits(console: &Console, what: &str) {
    let wide = console
        .evaluate(&format!(
            "document.documentElement.scrollWidth <= {PHONE} && innerWidth <= {PHONE} ? [] : [...document.querySelectorAll('body *')]
               .filter((one) => one.getBoundingClientRect().right > {PHONE}).map((one) => one.outerHTML.slice(0, 100))
               .concat(`${{document.documentElement.scrollWidth}} of ${{innerWidth}}`)"
        ))
        .unwrap();
    assert_eq!(wide, serde_json::json!([]), "{what}");
}

#[test]
fn nothing_scrolls_sideways_on_a_phone() {
    let up = Up::start();
    let long = format!("recordings/{}", "a-rather-long-name-".repeat(12));
    up.claim(&serde_json::json!({
        "key": long, "holder": "h".repeat(128), "ttl_ms": LONG, "meta": format!("{{\"path\":\"{}\"}}", "x".repeat(300)),
    }));
    up.acquire("tuner/1", "node-a", LONG);
    let chromium = Chromium::start().unwrap();
    let console = Console::open(&chromium, &up.url);
    console.screen(PHONE, 740, 2.0, true).unwrap();
    console.sees_element(&hook("login"));
    fits(&console, "the sign-in screen");
    console.sign_in(&up.token);
    console.wait_until_live();
    console.sees_element(&row(&long));
    fits(&console, "the list");
    console.click("[data-test=health] summary").unwrap();
    fits(&console, "the engine's health");
    console.open_lease(&long);
    fits(&console, "a lease");
    console.click(&hook("revoke")).unwrap();
    console.sees_element(&hook("revoke-dialog"));
    fits(&console, "a dialog");
    console.is_calm_but(unauthenticated);
}

/// How bright the page's ground is, from 0 to 255.
fn ground(console: &Console) -> f64 {
    let colour = "getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3).map(Number)";
    console.evaluate(&format!("{colour}.reduce((sum, part) => sum + part) / 3")).unwrap().as_f64().unwrap()
}

#[test]
fn the_theme_follows_the_system_and_a_choice_is_kept() {
    let up = Up::start();
    up.acquire("tuner/1", "node-a", LONG);
    let chromium = Chromium::start().unwrap();
    let console = Console::signed_in(&chromium, &up);
    console.colour_scheme(ColourScheme::Light).unwrap();
    assert!(ground(&console) > 200.0, "light");
    console.colour_scheme(ColourScheme::Dark).unwrap();
    assert!(ground(&console) < 60.0, "dark");
    console.click(&hook("theme")).unwrap();
    console.sees_words(&hook("theme"), "light");
    assert!(ground(&console) > 200.0, "light by choice");
    console.navigate("about:blank").unwrap();
    console.navigate(&up.url).unwrap();
    console.wait_until_live();
    assert!(ground(&console) > 200.0, "the choice is kept");
    console.click(&hook("theme")).unwrap();
    console.sees_words(&hook("theme"), "dark");
    console.colour_scheme(ColourScheme::Light).unwrap();
    assert!(ground(&console) < 60.0, "dark by choice");
    console.is_calm();
}
