//! The frame that all pages share: navigation, theme, sign-out and the menu of a phone.

use serde_json::json;
use tenure_testkit::{Chromium, ColourScheme, PageError};

use crate::console::{Console, hook, unauthenticated};
use crate::up::Up;

/// The pages, with their names in the navigation.
const PAGES: [(&str, &str); 6] = [
    ("/#/", "Leases"),
    ("/#/poll", "Polling"),
    ("/control.html", "Control"),
    ("/tv.html", "TV"),
    ("/meet", "Meetings"),
    ("/operations.html", "Operations"),
];

/// The names of the links that are in view.
const LINKS: &str = "[...document.querySelectorAll('#pages a')].filter((link) => link.checkVisibility()).map((link) => link.textContent)";

fn signed_in(chromium: &Chromium, up: &Up) -> Console {
    let console = Console::open(chromium, &up.url);
    console.sees_element(&hook("login"));
    console.sign_in(&up.token);
    console.wait_until_live();
    console
}

/// A session that ended answers so to the pages that still ask.
fn expected(page_error: &PageError) -> bool {
    unauthenticated(page_error)
}

fn current(name: &str) -> String {
    format!("document.querySelector('#pages a[aria-current=page]')?.textContent === {}", json!(name))
}

#[test]
fn all_pages_have_the_same_navigation_theme_and_sign_out() {
    let up = Up::with_everything();
    let chromium = Chromium::start().unwrap();
    let console = signed_in(&chromium, &up);
    let names: Vec<&str> = PAGES.iter().map(|(_, name)| *name).collect();
    for (path, name) in PAGES {
        console.navigate(&format!("{}{path}", up.url)).unwrap();
        console.sees(&current(name));
        assert_eq!(console.evaluate(LINKS).unwrap(), json!(names), "{path}");
        for control in ["theme", "logout", "who"] {
            console.sees_element(&hook(control));
        }
        assert_eq!(
            console.evaluate("document.querySelector('[data-test=menu]').checkVisibility()").unwrap(),
            false
        );
    }
    // A theme that is chosen on one page holds on the others.
    console.click(&hook("theme")).unwrap();
    console.sees_words(&hook("theme"), "light");
    console.navigate(&format!("{}/control.html", up.url)).unwrap();
    console.sees_words(&hook("theme"), "light");
    // A sign-out asks for a sign-in in the same place, and leads back to it.
    console.navigate(&format!("{}/tv.html", up.url)).unwrap();
    console.sees_element(&hook("logout"));
    console.click(&hook("logout")).unwrap();
    console.sees_element(&hook("login-token"));
    console.sign_in(&up.token);
    console.sees_element(&hook("channel"));
    console.is_calm_but(expected);
}

#[test]
fn the_navigation_links_only_to_services_that_run_here() {
    let up = Up::with_control();
    let chromium = Chromium::start().unwrap();
    let console = signed_in(&chromium, &up);
    assert_eq!(console.evaluate(LINKS).unwrap(), json!(["Leases", "Control"]));
    console.is_calm_but(expected);
}

#[test]
fn a_phone_has_the_navigation_in_a_menu() {
    let up = Up::with_everything();
    let chromium = Chromium::start().unwrap();
    let console = signed_in(&chromium, &up);
    console.screen(390, 780, 2.0, true).unwrap();
    for scheme in [ColourScheme::Light, ColourScheme::Dark] {
        console.colour_scheme(scheme).unwrap();
        for (path, name) in PAGES {
            console.navigate(&format!("{}{path}", up.url)).unwrap();
            console.sees(&current(name));
            console.sees_words(&hook("here"), name);
            assert_eq!(console.evaluate(LINKS).unwrap(), json!([]), "{path}");
            console.sees("document.documentElement.scrollWidth <= innerWidth");
        }
    }
    console.click(&hook("menu")).unwrap();
    console.sees_element(&hook("page-leases"));
    console.sees_element(&hook("logout"));
    console.press("Escape").unwrap();
    console.sees("!document.querySelector('[data-test=page-leases]').checkVisibility()");
    console.sees("document.activeElement.dataset.test === 'menu'");
    console.click(&hook("menu")).unwrap();
    console.click(&hook("page-leases")).unwrap();
    console.sees(&current("Leases"));
    console.is_calm_but(expected);
}
