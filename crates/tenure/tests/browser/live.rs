//! What happens outside is seen without touching the page.

use serde_json::json;
use tenure_testkit::Chromium;

use crate::console::{Console, hook, row};
use crate::up::{LONG, Up};

#[test]
fn lease_changes_appear_live() {
    let up = Up::start();
    let chromium = Chromium::start().unwrap();
    let console = Console::signed_in(&chromium, &up);
    console.sees_element(&hook("empty"));
    console.record_states();
    let loads = "performance.getEntriesByType('navigation').length";
    let before = console.evaluate(loads).unwrap();

    let grant =
        up.claim(&json!({ "key": "tuner/1", "holder": "node-a", "ttl_ms": LONG, "meta": "recording" }));
    console.sees_words(&row("tuner/1"), "node-a");
    console.sees_words(&row("tuner/1"), &grant.generation);
    console.sees_element(&format!("{}[data-state=held]", row("tuner/1")));
    console.sees_words(&hook("count"), "1 lease in use");
    console.sees_words(&hook("feed"), "granted");

    let waiter = up.park("tuner/1", "node-b", LONG);
    console.sees_words(&format!("{} [data-test=waiters]", row("tuner/1")), "1");
    up.transfer(&grant, "node-b");
    console.sees_words(&format!("{} [data-test=holder]", row("tuner/1")), "node-b");
    console.sees_words(&hook("feed"), "transferred");
    let successor = waiter.join().unwrap().unwrap();
    up.release(&successor);
    console.sees("states.has('free · released')");
    console.sees_words(&hook("feed"), "released");
    console.sees_element(&hook("empty"));
    assert_eq!(console.evaluate(loads).unwrap(), before, "the page was not loaded again");
    console.is_calm();
}

#[test]
fn the_list_is_filtered_by_prefix() {
    let up = Up::start();
    for key in ["camera/1", "tuner/1", "tuner/2"] {
        up.acquire(key, "node-a", LONG);
    }
    let chromium = Chromium::start().unwrap();
    let console = Console::signed_in(&chromium, &up);
    console.sees("document.querySelectorAll('[data-test=row]').length === 3");
    console.sees("document.querySelectorAll('#pages [aria-current=page]').length === 1");
    console.fill(&hook("search"), "tuner/").unwrap();
    console.sees("document.querySelectorAll('[data-test=row]').length === 2");
    assert_eq!(console.evaluate("location.hash").unwrap(), "#/?prefix=tuner%2F");
    up.acquire("camera/2", "node-b", LONG);
    up.acquire("tuner/3", "node-b", LONG);
    console.sees_element(&row("tuner/3"));
    assert_eq!(console.evaluate("document.querySelectorAll('[data-test=row]').length").unwrap(), 3);
    console.is_calm();
}
