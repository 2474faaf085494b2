//! The time left, as the page shows it.

use serde_json::json;
use tenure_testkit::Chromium;

use crate::console::{Console, row};
use crate::up::Up;

const TTL: u64 = 50_000;

/// Reads the shown time in milliseconds and records it every frame with the time of the page's own clock.
const RECORD: &str = "(selector) => {
  window.left = () => {
    const words = document.querySelector(selector)?.textContent ?? '';
    const short = /^([0-9.]+) s$/.exec(words), clock = /^([0-9]+):([0-9]+) min$/.exec(words);
    return short ? Number(short[1]) * 1000 : clock ? (Number(clock[1]) * 60 + Number(clock[2])) * 1000 : null;
  };
  window.seen = [];
  const asked = () => performance.getEntriesByType('resource').filter((one) => one.name.includes('/v1/leases?'));
  const before = asked().length;
  window.refreshes = () => asked().length - before;
  window.slowest = () => Math.max(...asked().map((one) => one.duration));
  (function frame() { if (left() !== null) seen.push([performance.now(), left()]); requestAnimationFrame(frame); })();
}";

#[test]
fn the_countdown_falls_smoothly_and_only_a_renewal_raises_it() {
    let up = Up::start();
    let grant = up.acquire("tuner/1", "node-a", TTL);
    let chromium = Chromium::start().unwrap();
    let console = Console::signed_in(&chromium, &up);
    console.sees_element(&row("tuner/1"));
    let place = format!("{} [data-test=countdown]", row("tuner/1"));
    console.evaluate(&format!("({RECORD})({})", json!(place))).unwrap();
    // Long enough for several answers of the server to disagree with the page's own counting, if they could.
    console.sees("seen.length > 1 && refreshes() >= 2 && seen[0][1] - seen.at(-1)[1] >= 4000");

    let seen = console.evaluate("seen").unwrap();
    let seen: Vec<(f64, f64)> = serde_json::from_value(seen).unwrap();
    let jumps: Vec<_> = seen.windows(2).filter(|two| two[1].1 > two[0].1).collect();
    assert!(jumps.is_empty(), "it went up without a renewal: {jumps:?}");
    let (first, last) = (seen[0], seen[seen.len() - 1]);
    let (passed, counted) = (last.0 - first.0, first.1 - last.1);
    // A tenth of a second is not shown; a quicker answer may tighten an estimate from a slow one.
    let late = console.evaluate("slowest()").unwrap().as_f64().unwrap() + 2_000.0;
    assert!(counted > passed - 150.0 && counted < passed + late, "{counted} in {passed} ms");

    // What is shown is what the store says, no more than a slow answer late.
    let before = up.one("tuner/1")["remaining_ms"].as_f64().unwrap();
    let shown = console.evaluate("left()").unwrap().as_f64().unwrap();
    let after = up.one("tuner/1")["remaining_ms"].as_f64().unwrap();
    assert!(shown > after - 250.0 && shown < before + late, "{before} {shown} {after}");

    assert_eq!(up.renew(&grant, 2 * TTL), "renewed");
    console.sees(&format!("left() > {TTL}"));
    console.sees_element(&format!("{}[data-state=held]", row("tuner/1")));
    console.is_calm();
}

#[test]
fn a_lease_that_is_not_renewed_counts_down_to_its_expiry() {
    let up = Up::start();
    let chromium = Chromium::start().unwrap();
    let console = Console::signed_in(&chromium, &up);
    console.record_states();
    up.acquire("tuner/1", "node-a", 3_000);
    console.sees("states.has('held') && states.has('free · expired')");
    console.is_calm();
}
