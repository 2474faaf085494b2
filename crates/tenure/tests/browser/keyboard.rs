//! Everything without a mouse.

use tenure_testkit::Chromium;

use crate::console::{Console, hook};
use crate::up::{LONG, Up};

#[test]
fn a_lease_can_be_found_opened_and_revoked_with_the_keyboard() {
    let up = Up::start();
    for key in ["camera/1", "tuner/1", "tuner/2"] {
        up.acquire(key, "node-a", LONG);
    }
    let chromium = Chromium::start().unwrap();
    let console = Console::signed_in(&chromium, &up);
    console.sees("document.querySelectorAll('[data-test=row]').length === 3");
    console.press("/").unwrap();
    console.sees("document.activeElement.dataset.test === 'search'");
    for letter in ["t", "u", "n"] {
        console.press(letter).unwrap();
    }
    console.sees("document.querySelectorAll('[data-test=row]').length === 2");
    console.press("ArrowDown").unwrap();
    console.press("ArrowDown").unwrap();
    console.sees("document.activeElement.textContent === 'tuner/2'");
    console.press("Enter").unwrap();
    console.sees_words(&hook("lease-key"), "tuner/2");
    console.sees_element("[data-test=revoke]:enabled");

    for _ in 0..20 {
        if console.evaluate("document.activeElement.dataset.test === 'revoke'").unwrap() == true {
            break;
        }
        console.press("Tab").unwrap();
    }
    assert_eq!(console.evaluate("document.activeElement.dataset.test").unwrap(), "revoke", "Tab gets there");
    console.press("Enter").unwrap();
    console.sees("document.activeElement.dataset.test === 'field-reason'");
    console.press("x").unwrap();
    console.press("Enter").unwrap();
    console.sees_words(&hook("notice"), "Revoked tuner/2");
    assert_eq!(up.one("tuner/2")["state"], "delayed");
    console.press("Escape").unwrap();
    console.sees_element(&hook("rows"));
    assert_eq!(console.evaluate("location.hash").unwrap(), "#/?prefix=tun");
    console.is_calm();
}
