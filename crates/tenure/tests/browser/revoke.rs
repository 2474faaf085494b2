//! Ending a reign by force.

use tenure_testkit::Chromium;

use crate::console::{Console, hook};
use crate::up::{LONG, Up};

#[test]
fn revoking_in_the_dialog_ends_the_lease_and_appears_in_its_history() {
    let up = Up::start();
    let grant = up.acquire("tuner/1", "node-a", LONG);
    let chromium = Chromium::start().unwrap();
    let console = Console::signed_in(&chromium, &up);
    console.open_lease("tuner/1");

    console.click(&hook("revoke")).unwrap();
    console.sees_words(&hook("dialog-facts"), &grant.generation);
    console.click(&hook("dialog-cancel")).unwrap();
    console.sees("!document.querySelector('dialog')");
    assert_eq!(up.one("tuner/1")["state"], "held", "a cancelled dialog does nothing");

    console.click(&hook("revoke")).unwrap();
    console.fill(&hook("field-reason"), "the node is gone").unwrap();
    console.click(&hook("dialog-confirm")).unwrap();
    console.sees_words(&hook("notice"), "Revoked tuner/1");
    console.sees("!document.querySelector('dialog')");

    let now = up.one("tuner/1");
    assert_eq!(now["state"], "delayed", "{now}");
    let left = now["remaining_ms"].as_u64().unwrap();
    assert!(left > LONG / 2 && left <= LONG, "others are kept out for the holder's time: {left}");
    let past = up.reigns("tuner/1");
    assert_eq!(past.last().unwrap()["end"], "revoked");
    assert_eq!(up.renew(&grant, LONG), "lost");

    console.sees_words(&hook("state"), "lock-delay");
    let generation = &grant.generation;
    console.sees_words(
        &format!("[data-test=reign-row][data-generation='{generation}'] [data-test=ended]"),
        "revoked",
    );
    console.sees_element(&format!("[data-test=reign][data-generation='{generation}'] .mark.bad"));
    console.sees_words(&hook("legend"), "revoked by an operator");
    console.sees("document.querySelector('[data-test=revoke]').disabled");
    console.is_calm();
}

#[test]
fn a_revocation_of_an_ended_reign_does_not_revoke_its_successor() {
    let up = Up::start();
    let grant = up.acquire("tuner/1", "node-a", LONG);
    let chromium = Chromium::start().unwrap();
    let console = Console::signed_in(&chromium, &up);
    console.open_lease("tuner/1");
    console.click(&hook("revoke")).unwrap();
    console.fill(&hook("field-reason"), "too slow").unwrap();
    up.release(&grant);
    let next = up.acquire("tuner/1", "node-b", LONG);
    console.click(&hook("dialog-confirm")).unwrap();
    console.sees_words(&hook("dialog-error"), "has a new holder");
    assert_eq!(up.one("tuner/1")["generation"], next.generation.as_str());
    assert_eq!(up.one("tuner/1")["state"], "held");
    console.is_calm_but(|trouble| trouble.text.contains("409"));
}
