//! Signing in and out.

use tenure_testkit::Chromium;

use crate::console::{Console, hook, unauthenticated};
use crate::up::{LONG, Up};

#[test]
fn the_printed_link_signs_in_once_and_leaves_the_address_bar() {
    let up = Up::start();
    let chromium = Chromium::start().unwrap();
    let console = Console::signed_in(&chromium, &up);
    console.sees_element(&hook("empty"));
    console.sees_words(&hook("health-word"), "ready");
    assert_eq!(console.evaluate("location.hash").unwrap(), "#/");
    assert_eq!(console.evaluate("document.cookie").unwrap(), "", "no script can read the session");
    console.is_calm();

    let other = chromium.open_apart(&up.link).unwrap();
    other
        .wait_for("document.querySelector('[data-test=login-error]')?.checkVisibility()", crate::LIMIT)
        .unwrap();
    let words = other.evaluate("document.querySelector('[data-test=login-error]').innerText").unwrap();
    assert!(words.as_str().unwrap().contains("works once"), "{words}");
    assert_eq!(
        other.evaluate("document.querySelector('[data-test=rows]')").unwrap(),
        serde_json::Value::Null
    );
    other
        .expect_no_errors(|page_error| unauthenticated(page_error) || page_error.text.contains("403"))
        .unwrap();
}

#[test]
fn a_token_signs_in_a_wrong_one_does_not_and_signing_out_ends_the_session() {
    let up = Up::start();
    let grant = up.acquire("tuner/1", "node-a", LONG);
    let chromium = Chromium::start().unwrap();
    let console = Console::open(&chromium, &format!("{}/#/lease?key=tuner%2F1", up.url));
    console.sees_element(&hook("login"));
    console.sign_in("not-the-token");
    console.sees_words(&hook("login-error"), "Sign-in failed");
    console.sign_in(&up.token);
    console.sees_words(&hook("lease-key"), "tuner/1");
    console.sees_words(&hook("holder"), "node-a");
    console.sees_words(&hook("generation"), &grant.generation);
    console.wait_until_live();
    let kept = console.evaluate("JSON.stringify([localStorage, sessionStorage])").unwrap();
    assert!(!kept.as_str().unwrap().contains(&up.token), "the token is not kept");

    // The view asks once more while the answer to the sign-out is on its way, and is refused before it is there.
    console
        .evaluate(
            "const ask = window.fetch;
             window.fetch = async (...asked) => {
               const answer = await ask(...asked);
               if (String(asked[0]).includes('logout')) {
                 const refused = new Promise((seen) => (window.refused = seen));
                 document.dispatchEvent(new Event('visibilitychange'));
                 await refused;
               } else if (answer.status === 401) setTimeout(() => window.refused?.());
               return answer;
             }; 0",
        )
        .unwrap();
    console.click(&hook("logout")).unwrap();
    console.sees_element(&hook("login"));
    console.sees("!document.querySelector('[data-test=login-error]').checkVisibility()");
    assert_eq!(console.evaluate("fetch('/whoami').then((answer) => answer.status)").unwrap(), 401);
    console.is_calm_but(unauthenticated);
}
